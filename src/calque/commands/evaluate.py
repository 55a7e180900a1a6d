"""The command `calque evaluate`, which scores a model on a test set."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from calque.commands.caption_scores import evaluate_captioner
from calque.commands.column_options import Columns
from calque.commands.language_model_scores import evaluate_language_model
from calque.commands.options import (
    Device,
    Precision,
    choice_option,
    count_option,
    file_option,
    model_argument,
    model_option,
    search_argument,
)
from calque.commands.recogniser_scores import evaluate_recogniser
from calque.commands.recommender_scores import evaluate_recommender
from calque.commands.retrieval_scores import POOLINGS, evaluate_retrieval
from calque.commands.tagger_scores import evaluate_tagger
from calque.commands.translation_scores import evaluate_translation
from calque.errors import ConfigError


class TaskScores(NamedTuple):
    """How the models of one task are scored.

    `option`, such as --sequences, selects the task. `evaluate` is called with the command's parameters that have an
    effect on the task, as keyword arguments.
    """

    option: str
    purpose: str
    evaluate: Callable[..., None]

    @property
    def options(self) -> set[str]:
        return set(inspect.signature(self.evaluate).parameters)


TASKS = (
    TaskScores("images", "is for a captioner", evaluate_captioner),
    TaskScores("audio", "is for a speech recogniser", evaluate_recogniser),
    TaskScores("target", "compares sentence vectors", evaluate_retrieval),
    TaskScores("sequences", "is for a recommender", evaluate_recommender),
    TaskScores("conll", "is for a tagger", evaluate_tagger),
    TaskScores("text", "is for a language model", evaluate_language_model),
    TaskScores("source", "is for a translation model", evaluate_translation),
)
"""All tasks. If the options of several are given, the first is selected; if there are none, the last (translation)."""

NEEDS = {
    "language": "--language needs --audio, the recordings on which a speech recogniser is scored",
    "pooling": "--pooling needs --source and --target, the pairs whose vectors are compared",
    "exclude_seen": "--exclude-seen and --include-seen need --sequences",
    "columns": "--columns and --confusion need --conll",
    "confusion": "--columns and --confusion need --conll",
}
"""The message for a task-specific option that is given without the option that selects its task."""


def evaluate(
    model: Annotated[Path, model_argument(help="A run or model folder.")],
    settings: Annotated[list[str] | None, search_argument(help="Search settings, e.g. length_penalty=1")] = None,
    *,
    source: Annotated[Path | None, file_option(help="Sentences, one per line (plain or compressed).")] = None,
    reference: Annotated[Path | None, file_option(help="The reference translations, one per line.")] = None,
    target: Annotated[
        Path | None,
        file_option(help="The translation (or other partner) of each --source line, to score sentence vectors."),
    ] = None,
    pooling: Annotated[
        str | None,
        choice_option(
            choices=POOLINGS,
            help="With --target: how to make one vector of a sentence's token vectors, as in `calque embed`.",
        ),
    ] = None,
    text: Annotated[Path | None, file_option(help="A text file, for a language model.")] = None,
    conll: Annotated[
        Path | None, file_option(help="A file of labelled words, for a tagger: CoNLL-U or columns.")
    ] = None,
    audio: Annotated[Path | None, file_option(help="A manifest of recordings, for a speech recogniser.")] = None,
    language: Annotated[
        Path | None, model_option(help="With --audio: decode with this language model, as in `calque transcribe`.")
    ] = None,
    images: Annotated[Path | None, file_option(help="A manifest of images and captions, for a captioner.")] = None,
    columns: Columns = None,
    confusion: Annotated[
        Path | None, file_option(help="With --conll: plot the confusion matrix to this PNG file.")
    ] = None,
    sequences: Annotated[
        Path | None,
        file_option(help="A file of user histories, for a recommender; the last item of each is the target."),
    ] = None,
    exclude_seen: Annotated[
        bool | None,
        typer.Option(
            "--exclude-seen/--include-seen",
            help="With --sequences: whether items of the history are left out of the ranking.",
        ),
    ] = None,
    beam: Annotated[int | None, count_option(help="The beam size.")] = None,
    output: Annotated[
        Path | None, file_option(help="Write the translations, transcripts or captions to this file.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Also compute this metric: rouge, distinct or token_error_rate. Repeat for several."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Score a model on a test set.

    Translation models are scored by BLEU, chrF and TER (sacreBLEU, with signatures), exact match and perplexity.
    Language models are scored by perplexity per piece, word and byte. Taggers are scored by accuracy and, if the labels
    describe spans, by the precision, recall and F1 of each type. Recommenders are scored by HR@k, NDCG@k and MRR over
    the whole catalogue, and speech recognisers by word and character error rates, with confidence intervals. Captioners
    are scored by BLEU, chrF and exact match and, if the manifest has boxes, by how much of the attention lies inside
    the box of an object while the object is named.

    With --target, the sentence vectors of any model are scored by retrieval: each source looks for its target among all
    targets, and each target for its source. The scores are top-1, top-5 and mean reciprocal rank.

    Examples:

        calque evaluate runs/1 --source test.de --reference test.en

        calque evaluate runs/1 length_penalty=1 coverage=0.2 --source test.de --reference test.en

        calque evaluate runs/subjects --source test.body --reference test.subject --metric rouge

        calque evaluate runs/english --text test.txt

        calque evaluate runs/captions --source test.en --target test.de

        calque evaluate runs/upos --conll test.conllu --confusion confusion.png

        calque evaluate runs/beauty --sequences users.txt

        calque evaluate runs/digits --audio test.jsonl --beam 10

        calque evaluate runs/speech --audio test.jsonl --language runs/english language_weight=0.3

        calque evaluate runs/captions --images test.jsonl
    """
    values = {
        "source": source,
        "reference": reference,
        "target": target,
        "pooling": pooling,
        "text": text,
        "conll": conll,
        "columns": columns,
        "confusion": confusion,
        "audio": audio,
        "language": language,
        "images": images,
        "sequences": sequences,
        "exclude_seen": exclude_seen,
        "settings": settings or [],
        "beam": beam,
        "output": output,
        "metric": metric or [],
    }
    task = next((task for task in TASKS if values[task.option] is not None), TASKS[-1])
    _refuse_idle(values, task=task)
    used = {name: value for name, value in values.items() if name in task.options}
    task.evaluate(model, **used, as_json=as_json, device=device, precision=precision)


def _refuse_idle(values: Mapping[str, object], *, task: TaskScores) -> None:
    """Raises a ConfigError if options were given that have no effect on this task."""
    idle = [name for name, value in values.items() if value not in (None, []) and name not in task.options]
    if not idle:
        return
    problems = list(dict.fromkeys(NEEDS[name] for name in idle if name in NEEDS and not _is_selected(name, values)))
    if task is not TASKS[-1]:
        listed = ", ".join("settings" if name == "settings" else f"--{name.replace('_', '-')}" for name in idle)
        problems.insert(0, f"--{task.option} {task.purpose} and cannot be combined with {listed}")
    raise ConfigError("; ".join(problems))


def _is_selected(name: str, values: Mapping[str, object]) -> bool:
    """Whether the options that are given in `values` select a task on which the option `name` has an effect."""
    return any(values[task.option] is not None for task in TASKS if name in task.options)
