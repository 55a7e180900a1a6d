"""A sample of training pairs, drawn uniformly from all corpora in one pass, in memory bounded by the sample's size."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calque.config import Config, check, read_toml
from calque.data.corpora import Corpus, DataConfig, FilesConfig, paths, read_blocks, text_columns
from calque.data.fingerprint import refuse_unreadable
from calque.data.holdout import Holdout, text_hashes
from calque.data.problems import refuse
from calque.data.rows import parse
from calque.errors import DataError, FolderError
from calque.folders import MANIFEST
from calque.training.runs import CONFIG, section

Progress = Callable[[str, int, int], None]
"""A function called with the current stage of work, how much of it is done, and the total (0 if unknown)."""


class TrainingPair(NamedTuple):
    """A sentence pair of a training corpus, with the numbers of its corpus and line."""

    corpus: int  # from 0
    line: int  # from 1
    source: str
    target: str


class PairSample(NamedTuple):
    """Pairs drawn from the training corpora, in random order, and how many pairs there are to draw from."""

    pairs: list[TrainingPair]
    total: int


class _Drawn(NamedTuple):
    """A training pair with its random priority; the sample consists of the pairs with the lowest priorities."""

    priority: float
    pair: TrainingPair


class RunData(NamedTuple):
    """The data config and the seed that a run was trained with."""

    data: DataConfig
    seed: int


class _Seed(Config):
    """The key `seed` of a run's config."""

    seed: int = 1


def is_run(folder: Path) -> bool:
    """Whether a folder is a training run, not a model folder: it has a config but no manifest."""
    return (folder / CONFIG).is_file() and not (folder / MANIFEST).exists()


def run_data(run: Path) -> RunData:
    """The data config and the seed of a run, from its config.toml."""
    if not is_run(run):
        raise FolderError(
            f"{run} is not a run folder, so its training corpora are unknown; pass a source and a target file"
        )
    values = read_toml(run / CONFIG)
    origin = str(run / CONFIG)
    data = check(DataConfig, section(values, "data", origin=run / CONFIG), origin=f"{origin}: data", written=True)
    if any(text_columns(corpus)[:2] != ("source", "target") for corpus in data.train):
        raise DataError(f"{origin}: the training corpora are not pairs of source and target text")
    seed = check(_Seed, {key: values[key] for key in ("seed",) if key in values}, origin=origin, written=True).seed
    return RunData(data, seed)


def given_data(source: Path, target: Path, *, like: DataConfig | None = None) -> DataConfig:
    """A data config whose training corpus is a source and a target file.

    The length limit and the treatment of invalid text are those of `like`, if given. The same files are set as
    validation corpus, so that no pairs are held out.
    """
    files = FilesConfig(source=source, target=target)
    data = DataConfig(train=(files,), valid=(files,))
    if like is None:
        return data
    return data.model_copy(update={"invalid": like.invalid, "maximum_length": like.maximum_length})


def draw_pairs(data: DataConfig, *, seed: int, most: int, progress: Progress) -> PairSample:
    """At most `most` pairs of the training corpora, in random order; every pair is equally likely.

    Pairs that training held out for validation are left out. The sampling weights of the corpora are ignored.
    """
    files = {
        f"data.train[{number}].{key}": path
        for number, corpus in enumerate(data.train, start=1)
        for key, path in paths(corpus).items()
    }
    refuse_unreadable(files)
    random = np.random.default_rng(seed)
    holdout = None if data.valid else Holdout(data.validation)
    kept: list[_Drawn] = []
    highest, rows = 1.0, 0
    for pairs in _blocks(data):
        if holdout is not None:
            holdout.add(text_hashes([pair.source for pair in pairs]))
        priorities = random.random(len(pairs)).tolist()
        kept += [_Drawn(*item) for item in zip(priorities, pairs, strict=True) if item[0] < highest]
        if len(kept) > 2 * most:
            kept = _lowest(kept, most=most)
            highest = kept[-1].priority
        rows += len(pairs)
        progress("reading the corpora", rows, 0)
    pairs = [item.pair for item in _lowest(kept, most=most)]
    if holdout is None:
        return PairSample(pairs, rows)
    hashes, held_out_rows = holdout.chosen()
    held_out = np.isin(text_hashes([pair.source for pair in pairs]), hashes)
    kept_pairs = [pair for pair, is_held_out in zip(pairs, held_out, strict=True) if not is_held_out]
    return PairSample(kept_pairs, rows - held_out_rows)


def _lowest(drawn: Sequence[_Drawn], *, most: int) -> list[_Drawn]:
    return sorted(drawn, key=lambda item: item.priority)[:most]


def _blocks(data: DataConfig) -> Iterator[list[TrainingPair]]:
    """Yields the pairs of all training corpora, in blocks; raises a DataError if a line is malformed."""
    limit = data.line_limit(running=False)
    for number, corpus in enumerate(data.train):
        for block in read_blocks(_without_alignments(corpus), limit=limit):
            parsed = parse(block, corpus=_without_alignments(corpus), invalid=data.invalid, limit=limit)
            refuse(parsed.malformed + (parsed.invalid if data.invalid == "fail" else []))
            yield [TrainingPair(number, row.line, row.texts[0], row.texts[1]) for row in parsed.rows]


def _without_alignments(corpus: Corpus) -> Corpus:
    return corpus.model_copy(update={"alignments": None}) if "alignments" in paths(corpus) else corpus
