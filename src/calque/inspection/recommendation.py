"""What a recommender computes for one user: candidates with their scores, attention to past items, their influence.

Letters: T items of the history that are read, H heads.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from calque.engine.engine import lock_of
from calque.engine.recommender import EncodedHistory, History, Recommender
from calque.errors import DataError
from calque.inspection.attention_maps import AttentionMap, AttentionRecorder, mean_weights
from calque.inspection.document import Weights, as_lists, attention_values, model_summary, rounded
from calque.inspection.pictures import ACCENT, heat_map, plain, save_figure
from calque.layers.observers import observe_attention
from calque.tensors import best_candidates

CANDIDATES = 20


class CandidateItem(NamedTuple):
    """An item that could be next."""

    item: str
    log_prob: float
    frequency: int  # how often it occurs in training
    is_seen: bool  # whether it is in the history, and then not recommended if seen items are excluded


class RecommendationView(NamedTuple):
    """What a recommender computed for one user."""

    items: list[str]  # the items of the history that the model reads
    unknown: int  # items of the history that are not in the catalogue
    is_cold: bool  # whether the history has no known item, so that popularity decides
    excludes_seen: bool
    candidates: list[CandidateItem]
    """The most likely items, seen ones included, best first, and the first recommended item if it is not among them."""
    influence: list[float]
    """How much each item of the history raises the log-probability of the first recommended item: the difference from
    the same history without it. Times and behaviours of the other items do not change."""
    contributions: list[list[float]]  # likewise, for every candidate: a row per candidate, a column per item
    maps: list[AttentionMap]  # of every layer, [H,T,T]

    @property
    def recommended(self) -> list[CandidateItem]:
        """The candidates that are recommended: if seen items are excluded, those that are not in the history."""
        return [item for item in self.candidates if not (item.is_seen and self.excludes_seen)]

    @property
    def attention(self) -> list[float] | None:
        """[T], the attention from the last position, which predicts the next item, averaged over layers and heads."""
        return mean_weights(self.maps)[-1].tolist() if self.maps else None


@torch.inference_mode()
def inspect_recommendation(
    recommender: Recommender, history: History, *, candidates: int = CANDIDATES
) -> RecommendationView:
    """Ranks the items for a user, and returns all that the recommender computed on the way.

    >>> view = inspect_recommendation(calque.load("runs/shop"), History(["shampoo", "comb"]))
    >>> view.recommended[0].item, view.attention
    ('conditioner', [0.81, 0.19])
    """
    encoded = recommender.encode(history)
    recorder = AttentionRecorder()
    with lock_of(recommender.model), observe_attention(recommender.model, recorder):
        scores = recommender.model.scores(recommender.batch([encoded]))
    values, ids = best_candidates(scores, count=candidates + len(encoded.seen))
    catalogue, seen = recommender.catalogue, set(encoded.seen)
    found = [
        CandidateItem(name, value, catalogue.counts[id], id in seen)
        for name, value, id in zip(catalogue.names(ids[0].tolist()), values[0].tolist(), ids[0].tolist(), strict=True)
        if value != -math.inf
    ]
    excludes = recommender.task.exclude_seen
    best = next((place for place, item in enumerate(found) if not (item.is_seen and excludes)), None)
    shown = [item for place, item in enumerate(found) if place < candidates or place == best]
    contributions = _contributions(recommender, encoded, shown, scores[0])
    return RecommendationView(
        catalogue.names(encoded.items),
        encoded.unknown,
        not encoded.items,
        excludes,
        shown,
        contributions[min(best, candidates)] if best is not None else [0.0] * len(encoded.items),
        contributions,
        recorder.maps() if encoded.items else [],
    )


def _contributions(
    recommender: Recommender, encoded: EncodedHistory, candidates: Sequence[CandidateItem], scores: Tensor
) -> list[list[float]]:
    """For each candidate, how much each item of the history raises its log-probability, compared to leaving it out."""
    if not encoded.items:
        return [[] for _ in candidates]
    targets = recommender.catalogue.item_ids([item.item for item in candidates])
    without = [_without(encoded, place) for place in range(len(encoded.items))]
    with lock_of(recommender.model):
        changed = recommender.model.scores(recommender.batch(without))[:, targets]
    raised: list[list[float]] = (scores[targets] - changed).T.tolist()
    return raised


def _without(encoded: EncodedHistory, place: int) -> EncodedHistory:
    def rest(values: Any) -> Any:
        return [*values[:place], *values[place + 1 :]]

    return encoded._replace(items=rest(encoded.items), times=rest(encoded.times), behaviours=rest(encoded.behaviours))


def recommendation_values(view: RecommendationView, *, weights: Weights = as_lists) -> dict[str, Any]:
    """An inspected history as JSON values:

    {"items": […], "unknown", "cold", "excludes_seen",            // `unknown`: number of items not in the catalogue
     "candidates": [{"item", "log_prob", "frequency", "seen"}…],  // best first
     "influence": [number per item], "contributions": [[number per item] per candidate],
     "attention": null | {"maps": [Map…]}}                        // item × item, see `attention_values`

    `cold` is true if no item is in the catalogue. Contributions say how much an item of the history raises a
    candidate's log-probability; `influence` has the contributions to the first candidate that is recommended.
    """
    return {
        "items": view.items,
        "unknown": view.unknown,
        "cold": view.is_cold,
        "excludes_seen": view.excludes_seen,
        "candidates": [
            {"item": item.item, "log_prob": rounded(item.log_prob), "frequency": item.frequency, "seen": item.is_seen}
            for item in view.candidates
        ],
        "influence": [rounded(value) for value in view.influence],
        "contributions": rounded(view.contributions),
        "attention": attention_values(view.maps, weights=weights),
    }


def recommender_summary(recommender: Recommender, *, name: str) -> dict[str, Any]:
    """The entry "model" of an inspection's JSON for a recommender: `model_summary` and the size of its catalogue."""
    return model_summary(recommender, name=name) | {"items": len(recommender.catalogue.items)}


def draw_recommendation(path: Path, view: RecommendationView, *, picture: str) -> list[str]:
    """Draws an inspected history; `picture` names one of RECOMMENDATION_PICTURES. Returns warnings."""
    return save_figure(path, lambda figure: RECOMMENDATION_PICTURES[picture](figure, view))


def _draw_history(figure: Any, view: RecommendationView) -> None:
    """Draws the attention to each item of the history, if any, and its influence on the first recommended item."""
    if not view.items:
        raise DataError(
            "no item of the history is in the catalogue, so the history cannot be drawn; use --picture candidates"
        )
    rows = [("attention", view.attention)] if view.attention is not None else []
    rows.append(("influence", view.influence))
    figure.set_size_inches(min(40.0, max(5.0, 2.2 + 0.36 * len(view.items))), 2.6)
    shown = torch.tensor([[value / (max(map(abs, values)) or 1.0) for value in values] for _, values in rows])
    axes = figure.subplots()
    heat_map(axes, shown, rows=[name for name, _ in rows], columns=view.items)
    best = view.recommended[0].item if view.recommended else ""
    axes.set_title(f"items of the history, for the recommendation of {plain(best)}", loc="left", fontsize=9)


def _draw_candidates(figure: Any, view: RecommendationView) -> None:
    """Draws the probabilities of the candidates, as bars."""
    shares = [math.exp(item.log_prob) for item in view.candidates]
    figure.set_size_inches(6.4, 1.0 + 0.28 * len(shares))
    axes = figure.subplots()
    bars = axes.barh(range(len(shares)), shares, height=0.7, color=ACCENT)
    axes.bar_label(bars, labels=[f"{share:.4f}" for share in shares], padding=3, fontsize=8)
    names = [plain(item.item) + (" (seen)" if item.is_seen else "") for item in view.candidates]
    axes.set_yticks(range(len(shares)), names, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.18 * max(shares, default=1.0))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_title("probability of the next item", loc="left", fontsize=9)


RECOMMENDATION_PICTURES = {"history": _draw_history, "candidates": _draw_candidates}
"""The pictures of a recommendation, by name."""
