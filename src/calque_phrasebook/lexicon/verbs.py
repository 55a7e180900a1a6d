"""The verbs, by how they build a sentence. The readers' rules are in `lexemes.verbs`."""

from calque_phrasebook.lexicon.lexemes import Modal, verbs

# with a thing as object, in every tense
ACTIONS = verbs("""
eat ate | essen isst gegessen | 吃 | fruit vegetable snack
buy bought | kaufen kauft gekauft | 买 | fruit vegetable snack clothes accessory belonging print furniture device container tableware gift vehicle
sell sold | verkaufen verkauft verkauft | 卖 | clothes accessory furniture device vehicle gift
read read | lesen liest gelesen | 读 | print text
write wrote | schreiben schreibt geschrieben | 写 | writing text
translate | übersetzen übersetzt übersetzt | 翻译 | writing text expression
wash | waschen wäscht gewaschen | 洗 | fruit vegetable clothes tableware vehicle
repair | reparieren repariert repariert | 修理 | device vehicle furniture
paint | malen malt gemalt | 画 | animal wild scenery
carry | tragen trägt getragen | 搬 | furniture container device
watch | an+schauen schaut angeschaut | 看 | show
look : for | suchen sucht gesucht | 找 | belonging accessory gift animal
order | bestellen bestellt bestellt | 订购 | snack clothes device print
feed fed | füttern füttert gefüttert | 喂 | animal
photograph | fotografieren fotografiert fotografiert | 拍摄 | animal wild scenery
explain | erklären erklärt erklärt | 解释 | topic expression text
discuss | besprechen bespricht besprochen | 讨论 | topic text show
""")  # noqa: E501

# with a thing as object, told of the past or the future only
EVENTS = verbs("""
find found | finden findet gefunden | 找到 | belonging accessory gift animal
lose lost | verlieren verliert verloren | 丢 | belonging accessory
forget forgot | vergessen vergisst vergessen | 忘记 | belonging topic expression
see saw | sehen sieht gesehen | 看见 | animal wild scenery vehicle
receive | bekommen bekommt bekommen | 收到 | gift print text
borrow | aus+leihen leiht ausgeliehen | 借 | belonging print vehicle
rent | mieten mietet gemietet | 租 | vehicle device
""")

# with a particular thing, 把 in Chinese
DISPOSALS = verbs("""
open | auf+machen macht aufgemacht | 打开 | opening container
close | zu+machen macht zugemacht | 关上 | opening container
turn ; on | ein+schalten schaltet eingeschaltet | 打开 | device
turn ; off | aus+schalten schaltet ausgeschaltet | 关掉 | device
clean | putzen putzt geputzt | 擦干净 | opening tableware furniture
wash | waschen wäscht gewaschen | 洗干净 | clothes tableware vehicle
sell sold | verkaufen verkauft verkauft | 卖掉 | vehicle furniture device
throw threw ; away | weg+werfen wirft weggeworfen | 扔掉 | tableware print container
take took ; along | mit+nehmen nimmt mitgenommen | 带走 | belonging clothes
bring brought ; back | zurück+bringen bringt zurückgebracht | 送回来 | belonging print
eat ate ; up | auf+essen isst aufgegessen | 吃完 | snack fruit vegetable
""")

# putting things somewhere: German has one verb for what lies and one for what stands
LAY, STAND = verbs("""
put put | legen legt gelegt | 放
put put | stellen stellt gestellt | 放
""")

CONSUME_DRINK, CONSUME_BOWL, BUY_GROCERIES = verbs("""
drink drank | trinken trinkt getrunken | 喝
eat ate | essen isst gegessen | 吃
buy bought | kaufen kauft gekauft | 买
""")

WEAR_CLOTHES, WEAR_ACCESSORY = verbs("""
wear wore | tragen trägt getragen | 穿 | clothes
wear wore | tragen trägt getragen | 戴 | accessory
""")

LANGUAGE_VERBS = verbs("""
learn | lernen lernt gelernt | 学 | language
speak spoke | sprechen spricht gesprochen | 说 | language
teach taught | unterrichten unterrichtet unterrichtet | 教 | language
""")

# with a person as object
SOCIAL = verbs("""
visit | besuchen besucht besucht | 看望
help | helfen hilft geholfen dative | 帮助
call | an+rufen ruft angerufen | 打 电话 @给
wait : for | warten wartet gewartet @auf | 等
meet met | treffen trifft getroffen | 见
invite | ein+laden lädt eingeladen | 邀请
pick ; up | ab+holen holt abgeholt | 接
thank | danken dankt gedankt dative | 感谢
ask | fragen fragt gefragt | 问
congratulate | gratulieren gratuliert gratuliert dative | 祝贺
look : after | betreuen betreut betreut | 照顾
""")

# with a receiver and a thing
GIVING = verbs("""
give gave | geben gibt gegeben | 递给 | belonging print tableware
lend lent | leihen leiht geliehen | 借给 | belonging print vehicle
send sent | schicken schickt geschickt | 寄给 | gift print
sell sold | verkaufen verkauft verkauft | 卖给 | furniture vehicle device
bring brought | bringen bringt gebracht | 带给 | snack gift tableware
""")
SERVING = verbs("""
buy bought | kaufen kauft gekauft | 买 | gift clothes accessory
show showed | zeigen zeigt gezeigt | 看 | gift belonging print
cook | kochen kocht gekocht | 煮 | bowl
tell told | erzählen erzählt erzählt | 讲 | tale
""")

# what one does without an object, at a place
ACTIVITIES = verbs("""
swim swam | schwimmen schwimmt geschwommen sein | 游泳 | water
dance | tanzen tanzt getanzt | 跳舞 | indoor outdoor
sing sang | singen singt gesungen | 唱歌 | indoor outdoor
sleep slept | schlafen schläft geschlafen | 睡觉 | room hotel
work | arbeiten arbeitet gearbeitet | 工作 | indoor shop
study | lernen lernt gelernt | 学习 | quiet room
play | spielen spielt gespielt | 玩 | outdoor room
rest | aus+ruhen ruht ausgeruht sich | 休息 | room outdoor
chat | plaudern plaudert geplaudert | 聊天 | indoor outdoor room
shop | ein+kaufen kauft eingekauft | 购物 | shop
exercise | trainieren trainiert trainiert | 锻炼 | sport outdoor
jog | joggen joggt gejoggt sein | 跑步 | outdoor
cook | kochen kocht gekocht | 做饭 | kitchen
have had : breakfast | frühstücken frühstückt gefrühstückt | 吃 早饭 | room meal
have had : lunch | zu Mittag : essen isst gegessen | 吃 午饭 | meal indoor
have had : dinner | zu Abend : essen isst gegessen | 吃 晚饭 | room meal
go went : for a walk | spazieren : gehen geht gegangen sein | 散步 | outdoor
watch : television | fern+sehen sieht ferngesehen | 看 电视 | room hotel
listen : to music | Musik : hören hört gehört | 听 音乐 | room outdoor
play : football | Fußball : spielen spielt gespielt | 踢 足球 | sport outdoor
play : basketball | Basketball : spielen spielt gespielt | 打 篮球 | sport outdoor
play : tennis | Tennis : spielen spielt gespielt | 打 网球 | sport outdoor
play : the piano | Klavier : spielen spielt gespielt | 弹 钢琴 | room indoor
play : the guitar | Gitarre : spielen spielt gespielt | 弹 吉他 | room outdoor
ride rode : a bicycle | Fahrrad : fahren fährt gefahren sein | 骑 自行车 | outdoor
wait | warten wartet gewartet | 等候 | indoor station
""")

# what one does at a certain hour, without a place
ROUTINES = verbs("""
get got : up | auf+stehen steht aufgestanden sein | 起床
go went : home | nach Hause : gehen geht gegangen sein | 回家
take took : a shower | duschen duscht geduscht | 洗澡
fall fell : asleep | ein+schlafen schläft eingeschlafen sein | 睡着
clean : up | auf+räumen räumt aufgeräumt | 收拾 房间
come came : back | zurück+kommen kommt zurückgekommen sein | 回来
leave left | los+fahren fährt losgefahren sein | 出发
arrive | an+kommen kommt angekommen sein | 到
wake woke : up | auf+wachen wacht aufgewacht sein | 醒
""")

# how one does it: the Chinese verb stands before 得, the last column names the manners that suit it
SKILLS = verbs("""
sing sang | singen singt gesungen | 唱 | well badly beautifully loudly
dance | tanzen tanzt getanzt | 跳 | well badly beautifully
swim swam | schwimmen schwimmt geschwommen sein | 游 | well fast slowly badly
run ran | laufen läuft gelaufen sein | 跑 | fast slowly
write wrote | schreiben schreibt geschrieben | 写 | well fast slowly badly beautifully carefully
speak spoke | sprechen spricht gesprochen | 说 | well fast slowly loudly
drive drove | fahren fährt gefahren sein | 开 | well fast slowly badly carefully
""")

GO, RIDE, TRAVEL, FLY = verbs("""
go went | gehen geht gegangen sein | 去
go went | fahren fährt gefahren sein | 去
travel travelled travelling | fahren fährt gefahren sein | 去
fly flew | fliegen fliegt geflogen sein | 飞到
""")

HAVE, LIVE, COME = verbs("""
have had | haben hat gehabt | 有
live | wohnen wohnt gewohnt | 住
come came | kommen kommt gekommen sein | 来自
""")
NEEDS = verbs("""
need | brauchen braucht gebraucht | 需要 | clothes belonging furniture device tableware container vehicle
have had | haben hat gehabt | 有 | clothes accessory belonging furniture device container vehicle animal gift topic
""")
TASTES = verbs("""
like | mögen mag gemocht | 喜欢 | fruit vegetable snack animal show text accessory
hate | hassen hasst gehasst | 讨厌 | fruit vegetable snack wild show
love | lieben liebt geliebt | 爱 | fruit snack animal show
fear | fürchten fürchtet gefürchtet | 害怕 | wild animal
""")
ACQUAINTANCE = verbs("""
know knew | kennen kennt gekannt | 认识
like | mögen mag gemocht | 喜欢
love | lieben liebt geliebt | 爱
understand understood | verstehen versteht verstanden | 理解
miss | vermissen vermisst vermisst | 想念
trust | vertrauen vertraut vertraut dative | 信任
""")

# with a whole clause as object
THAT_VERBS = verbs("""
think thought | denken denkt gedacht | 觉得
know knew | wissen weiß gewusst | 知道
hope | hoffen hofft gehofft | 希望
say said | sagen sagt gesagt | 说
believe | glauben glaubt geglaubt | 相信
""")
WHETHER_VERBS = verbs("""
ask | fragen fragt gefragt | 问
""")

MODALS = (
    Modal(("want", "to"), ("möchte", "möchtest", "möchte", "möchten"), "想"),
    Modal(("can",), ("kann", "kannst", "kann", "können"), "能"),
    Modal(("must",), ("muss", "musst", "muss", "müssen"), "必须"),
    Modal(("should",), ("sollte", "solltest", "sollte", "sollten"), "应该"),
    Modal(("may",), ("darf", "darfst", "darf", "dürfen"), "可以"),
)
