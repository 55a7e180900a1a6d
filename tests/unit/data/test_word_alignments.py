"""Alignments: read, checked, kept beside the store, and given to batches as shares of pieces."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from calque.config import check
from calque.data.batching import BatchConfig, Bucketed, Planned
from calque.data.buckets import Size
from calque.data.check import check as look_over
from calque.data.corpora import DataConfig
from calque.data.fingerprint import fingerprint
from calque.data.pair_batch import collate_pairs, pair_widths
from calque.data.pair_preparation import PairPreparation
from calque.data.prepare import Prepared, prepare
from calque.data.store import Store, pack, store_in_memory, store_of_pairs
from calque.data.word_alignments import guide, parse_links
from calque.errors import DataError
from calque.text import SentencePieceConfig, TextConfig, WordsConfig, load_tokenizers
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


def make(folder: Path, text: TextConfig | None = None, **options) -> Prepared:
    return prepared_from(write(folder, **options), text or SentencePieceConfig(vocabulary_size=330), folder / "s")


def prepared_from(data: DataConfig, text: TextConfig, folder: Path) -> Prepared:
    return prepare(data, preparation=PairPreparation(text, data.maximum_length, data.aligned), folder=folder)


def bucketed(store: Store, *, tokens: int = 4096) -> Bucketed:
    return Bucketed(pair_widths(store), spans=store.spans, config=BatchConfig(tokens=tokens), seed=1)


def expected_links(prepared: Prepared, row: int) -> set[tuple[int, int]]:
    """From the words of the text that the ids spell."""
    tokenizers = load_tokenizers(prepared.vocabularies)
    source, target = (
        tokenizer.decode(prepared.train[side].row(row).tolist()) for side, tokenizer in tokenizers._asdict().items()
    )
    place = SOURCES.index(source)
    assert TARGETS[place] == target
    words = [words_of_pieces(tokenizer, text) for tokenizer, text in zip(tokenizers, (source, target), strict=True)]
    links = {tuple(map(int, link.split("-"))) for link in LINKS[place].split()}
    return {
        (source_piece, target_piece)
        for source_piece, source_word in enumerate(words[0])
        for target_piece, target_word in enumerate(words[1])
        if (source_word, target_word) in links
    }


@pytest.mark.parametrize("text", [SentencePieceConfig(vocabulary_size=330), WordsConfig()])
def test_links_of_words_become_links_of_all_their_pieces(tmp_path: Path, text) -> None:
    prepared = make(tmp_path, text)
    store = prepared.train
    assert isinstance(store["links"].values, np.memmap)
    assert len(store["links"].lengths) == len(store) > 50
    assert "links" not in prepared.valid
    for row in range(len(store)):
        links = store["links"].row(row).reshape(-1, 2).tolist()
        assert {tuple(link) for link in links} == expected_links(prepared, row)
        assert len(links) == len({tuple(link) for link in links})


def test_a_batch_has_the_shares_of_its_links(tmp_path: Path) -> None:
    prepared = make(tmp_path)
    link_count = 0
    for planned in bucketed(prepared.train, tokens=200).batches(0):
        batch = collate_pairs(prepared.train, planned=planned)
        assert batch.guide is not None
        assert batch.guide.shape == (*batch.target_output.shape, batch.source.values.shape[1])
        for row, index in enumerate(planned.indices):
            links = expected_links(prepared, int(index))
            counts = {target: sum(linked_target == target for _, linked_target in links) for _, target in links}
            expected = np.zeros(batch.guide.shape[1:])
            for source, target in links:
                expected[target, source] = 1 / counts[target]
            assert np.allclose(batch.guide[row].numpy(), expected)
            link_count += len(links)
    assert link_count > 100


def test_a_store_without_alignments_is_what_it_was(tmp_path: Path) -> None:
    data = write(tmp_path, alignments=None)
    settings = PairPreparation(WordsConfig()).settings
    assert not [key for key in fingerprint(data, settings=settings) if "alignments" in key]
    prepared = prepared_from(data, WordsConfig(), tmp_path / "s")
    assert set(prepared.train.columns) == {"source", "target"}
    assert not list((tmp_path / "s").rglob("links*"))
    planned = next(bucketed(prepared.train).batches(0))
    assert collate_pairs(prepared.train, planned=planned).guide is None


def test_changed_alignments_are_noticed(tmp_path: Path) -> None:
    prepared = make(tmp_path)
    assert make(tmp_path).digest == prepared.digest  # opened again
    with pytest.raises(DataError, match=r"data\.train\[1\]\.alignments: the contents of .*links changed"):
        make(tmp_path, links=["0-0", *LINKS[1:]])


def test_a_corpus_without_alignments_may_stand_beside_one_with(tmp_path: Path) -> None:
    data = write(tmp_path)
    plain = data.train[0].model_copy(update={"alignments": None})
    both = data.model_copy(update={"train": (plain, data.train[0])})
    store = prepared_from(both, WordsConfig(), tmp_path / "s").train
    (_, middle, _), (_, end, _) = store.spans
    counts = [len(store["links"].row(row)) for row in range(end)]
    assert not any(counts[:middle])
    assert sum(counts[middle:]) > 50


def test_tables_and_gzip_have_alignments_too(tmp_path: Path) -> None:
    expected = make(tmp_path).train
    lines = [f"{source}\t{target}\n" for source, target in zip(SOURCES, TARGETS, strict=True)]
    (tmp_path / "table").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "links.gz").write_bytes(gzip.compress((tmp_path / "links").read_bytes()))
    values = {"kind": "tsv", "path": tmp_path / "table", "alignments": tmp_path / "links.gz"}
    data = check(DataConfig, {"train": [values], "validation": {"minimum": 1}}, origin="test")
    store = prepared_from(data, SentencePieceConfig(vocabulary_size=330), tmp_path / "t").train
    assert store["links"].values.tolist() == expected["links"].values.tolist()
    assert store["links"].offsets.tolist() == expected["links"].offsets.tolist()


WRONG = {
    "0-0 1:1": r"'1:1' is not a link; expected source-target, as in 0-0",
    "0-0 -1-2": "'-1-2' is not a link",
    "0-0 1-1 4-2": "4-2 links source word 4 (counted from 0), but there are 4 source words",
    "0-7": "0-7 links target word 7 (counted from 0), but there are 4 target words",
    "\u00e9": "'é' is not a link",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_line_is_named(tmp_path: Path, line: str) -> None:
    links = [*LINKS[:12], line, *LINKS[13:]]
    with pytest.raises(DataError) as caught:
        make(tmp_path, links=links)
    assert f"{tmp_path / 'links'}: line 13: {WRONG[line]}" in str(caught.value)
    assert not (tmp_path / "s").exists()
    (report,) = look_over(write(tmp_path, links=links), preparation=PairPreparation(WordsConfig()), workers=1).corpora
    assert any(f"line 13: {WRONG[line]}" in problem for problem in report.problems)


@pytest.mark.parametrize(("lines", "reason"), [(LINKS[:-1], "ends after 119 lines"), ([*LINKS, "0-0"], "more than")])
def test_files_of_different_length_are_refused(tmp_path: Path, lines: list[str], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        make(tmp_path, links=lines)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"alignments: .*nowhere: no such file"):
        prepared_from(write(tmp_path, alignments=tmp_path / "nowhere"), WordsConfig(), tmp_path / "s")


def test_links_may_repeat_and_come_in_any_order() -> None:
    assert parse_links(b" 2-0  0-1 2-0\r", source=3, target=2) == [(2, 0), (0, 1), (2, 0)]
    assert parse_links(b"", source=0, target=0) == []


def test_rows_that_only_fill_a_shape_up_have_no_guide() -> None:
    links = store_in_memory({"links": pack([[0, 0, 1, 0], []])})["links"]
    shares = guide(links, np.array([1, 0]), size=(3, 2, 3))
    assert shares.tolist() == [[[0] * 3] * 2, [[0.5, 0.5, 0], [0] * 3], [[0] * 3] * 2]
    store = store_of_pairs([([4, 5], [6]), ([4], [5])])
    assert collate_pairs(store, planned=Planned(np.arange(2), Size(3, (3, 2)))).guide is None
