"""Realises meanings in each language, and joins the words of a sentence to text."""

from collections.abc import Callable, Sequence
from typing import Literal

from calque_phrasebook.meaning import Sentence
from calque_phrasebook.realisation import chinese, english, german
from calque_phrasebook.realisation.words import Word

Language = Literal["zh", "en", "de"]
LANGUAGES: tuple[Language, ...] = ("zh", "en", "de")
MARKS = frozenset(",.?，。？")

_REALISERS: dict[Language, Callable[[Sentence], list[Word]]] = {
    "zh": chinese.sentence,
    "en": english.sentence,
    "de": german.sentence,
}


def realise(meaning: Sentence, *, language: Language) -> list[Word]:
    """Returns the words and punctuation of a meaning, uncapitalised, with the parts of the meaning they express."""
    return _REALISERS[language](meaning)


def words(meaning: Sentence, *, language: Language) -> list[str]:
    """Returns the words and punctuation of a meaning, uncapitalised."""
    return [word.text for word in _REALISERS[language](meaning)]


def say(meaning: Sentence, *, language: Language) -> str:
    """Returns a meaning as text: 今天很冷。 / It is cold today. / Es ist heute kalt."""
    return join(words(meaning, language=language), language=language)


def join(tokens: Sequence[str], *, language: Language) -> str:
    """Returns words and punctuation as text: without spaces in Chinese, with an initial capital in other languages."""
    if language == "zh":
        return "".join(tokens)
    return " ".join(segment(tokens, language=language))


def segment(tokens: Sequence[str], *, language: Language) -> list[str]:
    """Returns the words of a sentence between white space, with punctuation attached and the first capitalised.

    In Chinese, which is written without spaces, these are the words of the grammar: 今天 很 冷。
    """
    joined: list[str] = []
    for token in tokens:
        if token in MARKS:
            joined[-1] += token
        else:
            joined.append(token)
    if language != "zh":
        joined[0] = joined[0][:1].upper() + joined[0][1:]
    return joined
