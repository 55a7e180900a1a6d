"""The engine: answers each request with a translation, or with an error that concerns this request alone."""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, InvalidStateError
from contextlib import suppress
from itertools import islice
from types import TracebackType
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import nn

from calque.devices import is_out_of_memory
from calque.engine.decoding import UNWATCHED, ChangeAttention, Inspection, decode_batch
from calque.engine.noisy_channel import Channel
from calque.engine.preparation import Job, Part, PendingAnswer, Settings, check_request, prepare
from calque.engine.splitting import join
from calque.engine.translation_models import TranslationModels
from calque.engine.types import Answer, Request, Translation, empty_translation
from calque.errors import CalqueError, ConfigError, OutOfMemory, RequestError
from calque.layers.observers import AttentionObserver
from calque.search.interventions import Intervention
from calque.search.observers import SearchObserver
from calque.search.settings import SearchConfig, batch_positions

WINDOW = 2048  # requests sorted by length together
FULL_BATCH_BEAM = 5  # hypotheses per sentence; with more, batches are smaller in proportion
IDLE = 5.0  # seconds after which the thread that answers submitted requests ends
NO_MEMORY = "there is not enough memory to translate this text, even alone; lower beam, nbest, samples or maximum"


class Entry(NamedTuple):
    """One part of a job, that is, of a request that is being answered. Batches consist of entries."""

    job: Job
    number: int

    @property
    def part(self) -> Part:
        return self.job.parts[self.number]


class _PollError(Exception):
    """Wraps an exception raised by the callback `poll`; it ends the whole search, instead of failing one request."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Engine:
    """Translates complete requests; one bad request never affects the others.

    >>> engine = calque.load("runs/1").engine()
    >>> requests = [Request("Guten Morgen!"), Request("Danke.", nbest=99), Request("Gute Nacht!")]
    >>> for answer in engine.answers(requests):
    ...     print(answer if isinstance(answer, CalqueError) else answer.text)
    Good morning!
    nbest is 99 and beam is 5: nbest must be between 1 and beam
    Good night!

    Requests can also be submitted one by one, from any thread; those that wait at the same time share batches:

    >>> pending = engine.submit(Request("Guten Abend!", timeout=2.0))
    >>> pending.result().text
    'Good evening!'
    """

    def __init__(
        self, models: TranslationModels, *, channel: Channel | None = None, poll: Callable[[], None] | None = None
    ) -> None:
        """`poll` is called between the steps of search; an exception that it raises ends the search."""
        self.models, self.channel, self.poll = models, channel, poll
        self._model_lock = lock_of(models.model)
        self._waiting: list[Entry] = []
        self._has_work = threading.Condition()
        self._worker: threading.Thread | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        members = len(self.models.ensemble.models) + 1
        parts = [f"{members} models" if members > 1 else "1 model", str(self.models.device)]
        parts += ["language model"] if self.models.ensemble.language is not None else []
        parts += ["noisy channel"] if self.channel is not None else []
        return f"Engine({', '.join(parts)})"

    def check(self, request: Request) -> None:
        """Raises an error if a request with these settings cannot be answered, whatever its text is."""
        check_request(request, self.models)

    def answers(self, requests: Iterable[str | Request]) -> Iterator[Answer]:
        """A translation or an error for every request, in order; at most 2,048 requests are read ahead."""
        numbered = enumerate(Request(request) if isinstance(request, str) else request for request in requests)
        complete = (
            request._replace(line=place) if isinstance(request, Request) and request.line is None else request
            for place, request in numbered
        )
        while window := list(islice(complete, WINDOW)):
            yield from self._answer_window(window)

    def answer(
        self,
        request: str | Request,
        *,
        observer: SearchObserver | AttentionObserver | None = None,
        interventions: Sequence[Intervention | ChangeAttention] = (),
    ) -> Translation:
        """The translation of one request, decoded in a batch of its own; raises an error if it cannot be answered.

        Search calls the observer's method `search_step` after every step, and attention layers call its method
        `attention` with their weights; an observer has one of these methods or both. Interventions change the weights
        of an attention layer, the decoder's state or its log-probabilities.
        """
        if observer is not None and not isinstance(observer, SearchObserver | AttentionObserver):
            raise TypeError(f"an observer needs a method search_step or attention; {observer!r} has neither")
        inspection = Inspection(
            observer if isinstance(observer, SearchObserver) else None,
            observer if isinstance(observer, AttentionObserver) else None,
            [item for item in interventions if not isinstance(item, ChangeAttention)],
            [item for item in interventions if isinstance(item, ChangeAttention)],
        )
        request = Request(request) if isinstance(request, str) else request
        if (observer is not None or interventions) and (request.search or self.models.search).shortlist:
            raise ConfigError(
                "search.shortlist cannot be combined with an observer or an intervention, as a text whose shortlist is "
                "too small is decoded twice; set search.shortlist = false"
            )
        (answer,) = self._answer_window([request], inspection=inspection)
        if isinstance(answer, CalqueError):
            raise answer
        return answer

    def submit(self, request: str | Request) -> PendingAnswer:
        """Queues a request and returns at once; a thread of the engine answers waiting requests in batches."""
        if self._is_closed:
            raise RuntimeError("the engine is closed and takes no more requests; create a new one")
        pending = PendingAnswer()
        request = Request(request) if isinstance(request, str) else request
        (job,) = prepare([request], self.models, reranks=self.channel is not None, pending=pending)
        if isinstance(job, CalqueError):
            pending.set_exception(job)
            return pending
        entries = _entries([job])
        if not entries:
            _resolve(pending, self._finish([job])[0])
            return pending
        with self._has_work:
            if self._is_closed:
                raise RuntimeError("the engine is closed and takes no more requests; create a new one")
            self._waiting += entries
            if self._worker is None:
                self._worker = threading.Thread(target=self._serve, name="calque-engine", daemon=True)
                self._worker.start()
            self._has_work.notify()
        return pending

    def close(self) -> None:
        """Cancels all waiting requests, and waits until the current batch is finished."""
        with self._has_work:
            self._is_closed = True
            given_up, self._waiting = self._waiting, []
            worker = self._worker
            self._has_work.notify()
        for pending in {entry.job.pending for entry in given_up}:
            if pending is not None:
                pending.cancel()
                _resolve(pending, RequestError("the engine was closed"))
        if worker is not None:
            worker.join()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _serve(self) -> None:
        """Answers submitted requests, batch by batch, until none has arrived for `IDLE` seconds."""
        while True:
            with self._has_work:
                if not self._waiting and not self._is_closed:
                    self._has_work.wait(IDLE)
                if not self._waiting:
                    self._worker = None
                    return
                batch = self._next_batch()
            try:
                self._decode_group(batch)
                jobs = dict.fromkeys(entry.job for entry in batch)
                done = [job for job in jobs if job.check_given_up() or not job.unfinished]
                for job, answer in zip(done, self._finish(done), strict=True):
                    _resolve(job.pending, answer)
            except BaseException as error:  # otherwise the callers would wait for ever
                for entry in batch:
                    _resolve(entry.job.pending, error)

    def _next_batch(self) -> list[Entry]:
        """The next batch: the request that has waited longest, with others of similar length.

        If requests were cancelled or timed out while they waited, they are returned instead, to be resolved at once.
        """
        given_up = [entry for entry in self._waiting if entry.job.check_given_up()]
        if given_up:
            self._waiting = [entry for entry in self._waiting if not entry.job.check_given_up()]
            return given_up
        first = self._waiting[0]
        group = [entry for entry in self._waiting if entry.job.key == first.job.key]
        for batch in _batches(group, budget=self._budget(first.job.settings)):
            if any(entry is first for entry in batch):
                taken = {(id(entry.job), entry.number) for entry in batch}
                self._waiting = [entry for entry in self._waiting if (id(entry.job), entry.number) not in taken]
                for pending in {entry.job.pending for entry in batch}:
                    if pending is not None and not pending.running() and not pending.done():
                        pending.set_running_or_notify_cancel()
                return batch
        raise AssertionError

    def _answer_window(self, window: Sequence[Request], *, inspection: Inspection = UNWATCHED) -> list[Answer]:
        """Answers requests, in their order: groups those that can share a batch, and decodes batch by batch."""
        prepared = prepare(window, self.models, reranks=self.channel is not None)
        jobs = [job for job in prepared if isinstance(job, Job)]
        groups: dict[object, list[Entry]] = {}
        for entry in _entries(jobs):
            groups.setdefault(entry.job.key, []).append(entry)
        for entries in groups.values():
            self._decode_group(entries, inspection=inspection)
        finished = iter(self._finish(jobs))
        return [next(finished) if isinstance(job, Job) else job for job in prepared]

    def _decode_group(self, entries: Sequence[Entry], *, inspection: Inspection = UNWATCHED) -> None:
        """Decodes parts of requests with the same settings; those whose shortlist was too small, again without one."""
        settings = entries[0].job.settings
        doubtful: list[Entry] = []
        for batch in _batches(entries, budget=self._budget(settings)):
            doubtful += self._decode_isolated(batch, settings, inspection=inspection)
        all_words = with_all_words(settings)
        for batch in _batches(doubtful, budget=self._budget(all_words)):
            self._decode_isolated(batch, all_words, inspection=inspection)

    def _budget(self, settings: Settings) -> int:
        return budget_of(settings.search, device=self.models.device, nbest=settings.nbest)

    def _decode_isolated(
        self, batch: Sequence[Entry], settings: Settings, *, inspection: Inspection = UNWATCHED
    ) -> list[Entry]:
        """Decodes a batch. If that fails, decodes its halves, so that an error reaches only the request it concerns.

        Returns the entries that must be decoded again without a shortlist, because their shortlists were too small.
        """
        batch = [entry for entry in batch if not entry.job.check_given_up()]
        if not batch:
            return []
        failure: CalqueError | None = None
        try:
            with self._model_lock:
                candidates = decode_batch(
                    self.models,
                    [entry.part for entry in batch],
                    settings,
                    give_up=self._give_up(batch),
                    inspection=inspection,
                )
        except _PollError as error:
            raise error.cause from None
        except Exception as error:
            if not isinstance(error, CalqueError) and not is_out_of_memory(error):
                raise
            failure = error if isinstance(error, CalqueError) else OutOfMemory(NO_MEMORY)
        if failure is not None and len(batch) > 1:
            middle = len(batch) // 2
            halves = (batch[:middle], batch[middle:])
            return [entry for half in halves for entry in self._decode_isolated(half, settings, inspection=inspection)]
        if failure is not None:
            batch[0].job.error = failure
            return []
        doubtful = []
        for entry, ranked in zip(batch, candidates, strict=True):
            if settings.search.shortlist and not ranked:
                doubtful.append(entry)
            else:
                entry.job.candidates[entry.number] = ranked
                entry.job.unfinished -= 1
        return doubtful

    def _give_up(self, batch: Sequence[Entry]) -> Callable[[], Collection[int]] | None:
        """A function that calls `poll` and returns the indices of entries whose requests were cancelled or timed out.

        None if there is no `poll` and no request can be cancelled or time out.
        """
        watched = [(place, entry.job) for place, entry in enumerate(batch) if entry.job.can_be_given_up]
        poll = self.poll
        if not watched and poll is None:
            return None

        def given_up() -> list[int]:
            if poll is not None:
                try:
                    poll()
                except Exception as error:
                    raise _PollError(error) from error
            return [place for place, job in watched if job.check_given_up()]

        return given_up

    def _finish(self, jobs: Sequence[Job]) -> list[Answer]:
        """Turns decoded jobs into answers: reranks candidates if there is a channel, and joins parts of split texts."""
        translated = [job for job in jobs if not job.check_given_up()]
        parts = [_translation(job, number, attends=self.models.attends) for job, number in _all_parts(translated)]
        if self.channel is not None and parts:
            try:
                with self._model_lock:
                    parts = self._rerank(parts, translated, channel=self.channel)
            except Exception as error:
                if not isinstance(error, CalqueError) and not is_out_of_memory(error):
                    raise
                if len(jobs) > 1:  # one by one, so that the error reaches only the request it concerns
                    return [answer for job in jobs for answer in self._finish([job])]
                translated[0].error = error if isinstance(error, CalqueError) else OutOfMemory(NO_MEMORY)
        results = iter(parts)
        answers: list[Answer] = []
        for job in jobs:
            if job.error is not None:
                answers.append(job.error)
            else:
                own = [next(results) for _ in job.parts]
                answers.append(join(own, tokenizers=self.models.tokenizers))
        return answers

    def _rerank(self, parts: Sequence[Translation], jobs: Sequence[Job], *, channel: Channel) -> list[Translation]:
        """Reranks the candidates of each part with `channel`, and keeps as many as its request asks for."""
        owners = [job for job, _ in _all_parts(jobs)]
        texts = [job.parts[number].text for job, number in _all_parts(jobs)]
        reranked = channel.rerank(parts, texts, searches=[job.settings.search for job in owners])
        return [
            translation._replace(candidates=translation.candidates[: job.request.nbest or 1])
            for job, translation in zip(owners, reranked, strict=True)
        ]


_LOCKS: WeakKeyDictionary[nn.Module, threading.RLock] = WeakKeyDictionary()
_LOCKS_LOCK = threading.Lock()


def lock_of(model: nn.Module) -> threading.RLock:
    """The lock that all engines with this model share, so that an observer sees only its own request."""
    with _LOCKS_LOCK:
        return _LOCKS.setdefault(model, threading.RLock())


def _entries(jobs: Iterable[Job]) -> list[Entry]:
    """The non-empty parts of all jobs, which search has to translate."""
    return [Entry(job, number) for job, number in _all_parts(jobs) if not job.parts[number].is_empty]


def _all_parts(jobs: Iterable[Job]) -> Iterator[tuple[Job, int]]:
    return ((job, number) for job in jobs for number in range(len(job.parts)))


def _batches(entries: Sequence[Entry], *, budget: int) -> Iterator[list[Entry]]:
    """Yields batches of similar source lengths, longest first, each of at most `budget` padded source positions."""
    order = sorted(entries, key=lambda entry: -len(entry.part.source.ids))  # stable
    start = 0
    while start < len(order):
        count = max(1, budget // (len(order[start].part.source.ids) + 1))
        yield order[start : start + count]
        start += count


def budget_of(search: SearchConfig, *, device: torch.device, nbest: int) -> int:
    """The maximum number of padded source positions in a batch; it is lower for more than 5 hypotheses."""
    hypotheses = {"beam": search.beam, "sample": nbest, "risk": search.samples}[search.method]
    return batch_positions(search, device=device) * FULL_BATCH_BEAM // max(FULL_BATCH_BEAM, hypotheses)


def with_all_words(settings: Settings) -> Settings:
    """The same settings without a shortlist."""
    return settings._replace(search=settings.search.model_copy(update={"shortlist": False}))


def _translation(job: Job, number: int, *, attends: bool) -> Translation:
    part = job.parts[number]
    if part.is_empty:
        return empty_translation(detail=job.settings.detail, attends=attends, missing_phrase=part.requires_phrases)
    return Translation(job.candidates[number], part.source_cut)


def _resolve(pending: PendingAnswer | None, answer: Answer | BaseException) -> None:
    """Delivers an answer or exception to `pending`; if the request was cancelled, a CancelledError instead."""
    if pending is None:
        return
    with suppress(InvalidStateError):
        if pending.is_given_up:
            pending.set_exception(CancelledError())
        elif isinstance(answer, BaseException):
            pending.set_exception(answer)
        else:
            pending.set_result(answer)
