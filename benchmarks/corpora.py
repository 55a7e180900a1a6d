"""The corpora that contenders are trained on: a folder of text files or, by default, the built-in phrasebook."""

import gzip
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from benchmarks.errors import BenchmarkError
from benchmarks.source_trees import SourceTree

PHRASEBOOK_PAIRS = 20_000
VALID_NAMES = ("val", "valid", "dev", "test")
VALID_PAIRS = 4  # a run has to validate on something; it is the same work in a long run and in a short one


class Corpus(NamedTuple):
    """Line-aligned text files, plain or .gz."""

    name: str
    source: Path
    target: Path
    valid_source: Path
    valid_target: Path
    test_source: Path


def open_corpus(folder: Path, *, source: str, target: str) -> Corpus:
    """The files of a folder by their names: train.de.gz, train.en.gz, val.de.gz, test_2016_flickr.de.gz."""
    if not folder.is_dir():
        raise BenchmarkError(f"--corpus {folder}: no such folder")
    folder = folder.resolve()
    train = {language: _file(folder, starts=("train",), language=language) for language in (source, target)}
    valid = {language: _file(folder, starts=VALID_NAMES, language=language) for language in (source, target)}
    return Corpus(
        folder.name,
        train[source],
        train[target],
        valid[source],
        valid[target],
        _file(folder, starts=("test", *VALID_NAMES), language=source),
    )


def write_phrasebook(
    tree: SourceTree, *, folder: Path, source: str, target: str, pairs: int = PHRASEBOOK_PAIRS
) -> Corpus:
    """Writes a corpus that needs no download, with `calque data phrasebook` of one of the source trees."""
    book = folder / "phrasebook"
    languages = ("--from", source, "--to", target)
    tree.calque(*("data", "phrasebook", *languages, "--pairs", str(pairs), "--out", book), folder=folder, threads=1)
    return open_corpus(book, source=source, target=target)._replace(name=f"phrasebook, {pairs:,} pairs")


def read_lines(path: Path, *, limit: int | None = None) -> list[str]:
    """The first lines of a file, plain or .gz, without line ends."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        return [line.rstrip("\n") for line in islice(lines, limit)]


def write_lines(path: Path, lines: list[str]) -> Path:
    """Writes lines to a plain text file."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return path


def write_validation(corpus: Corpus, *, folder: Path) -> tuple[Path, Path]:
    """Writes the shortest of the first validation pairs, source and target, so that validation takes little time."""
    sources, targets = (read_lines(path, limit=200) for path in (corpus.valid_source, corpus.valid_target))
    pairs = [pair for pair in zip(sources, targets, strict=True) if all(map(str.strip, pair))]
    shortest = sorted(pairs, key=lambda pair: len(pair[0]))[:VALID_PAIRS]
    return (
        write_lines(folder / "valid.source", [source for source, _ in shortest]),
        write_lines(folder / "valid.target", [target for _, target in shortest]),
    )


def _file(folder: Path, *, starts: tuple[str, ...], language: str) -> Path:
    """The first file named START*.LANGUAGE or START*.LANGUAGE.gz; earlier starts come first."""
    for start in starts:
        files = sorted([*folder.glob(f"{start}*.{language}"), *folder.glob(f"{start}*.{language}.gz")])
        if files:
            return files[0]
    names = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
    expected_names = " or ".join(f"{start}*.{language}" for start in starts)
    raise BenchmarkError(f"--corpus {folder}: no file {expected_names}, plain or .gz; the folder holds {names}")
