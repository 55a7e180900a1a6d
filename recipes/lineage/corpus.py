"""The corpora of the line: where their files lie, and the files that the recipe makes of them.

Training pairs are the corpus's own and, once more, the same with neighbours joined (see `training_lines`), so that long
sentences are not new to a system; dialogues have no test set of their own and get one from their `dev`.
"""

import gzip
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Literal, NamedTuple

from lengths import BUCKETS, JOINED, joined_line, length

CorpusKind = Literal["multi30k", "dialog"]
Split = dict[str, list[str]]  # language → its lines, the source's first

LONGEST_JOINED = BUCKETS[-1][1]  # words (Chinese: characters) of the source: as long as what is looked at in the end
HELD_OUT = 1000  # lines of the dialogues' dev that become valid (the first ones) and test (the last ones)
UNITS: dict[CorpusKind, str] = {"multi30k": "words", "dialog": "characters"}  # of the source, lengths are counted in


class Side(NamedTuple):
    """A language, and its half of the training, validation and test pairs."""

    language: str
    train: Path
    valid: Path
    test: Path


class Corpus(NamedTuple):
    """Pairs to train, validate and test on."""

    source: Side
    target: Side


def make_corpus(folder: Path, *, kind: CorpusKind, made: Path) -> Corpus:
    """The corpus in `folder` as the line is trained on it, written to `made`; the same bytes every time."""
    match kind:
        case "multi30k":
            train, valid, test = read_splits(folder, "train", "val", "test_2016_flickr", languages=("en", "de"))
        case "dialog":
            train, held_out = read_splits(folder, "train", "dev", languages=("zh", "en"))
            count = len(next(iter(held_out.values())))
            if count < 2 * HELD_OUT:
                raise ValueError(f"{folder}: dev has {count:,} lines; {2 * HELD_OUT:,} are needed to validate and test")
            valid = {language: lines[:HELD_OUT] for language, lines in held_out.items()}
            test = {language: lines[-HELD_OUT:] for language, lines in held_out.items()}
    splits = {"train": training_lines(train), "valid": valid, "test": test}
    return Corpus(*(_side(language, splits, made) for language in train))


def training_lines(train: Split) -> Split:
    """Every line alone, then every line in a group with its neighbours: of 2, of 3, of 4, of 2 again and so on.

    A group whose source is longer than LONGEST_JOINED is left out; so is what is too little for a group at the end.
    """
    source = next(iter(train))
    groups = [group for group in neighbours(len(train[source])) if _is_short(train[source][group], language=source)]
    return {
        language: [*lines, *(joined_line(lines[group], language=language) for group in groups)]
        for language, lines in train.items()
    }


def neighbours(count: int) -> list[slice]:
    """Groups of so many lines, none in two.

    >>> neighbours(10)
    [slice(0, 2, None), slice(2, 5, None), slice(5, 9, None)]
    """
    groups: list[slice] = []
    start, sizes = 0, cycle(JOINED)
    while start + (size := next(sizes)) <= count:
        groups.append(slice(start, start + size))
        start += size
    return groups


def read_splits(folder: Path, *names: str, languages: tuple[str, str]) -> list[Split]:
    """The lines of `folder`/NAME.LANGUAGE.gz; what is missing or does not line up is said."""
    files = [{language: folder / f"{name}.{language}.gz" for language in languages} for name in names]
    missing = [str(path) for sides in files for path in sides.values() if not path.is_file()]
    if missing:
        raise FileNotFoundError(f"files of the corpus that are not here: {', '.join(missing)}")
    splits = [{language: read_lines(path) for language, path in sides.items()} for sides in files]
    for name, split in zip(names, splits, strict=True):
        counts = {language: len(lines) for language, lines in split.items()}
        if len(set(counts.values())) > 1:
            raise ValueError(f"{folder}: the two sides of {name} differ in lines: {counts}")
    return splits


def read_lines(path: Path) -> list[str]:
    """Every line of a text file, plain or gzip, without its end."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return [line.decode().rstrip("\r\n") for line in file]


def _is_short(lines: Sequence[str], *, language: str) -> bool:
    return length(joined_line(lines, language=language), language=language) <= LONGEST_JOINED


def _side(language: str, splits: dict[str, Split], made: Path) -> Side:
    made.mkdir(parents=True, exist_ok=True)
    paths = {role: made / f"{role}.{language}" for role in splits}
    for role, path in paths.items():
        path.write_bytes("".join(f"{line}\n" for line in splits[role][language]).encode())
    return Side(language, **paths)
