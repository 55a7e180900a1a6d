"""Chooses the training settings that a config leaves open, to fit the corpus."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from calque.config import Values, override
from calque.data.batching import BatchConfig, Order

OPEN = (
    *("steps", "validate_every", "checkpoint_every", "log_every", "patience", "threads"),
    *("batch.tokens", "optimiser.learning_rate", "schedule.warmup"),
)
"""The keys of the training section that are chosen automatically if the config does not set them."""


class Corpus(NamedTuple):
    """The properties of a corpus and its model on which the choice of training settings depends."""

    rows: int
    positions: int  # of all rows, including end-of-sentence tokens
    weight: int  # number of terms in the loss of all rows, such as target tokens
    order: Callable[[BatchConfig], Order]
    rate: float  # a good learning rate for Adam with this model
    unit: str  # what rows are called


def complete_settings(values: Values, corpus: Corpus, *, device: str) -> tuple[Values, list[str]]:
    """`values` with every missing training setting filled in, and the lines of a report of these choices."""
    training = values.get("training", {})
    is_open = any(_lookup(training, key) is None for key in OPEN)
    if not is_open and training.get("device", "auto") != "auto":
        return values, []  # a resumed run need not plan an epoch, which takes a while
    largest = 4096 if device == "cpu" else 16_384  # a device idles on small batches
    batch = _lookup(training, "batch.tokens", default=max(256, min(largest, corpus.positions // 100)))
    config = BatchConfig(**{**training.get("batch", {}), "tokens": batch})
    epoch = max(1, _updates_per_epoch(corpus, config, training))
    epochs = min(100, max(3, round(30 * (30_000 / corpus.rows) ** 0.5)))
    steps = training.get("steps", max(200, epoch * epochs))
    validate = training.get("validate_every", max(1, min(steps, max(50, min(1000, epoch)))))
    chosen: Values = {
        "steps": steps,
        "validate_every": validate,
        "checkpoint_every": validate,
        "log_every": max(1, min(50, steps // 200)),
        "patience": 8,
        "threads": torch.get_num_threads(),
        "batch.tokens": batch,
        "optimiser.learning_rate": default_rate(_lookup(training, "optimiser.kind", default="adam"), adam=corpus.rate),
        "schedule.warmup": min(max(20, min(4000, steps // 12)), steps // 4),
        "device": device,
    }
    missing = {key: value for key, value in chosen.items() if _lookup(training, key) is None}
    if training.get("device", "auto") == "auto":
        missing["device"] = chosen["device"]
    lines = [f"training.{key} = {value}" for key, value in missing.items()]
    completed = override(values, lines)
    if lines:
        head = f"chosen for {corpus.rows:,} {corpus.unit} ({epoch:,} steps per epoch)"
        lines = [head, *(f"  {line}" for line in lines)]
    return completed, lines


def default_rate(optimiser: str, *, adam: float) -> float:
    """The default learning rate of an optimiser; `adam` is the rate for Adam and AdamW."""
    return {"adadelta": 1.0, "sgd": 0.7}.get(optimiser, adam)


def adam_rate(*, transformer: bool, width: int) -> float:
    """A learning rate for Adam, lower for Transformers than for other models.

    recipes/lineage/README.md compares rates at widths of 190 to 590.
    """
    most, factor = (2e-3, 0.02) if transformer else (4e-3, 0.06)
    return float(round(min(most, factor * width**-0.5), 5))


def _updates_per_epoch(corpus: Corpus, config: BatchConfig, training: Values) -> int:
    """The number of updates in an epoch."""
    tokens = training.get("accumulate_tokens", 0)
    if tokens:
        return corpus.weight // int(tokens)
    return sum(1 for _ in corpus.order(config).batches(0)) // int(training.get("accumulate", 1))


def _lookup(values: Values, key: str, *, default: Any = None) -> Any:
    """The value of a dotted key (`batch.tokens`, say) in nested settings, or the default if it is not set."""
    for name in key.split("."):
        values = values.get(name, {}) if isinstance(values, dict) else {}
    return default if values == {} else values
