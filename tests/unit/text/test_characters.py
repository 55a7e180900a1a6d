import pytest

from calque.errors import TextError
from calque.text import CharactersConfig, CharactersTokenizer


def characters(*lines, **config):
    return CharactersTokenizer.train(CharactersConfig(**config), lines=lines)


def test_the_most_frequent_characters_enter_the_vocabulary():
    assert characters("abc c b", "c").vocabulary.pieces[4:] == ("c", " ", "b", "a")
    assert characters("abc c b", "c", vocabulary_size=6).vocabulary.pieces[4:] == ("c", " ")


def test_characters_are_nfc_code_points():
    tokenizer = characters("e\u0301")
    assert tokenizer.vocabulary.pieces[4:] == ("é",)
    assert tokenizer.tokenise("e\u0301é") == ["é", "é"]


def test_unknown_characters_are_counted():
    tokenizer = characters("abc")
    assert tokenizer.unknown_characters("abxcxé") == {"x": 2, "é": 1}
    assert tokenizer.decode(tokenizer.encode("abx")) == "ab<unk>"


def test_an_empty_corpus_is_rejected():
    with pytest.raises(TextError, match="every line is empty"):
        characters("", "")
