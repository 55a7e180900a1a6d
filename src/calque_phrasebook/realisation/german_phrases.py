"""German noun phrases and verb forms: case, gender, endings, agreement."""

from calque_phrasebook.lexicon.lexemes import Case, Gender, Noun, Phrase, Place, Verb
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
from calque_phrasebook.realisation.words import Part, Word, fuse, spell, spell_pieces

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
_CONTRACTIONS = {
    ("in", "dem"): "im", ("an", "dem"): "am", ("zu", "dem"): "zum", ("zu", "der"): "zur", ("bei", "dem"): "beim",
    ("in", "das"): "ins", ("an", "das"): "ans",
}  # fmt: skip
_DEFINITE = ("the", "this", "these", "own", "which")


def noun_phrase(phrase: NounPhrase, *, case: Case, at: Part) -> list[Word]:
    """Returns the words of a noun phrase in a case; `Described` nouns are realised in `german.py`."""
    match phrase:
        case Pronoun(person):
            return spell(person.german[CASES[case]], at / "person")
        case Named(name):
            return fixed(name, at=at / "name")
        case Nominal():
            return _nominal(phrase, case=case, at=at)
        case Measured(number, measure, stuff):
            if number:
                head = [*fixed(number, at=at / "number"), *spell(measure.german_plural, at / "measure")]
            else:
                article = "ein" + _EIN[measure.gender][CASES[case]]
                head = [*spell(article, at / "number"), *spell(measure.german, at / "measure")]
            return [*head, *spell(stuff.german if stuff.mass else stuff.german_plural, at / "stuff")]
        case Both(first, second):
            both = noun_phrase(first, case=case, at=at / "first"), noun_phrase(second, case=case, at=at / "second")
            return [*both[0], *spell("und", at / "conjunction"), *both[1]]
        case Gap():
            return []
        case Asked():
            return spell("wer" if case == "nominative" else "was", at)
        case Described():
            raise AssertionError("the noun needs a relative clause, but none was given")


def fixed(phrase: Phrase | None, *, at: Part) -> list[Word]:
    """Returns the words of a fixed phrase, if there is one."""
    return spell_pieces(phrase.german, at=at, pieces=phrase.parts) if phrase else []


def definite(phrase: NounPhrase) -> bool:
    """Returns whether a noun phrase is definite, so that it comes early and is negated with *nicht*."""
    return not isinstance(phrase, Nominal | Measured) or (
        isinstance(phrase, Nominal) and phrase.determiner.kind in _DEFINITE
    )


def denied(phrase: NounPhrase, *, at: Part, negative: Part) -> list[Word]:
    """Returns a noun without a determiner, negated with *kein* in the accusative: keine Äpfel."""
    assert isinstance(phrase, Nominal) and phrase.determiner.kind == "bare", phrase
    noun = phrase.noun
    article = "kein" + _EIN[noun.gender if noun.mass else "p"][1]
    return [*spell(article, negative), *spell(noun.german if noun.mass else noun.german_plural, at / "noun")]


def _nominal(phrase: Nominal, *, case: Case, at: Part) -> list[Word]:
    noun, determiner = phrase.noun, phrase.determiner
    plural = (determiner.plural and not noun.mass) or noun.plural_only
    key: Key = "p" if plural else noun.gender
    slot = CASES[case]
    kind = at / "determiner" / "kind"
    number = fixed(determiner.number, at=at / "determiner" / "number")
    match determiner.kind:
        case "the":
            head, endings = spell(_THE[key][slot], kind), _WEAK
        case "this" | "these" | "which":
            stem = "welch" if determiner.kind == "which" else "dies"
            head, endings = [*spell(stem + _DIES[key][slot], kind), *number], _WEAK
        case "a":
            head, endings = spell("ein" + _EIN[key][slot], kind), _MIXED
        case "own":
            assert determiner.owner is not None
            possessive = determiner.owner.german_possessive + _EIN[key][slot]
            head, endings = spell(possessive, at / "determiner" / "owner"), _MIXED
        case "count" | "bare":
            head, endings = number, _STRONG
        case "many" | "some":
            stem = "viel" if determiner.kind == "many" else "einig"
            head, endings = spell(stem + _DIES["p"][slot], kind), _STRONG
        case "how many":
            head, endings = [*spell("wie", kind), *spell("viel" + _DIES["p"][slot], kind / "scale")], _STRONG
    ending = endings[key][slot] if phrase.quality or noun.german_attribute else ""
    quality = spell(phrase.quality.german_stem + ending, at / "quality") if phrase.quality else []
    attribute = spell(noun.german_attribute + ending, at / "noun" / "attribute") if noun.german_attribute else []
    return [*head, *quality, *attribute, *spell(noun_form(noun, plural=plural, case=case), at / "noun")]


def noun_form(noun: Noun, *, plural: bool, case: Case) -> str:
    """Returns a noun's form for its number and case: Hund, Hunde, Hunden, Jungen."""
    if plural:
        needs_n = case == "dative" and noun.german_plural[-1] not in "ns"
        return noun.german_plural + "n" * needs_n
    return noun.german if case == "nominative" else noun.german_oblique


def occupation(noun: Noun, *, female: bool, at: Part, negative: Part | None) -> list[Word]:
    """Returns a profession as a predicate: Arzt, Ärztin, kein Arzt."""
    article = spell("keine" if female else "kein", negative, at / "article") if negative else []
    return [*article, *spell(noun.german_feminine if female else noun.german, at / "noun")]


def with_the(noun: Noun, *, case: Case, at: Part, article: Part) -> list[Word]:
    """Returns a noun with its definite article; the noun expresses the part `at`, the article the part `article`."""
    return [*spell(_THE[noun.gender][CASES[case]], article), *spell(noun_form(noun, plural=False, case=case), at)]


def relative_pronoun(noun: Noun) -> str:
    """Returns the accusative relative pronoun of a noun: den, die, das."""
    return _THE[noun.gender][1]


# --- places ---------------------------------------------------------------------------------------------------------


def where(place: Place | Spot, *, at: Part) -> list[Word]:
    """Returns the place where something is: im Park, auf dem Tisch, in Berlin."""
    if isinstance(place, Spot):
        return _spot(place, case="dative", at=at)
    return _place(place, place.german_at, case="dative", at=at)


def toward(place: Place | Spot, *, at: Part) -> list[Word]:
    """Returns the phrase for the destination of a movement: in den Park, auf den Tisch, nach Berlin."""
    if isinstance(place, Spot):
        return _spot(place, case="accusative", at=at)
    return _place(place, place.german_to, case="dative" if place.german_to == "zu" else "accusative", at=at)


def _place(place: Place, preposition: str, *, case: Case, at: Part) -> list[Word]:
    words = [Word(preposition, (at / "preposition",))]
    if place.gender:
        words = _contracted(words[0], Word(_THE[place.gender][CASES[case]], (at / "article",)))
    return [*words, *spell(place.german, at)]


def _spot(spot: Spot, *, case: Case, at: Part) -> list[Word]:
    """Returns the words of a spot, such as "im Korb" or "unter dem Tisch": only *in* contracts with the article."""
    relation = Word(spot.relation.german, (at / "relation",))
    article, noun = with_the(spot.noun, case=case, at=at / "noun", article=at / "article")
    words = _contracted(relation, article) if relation.text == "in" else [relation, article]
    return [*words, noun]


def _contracted(preposition: Word, article: Word) -> list[Word]:
    """Returns a preposition and an article as they are written: im, zur, auf dem."""
    contraction = _CONTRACTIONS.get((preposition.text, article.text))
    return [fuse(contraction, preposition, article)] if contraction else [preposition, article]


# --- verbs ----------------------------------------------------------------------------------------------------------

BE = ("bin", "bist", "ist", "sind")
WAS = ("war", "warst", "war", "waren")
HAVE = ("habe", "hast", "hat", "haben")
WILL = ("werde", "wirst", "wird", "werden")


def present(verb: Verb, *, person: int) -> str:
    """Returns the present-tense form of a verb, without its prefix: kaufe, kaufst, kauft, kaufen."""
    return (verb.german_first, _second(verb.german_third), verb.german_third, verb.german)[person]


def _second(third: str) -> str:
    if not third.endswith("t"):
        return third + ("t" if third.endswith("ß") else "st")
    return third if third[-2] in "sßzx" else third[:-1] + "st"


def perfect_auxiliary(verb: Verb, *, person: int) -> str:
    """Returns the form of *haben* or *sein* for a person: hat (gekauft), ist (gegangen)."""
    return (BE if verb.german_auxiliary == "sein" else HAVE)[person]


def infinitive(verb: Verb) -> str:
    """Returns the infinitive with its prefix: aufstehen."""
    return verb.german_prefix + verb.german


def imperative(verb: Verb) -> str:
    """Returns the imperative singular: mach, wirf, öffne, schalte."""
    third = verb.german_third
    if third.endswith("et") or verb.german.endswith("ieren"):
        return verb.german[:-1]
    raised = "e" in verb.german[:-2] and "e" not in third[:-1].replace("ie", "")
    return third[:-1] if raised else verb.german[:-2]
