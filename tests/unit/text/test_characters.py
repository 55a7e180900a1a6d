import pytest

from calque.errors import TextError
from calque.text import CharactersConfig, CharactersTokenizer


def characters(*lines, **config):
    return CharactersTokenizer.train(CharactersConfig(**config), lines=lines)


def test_the_most_frequent_characters_are_learnt():
    assert characters("abc c b", "c").vocabulary.pieces[4:] == ("c", " ", "b", "a")
    assert characters("abc c b", "c", vocabulary_size=6).vocabulary.pieces[4:] == ("c", " ")


def test_characters_are_those_of_the_nfc():
    learnt = characters("e\u0301")
    assert learnt.vocabulary.pieces[4:] == ("é",)
    assert learnt.tokenise("e\u0301é") == ["é", "é"]


def test_unknown_characters_are_counted():
    learnt = characters("abc")
    assert learnt.unknown_characters("abxcxé") == {"x": 2, "é": 1}
    assert learnt.decode(learnt.encode("abx")) == "ab<unk>"


def test_an_empty_corpus_is_refused():
    with pytest.raises(TextError, match="every line is empty"):
        characters("", "")
