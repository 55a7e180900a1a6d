"""The cost of a text of any length, in characters and in steps, is bounded by the length that the model reads."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.conftest import FAMILIES

from calque.engine import Request, Translator
from calque.engine.constraints import length_limits
from calque.engine.truncation import FIRST, MOST, truncate
from calque.models.model import Model, ModelConfig, Sizes
from calque.search.decode import limits_of
from calque.search.settings import SearchConfig
from calque.text import NumberedText, Tokenizer, Tokenizers, number_source
from calque.text.bytes import BytesTokenizer
from calque.text.characters import CharactersConfig, CharactersTokenizer
from calque.text.length_profile import LengthProfile, TargetLimit
from calque.text.sentencepiece import SentencePieceConfig, SentencePieceTokenizer
from calque.text.tokens import TokensConfig, TokensTokenizer
from calque.text.words import WordsConfig, WordsTokenizer

LINES = [
    "the stations are closed, all of them",
    "a station is open: stationary!",
    "Größe 车站关了火车站开了",
    "aab aba bab",
] * 30
TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "bpe": lambda: SentencePieceTokenizer.train(SentencePieceConfig(vocabulary_size=400), lines=LINES),
    "unigram": lambda: SentencePieceTokenizer.train(
        SentencePieceConfig(vocabulary_size=400, algorithm="unigram"), lines=LINES
    ),
    "tokens": lambda: TokensTokenizer.train(TokensConfig(), lines=LINES),
    "words": lambda: WordsTokenizer.train(WordsConfig(), lines=LINES),
    "characters": lambda: CharactersTokenizer.train(CharactersConfig(), lines=LINES),
    "bytes": BytesTokenizer,
}
LIMIT = 6

units = st.text(st.sampled_from([*"abstion .,", "车", "站", "\u0308", "▁", "␛", "\U0001f600"]), min_size=1, max_size=12)


@pytest.fixture(scope="module", params=TOKENIZERS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return TOKENIZERS[request.param]()


def counted(tokenizer: Tokenizer, seen: list[int]) -> Callable[[Sequence[str]], list[NumberedText]]:
    """Reads as a translator does, and counts characters."""

    def read(texts: Sequence[str]) -> list[NumberedText]:
        seen.append(sum(map(len, texts)))
        return number_source(tokenizer, texts)

    return read


@settings(max_examples=150, deadline=None)
@given(first=units, unit=units, times=st.integers(1, 400), last=units)
@example(
    first="a␛.", unit="aaaaaaaaaaaa", times=64, last=".a.␛␛"
)  # one piece that is longer than the text that is tokenised
def test_the_first_pieces_are_those_of_the_whole_text(
    tokenizer: Tokenizer, first: str, unit: str, times: int, last: str
) -> None:
    text, seen = first + unit * times + last, list[int]()
    (truncated,) = truncate([text], limit=LIMIT, size=len(tokenizer.vocabulary), read=counted(tokenizer, seen))
    whole, shown = number_source(tokenizer, [text, text[: MOST * LIMIT]])
    if len(text) <= MOST * LIMIT or len(shown.ids) >= 2 * LIMIT:
        assert truncated.numbered.ids == whole.ids[:LIMIT]
        assert truncated.cut == (len(whole.ids) > LIMIT or len(text) > MOST * LIMIT)
    assert sum(seen) <= 2 * MOST * LIMIT


def test_long_words_are_read_further() -> None:
    """Pieces may be longer than the text that is tokenised at first."""
    words = [f"{letter * 50}" for letter in "abcdefghij"]
    tokenizer = WordsTokenizer.train(WordsConfig(), lines=words)
    seen: list[int] = []
    (truncated,) = truncate([" ".join(words)], limit=LIMIT, size=100, read=counted(tokenizer, seen))
    assert truncated.numbered.ids == tokenizer.encode(" ".join(words))[:LIMIT]
    assert truncated.cut
    assert seen == [FIRST * LIMIT, 2 * FIRST * LIMIT, len(" ".join(words))]


def test_a_short_text_is_read_once_and_whole(tokenizer: Tokenizer) -> None:
    seen: list[int] = []
    texts = truncate(["a station", "", "a"], limit=LIMIT * 2, size=1000, read=counted(tokenizer, seen))
    assert [text.numbered.ids for text in texts] == tokenizer.encode_many(["a station", "", "a"])
    assert [text.cut for text in texts] == [False] * 3
    assert seen == [len("a station") + 1]


class Steps:
    """Counts the tokens that a decoder reads."""

    def __init__(self, model: Model) -> None:
        self.tokens = 0
        model.decoder.register_forward_hook(self._count)

    def _count(self, _module: object, inputs: tuple[Any, ...], _output: object) -> None:
        self.tokens += inputs[0].shape[1]


@pytest.fixture
def garbage_in() -> tuple[Translator, Steps, list[int]]:
    """An untrained model, which hardly ever ends a translation, with counters of steps and characters."""
    torch.manual_seed(1)
    tokenizer = TOKENIZERS["bpe"]()
    config = ModelConfig.model_validate(FAMILIES["transformer"])
    size = len(tokenizer.vocabulary)
    model = Model(config, sizes=Sizes(size, size, True)).eval()
    seen: list[int] = []
    encode_many = tokenizer.encode_many

    def counting(texts: Sequence[str]) -> list[list[int]]:
        seen.append(sum(map(len, texts)))
        return encode_many(texts)

    tokenizer.encode_many = counting  # type: ignore[method-assign]
    translator = Translator(model, Tokenizers(tokenizer, tokenizer), config=config, search=SearchConfig(beam=2))
    return translator, Steps(model), seen


@pytest.mark.parametrize(
    "text", ["a" * 10_000_000, "word " * 2_000_000, "ab\u0308车" * 2_500_000], ids=["one word", "words", "mixed"]
)
def test_ten_million_characters_cost_no_more_than_the_part_that_is_read(
    garbage_in: tuple[Translator, Steps, list[int]], text: str
) -> None:
    translator, steps, seen = garbage_in
    search = translator.search.model_copy(update={"source_limit": 20})
    (translation,) = translator.stream([text], search=search)
    assert translation.source_cut
    assert sum(seen) <= 2 * MOST * search.source_limit
    assert steps.tokens <= search.most + 1 == 41  # one more to see whether it ends there


def test_scoring_is_bounded_too(garbage_in: tuple[Translator, Steps, list[int]]) -> None:
    translator, _, seen = garbage_in
    translator.search = translator.search.model_copy(update={"source_limit": 20})
    short, long, again = translator.score(["a station", "a" * 1_000_000, "is"], ["open", "b" * 1_000_000, "open"])
    assert (short.cut, long.cut, again.cut) == (False, True, False)
    assert len(long.pieces) == 40
    assert sum(seen) <= 4 * MOST * 60
    (alone,) = translator.score(["a station"], ["open"])
    assert short.log_prob == pytest.approx(alone.log_prob, abs=1e-5)
    assert translator.loss(["a" * 1_000_000], ["b" * 1_000_000]) > 0


def test_lengths_are_limited_whatever_the_source() -> None:
    lengths = torch.tensor([1, 11, 301, 513])  # end marks counted
    assert limits_of(lengths, search=SearchConfig()).maximum.tolist() == [21, 61, 1025, 1025]
    assert limits_of(lengths, search=SearchConfig(maximum=50)).maximum.tolist() == [21, 51, 51, 51]
    assert limits_of(lengths, search=SearchConfig(maximum=5000)).maximum.tolist() == [21, 61, 1221, 2069]
    assert limits_of(lengths, search=SearchConfig(minimum=1500)).maximum.tolist() == [1501] * 4


def test_lengths_are_limited_by_those_of_the_training_targets() -> None:
    profile = LengthProfile(20, 1, (TargetLimit(5, 8), TargetLimit(10, 13)))
    source = NumberedText(list(range(4, 12)), ())

    def limits(request: Request, **settings: Any) -> tuple[int, int]:
        return length_limits(request, source, search=SearchConfig(**settings), profile=profile)

    free = Request("a text")
    assert limits(free) == (0, 13)
    assert limits(free, learnt_maximum=False) == (0, 4 * 8 + 20)
    assert limits(free, maximum=9) == (0, 9)
    assert limits(free, minimum=15) == (15, 15)
    for bound in (Request("a text", prefix="A"), Request("a text", required=("b",))):
        assert limits(bound) == (0, 4 * 8 + 20)
