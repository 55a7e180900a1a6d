"""Word alignments: read, validated, stored beside the pairs, and passed to batches as distributions over pieces."""

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from calque.config import check
from calque.data.batch import collate
from calque.data.batching import BatchConfig, Plan, Planned
from calque.data.buckets import Shape
from calque.data.check import check as check_corpora
from calque.data.corpora import DataConfig
from calque.data.fingerprint import fingerprint
from calque.data.prepare import Prepared, prepare
from calque.data.store import Side, pack, store_of
from calque.data.word_alignments import guide, parse_links
from calque.errors import DataError
from calque.text import SentencePieceConfig, WordsConfig
from calque.text.word_index import words_of_pieces

_PAIRS = [
    ("the small garden", "der kleine Garten", "0-0 1-1 2-2"),
    ("my neighbour's garden , well-known", "der wohlbekannte Garten meines Nachbarn", "0-3 1-4 2-2 4-1"),
    ("a b", "b a", "0-1 1-0"),
    ("", "leer", ""),
    ("she watches", "sie schaut zu", "0-0 1-1 1-2"),
    ("garden", "Garten", ""),
] * 20
SOURCES = [f"{source} {number}" if source else "" for number, (source, _, _) in enumerate(_PAIRS)]
TARGETS = [f"{target} {number}" for number, (_, target, _) in enumerate(_PAIRS)]
LINKS = [links for _, _, links in _PAIRS]


def write(folder: Path, links: list[str] | None = None, **corpus) -> DataConfig:
    for name, lines in (("source", SOURCES), ("target", TARGETS), ("links", links or LINKS)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    train = {
        "kind": "files",
        "source": folder / "source",
        "target": folder / "target",
        "alignments": folder / "links",
        **corpus,
    }
    return check(DataConfig, {"train": [train], "validation": {"minimum": 1}}, origin="test")


def make(folder: Path, text=None, **options) -> Prepared:
    return prepare(write(folder, **options), text=text or SentencePieceConfig(vocabulary_size=330), folder=folder / "s")


def expected_links(prepared: Prepared, row: int) -> set[tuple[int, int]]:
    """Derived from the words of the decoded text."""
    source, target = (
        tokenizer.decode(ids.tolist())
        for tokenizer, ids in zip(prepared.tokenizers, prepared.train.pair(row), strict=True)
    )
    line = SOURCES.index(source)
    assert TARGETS[line] == target
    source_words, target_words = (
        words_of_pieces(tokenizer, text) for tokenizer, text in zip(prepared.tokenizers, (source, target), strict=True)
    )
    links = {tuple(map(int, link.split("-"))) for link in LINKS[line].split()}
    return {
        (source_piece, target_piece)
        for source_piece, source_word in enumerate(source_words)
        for target_piece, target_word in enumerate(target_words)
        if (source_word, target_word) in links
    }


@pytest.mark.parametrize("text", [SentencePieceConfig(vocabulary_size=330), WordsConfig()])
def test_word_links_become_links_between_all_their_pieces(tmp_path: Path, text) -> None:
    prepared = make(tmp_path, text)
    store = prepared.train
    assert store.links is not None
    assert isinstance(store.links.ids, np.memmap)
    assert len(store.links.lengths) == len(store) > 50
    assert prepared.valid.links is None
    for row in range(len(store)):
        links = store.links.row(row).reshape(-1, 2).tolist()
        assert {tuple(link) for link in links} == expected_links(prepared, row)
        assert len(links) == len({tuple(link) for link in links})


def test_a_batch_holds_the_distributions_of_its_links(tmp_path: Path) -> None:
    prepared = make(tmp_path)
    plan = Plan(prepared.train, config=BatchConfig(tokens=200), seed=1)
    total = 0
    for planned in plan.batches(0):
        batch = collate(prepared.train, planned=planned)
        assert batch.guide is not None
        assert batch.guide.shape == (*batch.target_output.shape, batch.source.values.shape[1])
        for row, index in enumerate(planned.indices):
            links = expected_links(prepared, int(index))
            counts = Counter(target for _, target in links)
            expected = np.zeros(batch.guide.shape[1:])
            for source, target in links:
                expected[target, source] = 1 / counts[target]
            assert np.allclose(batch.guide[row].numpy(), expected)
            total += len(links)
    assert total > 100


def test_a_store_without_alignments_is_unchanged(tmp_path: Path) -> None:
    data = write(tmp_path, alignments=None)
    assert not [key for key in fingerprint(data, text=WordsConfig()) if "alignments" in key]
    prepared = prepare(data, text=WordsConfig(), folder=tmp_path / "s")
    assert prepared.train.links is None
    assert not list((tmp_path / "s").rglob("links*"))
    planned = next(Plan(prepared.train, config=BatchConfig(), seed=1).batches(0))
    assert collate(prepared.train, planned=planned).guide is None


def test_changed_alignments_are_detected(tmp_path: Path) -> None:
    prepared = make(tmp_path)
    assert make(tmp_path).digest == prepared.digest  # opened again
    with pytest.raises(DataError, match=r"data\.train\[1\]\.alignments: the contents of .*links changed"):
        make(tmp_path, links=["0-0", *LINKS[1:]])


def test_corpora_with_and_without_alignments_can_be_mixed(tmp_path: Path) -> None:
    data = write(tmp_path)
    plain = data.train[0].model_copy(update={"alignments": None})
    both = data.model_copy(update={"train": (plain, data.train[0])})
    store = prepare(both, text=WordsConfig(), folder=tmp_path / "s").train
    assert store.links is not None
    (_, middle, _), (_, end, _) = store.spans
    counts = [len(store.links.row(row)) for row in range(end)]
    assert not any(counts[:middle])
    assert sum(counts[middle:]) > 50


def test_tables_and_gzip_files_support_alignments(tmp_path: Path) -> None:
    expected = make(tmp_path).train
    lines = [f"{source}\t{target}\n" for source, target in zip(SOURCES, TARGETS, strict=True)]
    (tmp_path / "table").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "links.gz").write_bytes(gzip.compress((tmp_path / "links").read_bytes()))
    values = {"kind": "tsv", "path": tmp_path / "table", "alignments": tmp_path / "links.gz"}
    data = check(DataConfig, {"train": [values], "validation": {"minimum": 1}}, origin="test")
    store = prepare(data, text=SentencePieceConfig(vocabulary_size=330), folder=tmp_path / "t").train
    assert store.links is not None and expected.links is not None
    assert store.links.ids.tolist() == expected.links.ids.tolist()
    assert store.links.offsets.tolist() == expected.links.offsets.tolist()


INVALID = {
    "0-0 1:1": r"'1:1' is not a link; expected source-target, as in 0-0",
    "0-0 -1-2": "'-1-2' is not a link",
    "0-0 1-1 4-2": "4-2 links source word 4, but the source has 4 words, counted from 0",
    "0-7": "0-7 links target word 7, but the target has 4 words, counted from 0",
    "\u00e9": "'é' is not a link",
}


@pytest.mark.parametrize("line", INVALID)
def test_an_invalid_line_is_reported(tmp_path: Path, line: str) -> None:
    links = [*LINKS[:12], line, *LINKS[13:]]
    with pytest.raises(DataError) as caught:
        make(tmp_path, links=links)
    assert f"{tmp_path / 'links'}: line 13: {INVALID[line]}" in str(caught.value)
    assert not (tmp_path / "s").exists()
    (report,) = check_corpora(write(tmp_path, links=links), workers=1).corpora
    assert any(f"line 13: {INVALID[line]}" in problem for problem in report.problems)


@pytest.mark.parametrize(("lines", "reason"), [(LINKS[:-1], "ends after 119 lines"), ([*LINKS, "0-0"], "more than")])
def test_files_with_different_numbers_of_lines_are_rejected(tmp_path: Path, lines: list[str], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        make(tmp_path, links=lines)


def test_a_missing_file_is_reported_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"alignments: .*nowhere: no such file"):
        prepare(write(tmp_path, alignments=tmp_path / "nowhere"), text=WordsConfig(), folder=tmp_path / "s")


def test_links_may_repeat_and_come_in_any_order() -> None:
    assert parse_links(b" 2-0  0-1 2-0\r", source=3, target=2) == [(2, 0), (0, 1), (2, 0)]
    assert parse_links(b"", source=0, target=0) == []


def test_padding_rows_have_no_guide() -> None:
    rows = pack([[0, 0, 1, 0], []])
    links = Side(rows.ids, np.array([0, 4], dtype=np.uint64), rows.lengths)
    distributions = guide(links, np.array([1, 0]), size=(3, 2, 3))
    assert distributions.tolist() == [[[0] * 3] * 2, [[0.5, 0.5, 0], [0] * 3], [[0] * 3] * 2]
    store = store_of([([4, 5], [6]), ([4], [5])])
    assert collate(store, planned=Planned(np.arange(2), Shape(3, 3, 2))).guide is None
