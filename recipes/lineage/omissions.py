"""Counts omissions and repetitions in long sources: sentences that a model leaves out, or translates twice.

    python -m recipes.lineage.omissions MODEL... --corpus CORPUS

MODEL is a run or model folder for English to German; CORPUS is the folder of Multi30k. Long sources are those of the
longest bucket: neighbouring test sentences joined, as in `score`. A sentence of a translation ends at a full stop,
question or exclamation mark followed by a space.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from calque.engine import load_translator
from recipes.lineage.corpus import read_splits
from recipes.lineage.lengths import BUCKET_NAMES, JOINED, bucket_of, join_neighbours, length
from recipes.runner.arguments import parser_of


class LongSource(NamedTuple):
    """Several test sentences joined: their number, the source and the reference."""

    sentences: int
    source: str
    reference: str


class Counts(NamedTuple):
    """How many translations of long sources omit or repeat sentences, and their length ratio."""

    omitting: int  # translations with fewer distinct sentences than their source
    repeating: int  # translations that contain a sentence twice
    length_ratio: float  # words of all translations divided by words of the references


def long_sources(sources: Sequence[str], references: Sequence[str], *, languages: tuple[str, str]) -> list[LongSource]:
    """Every joined source of the longest bucket."""
    return [
        LongSource(size, source, reference)
        for size in JOINED
        for source, reference in zip(
            *(
                join_neighbours(side, size=size, language=language)
                for side, language in zip((sources, references), languages, strict=True)
            ),
            strict=True,
        )
        if bucket_of(length(source, language=languages[0])) == BUCKET_NAMES[-1]
    ]


def count_omissions(rows: Sequence[LongSource], translations: Sequence[str]) -> Counts:
    """Counts translations with omissions and repetitions.

    >>> count_omissions([LongSource(2, "A. B.", "a. b."), LongSource(2, "A. B.", "a. b.")], ["a. b. a.", "a."])
    Counts(omitting=1, repeating=1, length_ratio=1.0)
    """
    split = [re.split(r"(?<=[.!?]) ", translation) for translation in translations]
    omitting = sum(len(set(sentences)) < row.sentences for row, sentences in zip(rows, split, strict=True))
    repeating = sum(len(set(sentences)) < len(sentences) for sentences in split)
    words, expected = (
        sum(len(line.split()) for line in lines) for lines in (translations, [row.reference for row in rows])
    )
    return Counts(omitting, repeating, words / expected)


def _main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--corpus", type=Path, required=True)
    options = parser.parse_args()
    languages = ("en", "de")
    (test,) = read_splits(options.corpus, "test_2016_flickr", languages=languages)
    rows = long_sources(*test.values(), languages=languages)
    for model in options.models:
        counts = count_omissions(rows, load_translator(model).translate([row.source for row in rows]))
        print(
            f"{model}: {len(rows)} long sources, {counts.omitting} with omitted sentences, "
            f"{counts.repeating} with repeated ones; length ratio {counts.length_ratio:.2f}"
        )


if __name__ == "__main__":
    _main()
