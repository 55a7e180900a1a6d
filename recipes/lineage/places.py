"""Whether a model keeps its place in long sources: sentences that it leaves out, and that it says again.

    python recipes/lineage/places.py MODEL... --corpus CORPUS

MODEL is a run or model folder of English to German; CORPUS is Multi30k's folder. Long sources are those of the longest
bucket: neighbouring test sentences joined, as in score.py. A translation's sentences end at a full stop, question or
exclamation mark with a space behind it.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from corpus import read_splits
from lengths import BUCKET_NAMES, JOINED, bucket_of, join_neighbours, length

import calque


class Long(NamedTuple):
    """A joined source."""

    sentences: int
    source: str
    reference: str


class Places(NamedTuple):
    """What became of long sources."""

    fewer: int  # translations with fewer different sentences than their source has
    again: int  # translations that say a sentence twice
    words: float  # of all translations, for each of the references'


def long_sources(sources: Sequence[str], references: Sequence[str], *, languages: tuple[str, str]) -> list[Long]:
    """Every joined source of the longest bucket."""
    return [
        Long(size, source, reference)
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


def places(rows: Sequence[Long], translations: Sequence[str]) -> Places:
    """Counts what was left out and said again.

    >>> places([Long(2, "A. B.", "a. b."), Long(2, "A. B.", "a. b.")], ["a. b. a.", "a."])
    Places(fewer=1, again=1, words=1.0)
    """
    said = [re.split(r"(?<=[.!?]) ", translation) for translation in translations]
    fewer = sum(len(set(each)) < row.sentences for row, each in zip(rows, said, strict=True))
    again = sum(len(set(each)) < len(each) for each in said)
    words = sum(len(each.split()) for each in translations) / sum(len(row.reference.split()) for row in rows)
    return Places(fewer, again, words)


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--corpus", type=Path, required=True)
    given = parser.parse_args()
    languages = ("en", "de")
    (test,) = read_splits(given.corpus, "test_2016_flickr", languages=languages)
    rows = long_sources(*test.values(), languages=languages)
    for model in given.models:
        found = places(rows, calque.load(model).translate([row.source for row in rows]))
        print(
            f"{model}: of {len(rows)} long sources {found.fewer} with fewer different sentences than they have, "
            f"{found.again} with one said twice, {found.words:.2f} times the words of the references"
        )


if __name__ == "__main__":
    _main()
