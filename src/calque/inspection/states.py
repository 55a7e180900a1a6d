"""Nearest states: the encoder and decoder states of a sentence and, for each, the nearest states of training pairs.

`states_values` returns the following JSON values; x and y are coordinates in the index's two principal components:

    "states": {
      "index": {"id", "pairs", "of", "states": {"encoder", "decoder"}, "words": {"encoder", "decoder"}, "bytes"},
                                                  // points of one id share their axes; `of` counts all training pairs
      "words": {"encoder": [{"word", "occurrences"}…], "decoder": […]},   // how often words occur in the indexed pairs
      "metric": "euclidean" | "cosine",
      "sentences": [{"corpus", "line", "source", "target", "source_pieces", "target_pieces"}],   // of neighbours
      "encoder": {"width", "explained": [share of the variance along x, along y],
                  "background": [[x, y]…],        // a fixed sample of the index
                  "points": [{"piece", "x", "y",  // one per source piece, the end mark included
                              "neighbours": [{"distance", "sentence": its index in "sentences", "position", "piece",
                                              "x", "y"}… nearest first]}…]},
      "decoder": {…}}                             // likewise, with one point per target piece, in order

An encoder state belongs to the source piece at its position; a decoder state to the target piece that it predicts.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.engine.engine import lock_of
from calque.engine.postprocessing import pieces_of
from calque.engine.translator import Translator
from calque.errors import ConfigError
from calque.inspection.model_states import PairIds, read_states
from calque.inspection.state_index import SIDES, IndexSize, Side, StateIndex, TrainingSentence, words_of_text
from calque.inspection.state_search import Metric, nearest
from calque.inspection.translation import SentenceView
from calque.text import EOS, PIECES, NumberedText

NEIGHBOURS = 5
BACKGROUND = 1000
"""How many states of the index, evenly spaced, are drawn in the background of a sentence's states."""

DIGITS = 5
_CONTEXT = 6  # pieces shown on either side of a neighbour's

Point = tuple[float, float]


class Neighbour(NamedTuple):
    """A training state that is one of the nearest to a state of the inspected sentence."""

    distance: float
    sentence: int  # its number in the index
    position: int  # of its piece, from 0
    piece: str
    point: Point


class StatePoint(NamedTuple):
    """A state of the inspected sentence: its piece, its two coordinates and its nearest training states."""

    piece: str
    point: Point
    neighbours: list[Neighbour]  # nearest first


class SideStates(NamedTuple):
    """The encoder states or the decoder states of a sentence, in the order of its pieces."""

    width: int
    explained: tuple[float, float]  # the share of the index's variance along x and y
    background: list[Point]
    points: list[StatePoint]


class WordCount(NamedTuple):
    """A word of the inspected sentence, and how often it occurs in the training pairs of the index."""

    word: str
    occurrences: int


class SentenceStates(NamedTuple):
    """The states of a sentence and of its translation, and their neighbours."""

    index_id: str
    index_size: IndexSize
    metric: Metric
    encoder: SideStates
    decoder: SideStates
    sentences: dict[int, TrainingSentence]  # those of all neighbours, by their number in the index
    words: dict[Side, list[WordCount]]  # of the source (encoder) and of the target (decoder), each word once
    index_words: dict[Side, int]  # the number of words on either side of the index

    def side(self, side: Side) -> SideStates:
        return self.encoder if side == "encoder" else self.decoder


def states_of_view(
    translator: Translator,
    view: SentenceView,
    *,
    index: StateIndex,
    neighbours: int = NEIGHBOURS,
    metric: Metric = "euclidean",
) -> SentenceStates:
    """The states of an inspected translation, with their nearest training states; see `nearest_states`."""
    return nearest_states(translator, view.numbered, view.target_ids, index=index, neighbours=neighbours, metric=metric)


def nearest_states(
    translator: Translator,
    source: NumberedText,
    target: Sequence[int],
    *,
    index: StateIndex,
    neighbours: int = NEIGHBOURS,
    metric: Metric = "euclidean",
) -> SentenceStates:
    """The encoder and decoder states of a source and its target, with the training states nearest to each.

    States are also projected to two dimensions, for pictures; neighbours are found by exact search in the full space.

    `target` ends with its end mark unless it was truncated. For an ensemble, the states are those of the first model.
    """
    if neighbours < 1:
        raise ConfigError(f"the number of neighbours is {neighbours}, but must be at least 1")
    with lock_of(translator.model):
        (states,) = read_states(translator.model, [PairIds(source.ids, target)])
    tokenizers = translator.tokenizers
    pieces: dict[Side, list[str]] = {
        "encoder": [*pieces_of(tokenizers.source, source.ids, source.unknown), PIECES[EOS]],
        "decoder": pieces_of(tokenizers.target, target, source.unknown),
    }
    sentences: dict[int, TrainingSentence] = {}
    encoder, decoder = (
        _side(
            index,
            side,
            getattr(states, side).numpy(),
            pieces=pieces[side],
            count=neighbours,
            metric=metric,
            sentences=sentences,
        )
        for side in SIDES
    )
    texts: dict[Side, str] = {
        "encoder": source.text,
        "decoder": tokenizers.target.detokenise(pieces["decoder"][: len(target) - (target[-1:] == [EOS])]),
    }
    words = {side: _word_counts(texts[side], index.words[side]) for side in SIDES}
    totals = {side: index.words[side].total() for side in SIDES}
    return SentenceStates(index.id, index.size, metric, encoder, decoder, sentences, words, totals)


def _word_counts(text: str, counts: Counter[str]) -> list[WordCount]:
    return [WordCount(word, counts[word]) for word in dict.fromkeys(words_of_text(text))]


def _side(
    index: StateIndex,
    side: Side,
    states: NDArray[Any],
    *,
    pieces: Sequence[str],
    count: int,
    metric: Metric,
    sentences: dict[int, TrainingSentence],
) -> SideStates:
    """The states of encoder or decoder (`side`), each with the `count` nearest states of the index.

    The training pairs that these neighbours belong to are added to `sentences`.
    """
    indexed, projection = index.states(side), index.projections[side]
    nearest_indices, distances = nearest(indexed, states, count=count, metric=metric)
    points = []
    for piece, point, row, row_distances in zip(
        pieces, _points(projection(states)), nearest_indices, distances.tolist(), strict=True
    ):
        neighbours = []
        for place, distance, where in zip(row.tolist(), row_distances, _points(projection(indexed[row])), strict=True):
            number, position = index.place(side, place)
            if number not in sentences:
                sentences[number] = index.sentence(number)
            neighbours.append(Neighbour(distance, number, position, sentences[number].pieces(side)[position], where))
        points.append(StatePoint(piece, point, neighbours))
    size = min(BACKGROUND, len(indexed))
    sample = np.arange(size) * len(indexed) // size
    return SideStates(states.shape[1], projection.explained, _points(projection(indexed[sample])), points)


def _points(coordinates: NDArray[Any]) -> list[Point]:
    return [(x, y) for x, y in coordinates.tolist()]


def states_values(states: SentenceStates) -> dict[str, Any]:
    """The entry "states" of an inspected sentence in the JSON of an inspection (format: at the top of this module)."""
    places = {number: place for place, number in enumerate(states.sentences)}
    size = states.index_size
    return {
        "index": {
            "id": states.index_id,
            "pairs": size.pairs,
            "of": size.total,
            "states": {"encoder": size.encoder, "decoder": size.decoder},
            "words": dict(states.index_words),
            "bytes": size.bytes,
        },
        "words": {side: [item._asdict() for item in states.words[side]] for side in SIDES},
        "metric": states.metric,
        "sentences": [sentence._asdict() for sentence in states.sentences.values()],
        **{side: _side_values(states.side(side), places=places) for side in SIDES},
    }


def _side_values(side: SideStates, *, places: dict[int, int]) -> dict[str, Any]:
    return {
        "width": side.width,
        "explained": [round(share, DIGITS) for share in side.explained],
        "background": [[round(x, DIGITS), round(y, DIGITS)] for x, y in side.background],
        "points": [
            {
                "piece": item.piece,
                **_coordinates(item.point),
                "neighbours": [
                    {
                        "distance": round(neighbour.distance, DIGITS),
                        "sentence": places[neighbour.sentence],
                        "position": neighbour.position,
                        "piece": neighbour.piece,
                        **_coordinates(neighbour.point),
                    }
                    for neighbour in item.neighbours
                ],
            }
            for item in side.points
        ],
    }


def _coordinates(point: Point) -> dict[str, float]:
    return {"x": round(point[0], DIGITS), "y": round(point[1], DIGITS)}


def states_summary(states: SentenceStates, *, shown: int = 3) -> list[str]:
    """Lines for the terminal: each piece, and the nearest training states, each with the pieces around it."""
    lines = [f"the index has {states.index_size.coverage}"]
    for side in SIDES:
        part = states.side(side)
        share = sum(part.explained)
        lines.append(
            f"{side} states: nearest of {getattr(states.index_size, side):,} training states ({states.metric}); "
            f"two dimensions show {share:.0%} of their variance"
        )
        name = "source" if side == "encoder" else "target"
        counts = ", ".join(f"{item.word} {item.occurrences:,}" for item in states.words[side])
        lines.append(f"  {name} words in the index, {states.index_words[side]:,} in all: {counts}")
        for item in part.points:
            lines.append(f"  {item.piece}")
            lines += [
                f"    {neighbour.distance:8.3f}  {_in_context(states.sentences[neighbour.sentence], side, neighbour)}"
                for neighbour in item.neighbours[:shown]
            ]
    return lines


def _in_context(sentence: TrainingSentence, side: Side, neighbour: Neighbour) -> str:
    """A neighbour as text: its piece in brackets among the pieces around it, and its sentence's line number."""
    pieces, position = sentence.pieces(side), neighbour.position
    first, last = max(position - _CONTEXT, 0), position + _CONTEXT + 1
    shown = [
        f"[{piece}]" if place == position else piece for place, piece in enumerate(pieces[first:last], start=first)
    ]
    before, after = "… " if first else "", " …" if last < len(pieces) else ""
    return f"{before}{' '.join(shown)}{after}  (line {sentence.line:,})"
