"""Scores one trained run on the test set, also by source length, and writes RUN/result.json.

    python -m recipes.lineage.score RUN --name luong2015 --seed 1 --source test.en --reference test.de

Scores by length also cover test sentences that are joined with their neighbours, two, three or four at a time. These
are scored twice: translated as a whole, and translated sentence by sentence.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

from calque.config import read_toml
from calque.data.fingerprint import digest
from calque.devices import DeviceName
from calque.engine import load_translator
from calque.evaluation.metrics import bleu
from calque.training.journal import read_journal
from recipes.lineage.lengths import JOINED, by_length, join_neighbours
from recipes.runner.arguments import parser_of
from recipes.runner.files import read_json, read_lines, write_json
from recipes.runner.scoring import count_parameters, scores
from recipes.runner.variants import RESULT

Row = tuple[str, str, str]  # a source, its reference, its translation
Translate = Callable[[list[str]], Sequence[str]]


class Pairs(NamedTuple):
    """Sentences with their references."""

    sources: list[str]
    references: list[str]


def score_run(run: Path, test: Pairs, *, languages: tuple[str, str], device: DeviceName) -> dict[str, Any]:
    """The contents of result.json, except name and seed."""
    translator = load_translator(run, device=device)
    config, provenance = read_toml(run / "config.toml"), read_json(run / "run.json")
    return {
        **scores_by_length(translator.translate, test, languages=languages),
        "parameters": count_parameters(translator),
        "steps": config["training"]["steps"],
        "learning_rate": config["training"]["optimiser"]["learning_rate"],
        "training_seconds": sum(line["seconds"] for line in read_journal(run / "timing.jsonl")),
        "validations": {
            str(line["step"]): line["bleu"] for line in read_journal(run / "metrics.jsonl") if line["kind"] == "valid"
        },
        "search": config["search"],
        "data": digest(provenance["data"]),
        "calque": provenance["calque"],
        "torch": provenance["torch"],
        "device": provenance["machine"],
    }


def scores_by_length(translate: Translate, test: Pairs, *, languages: tuple[str, str]) -> dict[str, Any]:
    """The scores on the test set, and the scores by source length, which include joined neighbours of the test set."""
    scored = {size: _translated(translate, joined(test, size=size, languages=languages)) for size in (1, *JOINED)}
    _, references, translations = zip(*scored[1], strict=True)
    rows = [row for joined_rows in scored.values() for row in joined_rows]
    lengths, at_once, apart = (
        by_length(part, language=languages[0], score=lowercased_bleu)
        for part in (rows, rows[len(scored[1]) :], translated_apart(scored, language=languages[1]))
    )
    return {
        **scores(translations, references),
        "lengths": {
            name: {
                "sentences": count,
                "bleu_lowercased": value,
                "joined": {"sentences": at_once[name][0], "at_once": at_once[name][1], "apart": apart[name][1]},
            }
            for name, (count, value) in lengths.items()
        },
        "longer": len(rows) - sum(count for count, _ in lengths.values()),
    }


def joined(test: Pairs, *, size: int, languages: tuple[str, str]) -> Pairs:
    """Joins every `size` neighbouring pairs of a test set."""
    return Pairs(
        *(join_neighbours(side, size=size, language=language) for side, language in zip(test, languages, strict=True))
    )


def translated_apart(scored: Mapping[int, Sequence[Row]], *, language: str) -> list[Row]:
    """Rows of joined sources and references, with the joined translations of their single sentences."""
    single = [translation for _, _, translation in scored[1]]
    return [
        (source, reference, translation)
        for size, rows in scored.items()
        if size > 1
        for (source, reference, _), translation in zip(
            rows, join_neighbours(single, size=size, language=language), strict=True
        )
    ]


def lowercased_bleu(translations: Sequence[str], references: Sequence[str]) -> float:
    """BLEU of lowercased text, as with sacreBLEU's option."""
    return bleu([line.lower() for line in translations], [line.lower() for line in references])


def _translated(translate: Translate, pairs: Pairs) -> list[Row]:
    translations = translate(pairs.sources)
    return list(zip(pairs.sources, pairs.references, translations, strict=True))


def _main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--languages", nargs=2, default=("en", "de"), metavar=("SOURCE", "TARGET"))
    parser.add_argument("--device", choices=get_args(DeviceName), default="auto")
    options = parser.parse_args()
    test = Pairs(read_lines(options.source), read_lines(options.reference))
    if len(test.sources) != len(test.references):
        sys.exit(
            f"{options.source} has {len(test.sources):,} lines but {options.reference} has {len(test.references):,}"
        )
    result = score_run(options.run, test, languages=tuple(options.languages), device=options.device)
    write_json(options.run / RESULT, {"name": options.name, "seed": options.seed, **result})


if __name__ == "__main__":
    _main()
