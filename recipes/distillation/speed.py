"""Measures how fast runs translate, many sentences at once and one by one, on one CPU thread and on a GPU.

    python -m recipes.distillation.speed --runs teacher=OUT/plain-1 student=OUT/student-1 --source test.en --to FILE

`teacher=A,B,C` is an ensemble. Every condition is timed several times, models interleaved, and the median is kept;
loading and a first round are not counted. The machine should be otherwise idle. Speeds of other devices in FILE are
kept, so that devices can be measured on different machines.
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from calque.engine import DeviceName, Translator, load_translator
from recipes.runner.arguments import parser_of
from recipes.runner.files import read_json, read_lines, write_json
from recipes.runner.scheduler import report

WARM_UP = 50  # sentences


class Condition(NamedTuple):
    """The conditions of a timing: device, beam and batching."""

    device: DeviceName
    beam: int
    at_once: bool  # all sentences in one call, or one call per sentence


def measure(translator: Translator, sources: Sequence[str], *, condition: Condition) -> dict[str, float]:
    """Sentences and target pieces per second in one round."""
    changes: dict[str, Any] = {"beam": condition.beam}
    if condition.beam == 1:
        changes["length_penalty"] = 0.0  # which makes it greedy search
    search = translator.search.model_copy(update=changes)
    _synchronise(condition.device)
    started = time.perf_counter()
    calls = [list(sources)] if condition.at_once else [[line] for line in sources]
    texts = [translation.text for lines in calls for translation in translator.stream(lines, search=search)]
    _synchronise(condition.device)
    seconds = time.perf_counter() - started
    pieces = sum(len(ids) + 1 for ids in translator.tokenizers.target.encode_many(texts))
    return {"sentences": len(texts) / seconds, "tokens": pieces / seconds}


def medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each number over all rounds."""
    return {key: statistics.median(measured[key] for measured in rounds) for key in rounds[0]}


def _synchronise(device: DeviceName) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _load(paths: str, *, device: DeviceName) -> Translator:
    first, *others = (load_translator(Path(path), device=device) for path in paths.split(","))
    return first.with_ensemble(others)


def _main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--runs", nargs="+", required=True, metavar="NAME=RUN")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True, metavar="FILE")
    parser.add_argument("--devices", nargs="+", default=["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--sentences", type=int, default=1000, help="sentences translated at once (default: 1000)")
    parser.add_argument("--singles", type=int, default=100, help="sentences translated one by one (default: 100)")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    sources = read_lines(options.source)
    runs = dict(run.split("=", maxsplit=1) for run in options.runs)
    before: dict[str, Any] = read_json(options.to) if options.to.is_file() else {"speeds": {}, "machines": {}}
    speeds: dict[str, list[dict[str, Any]]] = {
        name: [speed for speed in before["speeds"].get(name, []) if speed["device"] not in options.devices]
        for name in runs
    }
    for device in options.devices:
        translators = {name: _load(paths, device=device) for name, paths in runs.items()}
        for condition in (Condition(device, beam, at_once) for at_once in (True, False) for beam in options.beams):
            lines = sources[: options.sentences if condition.at_once else options.singles]
            for translator in translators.values():
                measure(translator, lines[:WARM_UP], condition=condition)
            rounds = [
                {name: measure(translator, lines, condition=condition) for name, translator in translators.items()}
                for _ in range(options.rounds)
            ]
            for name in runs:
                speeds[name].append({**condition._asdict(), **medians([measured[name] for measured in rounds])})
                report(f"{name}: {speeds[name][-1]}")
    names = {"cpu": "one CPU thread", "cuda": torch.cuda.get_device_name() if "cuda" in options.devices else ""}
    machines = {device: f"{names[device]}, torch {torch.__version__}" for device in options.devices}
    write_json(options.to, {"speeds": speeds, "machines": {**before["machines"], **machines}})


if __name__ == "__main__":
    _main()
