"""Errors for arguments that other toolkits name differently, such as n_best."""

import functools
import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

OTHER_NAMES = {
    **dict.fromkeys(("n_best", "n", "num_return_sequences", "num_hypotheses"), "nbest"),
    **dict.fromkeys(("beam_size", "num_beams", "beam_width"), "beam"),
    **dict.fromkeys(("max_length", "max_tokens", "max_new_tokens"), "maximum"),
}
"""Maps the names of arguments in other toolkits to Calque's."""


def check_argument_names(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a function: a call with an unknown argument raises a TypeError that suggests the right name.

    >>> translator.translate("Danke.", n_best=2)
    TypeError: Translator.translate() has no argument n_best; did you mean nbest? Its arguments are text, beam, nbest
    """
    names = [name for name in inspect.signature(function).parameters if name != "self"]

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs.keys() - {*names}:
            meant = OTHER_NAMES.get(name)
            close = [meant] if meant in names else get_close_matches(name, names, n=1)
            hint = f"; did you mean {close[0]}? Its" if close else "; its"
            raise TypeError(f"{function.__qualname__}() has no argument {name}{hint} arguments are {', '.join(names)}")
        return function(*args, **kwargs)

    return checked
