"""The tasks that `calque inspect` supports, by the kind of model."""

from collections.abc import Sequence
from typing import Any

from calque.commands.inspect_captioners import CaptionInspection
from calque.commands.inspect_language_models import TextInspection
from calque.commands.inspect_phrases import PhraseInspection
from calque.commands.inspect_recognisers import RecordingInspection
from calque.commands.inspect_recommenders import RecommendationInspection
from calque.commands.inspect_similarity import SimilarityInspection
from calque.commands.inspect_taggers import TaggingInspection
from calque.commands.inspect_task import TaskInspection
from calque.commands.inspect_translations import TranslationInspection
from calque.engine import (
    Captioner,
    Loaded,
    PhraseTranslator,
    Recogniser,
    Recommender,
    SentenceEncoder,
    Tagger,
    TextGenerator,
    Translator,
)
from calque.errors import ConfigError

TASKS: dict[type[Loaded], TaskInspection[Any, Any]] = {
    Translator: TranslationInspection(),
    PhraseTranslator: PhraseInspection(),
    TextGenerator: TextInspection(),
    Tagger: TaggingInspection(),
    Recommender: RecommendationInspection(),
    SentenceEncoder: SimilarityInspection(),
    Captioner: CaptionInspection(),
    Recogniser: RecordingInspection(),
}


def refuse_options(task: TaskInspection[Any, Any], given: Sequence[str]) -> None:
    """Raises a ConfigError for options that a task does not support; the message names the models that do."""
    for name in given:
        if name not in task.options:
            *others, last = [other.models for other in TASKS.values() if name in other.options]
            supported = f"{', '.join(others)} and {last}" if others else last
            raise ConfigError(
                f"{name}: supported for {supported} only, but this model is for {task.task}; leave it out"
            )
