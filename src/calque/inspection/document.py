"""The inspection document: what a model computed for sentences, as JSON, for files and for the web page.

    {"kind": "inspection", "version": 1, "task": "translation",
     "model": {"name", "architecture", "parameters", "attends"}, "sentences": […]}

A sentence has its `source` and `target` (text, pieces with end marks, spans of words), `score` by term, `steps` with
runners-up, `attention` maps, `saliency`, `alignment`, `coverage`, the `beam` tree and, if the target was given, the
model's `own` translation. Parts that do not exist are null.
"""

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from calque.engine import Loaded, Translator, architecture
from calque.inspection.attention_maps import AttentionMap
from calque.inspection.beam_tree import BeamTree, ScoreParts, TreeCandidate
from calque.inspection.beam_view import BeamView, NarrowerBeam
from calque.inspection.next_tokens import TargetStep
from calque.inspection.translation import OwnTranslation, Saliency, SentenceView
from calque.inspection.what_if import WhatIf
from calque.layers.int8 import parameter_count
from calque.layers.observers import attention_layers

VERSION = 1
DIGITS = 5  # of weights and log-probabilities

Weights = Callable[[Tensor], Any]
"""A function that converts a tensor of weights to JSON values: `as_lists` or `as_base64`."""


def as_lists(weights: Tensor) -> Any:
    """A tensor as nested lists of rounded numbers."""
    return rounded(weights.tolist())


def as_base64(weights: Tensor) -> dict[str, Any]:
    """A tensor of numbers between 0 and 1 as little-endian 16-bit integers in base64, which is smaller than text."""
    scaled = (weights.clamp(0, 1) * 65535).round().to(torch.int32).contiguous()
    encoded = scaled.numpy().astype("<u2").tobytes()
    return {"shape": list(weights.shape), "uint16": base64.b64encode(encoded).decode("ascii")}


def model_summary(loaded: Loaded, *, name: str) -> dict[str, Any]:
    """The entry "model" of an inspection's JSON: name, architecture, number of parameters, whether it has attention."""
    return {
        "name": name,
        "architecture": architecture(loaded),
        "parameters": parameter_count(loaded.model),
        "attends": loaded.attends if isinstance(loaded, Translator) else bool(attention_layers(loaded.model)),
    }


def inspection_document(
    sentences: Sequence[dict[str, Any]], *, task: str, models: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """The JSON object that describes an inspection: the inspected sentences, and a summary of each model.

    Its format is at the top of this module. `calque inspect --format json` writes it, and the web page shows it.
    """
    document = {"kind": "inspection", "version": VERSION, "task": task, "model": models[0]}
    return document | ({"models": list(models)} if len(models) > 1 else {}) | {"sentences": list(sentences)}


def sentence_values(view: SentenceView, *, weights: Weights = as_lists) -> dict[str, Any]:
    """An inspected translation as JSON values."""
    return {
        "source": {
            "text": view.source,
            "pieces": view.source_pieces,
            "words": spans(view.source_words),
            "cut": view.source_cut,
        },
        "target": {
            "text": view.target,
            "pieces": view.target_pieces,
            "words": spans(view.target_words),
            "given": view.is_given,
        },
        "cut": view.is_cut,
        "what_if": what_if_values(view.what_if),
        "log_prob": rounded(view.log_prob),
        "score": None if view.score is None else {"log_prob": rounded(view.log_prob), **_score(view.score)},
        "confidence": None if view.confidence is None else rounded(view.confidence),
        "steps": [step_values(step) for step in view.steps],
        "attention": attention_values(view.maps, weights=weights),
        "alignment": None if view.alignment is None else [list(link) for link in view.alignment],
        "coverage": None if view.coverage is None else rounded(view.coverage),
        "saliency": saliency_values(view.saliency),
        "beam": None if view.beam is None else beam_values(view.beam),
        "own": None if view.own is None else _own(view.own),
    }


def _own(own: OwnTranslation) -> dict[str, Any]:
    return {
        "text": own.text,
        "cut": own.is_cut,
        "log_prob": rounded(own.log_prob),
        "score": rounded(own.score),
        "beams": [_narrower(outcome) for outcome in own.beams],
    }


def what_if_values(what_if: WhatIf) -> dict[str, Any] | None:
    """The user's changes to a translation (prefix, forbidden words, forced attention); None if there are none."""
    if not what_if:
        return None
    return {
        "prefix": what_if.prefix,
        "forbidden": list(what_if.forbidden),
        "attend": [list(move) for move in what_if.moves],
    }


def attention_values(maps: Sequence[AttentionMap], *, weights: Weights) -> dict[str, Any] | None:
    """Attention maps as JSON values; None if there are none."""
    values = [
        {
            "name": item.name,
            "kind": item.kind,
            "layer": item.layer,
            "heads": item.heads,
            "weights": weights(item.weights),
        }
        for item in maps
    ]
    return {"maps": values} if values else None


def saliency_values(saliency: Sequence[Saliency]) -> list[dict[str, Any]] | None:
    """Saliency by every method as JSON values; None if there is none."""
    return [{"method": item.method, "weights": as_lists(item.weights)} for item in saliency] or None


def step_values(step: TargetStep) -> dict[str, Any]:
    """A target piece, its probability and the most likely alternatives as JSON values."""
    return {
        "piece": step.piece,
        "log_prob": rounded(step.log_prob),
        "rank": step.rank,
        "entropy": rounded(step.entropy),
        "runners_up": [
            {"piece": runner_up.piece, "log_prob": rounded(runner_up.log_prob)} for runner_up in step.runners_up
        ],
        "copying": None if step.copying is None else rounded(step.copying),
    }


def beam_values(view: BeamView) -> dict[str, Any]:
    """A beam tree as JSON values."""
    return {
        "width": view.width,
        "nbest": view.nbest,
        "scoring": view.tree.scoring._asdict(),
        "stop": view.tree.stop,
        "answer": view.answer,
        "steps": _tree_steps(view.tree, pieces=view.pieces),
        "ended": [
            {"text": item.text, "log_prob": rounded(item.log_prob), "score": _score(item.score)} for item in view.ended
        ],
        "narrower": [_narrower(narrower) for narrower in view.narrower],
    }


def _narrower(outcome: NarrowerBeam) -> dict[str, Any]:
    return outcome._asdict() | {"score": rounded(outcome.score)}


def _tree_steps(tree: BeamTree, *, pieces: Mapping[int, str]) -> list[dict[str, Any]]:
    return [
        {
            "length": step.length,
            "bound": None if step.bound is None else rounded(step.bound),
            "best": None if step.best is None else rounded(step.best),
            "candidates": [_candidate(candidate, piece=pieces[candidate.token]) for candidate in step.candidates],
        }
        for step in tree.steps
    ]


def _candidate(candidate: TreeCandidate, *, piece: str) -> dict[str, Any]:
    parts: dict[str, Any] = {} if candidate.matched is None else {"matched": candidate.matched}
    if candidate.group is not None:
        parts |= {"group": candidate.group, "penalty": rounded(candidate.penalty)}
    return {
        "id": candidate.id,
        "parent": candidate.parent,
        "piece": piece,
        "log_prob": rounded(candidate.log_prob),
        "fate": candidate.fate,
        "reason": candidate.reason,
        "score": None if candidate.score is None else _score(candidate.score),
        **parts,
    }


def _score(score: ScoreParts) -> dict[str, Any]:
    return {"total": rounded(score.total), **{name: rounded(value) for name, value in score._asdict().items()}}


def spans(words: Sequence[int]) -> list[list[int]]:
    """The indices of the first and last piece of every word, given the word index of every piece."""
    spans: list[list[int]] = []
    for place, word in enumerate(words):
        if word == len(spans):
            spans.append([place, place])
        spans[word][1] = place
    return spans


def rounded(value: Any) -> Any:
    """A number, or all numbers in nested lists, rounded to DIGITS decimals. Numbers that are not finite become None."""
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return round(value, DIGITS) if math.isfinite(value) else None
