"""Scores of captions against one or several references per image."""

from collections.abc import Sequence
from typing import NamedTuple

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from calque.errors import DataError
from calque.evaluation.metrics import Metric, choose_splitting, composed


class CaptionScores(NamedTuple):
    """The metrics of captions; higher is better."""

    bleu: Metric
    chrf: Metric
    exact_match: Metric


def score_captions(captions: Sequence[str], references: Sequence[Sequence[str]]) -> CaptionScores:
    """BLEU, chrF and exact match of captions; an image may have several references, all of which count.

    A caption is an exact match if it equals any of its references.
    """
    if len(captions) != len(references):
        raise DataError(
            f"{len(captions)} captions but references for {len(references)} images: the numbers must be equal"
        )
    if not references:
        raise DataError("nothing to evaluate: there are no images")
    groups = [composed(group) for group in references]
    most = max(map(len, groups))
    columns = [[group[at] if at < len(group) else group[0] for group in groups] for at in range(most)]
    lines = composed(captions)
    metrics = (BLEU(tokenize=choose_splitting(columns[0]), force=True), CHRF())
    bleu, chrf = (Metric(metric.corpus_score(lines, columns).score, str(metric.get_signature())) for metric in metrics)
    equal = sum(line in group for line, group in zip(lines, groups, strict=True))
    return CaptionScores(bleu, chrf, Metric(100 * equal / len(lines), f"exact|n:{len(lines)}"))
