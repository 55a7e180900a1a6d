"""Scores a trained run with one or several search settings and writes a JSON file.

    python -m recipes.runner.scoring RUN --source val.en --reference val.de --to RUN/result.json --name plain --seed 1
    python -m recipes.runner.scoring RUN --source val.en --reference val.de --to FILE --setting 5,1.4 --setting 10,1.4
    python -m recipes.runner.scoring RUN --with RUN2 RUN3 --source test.en --reference test.de --to FILE \\
        --translations FILE.de

A setting is the beam and the length penalty; `-` stands for the value in the run's config.
Translations are those of the last setting.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from calque.config import read_toml
from calque.devices import DeviceName
from calque.engine import Translator, load_translator
from calque.evaluation.metrics import score_translations
from calque.training.journal import read_journal
from recipes.runner.arguments import parser_of
from recipes.runner.files import read_lines, write_json, write_lines
from recipes.runner.variants import SearchSetting

BATCH_TOKENS = 16_000  # source positions translated together: affects speed only


def translate(translator: Translator, sources: Sequence[str], *, setting: SearchSetting) -> list[str]:
    """The translations of all lines."""
    changes: dict[str, Any] = {"beam": setting.beam, "batch_tokens": BATCH_TOKENS}
    if setting.length_penalty is not None:
        changes["length_penalty"] = setting.length_penalty
    search = translator.search.model_copy(update=changes)
    return [translation.text for translation in translator.stream(sources, search=search)]


def scores(translations: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Lowercased and cased BLEU, and chrF, with their signatures."""
    scored = score_translations(translations, references)
    metrics = {"bleu_lowercased": scored.bleu_lowercased, "bleu": scored.bleu, "chrf": scored.chrf}
    return {
        **{name: metric.value for name, metric in metrics.items()},
        "signatures": {name: metric.signature for name, metric in metrics.items()},
    }


def run_facts(run: Path, translator: Translator) -> dict[str, Any]:
    """Size, steps, duration and speed of a run."""
    config = read_toml(run / "config.toml")
    timing = read_journal(run / "timing.jsonl")
    seconds = sum(line["seconds"] for line in timing)
    return {
        "parameters": count_parameters(translator),
        "steps": config["training"]["steps"],
        "training_seconds": seconds,
        "tokens_per_second": sum(line["tokens_per_second"] * line["seconds"] for line in timing) / max(1e-9, seconds),
    }


def count_parameters(translator: Translator) -> int:
    """The number of trainable parameters of a translator's model."""
    return sum(parameter.numel() for parameter in translator.model.parameters() if parameter.requires_grad)


def _main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--with", dest="others", type=Path, nargs="+", default=[], help="further runs of an ensemble")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True, metavar="FILE")
    parser.add_argument("--setting", type=SearchSetting.parse, action="append", dest="settings")
    parser.add_argument("--translations", type=Path, metavar="FILE")
    parser.add_argument("--name", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=get_args(DeviceName), default="auto")
    options = parser.parse_args()
    sources, references = read_lines(options.source), read_lines(options.reference)
    if len(sources) != len(references):
        sys.exit(f"{options.source} has {len(sources):,} lines but {options.reference} has {len(references):,}")
    single = load_translator(options.run, device=options.device)
    translator = single.with_ensemble([load_translator(run, device=options.device) for run in options.others])
    tried, translations = [], []
    for setting in options.settings or [SearchSetting(5, None)]:
        started = time.monotonic()
        translations = translate(translator, sources, setting=setting)
        seconds = time.monotonic() - started
        tried.append({"setting": list(setting), **scores(translations, references), "seconds": seconds})
    if options.translations:
        write_lines(options.translations, translations)
    identity = {"name": options.name, "seed": options.seed, "run": options.run.name}
    write_json(options.to, {**identity, **run_facts(options.run, single), "scores": tried[0], "tried": tried})


if __name__ == "__main__":
    _main()
