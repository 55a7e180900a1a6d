"""The scores of a folder of runs, which a recipe saves as results.json.

OUT/VARIANT-SEED/result.json holds validation scores, OUT/tuned/ROW-SEED.json those with every search setting that a row
tries, and OUT/tested/ROW-SEED.json those on the test set, with translations next to it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from calque.training.journal import read_journal
from recipes.runner.files import read_json, read_lines
from recipes.runner.variants import RESULT, Row

TUNED, TESTED = "tuned", "tested"  # folders
TARGET = "de"


class Tested(NamedTuple):
    """The test scores of a row with one seed, and its translations."""

    seed: int
    result: Mapping[str, Any]
    translations: list[str]

    @property
    def bleu(self) -> float:
        """Lowercased BLEU."""
        return float(self.result["scores"]["bleu_lowercased"])

    @property
    def variant(self) -> str:
        """The variant that was selected for the row."""
        return str(self.result["run"]).rpartition("-")[0]


def read_tested(out: Path, row: str) -> list[Tested]:
    """The test scores of a row, by seed; empty if it has not been tested."""
    results = [read_json(path) for path in (out / TESTED).glob("*.json")]
    own = sorted((result for result in results if result["name"] == row), key=lambda result: int(result["seed"]))
    files = {result["seed"]: out / TESTED / f"{row}-{result['seed']}.{TARGET}" for result in own}
    return [
        Tested(result["seed"], result, read_lines(path) if (path := files[result["seed"]]).is_file() else [])
        for result in own
    ]


def values_of_runs(out: Path, variant: str, *keys: str) -> list[float]:
    """A number from the result.json of every seed of a variant; `keys` are the path to the number."""
    values = []
    for path in sorted(out.glob(f"{variant}-[0-9]*/{RESULT}")):
        value = read_json(path)
        for key in keys:
            value = value[key]
        values.append(float(value))
    return values


def journals(out: Path, variant: str) -> list[list[dict[str, Any]]]:
    """The metrics.jsonl of every seed of a variant."""
    return [read_journal(path) for path in sorted(out.glob(f"{variant}-[0-9]*/metrics.jsonl"))]


def summary(out: Path, name: str, row: Row, tested: Sequence[Tested]) -> dict[str, Any]:
    """The numbers of a row that every table contains, under their keys in results.json."""
    return {
        "told": row.label,
        "bleu": [test.bleu for test in tested],
        "chrf": [test.result["scores"]["chrf"] for test in tested],
        "penalty": length_penalty(tested),
        "tried": bleu_by_penalty(out, name),
        "valid": validation_bleu(out, name, row, tested),
        "signatures": tested[0].result["scores"]["signatures"],
    }


def validation_bleu(out: Path, name: str, row: Row, tested: Sequence[Tested]) -> list[float]:
    """The lowercased validation BLEU of every tested seed with the search setting of the test, if it was measured."""
    values = []
    for test in tested:
        path = out / TUNED / f"{name}-{test.seed}.json"
        if not path.is_file() and not row.ensemble:  # a member's score is not its ensemble's
            path = out / str(test.result["run"]) / RESULT
        tried = read_json(path)["tried"] if path.is_file() else []
        setting = test.result["scores"]["setting"]
        values += [scores["bleu_lowercased"] for scores in tried if scores["setting"] == setting]
    return values


def read_tuned(out: Path, row: str) -> list[tuple[Any, ...]]:
    """The validation scores of every search setting of a row, one tuple per setting with one entry per seed."""
    paths = sorted((out / TUNED).glob(f"{row}-[0-9]*.json"))
    return list(zip(*(read_json(path)["tried"] for path in paths), strict=True))


def bleu_by_penalty(out: Path, row: str) -> dict[str, float]:
    """Maps each length penalty to its lowercased validation BLEU, averaged over seeds; empty if nothing was tuned."""
    return {
        str(seeds[0]["setting"][1]): mean([scores["bleu_lowercased"] for scores in seeds])
        for seeds in read_tuned(out, row)
    }


def length_penalty(tested: Sequence[Tested]) -> str:
    """The length penalty that a row was translated with."""
    penalty = tested[0].result["scores"]["setting"][1]
    return "as trained" if penalty is None else str(penalty)


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean."""
    return sum(values) / len(values)
