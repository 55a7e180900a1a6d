"""Computes sentence vectors with any encoder: reads texts in batches, and pools the vectors of their positions.

Letters: B sentences, S positions, D width.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calque.engine.argument_names import check_argument_names
from calque.errors import ConfigError
from calque.evaluation.nearest import normalised
from calque.layers.pooling import POOLINGS, PoolingName, pool_states
from calque.models.inputs import Words
from calque.models.interfaces import Encoder
from calque.models.language_model import LanguageModel
from calque.models.model import Model
from calque.models.sentence_encoder import pool_memory
from calque.objectives.decoding_step import pad_source
from calque.tensors import length_mask
from calque.text import PAD, Tokenizer

Array = NDArray[Any]

LIMIT = 1024  # pieces or words read per text, unless a model has a limit of its own
TOGETHER = 1024  # texts that are sorted by length together and grouped into batches
BATCH_TOKENS = 4096  # positions per batch, padding included


class TextVector(NamedTuple):
    """The vector of a text."""

    values: Array  # [D], float32; zeros for a text without pieces
    cut: bool = False
    """Whether the text is longer than the model's limit, so that only its beginning was read."""
    empty: bool = False
    """Whether the text has no pieces."""


class VectorReader(Protocol):
    """Reads texts with a model and pools their vectors."""

    @property
    def width(self) -> int:
        """The width of the vectors."""
        ...

    @property
    def poolings(self) -> tuple[PoolingName, ...]:
        """The kinds of pooling that the model allows, the default first."""
        ...

    @property
    def limit(self) -> int:
        """The maximum number of pieces or words that are read per text."""
        ...

    def split(self, texts: Sequence[str]) -> Sequence[Sequence[Any]]:
        """The pieces or words of each text."""
        ...

    def vectors(self, rows: Sequence[Sequence[Any]], *, pooling: PoolingName) -> Tensor:
        """The vectors [B,D] of texts that `split` has split. No text may be empty."""
        ...


class EmbedsText(ABC):
    """A model that maps texts to vectors."""

    @abstractmethod
    def vector_reader(self) -> VectorReader:
        """The reader that computes the vectors of texts with this model."""

    @check_argument_names
    def embed(self, text: str | list[str], *, pooling: PoolingName | None = None, normalise: bool = False) -> Array:
        """The vector [D] of a text, or the vectors [N,D] of a list of texts, as a NumPy array of float32.

        `pooling` is "last", "mean" (the default) or "attention"; with `normalise`, vectors have length 1.

        >>> model.embed(["Two dogs run.", "A man sleeps."]).shape
        (2, 256)
        """
        return embed_texts(self.vector_reader(), text, pooling=pooling, normalise=normalise)


def embed_texts(reader: VectorReader, text: str | list[str], *, pooling: PoolingName | None, normalise: bool) -> Array:
    """The vector [D] of a text, or the vectors [N,D] of a list of texts."""
    texts = [text] if isinstance(text, str) else list(text)
    for one in texts:
        if not isinstance(one, str):
            raise TypeError(f"text must be a string or a list of strings; found {one!r:.80}")
    name = checked_pooling(reader, pooling)
    vectors = np.zeros((len(texts), reader.width), dtype=np.float32)
    for row, vector in enumerate(stream_vectors(reader, texts, pooling=name, normalise=normalise)):
        vectors[row] = vector.values
    return vectors[0] if isinstance(text, str) else vectors


def checked_pooling(reader: VectorReader, pooling: str | None) -> PoolingName:
    """The pooling to use; raises a ConfigError if the model does not allow the given one."""
    if pooling is None:
        return reader.poolings[0]
    for name in reader.poolings:
        if name == pooling:
            return name
    if pooling in POOLINGS:
        raise ConfigError(
            f"pooling {pooling!r}: this model was trained with {reader.poolings[0]!r} pooling and supports no other; "
            "leave pooling out"
        )
    raise ConfigError(f"pooling {pooling!r} is not one of {', '.join(POOLINGS)}")


def stream_vectors(
    reader: VectorReader,
    texts: Iterable[str],
    *,
    pooling: PoolingName,
    normalise: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    together: int = TOGETHER,
) -> Iterator[TextVector]:
    """The vector of every text, in order. It does not depend on the other texts. A blank text counts as empty.

    `together` texts are read before the vector of the first is returned.
    """
    remaining = iter(texts)
    while group := list(islice(remaining, together)):
        rows = [row if text.strip() else row[:0] for text, row in zip(group, reader.split(group), strict=True)]
        short = [row[: reader.limit] for row in rows]
        vectors = np.zeros((len(group), reader.width), dtype=np.float32)
        for indices in _batches([len(row) for row in short], batch_tokens=batch_tokens):
            with torch.inference_mode():
                pooled = reader.vectors([short[index] for index in indices], pooling=pooling)
            vectors[indices] = pooled.float().cpu().numpy()
        if normalise:
            vectors = normalised(vectors)
        for values, row in zip(vectors, rows, strict=True):
            yield TextVector(values, cut=len(row) > reader.limit, empty=not row)


class SourceReader:
    """Reads texts with the encoder of a translation model; pooling includes the end mark."""

    poolings: tuple[PoolingName, ...] = ("mean", "last", "attention")

    def __init__(self, model: Model, tokenizer: Tokenizer, *, limit: int = LIMIT) -> None:
        self.model, self.tokenizer, self.limit = model, tokenizer, limit

    @property
    def width(self) -> int:
        return self.model.encoder.shape.width

    def split(self, texts: Sequence[str]) -> Sequence[Sequence[int]]:
        return self.tokenizer.encode_many(texts)

    def vectors(self, rows: Sequence[Sequence[int]], *, pooling: PoolingName) -> Tensor:
        source = pad_source(rows).to(next(self.model.parameters()).device)
        return pool_memory(pooling, self.model.encode(source), encoder=self.model.encoder)


class TextReader:
    """Reads texts from left to right with a language model; a text's vector pools the outputs at all of its pieces."""

    poolings: tuple[PoolingName, ...] = ("mean", "last", "attention")

    def __init__(self, model: LanguageModel, tokenizer: Tokenizer, *, start: int, limit: int = LIMIT) -> None:
        self.model, self.tokenizer, self.start, self.limit = model, tokenizer, start, limit

    @property
    def width(self) -> int:
        return self.model.network.width

    def split(self, texts: Sequence[str]) -> Sequence[Sequence[int]]:
        return self.tokenizer.encode_many(texts)

    def vectors(self, rows: Sequence[Sequence[int]], *, pooling: PoolingName) -> Tensor:
        device, width = next(self.model.parameters()).device, max(map(len, rows))
        tokens = torch.tensor([[self.start, *row, *[PAD] * (width - len(row))] for row in rows], device=device)
        read, _ = self.model.read(tokens, self.model.start(len(rows)))
        lengths = torch.tensor([len(row) for row in rows], device=device)
        return pool_states(pooling, read.hidden[:, 1:], length_mask(lengths, size=width))


class WordReader:
    """Reads texts, as words separated by white space, with the encoder of a tagger."""

    poolings: tuple[PoolingName, ...] = ("mean", "last", "attention")

    def __init__(self, tagger: "ReadsWords", *, limit: int = LIMIT) -> None:
        self.tagger, self.limit = tagger, limit

    @property
    def width(self) -> int:
        return self.tagger.encoder.shape.width

    def split(self, texts: Sequence[str]) -> Sequence[Sequence[str]]:
        return [text.split() for text in texts]

    def vectors(self, rows: Sequence[Sequence[str]], *, pooling: PoolingName) -> Tensor:
        encoder = self.tagger.encoder
        return pool_memory(pooling, encoder(self.tagger.words(rows)), encoder=encoder)


class ReadsWords(Protocol):
    """A tagger, as `WordReader` uses it to compute sentence vectors: an encoder, and words as its inputs."""

    @property
    def encoder(self) -> Encoder: ...

    def words(self, sentences: Sequence[Sequence[str]]) -> Words:
        """The model's input for sentences of words."""
        ...


def _batches(lengths: Sequence[int], *, batch_tokens: int) -> Iterator[list[int]]:
    """Yields batches of indices of non-empty texts of similar length, within `batch_tokens` padded positions."""
    batch: list[int] = []
    for index in sorted((index for index, length in enumerate(lengths) if length), key=lambda index: lengths[index]):
        if batch and (len(batch) + 1) * (lengths[index] + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
