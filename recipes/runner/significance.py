"""Tests whether one row of a table is better than another: sacreBLEU's paired tests, per seed and on all seeds."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from recipes.runner.results import Tested

TestKind = Literal["bs", "ar"]  # paired bootstrap, approximate randomization
SAMPLES: dict[TestKind, int] = {"bs": 1000, "ar": 10_000}  # sacreBLEU's defaults
LEVEL = 0.05


def paired_test(
    baseline: Sequence[str], system: Sequence[str], references: Sequence[str], *, kind: TestKind
) -> dict[str, float]:
    """The p-values of the differences in lowercased BLEU and in chrF, under the hypothesis that there is none."""
    metrics = {"BLEU": BLEU(lowercase=True), "chrF": CHRF()}
    systems: list[tuple[str, Sequence[str]]] = [("baseline", list(baseline)), ("system", list(system))]
    _, scores = PairedTest(systems, metrics, [list(references)], test_type=kind, n_samples=SAMPLES[kind])()
    return {"bleu": scores["BLEU"][1].p_value, "chrf": scores["chrF2"][1].p_value}  # type: ignore[union-attr, dict-item]


def compare_rows(row: Sequence[Tested], baseline: Sequence[Tested], references: Sequence[str]) -> dict[str, Any]:
    """The tests of two rows, per seed and with the translations of all seeds concatenated."""
    seeds = {tested.seed: tested for tested in baseline}
    pairs = [(seeds[tested.seed], tested) for tested in row if tested.seed in seeds]
    before, after = ([line for pair in pairs for line in pair[side].translations] for side in (0, 1))
    repeated = list(references) * len(pairs)
    return {
        "differences": [new.bleu - old.bleu for old, new in pairs],
        "by_seed": [
            paired_test(old.translations, new.translations, references, kind="bs")["bleu"] for old, new in pairs
        ],
        "together": {kind: paired_test(before, after, repeated, kind=kind) for kind in SAMPLES if pairs},
    }


def verdict(comparison: Mapping[str, Any]) -> str:
    """The words "better" or "worse" if both tests on all seeds are significant and all seeds agree in sign."""
    p_values = [comparison["together"][kind]["bleu"] for kind in SAMPLES]
    lowest, highest = min(comparison["differences"]), max(comparison["differences"])
    if max(p_values) >= LEVEL or lowest <= 0 <= highest:
        return "no clear difference"
    return "**better**" if lowest > 0 else "**worse**"
