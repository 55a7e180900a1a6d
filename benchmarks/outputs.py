"""Compares the outputs of contenders, and reports where they differ."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest

Outputs = Mapping[str, Sequence[bytes]]  # by contender, one a round


def differing_lines(ours: bytes, theirs: bytes) -> list[int]:
    """The numbers, from 1, of the lines that differ; a line that only one of the outputs has counts as different."""
    pairs = zip_longest(ours.split(b"\n"), theirs.split(b"\n"))
    return [number for number, (our, their) in enumerate(pairs, start=1) if our != their]


def comparison_of(outputs: Outputs, name: str, *, base: str) -> str:
    """A short comparison of a contender's first output with that of `base`."""
    ours, theirs = outputs[base][0], outputs[name][0]
    if name == base:
        return "–"
    if ours == theirs:
        return "same bytes"
    differing, lines = len(differing_lines(ours, theirs)), ours.count(b"\n")
    return f"{differing:,} of {lines:,} lines differ"


def remarks_on(outputs: Outputs, *, base: str, beam: int) -> list[str]:
    """A sentence for each contender whose output differs from that of `base`, or from round to round."""
    remarks = []
    for name, rounds in outputs.items():
        changed = [number for number, output in enumerate(rounds, start=1) if output != rounds[0]]
        if changed:
            remarks.append(f"Beam {beam}: {name} wrote different output in round {changed[0]} than in its first.")
        if name != base and rounds[0] != outputs[base][0]:
            remarks.append(f"Beam {beam}: {_first_difference(outputs, name, base=base)}")
    return remarks


def _first_difference(outputs: Outputs, name: str, *, base: str) -> str:
    ours, theirs = outputs[base][0], outputs[name][0]
    number = differing_lines(ours, theirs)[0]
    return f"line {number} is {_line(ours, number)!r} by {base} and {_line(theirs, number)!r} by {name}."


def _line(output: bytes, number: int) -> str:
    lines = output.split(b"\n")
    return lines[number - 1].decode("utf-8", errors="replace") if number <= len(lines) else ""
