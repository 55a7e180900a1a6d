"""The root config: everything a run depends on, and how its values are collected."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, assert_never

from pydantic import Field, model_validator

from calque.config import Config, Values, check, flat, override, read_toml, to_values
from calque.data.corpora import DataConfig
from calque.data.subword_regularisation import FixedConfig
from calque.data.subword_regularisation import misfits as subword_misfits
from calque.layers.adaptive import AdaptiveOutputConfig
from calque.models.captioner import CaptionerConfig
from calque.models.hidden_markov import HiddenMarkovConfig
from calque.models.language_model import LanguageModelConfig
from calque.models.model import ModelConfig
from calque.models.outputs import OutputConfig
from calque.models.phrase_based import PhraseBasedConfig
from calque.models.recogniser import RecogniserConfig
from calque.models.recommender import RecommenderConfig
from calque.models.sentence_encoder import SentenceEncoderConfig
from calque.models.systems import SYSTEMS, AnyModelConfig, system_model
from calque.models.tagger import TaggerConfig
from calque.objectives.objective import ObjectiveConfig
from calque.objectives.objective import misfits as objective_misfits
from calque.search.settings import SearchConfig
from calque.tasks.captioning import CaptioningConfig
from calque.tasks.embedding import EmbeddingConfig
from calque.tasks.language_modelling import LanguageModellingConfig
from calque.tasks.recognition import RecognitionConfig
from calque.tasks.recommendation import RecommendationConfig
from calque.tasks.tagging import TaggingConfig
from calque.tasks.translation import TranslationConfig
from calque.text import FormsConfig, GivenConfig, SentencePieceConfig, TextConfig
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
"""For each task, the kinds of models that it trains (MODELS), the usual kind first, and its default system."""
TASKS = {kind: task for task, kinds in MODELS.items() for kind in kinds}
"""For each kind of model, its task."""


class Experiment(Config):
    """Everything a run depends on: the sections of a config file.

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
        """Fills in the default kind of sections without one, so that text.vocabulary_size=4000 is enough.

        The kind of task follows from the kind of model, and the other way round.
        """
        return with_kinds(values) if isinstance(values, dict) else values

    @model_validator(mode="after")
    def _fitting_parts(self) -> "Experiment":
        task, kinds = self.task.kind, MODELS[self.task.kind]
        if self.model.kind not in kinds:
            listed = " or ".join(map(repr, kinds))
            raise ValueError(f"task.kind = {task!r} trains model.kind = {listed}, not {self.model.kind!r}")
        match self.model:
            case ModelConfig():
                problems = output_misfits(self, self.model.output) + translation_misfits(self)
            case LanguageModelConfig():
                problems = output_misfits(self, self.model.output) + language_misfits(self)
            case TaggerConfig():
                problems = tagging_misfits(self, self.model)
            case PhraseBasedConfig():
                problems = phrase_misfits(self)
            case SentenceEncoderConfig():
                problems = embedding_misfits(self)
            case RecommenderConfig():
                problems = recommendation_misfits(self, self.model)
            case RecogniserConfig():
                problems = recognition_misfits(self, self.model)
            case HiddenMarkovConfig():
                problems = tagging_misfits(self, self.model)
            case CaptionerConfig():
                problems = captioning_misfits(self, self.model)
            case _:
                assert_never(self.model)
        if problems:
            raise ValueError("; ".join(problems))
        return self


class OwnKind(Config):
    """The task section of a run of a user's own task."""

    kind: Literal["own"] = "own"


class OwnExperiment(Config):
    """The config of a run of a user's own task."""

    seed: int = Field(default=1, ge=0)
    """The same seed, data and machine give the same bytes."""
    task: OwnKind = OwnKind()
    training: TrainingConfig = TrainingConfig()


def with_kinds(values: Values) -> Values:
    """The values of an experiment, with the kinds of its text, model and task sections filled in.

    For tasks other than translation, a missing model section and label smoothing (0) are filled in too.
    """
    task, model, text = (values.get(name) for name in ("task", "model", "text"))
    if isinstance(model, dict) and (task is None or (isinstance(task, dict) and "kind" not in task)):
        kind = TASKS.get(model.get("kind", "encoder-decoder"), "translation")
        task = {"kind": kind, **(task or {})}
    if isinstance(task, dict):
        task = {"kind": "translation", **task}
        values = {**values, "task": task}
        if isinstance(model, dict) and task["kind"] in MODELS:
            values = {**values, "model": {"kind": MODELS[task["kind"]][0], **model}}
        elif model is None and task["kind"] in MODELS and task["kind"] != "translation":
            values = {**values, "model": to_values(SYSTEMS[DEFAULT_SYSTEMS[task["kind"]]].model)}
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
    """A text section of a statistical translation model: all words of the corpus, unless it has another kind."""
    if text is None or (isinstance(text, dict) and text.get("kind", "words") == "words"):
        return {"kind": "words", "vocabulary_size": 1_000_000, **(text or {})}
    return text


def output_misfits(experiment: Experiment, output: OutputConfig) -> list[str]:
    """Why label smoothing and an output layer cannot be combined; empty if they can."""
    smoothing = experiment.training.label_smoothing
    if not smoothing or output.kind == "full":
        return []
    return [
        f"training.label_smoothing = {smoothing} and model.output.kind = {output.kind!r} cannot be combined, as "
        "smoothing needs the probabilities of all words; set training.label_smoothing = 0"
    ]


def tagging_misfits(experiment: Experiment, model: TaggerConfig | HiddenMarkovConfig) -> list[str]:
    """Why settings of a tagger cannot be combined, one sentence each."""
    training = experiment.training
    problems = []
    if training.objective != ObjectiveConfig():
        problems.append("training.objective is for translation; a tagger minimises the loss of its labels")
    if not isinstance(training.subwords, FixedConfig):
        problems.append(f"training.subwords.kind = {training.subwords.kind!r} is for translation; set it to 'fixed'")
    if not isinstance(experiment.text, FormsConfig):
        problems.append(f"text.kind = {experiment.text.kind!r}: a tagger needs a list of words; set it to 'forms'")
    if isinstance(model, HiddenMarkovConfig):
        problems += hidden_markov_misfits(experiment)
    elif training.label_smoothing and model.head == "crf":
        problems.append(
            f"training.label_smoothing = {training.label_smoothing} and model.head = 'crf' cannot be combined, as a "
            "CRF has probabilities of label sequences only; set it to 0, or model.head = 'softmax'"
        )
    if training.compile:
        problems.append("training.compile: taggers are not compiled; set it to false")
    if experiment.data.invalid != "fail":
        problems.append(
            f"data.invalid = {experiment.data.invalid!r} is for text; labelled words that are not UTF-8 are always "
            "rejected with file and line"
        )
    return problems


def phrase_misfits(experiment: Experiment) -> list[str]:
    """Why settings of a statistical translation model cannot be combined, one sentence each."""
    training = experiment.training
    problems = []
    if isinstance(experiment.text, FormsConfig):
        problems.append("text.kind = 'forms' is for taggers; source and target are text, e.g. with text.kind = 'words'")
    if experiment.search != SearchConfig():
        problems.append(
            "search: beam search is for neural models; model.search has the limits of stack decoding, which a "
            "statistical model uses"
        )
    if training.objective != ObjectiveConfig():
        problems.append("training.objective is for neural models; a statistical model is estimated from counts")
    if not isinstance(training.subwords, FixedConfig):
        problems.append(f"training.subwords.kind = {training.subwords.kind!r} is for neural models; set it to 'fixed'")
    if any(corpus.weight != 1 for corpus in experiment.data.train):
        problems.append("data.train: a statistical model counts every pair once, so weight must be 1")
    return problems


def embedding_misfits(experiment: Experiment) -> list[str]:
    """Why settings of a sentence encoder cannot be combined, one sentence each."""
    training = experiment.training
    problems = []
    if isinstance(experiment.text, FormsConfig):
        problems.append("text.kind = 'forms' is for taggers; source and target are text, e.g. with 'tokens'")
    if training.objective != ObjectiveConfig():
        problems.append("training.objective is for translation; a sentence encoder has its contrastive loss only")
    if not isinstance(training.subwords, FixedConfig):
        problems.append(f"training.subwords.kind = {training.subwords.kind!r} is for translation; set it to 'fixed'")
    if training.label_smoothing:
        problems.append(f"training.label_smoothing = {training.label_smoothing}: pairs have no labels; set it to 0")
    if training.compile:
        problems.append("training.compile: sentence encoders are not compiled; set it to false")
    if training.watch_gradients:
        problems.append("training.watch_gradients: gradient flow is not measured for sentence encoders; set it to 0")
    if experiment.data.aligned:
        problems.append("data.train: word alignments are for translation; leave them out")
    return problems


def recommendation_misfits(experiment: Experiment, model: RecommenderConfig) -> list[str]:
    """Why settings of a recommender cannot be combined, one sentence each."""
    training = experiment.training
    problems = []
    if training.objective != ObjectiveConfig():
        problems.append("training.objective is for translation; a recommender minimises the loss of model.output")
    if not isinstance(training.subwords, FixedConfig):
        problems.append(f"training.subwords.kind = {training.subwords.kind!r} is for translation; set it to 'fixed'")
    if experiment.text != SentencePieceConfig():
        problems.append("text: a recommender reads items, not text; remove the section")
    if training.label_smoothing and model.output.kind != "full":
        problems.append(
            f"training.label_smoothing = {training.label_smoothing} and model.output.kind = {model.output.kind!r} "
            "cannot be combined, as smoothing needs the scores of all items; set training.label_smoothing = 0"
        )
    if training.compile:
        problems.append("training.compile: recommenders are not compiled; set it to false")
    if training.watch_gradients:
        problems.append("training.watch_gradients: the gradient flow of recommenders is not recorded; set it to 0")
    if experiment.data.invalid != "fail":
        problems.append(
            f"data.invalid = {experiment.data.invalid!r} is for text; ids that are not UTF-8 are always rejected with "
            "file and line"
        )
    return problems


def recognition_misfits(experiment: Experiment, model: RecogniserConfig) -> list[str]:
    """Why settings of a recogniser cannot be combined, one sentence each."""
    training, search = experiment.training, experiment.search
    problems = []
    if training.objective != ObjectiveConfig():
        problems.append("training.objective is for translation; a recogniser minimises the loss of its transcripts")
    if not isinstance(training.subwords, FixedConfig):
        problems.append(f"training.subwords.kind = {training.subwords.kind!r} is for translation; set it to 'fixed'")
    if experiment.text.kind in ("forms", "columns"):
        problems.append(
            f"text.kind = {experiment.text.kind!r}: transcripts are one text, e.g. text.kind = 'characters'"
        )
    if training.label_smoothing and model.head == "ctc":
        problems.append(
            f"training.label_smoothing = {training.label_smoothing} and model.head = 'ctc' cannot be combined, as CTC "
            "has probabilities of whole texts; set it to 0"
        )
    if training.compile:
        problems.append("training.compile: recognisers are not compiled; set it to false")
    if training.watch_gradients:
        problems.append("training.watch_gradients: gradient flow is not measured for speech recognisers; set it to 0")
    if experiment.data.invalid == "replace":
        problems.append("data.invalid = 'replace' is for text; recordings that cannot be read: 'fail' or 'skip'")
    if search.method != "beam" or search.shortlist:
        setting = "shortlist = true" if search.shortlist else f"method = {search.method!r}"
        problems.append(f"search.{setting} is for translation; speech is decoded with search.method = 'beam'")
    return problems


def hidden_markov_misfits(experiment: Experiment) -> list[str]:
    """Why settings of a hidden Markov tagger cannot be combined, one sentence each."""
    problems = []
    if experiment.training.label_smoothing:
        problems.append("training.label_smoothing: a hidden Markov tagger is not trained by gradients; set it to 0")
    if isinstance(experiment.task, TaggingConfig) and experiment.task.inputs:
        problems.append("task.inputs: a hidden Markov tagger reads words alone; leave it out, or train another system")
    if any(getattr(corpus, "weight", 1) != 1 for corpus in experiment.data.train):
        problems.append("data.train: a hidden Markov tagger counts every sentence once, so weight must be 1")
    return problems


def captioning_misfits(experiment: Experiment, model: CaptionerConfig) -> list[str]:
    """Why settings of a captioner cannot be combined, one sentence each."""
    training, task, search = experiment.training, experiment.task, experiment.search
    problems = []
    if training.objective != ObjectiveConfig():
        problems.append("training.objective is for translation; a captioner minimises the cross-entropy of captions")
    if not isinstance(training.subwords, FixedConfig):
        problems.append(f"training.subwords.kind = {training.subwords.kind!r} is for translation; set it to 'fixed'")
    if isinstance(experiment.text, FormsConfig) or experiment.text.kind == "columns":
        problems.append(f"text.kind = {experiment.text.kind!r} is for other tasks; captions are one text")
    if training.compile:
        problems.append("training.compile: captioners are not compiled; set it to false")
    if training.watch_gradients:
        problems.append("training.watch_gradients: the gradients of captioners are not measured; set it to 0")
    if search.shortlist:
        problems.append("search.shortlist is for translation: an image has no words; set it to false")
    if search.method != "beam":
        problems.append(f"search.method = {search.method!r}: captions are found by beam search; set it to 'beam'")
    if search.coverage > 0 and model.decoder.kind in ("recurrent", "cho"):
        problems.append(
            f"search.coverage = {search.coverage} and model.decoder.kind = {model.decoder.kind!r} cannot be combined, "
            "as that decoder has no attention; set search.coverage = 0"
        )
    if isinstance(task, CaptioningConfig) and task.size % model.image.stride:
        problems.append(
            f"task.size = {task.size} must be a multiple of the {model.image.stride} pixels that a vector of "
            f"model.image stands for, e.g. {max(1, round(task.size / model.image.stride)) * model.image.stride}"
        )
    return problems


def translation_misfits(experiment: Experiment) -> list[str]:
    """Why settings of translation cannot be combined, one sentence each."""
    model, training = experiment.model, experiment.training
    assert isinstance(model, ModelConfig)
    if isinstance(experiment.text, FormsConfig):
        return ["text.kind = 'forms' is for taggers; source and target are text, e.g. with text.kind = 'tokens'"]
    problems = objective_misfits(
        training.objective,
        model=model,
        data=experiment.data,
        subwords=training.subwords,
        sharded=training.sharded,
        compiled=training.compile,
    )
    problems += subword_misfits(training.subwords, text=experiment.text, batch=training.batch)
    coverage, kind = experiment.search.coverage, model.decoder.kind
    if coverage > 0 and kind in ("recurrent", "cho"):
        problems.append(
            f"search.coverage = {coverage} and model.decoder.kind = {kind!r} cannot be combined, as that decoder "
            "has no attention; set search.coverage = 0"
        )
    if experiment.search.shortlist and (model.copies or isinstance(model.output, AdaptiveOutputConfig)):
        part = "model.decoder.copies = true" if model.copies else "model.output.kind = 'adaptive'"
        problems.append(f"search.shortlist = true and {part} cannot be combined; set search.shortlist = false")
    return problems


def language_misfits(experiment: Experiment) -> list[str]:
    """Why settings of a language model cannot be combined, one sentence each."""
    training, task, search = experiment.training, experiment.task, experiment.search
    problems = []
    if isinstance(experiment.text, FormsConfig):
        problems.append(
            "text.kind = 'forms' is for taggers; a language model reads text, e.g. with text.kind = 'tokens'"
        )
    if training.objective != ObjectiveConfig():
        problems.append(
            "training.objective is for translation; a language model minimises the cross-entropy of its text"
        )
    if not isinstance(training.subwords, FixedConfig):
        problems.append(f"training.subwords.kind = {training.subwords.kind!r} is for translation; set it to 'fixed'")
    if experiment.text.kind == "columns":
        problems.append("text.kind = 'columns' is for source and target; a language model has one text")
    if search.coverage > 0:
        problems.append(
            f"search.coverage = {search.coverage} needs attention over a source, which a language model does not have; "
            "set search.coverage = 0"
        )
    model = experiment.model
    if isinstance(model, LanguageModelConfig) and model.network.kind == "ngram":
        if training.label_smoothing:
            problems.append("training.label_smoothing: an n-gram model is not trained by gradients; set it to 0")
        if any(corpus.weight != 1 for corpus in experiment.data.train):
            problems.append("data.train: an n-gram model counts every line once, so weight must be 1")
    if search.shortlist:
        problems.append("search.shortlist is for translation: a language model has no source; set it to false")
    if search.method == "risk":
        problems.append("search.method = 'risk' is for translation; a language model generates with 'sample' or 'beam'")
    if isinstance(task, LanguageModellingConfig) and task.reading == "running":
        if any(corpus.weight != 1 for corpus in experiment.data.train):
            problems.append("data.train: running text is read from end to end, so weight must be 1")
        if training.batch.shapes == "static" and task.jitter:
            problems.append("task.jitter and training.batch.shapes = 'static' cannot be combined; turn one of them off")
        if task.stride > task.context:
            problems.append(f"task.stride = {task.stride} is more than task.context = {task.context}")
    return problems


def experiment_values(
    *, config: Path | None, system: str | None, corpora: Values, assignments: Sequence[str], scale: float = 1.0
) -> Values:
    """The values of an experiment from the arguments of a command; later arguments override earlier ones."""
    values = read_toml(config) if config else {}
    if system is not None:
        values = {**values, "model": to_values(system_model(system, scale=scale))}
        assigned_task = any(text.partition("=")[0].strip() == "task.kind" for text in assignments)
        if "task" not in values and not assigned_task:
            values = {**values, "task": {"kind": TASKS[values["model"]["kind"]]}}
    values = {**values, "data": {**values.get("data", {}), **corpora}} if corpora else values
    return override(values, assignments, of=Experiment)


def differences(values: Values, *, run: Path) -> list[str]:
    """Messages on where the config of a run differs from `values`; keys that `values` does not have are ignored."""
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
