"""SCAN: from navigation commands to actions, on three splits: simple, length (longer outputs), add-jump (a new verb).

CORPORA/scan has tasks_train_SPLIT.txt.gz and tasks_test_SPLIT.txt.gz with lines `IN: jump twice OUT: I_JUMP I_JUMP`.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from calque.errors import DataError
from calque.evaluation.metrics import exact_match
from recipes.runner.files import read_lines
from recipes.runner.pair_recipe import Baseline, Column, Pair, Recipe, Row, System, read_part, write_pairs
from recipes.runner.retrieval import TfIdf

HERE = Path(__file__).resolve().parent
SPLITS = {"simple": "simple", "length": "length", "jump": "addprim_jump"}  # our name → that of the files
VALIDATION = 0.05  # share of the training commands: SCAN has no validation data of its own


def parse(line: str) -> Pair:
    """The command and the actions of a line.

    >>> parse("IN: jump twice OUT: I_JUMP I_JUMP")
    ('jump twice', 'I_JUMP I_JUMP')
    """
    source, mark, target = line.removeprefix("IN: ").partition(" OUT: ")
    if not mark or not line.startswith("IN: "):
        raise DataError(f"not a line of SCAN: {line!r}; expected IN: COMMAND OUT: ACTIONS")
    return source.strip(), target.strip()


def hold_out(pairs: Sequence[Pair], *, share: float, seed: int = 1) -> tuple[list[Pair], list[Pair]]:
    """Splits pairs into those that stay and those held out, which are chosen at random among pairs that occur once.

    The split add-jump repeats the command `jump` in a tenth of its lines. As the verb is learnt only there, it stays.
    """
    once = [pair for pair, count in Counter(pairs).items() if count == 1]
    chosen = set(random.Random(seed).sample(once, round(share * len(once))))
    return [pair for pair in pairs if pair not in chosen], [pair for pair in once if pair in chosen]


def prepare(corpora: Path, data: Path) -> dict[str, dict[str, int]]:
    """Writes the pairs of every split; returns the number of pairs."""
    counts = {}
    for name, file in SPLITS.items():
        train, test = (
            [parse(line) for line in read_lines(corpora / "scan" / f"tasks_{part}_{file}.txt.gz")]
            for part in ("train", "test")
        )
        kept, valid = hold_out(train, share=VALIDATION)
        parts = {"train": kept, "valid": valid, "test": test}
        write_pairs(data / name, parts)
        counts[name] = {part: len(pairs) for part, pairs in parts.items()}
    return counts


def score(group: Path, outputs: Sequence[str]) -> Mapping[str, float]:
    """The percentage of commands whose actions are all correct."""
    return {"exact": exact_match(outputs, [target for _, target in read_part(group, "test")]).value}


def nearest(group: Path) -> list[str]:
    """The actions of the most similar training command."""
    train = read_part(group, "train")
    index = TfIdf([source for source, _ in train])
    return [train[index.nearest(source)][1] for source, _ in read_part(group, "test")]


RECIPE = Recipe(
    name="scan",
    module=__name__,
    prepare=prepare,
    score=score,
    samples=2,
    systems=tuple(
        System(f"{model}-{split}", HERE / f"scan-{model}.toml", split, cost=0.8)
        for split in SPLITS
        for model in ("lstm", "transformer")
    ),
    rows=tuple(
        Row(f"{model}-{split}", f"{split}: {label}", f"{model}-{split}", group=split)
        for split in SPLITS
        for model, label in (("lstm", "LSTM"), ("transformer", "Transformer"))
    ),
    baselines=tuple(
        Baseline(f"nearest-{split}", f"{split}: actions of the nearest command", nearest, split) for split in SPLITS
    ),
    columns=(Column("exact", "exact match"),),
)
