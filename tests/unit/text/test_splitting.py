"""Long texts in parts that fit, and nothing lost but spaces."""

from hypothesis import given
from hypothesis import strategies as st

from calque.text.splitting import LengthProfile, sentences_in, split_long


def short(size: int):
    return lambda text: len(text) <= size


def test_it_cuts_at_the_ends_of_sentences() -> None:
    text = "One is here. Two is there! Is three? Four."
    assert split_long(text, fits=short(28)) == ["One is here. Two is there! ".strip(), "Is three? Four."]
    assert split_long("今天很好。你呢？我也好！", fits=short(6)) == ["今天很好。", "你呢？", "我也好！"]
    assert split_long('He said "no." She left.', fits=short(14)) == ['He said "no."', "She left."]


def test_a_sentence_that_is_too_long_is_cut_between_words() -> None:
    assert split_long("aa bb cc dd", fits=short(6)) == ["aa bb", "cc dd"]
    assert split_long("abcdef gh", fits=short(4)) == ["abcd", "ef", "gh"]


def test_sentences_are_joined_only_as_far_as_is_usual() -> None:
    text = "One is here. Two! Is a third one there, too? Four."
    found = split_long(text, fits=short(40), joins=short(18))
    assert found == ["One is here. Two!", "Is a third one there, too?", "Four."], "what fits stays whole"
    assert split_long("One. Two.", fits=short(40), joins=lambda part: sentences_in(part) <= 1) == ["One.", "Two."]


def test_what_is_usual_is_what_all_but_one_in_a_hundred_have() -> None:
    assert LengthProfile.of(pieces=[*range(1, 100), 5000], sentences=[1] * 98 + [7, 7]) == (99, 7)
    assert LengthProfile.of(pieces=[3, 5], sentences=[1, 1]) == (5, 1)
    assert LengthProfile.of(pieces=[], sentences=[]) == (1, 1)


@given(st.text(alphabet='ab. !?。猫\n"', max_size=60), st.integers(1, 12))
def test_every_part_fits_and_nothing_is_lost(text: str, size: int) -> None:
    parts = split_long(text, fits=short(size))
    assert "".join("".join(parts).split()) == "".join(text.split())
    if len(text) > size:
        assert all(len(part) <= size for part in parts)
    else:
        assert parts == [text]
