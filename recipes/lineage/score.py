"""Scores one trained run and writes RUN/result.json: the test set, and the same by length.

    python recipes/lineage/score.py RUN --name luong2015 --seed 1 --source test.en --reference test.de

Neighbouring test sentences joined by two, three and four stand beside the single ones where length is looked at; of the
joined ones it also says what they score at once, and when each of their sentences is translated alone.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

from corpus import read_lines
from lengths import JOINED, by_length, join_neighbours

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from fleet import write_json

import calque
from calque.config import read_toml
from calque.data.fingerprint import digest
from calque.devices import DeviceName
from calque.engine import Translator
from calque.evaluation.metrics import bleu, score_translations
from calque.training.journal import read_journal

RESULT = "result.json"

Row = tuple[str, str, str]  # a source, its reference, its translation


class Pairs(NamedTuple):
    """Sentences with their references."""

    sources: list[str]
    references: list[str]


def score_run(run: Path, test: Pairs, *, languages: tuple[str, str], device: DeviceName) -> dict[str, Any]:
    """All that result.json tells, except what the run is called."""
    translator = calque.load(run, device=device)
    scored = {size: _translated(translator, joined(test, size=size, languages=languages)) for size in (1, *JOINED)}
    _, references, translations = zip(*scored[1], strict=True)
    scores = score_translations(translations, references)
    told = {"bleu_lowercased": scores.bleu_lowercased, "bleu": scores.bleu, "chrf": scores.chrf}
    rows = [row for each in scored.values() for row in each]
    lengths, at_once, apart = (
        by_length(each, language=languages[0], score=lowercased_bleu)
        for each in (rows, rows[len(scored[1]) :], translated_apart(scored, language=languages[1]))
    )
    config, made = read_toml(run / "config.toml"), json.loads((run / "run.json").read_bytes())
    return {
        **{name: metric.value for name, metric in told.items()},
        "signatures": {name: metric.signature for name, metric in told.items()},
        "lengths": {
            name: {
                "sentences": count,
                "bleu_lowercased": found,
                "joined": {"sentences": at_once[name][0], "at_once": at_once[name][1], "apart": apart[name][1]},
            }
            for name, (count, found) in lengths.items()
        },
        "longer": len(rows) - sum(count for count, _ in lengths.values()),
        "parameters": sum(one.numel() for one in translator.model.parameters() if one.requires_grad),
        "steps": config["training"]["steps"],
        "learning_rate": config["training"]["optimiser"]["learning_rate"],
        "training_seconds": sum(line["seconds"] for line in read_journal(run / "timing.jsonl")),
        "validations": {
            str(line["step"]): line["bleu"] for line in read_journal(run / "metrics.jsonl") if line["kind"] == "valid"
        },
        "search": config["search"],
        "data": digest(made["data"]),
        "calque": made["calque"],
        "torch": made["torch"],
        "device": made["machine"],
    }


def joined(test: Pairs, *, size: int, languages: tuple[str, str]) -> Pairs:
    """Every `size` neighbours of a test set as one."""
    return Pairs(*(join_neighbours(side, size=size, language=each) for side, each in zip(test, languages, strict=True)))


def translated_apart(scored: Mapping[int, Sequence[Row]], *, language: str) -> list[Row]:
    """The joined sources and references, but each sentence translated alone: length costs nothing."""
    alone = [translation for _, _, translation in scored[1]]
    return [
        (source, reference, translation)
        for size, rows in scored.items()
        if size > 1
        for (source, reference, _), translation in zip(
            rows, join_neighbours(alone, size=size, language=language), strict=True
        )
    ]


def lowercased_bleu(translations: Sequence[str], references: Sequence[str]) -> float:
    """BLEU of text in small letters: what sacreBLEU's own option does."""
    return bleu([line.lower() for line in translations], [line.lower() for line in references])


def _translated(translator: Translator, pairs: Pairs) -> list[Row]:
    translations = translator.translate(pairs.sources)
    return list(zip(pairs.sources, pairs.references, translations, strict=True))


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--languages", nargs=2, default=("en", "de"), metavar=("SOURCE", "TARGET"))
    parser.add_argument("--device", choices=get_args(DeviceName), default="auto")
    given = parser.parse_args()
    test = Pairs(read_lines(given.source), read_lines(given.reference))
    if len(test.sources) != len(test.references):
        sys.exit(f"{given.source} has {len(test.sources):,} lines, {given.reference} {len(test.references):,}")
    found = score_run(given.run, test, languages=tuple(given.languages), device=given.device)
    write_json(given.run / RESULT, {"name": given.name, "seed": given.seed, **found})


if __name__ == "__main__":
    _main()
