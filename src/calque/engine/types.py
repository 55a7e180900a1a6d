"""What is asked for, and what is answered."""

from collections.abc import Mapping
from typing import NamedTuple

from calque.engine.inline import read_inline


class Request(NamedTuple):
    """A text to translate, and what its translation must say."""

    text: str
    prefix: str = ""  # what it begins with
    required: tuple[str, ...] = ()  # phrases that appear in it
    places: tuple[int, ...] = ()  # where in the text the words of each phrase begin; not known: at its beginning
    part: int = 0  # of a long line that is translated in parts: which one; the parts follow each other

    @classmethod
    def inline(cls, line: str, *, prefix: str = "") -> "Request":
        """What a line with marks asks for.

        >>> Request.inline('the <term target="Bahnhof">station</term> is closed')
        Request(text='the station is closed', prefix='', required=('Bahnhof',), places=(4,), part=0)
        """
        text, terms = read_inline(line)
        return cls(text, prefix, tuple(term.phrase for term in terms), tuple(term.place for term in terms))


class OutputOptions(NamedTuple):
    """What holds for all lines of a text."""

    forbidden: tuple[str, ...] = ()  # words that no translation has
    replace_unknown: Mapping[str, str] | None = None  # unknown words become the source's, or what is said here for it
    detail: bool = False  # say how each translation came about


NOTHING = OutputOptions()


class Detail(NamedTuple):
    """How a translation came about."""

    source: list[str]  # its pieces
    pieces: list[str]  # of the translation; of a line in parts, with the end mark of each but the last
    log_probs: list[float]  # of each of them, and of the end unless the translation was cut
    attention: list[list[float]] | None  # a row for each log-probability, a column for each source piece and the end
    alignment: list[tuple[int, int]] | None  # (source word, target word)


class Candidate(NamedTuple):
    """One translation of a sentence."""

    text: str
    score: float
    log_prob: float
    cut: bool  # search reached its maximum length, or what it must say leaves no way to go on
    pieces: int = 0  # how many it has, the end counted
    confidence: float | None = None  # between 0 and 1: the chrF that can be expected; None where that is not known
    oddities: tuple[str, ...] = ()  # loop, short or long: signs that it went wrong
    detail: Detail | None = None  # where it was asked for
    missing_phrase: bool = False  # a phrase is missing that must appear: it was cut before, or there is nothing


class Scored(NamedTuple):
    """What a model makes of a translation that was given."""

    pieces: list[str]
    log_probs: list[float]  # of each piece, and of the end
    cut: bool = False  # source or translation are longer than what a model reads, and only their truncate were read

    @property
    def log_prob(self) -> float:
        """Of all of it."""
        return sum(self.log_probs)


class Translation(NamedTuple):
    """What became of one sentence: its candidates, best first, or in the order of drawing (at least one)."""

    candidates: list[Candidate]
    source_cut: bool = False  # longer than the model reads

    @property
    def text(self) -> str:
        return self.candidates[0].text


def answer_to_nothing(*, detail: bool, attends: bool, missing_phrase: bool) -> Translation:
    """What an empty line becomes: nothing, at no cost, with the same fields as others."""
    empty = Detail([], [], [], *(([], []) if attends else (None, None)))
    return Translation(
        [Candidate("", 0.0, 0.0, cut=False, detail=empty if detail else None, missing_phrase=missing_phrase)]
    )
