"""What the papers say, beside what was measured: a difference counts when it is larger than the seeds' spread."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lengths import BUCKET_NAMES

Results = Mapping[str, Mapping[int, Mapping[str, Any]]]  # entry → seed → its result.json
Values = Mapping[int, float]  # seed → what was measured

SHORT, LONG = BUCKET_NAMES[0], BUCKET_NAMES[-1]
FIXED_VECTOR, ATTENTION = ("cho2014", "sutskever2014"), ("bahdanau2015", "luong2015")


class Finding(NamedTuple):
    """One claim with its numbers, in points of BLEU."""

    letter: str
    claim: str
    difference: float | None  # the mean over seeds; None where an entry was not measured
    low: float = 0.0
    high: float = 0.0
    spread: float = 0.0  # the largest distance between two seeds of the same entry
    seeds: int = 0
    is_equality: bool = False  # the claim is that there is no difference

    @property
    def verdict(self) -> str:
        """`shown` or `not shown`; one seed has no spread and shows nothing."""
        if self.difference is None:
            return "not measured"
        is_larger = self.difference > self.spread
        return "shown" if self.seeds > 1 and is_larger != self.is_equality else "not shown"


def findings(results: Results) -> list[Finding]:
    """The four claims, each taken apart into what can be measured."""
    overall = {name: {seed: one["bleu_lowercased"] for seed, one in seeds.items()} for name, seeds in results.items()}
    falls = {name: _falls(seeds) for name, seeds in results.items()}
    bleu, fall = overall.get, falls.get
    found = [
        _compare(
            "a",
            "reversing the source helps the LSTM without attention",
            bleu("sutskever2014"),
            bleu("sutskever2014-forward"),
        )
    ]
    found += [_falling(f"{name} loses on long sentences", fall(name)) for name in FIXED_VECTOR]
    found += [
        _compare("b", f"{name} loses less than {other}", fall(other), fall(name))
        for name, other in zip(ATTENTION, FIXED_VECTOR, strict=True)
    ]
    found += [
        _falling(f"{name} does not lose on long sentences", fall(name))._replace(is_equality=True) for name in ATTENTION
    ]
    found += [
        _compare("c", "input feeding helps", bleu("luong2015"), bleu("luong2015-unfed")),
        _compare("c", "local-p is better than global attention", bleu("luong2015-local-p"), bleu("luong2015")),
        _compare("d", "residual connections rescue 8 layers", bleu("lstm8-residual"), bleu("lstm8-plain")),
    ]
    return found


def claims_table(found: Sequence[Finding]) -> str:
    """The findings in Markdown."""
    rows = [
        "| | claim | difference (range over seeds) | spread | seeds | |",
        "|---|---|---|---|---|---|",
    ]
    for one in found:
        measured = "" if one.difference is None else f"{one.difference:+.2f} ({one.low:+.2f} to {one.high:+.2f})"
        spread = "" if one.difference is None else f"{one.spread:.2f}"
        rows.append(f"| {one.letter} | {one.claim} | {measured} | {spread} | {one.seeds} | **{one.verdict}** |")
    return "\n".join(rows)


def _falls(seeds: Mapping[int, Mapping[str, Any]]) -> dict[int, float]:
    """How much less BLEU a system has on its longest sentences than on its shortest."""
    found = {seed: [one["lengths"][name]["bleu_lowercased"] for name in (SHORT, LONG)] for seed, one in seeds.items()}
    return {seed: short - long for seed, (short, long) in found.items() if short is not None and long is not None}


def _compare(letter: str, claim: str, better: Values | None, worse: Values | None) -> Finding:
    """By how much one is above the other, seed by seed."""
    seeds = sorted(set(better or ()) & set(worse or ()))
    if not seeds or better is None or worse is None:
        return Finding(letter, claim, None)
    differences = [better[seed] - worse[seed] for seed in seeds]
    return _finding(letter, claim, differences, spread=max(_spread(side, seeds) for side in (better, worse)))


def _falling(claim: str, falls: Values | None) -> Finding:
    if not falls:
        return Finding("b", claim, None)
    return _finding("b", claim, list(falls.values()), spread=_spread(falls, list(falls)))


def _finding(letter: str, claim: str, differences: Sequence[float], *, spread: float) -> Finding:
    mean = sum(differences) / len(differences)
    return Finding(letter, claim, mean, min(differences), max(differences), spread, len(differences))


def _spread(values: Values, seeds: Sequence[int]) -> float:
    return max(values[seed] for seed in seeds) - min(values[seed] for seed in seeds)
