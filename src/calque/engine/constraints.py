"""Constraints as ids: what the translations of a batch must and must not contain, in the form that search reads."""

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

_SHOWN = 40  # characters of a source quoted in a message


def forbidden_words(words: Sequence[str], *, target: Tokenizer) -> Forbidden | None:
    """Words that no translation may contain; None if there are none."""
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
    """The constraints of a batch as ids; source words that the model can copy have ids beyond the vocabulary.

    A phrase that is outside the vocabulary, or required and forbidden at once, is rejected with a TextError.
    """

    def encode(text: str, request: Request, source: NumberedText) -> list[int]:
        ids = number_target(target, [text], sources=[source])[0] if copies else target.encode(text)
        if UNK in ids:
            raise _request_error(_unknown_message(text, ids, target=target, copies=copies), request)
        return ids

    if forbidden is not None:
        _refuse_contradictions(requests, forbidden, target=target)
    pairs = list(zip(requests, sources, strict=True))
    prefixes = [encode(request.prefix, request, source) if request.prefix else [] for request, source in pairs]
    required = [[encode(phrase, request, source) for phrase in request.required] for request, source in pairs]
    required = [[phrase for phrase in phrases if phrase] for phrases in required]
    boundaries = _Boundaries(None, None)
    copied = [[as_bytes(target.surface(word)) for word in source.unknown] if copies else [] for source in sources]
    if any(required):
        boundaries = _phrase_boundaries(requests, copied, target=target)
    if forbidden is not None and copies:
        forbidden = forbidden.with_copied_words(copied)
    return Rules(prefixes, required, boundaries.follows, boundaries.opens, forbidden)


def refuse_lengths(request: Request, source: NumberedText, *, search: SearchConfig) -> None:
    """Raises a TextError if the minimum length of a translation of the source exceeds its maximum length."""
    try:
        piece_limits(len(source.ids), search=search)
    except TextError as error:
        raise _request_error(str(error), request) from None


class _Boundaries(NamedTuple):
    """Where phrases may begin and end, see `Required`."""

    follows: Tensor | None  # [B,V], V counts the copied words too
    opens: Tensor | None  # [B,V]


def _phrase_boundaries(
    requests: Sequence[Request], copied: Sequence[Sequence[bytes]], *, target: Tokenizer
) -> _Boundaries:
    """In a script without spaces a phrase may begin and end anywhere."""
    unspaced = torch.tensor([any(map(is_unspaced, "".join(request.required))) for request in requests])
    width = max(map(len, copied))
    masks = []
    for is_boundary in (starts_outside_word, ends_outside_word):
        rows = [[*map(is_boundary, words), *[True] * (width - len(words))] for words in copied]
        copied_mask = torch.tensor(rows, dtype=torch.bool).view(len(requests), width)
        piece_mask = _boundary_mask(target, is_boundary).expand(len(requests), -1)
        masks.append(torch.cat([piece_mask, copied_mask], dim=1) | unspaced[:, None])
    return _Boundaries(*masks)


@lru_cache(maxsize=8)
def _boundary_mask(target: Tokenizer, is_boundary: Callable[[bytes], bool]) -> Tensor:
    """[V], which pieces satisfy `is_boundary`; the end of the text always does."""
    mask = torch.tensor([is_boundary(surface) for surface in target.surfaces()])
    mask[EOS] = True
    return mask


def _refuse_contradictions(requests: Sequence[Request], forbidden: Forbidden, *, target: Tokenizer) -> None:
    """Raises a TextError for a required phrase that contains a forbidden word: no translation could satisfy both."""
    for request in requests:
        for phrase in (request.prefix, *request.required):
            if word := forbidden.words.found_in(target.normalised(phrase)):
                raise _request_error(f"{phrase!r} is required but {word!r} is forbidden; drop one of them", request)


def _unknown_message(text: str, ids: Sequence[int], *, target: Tokenizer, copies: bool) -> str:
    pieces = target.tokenise(text)
    word = pieces[ids.index(UNK)] if len(pieces) == len(ids) else text
    where = "neither in the model's vocabulary nor in the source" if copies else "not in the model's vocabulary"
    return f"{text!r} is required but {word!r} is {where}; choose other words"


def _request_error(problem: str, request: Request) -> TextError:
    """The problem with the beginning of the request's source."""
    shown = request.text[:_SHOWN] + ("..." if len(request.text) > _SHOWN else "")
    return TextError(f"{problem} (source: {shown!r})")
