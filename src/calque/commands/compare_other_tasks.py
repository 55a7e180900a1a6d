"""`calque compare --conll` and `--text`: taggers and language models."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calque.commands import compared_systems
from calque.commands.column_options import column_names, is_conllu, refuse_idle_columns
from calque.commands.compared_systems import Argument, Options, corpus_texts, load, model_facts, read_lines, speed
from calque.errors import ConfigError, DataError

if TYPE_CHECKING:
    from calque.data.column_files import ColumnFormat, ColumnSentence
    from calque.engine import Tagger
    from calque.engine.tag_files import ColumnLayout
    from calque.evaluation.comparison.language_models import TrainingText


def compare_texts(
    arguments: Sequence[Argument],
    *,
    text: Path,
    train: list[Path] | None,
    training_data: bool,
    options: Options,
) -> dict[str, Any]:
    """The document that compares language models on a text; blank lines are left out."""
    from calque.commands.progress import counting
    from calque.engine import TextGenerator
    from calque.evaluation.comparison.language_models import ScoredSystem, TextTest, compare_language_models

    _refuse_files(arguments, "language models are compared by the losses they compute")
    lines = [line for line in read_lines(text) if line.strip()]
    if not lines:
        raise DataError(f"{text}: every line is blank: there is nothing to predict")
    systems = []
    for argument in arguments:
        generator = load(argument, TextGenerator, device=options.device, precision=options.precision)
        started, losses, pieces = time.perf_counter(), [], 0
        with counting(f"scoring with {argument.name}", total=len(lines)) as advance:
            for line in generator.word_losses(lines):
                losses.append(line.nats)
                pieces += line.pieces
                advance(1)
        facts = model_facts(argument, generator)
        words = sum(map(len, losses))
        pace = speed(time.perf_counter() - started, len(lines), words, device=str(generator.device))
        systems.append(ScoredSystem(argument.name, losses, pieces, facts | {"speed": pace}))
    training = _count_words(arguments, lines, train=train) if training_data or train else None
    test = TextTest(lines, {"path": str(text)})
    return compare_language_models(test, systems, training=training, samples=options.randomisation)


def _count_words(
    arguments: Sequence[Argument], lines: Sequence[str], *, train: list[Path] | None
) -> "TrainingText | None":
    """How often the words of the test set occur in the training data; None if no training data is known."""
    from calque.data.corpora import TextFileConfig
    from calque.evaluation.comparison.language_models import TrainingText

    if train:
        corpora, origin = [TextFileConfig(path=path) for path in train], ", ".join(map(str, train))
    elif recorded := compared_systems.training_data(arguments):
        data, origin = recorded
        corpora = [corpus for corpus in data.train if isinstance(corpus, TextFileConfig)]
    else:
        return None
    wanted, frequencies, count = {word for line in lines for word in line.split()}, Counter[str](), 0
    for (line,) in corpus_texts(corpora):
        frequencies.update(word for word in line.split() if word in wanted)
        count += 1
    return TrainingText(frequencies, count, origin)


def _refuse_files(arguments: Sequence[Argument], reason: str) -> None:
    files = [str(argument.path) for argument in arguments if argument.is_file]
    if files:
        raise ConfigError(f"{', '.join(files)}: not a run or model folder; {reason}")


def compare_labels(
    arguments: Sequence[Argument], *, conll: Path, columns: str | None, options: Options
) -> dict[str, Any]:
    """The document that compares taggers, or files that taggers labelled, on a file of labelled words."""
    from calque.engine import Tagger
    from calque.evaluation.comparison.taggings import TaggedSystem, TaggedTest, compare_taggings
    from calque.text.span_labels import has_spans

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
                f"{argument.path}: predicts {tagger.task.labels!r}, but {arguments[0].name} predicts {labels!r}; only "
                "taggers of the same labels can be compared"
            )
        systems.append(_tag(argument, tagger, sentences, layout=layout))
    is_spans = has_spans({label for row in gold for label in row})
    test = TaggedTest([rows.column(layout.number(words)) for rows in sentences], gold, is_spans, {"path": str(conll)})
    return compare_taggings(test, systems, samples=options.randomisation)


def _layout(path: Path, *, columns: str | None, tagger: "Tagger | None") -> "tuple[ColumnLayout, str, str]":
    """The layout of the file, and the names of its columns of labels and words."""
    from calque.engine.tag_files import ColumnLayout

    format: ColumnFormat = "conllu" if is_conllu(path) else "columns"
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
        raise DataError(f"{path}: no sentence with words")
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
