"""The people: pronouns, names, relatives and professions."""

from dataclasses import dataclass

from calque_phrasebook.lexicon.lexemes import Noun, Phrase, nouns, phrases


@dataclass(frozen=True, slots=True, eq=False)
class Person:
    """A grammatical person with its pronouns; a listener is always one (du), so English *you* is not ambiguous."""

    english: tuple[str, str, str]  # subject, object, possessive
    german: tuple[str, str, str]  # nominative, accusative, dative
    german_possessive: str
    german_reflexive: str
    chinese: str
    agreement: int  # 0 ich, 1 du, 2 er and sie, 3 wir and sie

    @property
    def key(self) -> str:
        return self.english[0]


I = Person(("I", "me", "my"), ("ich", "mich", "mir"), "mein", "mich", "我", 0)  # noqa: E741
YOU = Person(("you", "you", "your"), ("du", "dich", "dir"), "dein", "dich", "你", 1)
HE = Person(("he", "him", "his"), ("er", "ihn", "ihm"), "sein", "sich", "他", 2)
SHE = Person(("she", "her", "her"), ("sie", "sie", "ihr"), "ihr", "sich", "她", 2)
WE = Person(("we", "us", "our"), ("wir", "uns", "uns"), "unser", "uns", "我们", 3)
THEY = Person(("they", "them", "their"), ("sie", "sie", "ihnen"), "ihr", "sich", "他们", 3)
PERSONS = (I, YOU, HE, SHE, WE, THEY)
# German `sie` and `ihr` stand for her and them: only her is ever an object, and only her an owner.
OBJECTS = (I, YOU, HE, SHE, WE)
OWNERS = (I, YOU, HE, SHE, WE)

WOMEN = phrases("""
Anna | Anna | 安娜
Maria | Maria | 玛丽亚
Laura | Laura | 劳拉
Julia | Julia | 尤利娅
Emma | Emma | 艾玛
Sophie | Sophie | 索菲
Clara | Clara | 克拉拉
Lisa | Lisa | 丽莎
""")
MEN = phrases("""
Peter | Peter | 彼得
Thomas | Thomas | 托马斯
Max | Max | 马克斯
Paul | Paul | 保罗
David | David | 大卫
Martin | Martin | 马丁
Felix | Felix | 菲利克斯
Leon | Leon | 莱昂
""")
NAMES: tuple[Phrase, ...] = WOMEN + MEN

RELATIVES = nouns("""
mother | die Mutter/Mütter | 位 妈妈
father | der Vater/Väter | 位 爸爸
older brother | der älter- Bruder/Brüder | 个 哥哥
younger brother | der jünger- Bruder/Brüder | 个 弟弟
older sister | die älter- Schwester/Schwestern | 个 姐姐
younger sister | die jünger- Schwester/Schwestern | 个 妹妹
grandfather | der Großvater/Großväter | 位 爷爷
grandmother | die Großmutter/Großmütter | 位 奶奶
uncle | der Onkel/Onkel | 位 叔叔
aunt | die Tante/Tanten | 位 阿姨
son | der Sohn/Söhne | 个 儿子
daughter | die Tochter/Töchter | 个 女儿
-/parents | der Elternteil/Eltern | 位 父母
""")
COMPANIONS = nouns("""
friend | der Freund/Freunde | 个 朋友
neighbour | der Nachbar/Nachbarn/Nachbarn | 个 邻居
colleague | der Kollege/Kollegen/Kollegen | 个 同事
classmate | der Mitschüler/Mitschüler | 个 同学
child/children | das Kind/Kinder | 个 孩子
guest | der Gast/Gäste | 个 客人
""")

PROFESSIONS = nouns("""
doctor | der Arzt/Ärzte + Ärztin | 位 医生
teacher | der Lehrer/Lehrer + Lehrerin | 位 老师
engineer | der Ingenieur/Ingenieure + Ingenieurin | 位 工程师
cook | der Koch/Köche + Köchin | 位 厨师
driver | der Fahrer/Fahrer + Fahrerin | 位 司机
police officer | der Polizist/Polizisten/Polizisten + Polizistin | 位 警察
lawyer | der Anwalt/Anwälte + Anwältin | 位 律师
farmer | der Landwirt/Landwirte + Landwirtin | 位 农民
singer | der Sänger/Sänger + Sängerin | 位 歌手
actor | der Schauspieler/Schauspieler + Schauspielerin | 位 演员
painter | der Maler/Maler + Malerin | 位 画家
writer | der Schriftsteller/Schriftsteller + Schriftstellerin | 位 作家
journalist | der Journalist/Journalisten/Journalisten + Journalistin | 位 记者
baker | der Bäcker/Bäcker + Bäckerin | 位 面包师
hairdresser | der Friseur/Friseure + Friseurin | 位 理发师
waiter | der Kellner/Kellner + Kellnerin | 位 服务员
scientist | der Wissenschaftler/Wissenschaftler + Wissenschaftlerin | 位 科学家
student | der Student/Studenten/Studenten + Studentin | 位 大学生
""")

FEMALE = frozenset(["mother", "older sister", "younger sister", "grandmother", "aunt", "daughter"])


def woman(noun: Noun) -> bool:
    """Says whether a relative is a woman, whose profession takes its feminine form in German."""
    return noun.english in FEMALE
