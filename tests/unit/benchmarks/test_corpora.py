"""Which files of a folder are the corpus."""

import gzip
from pathlib import Path

import pytest
from benchmarks.corpora import open_corpus, read_lines, write_validation
from benchmarks.errors import BenchmarkError


def write_folder(folder: Path, *names: str) -> Path:
    for name in names:
        text = "".join(f"{name} {'x' * (9 - number)}\n" for number in range(9)).encode()
        (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return folder


def test_files_are_found_by_part_and_language(tmp_path: Path) -> None:
    parts = ("train", "val", "test_2016")
    folder = write_folder(tmp_path, *(f"{part}.{language}.gz" for part in parts for language in ("de", "en", "fr")))
    corpus = open_corpus(folder, source="fr", target="de")
    names = [path.name for path in corpus[1:]]
    assert names == ["train.fr.gz", "train.de.gz", "val.fr.gz", "val.de.gz", "test_2016.fr.gz"]
    assert read_lines(corpus.source, limit=1) == ["train.fr.gz xxxxxxxxx"]


def test_a_missing_file_is_named_with_what_is_there(tmp_path: Path) -> None:
    write_folder(tmp_path, "train.de", "train.en", "test.de")
    with pytest.raises(BenchmarkError, match=r"no file val\*\.en .*the folder holds test\.de, train\.de, train\.en"):
        open_corpus(tmp_path, source="de", target="en")
    with pytest.raises(BenchmarkError, match="no such folder"):
        open_corpus(tmp_path / "elsewhere", source="de", target="en")


def test_validation_takes_the_shortest_pairs(tmp_path: Path) -> None:
    write_folder(tmp_path, *(f"{part}.{language}" for part in ("train", "dev") for language in ("de", "en")))
    source, target = write_validation(open_corpus(tmp_path, source="de", target="en"), folder=tmp_path)
    assert read_lines(source) == [f"dev.de {'x' * length}" for length in (1, 2, 3, 4)]
    assert read_lines(target) == [f"dev.en {'x' * length}" for length in (1, 2, 3, 4)]
