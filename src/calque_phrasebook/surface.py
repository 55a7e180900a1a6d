"""From the words of a sentence to ordinary text, and which realiser speaks which language."""

from collections.abc import Callable, Sequence
from typing import Literal

from calque_phrasebook.meaning import Sentence
from calque_phrasebook.realisation import chinese, english, german

Language = Literal["zh", "en", "de"]
LANGUAGES: tuple[Language, ...] = ("zh", "en", "de")
MARKS = frozenset(",.?，。？")

_REALISERS: dict[Language, Callable[[Sentence], list[str]]] = {
    "zh": chinese.sentence,
    "en": english.sentence,
    "de": german.sentence,
}


def words(meaning: Sentence, *, language: Language) -> list[str]:
    """Gives the words and marks of a meaning, uncapitalised and unjoined."""
    return _REALISERS[language](meaning)


def say(meaning: Sentence, *, language: Language) -> str:
    """Gives a meaning as ordinary text: 今天很冷。 / It is cold today. / Es ist heute kalt."""
    return join(_REALISERS[language](meaning), language=language)


def join(tokens: Sequence[str], *, language: Language) -> str:
    """Gives words and marks as text: without spaces in Chinese, with a capital in front elsewhere."""
    if language == "zh":
        return "".join(tokens)
    text = "".join(token if token in MARKS else " " + token for token in tokens).lstrip()
    return text[:1].upper() + text[1:]
