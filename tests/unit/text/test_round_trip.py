"""The law of tokenizers for all of Unicode: detokenise(tokenise(s)) == NFC(s), and the same through ids."""

import re
import sys
from functools import cache
from typing import get_args
from unicodedata import normalize

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calque.errors import TextError
from calque.text import (
    BytesConfig,
    CharactersConfig,
    GivenConfig,
    SentencePieceConfig,
    TextConfig,
    Tokenizer,
    TokensConfig,
    WordsConfig,
    train_tokenizers,
)
from calque.text.forms import FormsConfig
from calque.text.training import ColumnsConfig

PLAIN = ["the cat sat on the mat", "Don't panic (yet)!", "der Hund, die Katze", "größer als 3.14 · 你好世界", "a  b"]
NASTY = [
    *["▁", "␛", "␛0", "␛1", "␛2", "▅", "￭", "￭ ", "\\", "⁇"],
    *[
        " ",
        "  ",
        "\t",
        "\n",
        "\r",
        "\r\n",
        "\x00",
        "\x0b",
        "\x0c",
        "\x1c",
        "\x85",
        "\u2028",
        "\u2029",
        "\xa0",
        "\ufeff",
    ],
    *["<s>", "</s>", "<pad>", "<unk>", "<0x41>", "<0x0", "1>"],
    *[
        "e\u0301",
        "\u0301",
        "é",
        "\u1100\u1161",
        "\uac00\u11a8",
        "Å",
        "ﬁ",
        "ẛ̣",
        "हिन्दी",
        "שלום",
        "\u202eabc",
        "👩‍👩‍👧",
        "🇩🇪",
    ],
    *["a", "the", "Don't", "...", "(x)", "你好", "\U0010ffff", "\ue000", "\ufffd", "\u200b", "\u00ad"],
]
EVERYTHING = "".join(chr(point) for point in range(sys.maxunicode + 1) if not 0xD800 <= point < 0xE000)

any_text = st.text(st.characters(exclude_categories=["Cs"]))
nasty_text = st.lists(st.sampled_from(NASTY) | any_text.filter(bool), max_size=12).map("".join)
texts = any_text | nasty_text

EXACT = {
    "bpe": SentencePieceConfig(),
    "unigram": SentencePieceConfig(algorithm="unigram"),
    "characters": CharactersConfig(),
    "bytes": BytesConfig(),
}
CORPORA = {"plain": PLAIN, "nasty": [*PLAIN, *NASTY, "".join(NASTY), *NASTY * 3]}


def learn(config: TextConfig, lines: list[str]) -> Tokenizer:
    return train_tokenizers(config, source=lambda: iter(lines), target=lambda: iter(lines), pairs=len(lines)).source


@cache
def tokenizer(name: str, corpus: str) -> Tokenizer:
    return learn(EXACT[name], CORPORA[corpus])


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("name", EXACT)
@given(text=texts)
@example("")
@example(" ")
@example("  a  ")
@example("▁␛1▁␛")
@example("<s><0x41></s><unk><pad>")
@settings(max_examples=150, deadline=None)
def test_pieces_spell_the_text(name: str, corpus: str, text: str) -> None:
    exact = tokenizer(name, corpus)
    assert exact.detokenise(exact.tokenise(text)) == normalize("NFC", text)


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("name", ["bpe", "unigram", "bytes"])
@given(text=texts)
@settings(max_examples=150, deadline=None)
def test_ids_spell_the_text(name: str, corpus: str, text: str) -> None:
    exact = tokenizer(name, corpus)
    ids = exact.encode(text)
    assert exact.decode(ids) == normalize("NFC", text)
    assert ids == exact.vocabulary.ids(exact.tokenise(text)) == exact.encode_many([text])[0]
    assert min(ids, default=4) > 3


@given(text=texts)
@settings(deadline=None)
def test_ids_of_characters_spell_a_text_of_known_characters(text: str) -> None:
    characters = tokenizer("characters", "plain")
    unknown = characters.unknown_characters(text)
    expected = "".join("<unk>" if character in unknown else character for character in normalize("NFC", text))
    assert characters.decode(characters.encode(text)) == expected


@pytest.mark.parametrize("name", EXACT)
def test_every_character_of_unicode(name: str) -> None:
    exact = tokenizer(name, "plain")
    pieces = exact.tokenise(EVERYTHING)
    assert exact.detokenise(pieces) == normalize("NFC", EVERYTHING)
    if name in ("bpe", "unigram", "bytes"):
        assert all(piece in exact.vocabulary for piece in pieces)


@pytest.mark.parametrize("name", EXACT)
def test_every_nasty_piece_alone_between_and_at_the_ends(name: str) -> None:
    exact = tokenizer(name, "nasty")
    nasty = [*NASTY, *(f"a{piece}b" for piece in NASTY), *(f" {piece} " for piece in NASTY)]
    assert [exact.detokenise(exact.tokenise(text)) for text in nasty] == [normalize("NFC", text) for text in nasty]
    known = [text for text in nasty if name != "characters" or not exact.unknown_characters(text)]
    assert [exact.decode(ids) for ids in exact.encode_many(known)] == [normalize("NFC", text) for text in known]


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
@given(lines=st.lists(texts, min_size=1, max_size=6).filter(lambda lines: any(line.strip("\r\n") for line in lines)))
@example(["\x00"])
@example(["▅"])
@example([" "])
@example(["\t", "<s>"])
@settings(max_examples=40, deadline=None)
def test_any_corpus_can_be_trained_on_and_restored(algorithm: str, lines: list[str]) -> None:
    exact = learn(SentencePieceConfig(algorithm=algorithm), lines)  # type: ignore[arg-type]
    assert [exact.decode(ids) for ids in exact.encode_many(lines)] == [normalize("NFC", line) for line in lines]


@pytest.mark.parametrize("corpus", CORPORA)
@given(text=texts)
@example("Don't (panic)...!")
@example("￭a￭ ￭ ␛1")
@settings(deadline=None)
def test_words_spell_the_text_up_to_runs_of_spaces(corpus: str, text: str) -> None:
    words = learn(WordsConfig(), CORPORA[corpus])
    pieces = words.tokenise(text)
    assert words.detokenise(pieces) == re.sub(" +", " ", normalize("NFC", text)).strip(" ")
    assert not any(" " in piece or piece in ("", "<pad>", "<s>", "</s>", "<unk>") for piece in pieces)


@pytest.mark.parametrize("corpus", CORPORA)
@given(text=texts)
@example("the <unk> of N <s> 's ␛<s> ␛␛</s> ␛ <pad>")
@example("a\xa0b\u2028c\x85d")
@settings(deadline=None)
def test_tokens_spell_the_text_up_to_white_space(corpus: str, text: str) -> None:
    tokens = learn(TokensConfig(), CORPORA[corpus])
    pieces = tokens.tokenise(text)
    assert tokens.detokenise(pieces) == " ".join(text.split())
    assert not any(piece in ("", "<pad>", "<s>", "</s>") or len(piece.split()) > 1 for piece in pieces)
    known = learn(TokensConfig(), [text, "a"])
    assert known.decode(known.encode(text)) == " ".join(text.split())


def all_configs() -> list[TextConfig]:
    return [*EXACT.values(), TokensConfig(), WordsConfig()]


def test_every_kind_is_tested() -> None:
    kinds = set(get_args(get_args(TextConfig)[0]))
    assert {type(config) for config in all_configs()} == kinds - {
        *(GivenConfig, ColumnsConfig),  # which load, or hold, one of the others
        FormsConfig,  # vocabularies of a tagger, which is given words
    }


@pytest.mark.parametrize("config", all_configs(), ids=repr)
def test_lone_surrogates_are_rejected(config: TextConfig) -> None:
    trained = learn(config, PLAIN)
    for text in ["\ud800", "ab\udfffc", "\udc80"]:
        for use in (trained.tokenise, trained.encode, lambda text: trained.encode_many(["fine", text])):
            with pytest.raises(TextError, match="lone surrogate"):
                use(text)
    with pytest.raises(TextError, match=r"character 3 is a lone surrogate \(U\+DFFF\)"):
        trained.encode("ab\udfffc")


@pytest.mark.parametrize("config", all_configs(), ids=repr)
@given(ids=st.lists(st.integers(0, 300)))
@settings(max_examples=50, deadline=None)
def test_any_ids_spell_some_text(config: TextConfig, ids: list[int]) -> None:
    trained = _trained(config)
    known = [id % len(trained.vocabulary) for id in ids]
    text = trained.decode(known)
    text.encode()
    assert text == trained.decode([id for id in known if id not in (0, 1, 2)])


@cache
def _trained(config: TextConfig) -> Tokenizer:
    return learn(config, CORPORA["nasty"])


@pytest.mark.parametrize("config", all_configs(), ids=repr)
def test_special_ids(config: TextConfig) -> None:
    trained = learn(config, PLAIN)
    assert trained.vocabulary.pieces[:4] == ("<pad>", "<s>", "</s>", "<unk>")
    ids = trained.encode("the cat")
    assert trained.decode([1, *ids, 2, 0, 0]) == trained.decode(ids) == "the cat"
    assert "<unk>" in trained.decode([*ids, 3])
    assert trained.encode("") == [] and trained.decode([]) == ""
