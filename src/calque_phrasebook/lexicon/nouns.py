"""The nouns, by the classes that verbs and adjectives select."""

from calque_phrasebook.lexicon.lexemes import Noun, nouns

FRUIT = nouns("""
apple | der Apfel/Äpfel | 个 苹果
banana | die Banane/Bananen | 根 香蕉
orange | die Orange/Orangen | 个 橙子
pear | die Birne/Birnen | 个 梨
peach | der Pfirsich/Pfirsiche | 个 桃子
strawberry | die Erdbeere/Erdbeeren | 颗 草莓
lemon | die Zitrone/Zitronen | 个 柠檬
mango | die Mango/Mangos | 个 芒果
""")

VEGETABLES = nouns("""
tomato/tomatoes | die Tomate/Tomaten | 个 西红柿
potato/potatoes | die Kartoffel/Kartoffeln | 个 土豆
carrot | die Karotte/Karotten | 根 胡萝卜
onion | die Zwiebel/Zwiebeln | 个 洋葱
cucumber | die Gurke/Gurken | 根 黄瓜
mushroom | der Pilz/Pilze | 个 蘑菇
""")

SNACKS = nouns("""
egg | das Ei/Eier | 个 鸡蛋
cake | der Kuchen/Kuchen | 块 蛋糕
sausage | die Wurst/Würste | 根 香肠
cookie | der Keks/Kekse | 块 饼干
sandwich | das Sandwich/Sandwiches | 个 三明治
hamburger | der Hamburger/Hamburger | 个 汉堡
dumpling | die Teigtasche/Teigtaschen | 个 饺子
pancake | der Pfannkuchen/Pfannkuchen | 张 煎饼
pizza | die Pizza/Pizzas | 个 比萨
bread roll | das Brötchen/Brötchen | 个 小面包
""")

HOT_DRINKS = nouns("""
tea/- | der Tee | 杯 茶
coffee/- | der Kaffee | 杯 咖啡
cocoa/- | der Kakao | 杯 可可
""")

COLD_DRINKS = nouns("""
water/- | das Wasser | 杯 水
milk/- | die Milch | 杯 牛奶
juice/- | der Saft | 杯 果汁
beer/- | das Bier | 杯 啤酒
wine/- | der Wein | 杯 葡萄酒
lemonade/- | die Limonade | 杯 柠檬水
cola/- | die Cola | 杯 可乐
""")

BOWL_FOOD = nouns("""
soup/- | die Suppe | 碗 汤
rice/- | der Reis | 碗 米饭
porridge/- | der Brei | 碗 粥
-/noodles | die Nudel/Nudeln | 碗 面条
""")

PAIRED = nouns("""
-/shoes | der Schuh/Schuhe | 双 鞋
-/socks | die Socke/Socken | 双 袜子
-/boots | der Stiefel/Stiefel | 双 靴子
""")

CLOTHES = nouns("""
shirt | das Hemd/Hemden | 件 衬衫
skirt | der Rock/Röcke | 条 裙子
dress | das Kleid/Kleider | 条 连衣裙
coat | der Mantel/Mäntel | 件 大衣
jacket | die Jacke/Jacken | 件 外套
sweater | der Pullover/Pullover | 件 毛衣
suit | der Anzug/Anzüge | 套 西装
raincoat | der Regenmantel/Regenmäntel | 件 雨衣
""")

ACCESSORIES = nouns("""
hat | der Hut/Hüte | 顶 帽子
scarf/scarves | der Schal/Schals | 条 围巾
tie | die Krawatte/Krawatten | 条 领带
watch | die Armbanduhr/Armbanduhren | 块 手表
ring | der Ring/Ringe | 枚 戒指
necklace | die Halskette/Halsketten | 条 项链
""")

BELONGINGS = nouns("""
key | der Schlüssel/Schlüssel | 把 钥匙
wallet | der Geldbeutel/Geldbeutel | 个 钱包
umbrella | der Regenschirm/Regenschirme | 把 雨伞
phone | das Handy/Handys | 部 手机
handbag | die Handtasche/Handtaschen | 个 手提包
backpack | der Rucksack/Rucksäcke | 个 背包
suitcase | der Koffer/Koffer | 个 行李箱^
passport | der Reisepass/Reisepässe | 本 护照
ticket | die Fahrkarte/Fahrkarten | 张 车票
map | die Landkarte/Landkarten | 张 地图
camera | die Kamera/Kameras | 台 相机
pen | der Stift/Stifte | 支 笔
pencil | der Bleistift/Bleistifte | 支 铅笔
notebook | das Heft/Hefte | 本 笔记本
dictionary | das Wörterbuch/Wörterbücher | 本 词典
towel | das Handtuch/Handtücher | 条 毛巾
knife/knives | das Messer/Messer | 把 刀
""")

PRINT = nouns("""
book | das Buch/Bücher | 本 书
newspaper | die Zeitung/Zeitungen | 份 报纸
magazine | die Zeitschrift/Zeitschriften | 本 杂志
novel | der Roman/Romane | 部 小说
letter | der Brief/Briefe | 封 信
report | der Bericht/Berichte | 份 报告
postcard | die Postkarte/Postkarten | 张 明信片
""")

TEXTS = nouns("""
story | die Geschichte/Geschichten | 个 故事
poem | das Gedicht/Gedichte | 首 诗
article | der Artikel/Artikel | 篇 文章
e-mail | die E-Mail/E-Mails | 封 邮件
joke | der Witz/Witze | 个 笑话
fairy tale | das Märchen/Märchen | 个 童话
""")
TALES = tuple(noun for noun in TEXTS if noun.english in ("story", "joke", "fairy tale"))
WRITING = tuple(noun for noun in PRINT if noun.english not in ("newspaper", "magazine"))

SHOWS = nouns("""
film | der Film/Filme | 部 电影
play | das Theaterstück/Theaterstücke | 部 话剧
concert | das Konzert/Konzerte | 场 音乐会
match | das Spiel/Spiele | 场 比赛
cartoon | der Zeichentrickfilm/Zeichentrickfilme | 部 动画片
""")

GIFTS = nouns("""
present | das Geschenk/Geschenke | 件 礼物
toy | das Spielzeug/Spielzeuge | 个 玩具
doll | die Puppe/Puppen | 个 娃娃
ball | der Ball/Bälle | 个 球
flower | die Blume/Blumen | 朵 花
photo | das Foto/Fotos | 张 照片
picture | das Bild/Bilder | 幅 画
card | die Karte/Karten | 张 卡片
""")

DEVICES = nouns("""
computer | der Computer/Computer | 台 电脑^
television | der Fernseher/Fernseher | 台 电视机^
radio | das Radio/Radios | 台 收音机^
lamp | die Lampe/Lampen | 盏 台灯^
printer | der Drucker/Drucker | 台 打印机^
washing machine | die Waschmaschine/Waschmaschinen | 台 洗衣机^
fan | der Ventilator/Ventilatoren | 台 电风扇^
air conditioner | die Klimaanlage/Klimaanlagen | 台 空调
""")

FURNITURE = nouns("""
table | der Tisch/Tische | 张 桌子^
chair | der Stuhl/Stühle | 把 椅子^
bed | das Bett/Betten | 张 床^
sofa | das Sofa/Sofas | 个 沙发^
bookshelf/bookshelves | das Bücherregal/Bücherregale | 个 书架^
desk | der Schreibtisch/Schreibtische | 张 书桌^
bench | die Bank/Bänke | 张 长椅^
carpet | der Teppich/Teppiche | 块 地毯
mirror | der Spiegel/Spiegel | 面 镜子
""")

CONTAINERS = nouns("""
box | die Kiste/Kisten | 个 箱子^
basket | der Korb/Körbe | 个 篮子^
drawer | die Schublade/Schubladen | 个 抽屉
fridge | der Kühlschrank/Kühlschränke | 台 冰箱^
wardrobe | der Kleiderschrank/Kleiderschränke | 个 衣柜^
bag | die Tüte/Tüten | 个 袋子
""")

TABLEWARE = nouns("""
plate | der Teller/Teller | 个 盘子^
cup | die Tasse/Tassen | 个 杯子^
bottle | die Flasche/Flaschen | 个 瓶子^
bowl | die Schüssel/Schüsseln | 个 碗^
pot | der Topf/Töpfe | 口 锅^
""")

OPENINGS = nouns("""
door | die Tür/Türen | 扇 门
window | das Fenster/Fenster | 扇 窗户
gate | das Tor/Tore | 扇 大门
""")

VEHICLES = nouns("""
car | das Auto/Autos | 辆 汽车
bicycle | das Fahrrad/Fahrräder | 辆 自行车
motorcycle | das Motorrad/Motorräder | 辆 摩托车
truck | der Lastwagen/Lastwagen | 辆 卡车
boat | das Boot/Boote | 条 小船
""")

TRANSPORT = nouns("""
bus | der Bus/Busse | 辆 公共汽车
train | der Zug/Züge | 列 火车
ship | das Schiff/Schiffe | 艘 轮船
taxi | das Taxi/Taxis | 辆 出租车
tram | die Straßenbahn/Straßenbahnen | 辆 电车
""")

ANIMALS = nouns("""
dog | der Hund/Hunde | 只 狗
cat | die Katze/Katzen | 只 猫
horse | das Pferd/Pferde | 匹 马
cow | die Kuh/Kühe | 头 牛
pig | das Schwein/Schweine | 头 猪
bird | der Vogel/Vögel | 只 鸟
chicken | das Huhn/Hühner | 只 鸡
duck | die Ente/Enten | 只 鸭子
rabbit | das Kaninchen/Kaninchen | 只 兔子
mouse/mice | die Maus/Mäuse | 只 老鼠
monkey | der Affe/Affen/Affen | 只 猴子
goat | die Ziege/Ziegen | 只 山羊
""")

WILD = nouns("""
tiger | der Tiger/Tiger | 只 老虎
elephant | der Elefant/Elefanten/Elefanten | 头 大象
snake | die Schlange/Schlangen | 条 蛇
bear | der Bär/Bären/Bären | 只 熊
lion | der Löwe/Löwen/Löwen | 只 狮子
wolf/wolves | der Wolf/Wölfe | 只 狼
spider | die Spinne/Spinnen | 只 蜘蛛
panda | der Panda/Pandas | 只 熊猫
""")

SCENERY = nouns("""
house | das Haus/Häuser | 座 房子
tower | der Turm/Türme | 座 塔
bridge | die Brücke/Brücken | 座 桥
tree | der Baum/Bäume | 棵 树
mountain | der Berg/Berge | 座 山
river | der Fluss/Flüsse | 条 河
street | die Straße/Straßen | 条 街道
""")

LANGUAGES = nouns("""
Chinese/- | das Chinesisch | 种 中文
English/- | das Englisch | 种 英语
German/- | das Deutsch | 种 德语
French/- | das Französisch | 种 法语
Spanish/- | das Spanisch | 种 西班牙语
Japanese/- | das Japanisch | 种 日语
Russian/- | das Russisch | 种 俄语
Italian/- | das Italienisch | 种 意大利语
""")

RESOURCES = nouns("""
time/- | die Zeit | 些 时间
money/- | das Geld | 些 钱
work/- | die Arbeit | 些 工作
""")

TOPICS = nouns("""
question | die Frage/Fragen | 个 问题
plan | der Plan/Pläne | 个 计划
problem | das Problem/Probleme | 个 难题
""")

EXPRESSIONS = nouns("""
word | das Wort/Wörter | 个 单词
sentence | der Satz/Sätze | 个 句子
""")

BODY = nouns("""
head | der Kopf/Köpfe | 个 头
belly/bellies | der Bauch/Bäuche | 个 肚子
tooth/teeth | der Zahn/Zähne | 颗 牙
back | der Rücken/Rücken | 个 背
leg | das Bein/Beine | 条 腿
hand | die Hand/Hände | 只 手
eye | das Auge/Augen | 只 眼睛
""")

CLASSES: dict[str, tuple[Noun, ...]] = {
    "fruit": FRUIT,
    "vegetable": VEGETABLES,
    "snack": SNACKS,
    "clothes": CLOTHES,
    "accessory": ACCESSORIES,
    "belonging": BELONGINGS,
    "print": PRINT,
    "text": TEXTS,
    "writing": WRITING,
    "show": SHOWS,
    "gift": GIFTS,
    "device": DEVICES,
    "furniture": FURNITURE,
    "container": CONTAINERS,
    "tableware": TABLEWARE,
    "opening": OPENINGS,
    "vehicle": VEHICLES,
    "transport": TRANSPORT,
    "animal": ANIMALS,
    "wild": WILD,
    "scenery": SCENERY,
    "language": LANGUAGES,
    "topic": TOPICS,
    "expression": EXPRESSIONS,
    "tale": TALES,
}
