"""Settings that cannot be combined with a task are rejected by name, before anything is read."""

from typing import Any

import pytest

from calque.config import check, override
from calque.errors import ConfigError
from calque.experiment import Experiment

TASKS: dict[str, dict[str, Any]] = {
    "tagging": {"task": {"kind": "tagging"}, "data": {"train": [{"kind": "conllu", "path": "a"}]}},
    "language": {"task": {"kind": "language-modelling"}, "data": {"train": [{"kind": "text", "path": "a"}]}},
    "translation": {"data": {"train": [{"kind": "tsv", "path": "a"}]}},
    "embedding": {"task": {"kind": "embedding"}, "data": {"train": [{"kind": "tsv", "path": "a"}]}},
}
MISFITS = [
    ("tagging", "training.objective.word_dropout.source=0.1", "training.objective is not supported for taggers"),
    ("tagging", "training.subwords.kind=bpe-dropout", "training.subwords.kind = 'bpe-dropout' is not supported"),
    ("tagging", "text.kind=words", "text.kind = 'words': a tagger needs a list of words"),
    ("tagging", "training.label_smoothing=0.1", "model.head = 'crf' cannot be combined"),
    ("tagging", "training.compile=true training.batch.shapes=static", "training.compile is not supported for taggers"),
    ("tagging", "training.capture=true", "training.capture is not supported for taggers; set it to false"),
    ("language", "training.capture=true", "training.capture is not supported for language models; set it to false"),
    ("tagging", "data.invalid=skip", "data.invalid = 'skip' is not supported for taggers"),
    ("tagging", "model.kind=translation", "model.kind: 'translation' is not one of 'encoder-decoder'"),
    ("tagging", "model.kind=encoder-decoder", "task.kind = 'tagging' needs model.kind = 'tagger'"),
    (
        "language",
        "training.objective.word_dropout.source=0.1",
        "training.objective is not supported for language models",
    ),
    ("language", "training.subwords.kind=bpe-dropout", "training.subwords.kind = 'bpe-dropout' is not supported"),
    ("language", "search.coverage=0.2", "search.coverage = 0.2 needs attention over a source"),
    ("language", "search.method=risk", "search.method = 'risk' is not supported"),
    ("language", "text.kind=forms", "text.kind = 'forms' is supported for taggers only"),
    ("language", "text.source.kind=words text.target.kind=words", "text.kind = 'columns' is for pairs"),
    ("language", "task.reading=running task.stride=99 task.context=10", "task.stride = 99 is more than task.context"),
    (
        "language",
        "task.reading=running task.jitter=true training.batch.shapes=static",
        "task.jitter and training.batch.shapes = 'static' cannot be combined",
    ),
    (
        "language",
        'task.reading=running data.train=[{kind="text",path="a",weight=2.0}]',
        "running text is read from end to end, so weight must be 1",
    ),
    (
        "translation",
        "model.decoder.kind=recurrent model.encoder.kind=recurrent search.coverage=0.2",
        "search.coverage = 0.2 and model.decoder.kind = 'recurrent' cannot be combined",
    ),
    ("translation", "text.kind=forms", "text.kind = 'forms' is supported for taggers only"),
    ("embedding", "text.kind=forms", "text.kind = 'forms' is supported for taggers only"),
    ("embedding", "training.objective.word_dropout.source=0.1", "training.objective is not supported for sentence"),
    ("embedding", "training.subwords.kind=bpe-dropout", "training.subwords.kind = 'bpe-dropout' is not supported"),
    ("embedding", "training.label_smoothing=0.1", "pairs have no labels"),
    (
        "embedding",
        "training.compile=true training.batch.shapes=static",
        "training.compile is not supported for sentence encoders",
    ),
    ("embedding", "training.watch_gradients=true", "training.watch_gradients is not supported for sentence encoders"),
    ("embedding", "task.temperature=0", "task.temperature"),
    ("embedding", "model.kind=tagger", "task.kind = 'embedding' needs model.kind = 'sentence-encoder'"),
]


@pytest.mark.parametrize("task", TASKS)
def test_the_defaults_of_every_task_can_be_combined(task: str) -> None:
    assert check(Experiment, TASKS[task], origin="config").data.train


@pytest.mark.parametrize(("task", "assignments", "message"), MISFITS)
def test_misfits_are_named(task: str, assignments: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        check(Experiment, override(TASKS[task], assignments.split(), of=Experiment), origin="config")
    assert message in str(error.value)


@pytest.mark.parametrize(
    "values",
    [
        TASKS["translation"],
        {"task": {"kind": "recognition"}, "data": {"train": [{"kind": "audio", "path": "a"}]}},
        {"task": {"kind": "captioning"}, "data": {"train": [{"kind": "images", "path": "a"}]}},
    ],
    ids=["translation", "recognition", "captioning"],
)
def test_steps_of_these_tasks_can_be_captured(values: dict[str, Any]) -> None:
    training = check(Experiment, override(values, ["training.capture=true"], of=Experiment), origin="config").training
    assert training.captures and not training.compiles


@pytest.mark.parametrize(("task", "smoothing"), [("translation", 0.1), ("language", 0.0), ("tagging", 0.0)])
def test_labels_are_smoothed_in_translation_alone_unless_set(task: str, smoothing: float) -> None:
    assert check(Experiment, TASKS[task], origin="config").training.label_smoothing == smoothing
    if task != "tagging":
        values = override(TASKS[task], ["training.label_smoothing=0.2"], of=Experiment)
        assert check(Experiment, values, origin="config").training.label_smoothing == 0.2
