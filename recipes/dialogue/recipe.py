"""Replies in English dialogues, given up to three turns: BLEU, distinct-1/2, and the share of dull replies.

CORPORA/dialog-zh-en/train.en.gz has turns in order, without marks between dialogues. CORPORA/dialogue/dev.en.txt.gz has
the dialogues to test on, one per line, with `__eou__` after each turn.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from calque.evaluation.diversity import distinct, most_frequent_share
from calque.evaluation.metrics import bleu
from recipes.runner.files import read_json, read_lines, write_json
from recipes.runner.pair_recipe import (
    REFERENCES,
    Baseline,
    Column,
    Pair,
    Recipe,
    Row,
    System,
    read_part,
    write_pairs,
)
from recipes.runner.retrieval import TfIdf

HERE = Path(__file__).resolve().parent
TURNS = 3  # of context
SEPARATOR = "¶"  # between the turns of a context
END = "__eou__"
HELD_OUT = 1000  # the last turns of the training text, for validation
DULL = 20  # the most frequent training replies count as dull
FREQUENT = "frequent.json"


def context(turns: Sequence[str]) -> str:
    """The last turns as one source.

    >>> context(["Hi .", "Hello .", "How are you ?", "Fine ."])
    'Hello . ¶ How are you ? ¶ Fine .'
    """
    return f" {SEPARATOR} ".join(turns[-TURNS:])


def exchanges(turns: Sequence[str]) -> Iterator[Pair]:
    """Yields every turn but the first as a (context, turn) pair."""
    for place in range(1, len(turns)):
        yield context(turns[:place][-TURNS:]), turns[place]


def dialogues(lines: Sequence[str]) -> list[list[str]]:
    """The turns of each dialogue."""
    return [[turn.strip() for turn in line.split(END) if turn.strip()] for line in lines]


def unseen(pairs: Sequence[Pair], seen: set[str]) -> list[Pair]:
    """The pairs whose reply does not occur in training."""
    return [(source, reply) for source, reply in pairs if reply not in seen]


def prepare(corpora: Path, data: Path) -> dict[str, int]:
    """Writes pairs and the most frequent replies; returns counts."""
    turns = [turn.strip() for turn in read_lines(corpora / "dialog-zh-en" / "train.en.gz")]
    tested = dialogues(read_lines(corpora / "dialogue" / "dev.en.txt.gz"))
    seen = set(turns)
    replies = [pair for dialogue in tested for pair in exchanges(dialogue)]
    kept = unseen(replies, seen)
    parts = {
        "train": list(exchanges(turns[:-HELD_OUT])),
        "valid": list(exchanges(turns[-HELD_OUT:])),
        "test": kept,
    }
    write_pairs(data / "all", parts)
    frequent = Counter(reply for _, reply in parts["train"]).most_common(DULL)
    write_json(data / "all" / FREQUENT, [reply for reply, _ in frequent])
    return {
        **{part: len(pairs) for part, pairs in parts.items()},
        "test dialogues": len(tested),
        "test turns": sum(map(len, tested)),
        "test turns that occur in training": sum(turn in seen for dialogue in tested for turn in dialogue),
        "replies taken out": len(replies) - len(kept),
    }


def score(group: Path, outputs: Sequence[str]) -> Mapping[str, float]:
    """BLEU, distinct-1 and -2, the share of the most frequent output and of dull replies, and the mean length."""
    dull = set(read_json(group / FREQUENT))
    return {
        "bleu": bleu(outputs, [reply for _, reply in read_part(group, "test")]),
        "distinct1": distinct(outputs, n=1),
        "distinct2": distinct(outputs, n=2),
        "same": most_frequent_share(outputs),
        "dull": 100 * sum(output in dull for output in outputs) / len(outputs),
        "words": sum(len(output.split()) for output in outputs) / len(outputs),
    }


def most_frequent(group: Path) -> list[str]:
    """The most frequent reply of the training text, as the output for every source."""
    (reply, *_) = read_json(group / FREQUENT)
    return [reply for _ in read_part(group, "test")]


def nearest(group: Path) -> list[str]:
    """The turn after the training turn that is most similar to the last turn."""
    train = read_part(group, "train")
    index = TfIdf([last_turn(source) for source, _ in train])
    return [train[index.nearest(last_turn(source))][1] for source, _ in read_part(group, "test")]


def references(group: Path) -> list[str]:
    """The true replies, whose diversity is a reference for that of the outputs."""
    return [reply for _, reply in read_part(group, "test")]


def last_turn(source: str) -> str:
    """The last turn of a context."""
    return source.rpartition(f" {SEPARATOR} ")[2]


WIDE = ("beam=20", "groups=10", "diversity=0.5", "length_penalty=1.0")  # many different candidates to rerank
RECIPE = Recipe(
    name="dialogue",
    module=__name__,
    prepare=prepare,
    score=score,
    systems=(
        System("reply", HERE / "transformer.toml", cost=3.0),
        System("context", HERE / "transformer.toml", reverse=True, cost=3.5),
    ),
    rows=(
        Row("beam", "Transformer, beam 5", "reply", ("beam=5", "length_penalty=1.0")),
        Row("sample", "Transformer, nucleus sampling, p = 0.9", "reply", ("method=sample", "top_p=0.9")),
        Row("mmi-0.5", "Transformer, MMI, λ = 0.5", "reply", (*WIDE, "channel_weight=0.5"), channel="context"),
        Row("mmi-1", "Transformer, MMI, λ = 1", "reply", (*WIDE, "channel_weight=1.0"), channel="context"),
    ),
    baselines=(
        Baseline("frequent", "the most frequent reply", most_frequent),
        Baseline("nearest", "what followed the nearest training turn", nearest),
        Baseline(REFERENCES, "the references themselves", references),
    ),
    columns=(
        Column("bleu", "BLEU", 2),
        Column("distinct1", "distinct-1"),
        Column("distinct2", "distinct-2"),
        Column("same", "most frequent output"),
        Column("dull", "dull replies"),
        Column("words", "words"),
    ),
)
