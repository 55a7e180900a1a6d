"""Constraints as ids: those of a sentence do not depend on its neighbours in the batch."""

import pytest
import torch

from calque import Request
from calque.engine.constraints import constraint_ids, forbidden_words, rules_of
from calque.errors import TextError
from calque.search.decode import Rules
from calque.text import EOS, NumberedText
from calque.text.sentencepiece import SentencePieceConfig, SentencePieceTokenizer

LINES = ["the stations are closed", "a station is open", "车站关了", "火车站开了"] * 20


def test_what_may_follow_a_phrase_is_the_sentences_own() -> None:
    """In a script with spaces no piece may continue the last word of a phrase, whatever else is in the batch."""
    tokenizer = SentencePieceTokenizer.train(SentencePieceConfig(vocabulary_size=320), lines=LINES)
    requests = [Request("x", required=("station",)), Request("y"), Request("z", required=("车站",))]

    def follows(batch: list[Request]) -> torch.Tensor:
        source = NumberedText([5], (), "x")
        constraints = [constraint_ids(row, source, target=tokenizer, copies=False, forbidden=None) for row in batch]
        rules = rules_of(constraints, target=tokenizer, forbidden=None)
        assert rules.follows is not None
        return rules.follows

    together = follows(requests)
    assert torch.equal(together[0], follows(requests[:1])[0])
    assert not together[0].all()
    assert together[2].all()
    assert together[:, EOS].all()


def test_no_words_are_no_rule() -> None:
    tokenizer = SentencePieceTokenizer.train(SentencePieceConfig(vocabulary_size=320), lines=LINES)
    assert forbidden_words((), target=tokenizer) is None
    assert forbidden_words(("station",), target=tokenizer) is not None


@pytest.mark.parametrize(
    ("request_", "is_rejected"),
    [
        (Request("x", required=("open", "the station")), True),
        (Request("x", prefix="station is"), True),
        (Request("x", required=("去车站",)), True),
        (Request("x", required=("stations",), prefix="a stationary"), False),
    ],
)
def test_a_required_phrase_with_a_forbidden_word_is_rejected(request_: Request, is_rejected: bool) -> None:
    tokenizer = SentencePieceTokenizer.train(SentencePieceConfig(vocabulary_size=320), lines=LINES)
    forbidden = forbidden_words(("closed", "station", "车站"), target=tokenizer)

    def rules() -> Rules:
        source = NumberedText([5], (), "x")
        constraints = constraint_ids(request_, source, target=tokenizer, copies=False, forbidden=forbidden)
        return rules_of([constraints], target=tokenizer, forbidden=forbidden)

    if is_rejected:
        with pytest.raises(TextError, match=r"is required but '(station|车站)' is forbidden"):
            rules()
    else:
        assert rules().forbidden is forbidden
