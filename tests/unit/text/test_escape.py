from hypothesis import example, given
from hypothesis import strategies as st

from calque.text.cleaning import Escape

ESCAPE = Escape("▁▅")
texts = st.text(st.sampled_from("▁▅␛0123a ")) | st.text()


@given(texts)
@example("␛1")
@example("␛␛01▁")
def test_undo_restores_the_text(text):
    assert ESCAPE.undo(ESCAPE.apply(text)) == text


@given(texts)
def test_reserved_characters_are_gone(text):
    assert not set("▁▅") & set(ESCAPE.apply(text))


@given(texts.filter(lambda text: not set("▁▅␛") & set(text)))
def test_other_text_is_unchanged(text):
    assert ESCAPE.apply(text) == text == ESCAPE.undo(text)


def test_unescaped_marks_are_unchanged():
    assert ESCAPE.undo("␛ ␛9 a␛") == "␛ ␛9 a␛"
