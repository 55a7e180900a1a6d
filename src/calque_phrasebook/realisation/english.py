"""Expresses a meaning in English: do-support, third-person forms, articles, and times at the end."""

from collections.abc import Sequence
from typing import NamedTuple

from calque_phrasebook.lexicon.inflection import english_third
from calque_phrasebook.lexicon.lexemes import Precipitation, Verb
from calque_phrasebook.lexicon.verbs import COME
from calque_phrasebook.meaning import (
    Aching,
    Action,
    Aged,
    Born,
    Clause,
    Climate,
    ClockTime,
    Command,
    Comparison,
    Described,
    Existence,
    Falling,
    Linked,
    Located,
    NounPhrase,
    Occupation,
    Origin,
    Predicate,
    Presentation,
    Priced,
    Pronoun,
    Quality,
    Question,
    Report,
    Sentence,
    Statement,
    Suggestion,
    Weather,
    agreement,
    questioned,
)  # fmt: skip
from calque_phrasebook.realisation import english_phrases as en
from calque_phrasebook.realisation.words import (
    SENTENCE,
    Part,
    Word,
    fuse,
    spell,
    tense_part,
    verb_parts,
)

BE = {"past": ("was", "were", "was", "were"), "present": ("am", "are", "is", "are")}


class Frame(NamedTuple):
    """The parts of a clause: `finite` is the verb's form without an auxiliary, `verb` its form after the auxiliary."""

    front: list[Word]
    subject: list[Word]
    auxiliary: list[Word]
    finite: list[Word] | None
    verb: list[Word]
    rest: list[Word]
    adverb: list[Word]
    negation: list[Word]


def sentence(meaning: Sentence) -> list[Word]:
    """Returns the words and punctuation marks of a meaning in English."""
    at = SENTENCE
    match meaning:
        case Statement(clause):
            return [*statement(clause, at=at / "clause"), *spell(".")]
        case Question():
            return [*_question(meaning, at=at), *spell("?")]
        case Command(action, negative):
            denial = [*spell("do"), *spell("not", at / "negative")] if negative else []
            return [*spell("please", at / "please"), *denial, *_infinitive(action, at=at / "action"), *spell(".")]
        case Suggestion(action):
            opening = [*spell("let", at / "let"), *spell("us", at / "us")]
            return [*opening, *_infinitive(action, at=at / "action"), *spell(".")]
        case Linked():
            return [*_linked(meaning, at=at), *spell(".")]
        case Report(subject, verb, clause, complementiser):
            finite = verb.english_third if agreement(subject) == 2 else verb.english
            opening = [*_noun_phrase(subject, at=at / "subject"), *spell(finite, at / "verb")]
            return [*opening, *spell(complementiser, at / "complementiser"),
                    *statement(clause, at=at / "clause"), *spell(".")]  # fmt: skip
        case Existence(where, thing):
            finite = "are" if thing.determiner.plural else "is"
            opening = [*spell("there", at / "expletive"), *spell(finite, at / "verb")]
            return [*opening, *_noun_phrase(thing, at=at / "thing"), *en.where(where, at=at / "where"), *spell(".")]
        case Presentation(thing):
            opening = [*spell("this", at / "this"), *spell("is", at / "copula")]
            return [*opening, *_noun_phrase(thing, at=at / "thing"), *spell(".")]
        case ClockTime(hour):
            opening = [*spell("it", at / "expletive"), *spell("is", at / "copula")]
            return [*opening, *en.clock_time(hour, at=at / "hour"), *spell("now", at / "now"), *spell(".")]


def statement(clause: Clause, *, at: Part) -> list[Word]:
    """Returns a clause in the order of a statement, which is also that of a subordinate clause."""
    frame = _frame(clause, at=at)
    if frame.finite is not None and not frame.negation:
        return [*frame.front, *frame.subject, *frame.adverb, *frame.finite, *frame.rest]
    return [*frame.front, *frame.subject, *_denied(frame), *frame.adverb, *frame.verb, *frame.rest]


def _denied(frame: Frame) -> list[Word]:
    words = [*frame.auxiliary, *frame.negation]
    return [fuse("cannot", *words)] if [word.text for word in words] == ["can", "not"] else words


def _question(question: Question, *, at: Part) -> list[Word]:
    clause, asked = question.clause, question.asked
    if asked == "subject":
        return statement(clause, at=at / "clause")
    frame = _frame(clause, at=at / "clause")
    return [*_opening(question, at=at), *frame.auxiliary, *frame.subject, *frame.negation, *frame.adverb, *frame.verb,
            *frame.rest]  # fmt: skip


def _opening(question: Question, *, at: Part) -> list[Word]:
    """Returns the words for what a question asks, which stand first: which book, how old, where."""
    match question.asked:
        case "object":
            action = question.clause.predicate
            assert isinstance(action, Action) and action.object is not None
            return _noun_phrase(action.object, at=at / "clause" / "predicate" / "object", position=1)
        case "price":
            return [*spell("how", at / "asked"), *spell("much", at / "asked" / "scale")]
        case "age":
            return [*spell("how", at / "asked"), *spell("old", at / "asked" / "scale")]
        case "place" | "goal":
            return spell("where", at / "asked")
        case "time":
            return spell("when", at / "asked")
        case "reason":
            return spell("why", at / "asked")
        case "means":
            return spell("how", at / "asked")
    return []


def _linked(linked: Linked, *, at: Part) -> list[Word]:
    first, second = statement(linked.first, at=at / "first"), statement(linked.second, at=at / "second")
    connective = spell(linked.connective, at / "connective")
    match linked.connective:
        case "because":
            return [*second, *connective, *first]
        case "if" | "although" | "while":
            return [*connective, *first, *spell(","), *second]
        case "and" | "but" | "so":
            return [*first, *spell(","), *connective, *second]


# --- clauses --------------------------------------------------------------------------------------------------------


def _frame(clause: Clause, *, at: Part) -> Frame:
    time = en.fixed(clause.time, at=at / "time")
    if clause.hour:
        preposition = spell("at", at / "hour" / "preposition")
        time = [*preposition, *en.clock_time(clause.hour, at=at / "hour"), *time]
    group = _verb_group(clause, at=at)
    return Frame(
        front=time if clause.fronted else [],
        subject=_subject(clause, at=at),
        auxiliary=group.auxiliary,
        finite=group.finite,
        verb=group.verb,
        rest=group.rest if clause.fronted else [*group.rest, *time],
        adverb=en.fixed(clause.frequency, at=at / "frequency"),
        negation=spell("not", at / "negative") if clause.negative else [],
    )


def _subject(clause: Clause, *, at: Part) -> list[Word]:
    predicate = at / "predicate"
    match clause.predicate:
        case Falling() | Climate():
            return spell("it", predicate / "expletive")
        case Weather(_, where):
            place = en.where(where, at=predicate / "where") if where else []
            return [*spell("the", predicate / "article"), *spell("weather", predicate / "weather"), *place]
        case Aching(part):
            assert isinstance(clause.subject, Pronoun)
            owner = clause.subject.person.english[2]
            return [*spell(owner, at / "subject" / "person"), *spell(part.english, predicate / "part")]
    assert clause.subject is not None
    return _noun_phrase(clause.subject, at=at / "subject")


class VerbGroup(NamedTuple):
    """The verb of a clause, alone (`finite`) or after an auxiliary (`verb`), and what follows it."""

    auxiliary: list[Word]
    finite: list[Word] | None
    verb: list[Word]
    rest: list[Word]


def _verb_group(clause: Clause, *, at: Part) -> VerbGroup:
    person = 2 if clause.subject is None else agreement(clause.subject)
    tense, predicate = tense_part(clause, at=at), at / "predicate"
    match clause.predicate:
        case Action() as action:
            return _action(clause, action, person=person, at=at)
        case Origin(where):
            source = [*spell("from", predicate / "where" / "preposition"), *en.named(where, at=predicate / "where")]
            return _present(COME.english, predicate / "verb", person=person, rest=source)
        case Priced(number, currency):
            price = [*en.fixed(number, at=predicate / "number"), *en.fixed(currency, at=predicate / "currency")]
            return _present("cost", predicate / "verb", person=person, rest=price)
        case Aching():
            if clause.tense == "past":
                verb = predicate / "verb"
                return VerbGroup(spell("did", *tense), spell("hurt", verb, *tense), spell("hurt", verb), [])
            return _present("hurt", predicate / "verb", person=2, rest=[])
        case Born(when):
            born = [*spell("born", predicate / "verb"), *en.fixed(when, at=predicate / "when")]
            return VerbGroup(spell(BE["past"][person], predicate / "copula"), None, [], born)
        case Falling(what, where):
            return _falling(what, clause=clause, at=at, rest=en.where(where, at=predicate / "where"))
    rest = _complement(clause.predicate, at=predicate)
    if clause.tense == "future":
        return VerbGroup(spell("will", *tense), None, spell("be", predicate / "copula"), rest)
    copula = BE["past" if clause.tense == "past" else "present"][person]
    return VerbGroup(spell(copula, predicate / "copula"), None, [], rest)


def _present(verb: str, *parts: Part, person: int, rest: list[Word], infinitive: Sequence[Word] = ()) -> VerbGroup:
    """Returns a verb in the present tense, perhaps followed by an infinitive: wants to go."""
    third = person == 2
    finite = english_third(verb) if third else verb
    return VerbGroup(
        auxiliary=spell("does" if third else "do"),
        finite=[*spell(finite, *parts), *infinitive],
        verb=[*spell(verb, *parts), *infinitive],
        rest=rest,
    )


def _falling(what: Precipitation, *, clause: Clause, at: Part, rest: list[Word]) -> VerbGroup:
    tense, says = tense_part(clause, at=at), at / "predicate" / "what"
    base = spell(what.english, says)
    match clause.tense:
        case "past":
            return VerbGroup(spell("did", *tense), spell(what.english_past, says, *tense), base, rest)
        case "future":
            return VerbGroup(spell("will", *tense), None, base, rest)
        case "ongoing":
            return VerbGroup(spell("is", *tense), None, spell(what.english_ing, says), rest)
        case "state" | "habit":
            return VerbGroup(spell("does"), spell(what.english_third, says), base, rest)


def _complement(predicate: Predicate, *, at: Part) -> list[Word]:
    """Returns the words that follow the copula (*is*): very warm, a doctor, in the park."""
    match predicate:
        case Quality(adjective, degree):
            return [*en.fixed(degree, at=at / "degree"), *spell(adjective.english, at / "adjective")]
        case Comparison(adjective, standard, True):
            quality = [*spell("as", at / "equality"), *spell(adjective.english, at / "adjective")]
            return [*quality, *spell("as", at / "comparator"), *_noun_phrase(standard, at=at / "standard")]
        case Comparison(adjective, standard, False):
            quality = spell(" ".join(adjective.english_comparative), at / "adjective")
            return [*quality, *spell("than", at / "comparator"), *_noun_phrase(standard, at=at / "standard")]
        case Occupation(noun):
            return en.with_article(spell(noun.english, at / "noun"), at / "article")
        case Located(where):
            return en.where(where, at=at / "where")
        case Aged(number):
            if number is None:
                return []
            years = [*en.fixed(number, at=at / "number"), *spell("years", at / "years")]
            return [*years, *spell("old", at / "age")]
        case Climate(adjective, where):
            return [*spell(adjective.english, at / "adjective"), *en.where(where, at=at / "where")]
        case Weather(adjective):
            return spell(adjective.english, at / "adjective")
    raise AssertionError(predicate)


def _action(clause: Clause, action: Action, *, person: int, at: Part) -> VerbGroup:
    predicate, tense, verb = at / "predicate", tense_part(clause, at=at), action.verb
    says = _says(verb, at=predicate / "verb")
    base, rest = spell(verb.english, *says), _rest(action, at=predicate)
    if action.gladly:
        gladly = predicate / "gladly"
        return _present("like", gladly, person=person, rest=rest, infinitive=[*spell("to", gladly), *base])
    if clause.modal:
        modal, *to = clause.modal.english
        if to:
            infinitive = [*spell(" ".join(to), at / "modal"), *base]
            return _present(modal, at / "modal", person=person, rest=rest, infinitive=infinitive)
        return VerbGroup(spell(modal, at / "modal"), None, base, rest)
    match clause.tense:
        case "past":
            return VerbGroup(spell("did", *tense), spell(verb.english_past, *says, *tense), base, rest)
        case "future":
            return VerbGroup(spell("will", *tense), None, base, rest)
        case "ongoing":
            return VerbGroup(spell(BE["present"][person], *tense), None, spell(verb.english_ing, *says), rest)
        case "state" | "habit":
            finite = verb.english_third if person == 2 else verb.english
            return VerbGroup(spell("does" if person == 2 else "do"), spell(finite, *says), base, rest)


def _says(verb: Verb, *, at: Part) -> tuple[Part, ...]:
    return verb_parts(at, complement=bool(verb.english_complement), preposition=bool(verb.english_preposition))


def _infinitive(action: Action, *, at: Part) -> list[Word]:
    return [*spell(action.verb.english, *_says(action.verb, at=at / "verb")), *_rest(action, at=at)]


def _rest(action: Action, *, at: Part) -> list[Word]:
    """Returns what follows the verb: object, goal, company, means, place, purpose; not what a question has fronted."""
    verb = action.verb
    words = spell(" ".join(verb.english_preposition), at / "verb" / "preposition")
    words += spell(" ".join(verb.english_complement), at / "verb" / "complement")
    if action.recipient:
        words += _noun_phrase(action.recipient, at=at / "recipient", position=1)
    if action.object and not questioned(action.object):
        words += _noun_phrase(action.object, at=at / "object", position=1)
    words += spell(" ".join(verb.english_particle), *_says(verb, at=at / "verb"))
    if action.goal:
        words += en.toward(action.goal, at=at / "goal")
    words += en.fixed(action.manner, at=at / "manner")
    if action.companion:
        words += spell("with", at / "companion" / "preposition")
        words += _noun_phrase(action.companion, at=at / "companion", position=1)
    if action.vehicle:
        words += spell("by", at / "vehicle" / "preposition")
        words += spell(action.vehicle.english, at / "vehicle")
    if action.place:
        words += en.where(action.place, at=at / "place")
    if action.duration:
        number, unit = action.duration.number, action.duration.unit
        words += spell("for")
        words += en.fixed(number, at=at / "duration" / "number")
        words += spell(unit.english, at / "duration" / "unit")
    if action.purpose:
        words += spell("to", at / "purpose" / "infinitive")
        words += _infinitive(action.purpose, at=at / "purpose")
    return words


def _noun_phrase(phrase: NounPhrase, *, at: Part, position: int = 0) -> list[Word]:
    if isinstance(phrase, Described):
        head = [*spell("the", at / "article"), *spell(phrase.noun.english, at / "noun")]
        return [*head, *spell("that", at / "relative"), *statement(phrase.clause, at=at / "clause")]
    return en.noun_phrase(phrase, at=at, position=position)
