"""The grammar rules that draw actions (a verb with its objects and circumstances), grouped by sentence pattern."""

from collections.abc import Callable, Sequence
from functools import partial

from calque_phrasebook.grammar import phrases
from calque_phrasebook.grammar.rules import Rule, build, choose, word
from calque_phrasebook.lexicon import nouns as nouns
from calque_phrasebook.lexicon import places as places
from calque_phrasebook.lexicon import times as times
from calque_phrasebook.lexicon import verbs as verbs
from calque_phrasebook.lexicon.lexemes import Noun, Phrase, Place, Verb
from calque_phrasebook.meaning import Action, Duration, Nominal, NounPhrase, Origin, Spot


def _verb_weight(verb: Verb) -> float:
    """Returns a weight that grows with the number of a verb's possible objects, so that each is drawn often enough."""
    size = sum(len(nouns.CLASSES[kind]) for kind in verb.objects)
    return float(size**0.55)


def _over(name: str, table: Sequence[Verb], rule_of: Callable[[str], Rule[NounPhrase]]) -> Rule[Action]:
    options = (
        (_verb_weight(verb), build(name, partial(Action, verb), phrases.of_classes(verb, rule_of))) for verb in table
    )
    return choose("verb of " + name, *options)


# --- with a thing ---------------------------------------------------------------------------------------------------

handling = _over("handling", verbs.ACTIONS, phrases.thing)
handling_brief = _over("handling briefly", verbs.ACTIONS, phrases.brief_thing)
negated_handling = _over("handling denied", verbs.ACTIONS, phrases.denied_thing)
handling_habit = _over("handling as a habit", verbs.ACTIONS, phrases.habitual_thing)
handling_general = _over("handling in general", verbs.ACTIONS, phrases.bare_thing)
happening = _over("happening", verbs.EVENTS, phrases.thing)
negated_happening = _over("happening denied", verbs.EVENTS, phrases.denied_thing)
wearing = choose(
    "wearing",
    (75, _over("wearing a thing", (verbs.WEAR_CLOTHES, verbs.WEAR_ACCESSORY), phrases.thing)),
    (25, build("wearing a pair", partial(Action, verbs.WEAR_CLOTHES), phrases.pairs)),
)
negated_wearing = choose(
    "wearing denied",
    (75, _over("not wearing a thing", (verbs.WEAR_CLOTHES, verbs.WEAR_ACCESSORY), phrases.denied_thing)),
    (
        25,
        build(
            "not wearing a pair", partial(Action, verbs.WEAR_CLOTHES), phrases.stuff_in_general(nouns.CLASSES["paired"])
        ),
    ),
)
needing = _over("needing", verbs.NEEDS, phrases.thing)
negated_needing = _over("needing denied", verbs.NEEDS, phrases.denied_thing)
taste = _over("taste", verbs.TASTES, phrases.bare_thing)
speaking = _over("speaking", verbs.LANGUAGE_VERBS, phrases.bare_thing)
disposal = choose(
    "verb of disposal",
    *(
        (1, build("disposal", partial(Action, verb), phrases.of_classes(verb, phrases.certain_thing)))
        for verb in verbs.DISPOSALS
    ),
)
resource = build("resource", partial(Action, verbs.HAVE), phrases.stuff_in_general(nouns.CLASSES["resource"]))

consuming = choose(
    "consuming",
    (60, build("drinking", partial(Action, verbs.CONSUME_DRINK), phrases.drinks)),
    (22, build("eating from a bowl", partial(Action, verbs.CONSUME_BOWL), phrases.bowls)),
    (18, build("buying groceries", partial(Action, verbs.BUY_GROCERIES), phrases.groceries)),
)
_drinks = phrases.stuff_in_general(nouns.CLASSES["hot_drink"] + nouns.CLASSES["cold_drink"])
_bought = phrases.stuff_in_general(nouns.CLASSES["paired"] + nouns.CLASSES["cold_drink"])
consuming_general = choose(
    "consuming in general",
    (60, build("drinking in general", partial(Action, verbs.CONSUME_DRINK), _drinks)),
    (
        22,
        build(
            "eating stuff in general",
            partial(Action, verbs.CONSUME_BOWL),
            phrases.stuff_in_general(nouns.CLASSES["bowl_food"]),
        ),
    ),
    (18, build("buying stuff in general", partial(Action, verbs.BUY_GROCERIES), _bought)),
)


_BUY = next(verb for verb in verbs.ACTIONS if verb.english == "buy")
_GOODS = {
    "supermarket": "fruit vegetable snack tableware",
    "market": "fruit vegetable gift",
    "bakery": "snack",
    "bookshop": "print",
    "store": "clothes accessory furniture device container tableware",
    "centre": "clothes accessory gift",
}


def _goods(kinds: str) -> Rule[NounPhrase]:
    return choose("goods", *((len(nouns.CLASSES[kind]), phrases.thing(kind)) for kind in kinds.split()))


def _bought_at(thing: NounPhrase, *, place: Place) -> Action:
    return Action(_BUY, thing, place=place)


def _errand_to(thing: NounPhrase, *, place: Place) -> Action:
    return Action(verbs.GO, goal=place, purpose=Action(_BUY, thing))


_shops = [(place, _GOODS[place.english[-1]]) for place in places.KINDS["shop"] if place.english[-1] in _GOODS]
purchase = choose(
    "purchase", *((1, build("purchase at a shop", partial(_bought_at, place=p), _goods(kinds))) for p, kinds in _shops)
)
errand = choose(
    "errand", *((1, build("errand to a shop", partial(_errand_to, place=p), _goods(kinds))) for p, kinds in _shops)
)

# --- putting --------------------------------------------------------------------------------------------------------

_tops = [noun for noun in nouns.CLASSES["furniture"] if noun.english != "mirror"]
surface = build("surface", partial(Spot, places.ON), word("furniture top", _tops))
inside = build("inside", partial(Spot, places.IN), word("container", nouns.CLASSES["container"]))
_around = word("around", (places.UNDER, places.BEHIND, places.BESIDE, places.BEFORE))
nearby = build("nearby", Spot, _around, word("furniture", nouns.CLASSES["furniture"]))
target = choose("target", (50, surface), (50, inside))
spot = choose("spot", (34, surface), (30, inside), (36, nearby))


def _put(thing: NounPhrase, goal: Spot, *, verb: Verb) -> Action:
    return Action(verb, thing, goal=goal)


_small = [noun for kind in ("belonging", "print", "gift", "tableware") for noun in nouns.CLASSES[kind]]


def _placement(verb: Verb, things: Sequence[Noun]) -> Rule[Action]:
    thing = build("certain thing", partial(Nominal, determiner=phrases.THE), word("small thing", things))
    return build("placement", partial(_put, verb=verb), thing, target)


_lying, _standing = [n for n in _small if not n.stands], [n for n in _small if n.stands]
placement = choose(
    "placing",
    (len(_lying), _placement(verbs.LAY, _lying)),
    (len(_standing), _placement(verbs.STAND, _standing)),
)

# --- with people ----------------------------------------------------------------------------------------------------

_social = word("social verb", verbs.SOCIAL)
meeting_me = build("meeting me", Action, _social, phrases.pronoun_object)
meeting_people = build("meeting people", Action, _social, phrases.full_object)
_feeling = word("feeling", verbs.ACQUAINTANCE)
feeling_for_me = build("feeling for me", Action, _feeling, phrases.pronoun_object)
feeling_for_people = build("feeling for people", Action, _feeling, phrases.full_object)


def _giving(recipient: Rule[NounPhrase]) -> Rule[Action]:
    options = [
        (3.0, build("giving", partial(Action, verb), phrases.of_classes(verb, phrases.thing), recipient))
        for verb in (*verbs.GIVING, verbs.SERVING[0], verbs.SERVING[1], verbs.SERVING[3])
    ]
    cook = build("cooking for someone", partial(Action, verbs.SERVING[2]), phrases.bowls, recipient)
    return choose("verb of giving", *options, (3.0, cook))


giving_me = _giving(phrases.pronoun_object)
giving_people = _giving(phrases.full_object)

# --- what the speaker does every day --------------------------------------------------------------------------------

_CORE = [verb for verb in verbs.ACTIONS if verb.english in ("eat", "buy", "read", "write", "sell", "wash")]
core_handling = choose(
    "everyday handling",
    *((1, build("everyday thing", partial(Action, v), phrases.of_classes(v, phrases.habitual_thing))) for v in _CORE),
)

# --- activities -----------------------------------------------------------------------------------------------------


def _at(verb: Verb) -> Rule[Place]:
    suitable = dict.fromkeys(place for kind in verb.places for place in places.KINDS[kind])
    home = (places.HOME,) if "room" in verb.places else ()
    return word("activity place", (*suitable, *home))


def _activity_at(place: Place, *, verb: Verb) -> Action:
    return Action(verb, place=place)


def _activity_with(companion: NounPhrase, *, verb: Verb) -> Action:
    return Action(verb, companion=companion)


_every = verbs.ACTIVITIES
_shared = [verb for verb in _every if verb.english not in ("sleep", "wait")]
_seen_doing = [
    verb for verb in _every if verb.english in ("swim", "dance", "sing", "sleep", "work", "play", "cook", "wait")
]
activity = build("activity", Action, word("activity verb", _every))
activity_seen = build("activity under way", Action, word("seen activity", _seen_doing))
_prefixed = [verb for verb in _every if verb.german_prefix]
activity_meanwhile = choose(
    "activity meanwhile",
    (2, build("activity", Action, word("separable activity", _prefixed))),
    (3, build("activity", Action, word("simple activity", [verb for verb in _every if not verb.german_prefix]))),
)
activity_at = choose(
    "activity at a place", *((1, build("activity somewhere", partial(_activity_at, verb=v), _at(v))) for v in _every)
)
activity_with = choose(
    "activity in company",
    *((1, build("activity together", partial(_activity_with, verb=v), phrases.company)) for v in _shared),
)
doing = choose("doing", (50, activity_at), (34, activity_with), (16, activity))
routine = build("routine", Action, word("routine verb", verbs.ROUTINES))


def _lasting(verb: Verb, duration: Duration) -> Action:
    return Action(verb, duration=duration)


_lasts = [verb for verb in _every if verb.english in ("work", "study", "rest", "exercise", "wait")]
_short = build("short duration", Duration, phrases.number, word("short unit", times.SHORT_UNITS))
_long = build("long duration", Duration, phrases.number, word("long unit", times.LONG_UNITS))
lasting_short = build("lasting hours", _lasting, word("lasting verb", _lasts), _short)
lasting_long = build("lasting days", _lasting, word("lasting verb", _lasts), _long)


def _skill(manner: Phrase, *, verb: Verb) -> Action:
    return Action(verb, manner=manner)


skill = choose(
    "skill",
    *(
        (
            1,
            build(
                "doing it well",
                partial(_skill, verb=v),
                word("manner", [m for m in times.MANNERS if m.key in v.manners]),
            ),
        )
        for v in verbs.SKILLS
    ),
)


def _gladly(action: Action) -> Action:
    return Action(action.verb, action.object, place=action.place, gladly=True)


_CORE_ACTIVITIES = [
    verb for verb in _every if verb.german in ("arbeiten", "lernen", "spielen", "schlafen", "schwimmen")
]
core_doing = choose(
    "everyday activity",
    *((1, build("activity somewhere", partial(_activity_at, verb=v), _at(v))) for v in _CORE_ACTIVITIES),
)
enjoying = build(
    "enjoying",
    _gladly,
    choose("enjoyable", (45, handling_general), (15, consuming_general), (20, activity), (20, activity_at)),
)

# --- going ----------------------------------------------------------------------------------------------------------


def _go(place: Place, *, verb: Verb) -> Action:
    return Action(verb, goal=place)


def _go_by(place: Place, vehicle: Noun, *, verb: Verb) -> Action:
    return Action(verb, goal=place, vehicle=vehicle)


_transport = {noun.english: noun for noun in nouns.CLASSES["transport"]}
_local = [_transport[name] for name in ("bus", "tram", "taxi")]
_distant = [_transport[name] for name in ("bus", "train", "ship", "taxi")]
_towns = word("town", places.TOWNS)
_anywhere = word("place", places.PLACES)
going = build("going", partial(_go, verb=verbs.GO), _anywhere)
riding = build("riding", partial(_go_by, verb=verbs.RIDE), _anywhere, word("local transport", _local))
travelling = build("travelling", partial(_go, verb=verbs.TRAVEL), _towns)
travelling_by = build("travelling by", partial(_go_by, verb=verbs.TRAVEL), _towns, word("distant transport", _distant))
flying = build("flying", partial(_go, verb=verbs.FLY), _towns)
journey = choose("journey", (24, going), (20, riding), (14, travelling), (22, travelling_by), (20, flying))
local = choose("local journey", (50, going), (50, riding))
trip = choose("trip", (85, journey), (15, errand))


def _live(place: Place) -> Action:
    return Action(verbs.LIVE, place=place)


core_drinking = build("everyday drinking", partial(Action, verbs.CONSUME_DRINK), phrases.drinks)
core = choose("everyday action", (6, core_handling), (1.5, core_drinking), (6, core_doing), (1.5, going), (2, speaking))
living = build("living", _live, _towns)
origin = build("origin", Origin, _towns)
