"""Builds lexemes from the entries of the tables, and defines the fields of each kind of word.

Every entry has `en`, `de` and `zh`. Irregular forms follow the base form, separated by commas, as in a dictionary;
regular forms are left out. The classes in `lexemes.py` explain the other fields, under the same names spelled out.
"""

from collections.abc import Collection

from calque_phrasebook.lexicon import inflection
from calque_phrasebook.lexicon.lexemes import (
    Adjective,
    Case,
    ClockHour,
    Gender,
    Modal,
    Noun,
    Phrase,
    Place,
    Precipitation,
    Unit,
    Verb,
)
from calque_phrasebook.lexicon.tables import Entry, among

GENDERS: dict[str, Gender] = {"der": "m", "die": "f", "das": "n"}
CASES: dict[str, Case] = {"accusative": "accusative", "dative": "dative"}
CORRESPONDING = "·"  # separates the parts of a phrase that correspond: yesterday·evening, gestern·Abend


def noun(entry: Entry) -> Noun:
    """Returns the noun in `{ en = "child, children", de = "das Kind, Kinder", zh = "孩子", classifier = "个" }`.

    A noun with `number = "mass"` has no plural; with `number = "plural"`, it has no English singular (shoes).
    """
    number = _one_of("number", entry.text("number", default="both"), known=("both", "mass", "plural"))
    singular, *plural = entry.forms("en", least=1, most=2 if number == "both" else 1)
    gender, german = _with_article(entry.forms("de", least=1 if number == "mass" else 2, most=2)[0])
    german_plural = entry.forms("de", least=1, most=2)[-1] if number != "mass" else german
    return Noun(
        english=singular,
        english_plural=singular if number != "both" else plural[0] if plural else inflection.english_plural(singular),
        english_attribute=entry.text("en_attribute", default=""),
        german=german_plural if number == "plural" else german,
        german_plural=german_plural,
        german_oblique=entry.text("de_oblique", default="") or german,
        german_feminine=entry.text("de_feminine", default=""),
        german_attribute=entry.text("de_attribute", default=""),
        gender=gender,
        chinese=entry.text("zh"),
        classifier=entry.text("classifier"),
        mass=number == "mass",
        plural_only=number == "plural",
        stands=entry.flag("stands"),
        female=entry.flag("female"),
        also=entry.words("also"),
    )


def verb(
    entry: Entry, *, objects: Collection[str] = (), places: Collection[str] = (), manners: Collection[str] = ()
) -> Verb:
    """Returns the verb in `{ en = "see, saw", de = "an|sehen, sieht, angesehen", zh = "看", objects = "show" }`.

    English: base, irregular past, irregular -ing form. German: infinitive with a bar after a separable prefix, third
    person without the prefix, participle. `objects`, `places` and `manners` are the names that a verb may select.
    """
    base, *irregular = entry.forms("en", least=1, most=3)
    infinitive, third, participle = entry.forms("de", least=3, most=3)
    prefix, _, infinitive = infinitive.rpartition("|")
    auxiliary = _one_of("de_auxiliary", entry.text("de_auxiliary", default="haben"), known=("haben", "sein"))
    case = _one_of("de_case", entry.text("de_case", default="accusative"), known=CASES)
    return Verb(
        english=base,
        english_third=inflection.english_third(base),
        english_past=irregular[0] if irregular else inflection.english_past(base),
        english_ing=irregular[1] if len(irregular) > 1 else inflection.english_ing(base),
        english_preposition=entry.words("en_preposition"),
        english_particle=entry.words("en_particle"),
        english_complement=entry.words("en_complement"),
        german=infinitive,
        german_first=inflection.german_first(infinitive) if third.endswith("t") else third,
        german_third=third,
        german_participle=participle,
        german_auxiliary="sein" if auxiliary == "sein" else "haben",
        german_prefix=prefix,
        german_preposition=entry.words("de_preposition"),
        german_complement=entry.words("de_complement"),
        german_case=CASES[case],
        german_reflexive=entry.flag("de_reflexive"),
        chinese=entry.text("zh"),
        chinese_coverb=entry.words("zh_coverb"),
        chinese_complement=entry.words("zh_complement"),
        objects=entry.among("objects", known=objects),
        places=entry.among("places", known=places),
        manners=entry.among("manners", known=manners),
    )


def adjective(entry: Entry) -> Adjective:
    """Returns the adjective in `{ en = "old, older", de = "alt, älter", zh = "旧" }`: base and irregular comparative.

    Without a comparative, English takes *more* and German *-er*. `de_stem` is the stem before endings (teur-). In
    Chinese, an adjective of two characters or with `particle` takes 的 before a noun, and one that ends in 色 is a
    colour.
    """
    base, *comparative = entry.forms("en", least=1, most=2)
    german, *german_comparative = entry.forms("de", least=1, most=2)
    chinese = entry.text("zh")
    takes_particle = entry.flag("particle") or len(chinese) > 1
    return Adjective(
        english=base,
        english_comparative=tuple(comparative) or ("more", base),
        german=german,
        german_stem=entry.text("de_stem", default="") or german,
        german_comparative=german_comparative[0] if german_comparative else german + "er",
        chinese=chinese,
        chinese_attribute=(chinese, "的") if takes_particle else (chinese,),
        colour=chinese.endswith("色"),
    )


def place(entry: Entry) -> Place:
    """Returns the place in `{ en = "in the park", de = "der Park", de_at = "in", zh = "公园", zh_at = "里" }`.

    `de_to` is the preposition of motion, if it differs from `de_at`.
    """
    preposition, article, *name = entry.text("en").split()
    if article != "the" or not name:
        raise ValueError(f"en = {entry.text('en')!r}: expected a preposition, 'the' and a name, as in 'in the park'")
    gender, german = _with_article(entry.text("de"))
    at = entry.text("de_at")
    return Place(
        english=tuple(name),
        english_at=preposition,
        english_to="to",
        german=german,
        german_at=at,
        german_to=entry.text("de_to", default="") or at,
        gender=gender,
        chinese=entry.text("zh"),
        chinese_at=entry.text("zh_at", default=""),
        kinds=entry.words("kinds"),
    )


def town(entry: Entry) -> Place:
    """Returns the city or country in `{ en = "Munich", de = "München", zh = "慕尼黑" }`."""
    name = tuple(entry.text("en").split())
    return Place(name, "in", "to", entry.text("de"), "in", "nach", None, entry.text("zh"), "", ())


def phrase(entry: Entry) -> Phrase:
    """Returns the phrase in `{ en = "yesterday·evening", de = "gestern·Abend", zh = "昨天·晚上" }`.

    Dots separate the parts that correspond in the three languages; a text without dots corresponds to all parts.
    """
    english, german, chinese = (tuple(entry.text(language).split(CORRESPONDING)) for language in ("en", "de", "zh"))
    if len({len(english), len(german), len(chinese)} - {1}) > 1:
        raise ValueError("en, de and zh must have the same number of dot-separated parts")
    return Phrase(english, german, chinese, entry.words("kinds"))


def unit(entry: Entry) -> Unit:
    """Returns the unit in `{ en = "hours", de = "Stunden", zh = "小时", classifier = "个" }`."""
    classifier = entry.text("classifier", default="")
    return Unit(entry.text("en"), entry.text("de"), entry.text("zh"), classifier)


def clock_hour(entry: Entry) -> ClockHour:
    """Returns the hour in `{ en = "one", de = "ein", de_alone = "eins", zh = "一" }`."""
    before = entry.text("de")
    return ClockHour(entry.text("en"), before, entry.text("de_alone", default="") or before, entry.text("zh"))


def precipitation(entry: Entry) -> Precipitation:
    """Returns the verb in `{ en = "rain", de = "regnen, regnet, geregnet", zh = "下雨" }`."""
    base = entry.text("en")
    infinitive, third, participle = entry.forms("de", least=3, most=3)
    return Precipitation(
        english=base,
        english_third=inflection.english_third(base),
        english_past=inflection.english_past(base),
        english_ing=inflection.english_ing(base),
        german=infinitive,
        german_third=third,
        german_participle=participle,
        chinese=entry.text("zh"),
    )


def modal(entry: Entry) -> Modal:
    """Returns the modal verb in `{ en = "can", de = "kann, kannst, kann, können", zh = "能" }`: ich, du, er, wir."""
    first, second, third, plural = entry.forms("de", least=4, most=4)
    return Modal(tuple(entry.text("en").split()), (first, second, third, plural), entry.text("zh"))


def _with_article(german: str) -> tuple[Gender, str]:
    article, _, word = german.partition(" ")
    if article not in GENDERS or not word:
        raise ValueError(f"de = {german!r}: expected 'der', 'die' or 'das' and a noun")
    return GENDERS[article], word


def _one_of(name: str, value: str, *, known: Collection[str]) -> str:
    return among(name, [value], known=known)[0]
