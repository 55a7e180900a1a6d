"""Small recommenders of generated histories."""

from pathlib import Path
from typing import Any

from recipes.recommendation.generate import history, write_records, write_sequences

__all__ = ["GRU", "TIME_AWARE", "TRANSFORMER", "history", "recommendation_values", "write_records", "write_sequences"]

Values = dict[str, Any]

TRANSFORMER: Values = {
    "kind": "transformer",
    "layers": 1,
    "width": 16,
    "heads": 2,
    "feed_forward": 24,
    "positions": "learned",
    "maximum_positions": 32,
    "dropout": 0.1,
}
GRU: Values = {"kind": "recurrent", "cell": "gru", "layers": 1, "width": 16, "embedding": 12, "dropout": 0.1}
TIME_AWARE: Values = {"kind": "time-aware", "layers": 1, "width": 16, "heads": 2, "feed_forward": 24, "dropout": 0.1}


def recommendation_values(folder: Path, *, network: Values = TRANSFORMER, users: int = 150, **changes: Any) -> Values:
    """A small recommender of generated histories."""
    is_timed = network["kind"] == "time-aware"
    if is_timed:
        path = write_records(folder / "users.jsonl", users=users)
        corpus = {
            "kind": "sequence-records",
            "path": str(path),
            "times_key": "times",
            "behaviours_key": "behaviours",
        }
    else:
        path = write_sequences(folder / "users.txt", users=users)
        corpus = {"kind": "sequences", "path": str(path)}
    training = {"steps": 12, "validate_every": 4, "checkpoint_every": 4, "log_every": 2, "threads": 1, "device": "cpu"}
    return {
        "task": {"kind": "recommendation", "history": 10},
        "data": {"train": [corpus]},
        "model": {"network": network},
        "training": {
            **training,
            "batch": {"tokens": 128, "workers": 0},
            "optimiser": {"learning_rate": 0.01},
            "schedule": {"warmup": 2},
            **changes,
        },
    }
