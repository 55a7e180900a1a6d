"""Pieces and the words they belong to, for every tokenizer and for odd texts."""

import pytest

from calque.text import (
    BytesTokenizer,
    CharactersConfig,
    CharactersTokenizer,
    SentencePieceConfig,
    SentencePieceTokenizer,
    Tokenizer,
    WordsConfig,
    WordsTokenizer,
    normalise,
)
from calque.text.word_index import _by_prefixes, words_of_pieces

LINES = ["The well-known garden, my neighbour's, is not small.", "Ёжик watches 她的 garden!", "(don't) panic …"]
ODD = [
    *("a", "a b", " a  b ", "x▁y ▅ z", "␛0 ␛", "a\u3000b c", "日本 語", "🚲🚲 é e\u0301"),
    *("tab\tand space", "q" * 70 + " r", "…", "\u00a0a b"),
]


def tokenizers() -> dict[str, Tokenizer]:
    small = {"vocabulary_size": 320}
    return {
        "bpe": SentencePieceTokenizer.train(SentencePieceConfig(**small), lines=LINES * 3),
        "unigram": SentencePieceTokenizer.train(SentencePieceConfig(algorithm="unigram", **small), lines=LINES * 3),
        "words": WordsTokenizer.train(WordsConfig(), lines=LINES),
        "characters": CharactersTokenizer.train(CharactersConfig(), lines=LINES),
        "bytes": BytesTokenizer(),
    }


TOKENIZERS = tokenizers()


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("text", [*LINES, *ODD])
def test_every_piece_has_its_word(name: str, text: str) -> None:
    tokenizer = TOKENIZERS[name]
    pieces, words = tokenizer.tokenise(text), normalise(text).split()
    found = words_of_pieces(tokenizer, text)
    assert len(found) == len(pieces)
    assert found == sorted(found)
    assert set(found) == set(range(len(words)))  # no word without a piece, no piece without a word
    for number, word in enumerate(words):
        mine = [piece for piece, owner in zip(pieces, found, strict=True) if owner == number]
        if "␛" not in text and "\u3000" not in text:  # whose parts are in no word, or spell nothing alone
            assert tokenizer.detokenise(mine).strip() == word


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("text", LINES)
def test_the_quick_way_and_the_slow_way_agree(name: str, text: str) -> None:
    tokenizer = TOKENIZERS[name]
    pieces = tokenizer.tokenise(text)
    assert words_of_pieces(tokenizer, text) == _by_prefixes(tokenizer, pieces, words=len(text.split()))
