"""Turns requests into jobs: checks them, splits them into parts, encodes the parts, converts constraints to ids."""

import time
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from calque.engine.constraints import NO_CONSTRAINTS, ConstraintIds, constraint_ids, forbidden_words, length_limits
from calque.engine.sampling_seeds import Place
from calque.engine.shortlist import check_shortlist
from calque.engine.splitting import split_request
from calque.engine.translation_models import TranslationModels
from calque.engine.truncation import Truncated
from calque.engine.types import Candidate, Request, Translation
from calque.errors import CalqueError, ConfigError, DeadlineError, RequestError, TextError
from calque.search.decode import check_phrases_supported
from calque.search.forbidden_words import Forbidden
from calque.search.settings import SearchConfig
from calque.text import NumberedText

MOST_SAMPLES = 100_000  # of one text
_SHOWN = 80  # characters of a value quoted in a message


class PendingAnswer(Future[Translation]):
    """The future answer to a submitted request: `result` waits for the translation, or raises the request's error.

    It is a `concurrent.futures.Future`, so `asyncio.wrap_future` can await it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_given_up = False

    def cancel(self) -> bool:
        """Cancels the request, even while it is being decoded; search drops it before its next step."""
        self.is_given_up = True
        return super().cancel() or not self.done()


class Settings(NamedTuple):
    """The settings that all requests of a batch have in common."""

    search: SearchConfig
    nbest: int  # hypotheses to search for
    forbidden: Forbidden | None
    replace_unknown: Mapping[str, str] | None
    detail: bool


class Part(NamedTuple):
    """A text that search translates as a whole: the text of a request, or one part of a long text."""

    text: str
    source: NumberedText
    source_cut: bool  # the text is longer than the model reads
    limits: tuple[int, int]  # the minimum and maximum number of pieces in its translation
    constraints: ConstraintIds
    place: Place
    requires_phrases: bool

    @property
    def is_empty(self) -> bool:
        """Whether this part of a text contains nothing to translate."""
        return not self.source.ids or not self.text.strip()


class Job:
    """A request that is being answered: its parts, and their candidates once they are decoded."""

    def __init__(
        self,
        request: Request,
        parts: Sequence[Part],
        settings: Settings,
        *,
        key: Hashable,
        pending: PendingAnswer | None,
    ) -> None:
        self.request, self.parts, self.settings = request, parts, settings
        self.key = key  # jobs with the same key can share a batch
        self.pending = pending
        self.deadline = None if request.timeout is None else time.monotonic() + request.timeout
        self.candidates: list[list[Candidate]] = [[] for _ in parts]
        self.error: CalqueError | None = None
        self.unfinished = sum(not part.is_empty for part in parts)

    @property
    def can_be_given_up(self) -> bool:
        return self.pending is not None or self.deadline is not None

    def check_given_up(self) -> bool:
        """Whether the request was cancelled, has timed out or has failed; if so, sets `error`."""
        if self.error is None and self.pending is not None and self.pending.is_given_up:
            self.error = RequestError("the request was cancelled")
        if self.error is None and self.deadline is not None and time.monotonic() >= self.deadline:
            self.error = DeadlineError(f"the request was not answered within {self.request.timeout:g} seconds")
        return self.error is not None


def prepare(
    requests: Sequence[Request], models: TranslationModels, *, reranks: bool, pending: PendingAnswer | None = None
) -> list[Job | CalqueError]:
    """Checks and encodes requests; returns, for each, a job that is ready for search, or the error that prevents it.

    With `reranks`, search returns its whole beam, from which the n best are chosen later.
    """
    results: list[Job | CalqueError | None] = [None] * len(requests)
    parts: dict[int, list[Request]] = {}
    for place, request in enumerate(requests):
        try:
            check_request(request, models)
            parts[place] = _parts(request, models)
        except CalqueError as error:
            results[place] = error
    encoded = _encode({place: (_search(requests[place], models), texts) for place, texts in parts.items()}, models)
    for place, sources in encoded.items():
        try:
            results[place] = _job(requests[place], parts[place], sources, models, reranks=reranks, pending=pending)
        except CalqueError as error:
            results[place] = error
    return [result for result in results if result is not None]


def check_request(request: Request, models: TranslationModels) -> None:
    """Raises an error for a request that cannot be answered, whatever its text contains."""
    _refuse_types(request)
    search, nbest = _search(request, models), 1 if request.nbest is None else request.nbest
    if search.coverage > 0 and not models.model.decoder.attends:
        raise ConfigError(
            "search.coverage needs a model with attention, but this one has none; set search.coverage = 0"
        )
    most = {"beam": search.beam, "sample": MOST_SAMPLES, "risk": search.samples}[search.method]
    if not 1 <= nbest <= most:
        if search.method == "sample":
            raise TextError(f"nbest is {nbest}: it must be between 1 and {most:,}")
        key = "samples" if search.method == "risk" else "beam"
        raise TextError(f"nbest is {nbest} and {key} is {most}: nbest must be between 1 and {key}")
    if any(request.required):
        check_phrases_supported(search)
    check_shortlist(search, models)


def _refuse_types(request: Request) -> None:
    if not isinstance(request, Request):
        raise TextError(f"text must be a string or a Request; found {request!r:.{_SHOWN}}")
    texts = {"text": request.text, "prefix": request.prefix}
    for name, phrases in (("required", request.required), ("forbidden", request.forbidden)):
        if isinstance(phrases, str) or not isinstance(phrases, Sequence):
            raise TextError(f"{name} must be a sequence of phrases; found {phrases!r:.{_SHOWN}}")
        texts |= {f"{name}[{place}]": phrase for place, phrase in enumerate(phrases)}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise TextError(f"{name} must be a string; found {text!r:.{_SHOWN}}")
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            raise TextError(f"{name} contains a lone surrogate, which is not valid Unicode: {text!r:.{_SHOWN}}")
    if request.places and len(request.places) != len(request.required):
        raise TextError(
            f"found {len(request.places)} places for {len(request.required)} required phrases; give for each phrase "
            "the place in the text where the words that it translates begin"
        )
    if request.search is not None and not isinstance(request.search, SearchConfig):
        raise ConfigError(f"search must be a SearchConfig; found {request.search!r:.{_SHOWN}}")
    for name, number in (("nbest", request.nbest), ("line", request.line)):
        if number is not None and (not isinstance(number, int) or abs(number) >= 1 << 63):
            raise ConfigError(f"{name} must be a whole number that fits into 64 bits; found {number!r:.{_SHOWN}}")
    if not all(isinstance(place, int) for place in request.places):
        raise TextError(f"places must be whole numbers; found {request.places!r:.{_SHOWN}}")
    if not isinstance(request.detail, bool):
        raise ConfigError(f"detail must be true or false; found {request.detail!r:.{_SHOWN}}")
    if request.timeout is not None and not isinstance(request.timeout, int | float):
        raise ConfigError(f"timeout must be a number of seconds; found {request.timeout!r:.{_SHOWN}}")
    if request.long not in ("cut", "split"):
        raise ConfigError(f"`long` must be 'cut' or 'split'; found {request.long!r:.{_SHOWN}}")
    if request.replace_unknown is not None and not isinstance(request.replace_unknown, Mapping):
        raise ConfigError(
            "replace_unknown must be a dict from source words to target words; found "
            f"{request.replace_unknown!r:.{_SHOWN}}"
        )


def _search(request: Request, models: TranslationModels) -> SearchConfig:
    return request.search or models.search


def _parts(request: Request, models: TranslationModels) -> list[Request]:
    if request.long == "cut":
        return [request]
    limit = _search(request, models).source_limit
    return split_request(request, tokenizer=models.tokenizers.source, limit=limit, length_profile=models.length_profile)


def _encode(
    parts: Mapping[int, tuple[SearchConfig, Sequence[Request]]], models: TranslationModels
) -> dict[int, list[Truncated]]:
    """The token ids of each request's parts, by the request's index; parts with equal limits are encoded together."""
    limits: dict[int, list[int]] = {}
    for place, (search, _) in parts.items():
        limits.setdefault(search.source_limit, []).append(place)
    encoded: dict[int, list[Truncated]] = {}
    for limit, places in limits.items():
        texts = [part.text for place in places for part in parts[place][1]]
        truncated = iter(models.encode_sources(texts, limit=limit))
        for place in places:
            encoded[place] = [next(truncated) for _ in parts[place][1]]
    return encoded


def _job(
    request: Request,
    part_requests: Sequence[Request],
    sources: Sequence[Truncated],
    models: TranslationModels,
    *,
    reranks: bool,
    pending: PendingAnswer | None,
) -> Job:
    search = _search(request, models)
    nbest = max(search.beam, request.nbest or 1) if reranks else request.nbest or 1
    forbidden = forbidden_words(tuple(request.forbidden), target=models.tokenizers.target)
    settings = Settings(search, nbest, forbidden, request.replace_unknown, request.detail)
    pairs = zip(part_requests, sources, strict=True)
    parts = [
        _part(part, source, models, settings=settings, place=Place(request.line or 0, number))
        for number, (part, source) in enumerate(pairs)
    ]
    replacements = None if request.replace_unknown is None else frozenset(request.replace_unknown.items())
    key = (search, nbest, tuple(request.forbidden), replacements, request.detail)
    return Job(request, parts, settings, key=key, pending=pending)


def _part(request: Request, source: Truncated, models: TranslationModels, *, settings: Settings, place: Place) -> Part:
    part = Part(request.text, source.numbered, source.cut, (0, 0), NO_CONSTRAINTS, place, bool(request.required))
    if part.is_empty:
        return part
    return part._replace(
        limits=length_limits(request, source.numbered, search=settings.search, profile=models.length_profile),
        constraints=constraint_ids(
            request,
            source.numbered,
            target=models.tokenizers.target,
            copies=models.model.copies,
            forbidden=settings.forbidden,
        ),
    )
