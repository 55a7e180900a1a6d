"""`calque evaluate --conll`: scores the labels that a tagger predicts for a file of labelled words."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from calque.commands.column_options import column_names, found_format, refuse_idle_columns
from calque.commands.inputs import device_and_precision, refuse_unreadable
from calque.errors import DataError

if TYPE_CHECKING:
    from calque.engine import Tagger
    from calque.evaluation.spans import SpanScores


class Labels(NamedTuple):
    """The gold and predicted labels of each sentence of a file."""

    gold: list[list[str]]
    predicted: list[list[str]]


def evaluate_tagger(
    model: Path,
    *,
    conll: Path,
    columns: str | None,
    confusion: Path | None,
    as_json: bool,
    device: str,
    precision: str,
) -> None:
    """Prints accuracy and span scores on a file, and plots the confusion matrix to `confusion` if it is given."""
    from calque.commands.loading import load_to_evaluate
    from calque.commands.output import refuse_output
    from calque.engine import Tagger
    from calque.evaluation.confusion import count_confusions, draw_confusion, token_accuracy
    from calque.evaluation.spans import score_spans

    device_name, precision_name = device_and_precision(device, precision)
    refuse_idle_columns(columns, conll)
    refuse_unreadable(conll)
    refuse_output(confusion, conll)
    tagger = load_to_evaluate(model, Tagger, device=device_name, precision=precision_name)
    labels = _label(tagger, conll, columns=columns)
    confusions = count_confusions(labels.predicted, gold=labels.gold)
    spans = score_spans(labels.predicted, gold=labels.gold) if _has_spans(tagger) else None
    _warn_unseen(tagger, labels.gold, path=conll)
    if confusion is not None and not draw_confusion(confusion, confusions):
        typer.echo(
            "--confusion: nothing was plotted, because matplotlib is not installed (pip install matplotlib)", err=True
        )
    _print_scores(100 * token_accuracy(confusions), spans, gold=labels.gold, as_json=as_json)


def _print_scores(accuracy: float, spans: "SpanScores | None", *, gold: list[list[str]], as_json: bool) -> None:
    words, sentences = sum(map(len, gold)), len(gold)
    if as_json:
        values = {"accuracy": accuracy, "words": words, "sentences": sentences}
        typer.echo(json.dumps({**values, **(_span_values(spans) if spans else {})}, indent=1))
        return
    typer.echo(f"{'accuracy':16} {accuracy:7.2f}   {words:,} words in {sentences:,} sentences")
    if spans:
        typer.echo(f"{'spans':16} {'F1':>7}  {'precision':>9}  {'recall':>7}  {'number':>7}")
        for name, score in {"all": spans.micro, **spans.types}.items():
            shares = f"{100 * score.f1:7.2f}  {100 * score.precision:9.2f}  {100 * score.recall:7.2f}"
            typer.echo(f"{name:16} {shares}  {score.support:7,}")


def _label(tagger: "Tagger", path: Path, *, columns: str | None) -> Labels:
    from calque.data.column_files import file_sentences
    from calque.engine.tag_files import ColumnLayout

    format = found_format(path, is_columns=bool(columns or tagger.columns)) or "columns"
    layout = ColumnLayout.of(tagger, format=format, names=column_names(columns))
    task = tagger.task
    minimum = layout.least(task.words, task.labels, *task.inputs)
    sentences = [rows for rows in file_sentences(path, format=layout.format, columns=minimum) if rows.cells]
    if not sentences:
        raise DataError(f"{path}: the file contains no words")
    gold = [rows.column(layout.number(task.labels)) for rows in sentences]
    tagged = tagger.stream(layout.sentence(rows, tagger=tagger) for rows in sentences)
    return Labels(gold, [sentence.labels for sentence in tagged])


def _has_spans(tagger: "Tagger") -> bool:
    from calque.text.span_labels import has_spans

    score = tagger.task.score
    return score == "spans" or (score == "auto" and has_spans(tagger.vocabularies.labels))


def _warn_unseen(tagger: "Tagger", gold: list[list[str]], *, path: Path) -> None:
    """Warns about labels that cannot be predicted because they do not occur in the training data."""
    counts = Counter(label for labels in gold for label in labels)
    unseen = {
        label: count for label, count in counts.most_common() if label not in tagger.vocabularies.predicted_labels
    }
    if unseen:
        listed = ", ".join(f"{label} ({count:,})" for label, count in list(unseen.items())[:10])
        typer.echo(
            f"{path}: these labels do not occur in the training data and always count as errors: {listed}", err=True
        )


def _span_values(spans: "SpanScores") -> dict[str, object]:
    return {
        **{name: 100 * getattr(spans.micro, name) for name in ("precision", "recall", "f1")},
        "types": {name: score._asdict() for name, score in spans.types.items()},
    }
