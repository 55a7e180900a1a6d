"""What the promises of training are tested on: a small experiment of every task, and one that a user brings."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import calque
from calque.config import override
from calque.experiment import OwnTask, Run
from calque.tasks.captioning import Captioning
from calque.tasks.embedding import Embedding
from calque.tasks.language_modelling import LanguageModelling
from calque.tasks.recognition import Recognition
from calque.tasks.recommendation import Recommendation
from calque.tasks.tagging import Tagging
from calque.tasks.translation import Translation
from tests.captioned import captioning_values
from tests.conftest import FAMILIES, toy_corpus
from tests.histories import recommendation_values
from tests.spoken import recognition_values
from tests.tagged import tagging_values
from tests.unit.experiment.frames_task import FramesCopy, frames_task

Values = dict[str, Any]

STEPS = 12
TRAINING: Values = {
    "steps": STEPS,
    "validate_every": 4,
    "checkpoint_every": 2,
    "log_every": 1,
    "keep": 20,
    "samples": 2,
    "threads": 1,
    "device": "cpu",
    "batch": {"tokens": 120},
    "schedule": {"warmup": 2},
    "optimiser": {"learning_rate": 0.01},
}


class Subject(NamedTuple):
    """A task, and how a run of it is begun."""

    task: type[Any]
    """The class whose `loss` a test may let fail."""
    metric: str
    """What selects models."""
    values: Callable[[Path], Values]
    """The experiment, its corpora written into that folder; without dropout, so that ranks can be compared."""
    dropout: tuple[str, ...]
    """The settings that bring dropout back, where what is drawn at random is to be kept too."""
    own: Callable[[], OwnTask] | None = None
    """The object that a user brings."""

    @property
    def precise(self) -> tuple[tuple[str, ...], float]:
        """Settings for the finest arithmetic of the task, and how much two ways to the same sum may differ there."""
        return (("training.precision=float64",), 1e-9) if self.own is None else ((), 1e-4)

    def experiment(self, folder: Path, *changes: str, dropout: bool = False) -> Values:
        """The values of a run whose corpora lie in that folder."""
        return override(self.values(folder), [*(self.dropout if dropout else ()), *changes])

    def train(self, run: Path, *changes: str, dropout: bool = False) -> Run:
        """A run in that folder; corpora lie beside it."""
        values = self.experiment(run.parent, *changes, dropout=dropout)
        return calque.train(values, run=run, task=self.own and self.own(), quiet=True)

    def resume(self, run: Path) -> Run:
        return calque.resume(run, task=self.own and self.own(), quiet=True)


def _translation(folder: Path) -> Values:
    files = {side: str(path) for side, path in toy_corpus(folder / "corpus").items()}
    values = {
        "data": {"train": [{"kind": "files", **files}]},
        "text": {"kind": "words"},
        "model": FAMILIES["luong"],
        "training": TRAINING,
    }
    return override(values, ["model.encoder.dropout=0.0", "model.decoder.dropout=0.0"])


def _language(network: Values, *, reading: str) -> Callable[[Path], Values]:
    def values(folder: Path) -> Values:
        generator = random.Random(1)
        lines = [" ".join(generator.choices("abcdefg", k=generator.randint(3, 20))) for _ in range(200)]
        (folder / "text").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return {
            "task": {"kind": "language-modelling", "reading": reading, "bptt": 6},
            "data": {"train": [{"kind": "text", "path": str(folder / "text")}], "validation": {"minimum": 10}},
            "text": {"kind": "tokens"},
            "model": {"network": network},
            "training": {**TRAINING, "batch": {"tokens": 48}, "label_smoothing": 0.0},
        }

    return values


def _tagging(folder: Path) -> Values:
    values = tagging_values(folder, **TRAINING)
    return override(values, ["model.dropout=0.0", "model.word_dropout=0.0", "model.encoder.dropout=0.0"])


def _embedding(folder: Path) -> Values:
    files = {side: str(path) for side, path in toy_corpus(folder / "corpus").items()}
    return {
        "task": {"kind": "embedding"},
        "data": {"train": [{"kind": "files", **files}]},
        "text": {"kind": "words"},
        "model": {"pooling": "attention", "projection": 10, "dropout": 0.0, "encoder": {**_LSTM, "layers": 2}},
        "training": TRAINING,
    }


def _recommendation(folder: Path) -> Values:
    return override(recommendation_values(folder, **TRAINING), ["model.network.dropout=0.0"])


def _recognition(folder: Path) -> Values:
    return recognition_values(folder, head="hybrid", recordings=40, **{**TRAINING, "batch": {"tokens": 300}})


def _captioning(folder: Path) -> Values:
    values = captioning_values(folder, captions=2, **{**TRAINING, "batch": {"tokens": 200}})
    return override(values, ["model.decoder.dropout=0.0"])


def _frames(_: Path) -> Values:
    return {"seed": 5, "training": {**TRAINING, "batch": {"tokens": 60}}}


_LSTM = {"kind": "recurrent", "layers": 1, "width": 12, "embedding": 10, "dropout": 0.0}
_TRANSFORMER = {"kind": "transformer", "layers": 1, "width": 12, "heads": 2, "feed_forward": 16, "dropout": 0.0}
SUBJECTS: Mapping[str, Subject] = {
    "translation": Subject(Translation, "exact_match", _translation, ("model.encoder.dropout=0.2",)),
    "language model of lines": Subject(
        LanguageModelling, "perplexity", _language(_TRANSFORMER, reading="lines"), ("model.network.dropout=0.2",)
    ),
    "language model of running text": Subject(
        LanguageModelling, "perplexity", _language(_LSTM, reading="running"), ("model.network.dropout=0.2",)
    ),
    "tagging": Subject(Tagging, "f1", _tagging, ("model.dropout=0.3", "model.word_dropout=0.1")),
    "embedding": Subject(Embedding, "top1", _embedding, ("model.dropout=0.2", "model.encoder.dropout=0.2")),
    "recommendation": Subject(Recommendation, "ndcg@10", _recommendation, ("model.network.dropout=0.2",)),
    "recognition": Subject(
        Recognition,
        "wer",
        _recognition,
        (
            "model.encoder.dropout=0.2",
            "model.augmentation.time_masks=2",
            "task.speeds=[90, 100, 110]",
            "model.perturbation.noise=[5, 50]",
        ),
    ),
    "captioning": Subject(Captioning, "bleu", _captioning, ("model.decoder.dropout=0.2",)),
    "own task": Subject(FramesCopy, "accuracy", _frames, (), own=lambda: frames_task(dropout=0.0)),
}
