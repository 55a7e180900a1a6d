"""Sampling: its random numbers, its filters and its frequencies against plain formulas."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.laws.test_oracle import MARKS, VOCABULARY, WORDS, Sentence, Task, allowed, start, tasks, thorough, trigram

from calque.search.constraints import NoRepeat, constrained, start_constrained
from calque.search.greedy import greedy_search
from calque.search.sampling import Sampling, draw, filtered, mixed, sample_search, uniform
from calque.search.step import Hypothesis

WORD = (1 << 64) - 1
EVERYTHING = Sampling()  # the model's own distribution
STREAMS = st.integers(-(2**63), 2**63 - 1)
SAMPLINGS = st.builds(
    Sampling,
    st.sampled_from([1.0, 0.5, 2.0]) | st.floats(0.2, 5),
    st.integers(0, 7),
    st.sampled_from([1.0, 1.0, 0.9, 0.5, 0.0]) | st.floats(0, 1),
    st.sampled_from([0.0, 0.0, 0.1, 1.0]) | st.floats(0, 1),
)
ROWS = st.integers(1, 6).flatmap(
    lambda size: st.lists(
        st.lists(st.floats(-6, 0) | st.sampled_from([-1.0, -2.0, -math.inf]), min_size=size, max_size=size).filter(
            lambda row: max(row) > -math.inf
        ),
        min_size=1,
        max_size=4,
    )
)


def splitmix(value: int) -> int:
    """One number of SplitMix64 from its state, in unsigned integers (Steele 2014, fig. 17 with mix13)."""
    value = (value + 0x9E3779B97F4A7C15) & WORD
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & WORD
    return value ^ (value >> 31)


def share(row: list[float], allowed: Iterable[int]) -> list[float]:
    """Probabilities proportional to `row`, restricted to the allowed tokens."""
    weights = [value if index in {*allowed} else 0.0 for index, value in enumerate(row)]
    return [value / math.fsum(weights) for value in weights]


def plain_filtered(log_probs: list[float], sampling: Sampling) -> list[float]:
    """Temperature, then min-p; of the renormalised rest, the k most likely tokens and the nucleus."""
    maximum = max(log_probs)
    weights = [math.exp((value - maximum) / sampling.temperature) for value in log_probs]
    tokens = range(len(weights))
    probs = share(weights, tokens)
    probs = share(probs, [token for token in tokens if probs[token] >= sampling.min_p * max(probs)])
    order = sorted(tokens, key=lambda token: -probs[token])
    before = [math.fsum(probs[token] for token in order[:rank]) for rank in tokens]
    selected = [
        token
        for rank, token in enumerate(order)
        if rank == 0 or (before[rank] < sampling.top_p and (sampling.top_k == 0 or rank < sampling.top_k))
    ]
    return share(probs, selected)


def is_clear(log_probs: list[float], sampling: Sampling) -> bool:
    """Whether the selection of tokens does not depend on rounding."""
    floors = (sampling.min_p - 1e-9, min(1.0, sampling.min_p + 1e-9))
    nuclei = (sampling.top_p - 1e-9, sampling.top_p + 1e-9)
    around = [sampling._replace(min_p=floor, top_p=nucleus) for floor in floors for nucleus in nuclei]
    probs = plain_filtered(log_probs, sampling)
    return all(plain_filtered(log_probs, neighbour) == pytest.approx(probs, abs=1e-7) for neighbour in around)


def chi_square(counts: Counter, expected: dict) -> float:
    """How many standard deviations χ² lies above its mean; outcomes expected fewer than five times are pooled."""
    assert set(counts) <= {outcome for outcome, value in expected.items() if value > 0}
    total = counts.total()
    often = [outcome for outcome, value in expected.items() if value * total >= 5]
    pairs = [(counts[outcome], expected[outcome] * total) for outcome in often]
    rest = total - math.fsum(value for _, value in pairs)
    if rest > 1:
        pairs.append((total - sum(count for count, _ in pairs), rest))
    freedom = max(1, len(pairs) - 1)
    return (math.fsum((count - value) ** 2 / value for count, value in pairs) - freedom) / math.sqrt(2 * freedom)


def sampled(
    task: Task, *, streams: list[int], sampling: Sampling = EVERYTHING, draws: int = 1
) -> list[list[Hypothesis]]:
    return sample_search(
        trigram,
        start(task),
        (task.tables, task.looks),
        sampling=sampling,
        draws=draws,
        streams=torch.tensor(streams),
        limits=task.limits,
        marks=MARKS,
    )


def picked(task: Task, rows: list[int]) -> Task:
    """Selected sentences of the task, in this order."""
    maximum, minimum, sources = ([values[row] for row in rows] for values in (task.maximum, task.minimum, task.sources))
    return Task(task.tables[rows], maximum, minimum, task.looks[rows], sources)


def sequences(sentence: Sentence, sampling: Sampling) -> dict[tuple[int, ...], float]:
    """The probability of every possible sample; cut sequences have no end mark."""
    complete: dict[tuple[int, ...], float] = {}
    incomplete = {(): 1.0}
    for length in range(1, sentence.maximum + 1):
        extended: dict[tuple[int, ...], float] = {}
        for tokens, prob in incomplete.items():
            first, second = (MARKS.start, MARKS.start, *tokens)[-2:]
            candidates = allowed(sentence, length)
            row = [
                value if token in candidates else -math.inf for token, value in enumerate(sentence.table[first][second])
            ]
            for token, token_prob in enumerate(plain_filtered(row, sampling)):
                is_kept = token == MARKS.end or length < sentence.maximum
                sequence = (*tokens, token) if is_kept else tokens  # a word too many cuts the sequence before it
                if token_prob > 0:
                    extended[sequence] = extended.get(sequence, 0.0) + prob * token_prob
        complete |= {tokens: prob for tokens, prob in extended.items() if MARKS.end in tokens}
        incomplete = {tokens: prob for tokens, prob in extended.items() if MARKS.end not in tokens}
    return complete | incomplete


def with_end(hypothesis: Hypothesis) -> tuple[int, ...]:
    return hypothesis.tokens if hypothesis.cut else (*hypothesis.tokens, MARKS.end)


# Random numbers


@given(values=st.lists(STREAMS | st.sampled_from([0, -1, 1, -(2**63), 2**63 - 1]), min_size=1))
def test_mixed_is_splitmix64(values: list[int]) -> None:
    assert [value & WORD for value in mixed(torch.tensor(values)).tolist()] == [
        splitmix(value & WORD) for value in values
    ]


def test_mixed_gives_the_published_numbers() -> None:
    """The first of seed 1234567, as in the reference implementation and Rosetta Code."""
    assert mixed(torch.tensor([1234567])).item() & WORD == 6457827717110365317
    assert mixed(torch.tensor([1234567 - (2**64 - 0x9E3779B97F4A7C15)])).item() & WORD == 3203168211198807973


@given(keys=st.lists(STREAMS, min_size=1), number=st.integers(0, 10**6))
def test_uniform_is_the_high_bits_of_the_mixed_key(keys: list[int], number: int) -> None:
    numbers = uniform(torch.tensor(keys), number)
    assert numbers.dtype == torch.float64
    assert numbers.tolist() == [splitmix((key + splitmix(number)) & WORD) // 2**11 / 2**53 for key in keys]
    assert bool(((numbers >= 0) & (numbers < 1)).all())


@pytest.mark.parametrize("which", ["keys", "steps"])
def test_neighbouring_numbers_are_uniform_and_independent(which: str) -> None:
    count, bins = 20_000, 10
    if which == "keys":
        numbers = uniform(torch.arange(count), 3)
    else:
        numbers = torch.cat([uniform(torch.tensor([7]), step) for step in range(count)])
    assert len(set(numbers.tolist())) == count
    quantiles = torch.arange(1, count + 1) / count
    assert (numbers.sort().values - quantiles).abs().max().item() < 1.95 / math.sqrt(count)  # Kolmogorov, 1 in 1000
    cells = (numbers * bins).long().tolist()
    pairs = Counter(zip(cells[::2], cells[1::2], strict=True))
    assert chi_square(pairs, dict.fromkeys(itertools.product(range(bins), repeat=2), bins**-2)) < 4


# Truncation of the distribution


@thorough
@given(rows=ROWS, sampling=SAMPLINGS)
def test_filtered_is_its_plain_formula(rows: list[list[float]], sampling: Sampling) -> None:
    filtered_probs = filtered(torch.tensor(rows, dtype=torch.float64), sampling)
    assert filtered_probs.dtype == torch.float64
    for row, probs in zip(rows, filtered_probs.tolist(), strict=True):
        assume(is_clear(row, sampling))
        assert probs == pytest.approx(plain_filtered(row, sampling), rel=1e-9, abs=1e-12)


@thorough
@given(rows=ROWS, sampling=SAMPLINGS)
def test_the_most_likely_may_always_be_drawn_and_the_impossible_never(
    rows: list[list[float]], sampling: Sampling
) -> None:
    log_probs = torch.tensor(rows, dtype=torch.float32)
    for row, probs in zip(log_probs.tolist(), filtered(log_probs, sampling).tolist(), strict=True):
        assert sum(probs) == pytest.approx(1, rel=1e-12)
        assert row[probs.index(max(probs))] == pytest.approx(max(row), abs=1e-12)
        assert all(prob == 0 for prob, value in zip(probs, row, strict=True) if value == -math.inf)
        if sampling.top_k:
            assert sum(prob > 0 for prob in probs) <= sampling.top_k


def test_the_nucleus_is_computed_after_min_p() -> None:
    log_probs = torch.tensor([[0.5, 0.3, 0.1, 0.1]], dtype=torch.float64).log()
    assert filtered(log_probs, Sampling(top_p=0.6)).count_nonzero() == 2
    assert filtered(log_probs, Sampling(top_p=0.6, min_p=0.5)).count_nonzero() == 1  # 0.5 of 0.8 is enough


@thorough
@given(rows=ROWS)
def test_without_filters_it_is_the_models_own_distribution(rows: list[list[float]]) -> None:
    log_probs = torch.tensor(rows, dtype=torch.float64).log_softmax(dim=-1)
    torch.testing.assert_close(filtered(log_probs, EVERYTHING), log_probs.exp(), rtol=1e-12, atol=1e-12)


# Drawing


@thorough
@given(rows=ROWS, data=st.data())
def test_draw_gives_the_token_at_which_the_sum_passes_the_number(rows: list[list[float]], data: st.DataObject) -> None:
    probs = torch.tensor(rows, dtype=torch.float64).softmax(dim=-1)
    edges = [0.0, 2.0**-53, 5e-324, 0.5, 1 - 2.0**-53]
    numbers = data.draw(st.lists(st.floats(0, 1, exclude_max=True) | st.sampled_from(edges), min_size=1))
    for number in numbers:
        tokens = draw(probs, torch.full((len(rows),), number, dtype=torch.float64))
        for row, token in zip(probs.tolist(), tokens.tolist(), strict=True):
            assert row[token] > 0
            assert math.fsum(row[:token]) - 1e-12 <= number <= math.fsum(row[: token + 1]) + 1e-12


@pytest.mark.parametrize("row", [[0.0, 0.0, 1.0, 0.0], [0.0, 0.3, 0.0, 0.7, 0.0], [0.1] * 10 + [0.0], [1e-300, 0, 1]])
@pytest.mark.parametrize("number", [0.0, 5e-324, 2.0**-53, 0.3, 1 - 2.0**-53, 1.0])
def test_draw_never_gives_a_token_with_probability_zero(row: list[float], number: float) -> None:
    probs = torch.tensor([row], dtype=torch.float64)
    assert row[draw(probs, torch.tensor([number], dtype=torch.float64)).item()] > 0


def test_draw_gives_every_token_with_its_probability() -> None:
    generator = random.Random(5)
    for case in range(5):
        row = share([generator.random() ** 3 for _ in range(12)], generator.sample(range(12), 8))
        probs = torch.tensor([row], dtype=torch.float64).expand(20_000, -1)
        counts = Counter(draw(probs, uniform(mixed(torch.arange(20_000)), case)).tolist())
        assert chi_square(counts, dict(enumerate(row))) < 4


# Whole hypotheses


@st.composite
def streamed(draw, **options) -> tuple[Task, list[int]]:
    """A task without impossible tokens, and one stream per sentence."""
    task = draw(tasks(impossible=False, **options))
    count = len(task.maximum)
    return task, draw(st.lists(STREAMS, min_size=count, max_size=count, unique=True))


@thorough
@given(problem=streamed(longest=8, sentences=5), sampling=SAMPLINGS, draws=st.integers(1, 4), data=st.data())
def test_samples_of_a_stream_do_not_depend_on_the_batch(
    problem: tuple[Task, list[int]], sampling: Sampling, draws: int, data: st.DataObject
) -> None:
    task, streams = problem
    together = sampled(task, streams=streams, sampling=sampling, draws=draws)
    assert [len(samples) for samples in together] == [draws] * len(streams)
    rows = data.draw(st.lists(st.sampled_from(range(len(streams))), min_size=1, max_size=6))
    selected = sampled(picked(task, rows), streams=[streams[row] for row in rows], sampling=sampling, draws=draws)
    assert selected == [together[row] for row in rows]
    fewer = sampled(task, streams=streams, sampling=sampling, draws=1)
    assert [samples[:1] for samples in together] == fewer


@thorough
@given(problem=streamed(longest=8, sentences=5), sampling=SAMPLINGS, draws=st.integers(1, 4))
def test_samples_keep_their_limits_and_have_the_models_log_probability(
    problem: tuple[Task, list[int]], sampling: Sampling, draws: int
) -> None:
    task, streams = problem
    results = sampled(task, streams=streams, sampling=sampling, draws=draws)
    for hypotheses, sentence in zip(results, task.sentences, strict=True):
        for hypothesis in hypotheses:
            assert set(hypothesis.tokens) <= set(WORDS)
            size = len(hypothesis.tokens) + 1
            assert size == sentence.maximum if hypothesis.cut else sentence.minimum <= size <= sentence.maximum
            total = sentence.totals(with_end(hypothesis))[-1]
            assert hypothesis.score == hypothesis.log_prob == pytest.approx(total, rel=1e-12, abs=1e-12)


@thorough
@given(problem=streamed(longest=8, sentences=5), sampling=SAMPLINGS)
def test_only_the_most_likely_token_is_greedy_search(problem: tuple[Task, list[int]], sampling: Sampling) -> None:
    task, streams = problem
    greedy = greedy_search(trigram, start(task), (task.tables, task.looks), limits=task.limits, marks=MARKS)
    for only in (sampling._replace(top_k=1), sampling._replace(top_p=0.0)):
        for hypotheses, (expected,) in zip(sampled(task, streams=streams, sampling=only, draws=2), greedy, strict=True):
            for hypothesis in hypotheses:
                assert (hypothesis.tokens, hypothesis.cut) == (expected.tokens, expected.cut)
                assert hypothesis.log_prob == pytest.approx(expected.log_prob, rel=1e-12, abs=1e-12)


def model(*, seed: int, maximum: list[int], minimum: list[int]) -> Task:
    """Normalised tables, a little uneven."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(maximum), VOCABULARY, VOCABULARY, VOCABULARY)
    tables = torch.randn(shape, generator=generator, dtype=torch.float64).log_softmax(dim=-1)
    return Task(tables, maximum, minimum, tables[..., :1].exp(), [1] * len(maximum))


@pytest.mark.parametrize(
    "sampling", [EVERYTHING, Sampling(temperature=0.6), Sampling(1.5, 3), Sampling(1.0, 0, 0.8), Sampling(min_p=0.3)]
)
def test_sequences_are_drawn_with_the_models_probabilities(sampling: Sampling) -> None:
    task = model(seed=11, maximum=[3, 2, 4, 2], minimum=[0, 0, 3, 2])
    results = sampled(task, streams=[1, 2, 3, 4], sampling=sampling, draws=8000)
    for hypotheses, sentence in zip(results, task.sentences, strict=True):
        expected = sequences(sentence, sampling)
        assert math.fsum(expected.values()) == pytest.approx(1)
        assert chi_square(Counter(map(with_end, hypotheses)), expected) < 4


def test_neighbouring_streams_draw_with_the_models_probabilities() -> None:
    """One sample for each of many sentences that differ only in their stream."""
    count = 8000
    task = picked(model(seed=12, maximum=[3], minimum=[0]), [0] * count)
    results = sampled(task, streams=list(range(count)))
    expected = sequences(task.sentences[0], EVERYTHING)
    assert chi_square(Counter(with_end(hypothesis) for (hypothesis,) in results), expected) < 4


def test_two_samples_of_a_sentence_are_independent() -> None:
    count = 8000
    task = picked(model(seed=13, maximum=[2], minimum=[0]), [0] * count)
    results = sampled(task, streams=list(range(count)), draws=2)
    single = sequences(task.sentences[0], EVERYTHING)
    expected = {(first, second): single[first] * single[second] for first in single for second in single}
    assert chi_square(Counter((with_end(first), with_end(second)) for first, second in results), expected) < 4


@thorough
@given(problem=streamed(longest=9, sentences=4), draws=st.integers(1, 3), size=st.integers(2, 3))
def test_sampling_under_constraints(problem: tuple[Task, list[int]], draws: int, size: int) -> None:
    task, streams = problem
    assume(all(maximum <= len(WORDS) ** size for maximum in task.maximum))  # some n-gram is always left
    rules = [NoRepeat(size)]
    state, context = start_constrained(
        rules,
        state=start(task),
        context=(task.tables, task.looks),
        sentences=len(streams),
        device=torch.device("cpu"),
    )
    options = {"sampling": EVERYTHING, "draws": draws, "streams": torch.tensor(streams)}
    results = sample_search(constrained(trigram, rules), state, context, limits=task.limits, marks=MARKS, **options)
    for hypotheses, sentence in zip(results, task.sentences, strict=True):
        for hypothesis in hypotheses:
            ngrams = [hypothesis.tokens[index : index + size] for index in range(len(hypothesis.tokens) - size + 1)]
            assert len(set(ngrams)) == len(ngrams)
            total = sentence.totals(with_end(hypothesis))[-1]
            assert hypothesis.log_prob == pytest.approx(total, rel=1e-12, abs=1e-12)


def test_samples_that_reach_a_dead_end_are_discarded() -> None:
    """All words are used up before the minimum length."""
    task = model(seed=14, maximum=[6], minimum=[6])
    rules = [NoRepeat(1)]
    state, context = start_constrained(
        rules, state=start(task), context=(task.tables, task.looks), sentences=1, device=torch.device("cpu")
    )
    options = {"sampling": EVERYTHING, "draws": 1, "streams": torch.tensor([1])}
    results = sample_search(constrained(trigram, rules), state, context, limits=task.limits, marks=MARKS, **options)
    assert results == [[]]
