"""The root config, which contains everything that a run depends on, and how its values are collected."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from calque.config import Config, Values, check, flat, override, read_toml, to_values
from calque.data.corpora import DataConfig
from calque.experiment.misfits import misfits
from calque.models.systems import SYSTEMS, AnyModelConfig, system_model
from calque.search.settings import SearchConfig
from calque.tasks.captioning import CaptioningConfig
from calque.tasks.embedding import EmbeddingConfig
from calque.tasks.language_modelling import LanguageModellingConfig
from calque.tasks.recognition import RecognitionConfig
from calque.tasks.recommendation import RecommendationConfig
from calque.tasks.tagging import TaggingConfig
from calque.tasks.translation import TranslationConfig
from calque.text import GivenConfig, SentencePieceConfig, TextConfig
from calque.text.training import with_kind
from calque.training.runs import CONFIG
from calque.training.settings import TrainingConfig

TaskConfig = Annotated[
    TranslationConfig
    | LanguageModellingConfig
    | TaggingConfig
    | EmbeddingConfig
    | RecommendationConfig
    | RecognitionConfig
    | CaptioningConfig,
    Field(discriminator="kind"),
]

MODELS = {
    "translation": ("encoder-decoder", "phrase-based"),
    "language-modelling": ("language-model",),
    "tagging": ("tagger", "hidden-markov"),
    "embedding": ("sentence-encoder",),
    "recommendation": ("recommender",),
    "recognition": ("recogniser",),
    "captioning": ("captioner",),
}
DEFAULT_SYSTEMS = {
    "translation": "tiny",
    "language-modelling": "language",
    "tagging": "huang2015",
    "embedding": "sentences",
    "recommendation": "kang2018",
    "recognition": "speech",
    "captioning": "xu2015",
}
"""For each task, the kinds of models that it trains (MODELS), the default first, and its default system."""
TASKS = {kind: task for task, kinds in MODELS.items() for kind in kinds}
"""For each kind of model, its task."""


class Experiment(Config):
    """Everything that a run depends on: the sections of a config file.

    >>> corpus = {"kind": "files", "source": "train.de", "target": "train.en"}
    >>> experiment = Experiment(data={"train": [corpus]}, training={"steps": 2000})
    >>> calque.train(experiment, run="runs/1")
    """

    seed: int = Field(default=1, ge=0)
    """The same seed, data and machine give the same bytes."""
    task: TaskConfig = TranslationConfig()
    data: DataConfig
    text: TextConfig = SentencePieceConfig()
    model: Annotated[AnyModelConfig, Field(discriminator="kind")] = SYSTEMS["tiny"].model
    training: TrainingConfig = TrainingConfig()
    search: SearchConfig = SearchConfig()

    @model_validator(mode="before")
    @classmethod
    def _usual_kinds(cls, values: Any) -> Any:
        """Fills in the default `kind` of sections without one: text.vocabulary_size can be set without text.kind.

        The kind of task is derived from the kind of model, and vice versa.
        """
        return with_kinds(values) if isinstance(values, dict) else values

    @model_validator(mode="after")
    def _fitting_parts(self) -> "Experiment":
        task, kinds = self.task.kind, MODELS[self.task.kind]
        if self.model.kind not in kinds:
            listed = " or ".join(map(repr, kinds))
            raise ValueError(f"task.kind = {task!r} needs model.kind = {listed}, not {self.model.kind!r}")
        if problems := misfits(self):
            raise ValueError("; ".join(problems))
        return self


class OwnKind(Config):
    """The task section of a run of a custom task."""

    kind: Literal["own"] = "own"


class OwnExperiment(Config):
    """The config of a run of a custom task."""

    seed: int = Field(default=1, ge=0)
    """The same seed, data and machine give the same bytes."""
    task: OwnKind = OwnKind()
    training: TrainingConfig = TrainingConfig()


def with_kinds(values: Values) -> Values:
    """The values of an experiment, with the kinds of its text, model and task sections filled in.

    For tasks other than translation, the model section and a label smoothing of 0 are filled in too if missing.
    """
    task, model, text = (values.get(name) for name in ("task", "model", "text"))
    if isinstance(model, dict) and (task is None or (isinstance(task, dict) and "kind" not in task)):
        kind = TASKS.get(str(model.get("kind", "encoder-decoder")), "translation")
        task = {"kind": kind, **(task or {})}
    if isinstance(task, dict):
        task = {"kind": "translation", **task}
        values = {**values, "task": task}
        kind = str(task["kind"])
        if isinstance(model, dict) and kind in MODELS:
            values = {**values, "model": {"kind": MODELS[kind][0], **model}}
        elif model is None and kind in MODELS and kind != "translation":
            values = {**values, "model": to_values(SYSTEMS[DEFAULT_SYSTEMS[kind]].model)}
        if task["kind"] == "tagging" and (text is None or isinstance(text, dict)):
            values, text = {**values, "text": {"kind": "forms", **(text or {})}}, None
        if isinstance(model, dict) and model.get("kind") == "phrase-based":
            values, text = {**values, "text": with_kind(words_by_default(text))}, None
        if task["kind"] == "recognition" and (text is None or (isinstance(text, dict) and "kind" not in text)):
            values, text = {**values, "text": {"kind": "characters", **(text or {})}}, None
        training = values.get("training", {})
        if task["kind"] != "translation" and isinstance(training, dict):
            values = {**values, "training": {"label_smoothing": 0.0, **training}}
    if isinstance(text, dict):
        values = {**values, "text": with_kind(text)}
    return values


def words_by_default(text: Any) -> Any:
    """The text section of the config of a statistical translation model, with the defaults of such models filled in.

    If the section is missing (None), or its kind is missing or "words", then the kind is "words" and the vocabulary
    size, unless it is set, is 1,000,000, enough for all words of most corpora. Other sections are returned unchanged.
    """
    if text is None or (isinstance(text, dict) and text.get("kind", "words") == "words"):
        return {"kind": "words", "vocabulary_size": 1_000_000, **(text or {})}
    return text


def experiment_values(
    *, config: Path | None, system: str | None, corpora: Values, assignments: Sequence[str], scale: float = 1.0
) -> Values:
    """Collects the values of an experiment from the arguments of a command; later arguments override earlier ones."""
    values = read_toml(config) if config else {}
    if system is not None:
        values = {**values, "model": to_values(system_model(system, scale=scale))}
        assigned_task = any(text.partition("=")[0].strip() == "task.kind" for text in assignments)
        if "task" not in values and not assigned_task:
            values = {**values, "task": {"kind": TASKS[values["model"]["kind"]]}}
    values = {**values, "data": {**values.get("data", {}), **corpora}} if corpora else values
    return override(values, assignments, of=Experiment)


def differences(values: Values, *, run: Path) -> list[str]:
    """Lists where the config of a run differs from `values`; keys that are missing from `values` are ignored."""
    experiment = check(Experiment, values, origin="config")
    actual = dict(flat(read_toml(run / CONFIG)))
    expected = dict(flat(absolute(values, experiment)))
    return [
        f"{key} is {actual.get(key)!r}, not {value!r}" for key, value in expected.items() if actual.get(key) != value
    ]


def absolute(values: Values, experiment: Experiment) -> Values:
    """`values` with every path of the data section absolute, so that a run can be resumed from anywhere."""
    data = {key: value for key, value in values["data"].items() if key not in ("train", "valid", "store")}
    for role in ("train", "valid"):
        corpora = getattr(experiment.data, role)
        if corpora:
            data[role] = [_absolute_paths(to_values(corpus)) for corpus in corpora]
    if experiment.data.store is not None:
        data["store"] = experiment.data.store.absolute()
    text = values.get("text", {})
    if isinstance(experiment.text, GivenConfig):
        text = {**text, "path": str(experiment.text.path.absolute())}
    training = values.get("training", {})
    if experiment.training.warm_start is not None:
        training = {**training, "warm_start": str(experiment.training.warm_start.absolute())}
    changed = {"data": data, "text": text, "training": training}
    return {**values, **{key: value for key, value in changed.items() if value}}


def _absolute_paths(corpus: Values) -> Values:
    return {
        key: str(Path(value).absolute()) if key in ("source", "target", "path", "alignments") else value
        for key, value in corpus.items()
    }
