"""The files of a corpus: the same text with and without alignments, and alignments that Calque reads."""

from itertools import permutations
from pathlib import Path

import pytest

from calque.data.word_alignments import parse_links
from calque.errors import ConfigError
from calque_phrasebook import Language, phrasebook, write_phrasebook
from calque_phrasebook.surface import LANGUAGES

PARTS = ("train", "valid", "test")
DIRECTIONS = tuple(permutations(LANGUAGES, 2))


def lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_alignments_and_spaces_leave_the_text_as_it_is(source: Language, target: Language, tmp_path: Path) -> None:
    book = phrasebook(source=source, target=target, pairs=150, seed=5)
    chinese = "zh" in (source, target)
    write_phrasebook(book, tmp_path / "plain", languages=(source, target))
    write_phrasebook(book, tmp_path / "aligned", languages=(source, target), segment=chinese, alignments=True)
    names = {f"{part}.{suffix}" for part in PARTS for suffix in (source, target)}
    assert {file.name for file in (tmp_path / "plain").iterdir()} == names
    assert {file.name for file in (tmp_path / "aligned").iterdir()} == names | {f"{part}.align" for part in PARTS}
    for name in names:
        plain, aligned = ((tmp_path / folder / name).read_bytes() for folder in ("plain", "aligned"))
        assert plain == (aligned.replace(b" ", b"") if name.endswith("zh") else aligned)


@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_calque_reads_the_alignments(source: Language, target: Language, tmp_path: Path) -> None:
    book = phrasebook(source=source, target=target, pairs=150, seed=6)
    write_phrasebook(book, tmp_path, languages=(source, target), segment="zh" in (source, target), alignments=True)
    for part, pairs in book._asdict().items():
        sources, targets, links = (lines(tmp_path / f"{part}.{suffix}") for suffix in (source, target, "align"))
        for pair, one, other, line in zip(pairs, sources, targets, links, strict=True):
            read = parse_links(line.encode(), source=len(one.split()), target=len(other.split()))
            assert tuple(read) == pair.links
            assert (tuple(one.split()), tuple(other.split())) == (pair.source_words, pair.target_words)
            assert read, (one, other)


def test_unsegmented_chinese_has_no_alignments_and_other_languages_nothing_to_segment(tmp_path: Path) -> None:
    book = phrasebook(source="en", target="zh", pairs=1)
    with pytest.raises(ConfigError, match="Chinese text has no spaces; add --segment"):
        write_phrasebook(book, tmp_path / "book", languages=("en", "zh"), alignments=True)
    with pytest.raises(ConfigError, match="this corpus is en and de; leave it out"):
        write_phrasebook(book, tmp_path / "book", languages=("en", "de"), segment=True)
    assert not (tmp_path / "book").exists()
