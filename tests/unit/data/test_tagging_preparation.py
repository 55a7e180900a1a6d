"""Preparing labelled words: the store says what the files say, whatever the blocks; bad files are named with lines."""

import gzip
from pathlib import Path

import pytest
from tests.tagged import write_columns, write_conllu

from calque.data import corpora
from calque.data.column_files import file_sentences
from calque.data.corpora import ColumnFileConfig, ConlluConfig, DataConfig
from calque.data.prepare import Prepared, prepare
from calque.data.tagging_preparation import TaggingPreparation
from calque.errors import DataError
from calque.text import FormsConfig, TaggerVocabularies

NAMES = ("form", "pos", "chunk")
CHUNKS = TaggingPreparation(FormsConfig(), words="form", labels="chunk", inputs=("pos",), characters=True)


def data(train: Path, valid: Path | None = None, *, columns: tuple[str, ...] = NAMES, **settings: object) -> DataConfig:
    files = {"train": train, "valid": valid}
    corpora = {role: (ColumnFileConfig(path=path, columns=columns),) for role, path in files.items() if path}
    return DataConfig.model_validate({**corpora, **settings})


def read_back(prepared: Prepared) -> list[list[tuple[str, ...]]]:
    """The training rows in words: form as spelled, part of speech, chunk."""
    vocabularies = TaggerVocabularies.load(prepared.vocabularies, config=FormsConfig())
    assert vocabularies.characters is not None
    store, sentences = prepared.train, []
    for row in range(len(store)):
        letters = [vocabularies.characters.piece(id) for id in store["characters"].row(row).tolist()]
        forms, at = [], 0
        for length in store["word_lengths"].row(row).tolist():
            forms.append("".join(letters[at : at + length]))
            at += length
        words = [vocabularies.words.piece(id) for id in store["words"].row(row).tolist()]
        assert words == forms
        pos = [vocabularies.columns["pos"].piece(id) for id in store["pos"].row(row).tolist()]
        labels = [vocabularies.labels[id] for id in store["labels"].row(row).tolist()]
        sentences.append(list(zip(forms, pos, labels, strict=True)))
    return sentences


@pytest.mark.parametrize("lines", [1, 7, 2048])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_store_says_what_the_file_says(tmp_path, monkeypatch, lines, workers) -> None:
    monkeypatch.setattr(corpora, "BLOCK_LINES", lines)
    train, valid = (write_columns(tmp_path / name, sentences=40, seed=seed) for seed, name in enumerate("ab"))
    prepared = prepare(data(train, valid), preparation=CHUNKS, folder=tmp_path / "store", workers=workers)
    assert read_back(prepared) == [list(rows.cells) for rows in file_sentences(train, format="columns")]
    gold = [rows.column(3) for rows in file_sentences(valid, format="columns")]
    assert [row[1].split("\t") for row in prepared.valid_text] == gold


def test_what_is_not_read_is_not_stored(tmp_path) -> None:
    path = write_conllu(tmp_path / "a.conllu", sentences=120)
    config = DataConfig(train=(ConlluConfig(path=path),))
    plain = TaggingPreparation(FormsConfig(), words="form", labels="upos")
    prepared = prepare(config, preparation=plain, folder=tmp_path / "store")
    assert set(prepared.train.columns) == {"words", "labels"}
    assert len(prepared.train) + len(prepared.valid) == 120 and len(prepared.valid) == 50


def test_a_packed_file_gives_the_same_store(tmp_path) -> None:
    plain = write_columns(tmp_path / "a.txt", sentences=30)
    packed = tmp_path / "a.txt.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    stores = [
        prepare(data(path, path), preparation=CHUNKS, folder=tmp_path / f"store-{number}")
        for number, path in enumerate((plain, packed))
    ]
    assert read_back(stores[0]) == read_back(stores[1])


def test_a_label_that_only_validation_has_is_no_label_of_the_set(tmp_path) -> None:
    train = write_columns(tmp_path / "a", sentences=20)
    (tmp_path / "b").write_text("dog N B-QP\ndog N O\n", encoding="utf-8")
    prepared = prepare(data(train, tmp_path / "b"), preparation=CHUNKS, folder=tmp_path / "store")
    labels = TaggerVocabularies.load(prepared.vocabularies, config=FormsConfig()).labels
    assert "B-QP" not in labels
    assert prepared.valid["labels"].row(0).tolist() == [len(labels), labels.index("O")]


def test_sentences_that_are_too_long_are_counted(tmp_path) -> None:
    train = write_columns(tmp_path / "a", sentences=60)
    count = sum(len(rows.words) > 5 for rows in file_sentences(train, format="columns"))
    preparation = CHUNKS._replace(maximum_length=5)
    prepared = prepare(data(train, train), preparation=preparation, folder=tmp_path / "store")
    assert 0 < count == prepared.train_tally.long == 60 - len(prepared.train)


def test_bad_lines_are_named_with_file_and_line_whatever_the_block(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(corpora, "BLOCK_LINES", 4)
    path = write_columns(tmp_path / "bad.txt", sentences=8)
    lines = path.read_bytes().split(b"\n")
    words = [number for number, line in enumerate(lines) if line]
    lines[words[20]] = b"dog N"
    lines[words[30]] = b"d\xffg N O"
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(DataError) as refused:
        prepare(data(path), preparation=CHUNKS, folder=tmp_path / "store")
    problems = str(refused.value).splitlines()
    assert problems[0] == f"{path}: line {words[20] + 1}: found 2 columns separated by spaces, expected at least 3"
    assert problems[1] == f"{path}: line {words[30] + 1}, byte 2: 0xff is not UTF-8 here"


def test_columns_that_a_corpus_has_not_are_refused(tmp_path) -> None:
    path = write_columns(tmp_path / "a", sentences=8)
    with pytest.raises(DataError, match=r"kind = 'columns' contains form and label, but this task reads chunk and pos"):
        prepare(data(path, columns=("form", "label")), preparation=CHUNKS, folder=tmp_path / "store")
