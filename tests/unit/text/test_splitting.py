"""Long texts are split into parts that fit; only spaces are lost."""

from hypothesis import given
from hypothesis import strategies as st

from calque.text.length_profile import LengthProfile
from calque.text.splitting import sentences_in, split_long


def at_most(size: int):
    return lambda text: len(text) <= size


def test_text_is_split_at_sentence_boundaries() -> None:
    text = "One is here. Two is there! Is three? Four."
    assert split_long(text, fits=at_most(28)) == ["One is here. Two is there! ".strip(), "Is three? Four."]
    assert split_long("今天很好。你呢？我也好！", fits=at_most(6)) == ["今天很好。", "你呢？", "我也好！"]
    assert split_long('He said "no." She left.', fits=at_most(14)) == ['He said "no."', "She left."]


def test_an_overlong_sentence_is_split_between_words() -> None:
    assert split_long("aa bb cc dd", fits=at_most(6)) == ["aa bb", "cc dd"]
    assert split_long("abcdef gh", fits=at_most(4)) == ["abcd", "ef", "gh"]


def test_sentences_are_joined_only_up_to_the_length_profile() -> None:
    text = "One is here. Two! Is a third one there, too? Four."
    parts = split_long(text, fits=at_most(40), joins=at_most(18))
    assert parts == ["One is here. Two!", "Is a third one there, too?", "Four."], "a sentence that fits is not split"
    assert split_long("One. Two.", fits=at_most(40), joins=lambda part: sentences_in(part) <= 1) == ["One.", "Two."]


def test_the_length_profile_is_the_99th_percentile() -> None:
    assert LengthProfile.of(pieces=[*range(1, 100), 5000], sentences=[1] * 98 + [7, 7]) == (99, 7, ())
    assert LengthProfile.of(pieces=[3, 5], sentences=[1, 1]) == (5, 1, ())
    assert LengthProfile.of(pieces=[], sentences=[]) == (1, 1, ())


@given(st.text(alphabet='ab. !?。猫\n"', max_size=60), st.integers(1, 12))
def test_every_part_fits_and_nothing_is_lost(text: str, size: int) -> None:
    parts = split_long(text, fits=at_most(size))
    assert "".join("".join(parts).split()) == "".join(text.split())
    if len(text) > size:
        assert all(len(part) <= size for part in parts)
    else:
        assert parts == [text]
