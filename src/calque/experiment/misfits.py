"""Settings that cannot be combined: for each kind of model, sentences that say which and what to set instead."""

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
    """The sections of an experiment."""

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
    "objective", "subwords", "forms", "smoothing", "compile", "gradients", "invalid", "weights", "shortlist"
]

IS_SET: dict[Setting, Callable[[Sections], object]] = {
    "objective": lambda sections: sections.training.objective != ObjectiveConfig(),
    "subwords": lambda sections: not isinstance(sections.training.subwords, FixedConfig),
    "forms": lambda sections: isinstance(sections.text, FormsConfig),
    "smoothing": lambda sections: sections.training.label_smoothing,
    "compile": lambda sections: sections.training.compile,
    "gradients": lambda sections: sections.training.watch_gradients,
    "invalid": lambda sections: sections.data.invalid != "fail",
    "weights": lambda sections: any(getattr(corpus, "weight", 1) != 1 for corpus in sections.data.train),
    "shortlist": lambda sections: sections.search.shortlist,
}
"""Whether an experiment changes a setting that only some models have."""


def misfits(sections: Sections) -> list[str]:
    """Why settings of an experiment cannot be combined, one sentence each; empty if they can."""
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


def unsupported(sections: Sections, reasons: Mapping[Setting, str], *, others: str = "translation") -> list[str]:
    """The reasons against the settings that an experiment changes; no model but `others` samples subwords."""
    kind = sections.training.subwords.kind
    all_reasons = {"subwords": f"training.subwords.kind = {kind!r} is for {others}; set it to 'fixed'", **reasons}
    return [all_reasons[setting] for setting, is_set in IS_SET.items() if setting in all_reasons and is_set(sections)]


def output_misfits(sections: Sections, output: OutputConfig) -> list[str]:
    """Why label smoothing and an output layer cannot be combined; empty if they can."""
    smoothing = sections.training.label_smoothing
    if not smoothing or output.kind == "full":
        return []
    return [
        f"training.label_smoothing = {smoothing} and model.output.kind = {output.kind!r} cannot be combined, as "
        "smoothing needs the probabilities of all words; set training.label_smoothing = 0"
    ]


def coverage_misfits(search: SearchConfig, decoder: str) -> list[str]:
    """Why a coverage penalty and a kind of decoder cannot be combined; empty if they can."""
    if search.coverage <= 0 or decoder not in ("recurrent", "cho"):
        return []
    return [
        f"search.coverage = {search.coverage} and model.decoder.kind = {decoder!r} cannot be combined, as that decoder "
        "has no attention; set search.coverage = 0"
    ]


def translation_misfits(sections: Sections, model: ModelConfig) -> list[str]:
    """Why settings of translation cannot be combined, one sentence each."""
    training, search = sections.training, sections.search
    if isinstance(sections.text, FormsConfig):
        return ["text.kind = 'forms' is for taggers; source and target are text, e.g. with text.kind = 'tokens'"]
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
    """Why settings of a statistical translation model cannot be combined, one sentence each."""
    reasons: dict[Setting, str] = {
        "objective": "training.objective is for neural models; a statistical model is estimated from counts",
        "forms": "text.kind = 'forms' is for taggers; source and target are text, e.g. with text.kind = 'words'",
        "weights": "data.train: a statistical model counts every pair once, so weight must be 1",
    }
    problems = unsupported(sections, reasons, others="neural models")
    if sections.search != SearchConfig():
        problems.append(
            "search: beam search is for neural models; model.search has the limits of stack decoding, which a "
            "statistical model uses"
        )
    return problems


def language_misfits(sections: Sections, model: LanguageModelConfig) -> list[str]:
    """Why settings of a language model cannot be combined, one sentence each."""
    training, task, search = sections.training, sections.task, sections.search
    reasons: dict[Setting, str] = {
        "objective": "training.objective is for translation; a language model minimises the cross-entropy of its text",
        "forms": "text.kind = 'forms' is for taggers; a language model reads text, e.g. with text.kind = 'tokens'",
        "shortlist": "search.shortlist is for translation: a language model has no source; set it to false",
    }
    if model.network.kind == "ngram":
        reasons["smoothing"] = "training.label_smoothing: an n-gram model is not trained by gradients; set it to 0"
        reasons["weights"] = "data.train: an n-gram model counts every line once, so weight must be 1"
    elif isinstance(task, LanguageModellingConfig) and task.reading == "running":
        reasons["weights"] = "data.train: running text is read from end to end, so weight must be 1"
    problems = unsupported(sections, reasons)
    if sections.text.kind == "columns":
        problems.append("text.kind = 'columns' is for source and target; a language model has one text")
    if search.coverage > 0:
        problems.append(
            f"search.coverage = {search.coverage} needs attention over a source, which a language model does not have; "
            "set search.coverage = 0"
        )
    if search.method == "risk":
        problems.append("search.method = 'risk' is for translation; a language model generates with 'sample' or 'beam'")
    if isinstance(task, LanguageModellingConfig) and task.reading == "running":
        if training.batch.shapes == "static" and task.jitter:
            problems.append("task.jitter and training.batch.shapes = 'static' cannot be combined; turn one of them off")
        if task.stride > task.context:
            problems.append(f"task.stride = {task.stride} is more than task.context = {task.context}")
    return problems


def tagging_misfits(sections: Sections, model: TaggerConfig | HiddenMarkovConfig) -> list[str]:
    """Why settings of a tagger cannot be combined, one sentence each."""
    smoothing, invalid, text = sections.training.label_smoothing, sections.data.invalid, sections.text
    reasons: dict[Setting, str] = {
        "objective": "training.objective is for translation; a tagger minimises the loss of its labels",
        "compile": "training.compile: taggers are not compiled; set it to false",
        "invalid": f"data.invalid = {invalid!r} is for text; labelled words that are not UTF-8 are always rejected "
        "with file and line",
    }
    problems = []
    if isinstance(model, HiddenMarkovConfig):
        reasons["smoothing"] = (
            "training.label_smoothing: a hidden Markov tagger is not trained by gradients; set it to 0"
        )
        reasons["weights"] = "data.train: a hidden Markov tagger counts every sentence once, so weight must be 1"
        if isinstance(sections.task, TaggingConfig) and sections.task.inputs:
            problems.append(
                "task.inputs: a hidden Markov tagger reads words alone; leave it out, or train another system"
            )
    elif model.head == "crf":
        reasons["smoothing"] = (
            f"training.label_smoothing = {smoothing} and model.head = 'crf' cannot be combined, as a CRF has "
            "probabilities of label sequences only; set it to 0, or model.head = 'softmax'"
        )
    if not isinstance(text, FormsConfig):
        problems.append(f"text.kind = {text.kind!r}: a tagger needs a list of words; set it to 'forms'")
    return unsupported(sections, reasons) + problems


def embedding_misfits(sections: Sections) -> list[str]:
    """Why settings of a sentence encoder cannot be combined, one sentence each."""
    smoothing = sections.training.label_smoothing
    reasons: dict[Setting, str] = {
        "objective": "training.objective is for translation; a sentence encoder has its contrastive loss only",
        "forms": "text.kind = 'forms' is for taggers; source and target are text, e.g. with 'tokens'",
        "smoothing": f"training.label_smoothing = {smoothing}: pairs have no labels; set it to 0",
        "compile": "training.compile: sentence encoders are not compiled; set it to false",
        "gradients": "training.watch_gradients: gradient flow is not measured for sentence encoders; set it to 0",
    }
    problems = unsupported(sections, reasons)
    if sections.data.aligned:
        problems.append("data.train: word alignments are for translation; leave them out")
    return problems


def recommendation_misfits(sections: Sections, model: RecommenderConfig) -> list[str]:
    """Why settings of a recommender cannot be combined, one sentence each."""
    smoothing, invalid = sections.training.label_smoothing, sections.data.invalid
    reasons: dict[Setting, str] = {
        "objective": "training.objective is for translation; a recommender minimises the loss of model.output",
        "compile": "training.compile: recommenders are not compiled; set it to false",
        "gradients": "training.watch_gradients: the gradient flow of recommenders is not recorded; set it to 0",
        "invalid": f"data.invalid = {invalid!r} is for text; ids that are not UTF-8 are always rejected with file and "
        "line",
    }
    if model.output.kind != "full":
        reasons["smoothing"] = (
            f"training.label_smoothing = {smoothing} and model.output.kind = {model.output.kind!r} cannot be combined, "
            "as smoothing needs the scores of all items; set training.label_smoothing = 0"
        )
    problems = unsupported(sections, reasons)
    if sections.text != SentencePieceConfig():
        problems.append("text: a recommender reads items, not text; remove the section")
    return problems


def recognition_misfits(sections: Sections, model: RecogniserConfig) -> list[str]:
    """Why settings of a recogniser cannot be combined, one sentence each."""
    text, search, smoothing = sections.text, sections.search, sections.training.label_smoothing
    reasons: dict[Setting, str] = {
        "objective": "training.objective is for translation; a recogniser minimises the loss of its transcripts",
        "compile": "training.compile: recognisers are not compiled; set it to false",
        "gradients": "training.watch_gradients: gradient flow is not measured for speech recognisers; set it to 0",
    }
    if model.head == "ctc":
        reasons["smoothing"] = (
            f"training.label_smoothing = {smoothing} and model.head = 'ctc' cannot be combined, as CTC has "
            "probabilities of whole texts; set it to 0"
        )
    problems = unsupported(sections, reasons)
    if text.kind in ("forms", "columns"):
        problems.append(f"text.kind = {text.kind!r}: transcripts are one text, e.g. text.kind = 'characters'")
    if sections.data.invalid == "replace":
        problems.append("data.invalid = 'replace' is for text; recordings that cannot be read: 'fail' or 'skip'")
    if search.method != "beam" or search.shortlist:
        setting = "shortlist = true" if search.shortlist else f"method = {search.method!r}"
        problems.append(f"search.{setting} is for translation; speech is decoded with search.method = 'beam'")
    return problems


def captioning_misfits(sections: Sections, model: CaptionerConfig) -> list[str]:
    """Why settings of a captioner cannot be combined, one sentence each."""
    text, task, search, stride = sections.text, sections.task, sections.search, model.image.stride
    reasons: dict[Setting, str] = {
        "objective": "training.objective is for translation; a captioner minimises the cross-entropy of captions",
        "compile": "training.compile: captioners are not compiled; set it to false",
        "gradients": "training.watch_gradients: the gradients of captioners are not measured; set it to 0",
        "shortlist": "search.shortlist is for translation: an image has no words; set it to false",
    }
    problems = unsupported(sections, reasons) + coverage_misfits(search, model.decoder.kind)
    if text.kind in ("forms", "columns"):
        problems.append(f"text.kind = {text.kind!r} is for other tasks; captions are one text")
    if search.method != "beam":
        problems.append(f"search.method = {search.method!r}: captions are found by beam search; set it to 'beam'")
    if isinstance(task, CaptioningConfig) and task.size % stride:
        problems.append(
            f"task.size = {task.size} must be a multiple of the {stride} pixels that a vector of model.image stands "
            f"for, e.g. {max(1, round(task.size / stride)) * stride}"
        )
    return problems
