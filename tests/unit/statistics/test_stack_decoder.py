"""Stack decoding against the enumeration of all derivations, with small random models."""

from collections.abc import Iterator
from functools import cache
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest

from calque.statistics.phrase_model import (
    DISTORTION,
    LANGUAGE,
    PHRASES,
    UNKNOWN,
    WORDS,
    Option,
    PhraseModel,
    collect_options,
    span_future,
    with_estimates,
)
from calque.statistics.phrase_table import ORIENTATIONS, PhraseTable
from calque.statistics.phrase_trie import PhraseTrie, corpus_spans
from calque.statistics.stack_decoder import EXHAUSTIVE, Hypothesis, StackDecoder, StackSearch, _Sentence

SOURCES, TARGETS = 5, 6
END, UNK = 4, 5


class Trigrams(NamedTuple):
    """A random trigram model; a state is the last two words, so that its future depends on both."""

    seed: int

    def start(self) -> tuple[int, ...]:
        return (0,)

    def score(self, state: tuple[int, ...], word: int) -> tuple[float, tuple[int, ...]]:
        words = (*state, word)[-3:]
        return uniform(self.seed, words), words[-2:]


@cache
def uniform(seed: int, words: tuple[int, ...]) -> float:
    return float(np.random.default_rng([seed, len(words), *words]).uniform(-4, 0))


def phrases(random: np.random.Generator, *, size: int, count: int, longest: int) -> tuple[PhraseTrie, np.ndarray]:
    """A trie of random phrases and the node of each."""
    lengths = random.integers(1, longest + 1, count)
    ids = random.integers(1, size, int(lengths.sum()))
    remaining = np.concatenate([np.arange(length, 0, -1) for length in lengths])
    trie, nodes = corpus_spans(ids, remaining, size=size, maximum=longest)
    return trie, nodes[lengths - 1, np.cumsum(lengths) - lengths]


def random_model(seed: int, *, language: bool = True, reordering: bool = True) -> PhraseModel:
    """A model whose source words 1 to 3 have translations, and word 4 only inside longer phrases."""
    random = np.random.default_rng(seed)
    sources, source_nodes = phrases(random, size=SOURCES, count=20, longest=3)
    targets, target_nodes = phrases(random, size=TARGETS - 2, count=12, longest=2)
    kept = [node for node in np.unique(source_nodes) if sources.words(node) != (4,)]
    entries = sorted({(int(node), int(random.choice(target_nodes))) for node in kept for _ in range(3)})
    pairs = np.array(entries)
    table = PhraseTable(
        ("phrase_target", "lexical_target"),
        sources,
        targets,
        np.searchsorted(pairs[:, 0], np.arange(sources.nodes + 1)),
        pairs[:, 1].astype(np.int32),
        random.uniform(-3, 0, (len(pairs), 2)).astype(np.float32),
        targets.lengths()[pairs[:, 1]],
        np.zeros(len(pairs), dtype=np.float32),
        random.uniform(-2, 0, (len(pairs), 6)).astype(np.float32) if reordering else None,
        3,
    )
    names = ("phrase_target", "lexical_target", PHRASES, WORDS, DISTORTION, LANGUAGE, *ORIENTATIONS)
    weights = dict(zip(names, random.uniform(0.1, 1, len(names)).tolist(), strict=True))
    weights[UNKNOWN] = -1.0
    model = PhraseModel(table, Trigrams(seed) if language else None, weights, END, UNK)
    return model._replace(table=with_estimates(table, model.language)) if model.language else model


def all_derivations(model: PhraseModel, ids: np.ndarray, *, distortion: int | None) -> Iterator[tuple[Option, ...]]:
    """Every sequence of options that covers each word once, within the limit of distortion."""
    options = [option for span in collect_options(model, ids, limit=None).values() for option in span]
    limit = len(ids) if distortion is None else distortion

    def extend(path: tuple[Option, ...], covered: frozenset[int]) -> Iterator[tuple[Option, ...]]:
        if len(covered) == len(ids):
            yield path
            return
        gap = min(set(range(len(ids))) - covered)
        last = path[-1].stop if path else 0
        for option in options:
            span = range(option.start, option.stop)
            is_near = abs(option.start - last) <= limit and (option.start == gap or option.stop - gap <= limit)
            if covered.isdisjoint(span) and is_near:
                yield from extend((*path, option), covered | set(span))

    return extend((), frozenset())


def total(model: PhraseModel, options: tuple[Option, ...], *, length: int) -> float:
    return float(sum(step.features @ model.vector() for step in model.steps(options, length=length)))


def sentence(seed: int, length: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, SOURCES, length)


@pytest.mark.parametrize("distortion", [None, 2, 0])
@pytest.mark.parametrize("language", [True, False])
@pytest.mark.parametrize("reordering", [True, False])
def test_exhaustive_search_is_enumeration(seed: int, distortion: int | None, language: bool, reordering: bool) -> None:
    model = random_model(seed, language=language, reordering=reordering)
    for number in range(3):
        ids = sentence(seed + number, 4)
        scores = sorted(
            (total(model, options, length=4) for options in all_derivations(model, ids, distortion=distortion)),
            reverse=True,
        )
        decoder = StackDecoder(model, EXHAUSTIVE._replace(distortion=distortion))
        found = list(decoder.derivations(ids))
        assert [derivation.score for derivation in found] == pytest.approx(scores, abs=1e-4), "the whole lattice"
        for derivation in found[:50]:
            assert derivation.score == pytest.approx(total(model, derivation.options, length=4), abs=1e-4)


def test_the_nbest_list_is_in_order_and_without_repetition(seed: int) -> None:
    model = random_model(seed)
    ids = sentence(seed, 6)
    best = list(islice(StackDecoder(model, EXHAUSTIVE).derivations(ids), 100))
    assert len(best) == 100 == len({derivation.options for derivation in best})
    assert all(first.score >= second.score - 1e-9 for first, second in pairwise(best))


def test_pruning_only_loses(seed: int) -> None:
    lost = 0
    for number in range(16):  # some models are so easy that no sentence loses, so each sentence has its own
        model = random_model(seed + number)
        ids = sentence(seed + number, 6)
        exact = next(StackDecoder(model, EXHAUSTIVE).derivations(ids)).score
        narrow = StackSearch(stack=2, threshold=5.0, pops=3, distortion=None, options=2)
        pruned = next(StackDecoder(model, narrow).derivations(ids))
        assert pruned.score <= exact + 1e-6
        assert pruned.score == pytest.approx(total(model, pruned.options, length=6), abs=1e-4)
        lost += pruned.score < exact - 1e-6
    assert lost, "so narrow a search makes errors"


def test_unknown_words_are_copied(seed: int) -> None:
    model = random_model(seed)
    ids = np.array([4])
    (option,) = next(StackDecoder(model).derivations(ids)).options
    assert option.words == (-1,) and option.entry == -1
    steps = model.steps([option], length=1)
    assert dict(zip(model.features, steps[0].features, strict=True))[UNKNOWN] == 1
    assert next(StackDecoder(model).derivations(np.zeros(0, dtype=np.int64))).options == ()
    for number in range(5):
        ids = np.append(sentence(seed + number, 3), 4)
        best = next(StackDecoder(model, EXHAUSTIVE).derivations(ids))
        assert best.score == pytest.approx(total(model, best.options, length=4), abs=1e-4)
        for copied in (option for option in best.options if option.entry < 0):
            vector = dict(zip(model.features, model.steps([copied], length=copied.stop)[0].features, strict=True))
            own = {name: vector[name] for name in (PHRASES, WORDS, UNKNOWN)}
            assert copied.score == pytest.approx(sum(model.weights[name] * own[name] for name in own), abs=1e-6)


def test_the_future_is_the_best_division(seed: int) -> None:
    """future[i][j] is the best sum of estimates over all divisions of the span, so it never underestimates one."""
    model = random_model(seed)
    ids = sentence(seed, 6)
    options = collect_options(model, ids, limit=None)
    future = span_future(options, length=6)

    def divisions(start: int, stop: int) -> Iterator[float]:
        if start == stop:
            yield 0.0
        for middle in range(start + 1, stop + 1):
            for option in options.get((start, middle), ()):
                yield from (option.estimate + rest for rest in divisions(middle, stop))

    for start in range(6):
        for stop in range(start, 7):
            assert future[start][stop] == pytest.approx(max(divisions(start, stop)))


def test_the_future_is_a_bound_without_context(seed: int) -> None:
    """Without language model and reordering scores, no derivation scores more than the future of the whole source.

    What the estimate leaves out, distortion, only costs. Monotone translation reaches it.
    """
    model = random_model(seed, language=False, reordering=False)
    for number in range(5):
        ids = sentence(seed + number, 4)
        bound = span_future(collect_options(model, ids, limit=None), length=4)[0][4]
        for options in all_derivations(model, ids, distortion=None):
            assert total(model, options, length=4) <= bound + 1e-6
        monotone = next(StackDecoder(model, EXHAUSTIVE._replace(distortion=0)).derivations(ids))
        assert monotone.score == pytest.approx(bound, abs=1e-5)


def test_estimates_are_the_language_model_without_context(seed: int) -> None:
    model = random_model(seed)
    table = model.table
    for entry, node in enumerate(table.translations):
        expected, _ = model.language_score((), table.targets.words(node))
        assert table.estimates[entry] == pytest.approx(expected, abs=1e-5)


def test_search_can_be_stopped(seed: int) -> None:
    def poll() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        next(StackDecoder(random_model(seed)).derivations(sentence(seed, 4), poll=poll))


def test_what_is_left_is_the_sum_of_all_gaps(seed: int) -> None:
    decoder, ids = StackDecoder(random_model(seed)), sentence(seed, 6)
    options = collect_options(decoder.model, ids, limit=None)
    found, future = _Sentence(decoder, options, 6), span_future(options, length=6)
    for coverage in range(1 << 6):
        is_left = [not coverage >> place & 1 for place in range(6)]
        edges = [place for place in range(7) if (place < 6 and is_left[place]) != (place > 0 and is_left[place - 1])]
        gaps = list(zip(edges[::2], edges[1::2], strict=True))
        assert found.future(coverage) == pytest.approx(sum(future[start][stop] for start, stop in gaps))


def test_the_best_hypotheses_of_a_stack_survive(seed: int) -> None:
    """Histogram pruning keeps those with the best totals, and the threshold those near the best."""
    model, ids = random_model(seed), sentence(seed, 6)
    stacks = {}
    for name, search in (
        ("all", EXHAUSTIVE),
        ("few", EXHAUSTIVE._replace(stack=3)),
        ("near", EXHAUSTIVE._replace(threshold=2.0)),
    ):
        searched = _Sentence(StackDecoder(model, search), collect_options(model, ids, limit=None), 6)
        cubes: list[list[Any]] = [[] for _ in range(7)]
        assert model.language is not None
        searched.extend([Hypothesis(0.0, 0.0, 0, model.language.start(), None)], cubes, 0)
        stacks[name] = sorted((hypothesis.total for hypothesis in searched.fill(cubes[1])), reverse=True)
    assert len(stacks["all"]) > 5
    assert stacks["few"] == pytest.approx(stacks["all"][:3])
    assert stacks["near"] == pytest.approx([total for total in stacks["all"] if total >= stacks["all"][0] - 2.0])
