"""The times, numbers, adverbs and other words without inflection."""

from calque_phrasebook.lexicon.lexemes import Phrase, phrases

PAST = phrases("""
yesterday | gestern | 昨天
the day before yesterday | vorgestern | 前天
yesterday evening | gestern Abend | 昨天 晚上
this morning | heute Morgen | 今天 早上
last week | letzte Woche | 上周
last month | letzten Monat | 上个月
last year | letztes Jahr | 去年
last weekend | letztes Wochenende | 上个 周末
last summer | letzten Sommer | 去年 夏天
last winter | letzten Winter | 去年 冬天
last Monday | letzten Montag | 上周一
last Tuesday | letzten Dienstag | 上周二
last Wednesday | letzten Mittwoch | 上周三
last Thursday | letzten Donnerstag | 上周四
last Friday | letzten Freitag | 上周五
last Saturday | letzten Samstag | 上周六
last Sunday | letzten Sonntag | 上周日
""")
FUTURE = phrases("""
tomorrow | morgen | 明天
the day after tomorrow | übermorgen | 后天
tomorrow evening | morgen Abend | 明天 晚上
this evening | heute Abend | 今天 晚上
next week | nächste Woche | 下周
next month | nächsten Monat | 下个月
next year | nächstes Jahr | 明年
next weekend | nächstes Wochenende | 下个 周末
next summer | nächsten Sommer | 明年 夏天
next winter | nächsten Winter | 明年 冬天
next Monday | nächsten Montag | 下周一
next Tuesday | nächsten Dienstag | 下周二
next Wednesday | nächsten Mittwoch | 下周三
next Thursday | nächsten Donnerstag | 下周四
next Friday | nächsten Freitag | 下周五
next Saturday | nächsten Samstag | 下周六
next Sunday | nächsten Sonntag | 下周日
""")
PAST_DAYS = PAST[:2] + PAST[10:]
FUTURE_DAYS = FUTURE[:2] + FUTURE[10:]
PAST_DATES = PAST[:2] + PAST[4:]
FUTURE_DATES = FUTURE[:2] + FUTURE[4:]
PAST_SPANS = PAST[6:7] + PAST[8:10]
FUTURE_SPANS = FUTURE[6:7] + FUTURE[8:10]
# the near past and future that a day's weather and moods are told of
SHORT_PAST = PAST[:3]
SHORT_FUTURE = FUTURE[:4]
REGULAR = phrases("""
every day | jeden Tag | 每天
every morning | jeden Morgen | 每天 早上
every evening | jeden Abend | 每天 晚上
every week | jede Woche | 每周
every month | jeden Monat | 每个 月
every weekend | jedes Wochenende | 每个 周末
every Monday | jeden Montag | 每周一
every Friday | jeden Freitag | 每周五
every Sunday | jeden Sonntag | 每周日
""")
REGULAR_DAYS = REGULAR[:1] + REGULAR[5:]
REGULAR_DATES = REGULAR[:1] + REGULAR[3:]
NOW = phrases("""
now | jetzt | 现在
today | heute | 今天
""")
TODAY = NOW[1]
FREQUENCIES = phrases("""
often | oft | 经常
always | immer | 总是
sometimes | manchmal | 有时候
rarely | selten | 很少
usually | meistens | 通常
""")
WEEKDAYS = phrases("""
on Monday | am Montag | 星期一
on Tuesday | am Dienstag | 星期二
on Wednesday | am Mittwoch | 星期三
on Thursday | am Donnerstag | 星期四
on Friday | am Freitag | 星期五
on Saturday | am Samstag | 星期六
on Sunday | am Sonntag | 星期日
""")
MONTHS = phrases("""
in January | im Januar | 一月
in February | im Februar | 二月
in March | im März | 三月
in April | im April | 四月
in May | im Mai | 五月
in June | im Juni | 六月
in July | im Juli | 七月
in August | im August | 八月
in September | im September | 九月
in October | im Oktober | 十月
in November | im November | 十一月
in December | im Dezember | 十二月
""")
SEASONS = phrases("""
in spring | im Frühling | 春天
in summer | im Sommer | 夏天
in autumn | im Herbst | 秋天
in winter | im Winter | 冬天
""")
HOURS = phrases("""
one | ein eins | 一
two | zwei zwei | 两
three | drei drei | 三
four | vier vier | 四
five | fünf fünf | 五
six | sechs sechs | 六
seven | sieben sieben | 七
eight | acht acht | 八
nine | neun neun | 九
ten | zehn zehn | 十
eleven | elf elf | 十一
twelve | zwölf zwölf | 十二
""")
"""The hours: German has a form before Uhr (ein Uhr) and one alone (halb eins)."""
NUMBERS = phrases("""
two | zwei | 两
three | drei | 三
four | vier | 四
five | fünf | 五
six | sechs | 六
seven | sieben | 七
eight | acht | 八
nine | neun | 九
ten | zehn | 十
""")
FEW = NUMBERS[:4]
LARGE = phrases("""
twelve | zwölf | 十二
fifteen | fünfzehn | 十五
twenty | zwanzig | 二十
thirty | dreißig | 三十
forty | vierzig | 四十
fifty | fünfzig | 五十
sixty | sechzig | 六十
eighty | achtzig | 八十
ninety | neunzig | 九十
""")
DEGREES = phrases("""
very | sehr | 非常
too | zu | 太
a bit | ein bisschen | 有点儿
really | wirklich | 真的 很
""")
TOO = DEGREES[1]
PRAISING_DEGREES = (DEGREES[0], DEGREES[3])
SHORT_UNITS = phrases("""
hours | Stunden | 个 小时
minutes | Minuten | 分钟
""")
LONG_UNITS = phrases("""
days | Tage | 天
weeks | Wochen | 个 星期
months | Monate | 个 月
""")
MANNERS = phrases("""
well | gut | 好
fast | schnell | 快
slowly | langsam | 慢
badly | schlecht | 差
beautifully | schön | 美
loudly | laut | 大声
carefully | sorgfältig | 仔细
""")
CURRENCIES = phrases("""
euros | Euro | 欧元
dollars | Dollar | 美元
yuan | Yuan | 元
""")
PRECIPITATION = phrases("""
rain rains rained raining | regnen regnet geregnet | 下雨
snow snows snowed snowing | schneien schneit geschneit | 下雪
hail hails hailed hailing | hageln hagelt gehagelt | 下冰雹
""")


def half_past(hour: Phrase) -> Phrase:
    """Gives the hour that German names at half past the given one: halb vier for half past three."""
    return HOURS[(HOURS.index(hour) + 1) % len(HOURS)]
