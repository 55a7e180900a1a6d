"""Expresses a meaning in Chinese: time and place before the verb, measure words, 了, 把, 的."""

from collections.abc import Sequence
from typing import NamedTuple

from calque_phrasebook.lexicon.lexemes import Place, Precipitation, Verb
from calque_phrasebook.lexicon.times import TOO
from calque_phrasebook.lexicon.verbs import COME, GIVING, LIVE
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
    Connective,
    Described,
    Existence,
    Falling,
    Gap,
    Linked,
    Located,
    Nominal,
    NounPhrase,
    Occupation,
    Origin,
    Presentation,
    Priced,
    Quality,
    Question,
    QuestionKind,
    Report,
    Sentence,
    Spot,
    Statement,
    Suggestion,
    Weather,
)  # fmt: skip
from calque_phrasebook.realisation import chinese_phrases as zh
from calque_phrasebook.realisation.words import SENTENCE, Part, Word, spell, tense_part, verb_parts


def sentence(meaning: Sentence) -> list[Word]:
    """Returns the words and punctuation marks of a meaning in Chinese."""
    at = SENTENCE
    match meaning:
        case Statement(clause):
            return [*_clause(clause, at=at / "clause"), *spell("。")]
        case Question(clause, "whether"):
            return [*_clause(clause, at=at / "clause"), *spell("吗"), *spell("？")]
        case Question(clause, asked):
            return [*_clause(clause, at=at / "clause", asking=Asking(asked, at / "asked")), *spell("？")]
        case Command(action, negative):
            denial = spell("不要", at / "negative") if negative else []
            return [*spell("请", at / "please"), *denial, *_core(action, at=at / "action"), *spell("。")]
        case Suggestion(action):
            core = _core(action, at=at / "action")
            return [*spell("我们", at / "us"), *core, *spell("吧", at / "let"), *spell("。")]
        case Linked():
            return [*_linked(meaning, at=at), *spell("。")]
        case Report(subject, verb, clause, complementiser):
            opening = [*_noun_phrase(subject, at=at / "subject"), *spell(verb.chinese, at / "verb")]
            whether = spell("是不是", at / "complementiser") if complementiser == "whether" else []
            return [*opening, *_clause(clause, at=at / "clause", inserted=whether), *spell("。")]
        case Existence(where, thing):
            there = spell("有", at / "verb", at / "expletive")
            return [*zh.where(where, at=at / "where"), *there, *_noun_phrase(thing, at=at / "thing"), *spell("。")]
        case Presentation(thing):
            opening = [*spell("这", at / "this"), *spell("是", at / "copula")]
            return [*opening, *_noun_phrase(thing, at=at / "thing"), *spell("。")]
        case ClockTime(hour):
            opening = [*spell("现在", at / "now"), *spell("是", at / "copula")]
            return [*opening, *zh.clock_time(hour, at=at / "hour"), *spell("。")]


# words before the first clause, after it, before the second clause, and before the second predicate
CONNECTIVES: dict[Connective, tuple[str, str, str, str]] = {
    "because": ("因为", "", "所以", ""),
    "if": ("如果", "", "", "就"),
    "although": ("虽然", "", "但是", ""),
    "while": ("", "的 时候", "", ""),
    "and": ("", "", "", ""),
    "but": ("", "", "但是", ""),
    "so": ("", "", "所以", ""),
}


def _linked(linked: Linked, *, at: Part) -> list[Word]:
    before, behind, between, inside = (spell(text, at / "connective") for text in CONNECTIVES[linked.connective])
    first = _clause(linked.first, at=at / "first")
    second = _clause(linked.second, at=at / "second", inserted=inside)
    return [*before, *first, *behind, *spell("，"), *between, *second]


# --- clauses --------------------------------------------------------------------------------------------------------


class Asking(NamedTuple):
    """The kind of a question and the part of the meaning it asks for; question words stand where the answer would."""

    kind: QuestionKind
    at: Part

    def words(self, kind: QuestionKind, text: str) -> list[Word]:
        """Returns the question words `text` if the question is of this kind, otherwise no words."""
        return spell(text, self.at) if self.kind == kind else []


NOTHING_ASKED = Asking("whether", SENTENCE)


def _clause(clause: Clause, *, at: Part, asking: Asking = NOTHING_ASKED, inserted: Sequence[Word] = ()) -> list[Word]:
    """Returns the words of a clause; `inserted` stands before the predicate (就, 是不是)."""
    hour = zh.clock_time(clause.hour, at=at / "hour") if clause.hour else []
    time = [*zh.fixed(clause.time, at=at / "time"), *hour, *asking.words("time", "什么时候")]
    adverbs = [*zh.fixed(clause.frequency, at=at / "frequency"), *asking.words("reason", "为什么")]
    subject = _subject(clause, at=at)
    opening = [*time, *subject] if clause.fronted or clause.subject is None else [*subject, *time]
    return [*opening, *adverbs, *inserted, *_predicate(clause, at=at, asking=asking)]


def _subject(clause: Clause, *, at: Part) -> list[Word]:
    where = at / "predicate" / "where"
    match clause.predicate:
        case Falling(_, place) | Climate(_, place):
            return spell(place.chinese, where)
        case Weather(_, place):
            town = [*spell(place.chinese, where), *spell("的", where / "preposition")] if place else []
            return [*town, *spell("天气", at / "predicate" / "weather")]
    assert clause.subject is not None
    return _noun_phrase(clause.subject, at=at / "subject")


def _predicate(clause: Clause, *, at: Part, asking: Asking) -> list[Word]:
    denial = spell("不", at / "negative") if clause.negative else []
    says = at / "predicate"
    copula = says / "copula"
    match clause.predicate:
        case Action() as action:
            return _action(clause, action, at=at, asking=asking)
        case Quality() | Climate() | Weather():
            return _quality(clause, clause.predicate, at=at)
        case Comparison():
            return _comparison(clause.predicate, at=says, denied=at / "negative" if clause.negative else None)
        case Occupation(noun):
            return [*denial, *spell("是", copula), *spell(noun.chinese, says / "noun")]
        case Located(where):
            relation = says / "where" / ("relation" if isinstance(where, Spot) else "preposition")
            return [*denial, *spell("在", copula, relation), *zh.where(where, at=says / "where")]
        case Origin(where):
            verb = spell(COME.chinese, says / "verb", says / "where" / "preposition")
            return [*verb, *spell(where.chinese, says / "where")]
        case Priced(number, currency):
            price = [*zh.fixed(number, at=says / "number"), *zh.fixed(currency, at=says / "currency")]
            return [*price, *_asked_amount(asking, "price", "多少 钱")]
        case Aged(number):
            years = spell("岁", says / "years", says / "age") if number else []
            return [*zh.fixed(number, at=says / "number"), *years, *_asked_amount(asking, "age", "多大")]
        case Born(when):
            time = zh.fixed(when, at=says / "when")
            return [*spell("是", copula), *time, *spell("出生", says / "verb"), *spell("的")]
        case Aching(part):
            return [*spell(part.chinese, says / "part"), *spell("疼", says / "verb")]
        case Falling(what):
            return _falling(clause, what, at=at)


def _asked_amount(asking: Asking, kind: QuestionKind, text: str) -> list[Word]:
    return spell(text, asking.at, asking.at / "scale") if asking.kind == kind else []


def _quality(clause: Clause, predicate: Quality | Climate | Weather, *, at: Part) -> list[Word]:
    says = at / "predicate"
    adjective = spell(predicate.adjective.chinese, says / "adjective")
    degree = predicate.degree if isinstance(predicate, Quality) else None
    future = spell("会", *tense_part(clause, at=at)) if clause.tense == "future" else []
    denial = spell("不", at / "negative") if clause.negative else []
    if predicate.adjective.colour:
        return [*denial, *spell("是", says / "copula"), *adjective, *spell("的", says / "adjective")]
    if clause.negative:
        return [*denial, *future, *adjective]
    if degree is TOO:
        return [*zh.fixed(degree, at=says / "degree"), *adjective, *spell("了", says / "degree")]
    return [*future, *(zh.fixed(degree, at=says / "degree") or spell("很")), *adjective]


def _comparison(comparison: Comparison, *, at: Part, denied: Part | None) -> list[Word]:
    adjective = spell(comparison.adjective.chinese, at / "adjective")
    standard = _noun_phrase(comparison.standard, at=at / "standard")
    comparator, equality = at / "comparator", at / "equality"
    if not comparison.equal:
        return [*spell("比", comparator), *standard, *adjective]
    if denied:
        return [*spell("没有", denied, comparator), *standard, *spell("那么", equality), *adjective]
    return [*spell("跟", comparator), *standard, *spell("一样", equality), *adjective]


def _falling(clause: Clause, what: Precipitation, *, at: Part) -> list[Word]:
    verb, tense = spell(what.chinese, at / "predicate" / "what"), tense_part(clause, at=at)
    match clause.tense, clause.negative:
        case "past", False:
            return [*verb, *spell("了", *tense)]
        case ("past", True) | ("ongoing", True):
            return [*spell("没", at / "negative", *tense), *verb]
        case "ongoing", False:
            return [*spell("在", *tense), *verb]
        case "future", _:
            return [*spell("会", *tense), *verb]
    return verb


# --- actions --------------------------------------------------------------------------------------------------------


def _action(clause: Clause, action: Action, *, at: Part, asking: Asking) -> list[Word]:
    says = at / "predicate"
    if action.manner:
        verb = spell(action.verb.chinese, *_says(action.verb, at=says / "verb"))
        degree = spell("不", at / "negative") if clause.negative else spell("很")
        return [*verb, *spell("得"), *degree, *zh.fixed(action.manner, at=says / "manner")]
    completed = clause.tense == "past" and not clause.negative and not isinstance(action.object, Gap)
    perfective = spell("了", *tense_part(clause, at=at)) if completed else []
    return [*_auxiliary(clause, action, at=at), *_core(action, at=says, perfective=perfective, asking=asking)]


def _auxiliary(clause: Clause, action: Action, *, at: Part) -> list[Word]:
    denial = spell("不", at / "negative") if clause.negative else []
    tense = tense_part(clause, at=at)
    if action.gladly:
        return [*denial, *spell("喜欢", at / "predicate" / "gladly")]
    if clause.modal:
        return [*denial, *spell(clause.modal.chinese, at / "modal")]
    match clause.tense:
        case "past":
            return spell("没", at / "negative", *tense) if clause.negative else []
        case "future":
            return [*denial, *spell("会", *tense)]
        case "ongoing":
            return spell("正在", *tense)
        case "state" | "habit":
            return spell("没", at / "negative") if clause.negative and action.verb.chinese == "有" else denial


def _says(verb: Verb, *, at: Part) -> tuple[Part, ...]:
    return verb_parts(at, complement=bool(verb.chinese_complement), preposition=bool(verb.chinese_coverb))


def _core(action: Action, *, at: Part, perfective: Sequence[Word] = (), asking: Asking = NOTHING_ASKED) -> list[Word]:
    """Returns the words of an action; the perfective 了 follows the verb, or the last of two verbs."""
    verb = action.verb
    head = spell(verb.chinese, *_says(verb, at=at / "verb"))
    if action.purpose:
        assert isinstance(action.goal, Place)
        goal = spell(action.goal.chinese, at / "goal")
        return [*head, *goal, *_core(action.purpose, at=at / "purpose", perfective=perfective)]
    before, after = _objects(action, at=at)
    words = [*_circumstances(action, at=at, asking=asking), *before, *head]
    if verb is LIVE:
        words += spell("在", at / "place" / "preposition")
    elif isinstance(action.goal, Spot):
        words += spell("在", at / "goal" / "relation")
    complement = spell(" ".join(verb.chinese_complement), at / "verb" / "complement")
    words += [*perfective, *after, *complement, *_goal(action, at=at, asking=asking)]
    if action.duration:
        words += zh.fixed(action.duration.number, at=at / "duration" / "number")
        words += spell(action.duration.unit.classifier)
        words += spell(action.duration.unit.chinese, at / "duration" / "unit")
    return words


def _objects(action: Action, *, at: Part) -> tuple[list[Word], list[Word]]:
    """Returns the objects that stand before the verb (给 someone, 把 something), and those that stand after it."""
    before: list[Word] = []
    after: list[Word] = []
    if action.recipient:
        recipient = _noun_phrase(action.recipient, at=at / "recipient")
        if action.verb in GIVING:
            after += recipient
        else:
            before += [*spell("给"), *recipient]
    if action.object:
        is_asked = isinstance(action.object, Asked)
        thing = spell("什么", at / "object") if is_asked else _noun_phrase(action.object, at=at / "object")
        if action.verb.chinese_coverb:
            before += [*spell(" ".join(action.verb.chinese_coverb), at / "verb" / "preposition"), *thing]
        elif _disposed(action.object):
            before += [*spell("把"), *thing]
        else:
            after += thing
    return before, after


def _disposed(thing: NounPhrase) -> bool:
    return isinstance(thing, Nominal) and thing.determiner.kind == "the" and not thing.noun.german_feminine


def _circumstances(action: Action, *, at: Part, asking: Asking) -> list[Word]:
    words: list[Word] = []
    if action.companion:
        company = at / "companion" / "preposition"
        words += [*spell("跟", company), *_noun_phrase(action.companion, at=at / "companion"), *spell("一起", company)]
    words += asking.words("place", "在 哪里")
    if action.place and action.verb is not LIVE:
        words += [*spell("在", at / "place" / "preposition"), *zh.where(action.place, at=at / "place")]
    if action.vehicle:
        words += spell("坐", at / "vehicle" / "preposition")
        words += spell(action.vehicle.chinese, at / "vehicle")
    return [*words, *asking.words("means", "怎么")]


def _goal(action: Action, *, at: Part, asking: Asking) -> list[Word]:
    if action.verb is LIVE and action.place:
        return spell(action.place.chinese, at / "place")
    if isinstance(action.goal, Spot):
        return zh.where(action.goal, at=at / "goal")
    if action.goal:
        return spell(action.goal.chinese, at / "goal")
    return asking.words("goal", "哪里")


def _noun_phrase(phrase: NounPhrase, *, at: Part) -> list[Word]:
    if isinstance(phrase, Described):
        relative = [*_clause(phrase.clause, at=at / "clause"), *spell("的", at / "relative")]
        return [*relative, *spell(phrase.noun.chinese, at / "noun")]
    return zh.noun_phrase(phrase, at=at)
