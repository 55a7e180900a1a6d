"""Phrases that must appear: against full enumeration, a beam allocation of plain lists, and a second matcher."""

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
    patient,
    rank,
    same,
    search,
    start,
    tasks,
    trigram,
    wide,
)
from tests.laws.test_oracle import allowed as may_come
from tests.unit.search.test_constraints import Rule, Ruled, Words

from calque.search import phrase_matching
from calque.search.beam import Goal, beam_search
from calque.search.required_phrases import NONE, Phrases, Progress, Required, _once, advance
from calque.search.scoring import Scoring
from calque.search.step import Hypothesis

EVERYTHING = 500
EVERY = torch.ones(VOCABULARY, dtype=torch.bool)
Said = list[Words]  # a sentence's phrases

phrases = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(tuple)


class Edges(NamedTuple):
    """Tokens that begin apart from what stands before them, and tokens after which everything begins apart."""

    follows: set[int]
    opens: set[int]

    def begins_at(self, words: Sequence[int], place: int) -> bool:
        return place == 0 or words[place] in self.follows or words[place - 1] in self.opens


ANYWHERE = Edges({*WORDS, MARKS.end}, {*WORDS})


class Match(NamedTuple):
    """How far a sequence is with its phrases."""

    met: frozenset[int]
    active: int | None
    said: int
    complete: bool


def matched(words: Sequence[int], phrases: Said, edges: Edges = ANYWHERE, *, otherwise: bool = True) -> Match:
    """Word after word: the phrase still missing of which most was said since one was complete, the first of such.

    If they are all there when words are counted `otherwise`, they are.
    """
    met: set[int] = set()
    since, active, said, complete = 0, None, 0, False
    for end in range(1, len(words) + 1):
        sizes = [
            (size, -number)
            for number, phrase in enumerate(phrases)
            for size in range(1, min(len(phrase), end - since) + 1)
            if number not in met and tuple(words[end - size : end]) == phrase[:size]
            if edges.begins_at(words, end - size)
        ]
        said, number = max(sizes, default=(0, 0))
        active = -number if sizes else None
        complete = active is not None and said == len(phrases[active])
        if complete:
            met.add(active)
        if otherwise and len(met) < len(phrases) and holds(tuple(words[:end]), phrases, edges):
            met, complete = set(range(len(phrases))), True
        if complete:
            since, active, said = end, None, 0
    return Match(frozenset(met), active, said, complete)


def size(phrases: Said) -> int:
    return sum(map(len, phrases))


def bank(words: Sequence[int], phrases: Said, edges: Edges = ANYWHERE, *, grown: bool = False) -> int:
    """Twice how many words of phrases it has said, and 1 if it can go on with one.

    What has just `grown` is looked at again only if it is kept.
    """
    match = matched(words, phrases, edges)
    if grown:
        before, now = matched(words[:-1], phrases, edges), matched(words, phrases, edges, otherwise=False)
        match = match if len(before.met) == len(phrases) else now
    said = sum(len(phrases[number]) for number in match.met) + match.said
    return 2 * said + (not waits(words, match, phrases, edges))


def waits(words: Sequence[int], match: Match, phrases: Said, edges: Edges) -> bool:
    """Whether some phrase is missing and none may begin there."""
    missing = [phrase for number, phrase in enumerate(phrases) if number not in match.met]
    if not missing or match.active is not None:
        return False
    return not any(edges.begins_at((*words, phrase[0]), len(words)) for phrase in missing)


def allowed(phrases: Said, edges: Edges) -> Rule:
    """No end before all is said, and after a phrase only what follows."""

    def may(tokens: Words) -> bool:
        for place, token in enumerate(tokens):
            before = matched(tokens[:place], phrases, edges)
            early = token == MARKS.end and len(before.met) < len(phrases)
            if early or (before.complete and token not in edges.follows):
                return False
        return True

    return may


def holds(words: Words, phrases: Said, edges: Edges, *, taken: frozenset[int] = frozenset()) -> bool:
    """Whether the phrases stand in it apart from each other, each from where a word begins to where one may follow.

    One phrase after the other, at every place that no other has.
    """
    if not phrases:
        return True
    first, *rest = phrases
    for place in range(len(words) - len(first) + 1):
        after = place + len(first)
        own = {*range(place, after)}
        if words[place:after] == first and not own & taken and edges.begins_at(words, place):
            is_apart = after == len(words) or words[after] in edges.follows
            if is_apart and holds(words, rest, edges, taken=taken | own):
                return True
    return False


def plain_required(
    sentence: Ruled, phrases: Said, edges: Edges, *, beams: int, nbest: int, score: Scoring
) -> list[Hypothesis]:
    """Dynamic beam allocation of one sentence in lists, always to its maximum length."""
    live: list[Words] = [()]
    ended: list[Words] = []
    for length in range(1, sentence.maximum + 1):
        was = live
        grown = [tokens for before in live for tokens in grow(sentence, before, length)]
        grown.sort(key=lambda tokens: -sentence.totals(tokens)[-1])
        looked_at = {*grown[: 2 * beams]}
        for before in live:
            match = matched(before, phrases, edges)
            missing = [phrase[0] for number, phrase in enumerate(phrases) if number not in match.met]
            nexts = {token for token in missing if edges.begins_at((*before, token), len(before))}
            nexts |= {phrases[match.active][match.said]} if match.active is not None else set()
            mine = [tokens for tokens in grown if tokens[:-1] == before]
            if waits(before, match, phrases, edges):
                looked_at |= {*[tokens for tokens in mine if tokens[-1] in edges.opens][:1]}
            looked_at |= {*mine[:1], *(tokens for tokens in mine if tokens[-1] in {*nexts, MARKS.end})}
        candidates = [tokens for tokens in grown if tokens in looked_at]
        banks = [bank(tokens, phrases, edges, grown=True) for tokens in candidates]
        turns = {tokens: (banks[:n].count(banks[n]), -banks[n]) for n, tokens in enumerate(candidates)}
        ended += [tokens for tokens in candidates if tokens[-1] == MARKS.end and turns[tokens][0] < beams]
        going = [tokens for tokens in candidates if tokens[-1] != MARKS.end]
        kept = sorted(going, key=turns.__getitem__)[:beams]
        live = [tokens for tokens in going if tokens in kept]
    cut = [tokens for tokens in was if (*tokens, MARKS.end) not in ended]
    return lacking_last(answers(sentence, ended=ended, cut=cut, score=score), phrases, edges)[:nbest]


def grow(sentence: Ruled, before: Words, length: int) -> list[Words]:
    tokens = may_come(sentence, length)
    return [(*before, token) for token in tokens if sentence.totals((*before, token))[-1] > IMPOSSIBLE]


def answers(sentence: Ruled, *, ended: list[Words], cut: list[Words], score: Scoring) -> list[Hypothesis]:
    found = []
    for group, is_cut in ((ended, False), (cut, True)):
        scored = [(rank(sentence, tokens, score), sentence.totals(tokens)[-1], tokens) for tokens in group]
        ordered = sorted(scored, key=lambda each: -each[0])
        found += [Hypothesis(tokens if is_cut else tokens[:-1], *rest, cut=is_cut) for *rest, tokens in ordered]
    return found


def lacking_last(found: list[Hypothesis], phrases: Said, edges: Edges) -> list[Hypothesis]:
    """What was cut with a phrase missing, behind what was cut with none missing."""
    told = [
        each._replace(missing_phrase=each.cut and len(matched(each.tokens, phrases, edges).met) < len(phrases))
        for each in found
    ]
    return sorted(told, key=lambda each: each.missing_phrase)


def required(
    task: Task, asked: list[Said], edges: Edges, *, beams: int, nbest: int, score: Scoring, known: int = VOCABULARY
) -> list[list[Hypothesis]]:
    follows, opens = (torch.tensor([token in side for token in range(known)], dtype=torch.bool) for side in edges)
    return beam_search(
        trigram,
        start(task),
        (task.tables, task.looks),
        expansion=Required(beams, asked, follows=follows, opens=opens),
        goal=Goal(score, nbest),
        limits=task.limits,
        marks=MARKS,
        source_lengths=torch.tensor(task.sources),
    )


class Asked(NamedTuple):
    """A task, the phrases of each of its sentences, and where phrases may begin and end: always at the text's end."""

    task: Task
    phrases: list[Said]
    edges: Edges

    @property
    def ruled(self) -> list[Ruled]:
        sentences: list[Sentence] = self.task.sentences
        return [
            Ruled(sentence, allowed(phrases, self.edges))
            for sentence, phrases in zip(sentences, self.phrases, strict=True)
        ]


@st.composite
def asked(draw: Callable, *, longest: int, sentences: int = 4, most: int = 3, impossible: bool = True) -> Asked:
    """Some sentences want nothing; phrases share words, come twice, are one word."""
    task = draw(tasks(longest=longest, sentences=sentences, impossible=impossible))
    count = len(task.maximum)
    some = st.lists(phrases, max_size=most)
    twice = phrases.map(lambda phrase: [phrase, phrase])
    within = phrases.map(lambda phrase: [phrase[:1], phrase, phrase[-1:]][: most + 1])
    wanted = draw(st.lists(some | twice | within | st.just([]), min_size=count, max_size=count))
    some_tokens = st.sets(st.sampled_from(WORDS)) | st.just(set(WORDS))
    return Asked(task, wanted, Edges({*draw(some_tokens), MARKS.end}, draw(some_tokens)))


def ends(found: list[Hypothesis]) -> list[Words]:
    return [each.tokens for each in found if not each.cut]


@patient
@given(ask=asked(longest=4, sentences=3), score=SCORINGS, nbest=st.sampled_from([1, 2, EVERYTHING]))
def test_a_wide_beam_is_full_enumeration_of_what_says_its_phrases(ask: Asked, score: Scoring, nbest: int) -> None:
    found = required(ask.task, ask.phrases, ask.edges, beams=wide(4), nbest=nbest, score=score)
    for hypotheses, ruled, wanted in zip(found, ask.ruled, ask.phrases, strict=True):
        everything = lacking_last(enumerate_all(ruled, nbest=EVERYTHING, score=score), wanted, ask.edges)
        same(hypotheses, everything[:nbest], sentence=ruled, score=score)


@patient
@given(ask=asked(longest=8), score=SCORINGS, beams=st.integers(1, 6), nbest=st.sampled_from([1, 3, EVERYTHING]))
def test_a_batch_is_the_plain_allocation_of_each_sentence(ask: Asked, score: Scoring, beams: int, nbest: int) -> None:
    found = required(ask.task, ask.phrases, ask.edges, beams=beams, nbest=nbest, score=score)
    for hypotheses, ruled, wanted in zip(found, ask.ruled, ask.phrases, strict=True):
        expected = plain_required(ruled, wanted, ask.edges, beams=beams, nbest=nbest, score=score)
        same(hypotheses, expected, sentence=ruled, score=score)


@patient
@given(ask=asked(longest=9), score=SCORINGS, beams=st.integers(1, 6))
def test_nothing_ends_before_it_has_said_its_phrases_apart_and_as_whole_words(
    ask: Asked, score: Scoring, beams: int
) -> None:
    found = required(ask.task, ask.phrases, ask.edges, beams=beams, nbest=EVERYTHING, score=score)
    for hypotheses, wanted in zip(found, ask.phrases, strict=True):
        assert all(holds(words, wanted, ask.edges) for words in ends(hypotheses))


@patient
@given(ask=asked(longest=9, impossible=False), score=SCORINGS, beams=st.integers(1, 6))
def test_with_room_for_a_gap_before_each_they_are_too(ask: Asked, score: Scoring, beams: int) -> None:
    """Where phrases begin only behind a gap, some token has to be one: here 4, which is in no phrase."""
    wanted = [[phrase for phrase in row if 4 not in phrase] for row in ask.phrases]
    edges = Edges({4, MARKS.end}, {4})
    room = [max(maximum, size(row) + len(row) + 1) for maximum, row in zip(ask.task.maximum, wanted, strict=True)]
    task = ask.task._replace(maximum=room, minimum=[0] * len(room))
    found = required(task, wanted, edges, beams=beams, nbest=EVERYTHING, score=score)
    for hypotheses, row in zip(found, wanted, strict=True):
        assert holds(hypotheses[0].tokens, row, edges)


@patient
@given(ask=asked(longest=9, impossible=False), score=SCORINGS, beams=st.integers(1, 6))
def test_with_room_for_them_the_phrases_are_in_the_best_answer(ask: Asked, score: Scoring, beams: int) -> None:
    """Something has gone on with a phrase at every step, so all is said after as many words as the phrases have.

    That is among the answers, and it stands before those that were cut with a phrase still missing.
    """
    firsts = {phrase[0] for wanted in ask.phrases for phrase in wanted}
    edges = ask.edges._replace(follows=ask.edges.follows | firsts)
    room = [max(maximum, size(wanted) + 1) for maximum, wanted in zip(ask.task.maximum, ask.phrases, strict=True)]
    task = ask.task._replace(maximum=room, minimum=[0] * len(room))
    found = required(task, ask.phrases, edges, beams=beams, nbest=EVERYTHING, score=score)
    for hypotheses, wanted in zip(found, ask.phrases, strict=True):
        assert any(holds(each.tokens, wanted, edges) for each in hypotheses)
        assert holds(hypotheses[0].tokens, wanted, edges)


def test_the_best_answer_says_its_phrase_where_the_end_is_unlikely() -> None:
    """The end of what has said the phrase costs more than many words without it, and is still to be looked at."""
    task = uniform(maximum=6, word4=-0.1, end=-3.0)
    (found,) = required(task, [[(3,)]], ANYWHERE, beams=4, nbest=1, score=Scoring())
    assert 3 in found[0].tokens


@patient
@given(ask=asked(longest=8), score=SCORINGS, beams=st.integers(1, 6), nbest=st.integers(1, 6))
def test_a_sentence_without_phrases_is_searched_as_ever(ask: Asked, score: Scoring, beams: int, nbest: int) -> None:
    assume([] in ask.phrases)
    found = required(ask.task, ask.phrases, ask.edges, beams=beams, nbest=nbest, score=score)
    plain = search(ask.task, beams=beams, nbest=nbest, score=score)
    for one, other, wanted in zip(found, plain, ask.phrases, strict=True):
        if not wanted:
            assert one == other


@patient
@given(ask=asked(longest=9, impossible=False), beams=st.integers(1, 6))
def test_where_there_is_no_room_everything_is_cut(ask: Asked, beams: int) -> None:
    found = required(ask.task, ask.phrases, ask.edges, beams=beams, nbest=beams, score=Scoring(0.6))
    for hypotheses, wanted, maximum in zip(found, ask.phrases, ask.task.maximum, strict=True):
        if maximum <= size(wanted):  # the end counts
            assert all(each.cut and len(each.tokens) == maximum - 1 for each in hypotheses)
            assert all(each.missing_phrase for each in hypotheses)


def uniform(*, maximum: int, **words: float) -> Task:
    """One sentence whose words always cost the same: `end=−0.1` says that of the end."""
    tables = torch.full((1, VOCABULARY, VOCABULARY, VOCABULARY), -1.0, dtype=torch.float64)
    for name, value in words.items():
        tables[..., MARKS.end if name == "end" else int(name.removeprefix("word"))] = value
    return Task(tables, [maximum], [0], torch.zeros(1, VOCABULARY, VOCABULARY, 1), [1])


@pytest.mark.parametrize(
    ("wanted", "best"),
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
def test_phrases_alike_are_each_said_once(wanted: Said, best: Words, beams: int) -> None:
    (found,) = required(uniform(maximum=8, end=-0.1), [wanted], ANYWHERE, beams=beams, nbest=1, score=Scoring())
    assert (found[0].cut, len(matched(found[0].tokens, wanted).met)) == (False, len(wanted))
    assert len(found[0].tokens) == size(wanted)
    assert found[0].tokens == best or len(set(wanted)) == len(wanted) > 1  # whole phrases may change places


@pytest.mark.parametrize(
    ("wanted", "words", "met"),
    [
        ([(3, 3, 4)], (3, 3, 3, 4), {0}),
        ([(3, 4, 3, 1)], (3, 4, 3, 4, 3, 1), {0}),
        ([(3, 1), (3, 4)], (3, 4), {1}),
        ([(1, 3, 4), (3, 1)], (1, 3, 1), {1}),
        ([(3, 3, 4), (3, 3, 4)], (3, 3, 4, 3, 3, 4), {0, 1}),
        ([(3, 3), (3, 3)], (3, 3, 3), {0}),
    ],
)
def test_a_phrase_is_seen_wherever_it_begins(wanted: Said, words: Words, met: set[int]) -> None:
    """Also within what could have become another one, or itself; no word counts for two phrases."""
    assert matched(words, wanted, otherwise=False).met == met
    begun = Required(1, [wanted], follows=EVERY, opens=EVERY)
    memory: Phrases = begun.start(torch.ones(1, dtype=torch.long))
    progress = memory.progress
    for word in words:
        progress = advance(progress, torch.tensor([[word]]), memory)
    assert {place for place, is_met in enumerate(progress.met[0, 0].tolist()) if is_met} == met


def test_a_phrase_that_the_model_comes_to_by_itself_is_not_said_again() -> None:
    """It says "3 3 3 4" and wants to end; "3 3 4" is required and there."""
    task = uniform(maximum=9, end=-0.1)
    tables = torch.full_like(task.tables, -4.0)
    start, end = MARKS.start, MARKS.end
    for one, two, three in ((start, start, 3), (start, 3, 3), (3, 3, 3), (3, 4, end)):
        tables[0, one, two, three] = -0.1
    tables[0, 3, 3, 4] = -0.2
    (found,) = required(
        task._replace(tables=tables, minimum=[5]), [[(3, 3, 4)]], ANYWHERE, beams=5, nbest=1, score=Scoring()
    )
    assert found[0].tokens == (3, 3, 3, 4)


def test_what_would_go_on_with_a_phrases_last_word_does_not_come_after_it() -> None:
    task = uniform(maximum=4, word3=-5.0, word4=-0.1)._replace(minimum=[4])
    task.tables[0, MARKS.start, MARKS.start, 3] = -0.1  # the phrase is said at once
    for follows, best in (({1, 3, 4}, (3, 4, 4)), ({1, 3}, (3, 1, 4)), ({1}, (3, 1, 4))):
        (found,) = required(
            task, [[(3,)]], Edges({*follows, MARKS.end}, set(WORDS)), beams=20, nbest=1, score=Scoring()
        )
        assert found[0].tokens == best


@patient
@given(ask=asked(longest=6), known=st.integers(0, VOCABULARY), beams=st.integers(1, 4))
def test_tokens_beyond_those_known_may_follow_anything(ask: Asked, known: int, beams: int) -> None:
    """A copying model's vocabulary is longer than the one that `follows` knows."""
    short = required(ask.task, ask.phrases, ask.edges, beams=beams, nbest=3, score=Scoring(), known=known)
    beyond = Edges(*({*side, *range(known, VOCABULARY)} for side in ask.edges))
    assert short == required(ask.task, ask.phrases, beyond, beams=beams, nbest=3, score=Scoring())


@patient
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
def test_advance_is_the_plain_matcher(sentences: list[tuple[Said, list[list[int]]]]) -> None:
    """Two hypotheses for each sentence, word after word."""
    begun = Required(2, [wanted for wanted, _ in sentences], follows=EVERY, opens=EVERY)
    memory: Phrases = begun.start(torch.ones(len(sentences), dtype=torch.long))
    progress = Progress(*(torch.cat([part, part], dim=1) for part in memory.progress))
    words = torch.tensor([rows for _, rows in sentences])  # [B,2,T]
    for length in range(words.shape[2] + 1):
        for number, (wanted, rows) in enumerate(sentences):
            for beam, row in enumerate(rows):
                expected = matched(row[:length], wanted, otherwise=False)
                met, active, said, complete, _ = (part[number, beam].tolist() for part in progress)
                assert {place for place in range(len(wanted)) if met[place]} == expected.met
                assert all(met[len(wanted) :])
                assert (active, said) == (NONE if expected.active is None else expected.active, expected.said)
                assert complete == expected.complete
        if length < words.shape[2]:
            progress = advance(progress, words[..., length], memory)


@patient
@given(
    words=st.lists(st.sampled_from(WORDS), max_size=9).map(tuple),
    wanted=st.lists(phrases, max_size=4),
    follows=st.sets(st.sampled_from(WORDS)),
    opens=st.sets(st.sampled_from(WORDS)),
)
def test_all_said_is_whether_there_is_a_place_for_each(
    words: Words, wanted: Said, follows: set[int], opens: set[int]
) -> None:
    edges = phrase_matching.Edges(follows.__contains__, opens.__contains__)
    assert phrase_matching.all_said(words, wanted, edges=edges) == holds(words, wanted, Edges(follows, opens))


@pytest.mark.parametrize(
    ("wanted", "shares"),
    [
        ([(3,), (3, 1)], True),
        ([(3, 1), (1, 4)], True),
        ([(3, 1, 4), (1,)], True),
        ([(3, 3), (3, 3)], False),
        ([(3, 1), (4,)], False),
        ([], False),
    ],
)
def test_phrases_that_can_have_a_word_in_common(wanted: Said, shares: bool) -> None:
    assert phrase_matching.can_share(wanted) == shares


@pytest.mark.parametrize("wanted", [[(3,), (3, 1)], [(3, 1), (3,)], [(3,), (1, 3), (3, 1)]])
def test_what_has_all_its_phrases_may_end_however_words_are_counted(wanted: Said) -> None:
    """The model says "3 1 3" ("3 1 3 1 3") and wants to end; left to right, "3" is met first and "3 1" is not."""
    said = (3, 1, 3) if len(wanted) == 2 else (3, 1, 3, 1, 3)
    task = uniform(maximum=9, end=-4.0)
    tables = torch.full_like(task.tables, -6.0)
    history = (MARKS.start, MARKS.start, *said)
    for one, two, three in zip(history, history[1:], history[2:], strict=False):
        tables[0, one, two, three] = -0.1
    tables[0, said[-2], said[-1], MARKS.end] = -0.05
    (found,) = required(task._replace(tables=tables), [wanted], ANYWHERE, beams=8, nbest=1, score=Scoring())
    assert (found[0].tokens, found[0].cut) == (said, False)


def test_a_phrase_begins_where_a_word_does() -> None:
    """After 4, or by itself where its first word begins apart; 1 is a letter, 3 the first letter of the phrase."""
    task = uniform(maximum=5, word1=-0.1, word4=-0.5, word3=-3.0, end=-0.2)._replace(minimum=[3])
    task.tables[0, MARKS.start, MARKS.start, 3] = -9.0  # not at the beginning
    for edges, best in (
        (Edges({4, MARKS.end}, {4}), (4, 3)),
        (Edges({3, 4, MARKS.end}, set()), (1, 3)),
        (Edges({4, MARKS.end}, {1, 4}), (1, 3)),
    ):
        (found,) = required(task, [[(3,)]], edges, beams=20, nbest=1, score=Scoring())
        assert found[0].tokens == best


def test_a_candidate_that_is_named_twice_counts_once() -> None:
    """And one that is none never does; equal values go to the lower place."""
    values = torch.tensor([[0.5, 0.1, 0.5, 0.9]])
    places = torch.tensor([[3, 2, 3, 0, 2, 1]])
    is_token = torch.tensor([[True, True, True, True, True, False]])
    found, order = _once(values, places, is_token=is_token)
    assert order[0, :3].tolist() == [3, 0, 2]
    assert found[0, :3].tolist() == pytest.approx([0.9, 0.5, 0.5])
    assert found[0, 3:].tolist() == [-torch.inf] * 3
