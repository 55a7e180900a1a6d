"""The corpora of the line: where their files lie, and the test set of one that has none."""

import gzip
from pathlib import Path
from typing import Literal, NamedTuple

CorpusKind = Literal["multi30k", "dialog"]
HELD_OUT = 1000  # lines of the dialogues' dev that become valid (the first ones) and test (the last ones)


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


def open_corpus(folder: Path, *, kind: CorpusKind, held_out: Path) -> Corpus:
    """The corpus in `folder`; files that have to be made are written to `held_out`."""
    match kind:
        case "multi30k":
            languages, names = ("en", "de"), ("train", "val", "test_2016_flickr")
        case "dialog":
            languages, names = ("zh", "en"), ("train", "dev")
    given = {name: {each: folder / f"{name}.{each}.gz" for each in languages} for name in names}
    missing = [str(path) for files in given.values() for path in files.values() if not path.is_file()]
    if missing:
        raise FileNotFoundError(f"a {kind} corpus has files that are not here: {', '.join(missing)}")
    return Corpus(*(_side(each, {name: files[each] for name, files in given.items()}, held_out) for each in languages))


def read_lines(path: Path) -> list[str]:
    """Every line of a text file, plain or gzip, without its end."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return [line.decode().rstrip("\r\n") for line in file]


def _side(language: str, files: dict[str, Path], held_out: Path) -> Side:
    if "dev" not in files:
        return Side(language, *files.values())
    lines = read_lines(files["dev"])
    if len(lines) < 2 * HELD_OUT:
        raise ValueError(f"{files['dev']}: {len(lines):,} lines; {2 * HELD_OUT:,} are needed to validate and to test")
    valid = _write(held_out / f"valid.{language}", lines[:HELD_OUT])
    test = _write(held_out / f"test.{language}", lines[-HELD_OUT:])
    return Side(language, files["train"], valid, test)


def _write(path: Path, lines: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path
