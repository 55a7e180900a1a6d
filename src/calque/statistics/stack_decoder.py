"""Stack decoding of phrase-based models (Koehn et al. 2003, §3), with cube pruning (Huang and Chiang 2007).

Hypotheses with the same number of translated source words compete in one stack. Hypotheses whose continuations have the
same scores are recombined. A stack is filled in the order of estimated scores, until enough hypotheses have been
created; without that limit, and with unlimited stacks, search is exhaustive.
"""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush, nsmallest
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from calque.data.store import Array
from calque.statistics.phrase_model import (
    DISTORTION,
    LANGUAGE,
    Derivation,
    Option,
    PhraseModel,
    collect_options,
    orientation,
    span_future,
)


class StackSearch(NamedTuple):
    """The limits of search; None means that there is no limit."""

    stack: int | None = 100
    """Hypotheses kept per stack (histogram pruning)."""
    threshold: float | None = 10.0
    """Drop hypotheses whose score is this much below that of the best in their stack."""
    pops: int | None = 150
    """Hypotheses created per stack (cube pruning)."""
    distortion: int | None = 6
    """The longest jump over source words; also how far the end of a phrase may lie beyond the first gap."""
    options: int | None = 20
    """Translations considered per source span."""


PRUNED = StackSearch()
EXHAUSTIVE = StackSearch(None, None, None, None, None)


class Hypothesis:
    """A partial translation, with all paths to it that were recombined."""

    __slots__ = ("arcs", "coverage", "option", "score", "state", "total")

    def __init__(self, score: float, total: float, coverage: int, state: Any, option: Option | None) -> None:
        self.score = score
        self.total = total  # with the estimate for the rest
        self.coverage = coverage  # a bit for each source word
        self.state = state  # of the language model
        self.option = option
        self.arcs: list[Arc] = []

    @property
    def stop(self) -> int:
        """The end of the source phrase that was translated last."""
        return self.option.stop if self.option else 0


class Arc(NamedTuple):
    """An edge of the lattice to a hypothesis: the previous hypothesis, the phrase that was added, and its score."""

    previous: Hypothesis
    option: Option | None  # None at the end of the sentence
    gain: float


class _Cube(NamedTuple):
    """Hypotheses with the same coverage and last source position, each to be extended by each translation of a span."""

    hypotheses: list[Hypothesis]  # best first
    options: list[Option]
    coverage: int
    jump: float  # the weighted distortion
    future: float

    def estimate(self, row: int, column: int) -> float:
        return self.hypotheses[row].score + self.options[column].estimate + self.jump + self.future


class StackDecoder:
    """Finds the best derivations of source sentences.

    >>> decoder = StackDecoder(model)
    >>> best = next(decoder.derivations(ids))
    """

    def __init__(self, model: PhraseModel, search: StackSearch = PRUNED) -> None:
        self.model, self.search = model, search
        weights = dict(zip(model.features, model.vector().tolist(), strict=True))
        self._distortion, self._language = weights[DISTORTION], weights.get(LANGUAGE, 0.0)

    def derivations(self, ids: Array, *, poll: Callable[[], None] | None = None) -> Iterator[Derivation]:
        """The derivations in the search's lattice, best first.

        `poll` is called for each stack; an exception that it raises ends the search.
        """
        return derivations(self.lattice(ids, poll=poll))

    def lattice(self, ids: Array, *, poll: Callable[[], None] | None = None) -> Hypothesis:
        """The final node of the lattice of hypotheses; its `arcs` lead back to the first."""
        length = len(ids)
        options = collect_options(self.model, ids, limit=self.search.options)
        sentence = _Sentence(self, options, length)
        language = self.model.language
        start = Hypothesis(0.0, 0.0, 0, None if language is None else language.start(), None)
        cubes: list[list[_Cube]] = [[] for _ in range(length + 1)]
        stack = [start]
        for covered in range(length):
            if poll is not None:
                poll()
            sentence.extend(stack, cubes, covered)
            stack = sentence.fill(cubes[covered + 1])
            cubes[covered + 1] = []
        return sentence.finish(stack)


class _Sentence:
    """The stack decoding of one sentence."""

    def __init__(self, decoder: StackDecoder, options: dict[tuple[int, int], list[Option]], length: int) -> None:
        self.model, self.search, self.length = decoder.model, decoder.search, length
        self.distortion, self.language = decoder._distortion, decoder._language
        self.reorders = decoder.model.table.orientations is not None
        self.spans: list[list[tuple[int, int, list[Option]]]] = [[] for _ in range(length)]
        for (first, stop), span in sorted(options.items()):
            self.spans[first].append((stop, (1 << stop) - (1 << first), span))
        self.span_future = span_future(options, length=length)
        self.futures: dict[int, float] = {}
        self.language_scores: dict[tuple[Any, tuple[int, ...]], tuple[float, Any]] = {}

    def extend(self, stack: list[Hypothesis], cubes: list[list[_Cube]], covered: int) -> None:
        """Groups all extensions of a stack's hypotheses into `cubes`, listed by the number of source words covered."""
        groups: dict[tuple[int, int], list[Hypothesis]] = {}
        for hypothesis in stack:
            groups.setdefault((hypothesis.coverage, hypothesis.stop), []).append(hypothesis)
        limit = self.length if self.search.distortion is None else self.search.distortion
        for (coverage, last), group in groups.items():
            group.sort(key=lambda hypothesis: -hypothesis.score)
            gap = (~coverage & (coverage + 1)).bit_length() - 1
            for start in range(max(gap, last - limit), min(self.length, last + limit + 1)):
                if coverage >> start & 1:
                    continue
                jump = -self.distortion * abs(start - last)
                for stop, mask, span in self.spans[start]:
                    if mask & coverage or (start != gap and stop - gap > limit):
                        break
                    extended = coverage | mask
                    cube = _Cube(group, span, extended, jump, self.future(extended))
                    cubes[covered + stop - start].append(cube)

    def fill(self, cubes: list[_Cube]) -> list[Hypothesis]:
        """The hypotheses of a stack, created from its `cubes` in the order of estimated scores, and then pruned."""
        serial = count()
        heap = [(-cube.estimate(0, 0), next(serial), cube, 0, 0) for cube in cubes]
        heapify(heap)
        pops = np.inf if self.search.pops is None else self.search.pops
        found: dict[Any, Hypothesis] = {}
        made = 0
        while heap and made < pops:
            _, _, cube, row, column = heappop(heap)
            made += 1
            self.add(found, cube, cube.hypotheses[row], cube.options[column])
            if column + 1 < len(cube.options):
                heappush(heap, (-cube.estimate(row, column + 1), next(serial), cube, row, column + 1))
            if column == 0 and row + 1 < len(cube.hypotheses):
                heappush(heap, (-cube.estimate(row + 1, 0), next(serial), cube, row + 1, 0))
        stack = list(found.values())
        if self.search.threshold is not None:
            least = max(hypothesis.total for hypothesis in stack) - self.search.threshold
            stack = [hypothesis for hypothesis in stack if hypothesis.total >= least]
        if self.search.stack is not None and len(stack) > self.search.stack:
            stack = nsmallest(self.search.stack, stack, key=lambda hypothesis: -hypothesis.total)
        return stack

    def add(self, found: dict[Any, Hypothesis], cube: _Cube, previous: Hypothesis, option: Option) -> None:
        """Adds `previous` extended by `option`, or recombines it with one whose continuations score the same."""
        gain, state = option.score + cube.jump, None
        recombined: Any
        if self.model.language is not None:
            key = previous.state, option.words
            cached = self.language_scores.get(key)
            if cached is None:
                cached = self.language_scores[key] = self.model.language_score(*key)
            gain += self.language * cached[0]
            state = cached[1]
        if self.reorders:
            kind = orientation(previous.option, option.start, option.stop)
            gain += option.before[kind] + (previous.option.after[kind] if previous.option else 0.0)
            recombined = cube.coverage, option.stop, state, option.start, option.after
        else:
            recombined = cube.coverage, option.stop, state
        score = previous.score + gain
        best = found.get(recombined)
        if best is None:
            best = found[recombined] = Hypothesis(score, score + cube.future, cube.coverage, state, option)
        elif score > best.score:
            best.score, best.total, best.option = score, score + cube.future, option
        best.arcs.append(Arc(previous, option, gain))

    def finish(self, stack: list[Hypothesis]) -> Hypothesis:
        """The final node of the lattice, to which all complete hypotheses lead; its arcs score the end of sentence."""
        end = Hypothesis(-np.inf, -np.inf, (1 << self.length) - 1, None, None)
        for hypothesis in stack:
            gain = 0.0
            if self.model.language is not None:
                gain += self.language * self.model.language.score(hypothesis.state, self.model.end)[0]
            if self.reorders and hypothesis.option is not None:
                gain += hypothesis.option.after[orientation(hypothesis.option, self.length, self.length + 1)]
            end.arcs.append(Arc(hypothesis, None, gain))
            end.score = end.total = max(end.score, hypothesis.score + gain)
        return end

    def future(self, coverage: int) -> float:
        """The estimated score of translating the source words that are not in the bit mask `coverage`."""
        known = self.futures.get(coverage)
        if known is None:
            known, place = 0.0, 0
            while place < self.length:
                if coverage >> place & 1:
                    place += 1
                    continue
                stop = place
                while stop < self.length and not coverage >> stop & 1:
                    stop += 1
                known += self.span_future[place][stop]
                place = stop
            self.futures[coverage] = known
        return known


def derivations(end: Hypothesis) -> Iterator[Derivation]:
    """All derivations in a lattice, best first.

    The score of a hypothesis is that of the best path to it. So paths from the end back to any hypothesis can be
    compared by the score of their best completion: an A* search whose estimates are exact.
    """
    serial = count()
    heap: list[tuple[float, int, Hypothesis, float, tuple[Option, ...]]] = [(-end.score, next(serial), end, 0.0, ())]
    while heap:
        negative, _, hypothesis, gained, options = heappop(heap)
        if not hypothesis.arcs:
            yield Derivation(options, -negative)
            continue
        for previous, option, gain in hypothesis.arcs:
            rest = gained + gain
            path = options if option is None else (option, *options)
            heappush(heap, (-(previous.score + rest), next(serial), previous, rest, path))
