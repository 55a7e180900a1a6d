"""Says a meaning in English: do-support, third person, articles, times last."""

from typing import NamedTuple

from calque_phrasebook.lexicon.lexemes import Phrase, Place
from calque_phrasebook.lexicon.verbs import COME
from calque_phrasebook.meaning import (
    Aching,
    Action,
    Aged,
    Asked,
    Born,
    Both,
    Clause,
    Climate,
    ClockTime,
    Command,
    Comparison,
    Described,
    Existence,
    Falling,
    Gap,
    Hour,
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
    Tense,
    Weather,
    agreement,
)  # fmt: skip

BE = {"past": ("was", "were", "was", "were"), "state": ("am", "are", "is", "are")}
ASKING: dict[QuestionKind, list[str]] = {
    "whether": [], "place": ["where"], "goal": ["where"], "time": ["when"], "reason": ["why"], "means": ["how"],
    "price": ["how", "much"], "age": ["how", "old"],
}  # fmt: skip


class Frame(NamedTuple):
    """A clause taken apart: `finite` stands alone where no auxiliary is called for, `verb` follows the auxiliary."""

    front: list[str]
    subject: list[str]
    auxiliary: str
    finite: list[str] | None
    verb: list[str]
    rest: list[str]
    adverb: list[str]
    negation: list[str]


def sentence(meaning: Sentence) -> list[str]:
    """Gives the words and marks of a meaning in English."""
    match meaning:
        case Statement(clause):
            return [*statement(clause), "."]
        case Question():
            return [*_question(meaning), "?"]
        case Command(action, negative):
            return ["please", *(["do", "not"] if negative else []), action.verb.english, *_rest(action), "."]
        case Suggestion(action):
            return ["let", "us", action.verb.english, *_rest(action), "."]
        case Linked():
            return [*_linked(meaning), "."]
        case Report(subject, verb, clause, complementiser):
            finite = verb.english_third if agreement(subject) == 2 else verb.english
            return [*noun_phrase(subject), finite, complementiser, *statement(clause), "."]
        case Existence(where, thing):
            finite = "are" if thing.determiner.plural else "is"
            return ["there", finite, *noun_phrase(thing), *_where(where), "."]
        case Presentation(thing):
            return ["this", "is", *noun_phrase(thing), "."]
        case ClockTime(hour):
            return ["it", "is", *_hour(hour)[1:], "now", "."]


def statement(clause: Clause) -> list[str]:
    """Gives a clause in the order of a statement, which is also that of a subordinate clause."""
    frame = _frame(clause)
    if frame.finite is not None and not frame.negation:
        return [*frame.front, *frame.subject, *frame.adverb, *frame.finite, *frame.rest]
    return [*frame.front, *frame.subject, *_denied(frame), *frame.adverb, *frame.verb, *frame.rest]


def _denied(frame: Frame) -> list[str]:
    return ["cannot"] if frame.negation and frame.auxiliary == "can" else [frame.auxiliary, *frame.negation]


def _question(question: Question) -> list[str]:
    clause, asked = question.clause, question.asked
    if asked == "subject":
        return statement(clause)
    frame = _frame(clause)
    if asked == "object":
        assert isinstance(clause.predicate, Action) and clause.predicate.object is not None
        opening = noun_phrase(clause.predicate.object, position=1)
    else:
        opening = ASKING[asked]
    return [*opening, frame.auxiliary, *frame.subject, *frame.negation, *frame.adverb, *frame.verb, *frame.rest]


def _linked(linked: Linked) -> list[str]:
    first, second = statement(linked.first), statement(linked.second)
    match linked.connective:
        case "because":
            return [*second, "because", *first]
        case "if" | "although" | "while":
            return [linked.connective, *first, ",", *second]
        case "and" | "but" | "so":
            return [*first, ",", linked.connective, *second]


# --- clauses --------------------------------------------------------------------------------------------------------


def _frame(clause: Clause) -> Frame:
    person = 2 if clause.subject is None else agreement(clause.subject)
    time = [*(_hour(clause.hour) if clause.hour else ()), *(clause.time.english if clause.time else ())]
    subject = _subject(clause)
    auxiliary, finite, verb, rest = _predicate(clause, person)
    return Frame(
        front=time if clause.fronted else [],
        subject=subject,
        auxiliary=auxiliary,
        finite=finite,
        verb=verb,
        rest=rest if clause.fronted else [*rest, *time],
        adverb=list(clause.frequency.english) if clause.frequency else [],
        negation=["not"] if clause.negative else [],
    )


def _subject(clause: Clause) -> list[str]:
    match clause.predicate:
        case Falling() | Climate():
            return ["it"]
        case Weather(_, where):
            return ["the", "weather", *(where.english_at if where else ())]
        case Aching(part):
            assert isinstance(clause.subject, Pronoun)
            return [clause.subject.person.english[2], part.english]
    assert clause.subject is not None
    return noun_phrase(clause.subject)


Parts = tuple[str, list[str] | None, list[str], list[str]]


def _predicate(clause: Clause, person: int) -> Parts:
    predicate = clause.predicate
    match predicate:
        case Action():
            return _action(clause, predicate, person)
        case Origin(where):
            return _present(("come",), person, ["from", *where.english_at[1:]])
        case Priced(number, currency):
            return _present(("cost",), person, [*_words(number), *_words(currency)])
        case Aching():
            return ("did", ["hurt"], ["hurt"], []) if clause.tense == "past" else _present(("hurt",), 2, [])
        case Born(when):
            return BE["past"][person], None, [], ["born", *when.english]
        case Falling(what, where):
            return _falling(what, where, clause.tense)
    return _copula(clause.tense, person, _complement(predicate))


def _words(phrase: Phrase | None) -> list[str]:
    return list(phrase.english) if phrase else []


def _present(verb: tuple[str, ...], person: int, rest: list[str]) -> Parts:
    base, *tail = verb
    finite = _third(base) if person == 2 else base
    return "does" if person == 2 else "do", [finite, *tail], [base, *tail], rest


def _third(verb: str) -> str:
    return {"come": COME.english_third}.get(verb, verb + "s")


def _copula(tense: Tense, person: int, rest: list[str]) -> Parts:
    if tense == "future":
        return "will", None, ["be"], rest
    return BE["past" if tense == "past" else "state"][person], None, [], rest


def _falling(what: Phrase, where: Place, tense: Tense) -> Parts:
    base, third, past, ing = what.english
    rest = list(where.english_at)
    match tense:
        case "past":
            return "did", [past], [base], rest
        case "future":
            return "will", None, [base], rest
        case "ongoing":
            return "is", None, [ing], rest
        case "state" | "habit":
            return "does", [third], [base], rest


def _complement(predicate: Predicate) -> list[str]:
    match predicate:
        case Quality(adjective, degree):
            return [*(degree.english if degree else ()), adjective.english]
        case Comparison(adjective, standard, True):
            return ["as", adjective.english, "as", *noun_phrase(standard)]
        case Comparison(adjective, standard, False):
            return [*adjective.english_comparative, "than", *noun_phrase(standard)]
        case Occupation(noun):
            return with_article(noun.english.split())
        case Located(where):
            return _where(where)
        case Aged(number):
            return [*number.english, "years", "old"] if number else []
        case Climate(adjective, where):
            return [adjective.english, *where.english_at]
        case Weather(adjective):
            return [adjective.english]
    raise AssertionError(predicate)


def _action(clause: Clause, action: Action, person: int) -> Parts:
    verb, rest = action.verb, _rest(action)
    if action.gladly:
        return _present(("like", "to", verb.english), person, rest)
    if clause.modal:
        if clause.modal.english == ("want", "to"):
            return _present(("want", "to", verb.english), person, rest)
        return clause.modal.english[0], None, [verb.english], rest
    match clause.tense:
        case "past":
            return "did", [verb.english_past], [verb.english], rest
        case "future":
            return "will", None, [verb.english], rest
        case "ongoing":
            return BE["state"][person], None, [verb.english_ing], rest
        case "state" | "habit":
            finite = verb.english_third if person == 2 else verb.english
            return "does" if person == 2 else "do", [finite], [verb.english], rest


def _rest(action: Action) -> list[str]:
    """Gives what follows the verb: object, goal, company, means, place, purpose; not what a question has fronted."""
    words = list(action.verb.english_tail)
    if action.recipient:
        words += noun_phrase(action.recipient, position=1)
    if action.object and not _fronted(action.object):
        words += noun_phrase(action.object, position=1)
    words += action.verb.english_particle
    if isinstance(action.goal, Spot):
        words += _where(action.goal)
    elif action.goal:
        words += action.goal.english_to
    if action.manner:
        words += action.manner.english
    if action.companion:
        words += ["with", *noun_phrase(action.companion, position=1)]
    if action.vehicle:
        words += ["by", action.vehicle.english]
    if action.place:
        words += action.place.english_at
    if action.duration:
        words += ["for", *action.duration[0].english, *action.duration[1].english]
    if action.purpose:
        words += ["to", action.purpose.verb.english, *_rest(action.purpose)]
    return words


def _fronted(thing: NounPhrase) -> bool:
    return isinstance(thing, Asked) or (isinstance(thing, Nominal) and thing.determiner.kind in ("which", "how many"))


def _where(where: Place | Spot) -> list[str]:
    if isinstance(where, Spot):
        return [*where.relation.english, "the", *where.noun.english.split()]
    return list(where.english_at)


def _hour(hour: Hour) -> list[str]:
    if hour.half:
        return ["at", "half", "past", *hour.hour.english]
    return ["at", *hour.hour.english, "o'clock"]


# --- noun phrases ---------------------------------------------------------------------------------------------------


def noun_phrase(phrase: NounPhrase, *, position: int = 0) -> list[str]:
    """Gives the words of a noun phrase; position 0 is a subject's, 1 an object's."""
    match phrase:
        case Pronoun(person):
            return [person.english[position]]
        case Named(name):
            return list(name.english)
        case Nominal():
            return _nominal(phrase)
        case Measured(number, measure, stuff):
            head = [*number.english, measure.english_plural] if number else with_article([measure.english])
            return [*head, "of", *stuff.english_plural.split()]
        case Both(first, second):
            return [*noun_phrase(first), "and", *noun_phrase(second)]
        case Described(noun, clause):
            return ["the", *noun.english.split(), "that", *statement(clause)]
        case Gap():
            return []
        case Asked():
            return ["who"] if position == 0 else ["what"]


def _nominal(phrase: Nominal) -> list[str]:
    noun, determiner = phrase.noun, phrase.determiner
    words = (noun.english_plural if determiner.plural else noun.english).split()
    if phrase.quality:
        words.insert(0, phrase.quality.english)
    match determiner.kind:
        case "a":
            return with_article(words)
        case "bare":
            return words
        case "count":
            return [*_words(determiner.number), *words]
        case "these":
            return ["these", *_words(determiner.number), *words]
        case "own":
            assert determiner.owner is not None
            return [determiner.owner.english[2], *words]
        case "how many":
            return ["how", "many", *words]
        case "the" | "this" | "many" | "some" | "which":
            return [determiner.kind, *words]


def with_article(words: list[str]) -> list[str]:
    """Gives the words after a or an, by the sound that follows."""
    return ["an" if words[0][0] in "aeiouAEIOU" else "a", *words]
