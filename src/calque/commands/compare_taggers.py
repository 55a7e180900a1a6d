"""`calque compare --conll`: compares taggers, or files that taggers labelled."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calque.commands.column_options import column_names, found_format, refuse_idle_columns
from calque.commands.compare_tables import bucket_rows, names_of, p_value_text, significance_note, size_and_speed
from calque.commands.compare_task import Block, ComparisonRequest, Document, TaskComparison
from calque.commands.compared_systems import Argument, load, model_facts, speed
from calque.commands.tables import Row, aligned
from calque.errors import ConfigError, DataError

if TYPE_CHECKING:
    from calque.data.column_files import ColumnFormat, ColumnSentence
    from calque.engine import Tagger
    from calque.engine.tag_files import ColumnLayout

SHOWN_LABELS, SHOWN_CONFUSIONS = 25, 10


def compare_labels(request: ComparisonRequest) -> Document:
    """Compares taggers, or files that taggers labelled, on a file of labelled words; returns a JSON document."""
    from calque.engine import Tagger
    from calque.evaluation.comparison.taggings import TaggedSystem, TaggedTest, compare_taggings
    from calque.text.span_labels import has_spans

    arguments, options = request.arguments, request.options
    conll, columns = request.files["--conll"], request.columns
    refuse_idle_columns(columns, conll)
    taggers = {
        argument.name: load(argument, Tagger, device=options.device, precision=options.precision)
        for argument in arguments
        if not argument.is_file
    }
    first = next(iter(taggers.values()), None)
    layout, labels, words = _layout(conll, columns=columns, tagger=first)
    sentences = _sentences(conll, layout=layout, columns=layout.least(words, labels))
    gold = [rows.column(layout.number(labels)) for rows in sentences]
    systems = []
    for argument in arguments:
        if argument.is_file:
            rows = _sentences(argument.path, layout=layout, columns=layout.least(words, labels))
            systems.append(
                TaggedSystem(argument.name, [part.column(layout.number(labels)) for part in rows], argument.facts)
            )
            continue
        tagger = taggers[argument.name]
        if tagger.task.labels != labels:
            raise ConfigError(
                f"{argument.path} predicts {tagger.task.labels!r}, but {arguments[0].name} predicts {labels!r}; only "
                "taggers that predict the same labels can be compared"
            )
        systems.append(_tag(argument, tagger, sentences, layout=layout))
    is_spans = has_spans({label for row in gold for label in row})
    test = TaggedTest([rows.column(layout.number(words)) for rows in sentences], gold, is_spans, {"path": str(conll)})
    return compare_taggings(test, systems, samples=options.randomisation)


def _layout(path: Path, *, columns: str | None, tagger: "Tagger | None") -> "tuple[ColumnLayout, str, str]":
    """The column layout of a file of labelled words, and the names of its label column and its word column."""
    from calque.engine.tag_files import ColumnLayout

    is_columns = bool(columns or (tagger is not None and tagger.columns))
    format: ColumnFormat = found_format(path, is_columns=is_columns) or "columns"
    if tagger is not None:
        return (
            ColumnLayout.of(tagger, format=format, names=column_names(columns)),
            tagger.task.labels,
            tagger.task.words,
        )
    if format == "conllu":
        from calque.data.corpora import CONLLU_NAMES

        return ColumnLayout(format, CONLLU_NAMES), "upos", "form"
    names = column_names(columns) or ("form", "label")
    return ColumnLayout("columns", names), names[-1], names[0]


def _sentences(path: Path, *, layout: "ColumnLayout", columns: int) -> "list[ColumnSentence]":
    from calque.data.column_files import file_sentences

    sentences = [rows for rows in file_sentences(path, format=layout.format, columns=columns) if rows.cells]
    if not sentences:
        raise DataError(f"{path}: the file contains no words")
    return sentences


def _tag(argument: Argument, tagger: "Tagger", sentences: "Sequence[ColumnSentence]", *, layout: "ColumnLayout") -> Any:
    from calque.commands.progress import counting
    from calque.evaluation.comparison.taggings import TaggedSystem

    started, labels = time.perf_counter(), []
    with counting(f"labelling with {argument.name}", total=len(sentences)) as advance:
        for tagged in tagger.stream(layout.sentence(rows, tagger=tagger) for rows in sentences):
            labels.append(tagged.labels)
            advance(1)
    words = sum(map(len, labels))
    pace = speed(time.perf_counter() - started, len(labels), words, device=str(tagger.device))
    facts = model_facts(argument, tagger)
    return TaggedSystem(argument.name, labels, facts | {"speed": pace})


def tagging_tables(document: Document) -> Iterator[Block]:
    """The tables of a comparison of taggers, each with its title."""
    test, systems, metrics = document["test"], document["systems"], document["metrics"]
    names = names_of(systems)
    tested = metrics if document["randomisation"]["samples"] else []
    rows: list[Row] = [
        [
            "system",
            *(metric["title"] for metric in metrics),
            *(f"p of {metric['title'].removesuffix(', %')}" for metric in tested),
            "different",
        ]
    ]
    for system in systems:
        p_values = system["p_values"] or {}
        different = "" if system["different"] is None else f"{system['different']:,} words"
        scores = [f"{system['scores'][metric['name']]:.2f}" for metric in metrics]
        rows.append(
            [system["name"], *scores, *(p_value_text(p_values.get(metric["name"])) for metric in tested), different]
        )
    yield (
        f"{test['path']}: {test['words']:,} words in {test['sentences']:,} sentences{significance_note(document)}",
        aligned(rows),
    )
    yield from size_and_speed(systems, names, unit="words")
    for title, entries in (("F1 of spans, %, by type", document["spans"]), ("F1 of labels, %", document["labels"])):
        if entries:
            shown = entries[:SHOWN_LABELS]
            cells = [[f"{100 * score['f1']:.2f}" for score in entry["systems"]] for entry in shown]
            counts = [f"{entry['support']:,}" for entry in shown]
            yield title, bucket_rows(["", "number", *names], [entry["label"] for entry in shown], counts, cells)
    for system in systems:
        yield f"most frequent confusions of {system['name']}", _confusions(system["confusion"])


def _confusions(confusion: Document) -> list[str]:
    labels, table = confusion["labels"], confusion["counts"]
    errors = [
        (count, labels[row], labels[column])
        for row, counts in enumerate(table)
        for column, count in enumerate(counts)
        if count and row != column
    ]
    errors.sort(key=lambda error: (-error[0], error[1:]))
    rows = [[gold, predicted, f"{count:,}"] for count, gold, predicted in errors[:SHOWN_CONFUSIONS]]
    return aligned([["gold", "predicted", "words"], *rows], left=2)


TAGGING = TaskComparison(
    "tagging",
    "--conll",
    "--conll for taggers",
    compare_labels,
    tagging_tables,
    takes=frozenset({"--columns"}),
)
