"""The tasks that `calque inspect` knows, by the kind of model."""

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
