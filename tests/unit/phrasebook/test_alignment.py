"""Word alignments: sentences aligned by hand, laws of drawn ones, and the dictionary as a second source."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import permutations
from random import Random
from typing import Any, get_args

import pytest
from tests.unit.phrasebook.builders import (
    BERLIN,
    BROTHER,
    BUY,
    HE,
    MOTHER,
    RAIN,
    SHE,
    TELEVISION,
    THEY,
    TIRED,
    TOMORROW,
    WE,
    YESTERDAY,
    YOU,
    I,
    named,
    noun,
    own,
    phrase,
    place,
    state,
    thing,
    verb,
)

from calque_phrasebook.alignment import Link, align, pharaoh
from calque_phrasebook.glossary import glossary
from calque_phrasebook.grammar.sentences import draw
from calque_phrasebook.lexicon import lexemes, people, places, times, verbs
from calque_phrasebook.lexicon.adjectives import ADJECTIVES
from calque_phrasebook.lexicon.nouns import CUP
from calque_phrasebook.lexicon.tables import read_table
from calque_phrasebook.meaning import (
    Aching,
    Action,
    Aged,
    Born,
    Both,
    Clause,
    ClockTime,
    Command,
    Comparison,
    Described,
    Determiner,
    Duration,
    Existence,
    Gap,
    Hour,
    Linked,
    Located,
    Measured,
    Nominal,
    Occupation,
    Origin,
    Presentation,
    Priced,
    Quality,
    Question,
    Report,
    Sentence,
    Spot,
    Statement,
    Suggestion,
    Weather,
)
from calque_phrasebook.realisation.words import SENTENCE, Field, Marker, Part, Word, fuse, spell, spell_pieces
from calque_phrasebook.surface import LANGUAGES, MARKS, Language, realise, say, segment

DIRECTIONS = tuple(permutations(LANGUAGES, 2))


# --- by hand --------------------------------------------------------------------------------------------------------

# Words of Chinese, English and German correspond where they have a number in common; what has none is not aligned.
GOLD: list[tuple[Sentence, str, str, str]] = [
    (
        Statement(Clause(None, Weather(ADJECTIVES["good"], None), time=times.TODAY)),
        "今天:1 天气:2 很 好。:3",
        "The:4 weather:2 is:5 good:3 today.:1",
        "Das:4 Wetter:2 ist:5 heute:1 gut.:3",
    ),
    (
        Statement(Clause(MOTHER, Action(BUY, thing("apple", "count", "three")), "past", time=YESTERDAY)),
        "我:1 妈妈:2 昨天:3 买:4 了:5 三:6 个 苹果。:7",
        "My:1 mother:2 bought:4,5 three:6 apples:7 yesterday.:3",
        "Meine:1 Mutter:2 hat:5 gestern:3 drei:6 Äpfel:7 gekauft.:4",
    ),
    (
        Statement(Clause(SHE, Action(BUY, thing("apple", "a")), "past", time=YESTERDAY, fronted=True)),
        "昨天:1 她:2 买:3 了:4 一:5 个 苹果。:6",
        "Yesterday:1 she:2 bought:3,4 an:5 apple.:6",
        "Gestern:1 hat:4 sie:2 einen:5 Apfel:6 gekauft.:3",
    ),
    (
        Statement(Clause(THEY, Action(BUY, thing("apple", "bare")), "past", negative=True, time=YESTERDAY)),
        "他们:1 昨天:2 没:3,4 买:5 苹果。:6",
        "They:1 did:3 not:4 buy:5 apples:6 yesterday.:2",
        "Sie:1 haben:3 gestern:2 keine:4 Äpfel:6 gekauft.:5",
    ),
    (
        Statement(
            Clause(
                HE,
                Action(verb("get up", "routine")),
                "habit",
                time=phrase("every day"),
                hour=Hour(times.HOURS[6], True),
            )
        ),
        "他:1 每天:2,3 七:4 点 半:5 起床。:6",
        "He:1 gets:6 up:6 at:7 half:5 past:5 seven:4 every:2 day.:3",
        "Er:1 steht:6 jeden:2 Tag:3 um:7 halb:5 acht:4 auf.:6",
    ),
    (
        state(
            Described(noun("book"), Clause(I, Action(BUY, Gap()), "past", time=YESTERDAY)),
            Quality(ADJECTIVES["exciting"]),
        ),
        "我:1 昨天:2 买:3 的:4 书:5 很 精彩。:6",
        "The:7 book:5 that:4 I:1 bought:3,8 yesterday:2 is:9 exciting.:6",
        "Das:7 Buch,:5 das:4 ich:1 gestern:2 gekauft:3 habe,:8 ist:9 spannend.:6",
    ),
    (
        Statement(
            Clause(
                HE,
                Action(verbs.LAY, thing("book", "the"), goal=Spot(places.ON, noun("table"))),
                "past",
                time=YESTERDAY,
            )
        ),
        "他:1 昨天:2 把 书:3 放:4 在:5 了:6 桌子:7 上。:5",
        "He:1 put:4,6 the:8 book:3 on:5 the:9 table:7 yesterday.:2",
        "Er:1 hat:6 gestern:2 das:8 Buch:3 auf:5 den:9 Tisch:7 gelegt.:4",
    ),
    (
        Statement(
            Clause(BROTHER, Action(verbs.TRAVEL, goal=BERLIN, vehicle=noun("train")), "future", time=TOMORROW),
        ),
        "她:1 哥哥:2,3 明天:4 会:5 坐:6 火车:7 去:8 柏林。:9",
        "Her:1 older:2 brother:3 will:5 travel:8 to:10 Berlin:9 by:6 train:7 tomorrow.:4",
        "Ihr:1 älterer:2 Bruder:3 wird:5 morgen:4 mit:6 dem Zug:7 nach:10 Berlin:9 fahren.:8",
    ),
    (
        state(SHE, Occupation(noun("doctor"))),
        "她:1 是:2 医生。:3",
        "She:1 is:2 a doctor.:3",
        "Sie:1 ist:2 Ärztin.:3",
    ),
    (
        Statement(Clause(HE, Occupation(noun("police officer")), negative=True)),
        "他:1 不:2 是:3 警察。:4",
        "He:1 is:3 not:2 a:5 police:4 officer.:4",
        "Er:1 ist:3 kein:2,5 Polizist.:4",
    ),
    (
        state(thing("car", "this"), Comparison(ADJECTIVES["expensive"], own(people.I, "bicycle"), False)),
        "这:1 辆 汽车:2 比:3 我:4 的:4 自行车:5 贵。:6",
        "This:1 car:2 is:7 more:6 expensive:6 than:3 my:4 bicycle.:5",
        "Dieses:1 Auto:2 ist:7 teurer:6 als:3 mein:4 Fahrrad.:5",
    ),
    (
        state(thing("car", "this"), Comparison(ADJECTIVES["fast"], own(people.I, "bicycle"), True)),
        "这:1 辆 汽车:2 跟:3 我:4 的:4 自行车:5 一样:6 快。:7",
        "This:1 car:2 is:8 as:6 fast:7 as:3 my:4 bicycle.:5",
        "Dieses:1 Auto:2 ist:8 so:6 schnell:7 wie:3 mein:4 Fahrrad.:5",
    ),
    (
        Statement(
            Clause(thing("car", "this"), Comparison(ADJECTIVES["fast"], own(people.I, "bicycle"), True), negative=True)
        ),
        "这:1 辆 汽车:2 没有:3,9 我:4 的:4 自行车:5 那么:6 快。:7",
        "This:1 car:2 is:8 not:9 as:6 fast:7 as:3 my:4 bicycle.:5",
        "Dieses:1 Auto:2 ist:8 nicht:9 so:6 schnell:7 wie:3 mein:4 Fahrrad.:5",
    ),
    (
        Statement(Clause(I, Aching(noun("head")), "habit", frequency=phrase("often"))),
        "我:1 经常:2 头:3 疼。:4",
        "My:1 head:3 often:2 hurts.:4",
        "Mir:1 tut:4 oft:2 der Kopf:3 weh.:4",
    ),
    (
        state(WE, Action(verb("rest", "activity"), gladly=True)),
        "我们:1 喜欢:2 休息。:3",
        "We:1 like:2 to:2 rest.:3",
        "Wir:1 ruhen:3 uns:3 gern:2 aus.:3",
    ),
    (
        Statement(Clause(HE, Action(verb("call", "social"), MOTHER), "past", time=YESTERDAY)),
        "他:1 昨天:2 给:3 我:4 妈妈:5 打:3 了:6 电话。:3",
        "He:1 called:3,6 my:4 mother:5 yesterday.:2",
        "Er:1 hat:6 gestern:2 meine:4 Mutter:5 angerufen.:3",
    ),
    (
        state(own(people.YOU, "mother"), Action(verb("wait for", "social"), WE)),
        "你:1 妈妈:2 等:3,4 我们。:5",
        "Your:1 mother:2 waits:3 for:4 us.:5",
        "Deine:1 Mutter:2 wartet:3 auf:4 uns.:5",
    ),
    (
        Linked("because", Clause(None, RAIN, "ongoing", time=times.TODAY), Clause(SHE, TIRED)),
        "因为:1 今天:2 柏林:3 在:4 下雨，:5 所以:1 她:6 很 累。:7",
        "She:6 is:8 tired:7 because:1 it:9 is:4 raining:5 in:10 Berlin:3 today.:2",
        "Sie:6 ist:8 müde,:7 weil:1 es:9 heute:2 in:10 Berlin:3 regnet.:4,5",
    ),
    (
        Linked("if", Clause(None, RAIN, time=TOMORROW), Clause(WE, TELEVISION, "future")),
        "如果:1 明天:2 柏林:3 下雨，:4 我们:5 就:1 会:6 看:7 电视。:8",
        "If:1 it:9 rains:4 in:10 Berlin:3 tomorrow,:2 we:5 will:6 watch:7 television.:8",
        "Wenn:1 es:9 morgen:2 in:10 Berlin:3 regnet,:4 werden:6 wir:5 fernsehen.:7,8",
    ),
    (
        Linked("while", Clause(SHE, TELEVISION), Clause(HE, Action(verb("sleep", "activity")))),
        "她:1 看:2 电视:3 的:4 时候，:4 他:5 睡觉。:6",
        "While:4 she:1 watches:2 television,:3 he:5 sleeps.:6",
        "Während:4 sie:1 fernsieht,:2,3 schläft:6 er.:5",
    ),
    (
        Linked("and", Clause(SHE, TIRED), Clause(SHE, TIRED, negative=True)),
        "她:1 很 累，:2 她:3 不:4 累。:5",
        "She:1 is:6 tired,:2 and:7 she:3 is:8 not:4 tired.:5",
        "Sie:1 ist:6 müde:2 und:7 sie:3 ist:8 nicht:4 müde.:5",
    ),
    (
        Report(I, verb("ask", "whether"), Clause(THEY, TIRED), "whether"),
        "我:1 问:2 他们:3 是不是:4 很 累。:5",
        "I:1 ask:2 whether:4 they:3 are:6 tired.:5",
        "Ich:1 frage,:2 ob:4 sie:3 müde:5 sind.:6",
    ),
    (
        Question(
            Clause(YOU, Action(BUY, Nominal(noun("shirt"), Determiner("how many"))), "past", time=YESTERDAY), "object"
        ),
        "你:1 昨天:2 买:3 了:4 几:5,6 件 衬衫？:7",
        "How:5 many:6 shirts:7 did:4 you:1 buy:3 yesterday?:2",
        "Wie:5 viele:6 Hemden:7 hast:4 du:1 gestern:2 gekauft?:3",
    ),
    (
        Question(Clause(HE, Action(verb("have", "need"), thing("dog", "a"))), "whether"),
        "他:1 有:2 一:3 只 狗:4 吗？",
        "Does he:1 have:2 a:3 dog?:4",
        "Hat:2 er:1 einen:3 Hund?:4",
    ),
    (
        Question(Clause(named("Anna"), Aged()), "age"),
        "安娜:1 多大？:2,3",
        "How:2 old:3 is:4 Anna?:1",
        "Wie:2 alt:3 ist:4 Anna?:1",
    ),
    (
        Question(Clause(SHE, Action(verb("study", "activity")), modal=verbs.MODALS[1]), "place"),
        "她:1 能:2 在:3 哪里:3 学习？:4",
        "Where:3 can:2 she:1 study?:4",
        "Wo:3 kann:2 sie:1 lernen?:4",
    ),
    (
        Command(Action(verb("open", "disposal"), thing("window", "the")), True),
        "请:1 不要:2 把 窗户:3 打开。:4",
        "Please:1 do not:2 open:4 the:5 window.:3",
        "Mach:4 bitte:1 das:5 Fenster:3 nicht:2 auf.:4",
    ),
    (
        Suggestion(Action(verbs.GO, goal=place("park"))),
        "我们:1 去:2 公园:3 吧。:4",
        "Let:4 us:1 go:2 to:5 the:6 park.:3",
        "Lass:4 uns:1 in:5 den:6 Park:3 gehen.:2",
    ),
    (
        Existence(Spot(places.UNDER, noun("bed")), thing("key", "count", "two")),
        "床:1 下面:2 有:3 两:4 把 钥匙。:5",
        "There:3 are:3 two:4 keys:5 under:2 the:6 bed.:1",
        "Unter:2 dem:6 Bett:1 liegen:3 zwei:4 Schlüssel.:5",
    ),
    (
        Existence(place("park"), thing("bird", "many")),
        "公园:1 里:2 有:3,4 很多:5 鸟。:6",
        "There:3 are:4 many:5 birds:6 in:2 the:7 park.:1",
        "Im:2,7 Park:1 gibt:4 es:3 viele:5 Vögel.:6",
    ),
    (
        ClockTime(Hour(times.HOURS[11], True)),
        "现在:1 是:2 十二:3 点 半。:4",
        "It:5 is:2 half:4 past:4 twelve:3 now.:1",
        "Es:5 ist:2 jetzt:1 halb:4 eins.:3",
    ),
    (
        Statement(
            Clause(named("Anna"), Action(verb("play the piano", "activity")), modal=verbs.MODALS[1], negative=True)
        ),
        "安娜:1 不:2 能:3 弹:4 钢琴。:5",
        "Anna:1 cannot:2,3 play:4 the:5 piano.:5",
        "Anna:1 kann:3 nicht:2 Klavier:5 spielen.:4",
    ),
    (
        Statement(
            Clause(
                SHE,
                Action(verb("study", "activity"), companion=own(people.I, "friend"), place=place("library")),
                modal=verbs.MODALS[0],
                time=TOMORROW,
            )
        ),
        "她:1 明天:2 想:3 跟:4 我:5 的:5 朋友:6 一起:4 在:7 图书馆:8 里:7 学习。:9",
        "She:1 wants:3 to:3 study:9 with:4 my:5 friend:6 in:7 the:10 library:8 tomorrow.:2",
        "Sie:1 möchte:3 morgen:2 mit:4 meinem:5 Freund:6 in:7 der:10 Bibliothek:8 lernen.:9",
    ),
    (
        Statement(
            Clause(
                HE,
                Action(verb("work", "activity"), duration=Duration(phrase("three"), times.SHORT_UNITS[0])),
                "past",
                time=YESTERDAY,
            )
        ),
        "他:1 昨天:2 工作:3 了:4 三:5 个 小时。:6",
        "He:1 worked:3,4 for three:5 hours:6 yesterday.:2",
        "Er:1 hat:4 gestern:2 drei:5 Stunden:6 gearbeitet.:3",
    ),
    (
        state(named("Anna"), Born(phrase("in May"))),
        "安娜:1 是:2 五月:3,4 出生:5 的。",
        "Anna:1 was:2 born:5 in:3 May.:4",
        "Anna:1 ist:2 im:3 Mai:4 geboren.:5",
    ),
    (
        state(HE, Origin(place("Germany"))),
        "他:1 来自:2,3 德国。:4",
        "He:1 comes:2 from:3 Germany.:4",
        "Er:1 kommt:2 aus:3 Deutschland.:4",
    ),
    (
        state(thing("shirt", "this"), Priced(phrase("twenty"), phrase("euros"))),
        "这:1 件 衬衫:2 二十:3 欧元。:4",
        "This:1 shirt:2 costs:5 twenty:3 euros.:4",
        "Dieses:1 Hemd:2 kostet:5 zwanzig:3 Euro.:4",
    ),
    (
        Statement(
            Clause(
                HE,
                Action(verbs.GO, goal=place("bakery"), purpose=Action(BUY, thing("cookie", "count", "three"))),
                "past",
                time=YESTERDAY,
            )
        ),
        "他:1 昨天:2 去:3 面包店:4 买:5 了:6 三:7 块 饼干。:8",
        "He:1 went:3,6 to:9 the:10 bakery:4 to:11 buy:5 three:7 cookies:8 yesterday.:2",
        "Er:1 ist:6 gestern:2 in:9 die:10 Bäckerei:4 gegangen,:3 um:11 drei:7 Kekse:8 zu:11 kaufen.:5",
    ),
    (
        state(own(people.I, "bicycle"), Quality(ADJECTIVES["red"])),
        "我:1 的:1 自行车:2 是:3 红色:4 的。:4",
        "My:1 bicycle:2 is:3 red.:4",
        "Mein:1 Fahrrad:2 ist:3 rot.:4",
    ),
    (
        state(thing("ring", "this"), Quality(ADJECTIVES["expensive"], times.TOO)),
        "这:1 枚 戒指:2 太:3 贵:4 了。:3",
        "This:1 ring:2 is:5 too:3 expensive.:4",
        "Dieser:1 Ring:2 ist:5 zu:3 teuer.:4",
    ),
    (
        Statement(
            Clause(
                SHE,
                Action(verbs.CONSUME_DRINK, Measured(None, CUP, noun("tea"))),
                "habit",
                time=phrase("every day"),
            )
        ),
        "她:1 每天:2,3 喝:4 一:5 杯:6 茶。:7",
        "She:1 drinks:4 a:5 cup:6 of tea:7 every:2 day.:3",
        "Sie:1 trinkt:4 jeden:2 Tag:3 eine:5 Tasse:6 Tee.:7",
    ),
    (
        Presentation(thing("car", "a", quality="new")),
        "这:1 是:2 一:3 辆 新:4 汽车。:5",
        "This:1 is:2 a:3 new:4 car.:5",
        "Das:1 ist:2 ein:3 neues:4 Auto.:5",
    ),
    (
        Statement(Clause(Both(named("Anna"), own(people.I, "older brother")), Located(BERLIN), "past", time=YESTERDAY)),
        "安娜:1 和:2 我:3 哥哥:4,5 昨天:6 在:7,8 柏林。:9",
        "Anna:1 and:2 my:3 older:4 brother:5 were:7 in:8 Berlin:9 yesterday.:6",
        "Anna:1 und:2 mein:3 älterer:4 Bruder:5 waren:7 gestern:6 in:8 Berlin.:9",
    ),
    (
        Statement(
            Clause(named("Peter"), Action(verb("send", "giving"), thing("letter", "a"), I), "past", time=YESTERDAY)
        ),
        "彼得:1 昨天:2 寄给:3 了:4 我:5 一:6 封 信。:7",
        "Peter:1 sent:3,4 me:5 a:6 letter:7 yesterday.:2",
        "Peter:1 hat:4 mir:5 gestern:2 einen:6 Brief:7 geschickt.:3",
    ),
    (
        state(SHE, Action(verb("sing", "skill"), manner=phrase("well"))),
        "她:1 唱:2 得 很 好。:3",
        "She:1 sings:2 well.:3",
        "Sie:1 singt:2 gut.:3",
    ),
]


def _annotated(text: str) -> tuple[list[str], list[set[str]]]:
    """Gives the words of an annotated sentence, and the numbers of each."""
    words, numbers = [], []
    for token in text.split():
        word, _, labels = token.partition(":")
        words.append(word)
        numbers.append(set(labels.split(",")) - {""})
    return words, numbers


@pytest.mark.parametrize(("meaning", "chinese", "english", "german"), GOLD)
def test_alignments_are_as_annotated_by_hand(meaning: Sentence, chinese: str, english: str, german: str) -> None:
    annotated = dict(zip(LANGUAGES, map(_annotated, (chinese, english, german)), strict=True))
    for source, target in DIRECTIONS:
        assert _words(meaning, source) == annotated[source][0]
        gold = {
            (one, other)
            for one, numbers in enumerate(annotated[source][1])
            for other, others in enumerate(annotated[target][1])
            if numbers & others
        }
        assert set(_links(meaning, source, target)) == gold, (source, target)


def _words(meaning: Sentence, language: Language) -> list[str]:
    return segment([word.text for word in realise(meaning, language=language)], language=language)


def _links(meaning: Sentence, source: Language, target: Language) -> tuple[Link, ...]:
    return align(realise(meaning, language=source), realise(meaning, language=target))


def test_words_of_one_part_are_all_linked_and_words_of_none_are_not() -> None:
    part, other = SENTENCE / "subject", SENTENCE / "object"
    source = [*spell("post office", part), *spell("of"), *spell("it", other)]
    target = [fuse("ab", Word("a", (part,)), Word("b", (other,))), *spell("，"), *spell("c", part), *spell("。")]
    assert align(source, target) == ((0, 0), (0, 1), (1, 0), (1, 1), (3, 0))
    assert pharaoh(align(source, target)) == "0-0 0-1 1-0 1-1 3-0"
    assert pharaoh(()) == ""


def test_a_phrase_is_aligned_piece_by_piece_or_as_a_whole() -> None:
    at = SENTENCE / "time"
    evening = spell_pieces(("yesterday", "evening"), at=at, pieces=2)
    abend = spell_pieces(("gestern", "Abend"), at=at, pieces=2)
    one_word = spell_pieces(("昨晚",), at=at, pieces=2)
    assert align(evening, abend) == ((0, 0), (1, 1))
    assert align(evening, one_word) == ((0, 0), (1, 0))
    before = spell_pieces(("the day before yesterday",), at=at, pieces=1)
    assert align(before, spell_pieces(("vorgestern",), at=at, pieces=1)) == ((0, 0), (1, 0), (2, 0), (3, 0))


# --- drawn sentences ------------------------------------------------------------------------------------------------


@cache
def sample() -> list[Sentence]:
    random = Random(12)
    return [draw(random) for _ in range(3_000)]


def test_links_are_between_words_of_the_text() -> None:
    for meaning in sample():
        words = {language: _words(meaning, language) for language in LANGUAGES}
        for source, target in DIRECTIONS:
            links = _links(meaning, source, target)
            assert list(links) == sorted(set(links))
            assert all(0 <= one < len(words[source]) and 0 <= other < len(words[target]) for one, other in links)
        for language in ("en", "de"):
            assert words[language] == say(meaning, language=language).split()
        assert "".join(words["zh"]) == say(meaning, language="zh")
        assert not any(character.isspace() for word in words["zh"] for character in word)


def test_turning_the_languages_round_turns_the_links_round() -> None:
    for meaning in sample():
        for source, target in DIRECTIONS[:3]:
            back = _links(meaning, target, source)
            assert set(_links(meaning, source, target)) == {(one, other) for other, one in back}


def _lexemes(node: Any, at: Part) -> Iterator[tuple[Part, Any]]:
    """Gives the lexemes of a meaning with their parts, by walking over its fields."""
    for field in fields(node):
        value = getattr(node, field.name)
        if type(value).__module__ == lexemes.__name__:
            yield at / field.name, value  # type: ignore[operator]
        elif is_dataclass(value):
            yield from _lexemes(value, at / field.name)  # type: ignore[operator]


def _pieces(part: Part, lexeme: Any) -> list[Part]:
    whole = not isinstance(lexeme, lexemes.Phrase) or lexeme.parts == 1
    return [part] if whole else [part.piece(number) for number in range(lexeme.parts)]


def test_every_lexeme_has_words_in_every_language_and_they_are_linked() -> None:
    for meaning in sample():
        realised = {language: realise(meaning, language=language) for language in LANGUAGES}
        parts = [piece for part, lexeme in _lexemes(meaning, SENTENCE) for piece in _pieces(part, lexeme)]
        assert len(parts) == len(set(parts))
        for source, target in DIRECTIONS:
            links = set(align(realised[source], realised[target]))
            for part in parts:
                one, other = _expressing(realised[source], part), _expressing(realised[target], part)
                assert one and other, (part, source, target, say(meaning, language="en"))
                assert {(a, b) for a in one for b in other} <= links


def _expressing(words: list[Word], part: Part) -> list[int]:
    spaced = [word for word in words if word.text not in MARKS]
    return [index for index, word in enumerate(spaced) if part in word.parts]


# words that belong to a lexeme without being forms of it: particles, 在…上, im for in, a verb's reflexive pronoun
EXTRAS = {"的", "了", "在", "im", "mich", "dich", "sich", "uns"}
PREFIXES = {"zh": "chinese", "en": "english", "de": "german"}


def _forms(lexeme: Any, language: Language) -> set[str]:
    """Gives all words in the fields of a lexeme that belong to a language."""
    values = [getattr(lexeme, field.name) for field in fields(lexeme) if field.name.startswith(PREFIXES[language])]
    texts = [text for value in values for text in (value if isinstance(value, tuple) else (value,))]
    return {word.lower() for text in texts if isinstance(text, str) for word in text.split()}


def test_a_word_that_expresses_a_lexeme_begins_like_one_of_its_forms() -> None:
    for meaning in sample():
        by_part = {piece: lexeme for part, lexeme in _lexemes(meaning, SENTENCE) for piece in _pieces(part, lexeme)}
        for language in LANGUAGES:
            for word in realise(meaning, language=language):
                for lexeme in (by_part[part] for part in word.parts if part in by_part):
                    if isinstance(lexeme, lexemes.ClockHour) and language == "de":
                        continue  # half past three is halb vier
                    start = word.text[:2].lower()
                    begins = any(form.startswith(start) for form in _forms(lexeme, language))
                    assert begins or word.text in EXTRAS, (word, lexeme.key, say(meaning, language=language))


def test_words_express_parts_that_the_meaning_has_or_markers_of_its_constructions() -> None:
    markers: defaultdict[str, set[Language]] = defaultdict(set)
    for meaning in sample():
        for language in LANGUAGES:
            for part in {part for word in realise(meaning, language=language) for part in word.parts}:
                value: Any = meaning
                for name in part.path:
                    if name in get_args(Marker) and not hasattr(value, name):
                        markers[name].add(language)
                        break
                    if not name.isdigit():
                        assert name in get_args(Field)
                        value = getattr(value, name)
                assert value is not None or part.path[-1] == "number", part  # a cup has no number
    assert set(markers) == set(get_args(Marker))
    assert all(len(languages) > 1 for languages in markers.values()), markers


# --- the dictionary -------------------------------------------------------------------------------------------------


@cache
def function_words() -> frozenset[str]:
    """Gives the words that the dictionary translates without knowing their construction, and the pronouns."""
    entries = read_table("function_words.toml").entries("word", lambda entry: sum(map(entry.words, LANGUAGES), ()))
    pronouns = (form for person in people.PERSONS for form in (*person.english, *person.german, person.chinese))
    return frozenset({word for words in entries for word in words} | {*pronouns})


HOMOGRAPHS = {"swimming"}  # the swimming pool, where one also swims


@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_words_that_the_dictionary_translates_into_each_other_are_linked(source: Language, target: Language) -> None:
    """A second source that knows neither grammar nor derivations, only which forms are translations of each other."""
    table = {key[0]: value[0] for key, value in glossary(source, target).items() if len(key) == len(value) == 1}
    checked = 0
    for meaning in sample():
        words, others = (
            [word.text for word in realise(meaning, language=language) if word.text not in MARKS]
            for language in (source, target)
        )
        links = set(_links(meaning, source, target))
        for index, word in enumerate(words):
            if word in function_words() | HOMOGRAPHS or words.count(word) > 1 or others.count(table.get(word, "")) != 1:
                continue
            checked += 1
            assert (index, others.index(table[word])) in links, (word, say(meaning, language=source))
    assert checked > len(sample())
