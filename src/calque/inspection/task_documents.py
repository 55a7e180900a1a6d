"""Inspected texts and tagged sentences as JSON: the entry "sentences" of an inspection (see the module `document`).

A text (task "language-modelling"):

    {"text", "inputs": [start mark, pieces…], "pieces": [pieces…, end mark], "words": [[first, last]…],
     "log_prob", "perplexity": {"per_token", "per_word", "per_byte", "tokens", "words", "bytes"},
     "steps": [{"piece", "log_prob", "rank", "entropy", "runners_up", "copying": null}…],  // one per piece
     "next": [{"piece", "log_prob"}…],             // what could follow the text, most probable first
     "attention": null | {"maps": [Map…]},         // rows: predicted pieces; columns: inputs; zero above the diagonal
     "saliency": null | [{"method", "weights"}…],  // likewise
     "continuation": null | {"text", "pieces", "cut", "log_prob", "score", "steps", "beam"}}

`beam` has the format of a translation's beam tree. Its lengths count the pieces of the continuation alone; its scores
are those of the whole text.

A tagged sentence (task "tagging"):

    {"words": […], "columns": {name: [value per word]}, "unknown": [indices of words without a vector of their own],
     "labels": [names…],                           // inside the model: the columns of the matrices below
     "predicted": [label per word],                // as the tagger returns them
     "marginals": W, "emissions": [[score]…],      // rows: words; columns: labels
     "best": Path, "runner_up": Path | null, "changes": [indices of words whose label differs between them],
     "attention": null | {"maps": [Map…]},         // word × word
     "saliency": null | [{"method", "weights"}…]}  // rows: words whose label is predicted; columns: words that are read

with Path = {"labels", "score", "log_prob"}. The summary of a tagger has the entries of a translator's summary and
"head", "labels" and "transitions": null or {"weights": [[from row to column]…], "start", "end", "allowed":
{"transitions", "start", "end"}}. W is a matrix as `as_lists` or `as_base64` converts it, Map one of `attention_values`.
"""

from collections.abc import Sequence
from typing import Any

from calque.engine.tagger import Tagger
from calque.engine.text_generator import TextPerplexity
from calque.inspection.document import (
    Weights,
    as_lists,
    attention_values,
    beam_values,
    model_summary,
    rounded,
    saliency_values,
    spans,
    step_values,
)
from calque.inspection.language_model import Continuation, TextView
from calque.inspection.next_tokens import Alternative
from calque.inspection.tagging import LabelPath, TaggingView, Transitions, transitions_of
from calque.models.tagger import TaggerConfig


def text_values(view: TextView, *, weights: Weights = as_lists) -> dict[str, Any]:
    """An inspected text as JSON values, in the format at the top of this module."""
    return {
        "text": view.text,
        "inputs": view.inputs,
        "pieces": view.pieces,
        "words": spans(view.words),
        "log_prob": rounded(view.log_prob),
        "perplexity": _perplexity(view.perplexity),
        "steps": [step_values(step) for step in view.steps],
        "next": _alternatives(view.next),
        "attention": attention_values(view.maps, weights=weights),
        "saliency": saliency_values(view.saliency),
        "continuation": None if view.continuation is None else _continuation(view.continuation),
    }


def tagging_values(view: TaggingView, *, weights: Weights = as_lists) -> dict[str, Any]:
    """An inspected tagged sentence as JSON values, in the format at the top of this module."""
    return {
        "words": view.words,
        "columns": view.columns,
        "unknown": view.unknown,
        "labels": view.labels,
        "predicted": view.predicted,
        "marginals": weights(view.marginals),
        "emissions": as_lists(view.emissions),
        "best": _path(view.best),
        "runner_up": None if view.runner_up is None else _path(view.runner_up),
        "changes": view.changes,
        "attention": attention_values(view.maps, weights=weights),
        "saliency": saliency_values(view.saliency),
    }


def tagger_summary(tagger: Tagger, *, name: str) -> dict[str, Any]:
    """The entry "model" of an inspection's JSON for a tagger: `model_summary`, head, labels and transition scores."""
    transitions = transitions_of(tagger)
    return model_summary(tagger, name=name) | {
        "head": tagger.config.head if isinstance(tagger.config, TaggerConfig) else tagger.config.kind,
        "labels": list(tagger.vocabularies.labels),
        "transitions": None if transitions is None else _transitions(transitions),
    }


def _perplexity(perplexity: TextPerplexity) -> dict[str, Any]:
    ratios = {name: rounded(getattr(perplexity, name)) for name in ("per_token", "per_word", "per_byte")}
    return ratios | {name: getattr(perplexity, name) for name in ("tokens", "words", "bytes")}


def _alternatives(alternatives: Sequence[Alternative]) -> list[dict[str, Any]]:
    return [{"piece": item.piece, "log_prob": rounded(item.log_prob)} for item in alternatives]


def _continuation(continuation: Continuation) -> dict[str, Any]:
    return {
        "text": continuation.text,
        "pieces": continuation.pieces,
        "cut": continuation.is_cut,
        "log_prob": rounded(continuation.log_prob),
        "score": rounded(continuation.score),
        "steps": [step_values(step) for step in continuation.steps],
        "beam": None if continuation.beam is None else beam_values(continuation.beam),
    }


def _path(path: LabelPath) -> dict[str, Any]:
    return {"labels": path.labels, "score": rounded(path.score), "log_prob": rounded(path.log_prob)}


def _transitions(transitions: Transitions) -> dict[str, Any]:
    return {
        "weights": as_lists(transitions.weights),
        "start": as_lists(transitions.start),
        "end": as_lists(transitions.end),
        "allowed": {name: part.tolist() for name, part in transitions.allowed._asdict().items()},
    }
