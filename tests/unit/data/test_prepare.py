"""Preparing: the same bytes however many processes work, reused when nothing changed, refused otherwise."""

import errno
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calque.data import corpora, pair_preparation, process_map
from calque.data import prepare as module
from calque.data.corpora import DataConfig, FilesConfig, TextFileConfig, TsvConfig, ValidationConfig
from calque.data.fingerprint import corpus_files, fingerprint
from calque.data.pair_preparation import PairPreparation
from calque.data.prepare import Prepared, open_prepared, prepare
from calque.data.process_map import ordered_map
from calque.data.store import Span, Store
from calque.errors import DataError, FolderError
from calque.text import CharactersConfig, SentencePieceConfig, TextConfig, load_tokenizers

TEXT = CharactersConfig()
HALF = ValidationConfig(share=0.2, minimum=1, maximum=100)


def corpus(folder: Path, pairs, *, name: str = "a", weight: float = 1.0) -> FilesConfig:
    source, target = folder / f"{name}.en", folder / f"{name}.de"
    source.write_text("".join(f"{pair[0]}\n" for pair in pairs), encoding="utf-8")
    target.write_text("".join(f"{pair[1]}\n" for pair in pairs), encoding="utf-8")
    return FilesConfig(source=source, target=target, weight=weight)


def numbered(count: int, *, of: str = "line") -> list[tuple[str, str]]:
    return [(f"{of} number {number}", f"Zeile {of} {number * 7}") for number in range(count)]


def make(data: DataConfig, folder: Path, *, text: TextConfig = TEXT, **options) -> Prepared:
    preparation = PairPreparation(text, data.maximum_length, data.aligned)
    return prepare(data, preparation=preparation, folder=folder, **options)


def spelled(prepared: Prepared, store: Store) -> list[tuple[str, ...]]:
    """The texts that the ids of each pair of a store spell."""
    sides = load_tokenizers(prepared.vocabularies)._asdict().items()
    return [tuple(side.decode(store[name].row(row).tolist()) for name, side in sides) for row in range(len(store))]


def texts(prepared: Prepared) -> list[tuple[str, ...]]:
    return spelled(prepared, prepared.train)


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_every_pair_is_in_train_or_in_valid(tmp_path):
    pairs = numbered(300)
    data = DataConfig(train=(corpus(tmp_path, pairs),), validation=HALF)
    prepared = make(data, tmp_path / "store")
    assert len(prepared.valid_text) == len(prepared.valid) == 60
    assert sorted(texts(prepared) + prepared.valid_text) == sorted(pairs)
    assert texts(prepared) == [pair for pair in pairs if pair not in prepared.valid_text]
    assert spelled(prepared, prepared.valid) == prepared.valid_text


def test_lengths_count_pieces_without_marks(tmp_path):
    pairs = numbered(20)
    data = DataConfig(train=(corpus(tmp_path, pairs),), valid=(corpus(tmp_path, numbered(5), name="v"),))
    train = make(data, tmp_path / "store").train
    assert train["source"].lengths.tolist() == [len(source) for source, _ in pairs]  # pieces are characters
    assert train["target"].lengths.tolist() == [len(target) for _, target in pairs]


def test_equal_sources_stay_together(tmp_path):
    pairs = [(f"source {number % 40}", f"target {number}") for number in range(400)]
    prepared = make(DataConfig(train=(corpus(tmp_path, pairs),), validation=HALF), tmp_path / "store")
    assert len(prepared.valid) == 80
    assert not {source for source, _ in texts(prepared)} & {source for source, _ in prepared.valid_text}


@pytest.mark.parametrize(("pairs", "valid"), [(10, 5), (99, 49), (1000, 50), (7000, 70)])
def test_how_many_are_held_out(tmp_path, pairs, valid):
    prepared = make(DataConfig(train=(corpus(tmp_path, numbered(pairs)),)), tmp_path / "store")
    assert (len(prepared.valid), len(prepared.train)) == (valid, pairs - valid)


def test_the_choice_does_not_depend_on_the_other_pairs_order(tmp_path):
    data = DataConfig(train=(corpus(tmp_path, numbered(200)),), validation=HALF)
    first = make(data, tmp_path / "one").valid_text
    corpus(tmp_path, list(reversed(numbered(200))))
    assert sorted(make(data, tmp_path / "two").valid_text) == sorted(first)


def test_one_source_only_cannot_be_held_out(tmp_path):
    data = DataConfig(train=(corpus(tmp_path, [("same", "x"), ("same", "y")]),))
    with pytest.raises(DataError, match=r"data\.valid"):
        make(data, tmp_path / "store")
    assert not list(tmp_path.glob("*store*"))


def test_given_validation_corpora_are_used_whole(tmp_path):
    train = (corpus(tmp_path, numbered(30), weight=2.0), corpus(tmp_path, numbered(40, of="b"), name="b"))
    valid = (corpus(tmp_path, numbered(3), name="v"),)
    prepared = make(DataConfig(train=train, valid=valid), tmp_path / "store")
    assert prepared.train.spans == (Span(0, 30, 2.0), Span(30, 70, 1.0))
    assert prepared.valid_text == numbered(3)


def test_what_is_left_out_is_counted(tmp_path):
    pairs = [*numbered(60), ("", "x"), ("y" * 300, "long"), ("long", "y" * 99_000)]
    data = DataConfig(train=(corpus(tmp_path, pairs),), valid=(corpus(tmp_path, [*numbered(2), (" ", "x")], name="v"),))
    prepared = make(data, tmp_path / "store")
    assert (prepared.train_tally.lines, prepared.train_tally.empty, prepared.train_tally.long) == (63, 1, 2)
    assert (prepared.valid_tally.lines, prepared.valid_tally.empty) == (3, 1)
    assert len(prepared.train) == 60


@pytest.mark.parametrize("text", [TEXT, SentencePieceConfig(vocabulary_size=300)])
def test_the_bytes_do_not_depend_on_the_workers(tmp_path, monkeypatch, text: TextConfig):
    monkeypatch.setattr(corpora, "BLOCK_LINES", 16)
    monkeypatch.setattr(process_map, "_PARALLEL", 1)
    data = DataConfig(train=(corpus(tmp_path, numbered(400)),), validation=HALF)
    stores = [contents(make(data, tmp_path / f"{n}", text=text, workers=n).folder) for n in (1, 2, 3)]
    assert stores[0] == stores[1] == stores[2]


def test_the_bytes_do_not_depend_on_the_blocks(tmp_path, monkeypatch):
    data = DataConfig(train=(corpus(tmp_path, numbered(400)),), validation=HALF)
    original = contents(make(data, tmp_path / "one").folder)
    monkeypatch.setattr(corpora, "BLOCK_LINES", 7)
    assert contents(make(data, tmp_path / "two").folder) == original


def test_wide_vocabularies_and_long_rows_take_wider_numbers(tmp_path):
    many = [("".join(chr(0x4E00 + (17 * n + k) % 20_000) for k in range(40)), "a") for n in range(600)]
    small = make(DataConfig(train=(corpus(tmp_path, numbered(60)),)), tmp_path / "small")
    assert small.train["source"].values.dtype == small.train["source"].lengths.dtype == np.uint16
    data = DataConfig(train=(corpus(tmp_path, many, name="many"),), maximum_length=70_000)
    wide = make(data, tmp_path / "wide")
    assert wide.train["source"].lengths.dtype == np.uint32


def test_an_unchanged_store_is_opened_and_not_made_again(tmp_path, monkeypatch):
    data = DataConfig(train=(corpus(tmp_path, numbered(60)),))
    first = make(data, tmp_path / "store")
    monkeypatch.setattr(module, "write_folder", None)
    again = make(data.model_copy(update={"store": Path("elsewhere")}), tmp_path / "store")
    assert again.digest == first.digest
    moved = tmp_path / "moved"
    moved.mkdir()
    other = DataConfig(train=(corpus(moved, numbered(60)),))
    assert make(other, tmp_path / "store").digest == first.digest


def test_a_changed_source_is_refused_with_what_changed(tmp_path):
    data = DataConfig(train=(corpus(tmp_path, numbered(60)), corpus(tmp_path, numbered(9, of="b"), name="b")))
    make(data, tmp_path / "store")
    before = contents(tmp_path / "store")
    corpus(tmp_path, [*numbered(8, of="b"), ("changed number 8", "Zeile b 56")], name="b")
    changed = data.model_copy(update={"maximum_length": 99})
    with pytest.raises(DataError) as refused:
        make(changed, tmp_path / "store")
    message = str(refused.value)
    assert f"data.train[2].source: the contents of {tmp_path / 'b.en'} changed" in message
    assert "data.maximum_length: was 256, is 99" in message
    assert "a.en" not in message
    assert contents(tmp_path / "store") == before


def test_another_text_config_is_refused(tmp_path):
    data = DataConfig(train=(corpus(tmp_path, numbered(60)),))
    make(data, tmp_path / "store")
    with pytest.raises(DataError, match=r'text\.kind: was "characters", is "sentencepiece"'):
        make(data, tmp_path / "store", text=SentencePieceConfig(vocabulary_size=300))


def test_a_damaged_store_is_named(tmp_path):
    data = DataConfig(train=(corpus(tmp_path, numbered(60)),))
    make(data, tmp_path / "store")
    path = tmp_path / "store" / "train" / "target.values"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    with pytest.raises(FolderError, match=r"train/target\.values"):
        open_prepared(tmp_path / "store")


def test_every_missing_file_is_named_at_once(tmp_path):
    data = DataConfig(train=(FilesConfig(source=tmp_path / "x", target=tmp_path), TsvConfig(path=tmp_path / "y")))
    with pytest.raises(DataError) as refused:
        make(data, tmp_path / "store")
    lines = str(refused.value).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "data.train[1].source",
        "data.train[1].target",
        "data.train[2].path",
    ]


def test_bad_text_is_refused_before_anything_is_learnt(tmp_path, monkeypatch):
    train = corpus(tmp_path, numbered(60))
    valid = corpus(tmp_path, numbered(30), name="v")
    valid.target.write_bytes(b"".join(b"bad \xff\n" for _ in range(30)))
    monkeypatch.setattr(pair_preparation, "train_tokenizers", None)
    with pytest.raises(DataError) as refused:
        make(DataConfig(train=(train,), valid=(valid,)), tmp_path / "store")
    lines = str(refused.value).splitlines()
    assert lines[0] == f"{tmp_path / 'v.de'}: line 1, byte 5: 0xff is not UTF-8 here"
    assert lines[-2] == "… and 20 more"
    assert "iconv" in lines[-1]
    train.target.write_text("one\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.en has 60 lines, .*a\.de has 1"):
        make(DataConfig(train=(train,)), tmp_path / "store")
    assert not list(tmp_path.glob("*store*"))


def test_nothing_usable_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"data\.train: none of the 2 lines has text in source and target"):
        make(DataConfig(train=(corpus(tmp_path, [("", "a"), ("b", "")]),)), tmp_path / "store")
    short = DataConfig(train=(corpus(tmp_path, numbered(60)),), maximum_length=2)
    with pytest.raises(DataError, match=r"data\.train: no rows are left; of 60 lines, 0 are empty, 60 too long"):
        make(short, tmp_path / "store")


def test_a_file_that_changes_meanwhile_is_refused(tmp_path, monkeypatch):
    train = corpus(tmp_path, numbered(60))
    learn = pair_preparation.train_tokenizers

    def meanwhile(*arguments, **keywords):
        corpus(tmp_path, numbered(60, of="another"))
        return learn(*arguments, **keywords)

    monkeypatch.setattr(pair_preparation, "train_tokenizers", meanwhile)
    with pytest.raises(DataError, match="changed while it was being read"):
        make(DataConfig(train=(train,)), tmp_path / "store")


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pair_preparation, "save_tokenizers", full)
    with pytest.raises(FolderError, match=r"store could not be written.*disk is full"):
        make(DataConfig(train=(corpus(tmp_path, numbered(60)),)), tmp_path / "store")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.de", "a.en"]


def test_progress_is_told(tmp_path):
    reports: list[tuple[str, int, int]] = []
    data = DataConfig(train=(corpus(tmp_path, numbered(60)),))
    make(data, tmp_path / "store", progress=lambda *report: reports.append(report))
    assert reports == [("reading", 60, 0), ("learning the vocabulary", 0, 0), ("encoding", 60, 60)]


def test_the_fingerprint_names_files_and_settings(tmp_path):
    data = DataConfig(train=(corpus(tmp_path, numbered(3)),))
    shaping = fingerprint(data, settings=PairPreparation(TEXT).settings)
    assert shaping["data.train[1].source"] == hashlib.sha256((tmp_path / "a.en").read_bytes()).hexdigest()
    assert shaping["data.maximum_length"] == "256"
    assert shaping["text.kind"] == '"characters"'
    assert json.loads(json.dumps(shaping)) == shaping


def test_a_corpus_that_lacks_a_column_of_the_task_is_named(tmp_path):
    (tmp_path / "text").write_text("a\n", encoding="utf-8")
    text = TextFileConfig(path=tmp_path / "text")
    data = DataConfig(train=(corpus(tmp_path, numbered(60)), text), valid=(text,))
    with pytest.raises(DataError) as refused:
        make(data, tmp_path / "store")
    assert str(refused.value).splitlines() == [
        "data.train[2]: a corpus of kind = 'text' contains text, but this task reads source and target",
        "data.valid[1]: a corpus of kind = 'text' contains text, but this task reads source and target",
    ]


class Opened:
    """Counts how often files are opened and how many of their bytes are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, paths: Iterable[Path]) -> None:
        self.opens = dict.fromkeys(paths, 0)
        self.bytes = dict.fromkeys(self.opens, 0)
        original = Path.open

        def counting(path: Path, mode: str = "r", **options) -> object:
            if path not in self.opens:
                return original(path, mode, **options)
            self.opens[path] += 1
            assert (mode, options) == ("rb", {"buffering": 0}), "read in another way"
            return _Counting(self, path)

        monkeypatch.setattr(Path, "open", counting)


class _Counting(io.FileIO):
    def __init__(self, counts: Opened, path: Path) -> None:
        super().__init__(path)
        self.counts, self.path = counts, path

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        self.counts.bytes[self.path] += count or 0
        return count

    def read(self, size: int = -1) -> bytes:
        content = super().read(size)
        self.counts.bytes[self.path] += len(content)
        return content


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_corpus_is_read_once_and_its_hash_is_that_of_its_bytes(tmp_path, monkeypatch, is_packed):
    """Two corpora, several blocks and vocabularies to learn: one pass over every file, and every byte of it."""
    monkeypatch.setattr(corpora, "BLOCK_LINES", 50)
    monkeypatch.setattr(module, "refuse_unreadable", lambda _: None)  # which opens files, and reads nothing
    monkeypatch.setattr("calque.data.fingerprint.refuse_unreadable", lambda _: None)
    train = (corpus(tmp_path, numbered(400)), corpus(tmp_path, numbered(300, of="b"), name="b"))
    data = DataConfig(train=train, valid=(corpus(tmp_path, numbered(20), name="v"),))
    files = corpus_files(data)
    for path in files.values():
        if is_packed:
            path.write_bytes(gzip.compress(path.read_bytes()))
    expected = {key: hashlib.sha256(path.read_bytes()).hexdigest() for key, path in files.items()}
    sizes = {path: path.stat().st_size for path in files.values()}
    opened = Opened(monkeypatch, files.values())
    text = SentencePieceConfig(vocabulary_size=300, joint=False)
    prepared = make(data, tmp_path / "store", text=text, workers=1)
    assert opened.opens == dict.fromkeys(sizes, 1)
    assert opened.bytes == sizes
    assert {key: prepared.fingerprint[key] for key in files} == expected
    assert len(texts(prepared)) == 700
    assert not list((tmp_path / "store").glob("spool*"))


def double() -> "partial[int]":
    return partial(pow, exp=2)


def stumble() -> object:
    return os._exit


@pytest.mark.parametrize("workers", [1, 3])
def test_a_map_over_processes_keeps_the_order(workers):
    assert list(ordered_map(double, items=range(60), workers=workers)) == [n * n for n in range(60)]


def test_a_process_that_dies_is_told():
    with pytest.raises(DataError, match="ended unexpectedly"):
        list(ordered_map(stumble, items=[1], workers=2))  # type: ignore[arg-type]


def test_a_map_over_processes_reads_only_a_little_ahead():
    consumed: list[int] = []
    results = ordered_map(double, items=(consumed.append(n) or n for n in range(1000)), workers=2)
    next(results)
    assert len(consumed) <= 6
    results.close()


def test_no_torch_in_the_processes_that_prepare():
    modules = ", ".join(f"calque.data.{name}" for name in ("prepare", "pair_preparation", "check"))
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
