"""What all scripts of the recipe share: the corpus, scores, rows on disk, and what they were made with."""

import gzip
import json
import platform
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import torch

import calque
from calque.evaluation.metrics import score_translations

VALID, TEST = "val", "test_2016_flickr"


class Pairs(NamedTuple):
    """Sentences with their references."""

    sources: list[str]
    references: list[str]


def read_pairs(corpus: Path, name: str, *, limit: int | None = None) -> Pairs:
    """The first `limit` pairs of CORPUS/NAME.en.gz and .de.gz, or all of them."""
    sources, references = (read_lines(corpus / f"{name}.{language}.gz") for language in ("en", "de"))
    if len(sources) != len(references):
        raise ValueError(f"{corpus / name}: {len(sources):,} English lines, {len(references):,} German ones")
    return Pairs(sources[:limit], references[:limit])


def read_lines(path: Path) -> list[str]:
    """Every line of a gzip file, without its end."""
    with gzip.open(path) as file:
        return [line.decode().rstrip("\r\n") for line in file]


def scored(translations: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """BLEU, cased and lowercased, with signatures, and how long translations are for their references, in words."""
    scores = score_translations(translations, references)
    return {
        "bleu_lowercased": scores.bleu_lowercased.value,
        "bleu": scores.bleu.value,
        "ratio": length_ratio(translations, references),
        "signatures": {"bleu_lowercased": scores.bleu_lowercased.signature, "bleu": scores.bleu.signature},
    }


def length_ratio(translations: Sequence[str], references: Sequence[str]) -> float:
    """Words of all translations for each word of all references; words are what spaces part."""
    theirs, ours = (sum(len(line.split()) for line in lines) for lines in (references, translations))
    return ours / theirs


def made_with() -> dict[str, Any]:
    """What numbers of today were made with."""
    return {
        "date": date.today().isoformat(),
        "torch": torch.__version__,
        "calque": calque.__version__,
        "cpu": _processor(),
        "threads": torch.get_num_threads(),
    }


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON-lines file; a last line that was cut off is left out, a file that is not there has none."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    return [json.loads(line) for line in whole.split("\n") if line]


def append_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Adds rows to a JSON-lines file, after whole lines only."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in [*read_rows(path), *rows])
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _processor() -> str:
    known = Path("/proc/cpuinfo")
    lines = known.read_text(encoding="utf-8").splitlines() if known.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
