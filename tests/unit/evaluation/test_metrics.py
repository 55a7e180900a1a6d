"""Scores equal sacreBLEU's own, with its signatures and the right tokenization for the script."""

import math

import pytest
import sacrebleu

from calque.errors import DataError
from calque.evaluation.metrics import (
    bleu,
    choose_splitting,
    exact_match,
    is_short_for_bleu,
    median_words,
    score_translations,
)
from calque.evaluation.perplexity import perplexity

HYPOTHESES = ["the cat sat on the mat .", "It rains Today.", "nothing like it", ""]
REFERENCES = ["the cat sat on a mat .", "it rains today.", "something else entirely", "not empty"]
CHINESE = ["今天天气很好。", "他去了北京,昨天。", "我不知道", "很好"]
CHINESE_HYPOTHESES = ["今天的天气很好。", "他昨天去了北京。", "我知道", "不好"]
JAPANESE = ["今日はとてもいい天気です。", "彼は昨日東京に行きました。", "わかりません", "はい"]


def test_scores_equal_sacrebleu() -> None:
    scores = score_translations(HYPOTHESES, REFERENCES)
    references = [REFERENCES]
    assert scores.bleu.value == sacrebleu.corpus_bleu(HYPOTHESES, references).score
    assert scores.bleu_lowercased.value == sacrebleu.corpus_bleu(HYPOTHESES, references, lowercase=True).score
    assert scores.bleu_lowercased.value > scores.bleu.value > 0
    assert scores.chrf.value == sacrebleu.corpus_chrf(HYPOTHESES, references).score
    assert scores.ter.value == sacrebleu.corpus_ter(HYPOTHESES, references).score
    assert bleu(HYPOTHESES, REFERENCES) == scores.bleu.value


def test_signatures_record_how_scores_were_computed() -> None:
    scores = score_translations(HYPOTHESES, REFERENCES)
    version = f"version:{sacrebleu.__version__}"
    assert scores.bleu.signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|{version}"
    assert scores.bleu_lowercased.signature == f"nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|{version}"
    assert scores.chrf.signature == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|{version}"
    assert scores.ter.signature == f"nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|{version}"


def test_chinese_is_tokenized_as_chinese() -> None:
    scores = score_translations(CHINESE_HYPOTHESES, CHINESE)
    assert scores.bleu.value == sacrebleu.corpus_bleu(CHINESE_HYPOTHESES, [CHINESE], tokenize="zh").score
    assert scores.bleu.value > sacrebleu.corpus_bleu(CHINESE_HYPOTHESES, [CHINESE], tokenize="13a").score
    assert "tok:zh" in scores.bleu.signature
    assert "asian:yes" in scores.ter.signature
    expected = sacrebleu.corpus_ter(CHINESE_HYPOTHESES, [CHINESE], asian_support=True, normalized=True).score
    assert scores.ter.value == expected
    assert bleu(CHINESE_HYPOTHESES, CHINESE) == scores.bleu.value


@pytest.mark.parametrize(
    ("references", "splitting"),
    [
        (REFERENCES, "13a"),
        (CHINESE, "zh"),
        (JAPANESE, "char"),
        (["สวัสดีชาวโลก"], "char"),
        (["សួស្តី​ពិភពលោក"], "char"),
        (["Der Bär heißt Öl."], "13a"),
        (["Привет, мир"], "13a"),
        (["The word 道 is Chinese, and so is 德."], "13a"),  # a few quoted characters do not make a text Chinese
        (["123 456 !", ""], "13a"),
        ([""], "13a"),
    ],
)
def test_tokenization_follows_the_script_of_the_references(references: list[str], splitting: str) -> None:
    assert choose_splitting(references) == splitting


def test_tokenization_can_be_chosen() -> None:
    assert "tok:char" in score_translations(HYPOTHESES, REFERENCES, splitting="char").bleu.signature
    assert "tok:intl" in score_translations(HYPOTHESES, REFERENCES, splitting="intl").bleu.signature


def test_perfect_and_empty_translations_score_the_extremes() -> None:
    same = score_translations(REFERENCES, REFERENCES)
    assert [round(metric.value, 9) for metric in same] == [100, 100, 100, 0, 100]
    empty = score_translations([""] * 4, REFERENCES)
    assert (empty.bleu.value, empty.chrf.value, empty.ter.value, empty.exact_match.value) == (0, 0, 100, 0)


def test_exact_match_counts_whole_lines() -> None:
    assert exact_match(["a", "b", "c", "D"], ["a", "b ", "c", "d"]) == (50.0, "exact|n:4")


def test_different_counts_are_rejected_with_both_counts() -> None:
    with pytest.raises(DataError, match="4 translations but 3 references"):
        score_translations(HYPOTHESES, REFERENCES[:3])
    with pytest.raises(DataError, match="empty"):
        score_translations([], [])


def test_unicode_normalisation_does_not_affect_scores() -> None:
    composed, decomposed = ["caf\u00e9 au lait s'il vous pla\u00eet"], ["cafe\u0301 au lait s'il vous plai\u0302t"]
    scores = score_translations(composed, decomposed)
    assert scores.exact_match.value == 100
    assert scores.bleu.value == pytest.approx(100)


def test_perplexity_is_the_exponential_of_nats_per_token_and_finite() -> None:
    assert perplexity(2.5) == math.exp(2.5)
    assert perplexity(7.5, count=3) == math.exp(2.5)
    assert perplexity(0.0, count=0) == 1
    assert all(math.isfinite(perplexity(nats)) for nats in (1e6, math.inf))


@pytest.mark.parametrize(
    ("references", "words"),
    [
        (["schrieb", "ging", "sah"], 1),
        (["Hallo!", "Ja."], 2),  # marks are words too
        (["a b c", "a b c d e"], 4),
        (["我不知道", "很好", "你好吗"], 3),  # a character is a word
        (["わかりません"], 6),
        (["", ""], 0),
        ([], 0),
        ([*["one"] * 3500, *["one two three four five"] * 2500], 1),
        ([*["one"] * 2500, *["one two three four five"] * 3500], 5),
    ],
)
def test_words_are_counted_as_bleu_counts_them(references: list[str], words: float) -> None:
    assert median_words(references) == words
    assert is_short_for_bleu(words) == (words < 4)


def test_bleu_of_single_words_is_noise() -> None:
    """Which is why it selects no models there: better translations of words have a lower BLEU than a lucky line."""
    references = [*["ab"] * 9, "a b c d e"]
    assert bleu([*["x"] * 9, "a b c d e"], references) > bleu([*["ab"] * 9, "a b c x e"], references)
