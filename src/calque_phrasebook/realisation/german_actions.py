"""The words around a German verb: objects, circumstances and goal, in German word order."""

from collections.abc import Sequence
from typing import NamedTuple

from calque_phrasebook.lexicon.lexemes import Verb
from calque_phrasebook.meaning import Action, Pronoun, questioned
from calque_phrasebook.realisation import german_phrases as de
from calque_phrasebook.realisation.words import Part, Word, fuse, spell, verb_parts


class Fields(NamedTuple):
    """The words around the verbs of a clause, by position."""

    middle: list[Word]  # between the finite verb and the last one
    closing: list[Word]  # just before the last verb
    extra: list[Word]  # after the last verb


def fields(
    action: Action,
    *,
    at: Part,
    reflexive: Sequence[Word] = (),
    adverbs: Sequence[Word] = (),
    negative: Part | None = None,
) -> Fields:
    """Returns the words around the verb of an action; `negative` is the part that the negation expresses.

    The middle field is ordered: pronouns, adverbs, known things, nicht, gern, circumstances, new things, manner, goal.
    """
    objects = _objects(action, at=at, negative=negative)
    middle = [
        *reflexive,
        *objects.pronouns,
        *adverbs,
        *objects.known,
        *objects.denial,
        *(spell("gern", at / "gladly") if action.gladly else []),
        *_circumstances(action, at=at),
        *objects.new,
        *de.fixed(action.manner, at=at / "manner"),
        *(de.toward(action.goal, at=at / "goal") if action.goal else []),
    ]
    closing = spell(" ".join(action.verb.german_complement), at / "verb" / "complement")
    extra = _purpose(action.purpose, at=at / "purpose") if action.purpose else []
    return Fields(middle, closing, extra)


class _Objects(NamedTuple):
    """The objects of a verb by position, and *nicht* unless an object is negated with *kein*."""

    pronouns: list[Word]
    known: list[Word]
    new: list[Word]
    denial: list[Word]


def _objects(action: Action, *, at: Part, negative: Part | None) -> _Objects:
    verb, thing = action.verb, action.object
    objects = _Objects([], [], [], nicht(negative))
    if action.recipient:
        recipient = de.noun_phrase(action.recipient, case="dative", at=at / "recipient")
        (objects.pronouns if isinstance(action.recipient, Pronoun) else objects.known).extend(recipient)
    if thing is None or questioned(thing):
        return objects
    if negative and not (verb.german_preposition or de.definite(thing) or action.gladly):
        return objects._replace(new=de.denied(thing, at=at / "object", negative=negative), denial=[])
    words = de.noun_phrase(thing, case=verb.german_case, at=at / "object")
    if verb.german_preposition:
        objects.new.extend([*spell(" ".join(verb.german_preposition), at / "verb" / "preposition"), *words])
    elif isinstance(thing, Pronoun):
        objects.pronouns.extend(words)
    elif de.definite(thing):
        objects.known.extend(words)
    else:
        objects.new.extend(words)
    return objects


def _circumstances(action: Action, *, at: Part) -> list[Word]:
    words: list[Word] = []
    if action.duration:
        words += de.fixed(action.duration.number, at=at / "duration" / "number")
        words += spell(action.duration.unit.german, at / "duration" / "unit")
    if action.companion:
        words += spell("mit", at / "companion" / "preposition")
        words += de.noun_phrase(action.companion, case="dative", at=at / "companion")
    if action.vehicle:
        vehicle = at / "vehicle"
        words += spell("mit", vehicle / "preposition")
        words += de.with_the(action.vehicle, case="dative", at=vehicle, article=vehicle / "article")
    if action.place:
        words += de.where(action.place, at=at / "place")
    return words


def _purpose(action: Action, *, at: Part) -> list[Word]:
    """Returns an infinitive clause: um Äpfel zu kaufen, um fernzusehen."""
    middle, closing, _ = fields(action, at=at)
    verb = Word(action.verb.german, says(action.verb, at=at / "verb"))
    prefix, to = action.verb.german_prefix, Word("zu", (at / "infinitive",))
    infinitive = [fuse(prefix + to.text + verb.text, to, verb)] if prefix else [to, verb]
    return [*spell(","), *spell("um", at / "infinitive"), *middle, *closing, *infinitive]


def says(verb: Verb, *, at: Part) -> tuple[Part, ...]:
    """Returns the parts of the meaning that the verb's own words express."""
    return verb_parts(at, complement=bool(verb.german_complement), preposition=bool(verb.german_preposition))


def nicht(negative: Part | None) -> list[Word]:
    """Returns *nicht* if there is a negation."""
    return spell("nicht", negative) if negative else []
