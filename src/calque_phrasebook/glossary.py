"""A bilingual dictionary of the lexicon: every form of a word in one language, and its counterpart in another.

It knows words and set phrases, but no grammar: what a word-by-word translation can be.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import zip_longest

from calque_phrasebook.grammar import phrases as grammar_phrases
from calque_phrasebook.lexicon import nouns as lexicon_nouns
from calque_phrasebook.lexicon import people as lexicon_people
from calque_phrasebook.lexicon import places as lexicon_places
from calque_phrasebook.lexicon import times as lexicon_times
from calque_phrasebook.lexicon import verbs as verb_tables
from calque_phrasebook.lexicon.adjectives import ADJECTIVES
from calque_phrasebook.lexicon.lexemes import Adjective, Noun, Phrase, Place, Verb, phrases
from calque_phrasebook.realisation import german_phrases as de
from calque_phrasebook.surface import Language

Words = tuple[str, ...]
Entry = dict[Language, list[Words]]  # the forms of a word in each language, form by form

FUNCTION_WORDS = phrases("""
the | das |
the | der |
the | die |
the | den |
the | dem |
this | dieser | 这
this | dieses | 这
this | diesen | 这
a | eine | 一
a | einen | 一
a | einem | 一
a | einer | 一
not | kein | 不
not | keine | 不
not | keinen | 不
a | ein | 一
an | ein | 一
this | dieses | 这
these | diese | 这些
many | viele | 很多
some | einige | 一些
which | welche | 哪
how many | wie viele | 几
not | nicht | 不
not | nicht | 没
do not | nicht | 不要
cannot | kann nicht | 不能
is | ist | 是
are | sind | 是
am | bin | 是
was | war | 是
were | waren | 是
be | sein | 是
has | hat | 有
does not have | hat nicht | 没有
has | hat |
have | haben |
have | habe |
is | ist |
will | wird | 会
is | gerade | 正在
do | |
does | |
did | |
 | | 了
 | | 把
of | | 的
 | | 吗
 | | 吧
is | ist | 很
with | mit | 跟
together | zusammen | 一起
by | mit | 坐
in | in | 在
at | in | 在
on | auf | 上
in | in | 里
to | nach | 去
to | zu |
for | für | 给
from | aus | 来自
than | als | 比
as | so | 一样
as | wie | 那么
because | weil | 因为
so | deshalb | 所以
if | wenn | 如果
then | dann | 就
although | obwohl | 虽然
but | aber | 但是
and | und | 和
while | während | 的时候
that | dass |
whether | ob | 是不是
who | wer | 谁
what | was | 什么
where | wo | 哪里
where | wohin | 哪里
when | wann | 什么时候
why | warum | 为什么
how | wie | 怎么
how much | wie viel | 多少钱
how old | wie alt | 多大
please | bitte | 请
let us | lass uns | 我们
there is | es gibt | 有
there are | es gibt | 有
like to | gern | 喜欢
likes to | gern | 喜欢
years old | Jahre alt | 岁
o'clock | Uhr | 点
half past | halb | 半
was born | geboren | 出生
were born | geboren | 出生
costs | kostet | 要
cost | kosten | 要
hurts | weh | 疼
hurt | wehgetan | 疼
weather | Wetter | 天气
it | es | 它
well | gut | 得
for | |
""")
PUNCTUATION: dict[str, dict[Language, str]] = {
    mark: dict(zip(("zh", "en", "de"), marks, strict=True))
    for marks in (("。", ".", "."), ("？", "?", "?"), ("，", ",", ","))
    for mark in marks
}


@cache
def glossary(source: Language, target: Language) -> dict[Words, Words]:
    """Gives the counterpart of every form and set phrase of the source language; the first sense is taken."""
    table: dict[Words, Words] = {}
    for entry in _entries():
        for form, counterpart in zip_longest(entry[source], entry[target]):
            if form:
                table.setdefault(form, counterpart if counterpart is not None else entry[target][0])
    return table


def _entries() -> Iterator[Entry]:
    for phrase in FUNCTION_WORDS:
        yield _phrase(phrase)
    for noun in _nouns():
        yield _noun(noun)
    for verb in _verbs():
        yield _verb(verb)
    for adjective in ADJECTIVES.values():
        yield _adjective(adjective)
    for place in (
        *lexicon_places.PLACES["any"],
        *lexicon_places.CITIES,
        *lexicon_places.COUNTRIES,
        lexicon_places.HOME,
    ):
        yield _place(place)
    for relation in (value for value in vars(lexicon_places).values() if isinstance(value, lexicon_places.Relation)):
        yield {"en": [relation.english], "de": [(relation.german,)], "zh": [(relation.chinese,)]}
    for person in lexicon_people.PERSONS:
        yield from _person(person)
    for modal in verb_tables.MODALS:
        english: list[Words] = [modal.english] if len(modal.english) == 1 else [("want", "to"), ("wants", "to")]
        yield {"en": english, "de": [(form,) for form in modal.german], "zh": [(modal.chinese,)]}
    for phrase in _times():
        yield _phrase(phrase)
    for what in lexicon_times.PRECIPITATION:
        yield {"en": [(form,) for form in what.english], "de": [(form,) for form in what.german], "zh": [what.chinese]}
    for classifier in {noun.classifier: None for noun in _nouns()}:
        yield {"en": [()], "de": [()], "zh": [(classifier,)]}
    for phrase in lexicon_people.NAMES:
        yield _phrase(phrase)


def _times() -> Iterator[Phrase]:
    """Gives the fixed phrases of time and number; hours and rain have several forms and are no phrases here."""
    several = (lexicon_times.HOURS, lexicon_times.PRECIPITATION)
    for value in vars(lexicon_times).values():
        if isinstance(value, tuple) and value not in several:
            yield from value


def _nouns() -> Iterator[Noun]:
    for table in (*vars(lexicon_nouns).values(), *vars(lexicon_people).values(), *vars(grammar_phrases).values()):
        members: Sequence[object] = table if isinstance(table, tuple) else (table,)
        yield from (member for member in members if isinstance(member, Noun))


def _verbs() -> Iterator[Verb]:
    for table in vars(verb_tables).values():
        members: Sequence[object] = table if isinstance(table, tuple) else (table,)
        yield from (member for member in members if isinstance(member, Verb))


def _phrase(phrase: Phrase) -> Entry:
    return {
        "en": [phrase.english],
        "de": [phrase.german],
        "zh": [("".join(phrase.chinese),)] if phrase.chinese else [()],
    }


def _noun(noun: Noun) -> Entry:
    attribute = (noun.german_attribute + "e",) if noun.german_attribute else ()
    german = [(*attribute, noun.german), (*attribute, noun.german_plural)]
    others = [(noun.german_oblique,), (de.noun_form(noun, plural=True, case="dative"),)]
    return {
        "en": [tuple(noun.english.split()), tuple(noun.english_plural.split())],
        "de": [*german, *others, *([(noun.german_feminine,)] if noun.german_feminine else [])],
        "zh": [(noun.chinese,)],
    }


def _verb(verb: Verb) -> Entry:
    tail = (*verb.english_tail, *verb.english_particle)
    english = (verb.english, verb.english_third, verb.english_past, verb.english_ing)
    whole, finite = de.infinitive(verb), verb.prefix + verb.german_third
    simple = [] if verb.lead else [(verb.german_first,), (verb.german,), (verb.german_third,)]
    return {
        "en": [(form, *tail) for form in english],
        "de": [(*verb.lead, whole), (*verb.lead, finite), (*verb.lead, verb.participle), (*verb.lead, whole), *simple],
        "zh": [(verb.chinese + "".join(verb.chinese_object),)],
    }


def _adjective(adjective: Adjective) -> Entry:
    endings = ("e", "en", "er", "es")
    return {
        "en": [(adjective.english,), adjective.english_comparative, *[(adjective.english,)] * len(endings)],
        "de": [
            (adjective.german,), (adjective.german_comparative,), *((adjective.german_stem + end,) for end in endings)
        ],
        "zh": [(adjective.chinese,)],
    }  # fmt: skip


def _place(place: Place) -> Entry:
    english = tuple(word for word in place.english_at[1:] if word != "the")
    return {"en": [english], "de": [(place.german_at[-1],)], "zh": [(place.chinese,)]}


def _person(person: lexicon_people.Person) -> Iterator[Entry]:
    own = person.german_possessive
    possessives: list[Words] = [(own + ending,) for ending in ("", "e", "en", "em", "er", "es")]
    yield {
        "en": [(form,) for form in person.english[:2]],
        "de": [(form,) for form in person.german[:2]],
        "zh": [(person.chinese,)],
    }
    yield {"en": [(person.english[2],)], "de": possessives, "zh": [(person.chinese + "的",)]}
