import time

import pytest

from calque.errors import TextError
from calque.text import WordsConfig, WordsTokenizer


def words(*lines, **config):
    return WordsTokenizer.train(WordsConfig(**config), lines=lines)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Don't (panic)!", "Don ￭'￭ t (￭ panic ￭) ￭!"),
        ("a, b", "a ￭, b"),
        ("wait...", "wait ￭. ￭. ￭."),
        ("((a", "( ￭(￭ a"),
        ("3.14", "3 ￭.￭ 14"),
        ("- a -", "- a -"),
        ("  a   b ", "a b"),
        ("हिन्दी और", "हिन्दी और"),
        ("<unk>", "<￭ unk ￭>"),
    ],
)
def test_punctuation_stands_alone(text, pieces):
    assert words("x").tokenise(text) == pieces.split(" ")


def test_other_white_space_is_kept():
    assert words("x").tokenise("a\tb\xa0\u2028c") == ["a", "￭\t￭", "b", "￭\xa0", "￭\u2028￭", "c"]


def test_the_most_frequent_words_are_learnt_in_any_order_of_lines():
    lines = ["b a c c", "a c d", "e é"]
    learnt = words(*lines, vocabulary_size=7)
    assert learnt.vocabulary.pieces[4:] == ("c", "a", "b")
    assert words(*lines[::-1], vocabulary_size=7).vocabulary == learnt.vocabulary
    assert words(*lines, minimum_count=2).vocabulary.pieces[4:] == ("c", "a")


def test_an_unknown_word_is_unknown():
    learnt = words("the cat sat.")
    assert learnt.decode(learnt.encode("the dog sat.")) == "the <unk> sat."
    assert learnt.encode("cats") == [3]


def test_characters_that_no_word_has():
    assert words("the cat ￭").unknown_characters("that   dog, ￭ dad") == {"d": 3, "o": 1, "g": 1, ",": 1}


def test_joiners_of_any_pieces_join():
    learnt = words("x")
    assert learnt.detokenise(["a￭", "￭b", "c", "￭", "d￭"]) == "ab c d"


def test_a_corpus_without_words_is_refused():
    with pytest.raises(TextError, match="every line is empty"):
        words("", "  ")


def test_a_long_chunk_takes_linear_time():
    start = time.perf_counter()
    assert len(words("x").tokenise("!" * 200_000)) == 200_000
    assert time.perf_counter() - start < 5
