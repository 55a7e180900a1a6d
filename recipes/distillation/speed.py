"""Measures how fast runs translate: many sentences at once and one by one, on one CPU thread and on a GPU.

    python recipes/distillation/speed.py --runs teacher=OUT/plain-1 student=OUT/student-1 --source test.en --to FILE

`teacher=A,B,C` is an ensemble. Each way is timed several times, interleaved, and the median is kept; loading and a
first round are left out. Nothing else should run on the machine meanwhile. What FILE says of other devices stays, so
that they may be measured on different machines.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from fleet import say, write_json
from judge import read_lines

import calque
from calque.engine import Translator


class Way(NamedTuple):
    """How it is translated."""

    device: str
    beam: int
    at_once: bool  # all sentences given together, or one after the other


def measure(translator: Translator, sources: Sequence[str], *, way: Way) -> dict[str, float]:
    """Sentences and target pieces a second, of one round."""
    changes: dict[str, Any] = {"beam": way.beam}
    if way.beam == 1:
        changes["length_penalty"] = 0.0  # then it is greedy search
    search = translator.search.model_copy(update=changes)
    _wait(way)
    started = time.perf_counter()
    groups = [list(sources)] if way.at_once else [[line] for line in sources]
    texts = [one.text for group in groups for one in translator.stream(group, search=search)]
    _wait(way)
    seconds = time.perf_counter() - started
    pieces = sum(len(ids) + 1 for ids in translator.tokenizers.target.encode_many(texts))
    return {"sentences": len(texts) / seconds, "tokens": pieces / seconds}


def medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each number."""
    return {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}


def _wait(way: Way) -> None:
    if way.device == "cuda":
        torch.cuda.synchronize()


def _load(paths: str, *, device: Any) -> Translator:
    first, *others = (calque.load(path, device=device) for path in paths.split(","))
    return first.with_ensemble(others)


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", nargs="+", required=True, metavar="NAME=RUN")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--devices", nargs="+", default=["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--sentences", type=int, default=1000, help="at once")
    parser.add_argument("--singles", type=int, default=100, help="one by one")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    sources = read_lines(given.source)
    runs = dict(one.split("=", maxsplit=1) for one in given.runs)
    before: dict[str, Any] = json.loads(given.to.read_bytes()) if given.to.is_file() else {"speeds": {}, "machines": {}}
    found: dict[str, list[dict[str, Any]]] = {
        name: [one for one in before["speeds"].get(name, []) if one["device"] not in given.devices] for name in runs
    }
    for device in given.devices:
        loaded = {name: _load(paths, device=device) for name, paths in runs.items()}
        for way in (Way(device, beam, at_once) for at_once in (True, False) for beam in given.beams):
            lines = list(islice(sources, given.sentences if way.at_once else given.singles))
            for translator in loaded.values():
                measure(translator, lines[:50], way=way)  # what is done once only
            rounds = [
                {name: measure(each, lines, way=way) for name, each in loaded.items()} for _ in range(given.rounds)
            ]
            for name in runs:
                found[name].append({**way._asdict(), **medians([each[name] for each in rounds])})
                say(f"{name}: {found[name][-1]}")
    names = {"cpu": "one CPU thread", "cuda": torch.cuda.get_device_name() if "cuda" in given.devices else ""}
    machines = {device: f"{names[device]}, torch {torch.__version__}" for device in given.devices}
    write_json(given.to, {"speeds": found, "machines": {**before["machines"], **machines}})


if __name__ == "__main__":
    _main()
