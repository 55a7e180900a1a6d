"""Training settings that a config leaves open are chosen to fit the corpus."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from calque.config import Values, override
from calque.data.batching import BatchConfig, Order

OPEN = (
    *("steps", "validate_every", "checkpoint_every", "log_every", "patience", "threads"),
    *("batch.tokens", "optimiser.learning_rate", "schedule.warmup"),
)
"""Keys of the training section that are chosen where they are left open."""


class Corpus(NamedTuple):
    """What the choices depend on."""

    rows: int
    positions: int  # of all rows, marks counted
    weight: int  # what the loss of all rows is a sum over
    order: Callable[[BatchConfig], Order]
    rate: float  # a good learning rate for Adam with this model
    unit: str = "pairs"


def complete_settings(values: Values, corpus: Corpus, *, device: str) -> tuple[Values, list[str]]:
    """`values` with every training setting that was left open chosen; and what was chosen, to be read."""
    given = values.get("training", {})
    is_open = any(_or(given, *key.split("."), default=None) is None for key in OPEN)
    if not is_open and given.get("device", "auto") != "auto":
        return values, []  # as a resumed run does: planning an epoch takes a while
    largest = 4096 if device == "cpu" else 16_384  # a device idles on small batches
    batch = _or(given, "batch", "tokens", default=max(256, min(largest, corpus.positions // 100)))
    config = BatchConfig(**{**given.get("batch", {}), "tokens": batch})
    epoch = max(1, _updates(corpus, config, given))
    epochs = min(100, max(3, round(30 * (30_000 / corpus.rows) ** 0.5)))
    steps = given.get("steps", max(200, epoch * epochs))
    validate = given.get("validate_every", max(1, min(steps, max(50, min(1000, epoch)))))
    chosen: Values = {
        "steps": steps,
        "validate_every": validate,
        "checkpoint_every": validate,
        "log_every": max(1, min(50, steps // 200)),
        "patience": 8,
        "threads": torch.get_num_threads(),
        "batch.tokens": batch,
        "optimiser.learning_rate": default_rate(_or(given, "optimiser", "kind", default="adam"), adam=corpus.rate),
        "schedule.warmup": min(max(20, min(4000, steps // 12)), steps // 4),
        "device": device,
    }
    missing = {key: value for key, value in chosen.items() if _or(given, *key.split("."), default=None) is None}
    if given.get("device", "auto") == "auto":
        missing["device"] = chosen["device"]
    lines = [f"training.{key} = {value}" for key, value in missing.items()]
    completed = override(values, lines)
    if lines:
        head = f"chosen for {corpus.rows:,} {corpus.unit} (an epoch: {epoch:,} steps)"
        lines = [head, *(f"  {line}" for line in lines)]
    return completed, lines


def default_rate(optimiser: str, *, adam: float) -> float:
    """Adadelta and SGD need other rates than Adam."""
    return {"adadelta": 1.0, "sgd": 0.7}.get(optimiser, adam)


def adam_rate(*, transformer: bool, width: int) -> float:
    """A rate for Adam: Transformers bear less than other models.

    recipes/lineage/README.md has rates that were compared, at widths of 190 to 590.
    """
    most, factor = (2e-3, 0.02) if transformer else (4e-3, 0.06)
    return float(round(min(most, factor * width**-0.5), 5))


def _updates(corpus: Corpus, config: BatchConfig, given: Values) -> int:
    """How many updates an epoch has."""
    tokens = given.get("accumulate_tokens", 0)
    if tokens:
        return corpus.weight // int(tokens)
    return sum(1 for _ in corpus.order(config).batches(0)) // int(given.get("accumulate", 1))


def _or(values: Values, *keys: str, default: Any) -> Any:
    for key in keys:
        values = values.get(key, {}) if isinstance(values, dict) else {}
    return default if values == {} else values
