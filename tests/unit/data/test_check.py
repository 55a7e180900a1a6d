"""The check: every statistic against a plain count, and the text report."""

import random
import re
from collections import Counter
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calque.data import check as checking
from calque.data.batching import Bucketed
from calque.data.check import CheckReport
from calque.data.corpora import ColumnFileConfig, DataConfig, FilesConfig, TextFileConfig
from calque.data.holdout import HashFile
from calque.data.length_statistics import LengthCount, RatioCount
from calque.data.pair_preparation import PairPreparation
from calque.data.prepare import prepare
from calque.data.report import bar, report_lines
from calque.data.tables import TsvConfig
from calque.data.tagging_preparation import TaggingPreparation
from calque.data.text_preparation import TextPreparation
from calque.errors import DataError
from calque.text import CharactersConfig, FormsConfig

PAIRS = PairPreparation(CharactersConfig())


def check(data: DataConfig, *, test=(), prepared=None) -> CheckReport:
    """The check of pairs."""
    order = None
    if prepared:
        widths = [prepared.train.widths(side, marks=1) for side in PAIRS.reads]
        order = partial(Bucketed, widths, spans=prepared.train.spans, seed=0)
    return checking.check(
        data, preparation=PAIRS, test=test, prepared=prepared, order=order and (lambda config: order(config=config))
    )


def corpus(folder: Path, pairs, *, name: str = "a") -> FilesConfig:
    source, target = folder / f"{name}.en", folder / f"{name}.de"
    source.write_text("".join(f"{pair[0]}\n" for pair in pairs), encoding="utf-8")
    target.write_text("".join(f"{pair[1]}\n" for pair in pairs), encoding="utf-8")
    return FilesConfig(source=source, target=target)


def test_counts_duplicates_and_overlap(tmp_path):
    train = [("a", "x"), ("a", "x"), ("a", "y"), ("b", "x"), ("", "z")]
    data = DataConfig(
        train=(corpus(tmp_path, train),), valid=(corpus(tmp_path, [("a", "x"), ("a", "q"), ("c", "x")], name="v"),)
    )
    report = check(data, test=[corpus(tmp_path, [("d", "x")], name="t")])
    assert [(corpus.role, corpus.rows, corpus.tally.empty) for corpus in report.corpora] == [
        ("train", 4, 1),
        ("valid", 3, 0),
        ("test", 1, 0),
    ]
    assert (report.duplicates, report.duplicates_of_first) == (1, 2)
    assert [tuple(overlap) for overlap in report.overlaps] == [("valid", 3, 2, 1), ("test", 1, 0, 0)]
    assert report.unknown is report.padding is None


def test_all_problems_are_reported_at_once(tmp_path):
    (tmp_path / "bad.tsv").write_bytes(b"a\tb\r\nno tab\nc\t\xff\n")
    short = corpus(tmp_path, [("a", "x"), ("b", "y")], name="short")
    short.target.write_text("x\n", encoding="utf-8")
    missing = TsvConfig(path=tmp_path / "missing.tsv")
    report = check(DataConfig(train=(TsvConfig(path=tmp_path / "bad.tsv"), short, missing)))
    text = "\n".join(report_lines(report))
    assert "bad.tsv: line 2: found 1 column separated by tabs, expected at least 2" in text
    assert "bad.tsv: line 3, byte 3: 0xff is not UTF-8 here" in text
    assert "short.en has 2 lines" in text
    assert "missing.tsv: No such file" in text
    assert "1 lines that end in \\r\\n" in text


def test_lengths_and_ratios(tmp_path):
    pairs = [("x" * 20, "y" * 20)] * 99 + [("x" * 20, "y" * 100)]
    (report,) = check(DataConfig(train=(corpus(tmp_path, pairs),))).corpora
    target = report.lengths["target characters"]
    assert (target.shortest, target.median, target.longest) == (20, 20, 100)
    assert target.mean == pytest.approx(20.8)
    assert report.ratios.usual == pytest.approx(1, rel=0.02)
    assert report.ratios.suspicious == 1
    assert report.ratios.examples == [(100, pytest.approx(5))]


@given(st.lists(st.lists(st.integers(0, 300), max_size=20), max_size=4))
def test_histograms_count_every_text(parts):
    count = LengthCount()
    for part in parts:
        count.add(np.array(part, dtype=np.int64))
    values = [value for part in parts for value in part]
    summary = count.summary()
    edges = [-1, *(end for end, _ in summary.histogram)]
    assert edges == sorted(set(edges))
    if values:
        plain = [sum(low < value <= high for value in values) for low, high in pairwise(edges)]
        assert [number for _, number in summary.histogram] == plain
        assert sum(plain) == len(values)
        assert (summary.shortest, summary.longest) == (min(values), max(values))


def test_short_pairs_are_not_suspicious():
    count = RatioCount()
    count.add(np.array([1, 30, 30]), target=np.array([9, 30, 30]), lines=np.array([1, 2, 3]))
    assert count.summary().suspicious == 0


@given(st.lists(st.integers(0, 30), max_size=50), st.lists(st.integers(0, 30), max_size=50))
def test_hash_files_count_like_sets(tmp_path_factory, first, second):
    folder = tmp_path_factory.mktemp("hashes")
    files = []
    for name, values in (("a", first), ("b", second)):
        file = HashFile(folder / name)
        for value in values:
            file.add(np.array([value], dtype=np.uint64))
        files.append(file)
    assert files[0].duplicates() == len(first) - len(set(first))
    assert files[0].within(files[1]) == sum(value in set(second) for value in first)
    assert len(files[1]) == len(second)


def test_hash_files_longer_than_a_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr("calque.data.holdout._CHUNK", 4)
    values = [random.Random(1).randrange(20) for _ in range(41)]
    file = HashFile(tmp_path / "a")
    file.add(np.array(values, dtype=np.uint64))
    assert file.duplicates() == 41 - len(set(values))
    assert file.within(file) == 41


def test_a_store_adds_unknown_characters_and_padding(tmp_path):
    data = DataConfig(train=(corpus(tmp_path, [(f"abc {n}", f"xyz {n}") for n in range(80)]),))
    prepared = prepare(data, preparation=PAIRS, folder=tmp_path / "store")
    report = check(data, test=[corpus(tmp_path, [("añb", "xññ")], name="t")], prepared=prepared)
    assert report.unknown == {"source characters": Counter("ñ"), "target characters": Counter("ññ")}
    assert report.padding is not None
    assert set(report.padding) == {"exact", "static"}
    text = "\n".join(report_lines(report))
    assert "ñ U+00F1 ×2" in text
    assert "padding with static shapes" in text


def test_bars_grow_by_eighths():
    assert bar(1, width=4) == "████"
    assert bar(0, width=4) == ""
    assert bar(0.5 + 1 / 32, width=4) == "██▏"


def test_text_alone_has_lines_and_no_sides(tmp_path):
    path, test_path = tmp_path / "text", tmp_path / "other"
    path.write_text("a b\n" * 60 + "\nc\n", encoding="utf-8")
    test_path.write_text("a b\nñ\n", encoding="utf-8")
    data = DataConfig(train=(TextFileConfig(path=path),))
    preparation = TextPreparation(CharactersConfig())
    prepared = prepare(data, preparation=preparation, folder=tmp_path / "store")
    report = checking.check(data, preparation=preparation, test=[TextFileConfig(path=test_path)], prepared=prepared)
    assert [(corpus.rows, corpus.tally.empty, corpus.ratios) for corpus in report.corpora] == [
        (61, 1, None),
        (2, 0, None),
    ]
    assert (report.duplicates, report.overlaps[0].whole) == (59, 1)
    text = "\n".join(report_lines(report))
    assert "duplicates in train: 59 lines\n" in text and "test in train: 1 of 2 lines\n" in text
    assert re.search("text characters outside the vocabulary: .*ñ U\\+00F1 ×1", text)
    assert "pairs" not in text and "sides" not in text


def test_labels_are_counted_and_those_that_training_lacks_named(tmp_path):
    train, valid = tmp_path / "train.txt", tmp_path / "valid.txt"
    train.write_text("the D\ndog N\n\n" * 3 + "a D\ndog N\nbarks V\n", encoding="utf-8")
    valid.write_text("the D\ncat N\n\nnow R\n\nthe D\ndog N\n", encoding="utf-8")
    columns = ("form", "pos")
    data = DataConfig(
        train=(ColumnFileConfig(path=train, columns=columns),), valid=(ColumnFileConfig(path=valid, columns=columns),)
    )
    preparation = TaggingPreparation(FormsConfig(), words="form", labels="pos")
    prepared = prepare(data, preparation=preparation, folder=tmp_path / "store")
    report = checking.check(data, preparation=preparation, prepared=prepared)
    assert [corpus.rows for corpus in report.corpora] == [4, 3]
    assert report.corpora[0].counts == {"pos": Counter(D=4, N=4, V=1)}
    lengths = report.corpora[0].lengths["words per sentence"]
    assert (lengths.shortest, lengths.longest) == (2, 3)
    assert (report.duplicates, tuple(report.overlaps[0])) == (2, ("valid", 3, 1, 1))
    assert report.unknown == {"words": Counter(cat=1, now=1)}
    text = "\n".join(report_lines(report))
    assert "pos of valid that are not in train: R ×1" in text
    assert "words outside the vocabulary: 2 (2 distinct): cat ×1, now ×1" in text


def test_a_corpus_without_the_columns_of_the_task_is_rejected(tmp_path):
    data = DataConfig(train=(corpus(tmp_path, [("a", "x")]),))
    with pytest.raises(DataError, match="contains source and target, but this task reads text"):
        checking.check(data, preparation=TextPreparation(CharactersConfig()))
