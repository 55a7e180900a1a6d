"""Scores a trained run in one or several settings and writes a JSON file; translations of the last setting may be kept.

    python recipes/judge.py RUN --source val.en --reference val.de --to RUN/result.json --name plain --seed 1
    python recipes/judge.py RUN --source val.en --reference val.de --to FILE --setting 5,1.4 --setting 10,1.4
    python recipes/judge.py RUN --with RUN2 RUN3 --source test.en --reference test.de --to FILE --translations FILE.de

A setting is the beam and the length penalty; `-` keeps the run's.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from fleet import write_json
from variants import Setting

import calque
from calque.config import read_toml
from calque.data.lines import open_text
from calque.devices import DeviceName
from calque.engine import Translator
from calque.evaluation.metrics import score_translations
from calque.training.journal import read_journal

BATCH_TOKENS = 16_000  # source positions translated together: it changes the speed alone


def translate(translator: Translator, sources: Sequence[str], *, setting: Setting) -> list[str]:
    """The translations of all lines."""
    changes: dict[str, Any] = {"beam": setting.beam, "batch_tokens": BATCH_TOKENS}
    if setting.length_penalty is not None:
        changes["length_penalty"] = setting.length_penalty
    search = translator.search.model_copy(update=changes)
    return [one.text for one in translator.stream(sources, search=search)]


def scores(translations: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """BLEU lowercased and cased, chrF, with their signatures."""
    found = score_translations(translations, references)
    told = {"bleu_lowercased": found.bleu_lowercased, "bleu": found.bleu, "chrf": found.chrf}
    return {
        **{name: metric.value for name, metric in told.items()},
        "signatures": {name: metric.signature for name, metric in told.items()},
    }


def facts(run: Path, translator: Translator) -> dict[str, Any]:
    """What is to be known of a run beside its scores."""
    config = read_toml(run / "config.toml")
    timing = read_journal(run / "timing.jsonl")
    return {
        "parameters": sum(one.numel() for one in translator.model.parameters() if one.requires_grad),
        "steps": config["training"]["steps"],
        "training_seconds": sum(line["seconds"] for line in timing),
        "tokens_per_second": sum(line["tokens_per_second"] * line["seconds"] for line in timing)
        / max(1e-9, sum(line["seconds"] for line in timing)),
    }


def read_lines(path: Path) -> list[str]:
    """Every line of a text file, plain or gzip, without its end."""
    with open_text(path) as file:
        return [line.decode("utf-8").rstrip("\r\n") for line in file]


def setting(text: str) -> Setting:
    """`5,1.4` or `5,-`."""
    beam, penalty = text.split(",")
    return Setting(int(beam), None if penalty == "-" else float(penalty))


def written(one: Setting) -> str:
    """What `setting` reads."""
    return f"{one.beam},{'-' if one.length_penalty is None else one.length_penalty}"


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--with", dest="others", type=Path, nargs="+", default=[], help="an ensemble with these")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--setting", type=setting, action="append", dest="settings")
    parser.add_argument("--translations", type=Path)
    parser.add_argument("--name", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=get_args(DeviceName), default="auto")
    given = parser.parse_args()
    sources, references = read_lines(given.source), read_lines(given.reference)
    if len(sources) != len(references):
        sys.exit(f"{given.source} has {len(sources):,} lines, {given.reference} {len(references):,}")
    alone = calque.load(given.run, device=given.device)
    translator = alone.with_ensemble([calque.load(each, device=given.device) for each in given.others])
    tried, translations = [], []
    for each in given.settings or [Setting(5, None)]:
        started = time.monotonic()
        translations = translate(translator, sources, setting=each)
        seconds = time.monotonic() - started
        tried.append({"setting": list(each), **scores(translations, references), "seconds": seconds})
    given.to.parent.mkdir(parents=True, exist_ok=True)
    if given.translations:
        given.translations.write_text("".join(f"{line}\n" for line in translations), encoding="utf-8")
    named = {"name": given.name, "seed": given.seed, "run": given.run.name}
    write_json(given.to, {**named, **facts(given.run, alone), "scores": tried[0], "tried": tried})


if __name__ == "__main__":
    _main()
