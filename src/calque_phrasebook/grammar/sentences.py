"""The grammar rules that generate whole sentences, the start rule among them."""

from functools import partial
from random import Random

from calque_phrasebook.grammar import actions, brief, clauses, phrases, states, tenses, weather
from calque_phrasebook.grammar.rules import Rule, build, choose, productions, word
from calque_phrasebook.lexicon import adjectives as adjectives
from calque_phrasebook.lexicon import nouns as nouns
from calque_phrasebook.lexicon import places as places
from calque_phrasebook.lexicon import times as times
from calque_phrasebook.lexicon import verbs as verbs
from calque_phrasebook.lexicon.lexemes import Modal, Phrase, Place, Verb
from calque_phrasebook.meaning import (
    Action,
    Aged,
    Asked,
    Clause,
    ClockTime,
    Command,
    Connective,
    Existence,
    Hour,
    Linked,
    Nominal,
    NounPhrase,
    Presentation,
    Priced,
    Question,
    QuestionKind,
    Report,
    Sentence,
    Spot,
    Statement,
    Suggestion,
    Tense,
)

# --- statements -----------------------------------------------------------------------------------------------------

_statements = choose(
    "statement of what is done",
    (40, clauses.handling),
    (8, clauses.everyday),
    (5, clauses.happening),
    (11, clauses.consuming),
    (5, clauses.wearing),
    (8, clauses.speaking),
    (20, clauses.disposal),
    (4, clauses.purchase),
    (20, clauses.meeting),
    (8, clauses.giving),
    (29, clauses.doing),
    (12, clauses.trip),
    (4, clauses.lasting),
    (10, clauses.skill),
    (11, clauses.routine),
)
_states = choose(
    "statement of what is",
    (7, states.mood),
    (9, states.character),
    (26, states.thing_quality),
    (7, states.described),
    (18, states.comparison),
    (15, states.occupation),
    (6, states.needing),
    (6, states.taste),
    (2, states.resource),
    (8, states.enjoying),
    (13, states.feeling),
    (11, states.living),
    (6, states.located),
    (6, states.located_thing),
    (5, states.price),
    (4, states.age),
    (10, states.born),
    (6, states.aching),
    (17, weather.reports),
)
done = build("done", Statement, _statements)
being = build("being", Statement, _states)

# --- other plain sentences ------------------------------------------------------------------------------------------

_there = choose(
    "there determiner", (40, phrases.only(phrases.A)), (45, phrases.counted), (15, phrases.only(phrases.MANY))
)


def _existence(kind: str, where: Rule[Place] | Rule[Spot]) -> tuple[float, Rule[Sentence]]:
    members = word(kind, nouns.CLASSES[kind])
    plain = build("thing there", Nominal, members, _there)
    several = choose("several", (70, phrases.counted), (30, phrases.only(phrases.MANY)))
    shown = build("described thing there", Nominal, members, several, word("quality", adjectives.attributes(kind)))
    thing = choose("what there is", (60, plain), (40, shown))
    return float(len(nouns.CLASSES[kind])) ** 0.5, build("existence", Existence, where, thing)


def _open_places(*names: str) -> Rule[Place]:
    return word("open place", [place for place in places.PLACES if place.english[-1] in names])


existence: Rule[Sentence] = choose(
    "existences",
    *(_existence(kind, actions.spot) for kind in ("belonging", "print", "gift", "tableware", "fruit")),
    _existence("animal", _open_places("park", "garden", "village", "forest", "zoo")),
    _existence("wild", _open_places("zoo", "forest")),
    _existence("scenery", _open_places("village", "centre", "park")),
)


def _presentation(kind: str) -> tuple[float, Rule[Sentence]]:
    members = word(kind, nouns.CLASSES[kind])
    quality = word("quality", adjectives.core_attributes(kind))
    shown = build("something such", Nominal, members, phrases.only(phrases.A), quality)
    mine = build("owned thing", Nominal, members, phrases.owned)
    return float(len(nouns.CLASSES[kind])) ** 0.5, build(
        "presentation", Presentation, choose("what this is", (75, shown), (25, mine))
    )


presentation: Rule[Sentence] = choose(
    "presentations",
    *(
        _presentation(kind)
        for kind in adjectives.DESCRIPTIONS
        if kind != "opening" and adjectives.core_attributes(kind)
    ),
    (
        3,
        build(
            "presentation of people",
            Presentation,
            choose("who this is", (1, phrases.single_relative), (1, phrases.companion)),
        ),
    ),
)
clock = build("clock time", ClockTime, build("hour", Hour, word("hours", times.HOURS), word("half", (False, True))))
_orderable = choose("orderable", (40, actions.disposal), (40, actions.placement))
command = build(
    "command", Command, _orderable, choose("denial", (3, word("affirmed", (False,))), (1, word("denied", (True,))))
)
suggestion = build(
    "suggestion",
    Suggestion,
    choose("suggestible", (30, actions.handling), (20, actions.consuming), (30, actions.doing), (20, actions.journey)),
)

# --- questions ------------------------------------------------------------------------------------------------------

_asked_person = phrases.someone_asked


def _ask(clause: Clause) -> Question:
    return Question(clause, "whether")


_whether = choose(
    "what may be so",
    (16, tenses.past(_asked_person, actions.handling, fronting=tenses.in_place)),
    (8, tenses.future(_asked_person, actions.handling, fronting=tenses.in_place)),
    (10, tenses.modal(_asked_person, actions.handling)),
    (8, tenses.modal(_asked_person, actions.doing)),
    (8, tenses.past(_asked_person, actions.trip, fronting=tenses.in_place)),
    (8, tenses.past(_asked_person, actions.consuming, fronting=tenses.in_place)),
    (7, tenses.state(_asked_person, actions.needing)),
    (7, tenses.state(_asked_person, actions.taste)),
    (8, brief.question_mood),
    (6, tenses.state(_asked_person, actions.living)),
    (5, brief.thing_question),
    (5, brief.happening_question),
)
yes_no = build("yes or no", _ask, _whether)


def _who(action: Action, time: Phrase, *, tense: Tense) -> Question:
    return Question(Clause(Asked(), action, tense, time=time), "subject")


_past_time, _future_time = word("past time", times.PAST), word("future time", times.FUTURE + times.WEEKDAYS)
_someones = choose("someone's deed", (50, actions.handling), (25, actions.trip), (25, actions.consuming))
who = choose(
    "who",
    (60, build("who did", partial(_who, tense="past"), _someones, _past_time)),
    (40, build("who will", partial(_who, tense="future"), _someones, _future_time)),
)


def _what(subject: NounPhrase, action: Action, time: Phrase, *, tense: Tense) -> Question:
    return Question(Clause(subject, action, tense, time=time), "object")


def _open_action(verb: Verb) -> Action:
    return Action(verb, Asked())


_open = build("open object", _open_action, word("open verb", verbs.ACTIONS + verbs.EVENTS))
_numbered = choose(
    "numbered object",
    *(
        (1, build("how many things", partial(Action, verb), phrases.of_classes(verb, phrases.how_many_things)))
        for verb in verbs.ACTIONS
    ),
)
_open_later = build("open object to come", _open_action, word("open verb", verbs.ACTIONS))
_what_object = choose("what object", (45, _open), (55, _numbered))
_what_later = choose("what object to come", (45, _open_later), (55, _numbered))
what = choose(
    "what",
    (60, build("what was", partial(_what, tense="past"), _asked_person, _what_object, _past_time)),
    (40, build("what will be", partial(_what, tense="future"), _asked_person, _what_later, _future_time)),
)


def _wanted(subject: NounPhrase, action: Action) -> Question:
    return Question(Clause(subject, action), "object")


_which_action = choose(
    "which wanted thing",
    *(
        (1, build("which thing", partial(Action, verb), phrases.of_classes(verb, phrases.which_things)))
        for verb in verbs.NEEDS[:1]
    ),
    (
        1,
        build(
            "which liked thing",
            partial(Action, verbs.TASTES[0]),
            phrases.of_classes(verbs.TASTES[0], phrases.which_things),
        ),
    ),
)
which = build("which", _wanted, _asked_person, _which_action)


def _asking_modal(subject: NounPhrase, action: Action, modal: Modal, *, asked: QuestionKind) -> Question:
    return Question(Clause(subject, action, modal=modal), asked)


def _asking_future(subject: NounPhrase, action: Action, *, asked: QuestionKind) -> Question:
    return Question(Clause(subject, action, "future"), asked)


def _whither(subject: NounPhrase, time: Phrase) -> Question:
    return Question(Clause(subject, Action(verbs.GO), "past", time=time), "goal")


def _why_not(subject: NounPhrase, action: Action, time: Phrase) -> Question:
    return Question(Clause(subject, action, "past", negative=True, time=time), "reason")


_some_modal = word("modal", verbs.MODALS)
_placeless = choose("placeless", (50, actions.activity), (50, actions.handling))
_doable = choose("doable", (35, actions.handling), (20, actions.doing), (25, actions.journey), (20, actions.disposal))
where = build("where", partial(_asking_modal, asked="place"), _asked_person, _placeless, _some_modal)
toward = build("where to", _whither, _asked_person, _past_time)
when = choose(
    "when",
    (50, build("when will", partial(_asking_future, asked="time"), _asked_person, _doable)),
    (50, build("when may", partial(_asking_modal, asked="time"), _asked_person, _doable, _some_modal)),
)
_undone = choose("undone", (50, actions.negated_handling), (25, actions.journey), (25, actions.doing))
why = choose(
    "why",
    (50, build("why want", partial(_asking_modal, asked="reason"), _asked_person, _doable, _some_modal)),
    (50, build("why not", _why_not, _asked_person, _undone, _past_time)),
)
_reachable = choose("reachable", (50, actions.going), (50, actions.travelling))
how = build("how", partial(_asking_future, asked="means"), _asked_person, _reachable)


def _how_much(thing: NounPhrase) -> Question:
    return Question(Clause(thing, Priced()), "price")


def _how_old(person: NounPhrase) -> Question:
    return Question(Clause(person, Aged()), "age")


_sold = ("clothes", "accessory", "belonging", "print", "device", "furniture", "tableware", "gift", "vehicle")
how_much = build("how much", _how_much, choose("priced thing", *((1, phrases.topical_thing(kind)) for kind in _sold)))
how_old = build("how old", _how_old, phrases.single_person)
question: Rule[Sentence] = choose(
    "question",
    (38, yes_no),
    (8, who),
    (12, what),
    (5, which),
    (6, where),
    (1, toward),
    (9, when),
    (10, why),
    (4, how),
    (5, how_much),
    (1, how_old),
)

# --- long sentences -------------------------------------------------------------------------------------------------


def _linked(connective: Connective, first: Rule[Clause], second: Rule[Clause]) -> Rule[Sentence]:
    return build(connective, partial(Linked, connective), first, second)


linked: Rule[Sentence] = choose(
    "linked",
    (26, _linked("because", brief.clause, brief.clause)),
    (16, _linked("if", brief.condition, brief.consequence)),
    (16, _linked("although", brief.clause, brief.clause)),
    (8, _linked("while", brief.meanwhile, brief.activity)),
    (10, _linked("and", brief.clause, brief.clause)),
    (12, _linked("but", brief.clause, brief.clause)),
    (12, _linked("so", brief.clause, brief.clause)),
)
report: Rule[Sentence] = choose(
    "report",
    (
        80,
        build(
            "that",
            partial(Report, complementiser="that"),
            phrases.brief_teller,
            word("that verb", verbs.THAT_VERBS),
            brief.clause,
        ),
    ),
    (
        20,
        build(
            "whether",
            partial(Report, complementiser="whether"),
            phrases.brief_teller,
            word("whether verb", verbs.WHETHER_VERBS),
            brief.clause,
        ),
    ),
)

root: Rule[Sentence] = choose(
    "sentence",
    (49, done),
    (33, being),
    (12, question),
    (12, linked),
    (4, report),
    (3.5, existence),
    (5, presentation),
    (0.1, clock),
    (4, command),
    (2, suggestion),
)


def draw(random: Random) -> Sentence:
    """Returns the meaning of a random sentence of the grammar."""
    return root.draw(random)


def count() -> int:
    """Returns the number of derivations of the grammar; each has a different meaning."""
    return root.count


def rules() -> dict[str, int]:
    """Maps the name of every production of the grammar to its number of variants."""
    return productions(root)
