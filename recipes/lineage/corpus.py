"""The corpora of the recipe: their files, and the files that the recipe derives from them.

Training pairs are those of the corpus and the same pairs with neighbours joined (see `training_lines`), so that every
system has seen long sentences. Dialogues have no test set, so their `dev` is divided into a validation and a test
set.
"""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Literal, NamedTuple

from recipes.lineage.lengths import BUCKETS, JOINED, joined_line, length
from recipes.runner.files import read_lines, write_lines

CorpusKind = Literal["multi30k", "dialog"]
Split = dict[str, list[str]]  # language → its lines, the source's first

LONGEST_JOINED = BUCKETS[-1][1]  # words (Chinese: characters) of the source: the longest bucket of the evaluation
HELD_OUT = 1000  # lines of the dialogues' dev that become valid (the first ones) and test (the last ones)
UNITS: dict[CorpusKind, str] = {"multi30k": "words", "dialog": "characters"}  # that source lengths are counted in


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


def derive_corpus(folder: Path, *, kind: CorpusKind, to: Path) -> Corpus:
    """The corpus in `folder` as the systems are trained on it, written to `to`; the same bytes every time."""
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
    return Corpus(*(_write_side(language, splits, to) for language in train))


def training_lines(train: Split) -> Split:
    """All single lines, then groups of neighbours joined: 2 lines, 3, 4, 2 again and so on.

    Groups whose source is longer than LONGEST_JOINED are left out, as are remaining lines too few for a group.
    """
    source = next(iter(train))
    groups = [group for group in neighbours(len(train[source])) if _is_short(train[source][group], language=source)]
    return {
        language: [*lines, *(joined_line(lines[group], language=language) for group in groups)]
        for language, lines in train.items()
    }


def neighbours(count: int) -> list[slice]:
    """Disjoint groups of consecutive lines, with the sizes of JOINED in turn.

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
    """The lines of `folder`/NAME.LANGUAGE.gz; raises an error that names files that are missing or not parallel."""
    files = [{language: folder / f"{name}.{language}.gz" for language in languages} for name in names]
    missing = [str(path) for paths in files for path in paths.values() if not path.is_file()]
    if missing:
        raise FileNotFoundError(f"missing files of the corpus: {', '.join(missing)}")
    splits = [{language: read_lines(path) for language, path in paths.items()} for paths in files]
    for name, split in zip(names, splits, strict=True):
        counts = {language: len(lines) for language, lines in split.items()}
        if len(set(counts.values())) > 1:
            raise ValueError(f"{folder}: source and target of {name} have different numbers of lines: {counts}")
    return splits


def _is_short(lines: Sequence[str], *, language: str) -> bool:
    return length(joined_line(lines, language=language), language=language) <= LONGEST_JOINED


def _write_side(language: str, splits: dict[str, Split], folder: Path) -> Side:
    paths = {role: folder / f"{role}.{language}" for role in splits}
    for role, path in paths.items():
        write_lines(path, splits[role][language])
    return Side(language, **paths)
