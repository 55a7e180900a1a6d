"""The combinations that are held out for the test set, and corpora with that split.

A meaning contains combinations: a verb with its object, place, goal, company or manner; an adjective with its noun; two
clauses with their connective. A stable hash of each combination determines whether it is held out. Training and
validation sentences contain no held-out combination; every test sentence contains at least one. If the corpus is large
enough, all words of the test sentences occur in training.
"""

from collections.abc import Iterator
from functools import cache
from itertools import islice, repeat
from random import Random
from typing import NamedTuple
from zlib import crc32

from calque_phrasebook.alignment import Link, align
from calque_phrasebook.grammar.sentences import draw
from calque_phrasebook.meaning import (
    Aching,
    Action,
    Born,
    Clause,
    Climate,
    Command,
    Comparison,
    Described,
    Existence,
    Falling,
    Linked,
    Located,
    Measured,
    Named,
    Nominal,
    NounPhrase,
    Occupation,
    Origin,
    Predicate,
    Presentation,
    Pronoun,
    Quality,
    Question,
    Report,
    Sentence,
    Spot,
    Statement,
    Suggestion,
    Weather,
)  # fmt: skip
from calque_phrasebook.realisation.words import Word
from calque_phrasebook.surface import Language, join, realise, segment

HELD_OUT_PERCENT = 9
COMMON = 5  # a word of a test sentence occurs in training at least this often, if the corpus is large enough
PATIENCE = 40  # draws per test sentence before rarer words are accepted


class Pair(NamedTuple):
    """A sentence, its translation and their word alignment.

    `source_words` and `target_words` are the words between white space or, in Chinese, which is written without spaces,
    the words of the grammar; `links` count them from 0.
    """

    source: str
    target: str
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    links: tuple[Link, ...]


class Phrasebook(NamedTuple):
    """Aligned sentences: train and valid have the same distribution, test has combinations that neither contains."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]


@cache
def held_out(combination: tuple[str, ...]) -> bool:
    """Returns whether a combination is held out for the test set; the answer is the same in every process."""
    return crc32("|".join(combination).encode()) % 100 < HELD_OUT_PERCENT


def is_test(meaning: Sentence) -> bool:
    """Returns whether a meaning contains a held-out combination."""
    return any(held_out(combination) for combination in combinations(meaning))


# --- the combinations of a meaning ----------------------------------------------------------------------------------


def combinations(meaning: Sentence) -> Iterator[tuple[str, ...]]:
    """Yields the combinations of words and of clauses that a meaning contains."""
    match meaning:
        case Statement(clause) | Question(clause):
            yield from _in_clause(clause)
        case Command(action) | Suggestion(action):
            yield from _in_action(action)
        case Linked(connective, first, second):
            yield connective, _shape(first), _shape(second)
            yield from _in_clause(first)
            yield from _in_clause(second)
        case Report(_, verb, clause):
            yield "report", verb.key, _shape(clause)
            yield from _in_clause(clause)
        case Existence(where, thing):
            yield "existence", _place(where), thing.noun.key
            yield from _in_phrase(thing)
        case Presentation(thing):
            yield from _in_phrase(thing)


def _in_clause(clause: Clause) -> Iterator[tuple[str, ...]]:
    if isinstance(clause.subject, Described):
        yield from _in_relative(clause.subject)
    match clause.predicate:
        case Action() as action:
            yield from _in_action(action)
        case predicate:
            yield from _in_state(predicate, clause)


def _in_relative(described: Described) -> Iterator[tuple[str, ...]]:
    action = described.clause.predicate
    assert isinstance(action, Action)
    yield "object", action.verb.key, described.noun.key


def _in_state(predicate: Predicate, clause: Clause) -> Iterator[tuple[str, ...]]:
    subject = _head(clause.subject)
    match predicate:
        case Quality(adjective):
            yield "quality", adjective.key, subject
        case Comparison(adjective, standard):
            yield "quality", adjective.key, subject
            yield "comparison", adjective.key, _head(standard)
        case Occupation(noun):
            yield "occupation", noun.key, subject
        case Located(where):
            yield "located", _place(where), subject
        case Origin(where):
            yield "origin", where.key, subject
        case Born(when):
            yield "born", when.key, subject
        case Aching(part):
            yield "aching", part.key, subject
        case Falling(what, where):
            yield "falling", what.key, where.key
        case Climate(adjective, where):
            yield "climate", adjective.key, where.key
        case Weather(adjective, where):
            yield "weather", adjective.key, where.key if where else "here"


def _in_action(action: Action) -> Iterator[tuple[str, ...]]:
    verb = action.verb.key
    if action.object:
        yield "object", verb, _head(action.object)
        yield from _in_phrase(action.object)
    if action.recipient:
        yield "recipient", verb, _head(action.recipient)
    if action.companion:
        yield "companion", verb, _head(action.companion)
    if action.place:
        yield "place", verb, action.place.key
    if action.goal:
        yield "goal", verb, _place(action.goal)
    if action.vehicle and action.goal:
        yield "vehicle", action.vehicle.key, _place(action.goal)
    if action.duration:
        yield "duration", verb, action.duration.number.key, action.duration.unit.key
    if action.manner:
        yield "manner", verb, action.manner.key
    if action.purpose and action.goal:
        yield from _in_action(action.purpose)
        yield "errand", _place(action.goal), _head(action.purpose.object)


def _in_phrase(phrase: NounPhrase) -> Iterator[tuple[str, ...]]:
    if isinstance(phrase, Nominal) and phrase.quality:
        yield "quality", phrase.quality.key, phrase.noun.key


def _head(phrase: NounPhrase | None) -> str:
    match phrase:
        case Pronoun(person):
            return person.key
        case Named(name):
            return name.key
        case Nominal(noun) | Described(noun):
            return noun.key
        case Measured(_, _, stuff):
            return stuff.key
    return type(phrase).__name__


def _place(where: object) -> str:
    if isinstance(where, Spot):
        return where.relation.key + " " + where.noun.key
    return str(getattr(where, "key", where))


def _shape(clause: Clause) -> str:
    """Returns the type of a clause as text: its kind of predicate, tense, modal verb, verb of state, and polarity."""
    verb = clause.predicate.verb.key if isinstance(clause.predicate, Action) and clause.tense == "state" else ""
    modal = clause.modal.key if clause.modal else ""
    return " ".join((type(clause.predicate).__name__, clause.tense, modal, verb, "not" if clause.negative else ""))


# --- corpora --------------------------------------------------------------------------------------------------------


def phrasebook(*, source: Language, target: Language, pairs: int, seed: int = 0) -> Phrasebook:
    """Returns a corpus with `pairs` training pairs, and a twentieth of that (50 to 1000) each for validation and test.

    A pure function of its arguments: the same on every machine. All pairs are distinct, and so are all sources.
    """
    random = Random(seed)
    size = min(1000, max(50, pairs // 20))
    seen: set[str] = set()
    known: _Counts = ({}, {})
    ordinary = _balanced(_drawn(random, seen, source=source, target=target, tested=False), known)
    train = [_pair(drawn, source=source, target=target) for drawn in islice(ordinary, pairs)]
    trained = (dict(known[0]), dict(known[1]))
    valid = [_pair(drawn, source=source, target=target) for drawn in islice(ordinary, size)]
    unusual = _drawn(random, seen, source=source, target=target, tested=True)
    test = [_pair(drawn, source=source, target=target) for drawn in _with_known_words(unusual, trained, size)]
    return Phrasebook(train, valid, test)


_Counts = tuple[dict[str, int], dict[str, int]]  # of words and marks, in source and target language


class _Drawn(NamedTuple):
    """A randomly drawn meaning, as its words in both languages."""

    source: list[Word]
    target: list[Word]
    texts: tuple[list[str], list[str]]


def _drawn(random: Random, seen: set[str], *, source: Language, target: Language, tested: bool) -> Iterator[_Drawn]:
    """Yields new random meanings: only those with held-out combinations if `tested`, otherwise only others."""
    while True:
        meaning = draw(random)
        if is_test(meaning) is not tested:
            continue
        source_words = realise(meaning, language=source)
        source_texts = [word.text for word in source_words]
        key = " ".join(source_texts)
        if key not in seen:
            seen.add(key)
            target_words = realise(meaning, language=target)
            yield _Drawn(source_words, target_words, (source_texts, [word.text for word in target_words]))


def _balanced(drawn: Iterator[_Drawn], known: _Counts) -> Iterator[_Drawn]:
    """Yields, of every two sentences, the one whose rarest word was yielded less often so far, as `known` counts."""
    for first, second in zip(drawn, drawn, strict=False):
        chosen = first if _rarest(first, known) <= _rarest(second, known) else second
        for tokens, counts in zip(chosen.texts, known, strict=True):
            for token in tokens:
                counts[token] = counts.get(token, 0) + 1
        yield chosen


def _rarest(drawn: _Drawn, known: _Counts) -> int:
    """Returns how often the rarest word of a sentence pair, in either language, has occurred so far."""
    return min(
        min(map(known[0].get, drawn.texts[0], repeat(0))),
        min(map(known[1].get, drawn.texts[1], repeat(0))),
    )


def _with_known_words(drawn: Iterator[_Drawn], known: _Counts, size: int) -> Iterator[_Drawn]:
    """Yields `size` sentences whose words are common in training; if there are too few, others are added."""
    yielded, spare = 0, list[_Drawn]()
    for candidate in islice(drawn, size * PATIENCE):
        if _rarest(candidate, known) < COMMON:
            spare.append(candidate)
            continue
        yield candidate
        yielded += 1
        if yielded == size:
            return
    yield from spare[: size - yielded]


def _pair(drawn: _Drawn, *, source: Language, target: Language) -> Pair:
    source_texts, target_texts = drawn.texts
    return Pair(
        source=join(source_texts, language=source),
        target=join(target_texts, language=target),
        source_words=tuple(segment(source_texts, language=source)),
        target_words=tuple(segment(target_texts, language=target)),
        links=align(drawn.source, drawn.target),
    )
