"""The places, cities, countries and the relations of things in a room."""

from dataclasses import dataclass

from calque_phrasebook.lexicon.lexemes import GENDERS, Gender, Place, rows

_ARTICLES: dict[Gender, tuple[str, str]] = {"m": ("dem", "den"), "f": ("der", "die"), "n": ("dem", "das")}
_CONTRACTIONS = {
    ("in", "dem"): ("im",), ("an", "dem"): ("am",), ("zu", "dem"): ("zum",), ("zu", "der"): ("zur",),
    ("in", "das"): ("ins",), ("an", "das"): ("ans",), ("bei", "dem"): ("beim",),
}  # fmt: skip


def contract(preposition: str, article: str) -> tuple[str, ...]:
    """Gives a German preposition and article as they are written: im, zur, auf dem."""
    return _CONTRACTIONS.get((preposition, article), (preposition, article))


def _places(table: str) -> dict[str, tuple[Place, ...]]:
    """Gives the places by class, of `in park | in/in der Park | 公园 里 | classes`: German where/whither, then noun."""
    classes: dict[str, list[Place]] = {}
    for english, german, chinese, kinds in rows(table):
        preposition, name = english.split(" ", 1)
        prepositions, article, noun = german.split()
        where, _, whither = prepositions.partition("/")
        dative, accusative = _ARTICLES[GENDERS[article]]
        place = Place(
            english_at=(preposition, "the", *name.split()),
            english_to=("to", "the", *name.split()),
            german_at=(*contract(where, dative), noun),
            german_to=(*contract(whither, dative if whither == "zu" else accusative), noun),
            chinese_at=tuple(chinese.split()),
            chinese=chinese.split()[0],
        )
        for kind in (*kinds.split(), "any"):
            classes.setdefault(kind, []).append(place)
    return {kind: tuple(places) for kind, places in classes.items()}


PLACES = _places("""
in park | in/in der Park | 公园 里 | outdoor sport
at supermarket | in/in der Supermarkt | 超市 | shop
at school | in/in die Schule | 学校 | indoor
in office | in/in das Büro | 办公室 里 | indoor quiet
at hospital | in/in das Krankenhaus | 医院 | indoor
in library | in/in die Bibliothek | 图书馆 里 | quiet indoor
at restaurant | in/in das Restaurant | 饭馆 | meal indoor
in café | in/in das Café | 咖啡馆 里 | meal indoor
at station | an/zu der Bahnhof | 火车站 | station
at airport | an/zu der Flughafen | 机场 | station
at bank | bei/zu die Bank | 银行 | indoor
at post office | bei/zu die Post | 邮局 | indoor
in museum | in/in das Museum | 博物馆 里 | quiet
in cinema | in/in das Kino | 电影院 里 | indoor
in theatre | in/in das Theater | 剧院 里 | indoor
at market | auf/auf der Markt | 市场 | shop
at bakery | in/in die Bäckerei | 面包店 | shop
at bookshop | in/in die Buchhandlung | 书店 | shop quiet
in hotel | in/in das Hotel | 酒店 里 | hotel meal
at university | an/zu die Universität | 大学 | indoor quiet
in kitchen | in/in die Küche | 厨房 里 | room kitchen
in living room | in/in das Wohnzimmer | 客厅 里 | room
in bedroom | in/in das Schlafzimmer | 卧室 里 | room
in garden | in/in der Garten | 花园 里 | outdoor room
in swimming pool | in/in das Schwimmbad | 游泳池 里 | water
in gym | in/in die Turnhalle | 体育馆 里 | sport
in stadium | in/in das Stadion | 体育场 里 | sport
in zoo | in/in der Zoo | 动物园 里 | outdoor
on beach | an/an der Strand | 海滩 上 | outdoor sport
in forest | in/in der Wald | 森林 里 | outdoor
in village | in/in das Dorf | 村子 里 | outdoor
in city centre | in/in das Stadtzentrum | 市中心 | shop outdoor
at seaside | an/an das Meer | 海边 | water outdoor
at lake | an/an der See | 湖边 | water outdoor
at bus stop | an/zu die Bushaltestelle | 公交车站 | station
in classroom | in/in das Klassenzimmer | 教室 里 | quiet indoor
in department store | in/in das Kaufhaus | 百货商店 里 | shop
""")

HOME = Place(("at", "home"), ("home",), ("zu", "Hause"), ("nach", "Hause"), ("家", "里"), "家")


def _towns(table: str) -> tuple[Place, ...]:
    return tuple(
        Place(("in", *en.split()), ("to", *en.split()), ("in", de), ("nach", de), (zh,), zh)
        for en, de, zh in rows(table)
    )


CITIES = _towns("""
Beijing | Peking | 北京
Shanghai | Shanghai | 上海
Berlin | Berlin | 柏林
Munich | München | 慕尼黑
Hamburg | Hamburg | 汉堡市
London | London | 伦敦
Paris | Paris | 巴黎
Vienna | Wien | 维也纳
Rome | Rom | 罗马
Tokyo | Tokio | 东京
Moscow | Moskau | 莫斯科
Madrid | Madrid | 马德里
""")
COUNTRIES = _towns("""
China | China | 中国
Germany | Deutschland | 德国
England | England | 英国
France | Frankreich | 法国
Italy | Italien | 意大利
Spain | Spanien | 西班牙
Japan | Japan | 日本
Russia | Russland | 俄罗斯
Austria | Österreich | 奥地利
Poland | Polen | 波兰
""")


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """Where one thing is seen from another."""

    english: tuple[str, ...]
    german: str
    chinese: str

    @property
    def key(self) -> str:
        return self.english[0]


ON = Relation(("on",), "auf", "上")
IN = Relation(("in",), "in", "里")
UNDER = Relation(("under",), "unter", "下面")
BEHIND = Relation(("behind",), "hinter", "后面")
BESIDE = Relation(("next", "to"), "neben", "旁边")
BEFORE = Relation(("in", "front", "of"), "vor", "前面")
