"""`calque compare --text`: compares language models by the loss of each word."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from calque.commands import compared_systems
from calque.commands.compare_tables import bucket_rows, names_of, p_value_text, significance_note, size_and_speed
from calque.commands.compare_task import Block, ComparisonRequest, Document, TaskComparison, refuse_files
from calque.commands.compared_systems import Argument, corpus_texts, load, model_facts, read_lines, speed
from calque.commands.tables import Row, aligned
from calque.errors import DataError

if TYPE_CHECKING:
    from calque.evaluation.comparison.language_models import TrainingText


def compare_texts(request: ComparisonRequest) -> Document:
    """Compares language models on a text, without its blank lines; returns the comparison as a JSON document."""
    from calque.commands.progress import counting
    from calque.engine import TextGenerator
    from calque.evaluation.comparison.language_models import ScoredSystem, TextTest, compare_language_models

    arguments, options, text = request.arguments, request.options, request.files["--text"]
    refuse_files(
        arguments, "language models are compared by the losses that they compute, so output files cannot be compared"
    )
    lines = [line for line in read_lines(text) if line.strip()]
    if not lines:
        raise DataError(f"{text}: every line is blank, so there is nothing to predict")
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
    train = request.train_text
    training = _count_words(arguments, lines, train=train) if request.training_data or train else None
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


def language_model_tables(document: Document) -> Iterator[Block]:
    """The tables of a comparison of language models, each with its title."""
    test, systems, metrics = document["test"], document["systems"], document["metrics"]
    names = names_of(systems)
    tested = ["p-value"] if document["randomisation"]["samples"] else []
    rows: list[Row] = [["system", *(metric["title"] for metric in metrics), "per piece", "pieces", *tested]]
    for system in systems:
        scores = [f"{system['scores'][metric['name']]:.3f}" for metric in metrics]
        rows.append(
            [
                system["name"],
                *scores,
                f"{system['per_piece']:.3f}",
                f"{system['pieces']:,}",
                *(p_value_text(system["p_value"]) for _ in tested),
            ]
        )
    size = f"{test['words']:,} words in {test['lines']:,} lines, line ends counted"
    yield f"{test['path']}: {size}{significance_note(document)}", aligned(rows)
    yield from size_and_speed(systems, names, unit="words")
    for section in document["sections"]:
        cells = [[f"{row[place]:.3f}" for row in section["nats"]] for place in range(len(section["buckets"]))]
        counts = [f"{count:,}" for count in section["counts"]]
        yield (
            f"{section['title']}, nats per word",
            bucket_rows(["", "words", *names], section["buckets"], counts, cells),
        )


LANGUAGE_MODELLING = TaskComparison(
    "language-modelling",
    "--text",
    "--text for language models",
    compare_texts,
    language_model_tables,
    takes=frozenset({"--train-text", "--no-training-data"}),
)
