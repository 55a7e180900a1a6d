"""Formats the report of `calque data check` as plain text."""

from collections import Counter
from collections.abc import Iterator

from calque.data.check import CheckReport, CorpusReport
from calque.data.length_statistics import Lengths, Ratios
from calque.data.lines import NOT_UTF8
from calque.data.problems import RECODE

_BAR = 32  # characters
_VALUES = 24  # shown of a column
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def report_lines(report: CheckReport) -> list[str]:
    """The lines of the report."""
    corpora = (_corpus(corpus, unit=report.unit) for corpus in report.corpora)
    return [line for part in (*corpora, _across(report)) for line in part]


def bar(share: float, *, width: int = _BAR) -> str:
    """A bar of block characters whose length is `share` of `width` characters, rounded to eighths of a character."""
    eighths = round(share * width * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _corpus(corpus: CorpusReport, *, unit: str) -> Iterator[str]:
    tally = corpus.tally
    yield f"{corpus.role}: {corpus.name}"
    condition = " with text on both sides" if corpus.ratios else ""
    yield f"  {tally.lines:,} lines" + (f", {corpus.rows:,} {unit}{condition}" if unit != "lines" else "")
    counts = {
        "pairs with an empty side" if corpus.ratios else "empty lines": tally.empty,
        f"{unit} with a line longer than the limit": tally.long,
        f"{unit} that cannot be used"
        if unit in ("recordings", "images")
        else f"{unit} with invalid UTF-8": tally.invalid,
        "lines that end in \\r\\n (stripped)": tally.returns,
        "byte order marks (stripped)": tally.marks,
    }
    yield from (f"  {count:,} {description}" for description, count in counts.items() if count)
    yield from _indented(corpus.problems)
    yield from _indented(corpus.invalid)
    if any(problem.endswith(NOT_UTF8) for problem in corpus.invalid):
        yield f"    {RECODE}"
    yield from _indented(corpus.warnings)
    if corpus.rows:
        for name, lengths in corpus.lengths.items():
            yield from _lengths(name, lengths)
        for name, counter in corpus.counts.items():
            yield from _values(name, counter)
        if corpus.ratios:
            yield _ratios(corpus.ratios)
    yield ""


def _ratios(ratios: Ratios) -> str:
    examples = ", ".join(f"line {line:,} ({ratio:.2g})" for line, ratio in ratios.examples)
    line = f"  target / source length: median {ratios.usual:.2f}, {ratios.suspicious:,} pairs far from it"
    return line + (f": {examples}" if examples else "")


def _values(name: str, counter: Counter[str]) -> Iterator[str]:
    """Yields lines with the most frequent values of a column, their counts, and bars."""
    yield f"  {name}: {len(counter):,} distinct values"
    shown = counter.most_common(_VALUES)
    width = max(len(value) for value, _ in shown)
    for value, count in shown:
        yield f"    {value:{width}} {count:>11,} {bar(count / shown[0][1])}".rstrip()
    remaining = counter.total() - sum(count for _, count in shown)
    if remaining:
        yield f"    {'others':{width}} {remaining:>11,}"


def _lengths(name: str, lengths: Lengths) -> Iterator[str]:
    yield (f"  {name}: {lengths.shortest:,} to {lengths.longest:,}, median {lengths.median:,}, mean {lengths.mean:.1f}")
    highest = max(count for _, count in lengths.histogram)
    for end, count in lengths.histogram:
        yield f"    ≤ {end:>7,} {count:>11,} {bar(count / highest)}".rstrip()


def _across(report: CheckReport) -> Iterator[str]:
    unit, first = report.unit, report.columns[0] if len(report.columns) > 1 else None
    by_first = f", {report.duplicates_of_first:,} by {first} alone" if first else ""
    yield f"duplicates in train: {report.duplicates:,} {unit}{by_first}"
    for overlap in report.overlaps:
        by_first = f", {overlap.first:,} by {first} alone" if first else ""
        yield f"{overlap.role} in train: {overlap.whole:,} of {overlap.rows:,} {unit}{by_first}"
    yield from _unseen(report)
    for name, counter in (report.unknown or {}).items():
        describe = _characters if name.endswith("characters") else _words
        yield f"{name} outside the vocabulary: {describe(counter)}"
    for shapes, share in (report.padding or {}).items():
        yield f"padding with {shapes} shapes: {share:.1%}"


def _unseen(report: CheckReport) -> Iterator[str]:
    """Yields lines with the values of validation and test corpora, such as labels, that do not occur in training."""
    known: dict[str, set[str]] = {}
    for corpus in report.corpora:
        if corpus.role == "train":
            for name, counter in corpus.counts.items():
                known.setdefault(name, set()).update(counter)
    for corpus in report.corpora:
        for name, counter in corpus.counts.items():
            unseen = {value: count for value, count in counter.most_common() if value not in known.get(name, ())}
            if unseen and corpus.role != "train":
                listed = ", ".join(f"{value} ×{count:,}" for value, count in list(unseen.items())[:10])
                yield f"{name} of {corpus.role} that are not in train: {listed}"


def _characters(counter: Counter[str]) -> str:
    shown = ", ".join(
        f"{character!a} U+{ord(character):04X} ×{count:,}"
        if not character.isprintable()
        else f"{character} U+{ord(character):04X} ×{count:,}"
        for character, count in counter.most_common(10)
    )
    return _counted(counter, shown)


def _words(counter: Counter[str]) -> str:
    return _counted(counter, ", ".join(f"{word} ×{count:,}" for word, count in counter.most_common(10)))


def _counted(counter: Counter[str], shown: str) -> str:
    return f"{counter.total():,} ({len(counter):,} distinct): {shown}" if counter else "none"


def _indented(problems: list[str]) -> Iterator[str]:
    return (f"    {line}" for problem in problems for line in problem.splitlines())
