"""Settings that a config leaves open follow the corpus."""

from typing import Any

import torch

from calque.config import Values, override
from calque.data.batching import BatchConfig, Plan
from calque.data.store import Store
from calque.models.model import DecoderConfig, ModelConfig
from calque.models.transformer import TransformerConfig

FOLLOWING = (
    *("steps", "validate_every", "checkpoint_every", "log_every", "patience", "threads"),
    *("batch.tokens", "optimiser.learning_rate", "schedule.warmup"),
)
"""Keys of the training section that are chosen where they are left open."""


def complete_settings(
    values: Values, store: Store, *, model: ModelConfig, device: str, seed: int
) -> tuple[Values, list[str]]:
    """`values` with every training setting that was left open chosen by the corpus; and what was chosen, to be read."""
    given = values.get("training", {})
    is_open = any(_or(given, *key.split("."), default=None) is None for key in FOLLOWING)
    if not is_open and given.get("device", "auto") != "auto":
        return values, []  # as a run that goes on does: planning an epoch takes a while
    pairs = len(store)
    positions = int(store.source_lengths.sum()) + int(store.target_lengths.sum())
    largest = 4096 if device == "cpu" else 16_384  # a device idles on small batches
    batch = _or(given, "batch", "tokens", default=max(256, min(largest, positions // 100)))
    config = BatchConfig(**{**given.get("batch", {}), "tokens": batch})
    epoch = max(1, _updates(Plan(store, config=config, seed=seed), given))
    epochs = min(100, max(3, round(30 * (30_000 / pairs) ** 0.5)))
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
        "optimiser.learning_rate": _usual_rate(given, model.decoder),
        "schedule.warmup": min(max(20, min(4000, steps // 12)), steps // 4),
        "device": device,
    }
    missing = {key: value for key, value in chosen.items() if _or(given, *key.split("."), default=None) is None}
    if given.get("device", "auto") == "auto":
        missing["device"] = chosen["device"]
    lines = [f"training.{key} = {value}" for key, value in missing.items()]
    completed = override(values, lines)
    if lines:
        lines = [f"chosen for {pairs:,} pairs (an epoch: {epoch:,} steps)", *(f"  {line}" for line in lines)]
    return completed, lines


def _updates(plan: Plan, given: Values) -> int:
    """How many updates an epoch has."""
    tokens = given.get("accumulate_tokens", 0)
    if tokens:
        return int(plan.store.target_lengths.sum()) // int(tokens)
    return sum(1 for _ in plan.batches(0)) // int(given.get("accumulate", 1))


def _usual_rate(given: Values, decoder: DecoderConfig) -> float:
    """Adadelta and SGD are used to other rates than Adam; with Adam, Transformers bear less than others.

    recipes/lineage/README.md has rates that were compared, at widths of 190 to 590.
    """
    most, factor = (2e-3, 0.02) if isinstance(decoder, TransformerConfig) else (4e-3, 0.06)
    adam: float = round(min(most, factor * decoder.width**-0.5), 5)
    return {"adadelta": 1.0, "sgd": 0.7}.get(_or(given, "optimiser", "kind", default="adam"), adam)


def _or(values: Values, *keys: str, default: Any) -> Any:
    for key in keys:
        values = values.get(key, {}) if isinstance(values, dict) else {}
    return default if values == {} else values
