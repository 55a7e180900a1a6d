"""`calque evaluate --conll`: the scores of a tagger."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from calque.commands.inputs import choice, refuse_unreadable
from calque.commands.tag import load_tagger, names_of
from calque.commands.train import is_conllu
from calque.errors import DataError

if TYPE_CHECKING:
    from calque.engine import Tagger
    from calque.evaluation.spans import SpanScores


class Labelled(NamedTuple):
    """The labels of a file's sentences."""

    gold: list[list[str]]
    predicted: list[list[str]]


def evaluate_tagger(
    model: Path,
    conll: Path,
    *,
    columns: str | None,
    confusion: Path | None,
    as_json: bool,
    device: str,
    precision: str,
) -> None:
    """Prints accuracy and span scores on a file, and draws the confusions where that was asked for."""
    from calque.commands.output import refuse_output
    from calque.devices import DEVICES, PRECISIONS
    from calque.evaluation.confusion import count_confusions, draw_confusion, token_accuracy
    from calque.evaluation.spans import score_spans

    where = choice(device, DEVICES, option="--device")
    fine = choice(precision, PRECISIONS, option="--precision")
    refuse_unreadable(conll)
    refuse_output(confusion, conll)
    tagger = load_tagger(model, device=where, precision=fine)
    labelled = _label(tagger, conll, columns=columns)
    confusions = count_confusions(labelled.predicted, gold=labelled.gold)
    spans = score_spans(labelled.predicted, gold=labelled.gold) if _has_spans(tagger) else None
    _say_unseen(tagger, labelled.gold, path=conll)
    words, sentences = sum(map(len, labelled.gold)), len(labelled.gold)
    accuracy = 100 * token_accuracy(confusions)
    if confusion is not None and not draw_confusion(confusion, confusions):
        typer.echo("--confusion: no picture: matplotlib is not installed (pip install matplotlib)", err=True)
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


def _label(tagger: "Tagger", path: Path, *, columns: str | None) -> Labelled:
    from calque.data.column_files import file_sentences
    from calque.engine.tag_files import ColumnLayout

    layout = ColumnLayout.of(tagger, format="conllu" if is_conllu(path) else "columns", names=names_of(columns))
    task = tagger.task
    least = layout.least(task.words, task.labels, *task.inputs)
    sentences = [rows for rows in file_sentences(path, format=layout.format, columns=least) if rows.cells]
    if not sentences:
        raise DataError(f"{path}: no sentence with words in it")
    gold = [rows.column(layout.number(task.labels)) for rows in sentences]
    tagged = tagger.stream(layout.sentence(rows, tagger=tagger) for rows in sentences)
    return Labelled(gold, [sentence.labels for sentence in tagged])


def _has_spans(tagger: "Tagger") -> bool:
    from calque.text.span_labels import has_spans

    score = tagger.task.score
    return score == "spans" or (score == "auto" and has_spans(tagger.vocabularies.labels))


def _say_unseen(tagger: "Tagger", gold: list[list[str]], *, path: Path) -> None:
    """Says on standard error which labels cannot be predicted, as no training sentence had them."""
    counts = Counter(label for labels in gold for label in labels)
    unseen = {
        label: count for label, count in counts.most_common() if label not in tagger.vocabularies.predicted_labels
    }
    if unseen:
        listed = ", ".join(f"{label} ({count:,})" for label, count in list(unseen.items())[:10])
        typer.echo(f"{path}: labels that no training sentence had, and which count as wrong: {listed}", err=True)


def _span_values(spans: "SpanScores") -> dict[str, object]:
    return {
        **{name: 100 * getattr(spans.micro, name) for name in ("precision", "recall", "f1")},
        "types": {name: score._asdict() for name, score in spans.types.items()},
    }
