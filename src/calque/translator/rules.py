"""Wishes in ids: what the translations of a batch must and must not say, as search knows it."""

from collections.abc import Sequence

import torch

from calque.errors import ConfigError, TextError
from calque.search.decode import Rules
from calque.search.forbidden import Forbidden
from calque.search.settings import SearchConfig
from calque.text import EOS, Opened, Tokenizer, normalise, open_target
from calque.text.scripts import as_bytes, begins_apart, is_unspaced
from calque.translator.answers import Request


def forbidden_words(words: Sequence[str], *, target: Tokenizer) -> Forbidden | None:
    """Words that no translation has; None for none."""
    if not words:
        return None
    return Forbidden([normalise(word) for word in words], surfaces=target.surfaces())


def rules_of(
    requests: Sequence[Request],
    sources: Sequence[Opened],
    *,
    target: Tokenizer,
    copies: bool,
    forbidden: Forbidden | None,
    search: SearchConfig,
) -> Rules:
    """The wishes of a batch, in ids; words outside the vocabulary that a model copies have their numbers there."""

    def ids(text: str, source: Opened) -> list[int]:
        return open_target(target, [text], sources=[source])[0] if copies else target.encode(text)

    if forbidden is not None:
        _refuse_contradictions(requests, forbidden)
    both = list(zip(requests, sources, strict=True))
    prefixes = [ids(each.prefix, source) if each.prefix else [] for each, source in both]
    required = [[ids(phrase, source) for phrase in each.required if phrase] for each, source in both]
    follows = None
    if any(required):
        _refuse_lost(search)
        apart = torch.tensor([begins_apart(surface) for surface in target.surfaces()])
        apart[EOS] = True
        unspaced = torch.tensor([any(map(is_unspaced, "".join(each.required))) for each in requests])
        follows = apart | unspaced[:, None]
    if forbidden is not None and copies:
        spelled = [[target.surface(word) for word in source.unknown] for source in sources]
        forbidden = forbidden.beside([[as_bytes(each) for each in row] for row in spelled])
    return Rules(prefixes, required, follows, forbidden)


def _refuse_contradictions(requests: Sequence[Request], forbidden: Forbidden) -> None:
    """Raises an error for what must be said and must not: no translation could be right."""
    for request in requests:
        for phrase in (request.prefix, *request.required):
            if word := forbidden.words.found_in(normalise(phrase)):
                raise TextError(f"{phrase!r} must be said and {word!r} must not; take one of them off")


def _refuse_lost(search: SearchConfig) -> None:
    """Raises an error where search could not see to phrases that must appear."""
    if search.method != "beam" or search.groups > 1:
        way = f"method = {search.method!r}" if search.method != "beam" else f"groups = {search.groups}"
        raise ConfigError(f"phrases that must appear and search.{way} do not go together; use beam search, groups = 1")
