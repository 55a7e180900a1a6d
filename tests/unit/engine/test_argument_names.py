"""An argument by another toolkit's name is answered with Calque's."""

import inspect
from typing import Any

import pytest

from calque.engine import TextGenerator, Translator
from calque.engine.argument_names import OTHER_NAMES

TRANSLATE = "; did you mean {}? Its arguments are text, beam, nbest"


@pytest.mark.parametrize(
    ("method", "argument", "message"),
    [
        (Translator.translate, "n_best", "Translator.translate() has no argument n_best" + TRANSLATE.format("nbest")),
        (Translator.translate, "beam_size", "has no argument beam_size" + TRANSLATE.format("beam")),
        (Translator.translate, "nbests", "has no argument nbests" + TRANSLATE.format("nbest")),
        (Translator.translate, "zzz", "has no argument zzz; its arguments are text, beam, nbest"),
        (Translator.stream, "n_best", "did you mean nbest? Its arguments are requests, search, nbest, first, poll"),
        (TextGenerator.generate, "max_tokens", "did you mean maximum? Its arguments are prompt, maximum, search"),
        (TextGenerator.candidates, "num_return_sequences", "did you mean nbest?"),
    ],
)
def test_the_message_has_the_right_name(method: Any, argument: str, message: str) -> None:
    with pytest.raises(TypeError) as raised:
        method(None, "a", **{argument: 3})
    assert message in str(raised.value)


def test_other_names_are_not_calques_own() -> None:
    for method in (Translator.translate, Translator.stream, TextGenerator.generate, TextGenerator.candidates):
        assert not OTHER_NAMES.keys() & inspect.signature(method).parameters.keys()
