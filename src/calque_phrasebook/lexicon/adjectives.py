"""The adjectives, and which nouns they describe."""

from calque_phrasebook.lexicon.lexemes import Adjective, adjectives

ADJECTIVES = adjectives("""
tired | müde müder | 累
hungry hungrier | hungrig | 饿
thirsty thirstier | durstig | 渴
happy happier | glücklich | 高兴
sad sadder | traurig | 难过
busy busier | beschäftigt | 忙
friendly friendlier | freundlich | 友好
young younger | jung jünger | 年轻
old older #elderly | alt älter | 老
tall taller | groß größer | 高
strong stronger | stark stärker | 强壮
famous | berühmt | 出名
nervous | nervös | 紧张
poor poorer | arm ärmer | 穷
rich richer | reich | 富有
clever cleverer | klug klüger | 聪明
lazy lazier | faul | 懒
polite | höflich | 客气
angry angrier | wütend | 生气
brave braver | mutig | 勇敢
new newer | neu neuer | 新
old older | alt älter | 旧
big bigger | groß größer | 大
small smaller | klein | 小
expensive | teuer/teur teurer | 贵 的
cheap cheaper | billig | 便宜
beautiful | schön | 漂亮
ugly uglier | hässlich | 难看
heavy heavier | schwer | 重 的
light lighter | leicht | 轻 的
long longer | lang länger | 长
short shorter | kurz kürzer | 短
clean cleaner | sauber sauberer | 干净
dirty dirtier | schmutzig | 脏 的
fresh fresher | frisch | 新鲜
delicious | lecker leckerer | 好吃
sweet sweeter | süß | 甜 的
exciting | spannend | 精彩
boring | langweilig | 无聊
difficult | schwierig | 难 的
simple simpler | einfach | 简单
important | wichtig | 重要
comfortable | bequem | 舒服
fast faster | schnell | 快 的
slow slower | langsam | 慢 的
dangerous | gefährlich | 危险
good better | gut besser | 好
strange stranger | seltsam | 奇怪
quiet quieter | ruhig | 安静
cute cuter | niedlich | 可爱
warm warmer | warm wärmer | 暖和
cold colder | kalt kälter | 冷
hot hotter | heiß | 热
full fuller | voll | 满
empty emptier | leer leerer | 空
red redder | rot | 红色
blue bluer | blau | 蓝色
green greener | grün | 绿色
black blacker | schwarz | 黑色
white whiter | weiß | 白色
cool cooler | kühl | 凉快
sunny sunnier | sonnig | 晴朗
humid | feucht | 潮湿
dry drier | trocken trockener | 干燥
bad worse | schlecht | 糟糕
""")


def _named(names: str) -> tuple[Adjective, ...]:
    return tuple(ADJECTIVES[name] for name in names.split())


MOODS = _named("tired hungry thirsty happy sad busy nervous angry")
CHARACTER = _named("friendly young elderly tall strong famous poor rich clever lazy polite brave")
CLIMATE = _named("warm cold hot cool humid dry")
WEATHER = _named("good bad warm cold sunny")

DESCRIPTIONS: dict[str, tuple[Adjective, ...]] = {
    "fruit": _named("fresh sweet big small delicious expensive"),
    "vegetable": _named("fresh big small cheap delicious"),
    "snack": _named("fresh sweet delicious warm cold"),
    "clothes": _named("new old beautiful ugly red blue green black white red clean dirty warm long short"),
    "accessory": _named("red blue black white beautiful ugly new expensive cheap"),
    "belonging": _named("red blue green black heavy light new old big small ugly dirty"),
    "print": _named("exciting boring short new old difficult important"),
    "text": _named("exciting boring long short strange simple difficult important"),
    "show": _named("exciting boring short good strange famous"),
    "gift": _named("red blue beautiful expensive cheap big small strange good"),
    "device": _named("heavy light fast slow new old expensive cheap quiet"),
    "furniture": _named("comfortable heavy light white beautiful ugly big small cheap"),
    "container": _named("full empty heavy light green white big"),
    "tableware": _named("full empty clean dirty white blue green"),
    "opening": _named("green white new old clean dirty"),
    "vehicle": _named("fast slow comfortable dangerous red blue green clean dirty"),
    "animal": _named("cute clever lazy black white big small quiet"),
    "wild": _named("dangerous cute clever quiet big"),
    "scenery": _named("beautiful famous old"),
    "topic": _named("important difficult simple strange good"),
    "expression": _named("important difficult simple strange long short"),
}

# Chinese takes these with 非常 and 真的很 but hardly with 太 (which praises them) and 有点儿 (which complains)
PRAISE = _named(
    "happy friendly strong famous rich clever polite brave young beautiful clean fresh delicious sweet exciting "
    "important comfortable good cute warm cheap simple new quiet fast light"
)

# what stands before a noun, so that each of its German forms is common; and what is compared
ATTRIBUTES = _named("new old big small expensive cheap beautiful red black white long strange fresh exciting")
CORE_ATTRIBUTES = _named("new old big small beautiful expensive red")
COMPARED = _named("young elderly tall strong clever rich famous new old big small expensive beautiful fast comfortable")


def attributes(kind: str) -> tuple[Adjective, ...]:
    """Gives the adjectives that stand before the nouns of a class."""
    return tuple(adjective for adjective in DESCRIPTIONS[kind] if adjective in ATTRIBUTES)


def core_attributes(kind: str) -> tuple[Adjective, ...]:
    """Gives the commonest of them, which also stand before a nominative."""
    return tuple(adjective for adjective in DESCRIPTIONS[kind] if adjective in CORE_ATTRIBUTES)
