"""Corpora on the command line: several files, tables and compressed files are the same as two plain files."""

import bz2
import csv
import json
import lzma
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from calque.config import read_toml
from tests.conftest import Answer, toy_corpus
from tests.tagged import write_conllu

Command = Callable[..., Answer]

pytestmark = pytest.mark.usefixtures("unplotted")
WORDS = ("text.kind=words", "text.joint=true")
SHORT = (*WORDS, "training.steps=2", "training.threads=1", "training.device=cpu")


@pytest.fixture
def corpus(tmp_path: Path) -> dict[str, Path]:
    return toy_corpus(tmp_path / "corpus")


def refused(answer: Answer, *expected: str) -> None:
    """One message that says all of `expected`, exit code 2, no traceback."""
    assert answer.code == 2 and "Traceback" not in answer.err, answer
    for text in expected:
        assert text in answer.err, answer.err


def stored(folder: Path) -> dict[str, bytes]:
    """The ids of a store."""
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in folder.glob("[tv]*/*")}


def split(path: Path, *, at: int) -> list[Path]:
    """A file in two parts, the second compressed."""
    lines = path.read_bytes().splitlines(keepends=True)
    parts = [path.with_suffix(".1"), path.with_suffix(".2.xz")]
    parts[0].write_bytes(b"".join(lines[:at]))
    parts[1].write_bytes(lzma.compress(b"".join(lines[at:])))
    return parts


def options(name: str, files: list[Path]) -> list[object]:
    return [item for file in files for item in (name, file)]


def test_several_files_are_taken_together_in_order(command: Command, corpus: dict[str, Path], tmp_path: Path) -> None:
    """Pairs, from files in any order of the options, and text; the store is that of one file."""
    parts = {side: split(path, at=60) for side, path in corpus.items()}
    paired = [*options("--source", parts["source"]), *options("--target", parts["target"])]
    for whole, several in (
        (["--source", corpus["source"], "--target", corpus["target"]], paired),
        (["--text", corpus["source"]], options("--text", parts["source"])),
    ):
        stores = [tmp_path / f"{whole[0]}{number}" for number in (1, 2)]
        for files, store in zip((whole, several), stores, strict=True):
            answer = command("data", "prepare", *files, "--out", store, "text.kind=words")
            assert answer.code == 0, answer.err
        assert stored(stores[0]) == stored(stores[1])
    assert command("init", tmp_path / "a.toml", *paired).code == 0
    assert [train["target"] for train in read_toml(tmp_path / "a.toml")["data"]["train"]] == [
        *map(str, parts["target"])
    ]


def test_training_on_several_files(command: Command, corpus: dict[str, Path], tmp_path: Path) -> None:
    more, dev = toy_corpus(tmp_path / "more", pairs=40, seed=1), toy_corpus(tmp_path / "dev", pairs=9, seed=2)
    files = [f for pair in (corpus, more) for f in ("--source", pair["source"], "--target", pair["target"])]
    files += [f for pair in (dev, more) for f in ("--valid-source", pair["source"], "--valid-target", pair["target"])]
    answer = command("train", *files, *SHORT, "--run", tmp_path / "run")
    assert answer.code == 0 and "190 pairs to train on, 49 to validate" in answer.err, answer.err
    assert len(read_toml(tmp_path / "run" / "config.toml")["data"]["valid"]) == 2


def test_several_files_of_labelled_words(command: Command, tmp_path: Path) -> None:
    files = [write_conllu(tmp_path / f"{number}.conllu", sentences=40) for number in (1, 2)]
    answer = command("data", "check", *options("--conll", files), "--test-conll", files[0], "--test-conll", files[1])
    assert answer.code == 0 and "test in train: 80 of 80 sentences" in answer.out, answer


def test_lists_of_different_length_are_named(command: Command, corpus: dict[str, Path], tmp_path: Path) -> None:
    source, target = corpus["source"], corpus["target"]
    sides = ["--source", source, "--target", target]
    lists = f"  --source: {source}, {target}\n  --target: {target}"
    for start in (["train"], ["init", tmp_path / "a.toml"], ["data", "check"], ["data", "prepare", "--out", tmp_path]):
        refused(
            command(*start, "--source", source, "--source", target, "--target", target),
            "the same number of files",
            lists,
        )
    valid = ["--valid-source", source, "--valid-target", target, "--valid-target", source]
    refused(command("train", *sides, *valid), f"  --valid-source: {source}\n  --valid-target: {target}, {source}")
    test = ["--test-source", source, "--test-source", target, "--test-target", source]
    refused(command("data", "check", *sides, *test), f"  --test-source: {source}, {target}\n  --test-target: {source}")
    links = ["--alignments", source, "--alignments", source]
    refused(command("train", *sides, *links), f"  --source: {source}\n  --alignments: {source}, {source}")
    refused(command("train", *sides, "--source", tmp_path / "none", "--target", target), "none: No such file")


def test_an_option_of_one_value_is_not_silently_replaced(command: Command, trained: Path, tmp_path: Path) -> None:
    for start, option in (
        (["translate", trained], "--input"),
        (["evaluate", trained, "--reference", "c"], "--source"),
        (["train", "--source", "c", "--target", "c"], "--run"),
        (["data", "prepare"], "--out"),
    ):
        refused(command(*start, option, tmp_path / "a", option, tmp_path / "b"), f"{option} is given 2 times")
    assert command("systems", "tiny", "--scale", 1).code == 0


def tables(corpus: dict[str, Path], folder: Path) -> dict[str, list[object]]:
    """The pairs of a corpus in tables of every kind, and the options that read them."""
    rows = list(zip(*(path.read_text(encoding="utf-8").splitlines() for path in corpus.values()), strict=True))
    plain, named = folder / "a.tsv", folder / "b.tsv.bz2"
    plain.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    text = "id\tde\ten\n" + "".join(f"7\t{target}\t{source}\n" for source, target in rows)
    named.write_bytes(bz2.compress(text.encode()))
    commas, semicolons, bare = folder / "a.csv", folder / "b.csv", folder / "c.csv"
    for path, delimiter, names, with_id in (
        (commas, ",", ["id", "source", "target"], True),
        (semicolons, ";", ["en", "de"], False),
        (bare, "\t", None, False),
    ):
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
            writer.writerows([names] if names else [])
            writer.writerows([("7,8", *row) if with_id else row for row in rows])
    objects, nested = folder / "a.jsonl", folder / "b.jsonl"
    objects.write_text("".join(json.dumps({"target": row[1], "source": row[0]}) + "\n" for row in rows))
    nested.write_text("".join(json.dumps({"translation": {"de": row[1], "en": row[0]}}) + "\n" for row in rows))
    return {
        "tsv": ["--tsv", plain],
        "tsv by name": ["--tsv", named, "--source-column", "en", "--target-column", "de"],
        "tsv by number": ["--tsv", named, "--source-column", 3, "--target-column", 2, "--header"],
        "csv with source and target": ["--csv", commas],
        "csv by number": ["--csv", commas, "--source-column", 2, "--target-column", 3],
        "csv of two columns": ["--csv", semicolons, "--delimiter", ";"],
        "csv without names": ["--csv", bare, "--delimiter", "\\t", "--no-header"],
        "jsonl": ["--jsonl", objects],
        "jsonl by key": ["--jsonl", nested, "--source-column", "translation.en", "--target-column", "translation.de"],
    }


def test_tables_are_the_same_as_two_files(command: Command, corpus: dict[str, Path], tmp_path: Path) -> None:
    command(
        "data", "prepare", "--source", corpus["source"], "--target", corpus["target"], "--out", tmp_path / "0", *WORDS
    )
    expected = stored(tmp_path / "0")
    assert expected
    for kind, arguments in tables(corpus, tmp_path).items():
        answer = command("data", "prepare", *arguments, "--out", tmp_path / kind, *WORDS)
        assert answer.code == 0, (kind, answer.err)
        assert stored(tmp_path / kind) == expected, kind


def test_commands_that_read_tables(command: Command, corpus: dict[str, Path], tmp_path: Path) -> None:
    """`init` writes what `train` reads; tables validate and test; tables and files can be combined."""
    by_name = tables(corpus, tmp_path)["tsv by name"]
    (kind, path), columns = by_name[:2], by_name[2:]
    assert command("init", tmp_path / "a.toml", *by_name, "--delimiter", ";").code == 2
    assert command("init", tmp_path / "a.toml", *by_name).code == 0
    (table,) = read_toml(tmp_path / "a.toml")["data"]["train"]
    assert (table["kind"], table["source_column"], table["target_column"]) == ("tsv", "en", "de")
    pairs = ["--source", corpus["source"], "--target", corpus["target"]]
    answer = command("train", "--config", tmp_path / "a.toml", *SHORT, "--run", tmp_path / "1")
    assert answer.code == 0 and "100 pairs to train on, 50 to validate" in answer.err, answer.err
    answer = command("train", *pairs, kind, path, "--valid-tsv", path, *columns, *SHORT, "--run", tmp_path / "2")
    assert answer.code == 0 and "300 pairs to train on, 150 to validate" in answer.err, answer.err
    answer = command("data", "check", *pairs, "--test-tsv", path, *columns, *WORDS)
    assert answer.code == 0 and "test in train: 150 of 150 pairs" in answer.out, answer


def test_mistakes_with_tables(command: Command, corpus: dict[str, Path], tmp_path: Path) -> None:
    wide, objects = tmp_path / "wide.csv", tmp_path / "a.jsonl"
    wide.write_text("id,en,de\n1,a,b\n2,c\n", encoding="utf-8")
    objects.write_text('{"en": "a", "de": "b"}\n', encoding="utf-8")
    named = ["--source-column", "en", "--target-column", "de"]
    source = corpus["source"]
    for arguments, message in (
        (["--csv", wide], f"{wide} has 3 columns: 'id', 'en', 'de'; choose two with --source-column"),
        (["--csv", wide, *named], f"{wide}: line 3: found 2 columns separated by ',', but the header has 3"),
        (["--csv", wide, "--source-column", "en"], "--source-column and --target-column must be given together"),
        (["--csv", wide, *named, "--no-header"], "cannot be given by name ('en' and 'de'); use column numbers"),
        (["--csv", wide, *named, "--delimiter", "ab"], "'ab' cannot be a delimiter"),
        (["--csv", wide, *named, "--text", source], "--text is for a language model and cannot be combined with --csv"),
        (["--csv", wide, *named, "--system", "language"], "--csv: a language model reads no source"),
        (["--csv", wide, *named, "--alignments", source], "--alignments cannot be combined with --csv"),
        (
            ["--jsonl", objects],
            f"{objects}: no keys 'source' and 'target' in its first JSON object; its keys: 'en', 'de'",
        ),
        (["--jsonl", objects, "--header"], "--header and --no-header have no effect without --tsv or --csv"),
        (["--tsv", source, "--delimiter", ","], "--delimiter needs --csv"),
        (["--tsv", source], f"{source}: line 1: found 1 column separated by tabs, expected at least 2"),
        (["--tsv", tmp_path / "none"], "none: No such file"),
        (["--source", source, "--target", source, *named], "have no effect without --tsv, --csv or --jsonl"),
    ):
        refused(command("train", *arguments, *WORDS, "--run", tmp_path / "run"), message)
    assert not (tmp_path / "run").exists()
    wide.write_text("a\tb\tc\n" * 3, encoding="utf-8")
    note = "has 3 columns: reading 1 as the source ('a') and 2 as the target ('b')"
    assert note in command("data", "check", "--tsv", wide, *WORDS).err


def test_identical_sides_are_warned_about(command: Command, corpus: dict[str, Path], tmp_path: Path) -> None:
    same = ["--source", corpus["source"], "--target", corpus["source"]]
    warning = "source and target are the same file: all 150 pairs have the same text on both sides"
    answer = command("train", *same, *SHORT, "--run", tmp_path / "run")
    assert answer.code == 0 and f"warning: {corpus['source']}" in answer.err and warning in answer.err, answer.err
    answer = command("data", "check", *same, *WORDS)
    assert answer.code == 0 and warning in answer.out, answer


def test_compressed_input(command: Command, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command reads it, and a format that cannot be read is refused by name."""
    text = b"a b c\n\nh g\n"
    plain = command("translate", trained, stdin=text).out
    path = tmp_path / "text"
    for pack in (lzma.compress, bz2.compress):
        path.write_bytes(pack(text))
        assert command("translate", trained, "--input", path).out == plain
        assert command("score", trained, "--source", path, "--target", path).code == 0
        assert command("evaluate", trained, "--source", path, "--reference", path).code == 0
    path.write_bytes(lzma.compress(text * 999)[:-20])
    refused(command("translate", trained, "--input", path), f"{path}: damaged xz after line")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression", None)
    path.write_bytes(b"\x28\xb5\x2f\xfd rest")
    for arguments in (["translate", trained, "--input", path], ["train", "--source", path, "--target", path]):
        refused(command(*arguments), f"{path}: compressed with Zstandard", "pip install zstandard", f"zstd -d {path}")
