"""Says a meaning in Chinese: time and place before the verb, measure words, 了, 把, 的."""

from calque_phrasebook.lexicon.lexemes import Phrase, Place
from calque_phrasebook.lexicon.people import RELATIVES
from calque_phrasebook.lexicon.times import TOO
from calque_phrasebook.lexicon.verbs import GIVING, LIVE
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
)  # fmt: skip


def sentence(meaning: Sentence) -> list[str]:
    """Gives the words and marks of a meaning in Chinese."""
    match meaning:
        case Statement(clause):
            return [*_clause(clause), "。"]
        case Question(clause, "whether"):
            return [*_clause(clause), "吗", "？"]
        case Question(clause, asked):
            return [*_clause(clause, asked=asked), "？"]
        case Command(action, negative):
            return ["请", *(["不要"] if negative else []), *_core(action, completed=False), "。"]
        case Suggestion(action):
            return ["我们", *_core(action, completed=False), "吧", "。"]
        case Linked():
            return [*_linked(meaning), "。"]
        case Report(subject, verb, clause, "that"):
            return [*noun_phrase(subject), verb.chinese, *_clause(clause), "。"]
        case Report(subject, verb, clause, "whether"):
            return [*noun_phrase(subject), verb.chinese, *_clause(clause, inserted=("是不是",)), "。"]
        case Existence(where, thing):
            return [*_where(where), "有", *noun_phrase(thing), "。"]
        case Presentation(thing):
            return ["这", "是", *noun_phrase(thing), "。"]
        case ClockTime(hour):
            return ["现在", "是", *_hour(hour), "。"]
    raise AssertionError(meaning)


def _linked(linked: Linked) -> list[str]:
    first, second = _clause(linked.first), _clause(linked.second)
    match linked.connective:
        case "because":
            return ["因为", *first, "，", "所以", *second]
        case "if":
            return ["如果", *first, "，", *_clause(linked.second, inserted=("就",))]
        case "although":
            return ["虽然", *first, "，", "但是", *second]
        case "while":
            return [*first, "的", "时候", "，", *second]
        case "and":
            return [*first, "，", *second]
        case "but":
            return [*first, "，", "但是", *second]
        case "so":
            return [*first, "，", "所以", *second]


# --- clauses --------------------------------------------------------------------------------------------------------


def _clause(clause: Clause, *, asked: QuestionKind | None = None, inserted: tuple[str, ...] = ()) -> list[str]:
    """Gives subject, time and predicate; `inserted` stands before the predicate (就, 是不是)."""
    time = [*(clause.time.chinese if clause.time else ()), *(_hour(clause.hour) if clause.hour else ())]
    if asked == "time":
        time = ["什么时候"]
    adverbs = [*(clause.frequency.chinese if clause.frequency else ()), *(["为什么"] if asked == "reason" else [])]
    subject = _subject(clause)
    first = clause.fronted or clause.subject is None
    opening = [*time, *subject] if first else [*subject, *time]
    return [*opening, *adverbs, *inserted, *_predicate(clause, asked)]


def _subject(clause: Clause) -> list[str]:
    match clause.predicate:
        case Falling(_, where) | Climate(_, where):
            return [where.chinese]
        case Weather(_, None):
            return ["天气"]
        case Weather(_, Place() as where):
            return [where.chinese, "的", "天气"]
    assert clause.subject is not None
    return noun_phrase(clause.subject)


def _predicate(clause: Clause, asked: QuestionKind | None) -> list[str]:
    negative = clause.negative
    match clause.predicate:
        case Action() as action:
            return _action(clause, action, asked)
        case Quality() | Climate() | Weather():
            return _quality(clause, clause.predicate)
        case Comparison(adjective, standard, True):
            if negative:
                return ["没有", *noun_phrase(standard), "那么", adjective.chinese]
            return ["跟", *noun_phrase(standard), "一样", adjective.chinese]
        case Comparison(adjective, standard, False):
            return ["比", *noun_phrase(standard), adjective.chinese]
        case Occupation(noun):
            return [*(["不"] if negative else []), "是", noun.chinese]
        case Located(where):
            return [*(["不"] if negative else []), "在", *_where(where)]
        case Origin(where):
            return ["来自", where.chinese]
        case Priced(number, currency):
            return [*number.chinese, *currency.chinese] if number and currency else ["多少", "钱"]
        case Aged(number):
            return [*number.chinese, "岁"] if number else ["多大"]
        case Born(when):
            return ["是", *when.chinese, "出生", "的"]
        case Aching(part):
            return [part.chinese, "疼"]
        case Falling(what):
            return _falling(clause, what)
    raise AssertionError(clause.predicate)


def _quality(clause: Clause, predicate: Quality | Climate | Weather) -> list[str]:
    adjective = predicate.adjective
    degree = predicate.degree if isinstance(predicate, Quality) else None
    future = ["会"] if clause.tense == "future" else []
    if adjective.colour:
        return [*(["不"] if clause.negative else []), "是", adjective.chinese, "的"]
    if clause.negative:
        return ["不", *future, adjective.chinese]
    if degree is TOO:
        return ["太", adjective.chinese, "了"]
    return [*future, *(degree.chinese if degree else ("很",)), adjective.chinese]


def _falling(clause: Clause, what: Phrase) -> list[str]:
    match clause.tense, clause.negative:
        case "past", False:
            return [*what.chinese, "了"]
        case ("past", True) | ("ongoing", True):
            return ["没", *what.chinese]
        case "ongoing", False:
            return ["在", *what.chinese]
        case "future", _:
            return ["会", *what.chinese]
    return list(what.chinese)


def _action(clause: Clause, action: Action, asked: QuestionKind | None) -> list[str]:
    open_place = isinstance(action.object, Gap)
    completed = clause.tense == "past" and not clause.negative and not open_place
    if action.manner:
        return [action.verb.chinese, "得", "不" if clause.negative else "很", *action.manner.chinese]
    return [*_auxiliary(clause, action), *_core(action, completed=completed, asked=asked)]


def _auxiliary(clause: Clause, action: Action) -> list[str]:
    negation = ["不"] if clause.negative else []
    if action.gladly:
        return [*negation, "喜欢"]
    if clause.modal:
        return [*negation, clause.modal.chinese]
    match clause.tense:
        case "past":
            return ["没"] if clause.negative else []
        case "future":
            return [*negation, "会"]
        case "ongoing":
            return ["正在"]
        case "state" | "habit":
            return ["没"] if negation and action.verb.chinese == "有" else negation


def _core(action: Action, *, completed: bool, asked: QuestionKind | None = None) -> list[str]:
    """Gives circumstances, verb and object; 了 follows the verb, or the last of two verbs."""
    verb = action.verb
    if action.purpose:
        assert isinstance(action.goal, Place)
        return [verb.chinese, action.goal.chinese, *_core(action.purpose, completed=completed)]
    perfective = ["了"] if completed else []
    before, after = _objects(action)
    words = [*_circumstances(action, asked), *before, verb.chinese]
    if verb is LIVE or isinstance(action.goal, Spot):
        words.append("在")
    words += [*perfective, *after, *verb.chinese_object, *_goal(action, asked)]
    if action.duration:
        words += [*action.duration[0].chinese, *action.duration[1].chinese]
    return words


def _objects(action: Action) -> tuple[list[str], list[str]]:
    """Gives what stands before the verb (给 someone, 把 something) and what stands after it."""
    before: list[str] = []
    after: list[str] = []
    if action.recipient:
        recipient = noun_phrase(action.recipient)
        if action.verb in GIVING:
            after += recipient
        else:
            before += ["给", *recipient]
    if action.object:
        thing = ["什么"] if isinstance(action.object, Asked) else noun_phrase(action.object)
        if action.verb.coverb:
            before += [*action.verb.coverb, *thing]
        elif _disposed(action.object):
            before += ["把", *thing]
        else:
            after += thing
    return before, after


def _disposed(thing: NounPhrase) -> bool:
    return isinstance(thing, Nominal) and thing.determiner.kind == "the" and not thing.noun.german_feminine


def _circumstances(action: Action, asked: QuestionKind | None) -> list[str]:
    words: list[str] = []
    if action.companion:
        words += ["跟", *noun_phrase(action.companion), "一起"]
    if asked == "place":
        words += ["在", "哪里"]
    if action.place and action.verb is not LIVE:
        words += ["在", *_where(action.place)]
    if action.vehicle:
        words += ["坐", action.vehicle.chinese]
    if asked == "means":
        words += ["怎么"]
    return words


def _goal(action: Action, asked: QuestionKind | None) -> list[str]:
    if asked == "goal":
        return ["哪里"]
    if action.verb is LIVE and action.place:
        return [action.place.chinese]
    if isinstance(action.goal, Spot):
        return _where(action.goal)
    return [action.goal.chinese] if action.goal else []


def _where(where: Place | Spot) -> list[str]:
    if isinstance(where, Spot):
        return [where.noun.chinese, where.relation.chinese]
    return list(where.chinese_at)


def _hour(hour: Hour) -> list[str]:
    return [*hour.hour.chinese, "点", *(["半"] if hour.half else [])]


# --- noun phrases ---------------------------------------------------------------------------------------------------


def noun_phrase(phrase: NounPhrase) -> list[str]:
    """Gives the words of a noun phrase."""
    match phrase:
        case Pronoun(person):
            return [person.chinese]
        case Named(name):
            return list(name.chinese)
        case Nominal():
            return _nominal(phrase)
        case Measured(number, measure, stuff):
            return [*(number.chinese if number else ("一",)), measure.chinese, stuff.chinese]
        case Both(first, second):
            return [*noun_phrase(first), "和", *noun_phrase(second)]
        case Described(noun, clause):
            return [*_clause(clause), "的", noun.chinese]
        case Gap():
            return []
        case Asked():
            return ["谁"]


def _nominal(phrase: Nominal) -> list[str]:
    noun, determiner = phrase.noun, phrase.determiner
    number = list(determiner.number.chinese) if determiner.number else []
    words = [*(phrase.quality.chinese_attribute if phrase.quality else ()), noun.chinese]
    match determiner.kind:
        case "the" | "bare":
            return words
        case "a":
            return ["一", noun.classifier, *words]
        case "this":
            return ["这", noun.classifier, *words]
        case "which":
            return ["哪", noun.classifier, *words]
        case "how many":
            return ["几", noun.classifier, *words]
        case "count":
            return [*number, noun.classifier, *words]
        case "these":
            return ["这", *number, noun.classifier, *words] if number else ["这些", *words]
        case "many":
            return ["很多", *words]
        case "some":
            return ["一些", *words]
        case "own":
            assert determiner.owner is not None
            particle = [] if noun in RELATIVES else ["的"]
            return [determiner.owner.chinese, *particle, *words]
