"""Turns questions about US geography into SQL, scored by executing it (text2sql-data, question split).

CORPORA/geography has geography.json.gz and geography.sqlite.gz.
"""

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from recipes.parsing.sql import Database
from recipes.runner.files import read_json, write_json
from recipes.runner.pair_recipe import Baseline, Column, Recipe, Row, System, read_part, write_pairs
from recipes.runner.retrieval import TfIdf

HERE = Path(__file__).resolve().parent
DATABASE, GOLD, VALUES = "geography.sqlite", "test.gold.json", "values.json"
SPLITS = {"train": "train", "dev": "valid", "test": "test"}
_QUOTED = re.compile(r'"\s*([^"]*?)\s*"')


class Question(NamedTuple):
    """A question with its variables substituted, and the queries that answer it; models learn the first one."""

    part: str  # train, valid or test
    text: str
    queries: tuple[str, ...]
    values: dict[str, str]  # variable → value, such as state_name0 → texas


def questions(entries: Iterable[Mapping[str, Any]]) -> Iterator[Question]:
    """All questions of text2sql-data's JSON."""
    for entry in entries:
        for sentence in entry["sentences"]:
            values: dict[str, str] = sentence["variables"]
            queries = tuple(substitute(query, values) for query in entry["sql"])
            text = substitute(sentence["text"], values)
            yield Question(SPLITS[sentence["question-split"]], text, queries, dict(values))


def substitute(text: str, values: Mapping[str, str]) -> str:
    """The text with its variables replaced by their values.

    >>> substitute('capital of state_name0 and "state_name1"', {"state_name0": "texas", "state_name1": "ohio"})
    'capital of texas and "ohio"'
    """
    for name in sorted(values, key=len, reverse=True):
        text = text.replace(name, values[name])
    return text


def spaced(query: str) -> str:
    """A query whose quotes are tokens of their own, so that the words between them can be copied.

    >>> spaced('WHERE STATE_NAME = "new york" ;')
    'WHERE STATE_NAME = " new york " ;'
    """
    return " ".join(_QUOTED.sub(r' " \1 " ', query).split())


def joined(query: str) -> str:
    """The inverse of `spaced`."""
    return _QUOTED.sub(r'"\1"', query)


def prepare(corpora: Path, data: Path) -> dict[str, Any]:
    """Writes pairs, the database, and the gold queries with their denotations; returns counts."""
    source, group = corpora / "geography", data / "all"
    group.mkdir(parents=True, exist_ok=True)
    (group / DATABASE).write_bytes(gzip.decompress((source / "geography.sqlite.gz").read_bytes()))
    listed = list(questions(json.loads(gzip.decompress((source / "geography.json.gz").read_bytes()))))
    parts = {part: [question for question in listed if question.part == part] for part in SPLITS.values()}
    write_pairs(
        group,
        {part: [(question.text, spaced(question.queries[0])) for question in found] for part, found in parts.items()},
    )
    with Database(group / DATABASE) as database:
        gold = [
            {"queries": question.queries, "excluded": reason_to_exclude(database, question.queries[0])}
            for question in parts["test"]
        ]
    write_json(group / GOLD, gold)
    write_json(group / VALUES, [question.values for question in parts["train"]])
    excluded = Counter(entry["excluded"] for entry in gold if entry["excluded"])
    return {**{part: len(found) for part, found in parts.items()}, "excluded": dict(excluded)}


def reason_to_exclude(database: Database, query: str) -> str:
    """Why a gold query cannot be scored by execution; empty if it can."""
    denotation = database.execute(query)
    return "fails" if denotation.error else "returns nothing" if denotation.is_empty else ""


def score(group: Path, outputs: Sequence[str]) -> Mapping[str, float]:
    """Denotation accuracy over the gold queries that return something, and exact match over all questions."""
    gold = read_json(group / GOLD)
    right, exact, scored, failed = 0, 0, 0, 0
    with Database(group / DATABASE) as database:
        for entry, output in zip(gold, outputs, strict=True):
            exact += any(normalise(output) == normalise(query) for query in entry["queries"])
            if not entry["excluded"]:
                denotation = database.execute(output)
                scored += 1
                failed += bool(denotation.error)
                right += denotation.equals(database.execute(entry["queries"][0]))
    return {"denotation": 100 * right / scored, "exact": 100 * exact / len(gold), "failed": 100 * failed / scored}


def normalise(query: str) -> str:
    """The query with normalised white space and without a final semicolon."""
    return " ".join(joined(query).rstrip("; ").split())


def restore(_group: Path, outputs: Sequence[str]) -> list[str]:
    """Converts outputs to SQL."""
    return [joined(output) for output in outputs]


def nearest(group: Path) -> list[str]:
    """The unchanged query of the most similar training question."""
    train = read_part(group, "train")
    index = TfIdf([question for question, _ in train])
    return [joined(train[index.nearest(question)][1]) for question, _ in read_part(group, "test")]


def nearest_template(group: Path) -> list[str]:
    """The query of the most similar training question, with the names of the test question.

    Names such as "texas" are replaced by their type (state_name0) in training questions and, if they occur in training,
    in the test question. Among the training questions with the same types of names, the most similar one provides the
    query; the test question provides the names.
    """
    train, values = read_part(group, "train"), read_json(group / VALUES)
    types = {value: name.rstrip("0123456789") for entry in values for name, value in entry.items()}
    templates = [
        (anonymised(question, types)[0], anonymised(joined(query), types)[0], question) for (question, query) in train
    ]
    index = TfIdf([question for question, _, _ in templates])
    outputs = []
    for question, _ in read_part(group, "test"):
        template, names = anonymised(question, types)
        similarities = index.similarities(template)
        fitting = [place for place in range(len(train)) if set(variables(templates[place][1])) <= set(names)]
        best = max(fitting or range(len(train)), key=lambda place: (similarities[place], -place))
        outputs.append(substitute(templates[best][1], names))
    return outputs


def anonymised(text: str, types: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Replaces known names in a text by variables, longer names first; returns the text and the variables' values.

    >>> anonymised("rivers in new york", {"new york": "state_name", "york": "city_name"})
    ('rivers in state_name0', {'state_name0': 'new york'})
    """
    names: dict[str, str] = {}
    numbers: Counter[str] = Counter()
    for value in sorted(types, key=lambda value: (-len(value), value)):
        pattern = re.compile(rf"(?<![\w.]){re.escape(value)}(?![\w.])")
        if pattern.search(text):
            name = f"{types[value]}{numbers[types[value]]}"
            numbers[types[value]] += 1
            text, names[name] = pattern.sub(name, text), value
    return text, names


def variables(query: str) -> list[str]:
    """The variables in an anonymised query."""
    return re.findall(r'"([a-z_]+\d)"', query)


RECIPE = Recipe(
    name="geography",
    module=__name__,
    prepare=prepare,
    score=score,
    restore=restore,
    systems=(
        System("lstm", HERE / "geography-lstm.toml", cost=1.0),
        System("copying", HERE / "geography-lstm.toml", settings=("model.decoder.copies=true",), cost=1.2),
        System("transformer", HERE / "geography-transformer.toml", cost=1.0),
    ),
    rows=(
        Row("lstm", "LSTM with attention", "lstm"),
        Row("copying", "LSTM with attention and copying", "copying"),
        Row("transformer", "Transformer with copying", "transformer"),
    ),
    baselines=(
        Baseline("nearest", "query of the nearest question", nearest),
        Baseline("template", "query of the nearest question, names exchanged", nearest_template),
    ),
    columns=(
        Column("denotation", "denotation accuracy"),
        Column("exact", "exact match"),
        Column("failed", "queries that fail"),
    ),
)
