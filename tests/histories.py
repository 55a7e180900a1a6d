"""Generated histories: items in groups, of which a user leaves one for another after a long time.

A user stays with a group of items: the next item is the one after the last in its group, with little noise. A gap of
days between two items, or an item that is bought, means that the next item is from the next group. So the order of
items tells most, and times and behaviour types the rest.
"""

import json
import random
from pathlib import Path
from typing import Any

Values = dict[str, Any]

GROUPS, SIZE, DAY = 5, 6, 86_400


def history(generator: random.Random, *, longest: int = 14, noise: float = 0.05) -> Values:
    """The items, times and behaviour types of one user."""
    group, place, time = generator.randrange(GROUPS), generator.randrange(SIZE), generator.randrange(1000)
    items, times, behaviours = [], [], []
    for _ in range(generator.randint(4, longest)):
        items.append(f"g{group}i{place}")
        behaviours.append("buy" if generator.random() < 0.15 else "view")
        times.append(time)
        is_long = generator.random() < 0.2
        time += generator.randint(5 * DAY, 9 * DAY) if is_long else generator.randint(10, 600)
        if is_long or behaviours[-1] == "buy":
            group, place = (group + 1) % GROUPS, 0
        else:
            place = (place + 1) % SIZE
        if generator.random() < noise:
            place = generator.randrange(SIZE)
    return {"items": items, "times": times, "behaviours": behaviours}


def write_sequences(path: Path, *, users: int, seed: int = 0) -> Path:
    """A plain file: a user per line."""
    generator = random.Random(seed)
    lines = [f"u{user} {' '.join(history(generator)['items'])}\n" for user in range(users)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def write_records(path: Path, *, users: int, seed: int = 0) -> Path:
    """The same users as JSON records, with times and behaviour types."""
    generator = random.Random(seed)
    lines = [json.dumps({"user": f"u{user}", **history(generator)}) + "\n" for user in range(users)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


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
