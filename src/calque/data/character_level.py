"""Recognises character-level pairs, such as inflected forms or pronunciations, and chooses text settings for them.

A line is measured in words between white space; in scripts without spaces every character is a word. Each side of a
sample of distinct pairs is one of four kinds:

- symbols: lines of several words from a small closed set of short ones, such as phonemes; SYMBOLS types make up nearly
  all of the text, every type occurs often, and types have at most SYMBOL_LENGTH characters on average;
- word: nearly all lines are one word (in scripts without spaces: at most a few characters);
- features: nearly all lines have few words, of which at most one does not recur in other lines, such as a lemma with
  its features (`schreiben V;PST;3;SG`); the features of a word are separated by the marks ; | , = + and :;
- text: everything else.

The pairs are character-level if no side is text, a side is a word, and a side that is not symbols has many different
lines. Symbols are then read as tokens, everything else as characters.
"""

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from calque.config import Values
from calque.data.corpora import Corpus, DataConfig, PairCorpus, read_blocks
from calque.data.rows import parse
from calque.errors import DataError
from calque.text.scripts import is_unspaced

READ = 200_000  # lines of all corpora: some corpora are sorted by length, so the first few lines would mislead
SAMPLE = 10_000  # pairs of these lines, at even distances
LEAST = 100  # distinct pairs; fewer are too little evidence
NEARLY_ALL = 0.9
LONGEST = 100  # characters; at most one line in a hundred may be longer
UNSPACED_WORD = 6  # characters
SYMBOLS, SYMBOL_SHARE, SYMBOL_USES, SYMBOL_LENGTH = 200, 0.99, 20, 3.0
RECURRING = 0.005  # of the lines
FEATURE_WORDS = 6  # of a line
VARIED = 0.5  # different lines per pair
OVERRIDE = "set text.kind=sentencepiece to train on subwords instead"
_FEATURE_MARKS = re.compile(r"[;|,=+:]")

Pair = tuple[str, str]
Unit = Literal["characters", "tokens"]
SideKind = Literal["symbols", "word", "features", "text"]


class CharacterLevel(NamedTuple):
    """Whether each side of the pairs should be split into characters or words, as found in the data, and why."""

    source: Unit
    target: Unit
    evidence: str


class ChosenText(NamedTuple):
    """A text section for a config, and a message that gives the reason for it."""

    section: Values
    message: str


def chosen_text(data: DataConfig, *, joint: bool) -> ChosenText | None:
    """The `text` section of the config for character-level pairs.

    `joint` says whether the model needs one vocabulary for both sides. Returns None for any other corpus, and for a
    corpus that cannot be read, whose error is reported when the data is prepared.
    """
    level = _recognised(data)
    section = None if level is None else _section(level, joint=joint)
    if level is None or section is None:
        return None
    return ChosenText(section, f"{_assignments(level)}: {level.evidence}; {OVERRIDE}")


def suggestion(data: DataConfig) -> str:
    """A message that suggests text settings for character-level pairs, with the reason; empty for other corpora."""
    level = _recognised(data)
    return "" if level is None else f"{_assignments(level)} would suit these pairs better: {level.evidence}"


def recognise(pairs: Iterable[Pair]) -> CharacterLevel | None:
    """The units in which to read character-level pairs; None for all other pairs, and for too few pairs.

    >>> recognise([(f"w{number}en V;PST", f"w{number}te") for number in range(200)]).target
    'characters'
    """
    distinct = list(dict.fromkeys(pairs))
    if len(distinct) < LEAST:
        return None
    sides = [[pair[side].strip() for pair in distinct] for side in (0, 1)]
    if not any(_are_words(lines) for lines in sides):  # the cheapest test comes first
        return None
    kinds = [side_kind(lines) for lines in sides]
    is_varied = any(
        kind != "symbols" and len(set(lines)) >= VARIED * len(lines) for lines, kind in zip(sides, kinds, strict=True)
    )
    if "text" in kinds or "word" not in kinds or not is_varied:
        return None
    source, target = (_UNITS[kind] for kind in kinds)
    described = (_describe(lines, kind) for lines, kind in zip(sides, kinds, strict=True))
    return CharacterLevel(source, target, "sources are {}, targets {}".format(*described))


def side_kind(lines: Sequence[str]) -> SideKind:
    """What the source or target lines are: single words, symbols such as phonemes, words with features, or text."""
    if sum(len(line) > LONGEST for line in lines) > 0.01 * len(lines):
        return "text"
    if _are_words(lines):
        return "word"
    if _are_symbols([_words(line) for line in lines]):
        return "symbols"
    return "features" if _is_share(sum(count <= 1 for count in _open_words(lines)), lines) else "text"


def sample_pairs(data: DataConfig) -> list[Pair]:
    """A sample of the training pairs, taken at even distances from the first READ lines.

    Sampling stops at the first corpus that has no pairs. Raises a DataError or an OSError if a corpus cannot be read.
    """
    pairs: list[Pair] = []
    step, seen = 1, 0
    for source, target in _columns(data.train, limit=data.line_limit(running=False)):
        stop = min(len(source), READ - seen)
        first = -seen % step
        pairs += zip(source[first:stop:step], target[first:stop:step], strict=True)
        seen += stop
        while len(pairs) >= 2 * SAMPLE:
            pairs, step = pairs[::2], 2 * step
        if seen == READ:
            break
    return pairs


def _recognised(data: DataConfig) -> CharacterLevel | None:
    try:
        return recognise(sample_pairs(data))
    except (DataError, OSError):
        return None


def _assignments(level: CharacterLevel) -> str:
    """The text settings for character-level pairs as command-line assignments, e.g. text.kind=characters."""
    if level.source == level.target:
        return f"text.kind={level.source}"
    return f"text.source.kind={level.source} text.target.kind={level.target}"


def _section(level: CharacterLevel, *, joint: bool) -> Values | None:
    """The config's `text` section for character-level pairs.

    None if the model needs one vocabulary for both sides (`joint`), but these are split into different units.
    """
    if level.source == level.target:
        return {"kind": level.source, **({"joint": True} if joint else {})}
    if joint:
        return None
    return {"kind": "columns", "source": {"kind": level.source}, "target": {"kind": level.target}}


def _columns(corpora: Sequence[Corpus], *, limit: int) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Yields the sources and targets of each block of lines. Stops at the first corpus that is not made of pairs."""
    for corpus in corpora:
        if not isinstance(corpus, PairCorpus):
            return
        for block in read_blocks(corpus, limit=limit):
            source, target, *_ = parse(block, corpus=corpus, invalid="replace", limit=limit).columns
            yield source, target


_UNITS: dict[SideKind, Unit] = {"symbols": "tokens", "word": "characters", "features": "characters"}


def _describe(lines: Sequence[str], kind: SideKind) -> str:
    if kind == "word":
        return f"single words (median {statistics.median(map(len, lines)):g} characters)"
    if kind == "features":
        return "words with features"
    return f"sequences of {len({word for line in lines for word in line.split()})} symbols"


def _words(line: str) -> list[str]:
    """The words of a line; in scripts without spaces, every character is a word."""
    if not any(map(is_unspaced, line)):
        return line.split()
    spaced = "".join(f" {character} " if is_unspaced(character) else character for character in line)
    return spaced.split()


def _are_words(lines: Sequence[str]) -> bool:
    return _is_share(sum(map(_is_word, lines)), lines)


def _is_word(line: str) -> bool:
    """Whether a line is a single word. In a script without spaces, every short line counts as a single word."""
    if line and line.split() != [line]:  # it has white space
        return False
    return not any(map(is_unspaced, line)) or len(line) <= UNSPACED_WORD


def _are_symbols(lines: Sequence[Sequence[str]]) -> bool:
    """Whether lines, given as lists of words, consist of a small set of short and frequent words, such as phonemes."""
    counts = Counter(word for line in lines for word in line)
    covered = sum(count for _, count in counts.most_common(SYMBOLS))
    return (
        covered >= SYMBOL_SHARE * counts.total()
        and counts.total() >= SYMBOL_USES * len(counts)
        and statistics.mean(map(len, counts)) <= SYMBOL_LENGTH
    )


def _open_words(lines: Sequence[str]) -> Iterator[int]:
    """Yields the number of rare words of each line: those with a part (between marks such as ; or =) in few lines.

    In a line of more than FEATURE_WORDS words, every word counts as rare.
    """
    features = [[_features(word) for word in _words(line)] for line in lines]
    lines_with: Counter[str] = Counter()
    for line in features:
        lines_with.update({feature for word in line for feature in word})
    least = max(3, RECURRING * len(lines))
    for line in features:
        is_long = len(line) > FEATURE_WORDS
        yield sum(is_long or any(lines_with[feature] < least for feature in word) for word in line)


def _features(word: str) -> list[str]:
    return [feature for feature in _FEATURE_MARKS.split(word) if feature] or [word]


def _is_share(count: int, lines: Sequence[str]) -> bool:
    return count >= NEARLY_ALL * len(lines)
