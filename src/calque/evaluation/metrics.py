"""Metric scores of translations against references, with the sacreBLEU signatures that make them comparable."""

import statistics
import unicodedata
from collections.abc import Sequence
from typing import Literal, NamedTuple

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from calque.errors import DataError

LONGEST_NGRAM = 4  # the longest n-gram that BLEU counts
MEASURED = 2000  # maximum number of references whose words are counted
UNSPACED = (("\u0e00", "\u0fff"), ("\u1000", "\u109f"), ("\u1780", "\u17ff"))
"""Scripts without spaces between words, besides kana and Chinese characters: Thai, Lao, Tibetan; Burmese; Khmer."""
Splitting = Literal["auto", "13a", "intl", "zh", "char", "none"]


class Metric(NamedTuple):
    """A score and the signature of its computation."""

    value: float
    signature: str


class Scores(NamedTuple):
    """The metrics that `calque evaluate` reports; higher is better for all except TER."""

    bleu: Metric
    bleu_lowercased: Metric
    chrf: Metric
    ter: Metric
    exact_match: Metric


def score_translations(
    hypotheses: Sequence[str], references: Sequence[str], *, splitting: Splitting = "auto"
) -> Scores:
    """BLEU (cased and lowercased), chrF, TER and exact match of `hypotheses`, with one reference per hypothesis."""
    if len(hypotheses) != len(references):
        raise DataError(f"{len(hypotheses)} translations but {len(references)} references: the numbers must be equal")
    if not references:
        raise DataError("nothing to evaluate: the reference file is empty")
    tokenize = choose_splitting(references) if splitting == "auto" else splitting
    metrics = (
        BLEU(tokenize=tokenize, force=True),
        BLEU(tokenize=tokenize, lowercase=True, force=True),
        CHRF(),
        sacrebleu_ter(tokenize),
    )
    cased, lowercased, chrf, ter = (_measure(metric, hypotheses, references) for metric in metrics)
    return Scores(cased, lowercased, chrf, ter, exact_match(hypotheses, references))


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Corpus BLEU alone, for validation."""
    return _measure(BLEU(tokenize=choose_splitting(references), force=True), hypotheses, references).value


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Corpus chrF alone, without the other metrics."""
    return _measure(CHRF(), hypotheses, references).value


def ter(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Corpus TER alone: edits per reference word, in per cent."""
    return _measure(sacrebleu_ter(choose_splitting(references)), hypotheses, references).value


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> Metric:
    """The percentage of translations that equal their reference."""
    pairs = zip(composed(hypotheses), composed(references), strict=True)
    equal = sum(hypothesis == reference for hypothesis, reference in pairs)
    return Metric(100 * equal / len(references), f"exact|n:{len(references)}")


def median_words(references: Sequence[str]) -> float:
    """The median number of words per reference, as BLEU counts them.

    Punctuation marks count too; in scripts without spaces, every character is a word.
    """
    sample = references[:: -(-len(references) // MEASURED) or 1]
    tokenize = BLEU(tokenize=choose_splitting(references)).tokenizer
    return statistics.median(len(tokenize(line).split()) for line in sample) if sample else 0.0


def is_short_for_bleu(words: float) -> bool:
    """Whether references with this median number of words are too short for BLEU: most have no 4-gram."""
    return words < LONGEST_NGRAM


def choose_splitting(references: Sequence[str]) -> Literal["13a", "zh", "char"]:
    """The sacreBLEU tokenization for the script of the references."""
    text = "".join(references[:1000])
    letters = sum(character.isalpha() for character in text) or 1
    kana = sum("\u3040" <= character <= "\u30ff" for character in text)
    han = sum("\u4e00" <= character <= "\u9fff" for character in text)
    unspaced = sum(first <= character <= last for character in text for first, last in UNSPACED)
    if kana / letters > 0.1 or unspaced / letters > 0.3:
        return "char"
    return "zh" if han / letters > 0.3 else "13a"


def sacrebleu_ter(splitting: str, *, references: Sequence[Sequence[str]] | None = None) -> TER:
    """TER with the settings for a tokenization: scripts without spaces are split into characters."""
    is_unspaced = splitting in ("zh", "char")
    return TER(asian_support=is_unspaced, normalized=is_unspaced, references=references)


def _measure(metric: BLEU | CHRF | TER, hypotheses: Sequence[str], references: Sequence[str]) -> Metric:
    score = metric.corpus_score(composed(hypotheses), [composed(references)])
    return Metric(score.score, str(metric.get_signature()))


def composed(lines: Sequence[str]) -> list[str]:
    """The lines in NFC, as tokenizers decode them: the encoding of an accented letter must not affect the score."""
    return [unicodedata.normalize("NFC", line) for line in lines]
