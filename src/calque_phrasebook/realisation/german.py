"""Expresses a meaning in German: the verb second, last or first, and the order of the other words."""

from typing import NamedTuple

from calque_phrasebook.lexicon import people as people
from calque_phrasebook.lexicon.lexemes import Case
from calque_phrasebook.lexicon.times import next_hour
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
    Hour,
    Linked,
    Located,
    Named,
    Nominal,
    NounPhrase,
    Occupation,
    Origin,
    Presentation,
    Priced,
    Pronoun,
    Quality,
    Question,
    Report,
    Sentence,
    Spot,
    Statement,
    Suggestion,
    Weather,
    agreement,
)  # fmt: skip
from calque_phrasebook.realisation import german_actions as actions
from calque_phrasebook.realisation import german_phrases as de
from calque_phrasebook.realisation.words import SENTENCE, Part, Word, fuse, spell, tense_part

SUBORDINATORS = {"because": "weil", "if": "wenn", "although": "obwohl", "while": "während"}


class Frame(NamedTuple):
    """The parts of a clause: the position of `finite` varies, `middle` and `closing` stay in place.

    A separable prefix is joined to the finite verb if that comes last.
    """

    front: list[Word]
    subject: list[Word]
    finite: Word
    prefix: Word | None
    middle: list[Word]
    closing: list[Word]
    extra: list[Word]  # an infinitive clause at the end


def sentence(meaning: Sentence) -> list[Word]:
    """Returns the words and punctuation marks of a meaning in German."""
    at = SENTENCE
    match meaning:
        case Statement(clause):
            return [*statement(clause, at=at / "clause"), *spell(".")]
        case Question():
            return [*_question(meaning, at=at), *spell("?")]
        case Command(action, negative):
            return [*_command(action, at=at, negative=at / "negative" if negative else None), *spell(".")]
        case Suggestion(action):
            opening = [*spell("lass", at / "let"), *spell("uns", at / "us")]
            middle, closing, extra = actions.fields(action, at=at / "action")
            verb = spell(de.infinitive(action.verb), *actions.says(action.verb, at=at / "action" / "verb"))
            return [*opening, *middle, *closing, *verb, *extra, *spell(".")]
        case Linked():
            return [*_linked(meaning, at=at), *spell(".")]
        case Report(subject, verb, clause, complementiser):
            finite = spell(de.present(verb, person=agreement(subject)), at / "verb")
            conjunction = spell("dass" if complementiser == "that" else "ob", at / "complementiser")
            opening = [*_noun_phrase(subject, case="nominative", at=at / "subject"), *finite, *spell(",")]
            return [*opening, *conjunction, *final(_frame(clause, at=at / "clause")), *spell(".")]
        case Existence():
            return [*_existence(meaning, at=at), *spell(".")]
        case Presentation(thing):
            opening = [*spell("das", at / "this"), *spell("ist", at / "copula")]
            return [*opening, *_noun_phrase(thing, case="nominative", at=at / "thing"), *spell(".")]
        case ClockTime(hour):
            opening = [*spell("es", at / "expletive"), *spell("ist", at / "copula"), *spell("jetzt", at / "now")]
            return [*opening, *_hour(hour, at=at / "hour"), *spell(".")]


# --- where the verb stands ------------------------------------------------------------------------------------------


def statement(clause: Clause, *, at: Part) -> list[Word]:
    """Returns a main clause, with its verb in second position."""
    frame = _frame(clause, at=at)
    return inverted(frame, front=frame.front) if frame.front else [*frame.subject, frame.finite, *_after(frame)]


def inverted(frame: Frame, *, front: list[Word]) -> list[Word]:
    """Returns a main clause: the words in `front` (perhaps none), then the verb, then the subject."""
    return [*front, frame.finite, *frame.subject, *_after(frame)]


def final(frame: Frame) -> list[Word]:
    """Returns a subordinate clause, with its verb in final position."""
    prefix, finite = frame.prefix, frame.finite
    verb = fuse(prefix.text + finite.text, prefix, finite) if prefix else finite
    return [*frame.subject, *frame.middle, *frame.closing, verb, *frame.extra]


def _after(frame: Frame) -> list[Word]:
    return [*frame.middle, *frame.closing, *([frame.prefix] if frame.prefix else []), *frame.extra]


def _question(question: Question, *, at: Part) -> list[Word]:
    if question.asked == "subject":
        return statement(question.clause, at=at / "clause")
    return inverted(_frame(question.clause, at=at / "clause"), front=_opening(question, at=at))


def _opening(question: Question, *, at: Part) -> list[Word]:
    """Returns the words for what a question asks, which stand first: welches Buch, wie alt, wo."""
    match question.asked:
        case "object":
            action = question.clause.predicate
            assert isinstance(action, Action) and action.object is not None
            return _noun_phrase(action.object, case="accusative", at=at / "clause" / "predicate" / "object")
        case "price":
            return [*spell("wie", at / "asked"), *spell("viel", at / "asked" / "scale")]
        case "age":
            return [*spell("wie", at / "asked"), *spell("alt", at / "asked" / "scale")]
        case "place":
            return spell("wo", at / "asked")
        case "goal":
            return spell("wohin", at / "asked")
        case "time":
            return spell("wann", at / "asked")
        case "reason":
            return spell("warum", at / "asked")
        case "means":
            return spell("wie", at / "asked")
    return []


def _linked(linked: Linked, *, at: Part) -> list[Word]:
    first, second, connective = at / "first", at / "second", at / "connective"
    match linked.connective:
        case "because":
            reason = [*spell("weil", connective), *final(_frame(linked.first, at=first))]
            return [*statement(linked.second, at=second), *spell(","), *reason]
        case "if" | "although" | "while":
            opening = spell(SUBORDINATORS[linked.connective], connective)
            background = [*opening, *final(_frame(linked.first, at=first))]
            return [*background, *spell(","), *inverted(_frame(linked.second, at=second), front=[])]
        case "and":
            both = statement(linked.first, at=first), statement(linked.second, at=second)
            return [*both[0], *spell("und", connective), *both[1]]
        case "but":
            both = statement(linked.first, at=first), statement(linked.second, at=second)
            return [*both[0], *spell(","), *spell("aber", connective), *both[1]]
        case "so":
            result = inverted(_frame(linked.second, at=second), front=spell("deshalb", connective))
            return [*statement(linked.first, at=first), *spell(","), *result]


def _command(action: Action, *, at: Part, negative: Part | None) -> list[Word]:
    says = actions.says(action.verb, at=at / "action" / "verb")
    middle, closing, extra = actions.fields(action, at=at / "action", negative=negative)
    opening = [*spell(de.imperative(action.verb), *says), *spell("bitte", at / "please")]
    return [*opening, *middle, *closing, *spell(action.verb.german_prefix, *says), *extra]


def _existence(existence: Existence, *, at: Part) -> list[Word]:
    where, thing = de.where(existence.where, at=at / "where"), existence.thing
    plural = thing.determiner.plural
    if not isinstance(existence.where, Spot):
        there = [*spell("gibt", at / "verb"), *spell("es", at / "expletive")]
        return [*where, *there, *_noun_phrase(thing, case="accusative", at=at / "thing")]
    verb = ("stehen" if plural else "steht") if thing.noun.stands else ("liegen" if plural else "liegt")
    there = spell(verb, at / "verb", at / "expletive")
    return [*where, *there, *_noun_phrase(thing, case="nominative", at=at / "thing")]


# --- clauses --------------------------------------------------------------------------------------------------------


def _frame(clause: Clause, *, at: Part) -> Frame:
    time = de.fixed(clause.time, at=at / "time")
    if clause.hour:
        time = [*time, *spell("um", at / "hour" / "preposition"), *_hour(clause.hour, at=at / "hour")]
    front = time if clause.fronted else []
    time = [] if clause.fronted else time
    match clause.predicate:
        case Action() as action:
            return _action_frame(clause, action, at=at, front=front, time=time)
        case Falling() as falling:
            return _falling_frame(clause, falling, at=at, time=time)
        case Aching() as aching:
            return _aching_frame(clause, aching, at=at, time=time)
    finite, closing = _finite(clause, at=at)
    middle = [*time, *_complement(clause, at=at)]
    return Frame(front, _subject(clause, at=at), finite, None, middle, closing, [])


def _subject(clause: Clause, *, at: Part) -> list[Word]:
    predicate = at / "predicate"
    match clause.predicate:
        case Falling() | Climate():
            return spell("es", predicate / "expletive")
        case Weather(_, where):
            place = de.where(where, at=predicate / "where") if where else []
            return [*spell("das", predicate / "article"), *spell("Wetter", predicate / "weather"), *place]
    assert clause.subject is not None
    return _noun_phrase(clause.subject, case="nominative", at=at / "subject")


def _finite(clause: Clause, *, at: Part) -> tuple[Word, list[Word]]:
    """Returns the finite verb of a clause about a state, and the words that close it: wird … sein, ist … geboren."""
    person = 2 if clause.subject is None else agreement(clause.subject)
    verb, copula = (at / "predicate" / "verb",), (at / "predicate" / "copula",)
    match clause.predicate:
        case Origin():
            return Word(de.present(COME, person=person), verb), []
        case Priced():
            return Word("kosten" if person == 3 else "kostet", verb), []
        case Born():
            return Word(de.BE[person], copula), spell("geboren", *verb)
    if clause.tense == "future":
        return Word(de.WILL[person], tense_part(clause, at=at)), spell("sein", *copula)
    return Word((de.WAS if clause.tense == "past" else de.BE)[person], copula), []


def _falling_frame(clause: Clause, falling: Falling, *, at: Part, time: list[Word]) -> Frame:
    what, says, tense = falling.what, at / "predicate" / "what", tense_part(clause, at=at)
    where = de.where(falling.where, at=at / "predicate" / "where")
    middle = [*time, *where, *actions.nicht(at / "negative" if clause.negative else None)]
    match clause.tense:
        case "past":
            finite, closing = Word("hat", tense), spell(what.german_participle, says)
        case "future":
            finite, closing = Word("wird", tense), spell(what.german, says)
        case _:
            finite, closing = Word(what.german_third, (says, *tense)), []
    return Frame([], _subject(clause, at=at), finite, None, middle, closing, [])


def _aching_frame(clause: Clause, aching: Aching, *, at: Part, time: list[Word]) -> Frame:
    """Returns the frame of *mir tut heute der Kopf weh*: the person in pain first, the part of the body late."""
    assert isinstance(clause.subject, Pronoun)
    front = spell(clause.subject.person.german[2], at / "subject" / "person")
    part, verb = at / "predicate" / "part", at / "predicate" / "verb"
    aches = de.with_the(aching.part, case="nominative", at=part, article=part / "article")
    subject = [*time, *de.fixed(clause.frequency, at=at / "frequency"), *aches]
    if clause.tense == "past":
        return Frame(front, subject, Word("hat", tense_part(clause, at=at)), None, [], spell("wehgetan", verb), [])
    return Frame(front, subject, Word("tut", (verb,)), Word("weh", (verb,)), [], [], [])


def _complement(clause: Clause, *, at: Part) -> list[Word]:
    """Returns the complement of the verb in a clause about a state: nicht sehr warm, aus Berlin."""
    says, negative = at / "predicate", at / "negative" if clause.negative else None
    denial = actions.nicht(negative)
    match clause.predicate:
        case Quality(adjective, degree):
            return [*denial, *de.fixed(degree, at=says / "degree"), *spell(adjective.german, says / "adjective")]
        case Comparison(adjective, standard, equal):
            quality = [*spell("so", says / "equality"), *spell(adjective.german, says / "adjective")]
            more = spell(adjective.german_comparative, says / "adjective")
            than = spell("wie" if equal else "als", says / "comparator")
            other = _noun_phrase(standard, case="nominative", at=says / "standard")
            return [*denial, *(quality if equal else more), *than, *other]
        case Occupation(noun):
            assert clause.subject is not None
            return de.occupation(noun, female=_female(clause.subject), at=says, negative=negative)
        case Located(where):
            return [*denial, *de.where(where, at=says / "where")]
        case Origin(where):
            return [*spell("aus", says / "where" / "preposition"), *spell(where.german, says / "where")]
        case Priced(number, currency):
            return [*de.fixed(number, at=says / "number"), *de.fixed(currency, at=says / "currency")]
        case Aged(number):
            years = [*spell("Jahre", says / "years"), *spell("alt", says / "age")]
            return [*de.fixed(number, at=says / "number"), *years] if number else []
        case Born(when):
            return de.fixed(when, at=says / "when")
        case Climate(adjective, where):
            return [*de.where(where, at=says / "where"), *denial, *spell(adjective.german, says / "adjective")]
        case Weather(adjective):
            return [*denial, *spell(adjective.german, says / "adjective")]
    raise AssertionError(clause.predicate)


def _female(subject: NounPhrase) -> bool:
    match subject:
        case Pronoun(person):
            return person is people.SHE
        case Named(_, female):
            return female
        case Nominal(noun):
            return noun.female
    return False


# --- actions --------------------------------------------------------------------------------------------------------


def _action_frame(clause: Clause, action: Action, *, at: Part, front: list[Word], time: list[Word]) -> Frame:
    verb, tense = action.verb, tense_part(clause, at=at)
    person = 2 if clause.subject is None else agreement(clause.subject)
    says = actions.says(verb, at=at / "predicate" / "verb")
    meanwhile = spell("gerade", *tense) if clause.tense == "ongoing" else []
    middle, closing, extra = actions.fields(
        action,
        at=at / "predicate",
        reflexive=spell(_reflexive(clause.subject), *says) if verb.german_reflexive else [],
        adverbs=[*time, *de.fixed(clause.frequency, at=at / "frequency"), *meanwhile],
        negative=at / "negative" if clause.negative else None,
    )
    subject, infinitive = _subject(clause, at=at), spell(de.infinitive(verb), *says)
    if clause.modal:
        modal = Word(clause.modal.german[person], (at / "modal",))
        return Frame(front, subject, modal, None, middle, [*closing, *infinitive], extra)
    match clause.tense:
        case "past":
            auxiliary = Word(de.perfect_auxiliary(verb, person=person), tense)
            participle = spell(verb.german_participle, *says)
            return Frame(front, subject, auxiliary, None, middle, [*closing, *participle], extra)
        case "future":
            return Frame(front, subject, Word(de.WILL[person], tense), None, middle, [*closing, *infinitive], extra)
        case "state" | "habit" | "ongoing":
            finite = Word(de.present(verb, person=person), says)
            prefix = Word(verb.german_prefix, says) if verb.german_prefix else None
            return Frame(front, subject, finite, prefix, middle, closing, extra)


def _reflexive(subject: NounPhrase | None) -> str:
    """Returns the reflexive pronoun of a subject: mich, dich, uns, sich."""
    return subject.person.german_reflexive if isinstance(subject, Pronoun) else "sich"


def _hour(hour: Hour, *, at: Part) -> list[Word]:
    if hour.half:
        return [*spell("halb", at / "half"), *spell(next_hour(hour.hour).german_alone, at / "hour")]
    return [*spell(hour.hour.german, at / "hour"), *spell("Uhr", at / "clock")]


def _noun_phrase(phrase: NounPhrase, *, case: Case, at: Part) -> list[Word]:
    if isinstance(phrase, Described):
        head = de.with_the(phrase.noun, case=case, at=at / "noun", article=at / "article")
        relative = spell(de.relative_pronoun(phrase.noun), at / "relative")
        clause = final(_frame(phrase.clause, at=at / "clause"))
        return [*head, *spell(","), *relative, *clause, *spell(",")]
    return de.noun_phrase(phrase, case=case, at=at)
