"""German noun phrases and verb forms: case, gender, endings, agreement."""

from calque_phrasebook.lexicon.lexemes import Case, Gender, Noun, Place, Verb
from calque_phrasebook.lexicon.places import contract
from calque_phrasebook.meaning import (
    Asked,
    Both,
    Described,
    Gap,
    Measured,
    Named,
    Nominal,
    NounPhrase,
    Pronoun,
    Spot,
)  # fmt: skip

CASES: dict[Case, int] = {"nominative": 0, "accusative": 1, "dative": 2}
Key = Gender | str  # a gender, or "p" for the plural of all three

# endings by nominative, accusative, dative
_THE: dict[Key, tuple[str, str, str]] = {
    "m": ("der", "den", "dem"), "f": ("die", "die", "der"), "n": ("das", "das", "dem"), "p": ("die", "die", "den"),
}  # fmt: skip
_DIES: dict[Key, tuple[str, str, str]] = {
    "m": ("er", "en", "em"), "f": ("e", "e", "er"), "n": ("es", "es", "em"), "p": ("e", "e", "en"),
}  # fmt: skip
_EIN: dict[Key, tuple[str, str, str]] = {
    "m": ("", "en", "em"), "f": ("e", "e", "er"), "n": ("", "", "em"), "p": ("e", "e", "en"),
}  # fmt: skip
_WEAK: dict[Key, tuple[str, str, str]] = {
    "m": ("e", "en", "en"), "f": ("e", "e", "en"), "n": ("e", "e", "en"), "p": ("en", "en", "en"),
}  # fmt: skip
_MIXED: dict[Key, tuple[str, str, str]] = {
    "m": ("er", "en", "en"), "f": ("e", "e", "en"), "n": ("es", "es", "en"), "p": ("en", "en", "en"),
}  # fmt: skip
_STRONG: dict[Key, tuple[str, str, str]] = {"p": ("e", "e", "en")}
_DEFINITE = ("the", "this", "these", "own", "which")


def noun_phrase(phrase: NounPhrase, *, case: Case) -> list[str]:
    """Gives the words of a noun phrase in a case; a described noun is given by the clause realiser."""
    match phrase:
        case Pronoun(person):
            return [person.german[CASES[case]]]
        case Named(name):
            return list(name.german)
        case Nominal():
            return _nominal(phrase, case)
        case Measured(number, measure, stuff):
            head = (
                [*number.german, measure.german_plural]
                if number
                else ["ein" + _EIN[measure.gender][CASES[case]], measure.german]
            )
            return [*head, stuff.german if stuff.mass else stuff.german_plural]
        case Both(first, second):
            return [*noun_phrase(first, case=case), "und", *noun_phrase(second, case=case)]
        case Gap():
            return []
        case Asked():
            return ["wer"] if case == "nominative" else ["was"]
        case Described():
            raise AssertionError("a described noun needs its clause")


def definite(phrase: NounPhrase) -> bool:
    """Says whether a noun phrase is known, so that it stands early and is denied with nicht."""
    return not isinstance(phrase, Nominal | Measured) or (
        isinstance(phrase, Nominal) and phrase.determiner.kind in _DEFINITE
    )


def denied(phrase: NounPhrase) -> list[str]:
    """Gives the accusative of things in general with kein."""
    assert isinstance(phrase, Nominal) and phrase.determiner.kind == "bare", phrase
    key = phrase.noun.gender if phrase.noun.mass else "p"
    return ["kein" + _EIN[key][1], phrase.noun.german if phrase.noun.mass else phrase.noun.german_plural]


def _nominal(phrase: Nominal, case: Case) -> list[str]:
    noun, determiner = phrase.noun, phrase.determiner
    plural = (determiner.plural and not noun.mass) or noun.plural_only
    key: Key = "p" if plural else noun.gender
    slot = CASES[case]
    number = list(determiner.number.german) if determiner.number else []
    match determiner.kind:
        case "the":
            head, endings = [_THE[key][slot]], _WEAK
        case "this" | "these" | "which":
            stem = "welch" if determiner.kind == "which" else "dies"
            head, endings = [stem + _DIES[key][slot], *number], _WEAK
        case "a":
            head, endings = ["ein" + _EIN[key][slot]], _MIXED
        case "own":
            assert determiner.owner is not None
            head, endings = [determiner.owner.german_possessive + _EIN[key][slot]], _MIXED
        case "count" | "bare":
            head, endings = number, _STRONG
        case "many" | "some" | "how many":
            head, endings = _quantity(determiner.kind, slot), _STRONG
    adjectives = [phrase.quality.german_stem] if phrase.quality else []
    if noun.german_attribute:
        adjectives.append(noun.german_attribute)
    return [*head, *(stem + endings[key][slot] for stem in adjectives), noun_form(noun, plural=plural, case=case)]


def _quantity(kind: str, slot: int) -> list[str]:
    ending = _DIES["p"][slot]
    return ["wie", "viel" + ending] if kind == "how many" else [("viel" if kind == "many" else "einig") + ending]


def noun_form(noun: Noun, *, plural: bool, case: Case) -> str:
    """Gives a noun's form: Hund, Hunde, Hunden, Jungen."""
    if plural:
        needs_n = case == "dative" and noun.german_plural[-1] not in "ns"
        return noun.german_plural + "n" * needs_n
    return noun.german if case == "nominative" else noun.german_oblique


def occupation(noun: Noun, *, female: bool, negative: bool) -> list[str]:
    """Gives a profession as a predicate: Arzt, Ärztin, kein Arzt."""
    article = (["keine"] if female else ["kein"]) if negative else []
    return [*article, noun.german_feminine if female else noun.german]


def with_the(noun: Noun, *, case: Case) -> list[str]:
    """Gives a noun with its definite article."""
    return [_THE[noun.gender][CASES[case]], noun_form(noun, plural=False, case=case)]


def relative_pronoun(noun: Noun) -> str:
    """Gives the accusative relative pronoun of a noun: den, die, das."""
    return _THE[noun.gender][1]


def where(place: Place | Spot) -> list[str]:
    """Gives the place where something is: im Park, auf dem Tisch."""
    if isinstance(place, Place):
        return list(place.german_at)
    article, noun = with_the(place.noun, case="dative")
    return [*contract_in(place.relation.german, article), noun]


def whither(place: Place | Spot) -> list[str]:
    """Gives the place where something goes: in den Park, auf den Tisch."""
    if isinstance(place, Place):
        return list(place.german_to)
    article, noun = with_the(place.noun, case="accusative")
    return [*contract_in(place.relation.german, article), noun]


def contract_in(preposition: str, article: str) -> tuple[str, ...]:
    """Gives in + dem as im, in + das as ins; other prepositions of place stay apart from their article."""
    return contract(preposition, article) if preposition == "in" else (preposition, article)


# --- verbs ----------------------------------------------------------------------------------------------------------

BE = ("bin", "bist", "ist", "sind")
WAS = ("war", "warst", "war", "waren")
HAVE = ("habe", "hast", "hat", "haben")
WILL = ("werde", "wirst", "wird", "werden")


def present(verb: Verb, person: int) -> str:
    """Gives the present of a verb, without its prefix: kaufe, kaufst, kauft, kaufen."""
    return (verb.german_first, _second(verb.german_third), verb.german_third, verb.german)[person]


def _second(third: str) -> str:
    if not third.endswith("t"):
        return third + ("t" if third.endswith("ß") else "st")
    return third if third[-2] in "sßzx" else third[:-1] + "st"


def perfect_auxiliary(verb: Verb, person: int) -> str:
    """Gives haben or sein in the person: hat (gekauft), ist (gegangen)."""
    return (BE if verb.auxiliary == "sein" else HAVE)[person]


def infinitive(verb: Verb) -> str:
    """Gives the infinitive with its prefix: aufstehen."""
    return verb.prefix + verb.german


def with_zu(verb: Verb) -> list[str]:
    """Gives the infinitive with zu: zu kaufen, aufzustehen."""
    return [verb.prefix + "zu" + verb.german] if verb.prefix else ["zu", verb.german]


def imperative(verb: Verb) -> str:
    """Gives the command to one listener: mach, wirf, öffne, schalte."""
    third = verb.german_third
    if third.endswith("et") or verb.german.endswith("ieren"):
        return verb.german[:-1]
    raised = "e" in verb.german[:-2] and "e" not in third[:-1].replace("ie", "")
    return third[:-1] if raised else verb.german[:-2]
