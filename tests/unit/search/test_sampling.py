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
from tests.laws.test_oracle import MARKS, VOCABULARY, WORDS, Sentence, Task, allowed, patient, start, tasks, trigram

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
    """Probabilities in proportion to `row`, of the allowed only."""
    kept = [value if place in {*allowed} else 0.0 for place, value in enumerate(row)]
    return [value / math.fsum(kept) for value in kept]


def plain_filtered(log_probs: list[float], sampling: Sampling) -> list[float]:
    """Temperature, then the floor, then of what is left the k most likely and the nucleus, both counted in it."""
    most = max(log_probs)
    weights = [math.exp((value - most) / sampling.temperature) for value in log_probs]
    everything = range(len(weights))
    probs = share(weights, everything)
    probs = share(probs, [place for place in everything if probs[place] >= sampling.min_p * max(probs)])
    order = sorted(everything, key=lambda place: -probs[place])
    before = [math.fsum(probs[place] for place in order[:rank]) for rank in everything]
    kept = [
        place
        for rank, place in enumerate(order)
        if rank == 0 or (before[rank] < sampling.top_p and (sampling.top_k == 0 or rank < sampling.top_k))
    ]
    return share(probs, kept)


def is_clear(log_probs: list[float], sampling: Sampling) -> bool:
    """Whether what is kept does not hang on the last digits of a share."""
    floors = (sampling.min_p - 1e-9, min(1.0, sampling.min_p + 1e-9))
    nuclei = (sampling.top_p - 1e-9, sampling.top_p + 1e-9)
    around = [sampling._replace(min_p=floor, top_p=nucleus) for floor in floors for nucleus in nuclei]
    probs = plain_filtered(log_probs, sampling)
    return all(plain_filtered(log_probs, each) == pytest.approx(probs, abs=1e-7) for each in around)


def chi_square(counts: Counter, expected: dict) -> float:
    """How many standard deviations χ² lies above its mean; outcomes expected less than five times are one."""
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


def picked(task: Task, places: list[int]) -> Task:
    """Some of its sentences, in this order."""
    maximum, minimum, sources = ([each[n] for n in places] for each in (task.maximum, task.minimum, task.sources))
    return Task(task.tables[places], maximum, minimum, task.looks[places], sources)


def sequences(sentence: Sentence, sampling: Sampling) -> dict[tuple[int, ...], float]:
    """The probability of all there is to draw; what is cut has no end mark."""
    answers: dict[tuple[int, ...], float] = {}
    going = {(): 1.0}
    for length in range(1, sentence.maximum + 1):
        grown: dict[tuple[int, ...], float] = {}
        for tokens, prob in going.items():
            one, two = (MARKS.start, MARKS.start, *tokens)[-2:]
            may = allowed(sentence, length)
            row = [value if token in may else -math.inf for token, value in enumerate(sentence.table[one][two])]
            for token, each in enumerate(plain_filtered(row, sampling)):
                ends = token == MARKS.end or length < sentence.maximum
                said = (*tokens, token) if ends else tokens  # what would be a word too many cuts what stands before it
                if each > 0:
                    grown[said] = grown.get(said, 0.0) + prob * each
        answers |= {tokens: prob for tokens, prob in grown.items() if MARKS.end in tokens}
        going = {tokens: prob for tokens, prob in grown.items() if MARKS.end not in tokens}
    return answers | going


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
def test_uniform_is_the_high_bits_of_what_is_mixed(keys: list[int], number: int) -> None:
    found = uniform(torch.tensor(keys), number)
    assert found.dtype == torch.float64
    assert found.tolist() == [splitmix((key + splitmix(number)) & WORD) // 2**11 / 2**53 for key in keys]
    assert bool(((found >= 0) & (found < 1)).all())


@pytest.mark.parametrize("which", ["keys", "steps"])
def test_neighbours_are_uniform_and_know_nothing_of_each_other(which: str) -> None:
    count, bins = 20_000, 10
    if which == "keys":
        numbers = uniform(torch.arange(count), 3)
    else:
        numbers = torch.cat([uniform(torch.tensor([7]), step) for step in range(count)])
    assert len(set(numbers.tolist())) == count
    places = torch.arange(1, count + 1) / count
    assert (numbers.sort().values - places).abs().max().item() < 1.95 / math.sqrt(count)  # Kolmogorov, 1 in 1000
    cells = (numbers * bins).long().tolist()
    pairs = Counter(zip(cells[::2], cells[1::2], strict=True))
    assert chi_square(pairs, dict.fromkeys(itertools.product(range(bins), repeat=2), bins**-2)) < 4


# What may be drawn


@patient
@given(rows=ROWS, sampling=SAMPLINGS)
def test_filtered_is_its_plain_formula(rows: list[list[float]], sampling: Sampling) -> None:
    found = filtered(torch.tensor(rows, dtype=torch.float64), sampling)
    assert found.dtype == torch.float64
    for row, probs in zip(rows, found.tolist(), strict=True):
        assume(is_clear(row, sampling))
        assert probs == pytest.approx(plain_filtered(row, sampling), rel=1e-9, abs=1e-12)


@patient
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


def test_the_nucleus_is_counted_in_what_the_floor_has_left() -> None:
    log_probs = torch.tensor([[0.5, 0.3, 0.1, 0.1]], dtype=torch.float64).log()
    assert filtered(log_probs, Sampling(top_p=0.6)).count_nonzero() == 2
    assert filtered(log_probs, Sampling(top_p=0.6, min_p=0.5)).count_nonzero() == 1  # 0.5 of 0.8 is enough


@patient
@given(rows=ROWS)
def test_without_filters_it_is_the_models_own_distribution(rows: list[list[float]]) -> None:
    log_probs = torch.tensor(rows, dtype=torch.float64).log_softmax(dim=-1)
    torch.testing.assert_close(filtered(log_probs, EVERYTHING), log_probs.exp(), rtol=1e-12, atol=1e-12)


# Drawing


@patient
@given(rows=ROWS, data=st.data())
def test_draw_gives_the_token_at_which_the_sum_passes_the_number(rows: list[list[float]], data: st.DataObject) -> None:
    probs = torch.tensor(rows, dtype=torch.float64).softmax(dim=-1)
    edges = [0.0, 2.0**-53, 5e-324, 0.5, 1 - 2.0**-53]
    numbers = data.draw(st.lists(st.floats(0, 1, exclude_max=True) | st.sampled_from(edges), min_size=1))
    for number in numbers:
        found = draw(probs, torch.full((len(rows),), number, dtype=torch.float64))
        for row, token in zip(probs.tolist(), found.tolist(), strict=True):
            assert row[token] > 0
            assert math.fsum(row[:token]) - 1e-12 <= number <= math.fsum(row[: token + 1]) + 1e-12


@pytest.mark.parametrize("row", [[0.0, 0.0, 1.0, 0.0], [0.0, 0.3, 0.0, 0.7, 0.0], [0.1] * 10 + [0.0], [1e-300, 0, 1]])
@pytest.mark.parametrize("number", [0.0, 5e-324, 2.0**-53, 0.3, 1 - 2.0**-53, 1.0])
def test_draw_never_gives_what_has_no_probability(row: list[float], number: float) -> None:
    probs = torch.tensor([row], dtype=torch.float64)
    assert row[draw(probs, torch.tensor([number], dtype=torch.float64)).item()] > 0


def test_draw_gives_every_token_as_often_as_it_should() -> None:
    generator = random.Random(5)
    for case in range(5):
        row = share([generator.random() ** 3 for _ in range(12)], generator.sample(range(12), 8))
        probs = torch.tensor([row], dtype=torch.float64).expand(20_000, -1)
        counts = Counter(draw(probs, uniform(mixed(torch.arange(20_000)), case)).tolist())
        assert chi_square(counts, dict(enumerate(row))) < 4


# Whole hypotheses


@st.composite
def streamed(draw, **options) -> tuple[Task, list[int]]:
    """A task in which nothing is impossible, and a stream for each sentence."""
    task = draw(tasks(impossible=False, **options))
    count = len(task.maximum)
    return task, draw(st.lists(STREAMS, min_size=count, max_size=count, unique=True))


@patient
@given(given_=streamed(longest=8, sentences=5), sampling=SAMPLINGS, draws=st.integers(1, 4), data=st.data())
def test_a_stream_draws_the_same_in_whatever_company(
    given_: tuple[Task, list[int]], sampling: Sampling, draws: int, data: st.DataObject
) -> None:
    task, streams = given_
    together = sampled(task, streams=streams, sampling=sampling, draws=draws)
    assert [len(each) for each in together] == [draws] * len(streams)
    places = data.draw(st.lists(st.sampled_from(range(len(streams))), min_size=1, max_size=6))
    other = sampled(picked(task, places), streams=[streams[n] for n in places], sampling=sampling, draws=draws)
    assert other == [together[n] for n in places]
    fewer = sampled(task, streams=streams, sampling=sampling, draws=1)
    assert [each[:1] for each in together] == fewer


@patient
@given(given_=streamed(longest=8, sentences=5), sampling=SAMPLINGS, draws=st.integers(1, 4))
def test_a_hypothesis_keeps_its_limits_and_costs_what_the_model_says(
    given_: tuple[Task, list[int]], sampling: Sampling, draws: int
) -> None:
    task, streams = given_
    found = sampled(task, streams=streams, sampling=sampling, draws=draws)
    for hypotheses, sentence in zip(found, task.sentences, strict=True):
        for each in hypotheses:
            assert set(each.tokens) <= set(WORDS)
            size = len(each.tokens) + 1
            assert size == sentence.maximum if each.cut else sentence.minimum <= size <= sentence.maximum
            total = sentence.totals(with_end(each))[-1]
            assert each.score == each.log_prob == pytest.approx(total, rel=1e-12, abs=1e-12)


@patient
@given(given_=streamed(longest=8, sentences=5), sampling=SAMPLINGS)
def test_only_the_most_likely_token_is_greedy_search(given_: tuple[Task, list[int]], sampling: Sampling) -> None:
    task, streams = given_
    greedy = greedy_search(trigram, start(task), (task.tables, task.looks), limits=task.limits, marks=MARKS)
    for only in (sampling._replace(top_k=1), sampling._replace(top_p=0.0)):
        for hypotheses, (one,) in zip(sampled(task, streams=streams, sampling=only, draws=2), greedy, strict=True):
            for each in hypotheses:
                assert (each.tokens, each.cut) == (one.tokens, one.cut)
                assert each.log_prob == pytest.approx(one.log_prob, rel=1e-12, abs=1e-12)


def model(*, seed: int, maximum: list[int], minimum: list[int]) -> Task:
    """Normalised tables, a little uneven."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(maximum), VOCABULARY, VOCABULARY, VOCABULARY)
    tables = torch.randn(shape, generator=generator, dtype=torch.float64).log_softmax(dim=-1)
    return Task(tables, maximum, minimum, tables[..., :1].exp(), [1] * len(maximum))


@pytest.mark.parametrize(
    "sampling", [EVERYTHING, Sampling(temperature=0.6), Sampling(1.5, 3), Sampling(1.0, 0, 0.8), Sampling(min_p=0.3)]
)
def test_sequences_come_as_often_as_the_model_says(sampling: Sampling) -> None:
    task = model(seed=11, maximum=[3, 2, 4, 2], minimum=[0, 0, 3, 2])
    found = sampled(task, streams=[1, 2, 3, 4], sampling=sampling, draws=8000)
    for hypotheses, sentence in zip(found, task.sentences, strict=True):
        expected = sequences(sentence, sampling)
        assert math.fsum(expected.values()) == pytest.approx(1)
        assert chi_square(Counter(map(with_end, hypotheses)), expected) < 4


def test_neighbouring_streams_draw_as_often_as_the_model_says() -> None:
    """One draw each of many sentences that are the same but for their number."""
    count = 8000
    task = picked(model(seed=12, maximum=[3], minimum=[0]), [0] * count)
    found = sampled(task, streams=list(range(count)))
    expected = sequences(task.sentences[0], EVERYTHING)
    assert chi_square(Counter(with_end(each) for (each,) in found), expected) < 4


def test_two_draws_of_a_sentence_know_nothing_of_each_other() -> None:
    count = 8000
    task = picked(model(seed=13, maximum=[2], minimum=[0]), [0] * count)
    found = sampled(task, streams=list(range(count)), draws=2)
    alone = sequences(task.sentences[0], EVERYTHING)
    expected = {(one, two): alone[one] * alone[two] for one in alone for two in alone}
    assert chi_square(Counter((with_end(one), with_end(two)) for one, two in found), expected) < 4


@patient
@given(given_=streamed(longest=9, sentences=4), draws=st.integers(1, 3), size=st.integers(2, 3))
def test_constrained_steps_are_drawn_from_too(given_: tuple[Task, list[int]], draws: int, size: int) -> None:
    task, streams = given_
    assume(all(maximum <= len(WORDS) ** size for maximum in task.maximum))  # there is always something left to say
    rules = [NoRepeat(size)]
    state, context = start_constrained(
        rules,
        state=start(task),
        context=(task.tables, task.looks),
        sentences=len(streams),
        device=torch.device("cpu"),
    )
    options = {"sampling": EVERYTHING, "draws": draws, "streams": torch.tensor(streams)}
    found = sample_search(constrained(trigram, rules), state, context, limits=task.limits, marks=MARKS, **options)
    for hypotheses, sentence in zip(found, task.sentences, strict=True):
        for each in hypotheses:
            grams = [each.tokens[place : place + size] for place in range(len(each.tokens) - size + 1)]
            assert len(set(grams)) == len(grams)
            total = sentence.totals(with_end(each))[-1]
            assert each.log_prob == pytest.approx(total, rel=1e-12, abs=1e-12)


def test_what_comes_to_where_no_word_is_left_is_not_among_what_is_drawn() -> None:
    """All words are said and the end comes too early."""
    task = model(seed=14, maximum=[6], minimum=[6])
    rules = [NoRepeat(1)]
    state, context = start_constrained(
        rules, state=start(task), context=(task.tables, task.looks), sentences=1, device=torch.device("cpu")
    )
    options = {"sampling": EVERYTHING, "draws": 1, "streams": torch.tensor([1])}
    found = sample_search(constrained(trigram, rules), state, context, limits=task.limits, marks=MARKS, **options)
    assert found == [[]]
