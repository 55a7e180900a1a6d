"""Required phrases against full enumeration, a beam allocation on plain lists, and a second matcher."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.laws.test_oracle import (
    IMPOSSIBLE,
    MARKS,
    SCORINGS,
    VOCABULARY,
    WORDS,
    Sentence,
    Task,
    enumerate_all,
    rank,
    same,
    search,
    start,
    tasks,
    thorough,
    trigram,
    wide,
)
from tests.laws.test_oracle import allowed as may_come
from tests.unit.search.test_constraints import Rule, Ruled, Words

from calque.search import phrase_matching
from calque.search.beam import BestK, Goal, beam_search
from calque.search.required_phrases import NONE, Phrases, Progress, Required, _deduplicate, advance
from calque.search.scoring import Scoring
from calque.search.step import Hypothesis, Limits, StepOutput

EVERYTHING = 500
EVERY = torch.ones(VOCABULARY, dtype=torch.bool)
PhraseList = list[Words]  # the phrases of one sentence

phrases = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(tuple)


class Edges(NamedTuple):
    """Tokens that start a new word whatever precedes them, and tokens after which any token starts a new word."""

    follows: set[int]
    opens: set[int]

    def begins_at(self, words: Sequence[int], place: int) -> bool:
        return place == 0 or words[place] in self.follows or words[place - 1] in self.opens


ANYWHERE = Edges({*WORDS, MARKS.end}, {*WORDS})


class Match(NamedTuple):
    """Which phrases a sequence contains so far."""

    met: frozenset[int]
    active: int | None
    length: int
    complete: bool


def matched(words: Sequence[int], phrases: PhraseList, edges: Edges = ANYWHERE, *, exact: bool = True) -> Match:
    """Greedy matching from left to right: the first missing phrase with the longest match since the last complete one.

    With `exact`, all phrases also count as met if any other assignment of words covers them.
    """
    met: set[int] = set()
    since, active, length, is_complete = 0, None, 0, False
    for end in range(1, len(words) + 1):
        matches = [
            (size, -number)
            for number, phrase in enumerate(phrases)
            for size in range(1, min(len(phrase), end - since) + 1)
            if number not in met and tuple(words[end - size : end]) == phrase[:size]
            if edges.begins_at(words, end - size)
        ]
        length, number = max(matches, default=(0, 0))
        active = -number if matches else None
        is_complete = active is not None and length == len(phrases[active])
        if is_complete:
            met.add(active)
        if exact and len(met) < len(phrases) and holds(tuple(words[:end]), phrases, edges):
            met, is_complete = set(range(len(phrases))), True
        if is_complete:
            since, active, length = end, None, 0
    return Match(frozenset(met), active, length, is_complete)


def size(phrases: PhraseList) -> int:
    return sum(map(len, phrases))


def bank(words: Sequence[int], phrases: PhraseList, edges: Edges = ANYWHERE, *, is_extension: bool = False) -> int:
    """Twice the number of matched phrase words, plus 1 if it can continue or start a phrase.

    A new extension (`grown`) is matched exactly only if it is kept.
    """
    progress = matched(words, phrases, edges)
    if is_extension:
        previous, greedy = matched(words[:-1], phrases, edges), matched(words, phrases, edges, exact=False)
        progress = progress if len(previous.met) == len(phrases) else greedy
    tokens_matched = sum(len(phrases[number]) for number in progress.met) + progress.length
    return 2 * tokens_matched + (not waits(words, progress, phrases, edges))


def waits(words: Sequence[int], match: Match, phrases: PhraseList, edges: Edges) -> bool:
    """Whether a phrase is missing and none of the missing ones may start there."""
    missing = [phrase for number, phrase in enumerate(phrases) if number not in match.met]
    if not missing or match.active is not None:
        return False
    return not any(edges.begins_at((*words, phrase[0]), len(words)) for phrase in missing)


def allowed(phrases: PhraseList, edges: Edges) -> Rule:
    """No end before all phrases are met, and after a phrase only tokens in `follows`."""

    def may(tokens: Words) -> bool:
        for place, token in enumerate(tokens):
            before = matched(tokens[:place], phrases, edges)
            early = token == MARKS.end and len(before.met) < len(phrases)
            if early or (before.complete and token not in edges.follows):
                return False
        return True

    return may


def holds(words: Words, phrases: PhraseList, edges: Edges, *, taken: frozenset[int] = frozenset()) -> bool:
    """Whether it contains all phrases without overlap, each as whole words: tries every placement of every phrase."""
    if not phrases:
        return True
    first, *rest = phrases
    for place in range(len(words) - len(first) + 1):
        stop = place + len(first)
        occupied = {*range(place, stop)}
        if words[place:stop] == first and not occupied & taken and edges.begins_at(words, place):
            is_at_boundary = stop == len(words) or words[stop] in edges.follows
            if is_at_boundary and holds(words, rest, edges, taken=taken | occupied):
                return True
    return False


def plain_required(
    sentence: Ruled, phrases: PhraseList, edges: Edges, *, beams: int, nbest: int, score: Scoring
) -> list[Hypothesis]:
    """Dynamic beam allocation for one sentence on plain lists, always up to the maximum length."""
    live: list[Words] = [()]
    ended: list[Words] = []
    for length in range(1, sentence.maximum + 1):
        previous = live
        extended = [tokens for before in live for tokens in grow(sentence, before, length)]
        extended.sort(key=lambda tokens: -sentence.totals(tokens)[-1])
        selected = {*extended[: 2 * beams]}
        for before in live:
            match = matched(before, phrases, edges)
            missing = [phrase[0] for number, phrase in enumerate(phrases) if number not in match.met]
            next_tokens = {token for token in missing if edges.begins_at((*before, token), len(before))}
            next_tokens |= {phrases[match.active][match.length]} if match.active is not None else set()
            extensions = [tokens for tokens in extended if tokens[:-1] == before]
            if waits(before, match, phrases, edges):
                selected |= {*[tokens for tokens in extensions if tokens[-1] in edges.opens][:1]}
            selected |= {*extensions[:1], *(tokens for tokens in extensions if tokens[-1] in {*next_tokens, MARKS.end})}
        candidates = [tokens for tokens in extended if tokens in selected]
        banks = [bank(tokens, phrases, edges, is_extension=True) for tokens in candidates]
        turns = {tokens: (banks[:index].count(banks[index]), -banks[index]) for index, tokens in enumerate(candidates)}
        ended += [tokens for tokens in candidates if tokens[-1] == MARKS.end and turns[tokens][0] < beams]
        unfinished = [tokens for tokens in candidates if tokens[-1] != MARKS.end]
        best = sorted(unfinished, key=turns.__getitem__)[:beams]
        live = [tokens for tokens in unfinished if tokens in best]
    cut = [tokens for tokens in previous if (*tokens, MARKS.end) not in ended]
    return missing_last(ranked(sentence, ended=ended, cut=cut, score=score), phrases, edges)[:nbest]


def grow(sentence: Ruled, before: Words, length: int) -> list[Words]:
    tokens = may_come(sentence, length)
    return [(*before, token) for token in tokens if sentence.totals((*before, token))[-1] > IMPOSSIBLE]


def ranked(sentence: Ruled, *, ended: list[Words], cut: list[Words], score: Scoring) -> list[Hypothesis]:
    hypotheses = []
    for group, is_cut in ((ended, False), (cut, True)):
        scored = [(rank(sentence, tokens, score), sentence.totals(tokens)[-1], tokens) for tokens in group]
        ordered = sorted(scored, key=lambda row: -row[0])
        hypotheses += [Hypothesis(tokens if is_cut else tokens[:-1], *rest, cut=is_cut) for *rest, tokens in ordered]
    return hypotheses


def missing_last(hypotheses: list[Hypothesis], phrases: PhraseList, edges: Edges) -> list[Hypothesis]:
    """Cut hypotheses that miss a phrase come after cut hypotheses that do not."""
    flagged = [
        hypothesis._replace(
            missing_phrase=hypothesis.cut and len(matched(hypothesis.tokens, phrases, edges).met) < len(phrases)
        )
        for hypothesis in hypotheses
    ]
    return sorted(flagged, key=lambda hypothesis: hypothesis.missing_phrase)


def required(
    task: Task,
    problems: list[PhraseList],
    edges: Edges,
    *,
    beams: int,
    nbest: int,
    score: Scoring,
    known: int = VOCABULARY,
) -> list[list[Hypothesis]]:
    follows, opens = (torch.tensor([token in side for token in range(known)], dtype=torch.bool) for side in edges)
    return beam_search(
        trigram,
        start(task),
        (task.tables, task.looks),
        expansion=Required(beams, problems, follows=follows, opens=opens),
        goal=Goal(score, nbest),
        limits=task.limits,
        marks=MARKS,
        source_lengths=torch.tensor(task.sources),
    )


class Problem(NamedTuple):
    """A task, the phrases of each of its sentences, and the word boundaries; the end mark is always a boundary."""

    task: Task
    phrases: list[PhraseList]
    edges: Edges

    @property
    def ruled(self) -> list[Ruled]:
        sentences: list[Sentence] = self.task.sentences
        return [
            Ruled(sentence, allowed(phrases, self.edges))
            for sentence, phrases in zip(sentences, self.phrases, strict=True)
        ]


@st.composite
def problems(draw: Callable, *, longest: int, sentences: int = 4, most: int = 3, impossible: bool = True) -> Problem:
    """Some sentences have no phrases; phrases overlap, are repeated, or are one word long."""
    task = draw(tasks(longest=longest, sentences=sentences, impossible=impossible))
    count = len(task.maximum)
    some = st.lists(phrases, max_size=most)
    twice = phrases.map(lambda phrase: [phrase, phrase])
    overlapping = phrases.map(lambda phrase: [phrase[:1], phrase, phrase[-1:]][: most + 1])
    required_phrases = draw(st.lists(some | twice | overlapping | st.just([]), min_size=count, max_size=count))
    some_tokens = st.sets(st.sampled_from(WORDS)) | st.just(set(WORDS))
    return Problem(task, required_phrases, Edges({*draw(some_tokens), MARKS.end}, draw(some_tokens)))


def ends(hypotheses: list[Hypothesis]) -> list[Words]:
    return [hypothesis.tokens for hypothesis in hypotheses if not hypothesis.cut]


@thorough
@given(problem=problems(longest=4, sentences=3), score=SCORINGS, nbest=st.sampled_from([1, 2, EVERYTHING]))
def test_a_wide_beam_is_full_enumeration_of_hypotheses_with_their_phrases(
    problem: Problem, score: Scoring, nbest: int
) -> None:
    results = required(problem.task, problem.phrases, problem.edges, beams=wide(4), nbest=nbest, score=score)
    for hypotheses, ruled, required_phrases in zip(results, problem.ruled, problem.phrases, strict=True):
        everything = missing_last(enumerate_all(ruled, nbest=EVERYTHING, score=score), required_phrases, problem.edges)
        same(hypotheses, everything[:nbest], sentence=ruled, score=score)


@thorough
@given(problem=problems(longest=8), score=SCORINGS, beams=st.integers(1, 6), nbest=st.sampled_from([1, 3, EVERYTHING]))
def test_a_batch_is_the_plain_allocation_of_each_sentence(
    problem: Problem, score: Scoring, beams: int, nbest: int
) -> None:
    results = required(problem.task, problem.phrases, problem.edges, beams=beams, nbest=nbest, score=score)
    for hypotheses, ruled, required_phrases in zip(results, problem.ruled, problem.phrases, strict=True):
        expected = plain_required(ruled, required_phrases, problem.edges, beams=beams, nbest=nbest, score=score)
        same(hypotheses, expected, sentence=ruled, score=score)


@thorough
@given(problem=problems(longest=9), score=SCORINGS, beams=st.integers(1, 6))
def test_finished_hypotheses_contain_their_phrases_without_overlap_as_whole_words(
    problem: Problem, score: Scoring, beams: int
) -> None:
    results = required(problem.task, problem.phrases, problem.edges, beams=beams, nbest=EVERYTHING, score=score)
    for hypotheses, required_phrases in zip(results, problem.phrases, strict=True):
        assert all(holds(words, required_phrases, problem.edges) for words in ends(hypotheses))


@thorough
@given(problem=problems(longest=9, impossible=False), score=SCORINGS, beams=st.integers(1, 6))
def test_with_room_for_a_gap_before_each_phrase_all_phrases_appear(
    problem: Problem, score: Scoring, beams: int
) -> None:
    """If phrases may start only after a gap, some token must be one: here 4, which is in no phrase."""
    required_phrases = [[phrase for phrase in row if 4 not in phrase] for row in problem.phrases]
    edges = Edges({4, MARKS.end}, {4})
    room = [
        max(maximum, size(row) + len(row) + 1)
        for maximum, row in zip(problem.task.maximum, required_phrases, strict=True)
    ]
    task = problem.task._replace(maximum=room, minimum=[0] * len(room))
    results = required(task, required_phrases, edges, beams=beams, nbest=EVERYTHING, score=score)
    for hypotheses, row in zip(results, required_phrases, strict=True):
        assert holds(hypotheses[0].tokens, row, edges)


@thorough
@given(problem=problems(longest=9, impossible=False), score=SCORINGS, beams=st.integers(1, 6))
def test_with_enough_room_the_best_hypothesis_contains_the_phrases(
    problem: Problem, score: Scoring, beams: int
) -> None:
    """Some hypothesis continues a phrase at every step, so all phrases are met after as many words as they have.

    It is among the results, and ranks before hypotheses that were cut with a phrase missing.
    """
    firsts = {phrase[0] for required_phrases in problem.phrases for phrase in required_phrases}
    edges = problem.edges._replace(follows=problem.edges.follows | firsts)
    room = [
        max(maximum, size(required_phrases) + 1)
        for maximum, required_phrases in zip(problem.task.maximum, problem.phrases, strict=True)
    ]
    task = problem.task._replace(maximum=room, minimum=[0] * len(room))
    results = required(task, problem.phrases, edges, beams=beams, nbest=EVERYTHING, score=score)
    for hypotheses, required_phrases in zip(results, problem.phrases, strict=True):
        assert any(holds(hypothesis.tokens, required_phrases, edges) for hypothesis in hypotheses)
        assert holds(hypotheses[0].tokens, required_phrases, edges)


def test_the_best_hypothesis_contains_its_phrase_even_if_the_end_is_unlikely() -> None:
    """Ending after the phrase costs more than many words without it, and must still be a candidate."""
    task = uniform(maximum=6, word4=-0.1, end=-3.0)
    (hypotheses,) = required(task, [[(3,)]], ANYWHERE, beams=4, nbest=1, score=Scoring())
    assert 3 in hypotheses[0].tokens


@thorough
@given(problem=problems(longest=8), score=SCORINGS, beams=st.integers(1, 6), nbest=st.integers(1, 6))
def test_a_sentence_without_phrases_is_searched_as_usual(
    problem: Problem, score: Scoring, beams: int, nbest: int
) -> None:
    assume([] in problem.phrases)
    results = required(problem.task, problem.phrases, problem.edges, beams=beams, nbest=nbest, score=score)
    plain = search(problem.task, beams=beams, nbest=nbest, score=score)
    for hypotheses, expected, required_phrases in zip(results, plain, problem.phrases, strict=True):
        if not required_phrases:
            assert hypotheses == expected


@thorough
@given(problem=problems(longest=9, impossible=False), beams=st.integers(1, 6))
def test_where_there_is_no_room_everything_is_cut(problem: Problem, beams: int) -> None:
    results = required(problem.task, problem.phrases, problem.edges, beams=beams, nbest=beams, score=Scoring(0.6))
    for hypotheses, required_phrases, maximum in zip(results, problem.phrases, problem.task.maximum, strict=True):
        if maximum <= size(required_phrases):  # including the end mark
            assert all(hypothesis.cut and len(hypothesis.tokens) == maximum - 1 for hypothesis in hypotheses)
            assert all(hypothesis.missing_phrase for hypothesis in hypotheses)


def uniform(*, maximum: int, **words: float) -> Task:
    """One sentence with constant log-probabilities, −1 unless given: `end=−0.1` sets the end mark's."""
    tables = torch.full((1, VOCABULARY, VOCABULARY, VOCABULARY), -1.0, dtype=torch.float64)
    for name, value in words.items():
        tables[..., MARKS.end if name == "end" else int(name.removeprefix("word"))] = value
    return Task(tables, [maximum], [0], torch.zeros(1, VOCABULARY, VOCABULARY, 1), [1])


@pytest.mark.parametrize(
    ("required_phrases", "best"),
    [
        ([(3,)], (3,)),
        ([(3,), (3,)], (3, 3)),
        ([(3, 1), (3, 1)], (3, 1, 3, 1)),
        ([(3, 1), (3, 4)], (3, 1, 3, 4)),
        ([(3,), (3, 4)], (3, 3, 4)),
        ([(3, 4), (3,)], (3, 4, 3)),
        ([(1, 3), (3, 4)], (1, 3, 3, 4)),
        ([(1, 3, 4), (1,)], (1, 3, 4, 1)),
    ],
)
@pytest.mark.parametrize("beams", [1, 2, 5, 20])
def test_duplicate_and_overlapping_phrases_each_appear_once(
    required_phrases: PhraseList, best: Words, beams: int
) -> None:
    (hypotheses,) = required(
        uniform(maximum=8, end=-0.1), [required_phrases], ANYWHERE, beams=beams, nbest=1, score=Scoring()
    )
    assert (hypotheses[0].cut, len(matched(hypotheses[0].tokens, required_phrases).met)) == (
        False,
        len(required_phrases),
    )
    assert len(hypotheses[0].tokens) == size(required_phrases)
    assert (
        hypotheses[0].tokens == best or len(set(required_phrases)) == len(required_phrases) > 1
    )  # phrases may swap places


@pytest.mark.parametrize(
    ("required_phrases", "words", "met"),
    [
        ([(3, 3, 4)], (3, 3, 3, 4), {0}),
        ([(3, 4, 3, 1)], (3, 4, 3, 4, 3, 1), {0}),
        ([(3, 1), (3, 4)], (3, 4), {1}),
        ([(1, 3, 4), (3, 1)], (1, 3, 1), {1}),
        ([(3, 3, 4), (3, 3, 4)], (3, 3, 4, 3, 3, 4), {0, 1}),
        ([(3, 3), (3, 3)], (3, 3, 3), {0}),
    ],
)
def test_a_phrase_is_matched_wherever_it_starts(required_phrases: PhraseList, words: Words, met: set[int]) -> None:
    """Also inside a partial match of another phrase, or of itself; no word counts for two phrases."""
    assert matched(words, required_phrases, exact=False).met == met
    expansion = Required(1, [required_phrases], follows=EVERY, opens=EVERY)
    memory: Phrases = expansion.start(torch.ones(1, dtype=torch.long))
    progress = memory.progress
    for word in words:
        progress = advance(progress, torch.tensor([[word]]), memory)
    assert {place for place, is_met in enumerate(progress.met[0, 0].tolist()) if is_met} == met


def test_a_phrase_that_the_model_produces_by_itself_is_not_repeated() -> None:
    """It produces "3 3 3 4" and the end; the required phrase "3 3 4" is in it."""
    task = uniform(maximum=9, end=-0.1)
    tables = torch.full_like(task.tables, -4.0)
    start, end = MARKS.start, MARKS.end
    for first, second, third in ((start, start, 3), (start, 3, 3), (3, 3, 3), (3, 4, end)):
        tables[0, first, second, third] = -0.1
    tables[0, 3, 3, 4] = -0.2
    (hypotheses,) = required(
        task._replace(tables=tables, minimum=[5]), [[(3, 3, 4)]], ANYWHERE, beams=5, nbest=1, score=Scoring()
    )
    assert hypotheses[0].tokens == (3, 3, 3, 4)


def test_tokens_that_continue_the_last_word_of_a_phrase_do_not_follow_it() -> None:
    task = uniform(maximum=4, word3=-5.0, word4=-0.1)._replace(minimum=[4])
    task.tables[0, MARKS.start, MARKS.start, 3] = -0.1  # the phrase comes first
    for follows, best in (({1, 3, 4}, (3, 4, 4)), ({1, 3}, (3, 1, 4)), ({1}, (3, 1, 4))):
        (hypotheses,) = required(
            task, [[(3,)]], Edges({*follows, MARKS.end}, set(WORDS)), beams=20, nbest=1, score=Scoring()
        )
        assert hypotheses[0].tokens == best


@thorough
@given(problem=problems(longest=6), known=st.integers(0, VOCABULARY), beams=st.integers(1, 4))
def test_tokens_beyond_the_known_vocabulary_may_follow_a_phrase(problem: Problem, known: int, beams: int) -> None:
    """A copying model's vocabulary is larger than `follows`."""
    short = required(problem.task, problem.phrases, problem.edges, beams=beams, nbest=3, score=Scoring(), known=known)
    beyond = Edges(*({*side, *range(known, VOCABULARY)} for side in problem.edges))
    assert short == required(problem.task, problem.phrases, beyond, beams=beams, nbest=3, score=Scoring())


@thorough
@given(
    sentences=st.lists(
        st.tuples(
            st.lists(phrases, max_size=4),
            st.lists(st.lists(st.sampled_from(WORDS), min_size=12, max_size=12), min_size=2, max_size=2),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_advance_is_the_plain_matcher(sentences: list[tuple[PhraseList, list[list[int]]]]) -> None:
    """Two hypotheses per sentence, word by word."""
    expansion = Required(2, [required_phrases for required_phrases, _ in sentences], follows=EVERY, opens=EVERY)
    memory: Phrases = expansion.start(torch.ones(len(sentences), dtype=torch.long))
    progress = Progress(*(torch.cat([part, part], dim=1) for part in memory.progress))
    words = torch.tensor([rows for _, rows in sentences])  # [B,2,T]
    for length in range(words.shape[2] + 1):
        for number, (required_phrases, rows) in enumerate(sentences):
            for beam, row in enumerate(rows):
                expected = matched(row[:length], required_phrases, exact=False)
                met, active, length_matched, complete, _ = (part[number, beam].tolist() for part in progress)
                assert {place for place in range(len(required_phrases)) if met[place]} == expected.met
                assert all(met[len(required_phrases) :])
                assert (active, length_matched) == (
                    NONE if expected.active is None else expected.active,
                    expected.length,
                )
                assert complete == expected.complete
        if length < words.shape[2]:
            progress = advance(progress, words[..., length], memory)


@thorough
@given(
    words=st.lists(st.sampled_from(WORDS), max_size=9).map(tuple),
    required_phrases=st.lists(phrases, max_size=4),
    follows=st.sets(st.sampled_from(WORDS)),
    opens=st.sets(st.sampled_from(WORDS)),
)
def test_all_present_is_an_exhaustive_search_for_places(
    words: Words, required_phrases: PhraseList, follows: set[int], opens: set[int]
) -> None:
    edges = phrase_matching.WordBoundaries(follows.__contains__, opens.__contains__)
    assert phrase_matching.all_present(words, required_phrases, boundaries=edges) == holds(
        words, required_phrases, Edges(follows, opens)
    )


@pytest.mark.parametrize(
    ("required_phrases", "shares"),
    [
        ([(3,), (3, 1)], True),
        ([(3, 1), (1, 4)], True),
        ([(3, 1, 4), (1,)], True),
        ([(3, 3), (3, 3)], False),
        ([(3, 1), (4,)], False),
        ([], False),
    ],
)
def test_phrases_that_can_overlap(required_phrases: PhraseList, shares: bool) -> None:
    assert phrase_matching.can_share(required_phrases) == shares


@pytest.mark.parametrize("required_phrases", [[(3,), (3, 1)], [(3, 1), (3,)], [(3,), (1, 3), (3, 1)]])
def test_a_hypothesis_may_end_if_any_assignment_of_words_covers_all_phrases(required_phrases: PhraseList) -> None:
    """The model produces "3 1 3" ("3 1 3 1 3") and the end; greedily, "3" is met first and "3 1" is not."""
    words = (3, 1, 3) if len(required_phrases) == 2 else (3, 1, 3, 1, 3)
    task = uniform(maximum=9, end=-4.0)
    tables = torch.full_like(task.tables, -6.0)
    history = (MARKS.start, MARKS.start, *words)
    for first, second, third in zip(history, history[1:], history[2:], strict=False):
        tables[0, first, second, third] = -0.1
    tables[0, words[-2], words[-1], MARKS.end] = -0.05
    (hypotheses,) = required(
        task._replace(tables=tables), [required_phrases], ANYWHERE, beams=8, nbest=1, score=Scoring()
    )
    assert (hypotheses[0].tokens, hypotheses[0].cut) == (words, False)


def test_a_phrase_starts_at_a_word_boundary() -> None:
    """After 4, or anywhere if its first token starts a word; 1 is a letter, 3 the first letter of the phrase."""
    task = uniform(maximum=5, word1=-0.1, word4=-0.5, word3=-3.0, end=-0.2)._replace(minimum=[3])
    task.tables[0, MARKS.start, MARKS.start, 3] = -9.0  # not at the beginning
    for edges, best in (
        (Edges({4, MARKS.end}, {4}), (4, 3)),
        (Edges({3, 4, MARKS.end}, set()), (1, 3)),
        (Edges({4, MARKS.end}, {1, 4}), (1, 3)),
    ):
        (hypotheses,) = required(task, [[(3,)]], edges, beams=20, nbest=1, score=Scoring())
        assert hypotheses[0].tokens == best


def test_duplicate_candidates_count_once() -> None:
    """Candidates that are not tokens never count; ties go to the lower index."""
    values = torch.tensor([[0.5, 0.1, 0.5, 0.9]])
    indices = torch.tensor([[3, 2, 3, 0, 2, 1]])
    is_token = torch.tensor([[True, True, True, True, True, False]])
    deduplicated, order = _deduplicate(values, indices, is_token=is_token)
    assert order[0, :3].tolist() == [3, 0, 2]
    assert deduplicated[0, :3].tolist() == pytest.approx([0.9, 0.5, 0.5])
    assert deduplicated[0, 3:].tolist() == [-torch.inf] * 3


def test_in_a_model_of_characters_a_longer_word_comes_only_after_the_phrase() -> None:
    """As docs/search.md says: the model prefers "ab a", but with "a" required the first "a" is the phrase."""
    a, b, space = WORDS
    preferred = [a, b, space, a, MARKS.end]

    def step(_last: torch.Tensor, length: torch.Tensor, _context: None) -> tuple[StepOutput, torch.Tensor]:
        tokens = torch.tensor([*preferred, MARKS.end])[length.clamp(max=len(preferred))]
        probs = torch.full((len(length), VOCABULARY), 0.02).scatter_(1, tokens[:, None], 0.92)
        return StepOutput(probs.log()), length + 1

    def best(expansion: BestK | Required) -> list[int]:
        ((first, *_),) = beam_search(
            step,
            torch.zeros(1, dtype=torch.long),
            None,
            expansion=expansion,
            goal=Goal(Scoring(), 1),
            limits=Limits(maximum=torch.tensor([8]), minimum=torch.tensor([1])),
            marks=MARKS,
            source_lengths=torch.tensor([3]),
        )
        return list(first.tokens)

    assert best(BestK(8)) == preferred[:-1]
    ends = torch.tensor([token in (space, MARKS.end) for token in range(VOCABULARY)])
    found = best(Required(8, [[(a,)]], follows=ends, opens=ends))
    assert holds(tuple(found), [(a,)], Edges({space, MARKS.end}, {space}))
    assert found[:2] != [a, b]
