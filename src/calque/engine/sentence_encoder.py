"""The sentence encoder: sentences in, vectors out.

Letters: N sentences, W width of the vectors.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calque.data.batching import BatchConfig, Bucketed
from calque.data.pair_batch import pair_widths
from calque.data.sentence_pair_batch import collate_sentence_pairs
from calque.data.store import Store
from calque.engine.argument_names import check_argument_names
from calque.engine.sentence_vectors import LIMIT, embed_texts
from calque.errors import ConfigError
from calque.evaluation.nearest import Neighbours, nearest, normalised, similarities
from calque.layers.int8 import parameter_count
from calque.layers.pooling import PoolingName
from calque.models.sentence_encoder import SIDES, SentenceEncoderConfig, SentenceEncoderModel, Side
from calque.objectives.decoding_step import pad_source
from calque.tasks.embedding import EmbeddingConfig
from calque.text import Tokenizer, Tokenizers

Array = NDArray[Any]


class Neighbour(NamedTuple):
    """A sentence that is near a query: their cosine similarity, its index in the searched list, and its text."""

    score: float
    place: int  # from 0
    text: str


class SentenceEncoder:
    """A sentence encoder with its tokenizers.

    >>> encoder = calque.load("runs/captions")
    >>> encoder.embed("Two dogs run.").shape
    (256,)
    >>> encoder.nearest("Two dogs run.", ["Ein Mann schläft.", "Zwei Hunde rennen."], top=1)
    [Neighbour(score=0.87, place=1, text='Zwei Hunde rennen.')]
    """

    def __repr__(self) -> str:
        parameters = parameter_count(self.model)
        kind = self.config.encoder.kind
        return f"SentenceEncoder({kind}, vectors of {self.model.width}, {parameters:,} parameters, {self.device})"

    def __init__(
        self,
        model: SentenceEncoderModel,
        tokenizers: Tokenizers,
        *,
        config: SentenceEncoderConfig,
        task: EmbeddingConfig,
    ) -> None:
        self.model = model
        self.tokenizers = tokenizers
        self.config = config
        self.task = task

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def has_sides(self) -> bool:
        """Whether source and target have encoders or vocabularies of their own."""
        return self.model.target is not None or not self.tokenizers.joint

    @check_argument_names
    def embed(
        self,
        text: str | list[str],
        *,
        side: Side = "source",
        pooling: PoolingName | None = None,
        normalise: bool = False,
    ) -> Array:
        """The vector [W] of a text, or the vectors [N,W] of a list of texts, as a NumPy array of float32.

        `side` is the side of the training pairs that the texts belong to. `pooling` must be the one used in training.
        Vectors have length 1 if the model was trained with such vectors, or if `normalise` is true.

        >>> encoder.embed(["Zwei Hunde rennen."], side="target").shape
        (1, 256)
        """
        return embed_texts(self.vector_reader(side), text, pooling=pooling, normalise=normalise)

    def similarity(
        self, texts: list[str], others: list[str], *, side: Side = "source", other_side: Side = "target"
    ) -> Array:
        """The cosine similarity [N,M] of each of the `texts` to each of the `others`."""
        return similarities(
            self.embed(texts, side=side, normalise=True), self.embed(others, side=other_side, normalise=True)
        )

    def nearest(
        self, text: str, corpus: list[str], *, top: int = 5, side: Side = "source", corpus_side: Side = "target"
    ) -> list[Neighbour]:
        """The `top` sentences of `corpus` that are nearest to a text, nearest first, found by exact search."""
        query = self.embed([text], side=side, normalise=True)
        found: Neighbours = nearest(query, self.embed(corpus, side=corpus_side, normalise=True), top=top)
        rows = zip(found.scores[0].tolist(), found.indices[0].tolist(), strict=True)
        return [Neighbour(score, place, corpus[place]) for score, place in rows]

    def vector_reader(self, side: Side = "source") -> "SideReader":
        """The reader that computes the vectors of texts of one side; `embed` uses it."""
        if side not in SIDES:
            raise ConfigError(f"side {side!r} is not one of {', '.join(SIDES)}")
        return SideReader(self.model, getattr(self.tokenizers, side), side=side, pooling=self.config.pooling)

    @torch.inference_mode()
    def embed_store(
        self, store: Store, *, batch: BatchConfig, stop: Callable[[], None] | None = None
    ) -> tuple[Array, Array]:
        """The vectors [N,W] of both sides of a store of pairs, in float32 and of length 1.

        `stop` is called before each batch, and may raise an exception to stop. The model must be in evaluation mode.
        """
        sides = {side: np.zeros((len(store), self.model.width), dtype=np.float32) for side in SIDES}
        config = batch.model_copy(update={"shapes": "exact"})
        for planned in Bucketed(pair_widths(store), spans=store.spans, config=config, seed=0).batches(0):
            if stop is not None:
                stop()
            rows = collate_sentence_pairs(store, planned=planned).to(self.device)
            for side, vectors in sides.items():
                vectors[planned.indices] = self.model.encode(getattr(rows, side), side).float().cpu().numpy()
        return normalised(sides["source"]), normalised(sides["target"])


class SideReader:
    """Reads texts of one side with a sentence encoder."""

    limit = LIMIT

    def __init__(self, model: SentenceEncoderModel, tokenizer: Tokenizer, *, side: Side, pooling: PoolingName) -> None:
        self.model, self.tokenizer, self.side = model, tokenizer, side
        self.poolings: tuple[PoolingName, ...] = (pooling,)

    @property
    def width(self) -> int:
        return self.model.width

    def split(self, texts: Sequence[str]) -> Sequence[Sequence[int]]:
        return self.tokenizer.encode_many(texts)

    def vectors(self, rows: Sequence[Sequence[int]], *, pooling: PoolingName) -> Tensor:
        return self.model.encode(pad_source(rows).to(next(self.model.parameters()).device), self.side)
