"""Subject lines of e-mails, on AESLC: ROUGE against the original subject.

CORPORA/aeslc has train, dev and test as .jsonl.gz with `body` and `subject`. ROUGE needs `pip install rouge-score`.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from calque.evaluation.rouge import rouge
from recipes.runner.files import read_json, read_lines, write_json
from recipes.runner.pair_recipe import Baseline, Column, Pair, Recipe, Row, System, read_part, write_pairs

HERE = Path(__file__).resolve().parent
WORDS = 200  # of a body; the rest is not read
VALIDATION = 600  # of the 1,960 development e-mails, the first: enough to select a model
LENGTHS = range(2, 31)  # words of an extracted subject that are tried on the validation e-mails
LENGTH = "words.json"
LENGTH_PENALTIES = tuple(f"length_penalty={penalty}" for penalty in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0))
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def pair(email: Mapping[str, str]) -> Pair:
    """The body and the subject of an e-mail, in lower case, each on one line; ROUGE ignores case."""
    body = " ".join(email["body"].lower().split()[:WORDS])
    return body, " ".join(email["subject"].lower().split())


def prepare(corpora: Path, data: Path) -> dict[str, int]:
    """Writes the pairs of every part; returns the number of pairs."""
    read = {
        part: [pair(json.loads(line)) for line in read_lines(corpora / "aeslc" / f"{name}.jsonl.gz")]
        for part, name in (("train", "train"), ("valid", "dev"), ("test", "test"))
    }
    parts = {"train": read["train"], "valid": read["valid"][:VALIDATION], "test": read["test"]}
    write_pairs(data / "all", parts)
    for name, extract in (("first", first_words), ("overlap", overlapping_words)):
        write_json(data / "all" / f"{name}.{LENGTH}", best_length(parts["valid"], extract))
    return {part: len(pairs) for part, pairs in parts.items()}


def score(group: Path, outputs: Sequence[str]) -> Mapping[str, float]:
    """ROUGE-1, ROUGE-2 and ROUGE-L against the subject, and the mean number of words."""
    found = rouge(outputs, [subject for _, subject in read_part(group, "test")])
    words = sum(len(output.split()) for output in outputs) / len(outputs)
    return {"rouge1": found.rouge1, "rouge2": found.rouge2, "rougeL": found.rougeL, "words": words}


def validate(group: Path, outputs: Sequence[str]) -> float:
    """ROUGE-1 on the validation e-mails."""
    return rouge(outputs, [subject for _, subject in read_part(group, "valid")]).rouge1


def first_words(body: str, count: int) -> str:
    """The first words of a body."""
    return " ".join(body.split()[:count])


def overlapping_words(body: str, count: int) -> str:
    """The first words of the sentence that has most in common with the whole body.

    It is the sentence whose words are most frequent in the body, on average; words of up to three letters do not count.
    """
    frequency = Counter(word for word in body.split() if len(word) > 3)

    def overlap(sentence: str) -> float:
        words = [word for word in sentence.split() if len(word) > 3]
        return sum(frequency[word] for word in words) / max(3, len(words))

    return first_words(max(_SENTENCE.split(body), key=overlap), count)


def best_length(pairs: Sequence[Pair], extract: Callable[[str, int], str]) -> int:
    """The number of words with the highest ROUGE-1 on validation."""
    subjects = [subject for _, subject in pairs]
    return max(LENGTHS, key=lambda count: rouge([extract(body, count) for body, _ in pairs], subjects).rouge1)


def lead(group: Path) -> list[str]:
    """The first words of every body, as many as are best on validation."""
    count = read_json(group / f"first.{LENGTH}")
    return [first_words(body, count) for body, _ in read_part(group, "test")]


def central(group: Path) -> list[str]:
    """The first words of the sentence that overlaps most with its body, as many as are best on validation."""
    count = read_json(group / f"overlap.{LENGTH}")
    return [overlapping_words(body, count) for body, _ in read_part(group, "test")]


RECIPE = Recipe(
    name="summaries",
    module=__name__,
    prepare=prepare,
    score=score,
    validate=validate,
    systems=(
        System("pointer", HERE / "pointer.toml", cost=3.0),
        System("transformer", HERE / "transformer.toml", cost=3.0),
    ),
    rows=(
        Row("pointer", "pointer-generator with coverage", "pointer", tried=LENGTH_PENALTIES),
        Row("transformer", "Transformer with copying", "transformer", tried=LENGTH_PENALTIES),
    ),
    baselines=(
        Baseline("lead", "first words of the body", lead),
        Baseline("central", "first words of the most overlapping sentence", central),
    ),
    columns=(
        Column("rouge1", "ROUGE-1"),
        Column("rouge2", "ROUGE-2"),
        Column("rougeL", "ROUGE-L"),
        Column("words", "words"),
    ),
)
