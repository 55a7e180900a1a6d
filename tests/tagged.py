"""A toy corpus of labelled words: a hidden Markov model draws labels, and each label its words."""

import random
from pathlib import Path
from typing import Any

Values = dict[str, Any]

NEXT = {"D": "NNA", "A": "NNA", "N": "VVE", "V": "DDE", "E": "D"}
WORDS = {
    "D": ["the", "a"],
    "A": ["old", "red", "odd"],
    "N": ["dog", "cat", "tree", "watch"],
    "V": ["sees", "watch", "hears"],
    "E": [".", "!"],
}


def sentence(generator: random.Random, *, longest: int = 9) -> list[tuple[str, str]]:
    """Words with their labels; `watch` is a noun or a verb, by the word before it."""
    label, rows = "D", []
    for _ in range(generator.randint(2, longest)):
        rows.append((generator.choice(WORDS[label]), label))
        label = generator.choice(NEXT[label])
    return rows


def chunked(rows: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """The same with a third column of BIO labels: a determiner begins a chunk that lasts to its noun."""
    result, inside = [], False
    for word, label in rows:
        is_part = label in "DAN"
        result.append((word, label, ("I-NP" if inside and label != "D" else "B-NP") if is_part else "O"))
        inside = is_part and label != "N"
    return result


def write_columns(path: Path, *, sentences: int, seed: int = 0) -> Path:
    """A file of three columns: word, part of speech and chunk."""
    generator = random.Random(seed)
    blocks = ["".join(" ".join(row) + "\n" for row in chunked(sentence(generator))) for _ in range(sentences)]
    path.write_text("\n".join(blocks), encoding="utf-8")
    return path


def write_conllu(path: Path, *, sentences: int, seed: int = 0) -> Path:
    """The same words and labels as CoNLL-U."""
    generator = random.Random(seed)
    blocks = []
    for number in range(sentences):
        rows = enumerate(sentence(generator), start=1)
        lines = [f"{at}\t{word}\t_\t{label}\t_\t_\t_\t_\t_\t_\n" for at, (word, label) in rows]
        blocks.append(f"# sent_id = {number}\n" + "".join(lines) + "\n")
    path.write_text("".join(blocks), encoding="utf-8")
    return path


def tagging_values(folder: Path, **changes: Any) -> Values:
    """A small tagger of chunks from words, their characters and parts of speech."""
    columns = ["form", "pos", "chunk"]
    train, valid = (
        write_columns(folder / f"{role}.txt", sentences=count, seed=seed)
        for role, count, seed in (("train", 150, 0), ("valid", 30, 1))
    )
    training = {"steps": 12, "validate_every": 4, "checkpoint_every": 4, "log_every": 2, "threads": 1, "device": "cpu"}
    return {
        "task": {"kind": "tagging", "labels": "chunk", "inputs": ["pos"]},
        "data": {
            "train": [{"kind": "columns", "path": str(train), "columns": columns}],
            "valid": [{"kind": "columns", "path": str(valid), "columns": columns}],
        },
        "model": {
            "encoder": {"kind": "recurrent", "layers": 1, "width": 16, "embedding": 12, "dropout": 0.2},
            "characters": {"kind": "recurrent", "embedding": 4, "width": 6},
            "column_width": 4,
        },
        "training": {
            **training,
            "batch": {"tokens": 128, "workers": 0},
            "optimiser": {"learning_rate": 0.01},
            "schedule": {"warmup": 2},
            **changes,
        },
    }
