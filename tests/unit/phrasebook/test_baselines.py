"""The baselines are real translators, and far from good ones."""

import pytest
import sacrebleu

from calque_phrasebook import Language, Pair, baselines, phrasebook
from calque_phrasebook.baselines import nearest, word_by_word


@pytest.mark.parametrize(
    ("source", "target", "sentence", "expected"),
    [
        ("zh", "en", "她是医生。", "She is doctor."),
        ("zh", "en", "我昨天买了三个苹果。", "I yesterday buy three apple."),
        ("en", "zh", "She often drinks tea.", "她经常喝茶。"),
        ("en", "de", "Anna reads books.", "Anna liest Bücher."),
        ("de", "en", "Er kauft oft Äpfel.", "He buys often apples."),
    ],
)
def test_word_by_word_keeps_the_order_of_the_source(
    source: Language, target: Language, sentence: str, expected: str
) -> None:
    assert word_by_word(sentence, source=source, target=target) == expected


def test_nearest_takes_the_sentence_that_shares_most() -> None:
    sources = ("I buy red apples.", "He sells cars.", "We buy green pears.")
    train = [Pair(source, str(number), (), (), ()) for number, source in enumerate(sources, start=1)]
    assert nearest(train, ["We buy red pears.", "He sells bicycles."], language="en") == ["3", "2"]


@pytest.mark.parametrize(("source", "target"), [("zh", "en"), ("en", "de")])
def test_neither_baseline_translates(source: Language, target: Language) -> None:
    book = phrasebook(source=source, target=target, pairs=20_000)
    references = [pair.target for pair in book.test]
    hypotheses = baselines(book, source=source, target=target)
    for name, most in (("dictionary", 40), ("nearest", 45)):
        assert len(hypotheses[name]) == len(references)
        score = sacrebleu.corpus_bleu(hypotheses[name], [references], tokenize="13a").score
        exact = sum(h == r for h, r in zip(hypotheses[name], references, strict=True)) / len(references)
        assert 5 < score < most
        assert exact < 0.15
