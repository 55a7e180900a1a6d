"""ROUGE of summaries, computed by rouge-score: F-measures of n-grams and of the longest common subsequence."""

from collections.abc import Sequence
from importlib.metadata import version
from statistics import fmean
from typing import NamedTuple

from calque.errors import DataError

KINDS = ("rouge1", "rouge2", "rougeL")


class Rouge(NamedTuple):
    """Mean F-measures in per cent, and the signature of their computation."""

    rouge1: float
    rouge2: float
    rougeL: float  # noqa: N815 - the name of the metric
    signature: str


def rouge(summaries: Sequence[str], references: Sequence[str], *, stemmer: bool = True) -> Rouge:
    """The mean ROUGE-1, ROUGE-2 and ROUGE-L of summaries, with one reference each.

    As in rouge-score, text is lowercased and split at everything but ASCII letters and digits. With `stemmer`, words of
    more than three letters are stemmed (Porter).
    """
    if len(summaries) != len(references):
        raise DataError(f"{len(summaries)} summaries but {len(references)} references: the numbers must be equal")
    if not references:
        raise DataError("nothing to evaluate: the reference file is empty")
    try:
        from rouge_score import rouge_scorer
    except ImportError:
        raise DataError('ROUGE needs rouge-score; install it with: pip install "calque[summaries]"') from None
    scorer = rouge_scorer.RougeScorer(list(KINDS), use_stemmer=stemmer)
    scores = [scorer.score(reference, text) for text, reference in zip(summaries, references, strict=True)]
    unigrams, bigrams, longest = (100 * fmean(score[kind].fmeasure for score in scores) for kind in KINDS)
    signature = f"rouge-score:{version('rouge-score')}|stemmer:{'yes' if stemmer else 'no'}|n:{len(references)}"
    return Rouge(unigrams, bigrams, longest, signature)
