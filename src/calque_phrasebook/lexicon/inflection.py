"""Regular inflection: the forms that the tables leave out."""

import re


def english_plural(noun: str) -> str:
    """Returns the regular plural: boxes, cherries, books."""
    if re.search(r"(s|x|z|ch|sh)$", noun):
        return noun + "es"
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + "s"


def english_third(verb: str) -> str:
    """Returns the form after *he*: goes, washes, has."""
    if verb == "have":
        return "has"
    return verb + "es" if verb.endswith("o") else english_plural(verb)


def english_past(verb: str) -> str:
    """Returns the regular past: jogged, tried, baked."""
    if verb.endswith("e"):
        return verb + "d"
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    return _doubled(verb) + "ed"


def english_ing(verb: str) -> str:
    """Returns the form after *is*: swimming, baking, reading."""
    if re.search(r"[^aeioy]e$", verb):
        return verb[:-1] + "ing"
    return _doubled(verb) + "ing"


def _doubled(verb: str) -> str:
    """Returns a verb with its last consonant doubled, if it has one short syllable: jogg, swimm."""
    return verb + verb[-1] if re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", verb) else verb


def german_first(infinitive: str) -> str:
    """Returns the form after *ich*: kaufe, angle, feiere."""
    if infinitive.endswith("eln"):
        return infinitive[:-3] + "le"
    return infinitive[:-1] + ("e" if infinitive.endswith("ern") else "")
