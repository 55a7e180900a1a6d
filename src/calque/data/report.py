"""The report of a check as plain text."""

from collections import Counter
from collections.abc import Iterator

from calque.data.check import CheckReport, CorpusReport
from calque.data.length_statistics import Lengths

_BAR = 32  # characters
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def report_lines(report: CheckReport) -> list[str]:
    """The report, line by line."""
    return [line for part in (*map(_corpus, report.corpora), _across(report)) for line in part]


def bar(share: float, *, width: int = _BAR) -> str:
    """A bar of blocks, `share` of `width` long, to an eighth of a character."""
    eighths = round(share * width * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _corpus(corpus: CorpusReport) -> Iterator[str]:
    tally = corpus.tally
    yield f"{corpus.role}: {corpus.name}"
    yield f"  {tally.lines:,} lines, {corpus.pairs:,} pairs with text on both sides"
    counts = {
        "pairs with an empty side": tally.empty,
        "pairs with a line longer than the limit": tally.long,
        "pairs with invalid UTF-8": tally.invalid,
        "lines that end in \\r\\n (stripped)": tally.returns,
        "byte order marks (stripped)": tally.marks,
    }
    yield from (f"  {count:,} {description}" for description, count in counts.items() if count)
    yield from _indented(corpus.problems)
    yield from _indented(corpus.invalid)
    yield from _indented(corpus.warnings)
    if corpus.pairs:
        yield from _lengths("source", corpus.source)
        yield from _lengths("target", corpus.target)
        ratios = corpus.ratios
        examples = ", ".join(f"line {line:,} ({ratio:.2g})" for line, ratio in ratios.examples)
        yield f"  target / source length: median {ratios.usual:.2f}, {ratios.suspicious:,} pairs far from it" + (
            f": {examples}" if examples else ""
        )
    yield ""


def _lengths(side: str, lengths: Lengths) -> Iterator[str]:
    yield (
        f"  {side} characters: {lengths.shortest:,} to {lengths.longest:,}, median {lengths.median:,}, "
        f"mean {lengths.mean:.1f}"
    )
    highest = max(count for _, count in lengths.histogram)
    for end, count in lengths.histogram:
        yield f"    ≤ {end:>7,} {count:>11,} {bar(count / highest)}".rstrip()


def _across(report: CheckReport) -> Iterator[str]:
    yield f"duplicates in train: {report.duplicate_pairs:,} pairs, {report.duplicate_sources:,} sources"
    for overlap in report.overlaps:
        yield f"{overlap.role} in train: {overlap.sources:,} of {overlap.pairs:,} sources, {overlap.both:,} whole pairs"
    for side, characters in (report.unknown or {}).items():
        yield f"{side} characters outside the vocabulary: {_characters(characters)}"
    for shapes, share in (report.padding or {}).items():
        yield f"padding with {shapes} shapes: {share:.1%}"


def _characters(counter: Counter[str]) -> str:
    if not counter:
        return "none"
    shown = ", ".join(
        f"{character!a} U+{ord(character):04X} ×{count:,}"
        if not character.isprintable()
        else f"{character} U+{ord(character):04X} ×{count:,}"
        for character, count in counter.most_common(10)
    )
    return f"{counter.total():,} ({len(counter):,} different): {shown}"


def _indented(problems: list[str]) -> Iterator[str]:
    return (f"    {line}" for problem in problems for line in problem.splitlines())
