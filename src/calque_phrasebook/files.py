"""Writes a corpus as text files: train.zh, train.en, valid.…, test.…, and optionally word alignments."""

from collections.abc import Iterable
from pathlib import Path

from calque.errors import ConfigError
from calque_phrasebook.alignment import pharaoh
from calque_phrasebook.split import Pair, Phrasebook
from calque_phrasebook.surface import Language

ALIGNMENTS = "align"  # the suffix of Pharaoh files


def write_phrasebook(
    book: Phrasebook,
    folder: Path,
    *,
    languages: tuple[Language, Language],
    segment: bool = False,
    alignments: bool = False,
) -> None:
    """Writes train, valid and test, one sentence per line, in files named by their language.

    `segment` puts spaces between the words of Chinese text. `alignments` also writes Pharaoh files (train.align and so
    on): the links of one pair per line, source word first; words are separated by white space and counted from 0.
    """
    check_options(languages, segment=segment, alignments=alignments)
    folder.mkdir(parents=True, exist_ok=True)
    source, target = languages
    for name, pairs in book._asdict().items():
        _write(folder / f"{name}.{source}", (_source(pair, segment=segment) for pair in pairs))
        _write(folder / f"{name}.{target}", (_target(pair, segment=segment) for pair in pairs))
        if alignments:
            _write(folder / f"{name}.{ALIGNMENTS}", (pharaoh(pair.links) for pair in pairs))


def check_options(languages: tuple[Language, Language], *, segment: bool, alignments: bool) -> None:
    """Raises a ConfigError for alignments of unsegmented Chinese, and for segmentation without Chinese."""
    if alignments and "zh" in languages and not segment:
        raise ConfigError("alignments number the words between spaces, but Chinese text has no spaces; add --segment")
    if segment and "zh" not in languages:
        raise ConfigError(
            f"--segment puts spaces between Chinese words, but this corpus is {' and '.join(languages)}; leave it out"
        )


def _source(pair: Pair, *, segment: bool) -> str:
    return " ".join(pair.source_words) if segment else pair.source


def _target(pair: Pair, *, segment: bool) -> str:
    return " ".join(pair.target_words) if segment else pair.target


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
