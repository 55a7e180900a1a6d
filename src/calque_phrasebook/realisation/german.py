"""Says a meaning in German: the verb second, last or first, and the order of what stands between."""

from typing import NamedTuple

from calque_phrasebook.lexicon import people as people
from calque_phrasebook.lexicon.lexemes import Case, Phrase
from calque_phrasebook.lexicon.times import half_past
from calque_phrasebook.meaning import (
    Aching,
    Action,
    Aged,
    Asked,
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
    Predicate,
    Presentation,
    Priced,
    Pronoun,
    Quality,
    Question,
    QuestionKind,
    Report,
    Sentence,
    Spot,
    Statement,
    Suggestion,
    Weather,
    agreement,
)  # fmt: skip
from calque_phrasebook.realisation import german_phrases as de

ASKING: dict[QuestionKind, list[str]] = {
    "whether": [], "place": ["wo"], "goal": ["wohin"], "time": ["wann"], "reason": ["warum"], "means": ["wie"],
    "price": ["wie", "viel"], "age": ["wie", "alt"],
}  # fmt: skip
SUBORDINATORS = {"because": "weil", "if": "wenn", "although": "obwohl", "while": "während"}


class Frame(NamedTuple):
    """A clause taken apart: the finite verb moves, `middle` and `closing` stay; a prefix joins a final verb."""

    front: list[str]
    subject: list[str]
    finite: str
    prefix: str
    middle: list[str]
    closing: list[str]
    extra: list[str]  # an infinitive clause behind everything


def sentence(meaning: Sentence) -> list[str]:
    """Gives the words and marks of a meaning in German."""
    match meaning:
        case Statement(clause):
            return [*statement(clause), "."]
        case Question():
            return [*_question(meaning), "?"]
        case Command(action, negative):
            return [*_command(action, negative), "."]
        case Suggestion(action):
            middle, closing, extra = _infinitive_phrase(action)
            return ["lass", "uns", *middle, *closing, de.infinitive(action.verb), *extra, "."]
        case Linked():
            return [*_linked(meaning), "."]
        case Report(subject, verb, clause, complementiser):
            finite = de.present(verb, agreement(subject))
            conjunction = "dass" if complementiser == "that" else "ob"
            return [*_noun_phrase(subject, "nominative"), finite, ",", conjunction, *final(_frame(clause)), "."]
        case Existence():
            return [*_existence(meaning), "."]
        case Presentation(thing):
            return ["das", "ist", *_noun_phrase(thing, "nominative"), "."]
        case ClockTime(hour):
            return ["es", "ist", "jetzt", *_hour(hour)[1:], "."]


# --- where the verb stands ------------------------------------------------------------------------------------------


def statement(clause: Clause) -> list[str]:
    """Gives a main clause, its verb second."""
    frame = _frame(clause)
    return inverted(frame, frame.front) if frame.front else [*frame.subject, frame.finite, *_after(frame)]


def inverted(frame: Frame, front: list[str]) -> list[str]:
    """Gives a main clause that opens with something other than its subject; with nothing, a question."""
    return [*front, frame.finite, *frame.subject, *_after(frame)]


def final(frame: Frame) -> list[str]:
    """Gives a subordinate clause, its verb last."""
    return [*frame.subject, *frame.middle, *frame.closing, frame.prefix + frame.finite, *frame.extra]


def _after(frame: Frame) -> list[str]:
    return [*frame.middle, *frame.closing, *([frame.prefix] if frame.prefix else []), *frame.extra]


def _question(question: Question) -> list[str]:
    clause, asked = question.clause, question.asked
    if asked == "subject":
        return statement(clause)
    if asked == "object":
        assert isinstance(clause.predicate, Action) and clause.predicate.object is not None
        return inverted(_frame(clause), _noun_phrase(clause.predicate.object, "accusative"))
    return inverted(_frame(clause), ASKING[asked])


def _linked(linked: Linked) -> list[str]:
    first, second = _frame(linked.first), _frame(linked.second)
    match linked.connective:
        case "because":
            return [*statement(linked.second), ",", "weil", *final(first)]
        case "if" | "although" | "while":
            return [SUBORDINATORS[linked.connective], *final(first), ",", *inverted(second, [])]
        case "and":
            return [*statement(linked.first), "und", *statement(linked.second)]
        case "but":
            return [*statement(linked.first), ",", "aber", *statement(linked.second)]
        case "so":
            return [*statement(linked.first), ",", *inverted(second, ["deshalb"])]


def _command(action: Action, negative: bool) -> list[str]:
    middle, closing, extra = _infinitive_phrase(action, negative=negative)
    prefix = [action.verb.prefix] if action.verb.prefix else []
    return [de.imperative(action.verb), "bitte", *middle, *closing, *prefix, *extra]


def _existence(existence: Existence) -> list[str]:
    where, thing = existence.where, existence.thing
    plural = thing.determiner.plural
    if not isinstance(where, Spot):
        return [*de.where(where), "gibt", "es", *_noun_phrase(thing, "accusative")]
    verb = ("stehen" if plural else "steht") if thing.noun.stands else ("liegen" if plural else "liegt")
    return [*de.where(where), verb, *_noun_phrase(thing, "nominative")]


# --- clauses --------------------------------------------------------------------------------------------------------


def _frame(clause: Clause) -> Frame:
    predicate = clause.predicate
    person = 2 if clause.subject is None else agreement(clause.subject)
    time = [*(clause.time.german if clause.time else ()), *(_hour(clause.hour) if clause.hour else ())]
    front = time if clause.fronted else []
    time = [] if clause.fronted else time
    if isinstance(predicate, Action):
        return _action_frame(clause, predicate, person, front, time)
    if isinstance(predicate, Falling):
        return _falling_frame(clause, predicate, time)
    if isinstance(predicate, Aching):
        return _aching_frame(clause, predicate, time)
    middle = [*time, *_complement(clause, predicate)]
    closing: list[str]
    match predicate:
        case Origin():
            finite, closing = ("komme", "kommst", "kommt", "kommen")[person], []
        case Priced():
            finite, closing = ("kosten" if person == 3 else "kostet"), []
        case Born():
            finite, closing = de.BE[person], ["geboren"]
        case _:
            finite, closing = _copula(clause, person)
    return Frame(front, _subject(clause), finite, "", middle, closing, [])


def _subject(clause: Clause) -> list[str]:
    match clause.predicate:
        case Falling() | Climate():
            return ["es"]
        case Weather(_, where):
            return ["das", "Wetter", *(where.german_at if where else ())]
    assert clause.subject is not None
    return _noun_phrase(clause.subject, "nominative")


def _copula(clause: Clause, person: int) -> tuple[str, list[str]]:
    if clause.tense == "future":
        return de.WILL[person], ["sein"]
    return (de.WAS if clause.tense == "past" else de.BE)[person], []


def _falling_frame(clause: Clause, falling: Falling, time: list[str]) -> Frame:
    infinitive, third, participle = falling.what.german
    middle = [*time, *falling.where.german_at, *_not(clause.negative)]
    match clause.tense:
        case "past":
            finite, closing = "hat", [participle]
        case "future":
            finite, closing = "wird", [infinitive]
        case _:
            finite, closing = third, []
    return Frame([], ["es"], finite, "", middle, closing, [])


def _aching_frame(clause: Clause, aching: Aching, time: list[str]) -> Frame:
    """Gives the frame of *mir tut heute der Kopf weh*: the sufferer in front, the part late."""
    assert isinstance(clause.subject, Pronoun)
    front = [clause.subject.person.german[2]]
    subject = [*time, *_words(clause.frequency), *de.with_the(aching.part, case="nominative")]
    if clause.tense == "past":
        return Frame(front, subject, "hat", "", [], ["wehgetan"], [])
    return Frame(front, subject, "tut", "weh", [], [], [])


def _not(negative: bool) -> list[str]:
    return ["nicht"] if negative else []


def _complement(clause: Clause, predicate: Predicate) -> list[str]:
    negation = _not(clause.negative)
    match predicate:
        case Quality(adjective, degree):
            return [*negation, *(degree.german if degree else ()), adjective.german]
        case Comparison(adjective, standard, True):
            return [*negation, "so", adjective.german, "wie", *_noun_phrase(standard, "nominative")]
        case Comparison(adjective, standard, False):
            return [*negation, adjective.german_comparative, "als", *_noun_phrase(standard, "nominative")]
        case Occupation(noun):
            assert clause.subject is not None
            return de.occupation(noun, female=_female(clause.subject), negative=clause.negative)
        case Located(where):
            return [*negation, *de.where(where)]
        case Origin(where):
            return ["aus", *where.german_at[1:]]
        case Priced(number, currency):
            return [*_words(number), *_words(currency)]
        case Aged(number):
            return [*number.german, "Jahre", "alt"] if number else []
        case Born(when):
            return list(when.german)
        case Climate(adjective, where):
            return [*where.german_at, *negation, adjective.german]
        case Weather(adjective):
            return [*negation, adjective.german]
    raise AssertionError(predicate)


def _words(phrase: Phrase | None) -> list[str]:
    return list(phrase.german) if phrase else []


def _female(subject: NounPhrase) -> bool:
    match subject:
        case Pronoun(person):
            return person is people.SHE
        case Named(_, female):
            return female
        case Nominal(noun):
            return people.woman(noun)
    return False


def _action_frame(clause: Clause, action: Action, person: int, front: list[str], time: list[str]) -> Frame:
    verb = action.verb
    adverbs = [*time, *_words(clause.frequency), *(["gerade"] if clause.tense == "ongoing" else [])]
    reflexive = [de_reflexive(clause.subject)] if verb.reflexive else []
    middle, closing, extra = _field(action, reflexive=reflexive, adverbs=adverbs, negative=clause.negative)
    subject = _subject(clause)
    if clause.modal:
        return Frame(front, subject, clause.modal.german[person], "", middle, [*closing, de.infinitive(verb)], extra)
    match clause.tense:
        case "past":
            auxiliary = de.perfect_auxiliary(verb, person)
            return Frame(front, subject, auxiliary, "", middle, [*closing, verb.participle], extra)
        case "future":
            return Frame(front, subject, de.WILL[person], "", middle, [*closing, de.infinitive(verb)], extra)
        case "state" | "habit" | "ongoing":
            return Frame(front, subject, de.present(verb, person), verb.prefix, middle, closing, extra)


def de_reflexive(subject: NounPhrase | None) -> str:
    """Gives the reflexive pronoun of a subject: mich, dich, uns, sich."""
    return subject.person.german_reflexive if isinstance(subject, Pronoun) else "sich"


def _infinitive_phrase(action: Action, *, negative: bool = False) -> tuple[list[str], list[str], list[str]]:
    return _field(action, reflexive=[], adverbs=[], negative=negative)


def _field(
    action: Action, *, reflexive: list[str], adverbs: list[str], negative: bool
) -> tuple[list[str], list[str], list[str]]:
    """Gives what stands between the verbs, what stands just before the last one, and what follows them.

    Order: pronouns, adverbs, known things, nicht, gern, circumstances, new things, manner, goal.
    """
    verb = action.verb
    early, known, new, denial = list(reflexive), list[str](), list[str](), _not(negative)
    if action.recipient:
        (early if isinstance(action.recipient, Pronoun) else known).extend(_noun_phrase(action.recipient, "dative"))
    thing = action.object
    if thing is not None and not _fronted(thing):
        if verb.preposition:
            new = [*verb.preposition, *_noun_phrase(thing, verb.case)]
        elif isinstance(thing, Pronoun):
            early += _noun_phrase(thing, verb.case)
        elif de.definite(thing):
            known += _noun_phrase(thing, verb.case)
        elif negative and not action.gladly:
            new, denial = de.denied(thing), []
        else:
            new = _noun_phrase(thing, verb.case)
    gladly = ["gern"] if action.gladly else []
    goal = de.whither(action.goal) if action.goal else []
    middle = [*early, *adverbs, *known, *denial, *gladly, *_circumstances(action), *new, *_words(action.manner), *goal]
    extra: list[str] = []
    if action.purpose:
        purpose, lead, _ = _infinitive_phrase(action.purpose)
        extra = [",", "um", *purpose, *lead, *de.with_zu(action.purpose.verb)]
    return middle, list(verb.lead), extra


def _circumstances(action: Action) -> list[str]:
    words: list[str] = []
    if action.duration:
        words += [*action.duration[0].german, *action.duration[1].german]
    if action.companion:
        words += ["mit", *_noun_phrase(action.companion, "dative")]
    if action.vehicle:
        words += ["mit", *de.with_the(action.vehicle, case="dative")]
    if action.place:
        words += de.where(action.place)
    return words


def _fronted(thing: NounPhrase) -> bool:
    return isinstance(thing, Asked) or (isinstance(thing, Nominal) and thing.determiner.kind in ("which", "how many"))


def _hour(hour: Hour) -> list[str]:
    if hour.half:
        return ["um", "halb", half_past(hour.hour).german[1]]
    return ["um", hour.hour.german[0], "Uhr"]


def _noun_phrase(phrase: NounPhrase, case: Case) -> list[str]:
    if isinstance(phrase, Described):
        relative = de.relative_pronoun(phrase.noun)
        return [*de.with_the(phrase.noun, case=case), ",", relative, *final(_frame(phrase.clause)), ","]
    return de.noun_phrase(phrase, case=case)
