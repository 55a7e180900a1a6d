"""What the tests that must learn share: tasks, and the share of unseen sequences that a trained model gets right."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from calque.engine import load
from calque.experiment import train
from tests.conftest import Values, learning, toy_corpus, toy_values

TASKS: dict[str, Callable[[list[str]], list[str]]] = {"copy": list, "reverse": lambda row: row[::-1], "sort": sorted}
DRY = tuple(f"model.{side}.dropout=0.0" for side in ("encoder", "decoder"))
"""Overrides for a model without dropout."""


class Budget(NamedTuple):
    """How long and how fast a model learns, and from sequences of at most how many letters."""

    steps: int
    rate: float
    longest: int
    tokens: int = 600


def learnt(model: str | Values, *overrides: str, budget: Budget, task: str, folder: Path, seed: int) -> float:
    """The share of unseen sequences that are right after training; the model is a family's, or given by its values."""
    corpus, unseen = (
        toy_corpus(folder / name, pairs=pairs, change=TASKS[task], seed=number, longest=budget.longest)
        for name, pairs, number in (("corpus", 2000, seed), ("unseen", 400, seed + 1))
    )
    settings = learning(steps=budget.steps, rate=budget.rate, tokens=budget.tokens)
    run = train(toy_values(corpus, model, f"seed={seed}", *settings, *DRY, *overrides), run=folder / "run", quiet=True)
    trained_sources = set(lines(corpus["source"]))
    pairs = zip(lines(unseen["source"]), lines(unseen["target"]), strict=True)
    sources, references = zip(
        *((source, target) for source, target in pairs if source not in trained_sources), strict=True
    )
    assert len(sources) >= 100
    return share_right(load(run.folder).translate(list(sources)), references)


def share_right(translations: Sequence[str], references: Sequence[str]) -> float:
    """The share of translations that equal their reference."""
    return sum(translation == reference for translation, reference in zip(translations, references, strict=True)) / len(
        references
    )


def lines(path: Path) -> list[str]:
    """The lines of a text file."""
    return path.read_text(encoding="utf-8").splitlines()
