"""The words of pieces, for every tokenizer and for unusual texts."""

import pytest

from calque.text import (
    BytesTokenizer,
    CharactersConfig,
    CharactersTokenizer,
    SentencePieceConfig,
    SentencePieceTokenizer,
    Tokenizer,
    TokensConfig,
    TokensTokenizer,
    WordsConfig,
    WordsTokenizer,
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
        "tokens": TokensTokenizer.train(TokensConfig(), lines=LINES),
        "words": WordsTokenizer.train(WordsConfig(), lines=LINES),
        "characters": CharactersTokenizer.train(CharactersConfig(), lines=LINES),
        "bytes": BytesTokenizer(),
    }


TOKENIZERS = tokenizers()


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("text", [*LINES, *ODD])
def test_every_piece_has_its_word(name: str, text: str) -> None:
    tokenizer = TOKENIZERS[name]
    pieces, words = tokenizer.tokenise(text), tokenizer.normalised(text).split()
    indices = words_of_pieces(tokenizer, text)
    assert len(indices) == len(pieces)
    assert indices == sorted(indices)
    assert set(indices) == set(range(len(words)))  # no word without a piece, no piece without a word
    for number, word in enumerate(words):
        own_pieces = [piece for piece, index in zip(pieces, indices, strict=True) if index == number]
        if "␛" not in text and "\u3000" not in text:  # whose bytes belong to no word, or spell nothing alone
            assert tokenizer.detokenise(own_pieces).strip() == word


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("text", LINES)
def test_the_fast_and_the_slow_implementation_agree(name: str, text: str) -> None:
    tokenizer = TOKENIZERS[name]
    pieces = tokenizer.tokenise(text)
    assert words_of_pieces(tokenizer, text) == _by_prefixes(tokenizer, pieces, words=len(text.split()))
