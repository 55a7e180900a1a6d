"""The types of requests and answers."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from calque.engine.inline import read_inline
from calque.errors import CalqueError
from calque.search.settings import SearchConfig


def changed_fields(value: Any, *, required: int, hidden: Mapping[str, Any] | None = None) -> str:
    """The representation of a named tuple: its `required` first fields, and all others that were changed.

    A field was changed if its value is neither its default nor the value that `hidden` has for it.
    """
    defaults = {**value._field_defaults, **(hidden or {})}
    fields = list(zip(value._fields, value, strict=True))
    shown = [repr(item) for _, item in fields[:required]]
    shown += [f"{name}={item!r}" for name, item in fields[required:] if name not in defaults or item != defaults[name]]
    return f"{type(value).__name__}({', '.join(shown)})"


class Request(NamedTuple):
    """A text to translate, and everything that its translation depends on besides the model.

    >>> Request("Der Bahnhof ist zu.", required=("station",), nbest=3)
    Request('Der Bahnhof ist zu.', required=('station',), nbest=3)
    """

    text: str
    prefix: str = ""  # the beginning of the translation
    required: tuple[str, ...] = ()  # phrases that the translation must contain
    places: tuple[int, ...] = ()  # where in the text the words of each phrase begin; empty if unknown
    forbidden: tuple[str, ...] = ()  # words that the translation must not contain
    search: SearchConfig | None = None  # None: the model's own settings
    nbest: int | None = None  # the number of candidates; None: one
    long: Literal["cut", "split"] = "cut"  # a long text is cut at the model's limit, or split and translated in parts
    replace_unknown: Mapping[str, str] | None = None  # replace unknown words by source words, or by their entries here
    detail: bool = False  # return the Detail of every candidate
    line: int | None = None  # the number that sampling depends on; None: position in the stream, 0 for a single request
    timeout: float | None = None  # seconds after which the answer is a DeadlineError

    @classmethod
    def inline(cls, line: str, *, prefix: str = "") -> "Request":
        """The request for a line with inline terminology markup.

        >>> Request.inline('the <term target="Bahnhof">station</term> is closed')
        Request('the station is closed', required=('Bahnhof',), places=(4,))
        """
        text, terms = read_inline(line)
        return cls(text, prefix, tuple(term.phrase for term in terms), tuple(term.place for term in terms))

    def __repr__(self) -> str:
        """The text and the fields that differ from their defaults."""
        return changed_fields(self, required=1)


class Detail(NamedTuple):
    """The pieces, log-probabilities and attention behind a translation."""

    source: list[str]  # pieces of the source
    pieces: list[str]  # of the translation; of a line in parts, with EOS after each part but the last
    log_probs: list[float]  # of each piece, and of the end unless the translation was cut
    attention: list[list[float]] | None  # a row per log-probability, a column per source piece and one for the end
    alignment: list[tuple[int, int]] | None  # (source word, target word)
    ids: tuple[int, ...] = ()  # of the pieces in the target vocabulary; copied words have ids beyond it


class Candidate(NamedTuple):
    """One translation of a text.

    >>> translation.candidates[0]
    Candidate('Good morning!', score=-0.31, log_prob=-0.42, pieces=4, confidence=0.93)
    """

    text: str
    score: float
    log_prob: float
    cut: bool  # search reached its maximum length, or the constraints allowed no further token
    pieces: int = 0  # their number, the end counted
    confidence: float | None = None  # between 0 and 1: the expected chrF; None if unknown
    oddities: tuple[str, ...] = ()  # loop, short or long: signs of a degenerate translation
    detail: Detail | None = None  # if requested
    missing_phrase: bool = False  # a required phrase is missing: the translation was cut before it, or is empty
    shortlisted: bool = False  # search considered only the words of a shortlist, see search.shortlist

    def __repr__(self) -> str:
        """The text and the fields that differ from their defaults."""
        return changed_fields(self, required=1, hidden={"cut": False, "detail": self.detail})


class Scored(NamedTuple):
    """The log-probabilities of the pieces of a given translation or text."""

    pieces: list[str]
    log_probs: list[float]  # of each piece, and of the end
    cut: bool = False  # source or translation are longer than the model reads, so only their beginnings were read

    @property
    def log_prob(self) -> float:
        """The log-probability of the whole translation."""
        return sum(self.log_probs)


class Translation(NamedTuple):
    """The candidates for one text (at least one), best first, or in the order in which they were sampled.

    >>> translation = next(translator.stream(["Guten Morgen!"], nbest=2))
    >>> translation.text
    'Good morning!'
    >>> [candidate.score for candidate in translation.candidates]
    [-0.31, -2.07]
    """

    candidates: list[Candidate]
    source_cut: bool = False  # the source is longer than the model reads

    @property
    def text(self) -> str:
        """The best translation."""
        return self.candidates[0].text


Answer = Translation | CalqueError
"""The result of a request: its translation, or an error that concerns this request alone."""


def empty_translation(*, detail: bool, attends: bool, missing_phrase: bool) -> Translation:
    """The translation of an empty line: an empty text with score 0, and with the same fields as other translations."""
    empty = Detail([], [], [], *(([], []) if attends else (None, None)))
    return Translation(
        [Candidate("", 0.0, 0.0, cut=False, detail=empty if detail else None, missing_phrase=missing_phrase)]
    )
