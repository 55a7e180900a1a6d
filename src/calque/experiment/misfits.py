"""Finds settings that cannot be combined: for each kind of model, which they are and what to set instead."""

from collections.abc import Callable, Mapping
from typing import Literal, Protocol, assert_never

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
from calque.models.systems import AnyModelConfig
from calque.models.tagger import TaggerConfig
from calque.objectives.objective import ObjectiveConfig
from calque.objectives.objective import misfits as objective_misfits
from calque.search.settings import SearchConfig
from calque.tasks.captioning import CaptioningConfig
from calque.tasks.language_modelling import LanguageModellingConfig
from calque.tasks.tagging import TaggingConfig
from calque.text import FormsConfig, SentencePieceConfig, TextConfig
from calque.training.settings import TrainingConfig


class Sections(Protocol):
    """The config of an experiment, as far as it is checked here: one attribute per section."""

    @property
    def task(self) -> object: ...
    @property
    def data(self) -> DataConfig: ...
    @property
    def text(self) -> TextConfig: ...
    @property
    def model(self) -> AnyModelConfig: ...
    @property
    def training(self) -> TrainingConfig: ...
    @property
    def search(self) -> SearchConfig: ...


Setting = Literal[
    "objective",
    "subwords",
    "forms",
    "smoothing",
    "compile",
    "capture",
    "gradients",
    "invalid",
    "weights",
    "shortlist",
]

IS_SET: dict[Setting, Callable[[Sections], object]] = {
    "objective": lambda sections: sections.training.objective != ObjectiveConfig(),
    "subwords": lambda sections: not isinstance(sections.training.subwords, FixedConfig),
    "forms": lambda sections: isinstance(sections.text, FormsConfig),
    "smoothing": lambda sections: sections.training.label_smoothing,
    "compile": lambda sections: sections.training.compile,
    "capture": lambda sections: sections.training.capture,
    "gradients": lambda sections: sections.training.watch_gradients,
    "invalid": lambda sections: sections.data.invalid != "fail",
    "weights": lambda sections: any(getattr(corpus, "weight", 1) != 1 for corpus in sections.data.train),
    "shortlist": lambda sections: sections.search.shortlist,
}
"""For each setting that only some models support, a function that returns whether an experiment uses it."""


def misfits(sections: Sections) -> list[str]:
    """One sentence for each combination of settings that an experiment cannot have; empty if there is none."""
    match model := sections.model:
        case ModelConfig():
            return output_misfits(sections, model.output) + translation_misfits(sections, model)
        case LanguageModelConfig():
            return output_misfits(sections, model.output) + language_misfits(sections, model)
        case TaggerConfig() | HiddenMarkovConfig():
            return tagging_misfits(sections, model)
        case PhraseBasedConfig():
            return phrase_misfits(sections)
        case SentenceEncoderConfig():
            return embedding_misfits(sections)
        case RecommenderConfig():
            return recommendation_misfits(sections, model)
        case RecogniserConfig():
            return recognition_misfits(sections, model)
        case CaptionerConfig():
            return captioning_misfits(sections, model)
        case _:
            assert_never(model)


def unsupported(
    sections: Sections,
    reasons: Mapping[Setting, str],
    *,
    models: str,
    graphs: tuple[Setting, ...] = ("compile", "capture"),
) -> list[str]:
    """A message for each setting that the experiment uses although its kind of model does not support it.

    `reasons` maps unsupported settings to their messages. Subword sampling is checked too, as none of the
    models that this function is called for supports it, and so are the settings `graphs`, which turn training
    steps into graphs; their messages call the models `models`, e.g. "recommenders".
    """
    kind = sections.training.subwords.kind
    all_reasons: dict[Setting, str] = {
        "subwords": f"training.subwords.kind = {kind!r} is not supported for {models}; set it to 'fixed'",
        **{setting: f"training.{setting} is not supported for {models}; set it to false" for setting in graphs},
        **reasons,
    }
    return [all_reasons[setting] for setting, is_set in IS_SET.items() if setting in all_reasons and is_set(sections)]


def output_misfits(sections: Sections, output: OutputConfig) -> list[str]:
    """The reason why label smoothing and an output layer cannot be combined; empty if they can."""
    smoothing = sections.training.label_smoothing
    if not smoothing or output.kind == "full":
        return []
    return [
        f"training.label_smoothing = {smoothing} and model.output.kind = {output.kind!r} cannot be combined, as "
        "smoothing needs the probabilities of all words; set training.label_smoothing = 0"
    ]


def coverage_misfits(search: SearchConfig, decoder: str) -> list[str]:
    """The reason why a coverage penalty and a kind of decoder cannot be combined; empty if they can."""
    if search.coverage <= 0 or decoder not in ("recurrent", "cho"):
        return []
    return [
        f"search.coverage = {search.coverage} and model.decoder.kind = {decoder!r} cannot be combined, as that decoder "
        "has no attention; set search.coverage = 0"
    ]


def translation_misfits(sections: Sections, model: ModelConfig) -> list[str]:
    """One sentence for each combination of settings that a translation model cannot have."""
    training, search = sections.training, sections.search
    if isinstance(sections.text, FormsConfig):
        return ["text.kind = 'forms' is supported for taggers only; set it to e.g. 'tokens'"]
    problems = objective_misfits(
        training.objective,
        model=model,
        data=sections.data,
        subwords=training.subwords,
        sharded=training.sharded,
        compiled=training.compile,
    )
    problems += subword_misfits(training.subwords, text=sections.text, batch=training.batch)
    problems += coverage_misfits(search, model.decoder.kind)
    if search.shortlist and (model.copies or isinstance(model.output, AdaptiveOutputConfig)):
        part = "model.decoder.copies = true" if model.copies else "model.output.kind = 'adaptive'"
        problems.append(f"search.shortlist = true and {part} cannot be combined; set search.shortlist = false")
    return problems


def phrase_misfits(sections: Sections) -> list[str]:
    """One sentence for each combination of settings that a statistical translation model cannot have."""
    reasons: dict[Setting, str] = {
        "objective": "training.objective is not supported for statistical models, which are estimated from counts; "
        "leave it out",
        "forms": "text.kind = 'forms' is supported for taggers only; set it to e.g. 'words'",
        "weights": "data.train: a statistical model counts every pair once, so weight must be 1",
    }
    problems = unsupported(sections, reasons, models="statistical models")
    if sections.search.model_copy(update={"batch_tokens": None}) != SearchConfig():
        problems.append(
            "search: beam search is not supported for statistical models, which use stack decoding; set its limits in "
            "model.search instead"
        )
    return problems


def language_misfits(sections: Sections, model: LanguageModelConfig) -> list[str]:
    """The conflicts between these settings of a language model, one sentence each; an empty list if there are none."""
    training, task, search = sections.training, sections.task, sections.search
    reasons: dict[Setting, str] = {
        "objective": "training.objective is not supported for language models, which minimise cross-entropy; leave it "
        "out",
        "forms": "text.kind = 'forms' is supported for taggers only; set it to e.g. 'tokens'",
        "shortlist": "search.shortlist is not supported for language models, which have no source; set it to false",
    }
    if model.network.kind == "ngram":
        reasons["smoothing"] = (
            "training.label_smoothing has no effect on n-gram models, which are estimated from counts; set it to 0"
        )
        reasons["weights"] = "data.train: an n-gram model counts every line once, so weight must be 1"
    elif isinstance(task, LanguageModellingConfig) and task.reading == "running":
        reasons["weights"] = "data.train: running text is read from end to end, so weight must be 1"
    problems = unsupported(sections, reasons, models="language models", graphs=("capture",))
    if sections.text.kind == "columns":
        problems.append(
            "text.kind = 'columns' is for pairs, but a language model reads a single text; set it to e.g. 'tokens'"
        )
    if search.coverage > 0:
        problems.append(
            f"search.coverage = {search.coverage} needs attention over a source, which a language model does not have; "
            "set search.coverage = 0"
        )
    if search.method == "risk":
        problems.append("search.method = 'risk' is not supported for language models; set it to 'sample' or 'beam'")
    if isinstance(task, LanguageModellingConfig) and task.reading == "running":
        if training.batch.shapes == "static" and task.jitter:
            problems.append("task.jitter and training.batch.shapes = 'static' cannot be combined; turn one of them off")
        if task.stride > task.context:
            problems.append(f"task.stride = {task.stride} is more than task.context = {task.context}")
    return problems


def tagging_misfits(sections: Sections, model: TaggerConfig | HiddenMarkovConfig) -> list[str]:
    """One sentence for each combination of settings that a tagger cannot have."""
    smoothing, invalid, text = sections.training.label_smoothing, sections.data.invalid, sections.text
    reasons: dict[Setting, str] = {
        "objective": "training.objective is not supported for taggers, which minimise the loss of their labels; leave "
        "it out",
        "invalid": f"data.invalid = {invalid!r} is not supported for taggers, as labelled words that are not UTF-8 are "
        "always rejected with file and line; set it to 'fail'",
    }
    problems = []
    if isinstance(model, HiddenMarkovConfig):
        reasons["smoothing"] = (
            "training.label_smoothing has no effect on hidden Markov taggers, which are estimated from counts; set it "
            "to 0"
        )
        reasons["weights"] = "data.train: a hidden Markov tagger counts every sentence once, so weight must be 1"
        if isinstance(sections.task, TaggingConfig) and sections.task.inputs:
            problems.append(
                "task.inputs: a hidden Markov tagger reads only words; leave it out, or train another system"
            )
    elif model.head == "crf":
        reasons["smoothing"] = (
            f"training.label_smoothing = {smoothing} and model.head = 'crf' cannot be combined, as a CRF has "
            "probabilities of label sequences only; set training.label_smoothing = 0, or model.head = 'softmax'"
        )
    if not isinstance(text, FormsConfig):
        problems.append(f"text.kind = {text.kind!r}: a tagger needs a list of words; set it to 'forms'")
    return unsupported(sections, reasons, models="taggers") + problems


def embedding_misfits(sections: Sections) -> list[str]:
    """One sentence for each combination of settings that a sentence encoder cannot have."""
    smoothing = sections.training.label_smoothing
    reasons: dict[Setting, str] = {
        "objective": "training.objective is not supported for sentence encoders, which minimise a contrastive loss; "
        "leave it out",
        "forms": "text.kind = 'forms' is supported for taggers only; set it to e.g. 'tokens'",
        "smoothing": f"training.label_smoothing = {smoothing} is not supported for sentence encoders, as pairs have no "
        "labels; set it to 0",
        "gradients": "training.watch_gradients is not supported for sentence encoders; set it to 0",
    }
    problems = unsupported(sections, reasons, models="sentence encoders")
    if sections.data.aligned:
        problems.append("data.train: word alignments are not supported for sentence encoders; leave them out")
    return problems


def recommendation_misfits(sections: Sections, model: RecommenderConfig) -> list[str]:
    """One sentence for each combination of settings that a recommender cannot have."""
    smoothing, invalid = sections.training.label_smoothing, sections.data.invalid
    reasons: dict[Setting, str] = {
        "objective": "training.objective is not supported for recommenders, which minimise the loss of model.output; "
        "leave it out",
        "gradients": "training.watch_gradients is not supported for recommenders; set it to 0",
        "invalid": f"data.invalid = {invalid!r} is not supported for recommenders, as ids that are not UTF-8 are "
        "always rejected with file and line; set it to 'fail'",
    }
    if model.output.kind != "full":
        reasons["smoothing"] = (
            f"training.label_smoothing = {smoothing} and model.output.kind = {model.output.kind!r} cannot be combined, "
            "as smoothing needs the scores of all items; set training.label_smoothing = 0"
        )
    problems = unsupported(sections, reasons, models="recommenders")
    if sections.text != SentencePieceConfig():
        problems.append("text: a recommender reads items, not text; remove this section")
    return problems


def recognition_misfits(sections: Sections, model: RecogniserConfig) -> list[str]:
    """One sentence for each combination of settings that a speech recogniser cannot have."""
    text, search, smoothing = sections.text, sections.search, sections.training.label_smoothing
    reasons: dict[Setting, str] = {
        "objective": "training.objective is not supported for speech recognisers, which have losses of their own; "
        "leave it out",
        "gradients": "training.watch_gradients is not supported for speech recognisers; set it to 0",
    }
    if model.head == "ctc":
        reasons["smoothing"] = (
            f"training.label_smoothing = {smoothing} and model.head = 'ctc' cannot be combined, as CTC has "
            "probabilities of whole texts only; set training.label_smoothing = 0"
        )
    problems = unsupported(sections, reasons, models="speech recognisers", graphs=("compile",))
    if text.kind in ("forms", "columns"):
        problems.append(
            f"text.kind = {text.kind!r} is not supported for speech recognisers; set it to e.g. 'characters'"
        )
    if sections.data.invalid == "replace":
        problems.append("data.invalid = 'replace' is not supported for recordings; set it to 'fail' or 'skip'")
    if search.method != "beam" or search.shortlist:
        setting, value = (
            ("shortlist = true", "false") if search.shortlist else (f"method = {search.method!r}", "'beam'")
        )
        problems.append(f"search.{setting} is not supported for speech recognisers; set it to {value}")
    return problems


def captioning_misfits(sections: Sections, model: CaptionerConfig) -> list[str]:
    """One sentence for each combination of settings that a captioner cannot have."""
    text, task, search, stride = sections.text, sections.task, sections.search, model.image.stride
    reasons: dict[Setting, str] = {
        "objective": "training.objective is not supported for captioners, which minimise cross-entropy; leave it out",
        "gradients": "training.watch_gradients is not supported for captioners; set it to 0",
        "shortlist": "search.shortlist is not supported for captioners, as an image has no words; set it to false",
    }
    problems = unsupported(sections, reasons, models="captioners", graphs=("compile",)) + coverage_misfits(
        search, model.decoder.kind
    )
    if text.kind in ("forms", "columns"):
        problems.append(f"text.kind = {text.kind!r} is not supported for captioners; set it to e.g. 'words'")
    if search.method != "beam":
        problems.append(f"search.method = {search.method!r} is not supported for captioners; set it to 'beam'")
    if isinstance(task, CaptioningConfig) and task.size % stride:
        problems.append(
            f"task.size = {task.size} must be a multiple of {stride}, the side in pixels of the square that each "
            f"vector of model.image stands for, e.g. {max(1, round(task.size / stride)) * stride}"
        )
    return problems
