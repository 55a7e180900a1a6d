"""Descriptions to lines of Python, on Django: exact match, BLEU, and how many outputs parse.

CORPORA/django has all.anno.gz and all.code.gz: the first 16,000 lines train, the next 1,000 validate, the last test.
"""

import operator
from collections.abc import Mapping, Sequence
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU

from calque.errors import DataError
from calque.evaluation.metrics import exact_match
from recipes.code.python_lines import hide_in_code, hide_strings, parses, show_strings, words
from recipes.runner.files import read_json, read_lines, write_json
from recipes.runner.pair_recipe import Baseline, Column, Pair, Recipe, Row, System, read_part, write_pairs
from recipes.runner.retrieval import TfIdf

HERE = Path(__file__).resolve().parent
TRAIN, VALID = 16_000, 17_000  # the lines before which these parts end
STRINGS, CODE = "test.strings.json", "test.code.json"


def pair(description: str, code: str) -> tuple[Pair, tuple[str, ...]]:
    """A description and its code as a model reads them, and the strings that they hide."""
    hidden = hide_strings(description)
    return (words(hidden.text), " ".join(hide_in_code(code, hidden.strings).split())), hidden.strings


def prepare(corpora: Path, data: Path) -> dict[str, int]:
    """Writes pairs, and the strings and code of the test lines; returns counts."""
    descriptions, codes = (read_lines(corpora / "django" / f"all.{side}.gz") for side in ("anno", "code"))
    if len(descriptions) != len(codes):
        raise DataError(f"all.anno has {len(descriptions):,} lines, all.code {len(codes):,}: they must be parallel")
    hidden = [pair(description, code) for description, code in zip(descriptions, codes, strict=True)]
    parts = {"train": hidden[:TRAIN], "valid": hidden[TRAIN:VALID], "test": hidden[VALID:]}
    group = data / "all"
    write_pairs(group, {part: [pair for pair, _ in found] for part, found in parts.items()})
    write_json(group / STRINGS, [list(strings) for _, strings in parts["test"]])
    write_json(group / CODE, [" ".join(code.split()) for code in codes[VALID:]])
    return {
        **{part: len(found) for part, found in parts.items()},
        "test lines that parse": sum(map(parses, codes[VALID:])),
        "test lines that can match": attainable(group),
    }


def references(group: Path) -> list[str]:
    """The code of the test lines, with its own strings."""
    codes: list[str] = read_json(group / CODE)
    return codes


def attainable(group: Path) -> int:
    """The number of test lines that can be matched exactly: restoring the strings of the target yields the code.

    A restored string has the quotation marks of the description. If those of the code differ, no output can match.
    """
    restored = restore(group, [target for _, target in read_part(group, "test")])
    return sum(map(operator.eq, restored, references(group)))


def score(group: Path, outputs: Sequence[str]) -> Mapping[str, float]:
    """Exact match and token BLEU against the code with its strings, and the percentage of outputs that parse."""
    expected = references(group)
    bleu = BLEU(tokenize="none", force=True).corpus_score(list(outputs), [expected]).score
    exact = exact_match(outputs, expected).value
    return {"exact": exact, "bleu": bleu, "parses": 100 * sum(map(parses, outputs)) / len(outputs)}


def restore(group: Path, outputs: Sequence[str]) -> list[str]:
    """Replaces the placeholders in outputs by the strings of their descriptions."""
    return [show_strings(code, strings) for code, strings in zip(outputs, read_json(group / STRINGS), strict=True)]


def nearest(group: Path) -> list[str]:
    """The code of the training line with the most similar description, with the strings of the test description."""
    train = read_part(group, "train")
    index = TfIdf([description for description, _ in train])
    codes = [train[index.nearest(description)][1] for description, _ in read_part(group, "test")]
    return restore(group, codes)


RECIPE = Recipe(
    name="code",
    module=__name__,
    prepare=prepare,
    score=score,
    restore=restore,
    references=references,
    systems=(
        System("lstm", HERE / "lstm.toml", cost=2.0),
        System("copying", HERE / "lstm.toml", settings=("model.decoder.copies=true",), cost=2.5),
        System("transformer", HERE / "transformer.toml", cost=2.0),
    ),
    rows=(
        Row("lstm", "LSTM with attention", "lstm"),
        Row("copying", "LSTM with attention and copying", "copying"),
        Row("transformer", "Transformer with copying", "transformer"),
    ),
    baselines=(Baseline("nearest", "code of the nearest description", nearest),),
    columns=(Column("exact", "exact match"), Column("bleu", "BLEU"), Column("parses", "parses")),
)
