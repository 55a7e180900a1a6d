"""The claims of the papers, tested on the results.

One entry is shown to be better than another if the mean difference over seeds exceeds the spread, the largest distance
between two seeds of one entry. A system is shown to lose on long sentences if every seed loses more than MARGIN, and
not to lose if every seed loses at most MARGIN. MARGIN is fixed in advance: if it grew with the noise, noisier
measurements would make it easier to show that a system does not lose.

The loss on long sentences is relative, so that a system with 40 BLEU and one with 15 can be compared.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from recipes.lineage.lengths import BUCKET_NAMES
from recipes.lineage.results import Result, Results

Measured = Mapping[str, Mapping[int, float]]  # by entry and seed
Unit = Literal["BLEU", "%"]
Bar = Literal["spread", "loses", "keeps"]

FLOOR = 1.0  # BLEU: below this there is nothing to lose
MARGIN = 10.0  # per cent of BLEU that a system may lose and still count as not losing
SHORT, LONG = BUCKET_NAMES[0], BUCKET_NAMES[-1]
REVERSED = ("sutskever2014", "sutskever2014-forward")  # reversed, and not
FIXED_VECTOR, ATTENTION = ("cho2014", "sutskever2014"), ("bahdanau2015", "luong2015")


class Finding(NamedTuple):
    """One claim with its numbers, over the seeds that were measured."""

    letter: str
    claim: str
    unit: Unit
    values: tuple[float, ...]  # per seed: a difference, or a loss
    bar: Bar  # the criterion
    spread: float = 0.0  # the largest distance between two seeds of the same entry

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return sum(self.values) / len(self.values)

    @property
    def needed(self) -> str:
        """The criterion in words."""
        match self.bar:
            case "spread":
                return f"mean > {self.spread:.2f}"
            case "loses":
                return f"all > {MARGIN:g}"
            case "keeps":
                return f"all ≤ {MARGIN:g}"

    @property
    def verdict(self) -> str:
        """`shown` or `not shown`; a single seed shows nothing."""
        if not self.values:
            return "not measured"
        match self.bar:
            case "spread":
                is_shown = self.mean > self.spread
            case "loses":
                is_shown = min(self.values) > MARGIN
            case "keeps":
                is_shown = max(self.values) <= MARGIN
        return "shown" if is_shown and len(self.values) > 1 else "not shown"


def findings(results: Results) -> list[Finding]:
    """The four claims, split into measurable parts."""
    bleu = _measure(results, lambda result: result["bleu_lowercased"])
    lost, lost_of_short = _measure(results, loss_at_length), _measure(results, loss_from_short)
    parts = [_better("a", "reversing the source helps the LSTM without attention", bleu, *REVERSED)]
    parts += [_lost(f"{name} loses on long sentences", lost, name, bar="loses") for name in FIXED_VECTOR]
    parts += [_lost(f"{name} does not lose on long sentences", lost, name, bar="keeps") for name in ATTENTION]
    for name, other in zip(ATTENTION, FIXED_VECTOR, strict=True):
        claim = f"{name} loses less than {other}"
        parts.append(_better("b", claim, lost, other, name, unit="%"))
        parts.append(_better("b", f"{claim}, of its BLEU on {SHORT}", lost_of_short, other, name, unit="%"))
    return [
        *parts,
        _better("c", "input feeding helps", bleu, "luong2015", "luong2015-unfed"),
        _better("c", "local-p is better than global attention", bleu, "luong2015-local-p", "luong2015"),
        _better("d", "residual connections make 8 layers trainable", bleu, "lstm8-residual", "lstm8-plain"),
    ]


def loss_at_length(result: Result) -> float | None:
    """Per cent of BLEU that a system loses by translating long joined sources at once, not sentence by sentence.

    Both scores are of the same text, so that only length makes a difference.
    """
    joined = result["lengths"][LONG]["joined"]
    return _loss(joined["at_once"], of=joined["apart"])


def loss_from_short(result: Result) -> float | None:
    """Per cent of BLEU lost from the shortest to the longest sources, as in the figures of the papers."""
    return _loss(result["lengths"][LONG]["bleu_lowercased"], of=result["lengths"][SHORT]["bleu_lowercased"])


def claims_table(parts: Sequence[Finding]) -> str:
    """The findings in Markdown."""
    rows = [
        "| | claim | measured (range over seeds) | needed | seeds | |",
        "|---|---|---|---|---|---|",
    ]
    for part in parts:
        measured = needed = ""
        if part.values:
            measured = f"{part.mean:+.2f} {part.unit} ({min(part.values):+.2f} to {max(part.values):+.2f})"
            needed = part.needed
        verdict = f"{len(part.values)} | **{part.verdict}**"
        rows.append(f"| {part.letter} | {part.claim} | {measured} | {needed} | {verdict} |")
    return "\n".join(rows)


def _better(letter: str, claim: str, measured: Measured, better: str, worse: str, *, unit: Unit = "BLEU") -> Finding:
    """The difference between two entries for each seed that both have."""
    above, below = measured.get(better, {}), measured.get(worse, {})
    seeds = sorted(above.keys() & below.keys())
    spread = max((_spread([side[seed] for seed in seeds]) for side in (above, below) if seeds), default=0.0)
    return Finding(letter, claim, unit, tuple(above[seed] - below[seed] for seed in seeds), "spread", spread)


def _lost(claim: str, losses: Measured, name: str, *, bar: Bar) -> Finding:
    return Finding("b", claim, "%", tuple(losses.get(name, {}).values()), bar)


def _measure(results: Results, measure: Callable[[Result], float | None]) -> Measured:
    """The measured value of every result that has one, by entry and seed."""
    return {
        name: {seed: value for seed, result in seeds.items() if (value := measure(result)) is not None}
        for name, seeds in results.items()
    }


def _loss(value: float | None, *, of: float | None) -> float | None:
    """The loss in per cent of the score `of`; None if a score is missing, or `of` is below FLOOR."""
    return 100 * (1 - value / of) if value is not None and of is not None and of >= FLOOR else None


def _spread(values: Sequence[float]) -> float:
    return max(values) - min(values)
