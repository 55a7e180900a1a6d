"""What the papers say, beside what was measured.

That one entry is better than another is shown where the mean difference over seeds is larger than the seeds' spread,
the largest distance between two seeds of one entry. That a system loses, or does not lose, on long sentences is shown
where every seed loses more, or no more, than MARGIN: a bound fixed beforehand, since a spread that grows with the noise
would make equality the easier to show, the worse it was measured.

What is lost on long sentences is a share: a system that has 40 BLEU to lose and one that has 15 are compared by what
they keep of it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from lengths import BUCKET_NAMES
from results import Result, Results

Measured = Mapping[str, Mapping[int, float]]  # by entry and seed
Unit = Literal["BLEU", "%"]
Bar = Literal["spread", "loses", "keeps"]

FLOOR = 1.0  # BLEU: of less, which is a word here and there, nothing can be lost
MARGIN = 10.0  # per cent of BLEU that may be lost where nothing is said to be lost
SHORT, LONG = BUCKET_NAMES[0], BUCKET_NAMES[-1]
REVERSED = ("sutskever2014", "sutskever2014-forward")  # reversed, and not
FIXED_VECTOR, ATTENTION = ("cho2014", "sutskever2014"), ("bahdanau2015", "luong2015")


class Finding(NamedTuple):
    """One claim with its numbers, over the seeds that were measured."""

    letter: str
    claim: str
    unit: Unit
    values: tuple[float, ...]  # what every seed has: a difference, or a loss
    bar: Bar  # what they are held against
    spread: float = 0.0  # the largest distance between two seeds of the same entry

    @property
    def mean(self) -> float:
        """Over seeds."""
        return sum(self.values) / len(self.values)

    @property
    def needed(self) -> str:
        """What would show the claim."""
        match self.bar:
            case "spread":
                return f"mean > {self.spread:.2f}"
            case "loses":
                return f"all > {MARGIN:g}"
            case "keeps":
                return f"all ≤ {MARGIN:g}"

    @property
    def verdict(self) -> str:
        """`shown` or `not shown`; one seed shows nothing."""
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
    """The four claims, each taken apart into what can be measured."""
    bleu = _each(results, lambda one: one["bleu_lowercased"])
    lost, lost_of_short = _each(results, loss_at_length), _each(results, loss_from_short)
    found = [_better("a", "reversing the source helps the LSTM without attention", bleu, *REVERSED)]
    found += [_lost(f"{name} loses on long sentences", lost, name, bar="loses") for name in FIXED_VECTOR]
    found += [_lost(f"{name} does not lose on long sentences", lost, name, bar="keeps") for name in ATTENTION]
    for name, other in zip(ATTENTION, FIXED_VECTOR, strict=True):
        claim = f"{name} loses less than {other}"
        found.append(_better("b", claim, lost, other, name, unit="%"))
        found.append(_better("b", f"{claim}, of its BLEU on {SHORT}", lost_of_short, other, name, unit="%"))
    return [
        *found,
        _better("c", "input feeding helps", bleu, "luong2015", "luong2015-unfed"),
        _better("c", "local-p is better than global attention", bleu, "luong2015-local-p", "luong2015"),
        _better("d", "residual connections rescue 8 layers", bleu, "lstm8-residual", "lstm8-plain"),
    ]


def loss_at_length(result: Result) -> float | None:
    """How many per cent of BLEU a system loses by translating long joined sources at once, not sentence by sentence.

    Both are of the same text, so that it is the length that costs, and nothing else.
    """
    joined = result["lengths"][LONG]["joined"]
    return _loss(joined["at_once"], of=joined["apart"])


def loss_from_short(result: Result) -> float | None:
    """How many per cent less BLEU a system has on the longest sources than on the shortest, as the papers draw it."""
    return _loss(result["lengths"][LONG]["bleu_lowercased"], of=result["lengths"][SHORT]["bleu_lowercased"])


def claims_table(found: Sequence[Finding]) -> str:
    """The findings in Markdown."""
    rows = [
        "| | claim | measured (range over seeds) | needed | seeds | |",
        "|---|---|---|---|---|---|",
    ]
    for one in found:
        measured = needed = ""
        if one.values:
            measured = f"{one.mean:+.2f} {one.unit} ({min(one.values):+.2f} to {max(one.values):+.2f})"
            needed = one.needed
        rows.append(f"| {one.letter} | {one.claim} | {measured} | {needed} | {len(one.values)} | **{one.verdict}** |")
    return "\n".join(rows)


def _better(letter: str, claim: str, measured: Measured, one: str, other: str, *, unit: Unit = "BLEU") -> Finding:
    """By how much one entry is above another, over the seeds that both have."""
    above, below = measured.get(one, {}), measured.get(other, {})
    seeds = sorted(above.keys() & below.keys())
    spread = max((_spread([side[seed] for seed in seeds]) for side in (above, below) if seeds), default=0.0)
    return Finding(letter, claim, unit, tuple(above[seed] - below[seed] for seed in seeds), "spread", spread)


def _lost(claim: str, losses: Measured, name: str, *, bar: Bar) -> Finding:
    return Finding("b", claim, "%", tuple(losses.get(name, {}).values()), bar)


def _each(results: Results, measure: Callable[[Result], float | None]) -> Measured:
    """What `measure` gives of every result, where it gives something."""
    return {
        name: {seed: found for seed, one in seeds.items() if (found := measure(one)) is not None}
        for name, seeds in results.items()
    }


def _loss(value: float | None, *, of: float | None) -> float | None:
    """In per cent; None where there is nothing that could be lost."""
    return 100 * (1 - value / of) if value is not None and of is not None and of >= FLOOR else None


def _spread(values: Sequence[float]) -> float:
    return max(values) - min(values)
