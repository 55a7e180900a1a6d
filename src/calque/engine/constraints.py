"""OutputOptions in ids: what the translations of a batch must and must not say, as search knows it."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from calque.engine.types import Request
from calque.errors import TextError
from calque.search.decode import Rules, piece_limits
from calque.search.forbidden_words import Forbidden
from calque.search.settings import SearchConfig
from calque.text import EOS, UNK, NumberedText, Tokenizer, number_target
from calque.text.scripts import as_bytes, ends_outside_word, is_unspaced, starts_outside_word

_SHOWN = 40  # characters of a source in a message


def forbidden_words(words: Sequence[str], *, target: Tokenizer) -> Forbidden | None:
    """Words that no translation has; None for none."""
    if not words:
        return None
    return Forbidden([target.normalised(word) for word in words], surfaces=target.surfaces())


def rules_of(
    requests: Sequence[Request],
    sources: Sequence[NumberedText],
    *,
    target: Tokenizer,
    copies: bool,
    forbidden: Forbidden | None,
) -> Rules:
    """The wishes of a batch, in ids; words outside the vocabulary that a model copies have their numbers there.

    What no translation could say, as the vocabulary does not have it or it is forbidden, is refused with a TextError.
    """

    def ids(text: str, request: Request, source: NumberedText) -> list[int]:
        found = number_target(target, [text], sources=[source])[0] if copies else target.encode(text)
        if UNK in found:
            raise _refused(_unsayable(text, found, target=target, copies=copies), request)
        return found

    if forbidden is not None:
        _refuse_contradictions(requests, forbidden, target=target)
    both = list(zip(requests, sources, strict=True))
    prefixes = [ids(each.prefix, each, source) if each.prefix else [] for each, source in both]
    required = [[ids(phrase, each, source) for phrase in each.required] for each, source in both]
    required = [[phrase for phrase in row if phrase] for row in required]
    edges = _Edges(None, None)
    copied = [[as_bytes(target.surface(word)) for word in source.unknown] if copies else [] for source in sources]
    if any(required):
        edges = _edges_of(requests, copied, target=target)
    if forbidden is not None and copies:
        forbidden = forbidden.with_copied_words(copied)
    return Rules(prefixes, required, edges.follows, edges.opens, forbidden)


def refuse_lengths(request: Request, source: NumberedText, *, search: SearchConfig) -> None:
    """Raises a TextError where a translation of the source would have to be longer than it may be."""
    try:
        piece_limits(len(source.ids), search=search)
    except TextError as error:
        raise _refused(str(error), request) from None


class _Edges(NamedTuple):
    """Where phrases may begin and end, see `Required`."""

    follows: Tensor | None  # [B,V], V with the words that are copied
    opens: Tensor | None  # [B,V]


def _edges_of(requests: Sequence[Request], copied: Sequence[Sequence[bytes]], *, target: Tokenizer) -> _Edges:
    """Words of a script without spaces begin and end anywhere."""
    unspaced = torch.tensor([any(map(is_unspaced, "".join(each.required))) for each in requests])
    most = max(map(len, copied))
    sides = []
    for side in (starts_outside_word, ends_outside_word):
        own = torch.tensor([[*map(side, row), *[True] * (most - len(row))] for row in copied], dtype=torch.bool)
        known = _apart(target, side).expand(len(requests), -1)
        sides.append(torch.cat([known, own.view(len(requests), most)], dim=1) | unspaced[:, None])
    return _Edges(*sides)


@lru_cache(maxsize=8)
def _apart(target: Tokenizer, side: Callable[[bytes], bool]) -> Tensor:
    """[V], which pieces begin, or end, a word; a text that ends has ended its words."""
    apart = torch.tensor([side(surface) for surface in target.surfaces()])
    apart[EOS] = True
    return apart


def _refuse_contradictions(requests: Sequence[Request], forbidden: Forbidden, *, target: Tokenizer) -> None:
    """Raises an error for what must be said and must not: no translation could be right."""
    for request in requests:
        for phrase in (request.prefix, *request.required):
            if word := forbidden.words.found_in(target.normalised(phrase)):
                raise _refused(f"{phrase!r} must be said and {word!r} must not; take one of them off", request)


def _unsayable(text: str, ids: Sequence[int], *, target: Tokenizer, copies: bool) -> str:
    pieces = target.tokenise(text)
    word = pieces[ids.index(UNK)] if len(pieces) == len(ids) else text
    where = "neither in the model's vocabulary nor in the source" if copies else "not in the model's vocabulary"
    return f"{text!r} must be said and {word!r} is {where}; say it in other words"


def _refused(problem: str, request: Request) -> TextError:
    """With the beginning of the source that it is about."""
    shown = request.text[:_SHOWN] + ("..." if len(request.text) > _SHOWN else "")
    return TextError(f"{problem} (asked for with {shown!r})")
