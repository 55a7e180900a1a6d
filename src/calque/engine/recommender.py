"""The recommender: maps histories of items to the items that are most likely to come next."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, overload

import numpy as np
import torch
from torch import Tensor

from calque.data.sequence_batch import stack_histories
from calque.data.sequence_files import BEHAVIOURS, ITEMS, TIMES, refuse_backward_times, whole_time
from calque.data.store import Store
from calque.errors import TextError
from calque.evaluation.ranking import MISSED, target_ranks
from calque.layers.int8 import parameter_count
from calque.models.recommender import ItemHistory, RecommenderConfig, RecommenderModel
from calque.tasks.recommendation import RecommendationConfig
from calque.tensors import best_candidates
from calque.text import UNK
from calque.text.catalogue import Catalogue

TOGETHER = 512  # histories that are sorted by length together and grouped into batches
BATCH_TOKENS = 4096  # items of histories per batch, padding included
BATCH_SCORES = 1 << 20  # scores of items per batch
TOP = 10


class History(NamedTuple):
    """The input of a recommender: a user's items, earliest first, with times and behaviours if the model reads them.

    >>> History(["shampoo", "comb"], times=[0, 86_400], behaviours=["view", "buy"], now=172_800)
    """

    items: Sequence[str]
    times: Sequence[float] = ()  # in seconds
    behaviours: Sequence[str] = ()
    now: float | None = None  # when the next item is wanted; None: at the time of the last item


@dataclass(frozen=True)
class Recommendations:
    """The items recommended to a user, best first; iterating yields (item, score) pairs."""

    items: list[str]
    scores: list[float]
    """The log-probability that each item is the next one."""
    is_cold: bool = False
    """Whether no item of the history is known, so that the most popular items are recommended."""
    unknown: int = 0
    """The number of items in the history that are not in the catalogue; they are ignored."""

    def __iter__(self) -> Iterator[tuple[str, float]]:
        return zip(self.items, self.scores, strict=True)

    def __len__(self) -> int:
        return len(self.items)

    def __str__(self) -> str:
        return " ".join(self.items)


class EncodedHistory(NamedTuple):
    """A history as ids: the latest known items, which the model reads, and all known items that the user has seen."""

    items: list[int]
    seen: list[int]
    unknown: int = 0
    times: Sequence[int] = ()
    behaviours: Sequence[int] = ()
    now: int = 0


class Ranked(NamedTuple):
    """The rank of each user's target, and the total negative log-probability of the targets in the catalogue."""

    ranks: list[int]
    """1 is the best; `MISSED` if the target is not in the catalogue, or was seen before and seen items are excluded."""
    nats: float
    known: int
    """The number of targets in the catalogue."""
    seen: int
    """The number of targets that their users have seen before."""

    @property
    def per_target(self) -> float:
        return self.nats / max(1, self.known)


class Recommender:
    """A recommendation model with its catalogue.

    >>> recommender = calque.load("runs/beauty")
    >>> print(recommender.recommend(["shampoo", "comb"], top=3))
    conditioner brush hairdryer
    """

    def __repr__(self) -> str:
        items, parameters = len(self.catalogue.items) - len(self._special), parameter_count(self.model)
        return f"Recommender({self.config.network.kind}, {items:,} items, {parameters:,} parameters, {self.device})"

    def __init__(
        self,
        model: RecommenderModel,
        catalogue: Catalogue,
        *,
        config: RecommenderConfig,
        task: RecommendationConfig,
    ) -> None:
        self.model = model
        self.catalogue = catalogue
        self.config = config
        self.task = task
        self._special = catalogue.items.pieces[:4]

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @overload
    def recommend(
        self, history: str | History, *, top: int = TOP, exclude_seen: bool | None = None
    ) -> Recommendations: ...
    @overload
    def recommend(self, history: list[str], *, top: int = TOP, exclude_seen: bool | None = None) -> Recommendations: ...
    @overload
    def recommend(
        self, history: list[list[str]] | list[History], *, top: int = TOP, exclude_seen: bool | None = None
    ) -> list[Recommendations]: ...
    def recommend(
        self,
        history: str | History | list[str] | list[list[str]] | list[History],
        *,
        top: int = TOP,
        exclude_seen: bool | None = None,
    ) -> Recommendations | list[Recommendations]:
        """The `top` items for a history: a list of items, a text with white space between items, or a `History`.

        A list of histories yields a list. If `exclude_seen` is true, items of the history are left out; by default, the
        model's setting `task.exclude_seen` decides. A history without known items yields the most popular items.

        >>> recommender.recommend(["shampoo", "comb"], top=3)         # one user
        >>> recommender.recommend([["shampoo", "comb"], ["towel"]])  # two users
        >>> recommender.recommend("")                                # a new user
        """
        is_many = isinstance(history, list) and bool(history) and not isinstance(history[0], str)
        requests = map(as_history, history) if is_many else [as_history(history)]  # type: ignore[arg-type]
        answers = []
        for answer in self.stream(requests, top=top, exclude_seen=exclude_seen):
            if isinstance(answer, TextError):
                raise answer
            answers.append(answer)
        return answers if is_many else answers[0]

    def stream(
        self,
        histories: Iterable[History],
        *,
        top: int = TOP,
        exclude_seen: bool | None = None,
        together: int = TOGETHER,
    ) -> Iterator[Recommendations | TextError]:
        """The recommendations for every history, in order, or an error that concerns this history alone.

        Recommendations do not depend on the other histories. `together` histories are read before the first answer.
        """
        if top < 1:
            raise TextError(f"top is {top}: it must be at least 1")
        excludes = self.task.exclude_seen if exclude_seen is None else exclude_seen
        remaining = iter(histories)
        while group := list(islice(remaining, together)):
            yield from self._group(group, top=top, exclude_seen=excludes)

    @torch.inference_mode()
    def rank(
        self,
        histories: Sequence[History],
        targets: Sequence[str],
        *,
        exclude_seen: bool | None = None,
    ) -> Ranked:
        """The rank of each target (the item that followed a history) in the whole catalogue.

        Raises a TextError if the model cannot read a history.
        """
        encoded = [self.encode(history) for history in histories]
        return self._rank(encoded, self.catalogue.item_ids(targets), exclude_seen=exclude_seen)

    def rank_store(
        self, store: Store, *, parts: int = 1, stop: Callable[[], None] | None = None, exclude_seen: bool | None = None
    ) -> Ranked:
        """The rank of the last item of each row in a store; `stop` is called before each batch and may raise.

        The model must be in evaluation mode. Batches have 1/`parts` of their usual size.
        """
        encoded, targets = [], []
        for index in range(len(store)):
            *items, target = store[ITEMS].row(index).tolist()
            times = store[TIMES].row(index).tolist() if self.config.reads_times else []
            behaviours = store[BEHAVIOURS].row(index).tolist() if self.config.reads_behaviours else []
            now = times[-1] if times else 0
            encoded.append(self._encoded(items, times=times[:-1], behaviours=behaviours[:-1], now=now))
            targets.append(target)
        return self._rank(encoded, targets, exclude_seen=exclude_seen, parts=parts, stop=stop)

    def encode(self, history: History) -> EncodedHistory:
        """The ids of a history; raises a TextError if the model cannot read it."""
        items = self.catalogue.item_ids(history.items)
        times: list[int] = []
        now = 0
        if self.config.reads_times:
            self._refuse_incomplete(history.times, history.items, name=TIMES)
            try:
                times = [whole_time(time, name=TIMES) for time in history.times]
                refuse_backward_times(times)
                now = whole_time(history.now, name="now") if history.now is not None else times[-1] if times else 0
            except ValueError as error:
                raise TextError(str(error)) from None
            if times and now < times[-1]:
                raise TextError(f"now ({now}) is earlier than the time of the last item in the history ({times[-1]})")
        behaviours: list[int] = []
        if self.config.reads_behaviours:
            self._refuse_incomplete(history.behaviours, history.items, name=BEHAVIOURS)
            behaviours = self.catalogue.behaviour_ids(history.behaviours)
        return self._encoded(items, times=times, behaviours=behaviours, now=now)

    def batch(self, histories: Sequence[EncodedHistory]) -> ItemHistory:
        """The model's input for a batch of histories, on its device."""
        width = max(1, *(len(history.items) for history in histories))
        asked = [[*history.times[1:], history.now] if history.times else [] for history in histories]

        def stacked(rows: Sequence[Sequence[int]]) -> Tensor:
            return stack_histories(rows, width=width).to(self.device)

        return ItemHistory(
            stacked([history.items for history in histories]),
            torch.tensor([len(history.items) for history in histories]),
            stacked([history.times for history in histories]) if self.config.reads_times else None,
            stacked(asked) if self.config.reads_times else None,
            stacked([history.behaviours for history in histories]) if self.config.reads_behaviours else None,
        )

    def _encoded(
        self, items: Sequence[int], *, times: Sequence[int], behaviours: Sequence[int], now: int
    ) -> EncodedHistory:
        """Encodes a history, of which the model reads the latest known items; `now` is when the next item is wanted."""
        known = [place for place, id in enumerate(items) if id != UNK]
        read = known[-self.task.history :]
        first = times[read[0]] if times and read else 0
        return EncodedHistory(
            [items[place] for place in read],
            sorted({items[place] for place in known}),
            len(items) - len(known),
            [times[place] - first for place in read] if times else (),
            [behaviours[place] for place in read] if behaviours else (),
            now - first,
        )

    @torch.inference_mode()
    def _group(
        self, histories: Sequence[History], *, top: int, exclude_seen: bool
    ) -> Iterator[Recommendations | TextError]:
        answers: dict[int, Recommendations | TextError] = {}
        encoded: dict[int, EncodedHistory] = {}
        for index, history in enumerate(histories):
            try:
                encoded[index] = self.encode(history)
            except TextError as error:
                answers[index] = error
        places, rows = list(encoded), list(encoded.values())
        for indices in self._batches(rows):
            part = [rows[index] for index in indices]
            scores = self._excluded(self.model.scores(self.batch(part)), part if exclude_seen else ())
            values, ids = best_candidates(scores, count=top)
            for index, row, own, best in zip(indices, part, values.tolist(), ids.tolist(), strict=True):
                count = sum(value != -np.inf for value in own)
                answers[places[index]] = Recommendations(
                    self.catalogue.names(best[:count]), own[:count], is_cold=not row.items, unknown=row.unknown
                )
        yield from (answers[index] for index in range(len(histories)))

    @torch.inference_mode()
    def _rank(
        self,
        histories: Sequence[EncodedHistory],
        targets: Sequence[int],
        *,
        exclude_seen: bool | None,
        parts: int = 1,
        stop: Callable[[], None] | None = None,
    ) -> Ranked:
        excludes = self.task.exclude_seen if exclude_seen is None else exclude_seen
        ranks, nats, known = np.zeros(len(targets), dtype=np.int64), 0.0, 0
        for indices in self._batches(histories, parts=parts):
            if stop is not None:
                stop()
            part = [histories[index] for index in indices]
            wanted = torch.tensor([targets[index] for index in indices], device=self.device)
            scores = self.model.scores(self.batch(part))
            is_known = wanted != UNK
            own = scores.gather(1, wanted[:, None]).squeeze(1)
            nats -= float(own[is_known].double().sum()) if is_known.any() else 0.0
            known += int(is_known.sum())
            found = target_ranks(self._excluded(scores, part if excludes else ()), wanted)
            ranks[indices] = found.masked_fill(~is_known, MISSED).cpu().numpy()
        seen = sum(target in history.seen for history, target in zip(histories, targets, strict=True))
        return Ranked(ranks.tolist(), nats, known, seen)

    def _excluded(self, scores: Tensor, histories: Sequence[EncodedHistory]) -> Tensor:
        """The scores [B,V] of B users for V items, with −inf for the items that each user has seen."""
        rows = [row for row, history in enumerate(histories) for _ in history.seen]
        if not rows:
            return scores
        columns = [id for history in histories for id in history.seen]
        scores = scores.clone()
        scores[torch.tensor(rows, device=self.device), torch.tensor(columns, device=self.device)] = -torch.inf
        return scores

    def _batches(self, histories: Sequence[EncodedHistory], *, parts: int = 1) -> Iterator[list[int]]:
        """Yields batches of indices of histories of similar length; `parts` divides the maximum size of a batch."""
        most = max(1, BATCH_SCORES // len(self.catalogue.items) // parts)
        batch: list[int] = []
        for index in sorted(range(len(histories)), key=lambda index: len(histories[index].items)):
            width = max(1, len(histories[index].items))
            if batch and (len(batch) == most or (len(batch) + 1) * width > BATCH_TOKENS // parts):
                yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch

    def _refuse_incomplete(self, values: Sequence[object], items: Sequence[str], *, name: str) -> None:
        if len(values) != len(items):
            raise TextError(
                f"the history has {len(items)} items, but {len(values)} {name}: this model reads {name}, one per item; "
                f"pass JSON records with the key {name!r}, or calque.engine.History(items, {name}=[...])"
            )


def as_history(history: "str | Sequence[str] | History") -> History:
    """Converts a text with white space between its items, or a list of items, to a `History`."""
    if isinstance(history, History):
        return history
    return History(history.split() if isinstance(history, str) else list(history))
