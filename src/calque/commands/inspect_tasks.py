"""How `calque inspect` shows the models of each task: as tables, as JSON values, as pictures."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from calque.commands.inspect_histories import recommendation_brief, recommendation_lines
from calque.commands.inspect_phrases import draw_phrases, phrase_brief, phrase_lines
from calque.commands.inspect_similarity import similarity_lines
from calque.commands.inspect_task_text import tagging_brief, tagging_lines, text_brief, text_lines
from calque.commands.inspect_text import Brief, sentence_brief, sentence_lines
from calque.engine import Loaded, PhraseTranslator, Recommender, SentenceEncoder, Tagger, TextGenerator, Translator
from calque.inspection import pictures, task_pictures
from calque.inspection.document import model_summary, sentence_values
from calque.inspection.phrase_view import phrase_summary, phrase_values
from calque.inspection.recommendation import (
    RECOMMENDATION_PICTURES,
    draw_recommendation,
    recommendation_values,
    recommender_summary,
)
from calque.inspection.sentence_similarity import (
    SIMILARITY_PICTURES,
    draw_similarity,
    encoder_summary,
    similarity_values,
)
from calque.inspection.task_documents import tagger_summary, tagging_values, text_values

STATES = "states"
STATISTICAL = "statistical translation"


class Shown(NamedTuple):
    """The functions that format the inspection results of one task: as lines of text, as JSON and as pictures."""

    task: str
    lines: Callable[..., Iterator[str]]  # (view, name=)
    brief: Callable[..., Brief] | None  # (view); None if a view shows many sentences
    values: Callable[..., dict[str, Any]]  # (view, weights=)
    summary: Callable[..., dict[str, Any]]  # (model, name=)
    draw: Callable[..., list[str]]  # (path, view, picture=)
    pictures: tuple[str, ...]  # the first one by default


TASKS: dict[type[Loaded], Shown] = {
    Translator: Shown(
        "translation",
        sentence_lines,
        sentence_brief,
        sentence_values,
        model_summary,
        pictures.draw,
        (*pictures.PICTURES, STATES),
    ),
    TextGenerator: Shown(
        "language-modelling",
        text_lines,
        text_brief,
        text_values,
        model_summary,
        task_pictures.draw_text,
        tuple(task_pictures.TEXT_PICTURES),
    ),
    Tagger: Shown(
        "tagging",
        tagging_lines,
        tagging_brief,
        tagging_values,
        tagger_summary,
        task_pictures.draw_tagging,
        tuple(task_pictures.TAGGING_PICTURES),
    ),
    Recommender: Shown(
        "recommendation",
        recommendation_lines,
        recommendation_brief,
        recommendation_values,
        recommender_summary,
        draw_recommendation,
        tuple(RECOMMENDATION_PICTURES),
    ),
    PhraseTranslator: Shown(
        STATISTICAL, phrase_lines, phrase_brief, phrase_values, phrase_summary, draw_phrases, ("phrases",)
    ),
    SentenceEncoder: Shown(
        "embedding",
        similarity_lines,
        None,
        similarity_values,
        encoder_summary,
        draw_similarity,
        tuple(SIMILARITY_PICTURES),
    ),
}
