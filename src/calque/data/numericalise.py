"""What the processes that prepare data do with a block: look it over first, cut it into pieces later."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.data.corpora import Block, Corpus, DataConfig, read_blocks
from calque.data.holdout import Hashes, text_hashes
from calque.data.misalignment import by_line
from calque.data.pairs import Pair, Parsed, Tally, parse
from calque.data.store import Rows, pack
from calque.data.word_alignments import link_problems, piece_links
from calque.text import Tokenizers, load_tokenizers, number_source, number_target

Role = Literal["train", "valid"]
ROLES: tuple[Role, Role] = ("train", "valid")


class Task(NamedTuple):
    """A block, and which corpus it comes from."""

    role: Role
    corpus: int  # from 0
    block: Block


class Scanned(NamedTuple):
    """What a first look at a block found."""

    role: Role
    corpus: int
    tally: Tally
    problems: list[str]
    pairs: int
    lengths: NDArray[Any]
    """Of both sides of every line, in characters."""
    sources: Hashes
    """A hash of each usable pair's source."""


class Encoded(NamedTuple):
    """A block in pieces: which rows are for training, which for validation, and the latter's text."""

    role: Role
    corpus: int
    train: tuple[Rows, Rows]
    valid: tuple[Rows, Rows]
    text: list[tuple[str, str]]
    tally: Tally
    links: Rows | None
    """Of the pairs for training, where some corpus is aligned."""


def tasks(data: DataConfig) -> Iterator[Task]:
    """Every block of every corpus, in the config's order."""
    for role in ROLES:
        for number, corpus in enumerate(getattr(data, role)):
            for block in read_blocks(corpus, limit=data.line_limit):
                yield Task(role, number, block)


def training_texts(data: DataConfig, *, side: int, held_out: Hashes) -> Iterator[str]:
    """Every text to learn from, of the source (0) or the target (1)."""
    for task in tasks(data):
        if task.role == "train":
            pairs = _parse(task, data=data).pairs
            validates = _validates(pairs, role="train", held_out=held_out)
            yield from (pair[side] for pair, held in zip(pairs, validates, strict=True) if not held)  # type: ignore[misc]


def scanner(data: DataConfig) -> Callable[[Task], Scanned]:
    """A function that looks a block over."""
    return partial(_scan, data=data)


def encoder(data: DataConfig, *, tokenizers: Path, held_out: Hashes) -> Callable[[Task], Encoded]:
    """A function that cuts a block into the pieces of the tokenizers saved in a folder."""
    return partial(_encode, data=data, tokenizers=load_tokenizers(tokenizers), held_out=held_out)


def _scan(task: Task, *, data: DataConfig) -> Scanned:
    parsed = _parse(task, data=data)
    problems = parsed.malformed + (parsed.invalid if data.invalid == "fail" else [])
    problems += link_problems(_corpus(task, data=data), task.block, parsed.pairs)
    hashes = text_hashes([pair.source for pair in parsed.pairs] if task.role == "train" and not data.valid else [])
    lengths = by_line(
        np.array([len(pair.source) for pair in parsed.pairs], dtype=np.int64),
        target=np.array([len(pair.target) for pair in parsed.pairs], dtype=np.int64),
        lines=np.array([pair.line for pair in parsed.pairs], dtype=np.int64),
        first=task.block.first,
        count=parsed.tally.lines,
    )
    return Scanned(task.role, task.corpus, parsed.tally, problems, len(parsed.pairs), lengths, hashes)


def _encode(task: Task, *, data: DataConfig, tokenizers: Tokenizers, held_out: Hashes) -> Encoded:
    parsed = _parse(task, data=data)
    sources, targets = _ids(parsed.pairs, tokenizers=tokenizers)
    validates = _validates(parsed.pairs, role=task.role, held_out=held_out)
    kept: dict[bool, list[int]] = {False: [], True: []}
    long = empty = 0
    for place, (source, target) in enumerate(zip(sources, targets, strict=True)):
        if not source or not target:
            empty += 1
        elif max(len(source), len(target)) > data.maximum_length:
            long += 1
        else:
            kept[bool(validates[place])].append(place)
    train, valid = (
        (pack([sources[place] for place in places]), pack([targets[place] for place in places]))
        for places in kept.values()
    )
    text = [(parsed.pairs[place].source, parsed.pairs[place].target) for place in kept[True]]
    tally = replace(parsed.tally, empty=parsed.tally.empty + empty, long=parsed.tally.long + long)
    learnt = [parsed.pairs[place] for place in kept[False]]
    links = piece_links(_corpus(task, data=data), task.block, learnt, tokenizers=tokenizers) if data.aligned else None
    return Encoded(task.role, task.corpus, train, valid, text, tally, links)


def _ids(pairs: list[Pair], *, tokenizers: Tokenizers) -> tuple[list[list[int]], list[list[int]]]:
    """The ids of both sides; with one vocabulary, words outside it are numbered so that they can be copied."""
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if not tokenizers.joint:
        return tokenizers.source.encode_many(sources), tokenizers.target.encode_many(targets)
    opened = number_source(tokenizers.source, sources)
    return [each.ids for each in opened], number_target(tokenizers.target, targets, sources=opened)


def _validates(pairs: list[Pair], *, role: Role, held_out: Hashes) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    if role == "valid" or not len(held_out):
        return np.full(len(pairs), role == "valid")
    return np.isin(text_hashes([pair.source for pair in pairs]), held_out)


def _parse(task: Task, *, data: DataConfig) -> Parsed:
    return parse(task.block, corpus=_corpus(task, data=data), invalid=data.invalid, limit=data.line_limit)


def _corpus(task: Task, *, data: DataConfig) -> Corpus:
    corpus: Corpus = getattr(data, task.role)[task.corpus]
    return corpus
