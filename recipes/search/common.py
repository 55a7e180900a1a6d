"""Code that the scripts of this recipe share: arguments, the corpus, scores, and the versions and machine used."""

import platform
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import torch

import calque
from calque.engine import Translator, load_translator
from calque.errors import CalqueError
from calque.evaluation.metrics import score_translations
from recipes.runner.arguments import parser_of
from recipes.runner.files import read_lines

VALID, TEST = "val", "test_2016_flickr"


class Arguments(NamedTuple):
    """The arguments of a script that measures a model on a corpus."""

    translator: Translator
    corpus: Path
    out: Path  # an existing folder
    limit: int | None  # number of sentences
    beams: tuple[int, ...]  # empty if the script has no such option


def parse_arguments(description: str | None, *, beams: Sequence[int] = ()) -> Arguments:
    """Parses MODEL CORPUS OUT [--limit N] [--threads N] and loads the model; `beams` is the default of --beams."""
    parser = parser_of(description)
    parser.add_argument("model", type=Path, help="a run or model folder")
    parser.add_argument("corpus", type=Path, help="a folder with train, val and test_2016_flickr, .en.gz and .de.gz")
    parser.add_argument("out", type=Path, help="a folder for results")
    if beams:
        parser.add_argument("--beams", type=int, nargs="+", default=beams, help="beam widths")
    parser.add_argument("--limit", type=int, help="number of sentences; default: all")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if not options.corpus.is_dir():
        parser.error(f"{options.corpus}: no such folder")
    torch.set_num_threads(options.threads)
    try:
        translator = load_translator(options.model, device="cpu")
        options.out.mkdir(parents=True, exist_ok=True)
    except (CalqueError, OSError) as error:
        parser.error(str(error))
    return Arguments(translator, options.corpus, options.out, options.limit, tuple(options.beams) if beams else ())


class Pairs(NamedTuple):
    """Sentences with their references."""

    sources: list[str]
    references: list[str]


def read_pairs(corpus: Path, name: str, *, limit: int | None = None) -> Pairs:
    """The first `limit` pairs of CORPUS/NAME.en.gz and .de.gz, or all."""
    sources, references = (read_lines(corpus / f"{name}.{language}.gz") for language in ("en", "de"))
    if len(sources) != len(references):
        raise ValueError(f"{corpus / name}: {len(sources):,} English lines but {len(references):,} German ones")
    return Pairs(sources[:limit], references[:limit])


def score(translations: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Cased and lowercased BLEU with signatures, and the length ratio."""
    scores = score_translations(translations, references)
    return {
        "bleu_lowercased": scores.bleu_lowercased.value,
        "bleu": scores.bleu.value,
        "ratio": length_ratio(translations, references),
        "signatures": {"bleu_lowercased": scores.bleu_lowercased.signature, "bleu": scores.bleu.signature},
    }


def length_ratio(translations: Sequence[str], references: Sequence[str]) -> float:
    """The number of words in all translations divided by that in all references; words are separated by spaces."""
    words, expected = (sum(len(line.split()) for line in lines) for lines in (translations, references))
    return words / expected


def provenance() -> dict[str, Any]:
    """Date, versions and machine."""
    return {
        "date": date.today().isoformat(),
        "torch": torch.__version__,
        "calque": calque.__version__,
        "cpu": _processor(),
        "threads": torch.get_num_threads(),
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
