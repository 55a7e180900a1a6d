"""The grammar rules of tense, modality and negation, which form clauses from subjects and predicates."""

from functools import partial

from calque_phrasebook.grammar.rules import Rule, build, choose, word
from calque_phrasebook.lexicon import times as times
from calque_phrasebook.lexicon import verbs as verbs
from calque_phrasebook.lexicon.lexemes import Modal, Phrase
from calque_phrasebook.meaning import Action, Clause, NounPhrase, Predicate, Tense

past_time = word("past time", times.PAST)
future_time = word("future time", times.FUTURE + times.WEEKDAYS)
regular_time = word("regular time", times.REGULAR)
frequency = word("frequency", times.FREQUENCIES)
any_modal = word("modal", verbs.MODALS)
_deniable = word("deniable modal", [modal for modal in verbs.MODALS if modal.key != "must"])
in_place: Rule[bool] = word("in place", (False,))
recent_time = word("recent time", times.of_kind("near", times.PAST))
coming_time = word("coming time", times.of_kind("near", times.FUTURE))
perhaps_fronted: Rule[bool] = choose("fronting", (3, word("in place", (False,))), (1, word("fronted", (True,))))


def timed(
    subject: NounPhrase | None,
    predicate: Predicate,
    time: Phrase | None,
    fronted: bool,
    *,
    tense: Tense,
    negative: bool,
) -> Clause:
    """Returns a clause with a tense and, if given, a time phrase; `fronted` puts the time first."""
    return Clause(subject, predicate, tense, negative=negative, time=time, fronted=fronted)


def frequent(subject: NounPhrase, predicate: Predicate, frequency: Phrase) -> Clause:
    """Returns a clause about a habit, with a phrase of frequency such as *often*."""
    return Clause(subject, predicate, "habit", frequency=frequency)


def _general(subject: NounPhrase, predicate: Predicate) -> Clause:
    return Clause(subject, predicate, "habit", negative=True)


def _ongoing(subject: NounPhrase, predicate: Predicate) -> Clause:
    return Clause(subject, predicate, "ongoing")


def modally(subject: NounPhrase, predicate: Predicate, modal: Modal, *, negative: bool) -> Clause:
    """Returns a clause with a modal verb."""
    return Clause(subject, predicate, modal=modal, negative=negative)


def _modally_timed(subject: NounPhrase, predicate: Predicate, modal: Modal, time: Phrase) -> Clause:
    return Clause(subject, predicate, modal=modal, time=time)


SubjectRule = Rule[NounPhrase]
ActionRule = Rule[Action]


def past(
    subject: SubjectRule, action: ActionRule, *, fronting: Rule[bool] = perhaps_fronted, time: Rule[Phrase] = past_time
) -> Rule[Clause]:
    """Returns a rule that draws clauses about past actions: she bought a car yesterday."""
    return build("past", partial(timed, tense="past", negative=False), subject, action, time, fronting)


def negated_past(subject: SubjectRule, action: ActionRule, *, time: Rule[Phrase] = past_time) -> Rule[Clause]:
    """Returns a rule that draws negated clauses about past actions: she did not buy this car yesterday."""
    return build("past denied", partial(timed, tense="past", negative=True), subject, action, time, in_place)


def future(
    subject: SubjectRule,
    action: ActionRule,
    *,
    fronting: Rule[bool] = perhaps_fronted,
    time: Rule[Phrase] = future_time,
) -> Rule[Clause]:
    """Returns a rule that draws clauses about future actions."""
    return build("future", partial(timed, tense="future", negative=False), subject, action, time, fronting)


def negated_future(subject: SubjectRule, action: ActionRule) -> Rule[Clause]:
    """Returns a rule that draws negated clauses about the future: she will not swim tomorrow."""
    return build("future denied", partial(timed, tense="future", negative=True), subject, action, future_time, in_place)


def habit(subject: SubjectRule, action: ActionRule, *, time: Rule[Phrase] = regular_time) -> Rule[Clause]:
    """Returns a rule that draws clauses about regular actions: every day, often."""
    regular = partial(timed, tense="habit", negative=False)
    return choose(
        "habit",
        (50, build("regular habit", regular, subject, action, time, perhaps_fronted)),
        (50, build("frequent habit", frequent, subject, action, frequency)),
    )


def never(subject: SubjectRule, action: ActionRule) -> Rule[Clause]:
    """Returns a rule that draws clauses about actions that someone does not do in general: she does not eat apples."""
    return build("general denial", _general, subject, action)


def ongoing(subject: SubjectRule, action: ActionRule) -> Rule[Clause]:
    """Returns a rule that draws clauses about ongoing actions."""
    return build("ongoing", _ongoing, subject, action)


def modal(subject: SubjectRule, action: ActionRule) -> Rule[Clause]:
    """Returns a rule that draws clauses with a modal verb (can, must, want to), perhaps with a future time."""
    plain = build("modal", partial(modally, negative=False), subject, action, any_modal)
    return choose(
        "modality", (65, plain), (35, build("timed modal", _modally_timed, subject, action, any_modal, future_time))
    )


def negated_modal(subject: SubjectRule, action: ActionRule) -> Rule[Clause]:
    """Returns a rule that draws negated clauses with a modal verb (cannot, may not, does not want to)."""
    return build("modal denied", partial(modally, negative=True), subject, action, _deniable)


def state(subject: SubjectRule, predicate: Rule[Predicate] | ActionRule) -> Rule[Clause]:
    """Returns a rule that draws clauses about a present state."""
    return build("state", Clause, subject, predicate)


def negated_state(subject: SubjectRule, predicate: Rule[Predicate] | ActionRule) -> Rule[Clause]:
    """Returns a rule that draws negated clauses about a present state."""
    return build("state denied", partial(Clause, negative=True), subject, predicate)
