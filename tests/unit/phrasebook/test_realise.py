"""Sentences written by hand in three languages, against what the realisers say."""

import pytest
from tests.unit.phrasebook.builders import (
    BERLIN,
    BROTHER,
    BUY,
    HE,
    MOTHER,
    RAIN,
    SHE,
    THEY,
    TIRED,
    WE,
    YOU,
    I,
    noun,
    own,
    phrase,
    place,
    thing,
    verb,
)  # fmt: skip

from calque_phrasebook.lexicon import people, places, times, verbs
from calque_phrasebook.lexicon.adjectives import ADJECTIVES
from calque_phrasebook.meaning import (
    Aching,
    Action,
    Clause,
    ClockTime,
    Command,
    Comparison,
    Described,
    Determiner,
    Existence,
    Gap,
    Hour,
    Linked,
    Nominal,
    Occupation,
    Quality,
    Question,
    Report,
    Sentence,
    Spot,
    Statement,
    Suggestion,
    Weather,
)  # fmt: skip
from calque_phrasebook.surface import LANGUAGES, say

SENTENCES: list[tuple[Sentence, str, str, str]] = [
    (
        Statement(Clause(None, Weather(ADJECTIVES["good"], None), time=times.TODAY)),
        "今天天气很好。",
        "The weather is good today.",
        "Das Wetter ist heute gut.",
    ),
    (
        Statement(Clause(MOTHER, Action(BUY, thing("apple", "count", "three")), "past", time=phrase("yesterday"))),
        "我妈妈昨天买了三个苹果。",
        "My mother bought three apples yesterday.",
        "Meine Mutter hat gestern drei Äpfel gekauft.",
    ),
    (
        Statement(Clause(SHE, Action(BUY, thing("apple", "a")), "past", time=phrase("yesterday"), fronted=True)),
        "昨天她买了一个苹果。",
        "Yesterday she bought an apple.",
        "Gestern hat sie einen Apfel gekauft.",
    ),
    (
        Statement(Clause(THEY, Action(BUY, thing("apple", "bare")), "past", negative=True, time=phrase("yesterday"))),
        "他们昨天没买苹果。",
        "They did not buy apples yesterday.",
        "Sie haben gestern keine Äpfel gekauft.",
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
        "他每天七点半起床。",
        "He gets up at half past seven every day.",
        "Er steht jeden Tag um halb acht auf.",
    ),
    (
        Statement(
            Clause(
                Described(noun("book"), Clause(I, Action(BUY, Gap()), "past", time=phrase("yesterday"))),
                Quality(ADJECTIVES["exciting"]),
            )
        ),
        "我昨天买的书很精彩。",
        "The book that I bought yesterday is exciting.",
        "Das Buch, das ich gestern gekauft habe, ist spannend.",
    ),
    (
        Statement(
            Clause(
                HE,
                Action(verbs.LAY, thing("book", "the"), goal=Spot(places.ON, noun("table"))),
                "past",
                time=phrase("yesterday"),
            )
        ),
        "他昨天把书放在了桌子上。",
        "He put the book on the table yesterday.",
        "Er hat gestern das Buch auf den Tisch gelegt.",
    ),
    (
        Statement(
            Clause(
                BROTHER,
                Action(verbs.TRAVEL, goal=BERLIN, vehicle=noun("train")),
                "future",
                time=phrase("tomorrow"),
            )
        ),
        "她哥哥明天会坐火车去柏林。",
        "Her older brother will travel to Berlin by train tomorrow.",
        "Ihr älterer Bruder wird morgen mit dem Zug nach Berlin fahren.",
    ),
    (
        Statement(Clause(SHE, Occupation(noun("doctor")))),
        "她是医生。",
        "She is a doctor.",
        "Sie ist Ärztin.",
    ),
    (
        Statement(
            Clause(
                thing("car", "this"),
                Comparison(ADJECTIVES["fast"], own(people.I, "bicycle"), False),
            )
        ),
        "这辆汽车比我的自行车快。",
        "This car is faster than my bicycle.",
        "Dieses Auto ist schneller als mein Fahrrad.",
    ),
    (
        Statement(Clause(I, Aching(noun("head")), "habit", frequency=phrase("often"))),
        "我经常头疼。",
        "My head often hurts.",
        "Mir tut oft der Kopf weh.",
    ),
    (
        Statement(Clause(WE, Action(verb("rest", "activity"), gladly=True))),
        "我们喜欢休息。",
        "We like to rest.",
        "Wir ruhen uns gern aus.",
    ),
    (
        Statement(Clause(HE, Action(verb("call", "social"), MOTHER), "past", time=phrase("yesterday"))),
        "他昨天给我妈妈打了电话。",
        "He called my mother yesterday.",
        "Er hat gestern meine Mutter angerufen.",
    ),
    (
        Linked("because", Clause(None, RAIN, "ongoing", time=times.TODAY), Clause(SHE, TIRED)),
        "因为今天柏林在下雨，所以她很累。",
        "She is tired because it is raining in Berlin today.",
        "Sie ist müde, weil es heute in Berlin regnet.",
    ),
    (
        Linked(
            "if",
            Clause(None, RAIN, time=phrase("tomorrow")),
            Clause(WE, Action(verb("watch television", "activity")), "future"),
        ),
        "如果明天柏林下雨，我们就会看电视。",
        "If it rains in Berlin tomorrow, we will watch television.",
        "Wenn es morgen in Berlin regnet, werden wir fernsehen.",
    ),
    (
        Linked(
            "while",
            Clause(SHE, Action(verb("watch television", "activity"))),
            Clause(HE, Action(verb("sleep", "activity"))),
        ),
        "她看电视的时候，他睡觉。",
        "While she watches television, he sleeps.",
        "Während sie fernsieht, schläft er.",
    ),
    (
        Report(I, verb("ask", "whether"), Clause(THEY, TIRED), "whether"),
        "我问他们是不是很累。",
        "I ask whether they are tired.",
        "Ich frage, ob sie müde sind.",
    ),
    (
        Question(
            Clause(YOU, Action(BUY, Nominal(noun("shirt"), Determiner("how many"))), "past", time=phrase("yesterday")),
            "object",
        ),
        "你昨天买了几件衬衫？",
        "How many shirts did you buy yesterday?",
        "Wie viele Hemden hast du gestern gekauft?",
    ),
    (
        Question(Clause(HE, Action(verb("have", "need"), thing("dog", "a"))), "whether"),
        "他有一只狗吗？",
        "Does he have a dog?",
        "Hat er einen Hund?",
    ),
    (
        Command(Action(verb("open", "disposal"), thing("window", "the")), True),
        "请不要把窗户打开。",
        "Please do not open the window.",
        "Mach bitte das Fenster nicht auf.",
    ),
    (
        Suggestion(Action(verbs.GO, goal=place("park"))),
        "我们去公园吧。",
        "Let us go to the park.",
        "Lass uns in den Park gehen.",
    ),
    (
        Existence(Spot(places.UNDER, noun("bed")), thing("key", "count", "two")),
        "床下面有两把钥匙。",
        "There are two keys under the bed.",
        "Unter dem Bett liegen zwei Schlüssel.",
    ),
    (
        Statement(
            Clause(
                SHE,
                Action(verbs.GO, goal=place("city centre"), purpose=Action(verb("shop", "activity"))),
                "future",
                time=phrase("tomorrow"),
            )
        ),
        "她明天会去市中心购物。",
        "She will go to the city centre to shop tomorrow.",
        "Sie wird morgen ins Stadtzentrum gehen, um einzukaufen.",
    ),
    (
        ClockTime(Hour(times.HOURS[11], True)),
        "现在是十二点半。",
        "It is half past twelve now.",
        "Es ist jetzt halb eins.",
    ),
]


@pytest.mark.parametrize(("meaning", "chinese", "english", "german"), SENTENCES)
def test_a_meaning_is_said_in_three_languages(meaning: Sentence, chinese: str, english: str, german: str) -> None:
    assert [say(meaning, language=language) for language in LANGUAGES] == [chinese, english, german]
