"""Words with the parts of the meaning that they express.

Words of two languages correspond if they express the same part (`alignment.py`). A word may express several parts
(*cannot*: modality and negation), and several words may express one part (*post office*). A word that only the grammar
of its language requires (the *do* of a question, a Chinese classifier) expresses none.
"""

from typing import Literal, NamedTuple

from calque_phrasebook.meaning import Clause

Field = Literal[
    "action", "adjective", "asked", "clause", "companion", "complementiser", "connective", "currency", "degree",
    "determiner", "duration", "first", "frequency", "gladly", "goal", "half", "hour", "kind", "manner", "measure",
    "modal", "name", "negative", "noun", "number", "object", "owner", "part", "person", "place", "predicate", "purpose",
    "quality", "recipient", "relation", "second", "standard", "stuff", "subject", "tense", "thing", "time", "unit",
    "vehicle", "verb", "what", "when", "where",
]  # fmt: skip
"""The names of all fields of meanings."""

Marker = Literal[
    "age",  # twenty years *old*, zwanzig Jahre *alt*
    "article",  # in *the* park, i*m* Park
    "attribute",  # *older* brother, *älterer* Bruder
    "clock",  # three *o'clock*, drei *Uhr*, 三*点*
    "comparator",  # faster *than* he, schneller *als* er, *比*他快
    "complement",  # play *the piano*, *Klavier* spielen, 弹*钢琴*
    "conjunction",  # Anna *and* Peter
    "copula",  # she *is* a doctor, sie *ist* Ärztin, 她*是*医生
    "equality",  # *as* fast as he, *so* schnell wie er, 跟他*一样*快
    "expletive",  # *it* rains, *es* regnet
    "infinitive",  # go *to* buy bread, *um* Brot *zu* kaufen
    "let",  # *let* us go, *lass* uns gehen, 我们去*吧*
    "now",  # it is three o'clock *now*
    "please",  # *please* open the door, mach *bitte* die Tür auf, *请*
    "preposition",  # *in* Berlin, *in* Berlin, *在*柏林
    "relative",  # the book *that* I bought, das Buch, *das* ich gekauft habe, 我买*的*书
    "scale",  # how *old*, wie *alt*
    "this",  # *this* is my friend, *das* ist mein Freund, *这*是我的朋友
    "us",  # let *us* go, lass *uns* gehen, *我们*去吧
    "verb",  # she *comes* from Berlin, sie *kommt* aus Berlin, 她*来自*柏林: where the meaning has no verb to choose
    "weather",  # the *weather* is good
    "years",  # twenty *years* old, zwanzig *Jahre* alt
]
"""Markers: parts that a construction expresses besides the fields of its meaning, in at least two languages."""


class Part:
    """A part of a meaning, as a path of fields from the sentence: `clause.predicate.object.noun`.

    The last name may be a marker, as in `clause.predicate.copula`, or the number of a piece of a phrase. There is one
    object per path, created on first use.
    """

    __slots__ = ("_parts", "path")

    def __init__(self, path: tuple[str, ...]) -> None:
        self.path = path
        self._parts: dict[str, Part] = {}

    def __truediv__(self, name: Field | Marker) -> "Part":
        return self._parts.get(name) or self._part(name)

    def piece(self, number: int) -> "Part":
        """Returns the part for one piece of a phrase whose words correspond piece by piece across languages."""
        return self._parts.get(str(number)) or self._part(str(number))

    def _part(self, name: str) -> "Part":
        return self._parts.setdefault(name, Part((*self.path, name)))

    def __repr__(self) -> str:
        return f"Part({'.'.join(self.path)})"


SENTENCE = Part(())


class Word(NamedTuple):
    """A word or punctuation mark of a sentence, and the parts of the meaning that it expresses."""

    text: str
    parts: tuple[Part, ...] = ()


def spell(text: str, *parts: Part) -> list[Word]:
    """Returns the words of a text, all of which express the same parts; an empty text has none."""
    if " " in text:
        return [Word(word, parts) for word in text.split()]
    return [Word(text, parts)] if text else []


def spell_pieces(texts: tuple[str, ...], *, at: Part, pieces: int) -> list[Word]:
    """Returns the words of a phrase in one language: piece by piece, or as a whole that expresses all pieces."""
    if pieces == 1:
        return spell(texts[0], at)
    if len(texts) == 1:
        return spell(texts[0], *(at.piece(number) for number in range(pieces)))
    return [word for number, text in enumerate(texts) for word in spell(text, at.piece(number))]


def fuse(text: str, *words: Word) -> Word:
    """Returns one word in place of several, expressing all of their parts: cannot, fernsieht."""
    return Word(text, tuple(part for word in words for part in word.parts))


def verb_parts(verb: Part, *, complement: bool, preposition: bool) -> tuple[Part, ...]:
    """Returns the parts that a verb's words express, including a complement or preposition without words of its own.

    *Frühstücken* expresses both *have* and *breakfast*, *suchen* both *look* and *for*.
    """
    alone = (verb,) if complement else (verb, verb / "complement")
    return alone if preposition else (*alone, verb / "preposition")


def tense_part(clause: Clause, *, at: Part) -> tuple[Part, ...]:
    """Returns the part of the meaning that tense words express; clauses about states and habits have none."""
    return () if clause.tense in ("state", "habit") else (at / "tense",)
