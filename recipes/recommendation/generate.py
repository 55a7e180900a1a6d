"""Generates histories: items form groups, and a user moves on to the next group after a long gap or a purchase.

    python -m recipes.recommendation.generate FILE [--users 2000] [--seed 0]

A user stays with a group of items: the next item is the one after the last in its group, with little noise. A gap of
days between two items, or an item that is bought, means that the next item is the first of the next group. So the order
of items predicts most of the next items, and times and behaviour types the rest. FILE is plain text unless its name
ends in .jsonl.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any

from recipes.runner.arguments import parser_of

GROUPS, SIZE, DAY = 5, 6, 86_400


def history(generator: random.Random, *, longest: int = 14, noise: float = 0.05) -> dict[str, list[Any]]:
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
    """Writes a plain text file with one user per line."""
    generator = random.Random(seed)
    lines = [f"u{user} {' '.join(history(generator)['items'])}\n" for user in range(users)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def write_records(path: Path, *, users: int, seed: int = 0) -> Path:
    """Writes the same users as JSON records, with times and behaviour types."""
    generator = random.Random(seed)
    lines = [json.dumps({"user": f"u{user}", **history(generator)}) + "\n" for user in range(users)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    write = write_records if options.file.suffix == ".jsonl" else write_sequences
    write(options.file, users=options.users, seed=options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
