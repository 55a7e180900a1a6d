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
from calque.text.length_profile import LengthProfile
from calque.text.scripts import as_bytes, ends_outside_word, is_unspaced, starts_outside_word

_SHOWN = 40  # characters of a source quoted in a message


class ConstraintIds(NamedTuple):
    """The constraints of one request as ids; source words that the model can copy have ids beyond the vocabulary."""

    prefix: Sequence[int] = ()
    required: Sequence[Sequence[int]] = ()
    unspaced: bool = False  # a phrase is in a script without spaces, where it may begin and end anywhere
    copied: Sequence[bytes] = ()  # the surfaces of the source words that can be copied


NO_CONSTRAINTS = ConstraintIds()


@lru_cache(maxsize=16)
def forbidden_words(words: tuple[str, ...], *, target: Tokenizer) -> Forbidden | None:
    """A filter for `words`, which no translation may contain; None if there are no words."""
    if not words:
        return None
    texts = [target.normalised(word) for word in words]
    spellings = [*texts, *map(target.spelled, words)]  # a special piece such as `<unk>` is spelled as its text
    return Forbidden(texts, surfaces=target.surfaces(), spellings=spellings)


def constraint_ids(
    request: Request, source: NumberedText, *, target: Tokenizer, copies: bool, forbidden: Forbidden | None
) -> ConstraintIds:
    """The constraints of a request as ids, given its encoded source.

    Raises a TextError if a phrase is outside the vocabulary, or is both required and forbidden.
    """

    def encode(text: str) -> list[int]:
        ids = number_target(target, [text], sources=[source])[0] if copies else target.encode(text)
        if UNK in ids:
            raise _request_error(_unknown_message(text, ids, target=target, copies=copies), request)
        return ids

    if forbidden is None and not request.prefix and not request.required:
        return NO_CONSTRAINTS
    if forbidden is not None:
        _refuse_contradictions(request, forbidden, target=target)
    return ConstraintIds(
        encode(request.prefix) if request.prefix else [],
        [ids for phrase in request.required if (ids := encode(phrase))],
        any(map(is_unspaced, "".join(request.required))),
        [as_bytes(target.surface(word)) for word in source.unknown] if copies else [],
    )


def rules_of(constraints: Sequence[ConstraintIds], *, target: Tokenizer, forbidden: Forbidden | None) -> Rules:
    """The constraints of a batch in the form that search reads."""
    if all(row is NO_CONSTRAINTS for row in constraints):
        return Rules()
    boundaries = _Boundaries(None, None)
    if any(row.required for row in constraints):
        boundaries = _phrase_boundaries(constraints, target=target)
    if forbidden is not None and any(row.copied for row in constraints):
        forbidden = forbidden.with_copied_words([row.copied for row in constraints])
    prefixes, required = [row.prefix for row in constraints], [row.required for row in constraints]
    return Rules(prefixes, required, boundaries.follows, boundaries.opens, forbidden)


def length_limits(
    request: Request, source: NumberedText, *, search: SearchConfig, profile: LengthProfile | None = None
) -> tuple[int, int]:
    """The minimum and maximum number of pieces of the translation; raises a TextError if they contradict each other.

    The lengths of training targets (`profile`) are ignored if the translation must contain a prefix or a phrase.
    """
    is_free = profile is not None and not request.prefix and not request.required
    longest = profile.longest_target(len(source.ids)) if profile is not None and is_free else None
    try:
        return piece_limits(len(source.ids), search=search, longest=longest)
    except TextError as error:
        raise _request_error(str(error), request) from None


class _Boundaries(NamedTuple):
    """Masks of the pieces that may follow a required phrase, and of those that may precede it; see `Required`."""

    follows: Tensor | None  # [B,V], V counts the copied words too
    opens: Tensor | None  # [B,V]


def _phrase_boundaries(constraints: Sequence[ConstraintIds], *, target: Tokenizer) -> _Boundaries:
    """Masks that let required phrases begin and end only at word boundaries; in a script without spaces, anywhere."""
    unspaced = torch.tensor([row.unspaced for row in constraints])
    width = max(len(row.copied) for row in constraints)
    masks = []
    for is_boundary in (starts_outside_word, ends_outside_word):
        rows = [[*map(is_boundary, row.copied), *[True] * (width - len(row.copied))] for row in constraints]
        copied_mask = torch.tensor(rows, dtype=torch.bool).view(len(constraints), width)
        piece_mask = _boundary_mask(target, is_boundary).expand(len(constraints), -1)
        masks.append(torch.cat([piece_mask, copied_mask], dim=1) | unspaced[:, None])
    return _Boundaries(*masks)


@lru_cache(maxsize=8)
def _boundary_mask(target: Tokenizer, is_boundary: Callable[[bytes], bool]) -> Tensor:
    """A mask [V], true for the pieces of the vocabulary whose text satisfies `is_boundary`, and for EOS."""
    mask = torch.tensor([is_boundary(surface) for surface in target.surfaces()])
    mask[EOS] = True
    return mask


def _refuse_contradictions(request: Request, forbidden: Forbidden, *, target: Tokenizer) -> None:
    """Raises a TextError for a required phrase that contains a forbidden word: no translation could satisfy both."""
    for phrase in (request.prefix, *request.required):
        if word := forbidden.found_in(target.normalised(phrase)):
            raise _request_error(f"{phrase!r} is required but {word!r} is forbidden; drop one of them", request)


def _unknown_message(text: str, ids: Sequence[int], *, target: Tokenizer, copies: bool) -> str:
    pieces = target.tokenise(text)
    word = pieces[ids.index(UNK)] if len(pieces) == len(ids) else text
    where = "neither in the model's vocabulary nor in the source" if copies else "not in the model's vocabulary"
    return f"{text!r} is required but {word!r} is {where}; choose other words"


def _request_error(problem: str, request: Request) -> TextError:
    """An error that states the problem and quotes the beginning of the request's source."""
    shown = request.text[:_SHOWN] + ("..." if len(request.text) > _SHOWN else "")
    return TextError(f"{problem} (source: {shown!r})")
