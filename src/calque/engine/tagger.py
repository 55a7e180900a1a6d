"""The tagger: words in, labels out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple, overload

import numpy as np
import torch
from torch import Tensor

from calque.data.batching import BatchConfig, Bucketed, Planned
from calque.data.buckets import Size
from calque.data.store import Rows, Store, pack, store_in_memory
from calque.data.tag_batch import TagBatch, collate_tags
from calque.data.tagging_preparation import WORD_LENGTHS
from calque.engine.sentence_vectors import EmbedsText, WordReader
from calque.errors import ConfigError, TextError
from calque.layers.crf import allowed_transitions
from calque.layers.int8 import parameter_count
from calque.models.hidden_markov import HiddenMarkovConfig, HiddenMarkovTagger
from calque.models.inputs import Words
from calque.models.interfaces import Encoder
from calque.models.tagger import TaggerConfig, TaggerModel, TaggerSizes
from calque.tasks.tagging import TaggingConfig, source_of
from calque.tensors import exact
from calque.text import TaggerVocabularies
from calque.text.forms import CHARACTERS, LABELS, WORDS, EncodedWords

TOGETHER = 512  # sentences that are sorted by length together and grouped into batches
BATCH_TOKENS = 4096  # words per batch, padding included


class Sentence(NamedTuple):
    """The input of a tagger: words, and one value per word for each further column that the model reads."""

    words: Sequence[str]
    columns: Mapping[str, Sequence[str]] = MappingProxyType({})


@dataclass(frozen=True)
class TaggedSentence:
    """Words with their labels; iterating yields (word, label) pairs."""

    words: list[str]
    labels: list[str]
    marginals: list[dict[str, float]] | None = None
    """The probability of every label for each word; None unless marginals were requested."""

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return zip(self.words, self.labels, strict=True)

    def __len__(self) -> int:
        return len(self.words)

    def __str__(self) -> str:
        return " ".join(f"{word}/{label}" for word, label in self)


class StoreLabels(NamedTuple):
    """The predicted labels of a store's rows, and the negative log-probability of the gold labels."""

    labels: list[list[str]]
    nats: float
    words: int
    """The number of words in sentences whose gold labels are all known; other sentences have no probability."""

    @property
    def per_word(self) -> float:
        return self.nats / max(1, self.words)


class Tagger(EmbedsText):
    """A tagging model with its vocabularies.

    >>> tagger = calque.load("runs/upos")
    >>> print(tagger.tag("The dog barks ."))
    The/DET dog/NOUN barks/VERB ./PUNCT
    """

    def __repr__(self) -> str:
        parameters = parameter_count(self.model)
        kind = self.config.encoder.kind if isinstance(self.config, TaggerConfig) else self.config.kind
        return f"Tagger({kind}, {len(self.vocabularies.labels)} labels, {parameters:,} parameters, {self.device})"

    def __init__(
        self,
        model: TaggerModel | HiddenMarkovTagger,
        vocabularies: TaggerVocabularies,
        *,
        config: TaggerConfig | HiddenMarkovConfig,
        task: TaggingConfig,
        columns: Sequence[str] = (),
    ) -> None:
        self.model = model
        self.vocabularies = vocabularies
        self.config = config
        self.task = task
        self.columns = tuple(columns)
        """The column names of the files it was trained on, if the format does not define them."""
        self.allowed = allowed_transitions(vocabularies.labels)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @overload
    def tag(self, text: str | Sentence, *, marginals: bool = False) -> TaggedSentence: ...
    @overload
    def tag(
        self, text: list[str] | list[list[str]] | list[Sentence], *, marginals: bool = False
    ) -> list[TaggedSentence]: ...
    def tag(
        self, text: str | Sentence | list[str] | list[list[str]] | list[Sentence], *, marginals: bool = False
    ) -> TaggedSentence | list[TaggedSentence]:
        """Labels a sentence (a text with white space between its words, or a `Sentence`), or each sentence in a list.

        >>> tagger.tag("The dog barks .")                    # one sentence
        >>> tagger.tag(["The dog barks .", "Cats sleep ."])  # two sentences
        >>> tagger.tag([["Cats", "sleep", "."]])             # one sentence, already split into words
        """
        if isinstance(text, str | Sentence):
            return next(self.stream([as_sentence(text)], marginals=marginals))
        return list(self.stream(map(as_sentence, text), marginals=marginals))

    def stream(
        self,
        sentences: Iterable[Sentence],
        *,
        marginals: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        together: int = TOGETHER,
    ) -> Iterator[TaggedSentence]:
        """The labels of every sentence, in order. They do not depend on the other sentences.

        `together` sentences are read before the labels of the first are returned.
        """
        remaining = iter(sentences)
        while group := list(islice(remaining, together)):
            yield from self._group(group, marginals=marginals, batch_tokens=batch_tokens)

    @torch.inference_mode()
    def label_store(self, store: Store, *, batch: BatchConfig, stop: Callable[[], None] | None = None) -> StoreLabels:
        """Predicts the labels of all rows in a store; `stop` is called before each batch and may raise.

        The model must be in evaluation mode.
        """
        labels: list[list[str]] = [[] for _ in range(len(store))]
        total, words, size = exact(torch.zeros((), device=self.device)), 0, len(self.vocabularies.labels)
        config = batch.model_copy(update={"shapes": "exact"})
        for planned in Bucketed([store.widths(WORDS)], spans=store.spans, config=config, seed=0).batches(0):
            if stop is not None:
                stop()
            rows = collate_tags(store, planned, columns=self.task.inputs)
            is_known = (rows.labels < size).all(dim=1)
            device_rows = rows.to(self.device)
            scores = self.model(source_of(device_rows))
            known_labels = device_rows.labels.clamp(max=size - 1)
            losses = self.model.losses(scores, known_labels, rows.lengths)
            total += exact(losses.masked_fill(~is_known.to(self.device), 0)).sum()
            words += int(rows.lengths[is_known].sum())
            for index, row in zip(planned.indices.tolist(), self._names(scores, rows.lengths), strict=True):
                labels[index] = row
        return StoreLabels(labels, float(total), words)

    def source(self, sentence: Sentence, *, rows: int = 1) -> Words:
        """The model's input for a sentence, which must not be empty, repeated in `rows` rows."""
        self._refuse_incomplete(sentence)
        encoded = self.vocabularies.encode(*sentence)
        return source_of(self._batch([encoded] * rows).to(self.device))

    def vector_reader(self) -> WordReader:
        """The reader that computes the vectors of texts; `embed` uses it."""
        return WordReader(self)

    @property
    def encoder(self) -> Encoder:
        """The encoder of the words; raises a ConfigError for a hidden Markov tagger, which has none."""
        if isinstance(self.model, HiddenMarkovTagger):
            raise ConfigError("a hidden Markov tagger has no word vectors; use a tagger with an encoder")
        return self.model.encoder

    def words(self, sentences: Sequence[Sequence[str]]) -> Words:
        """The model's input for sentences of words, none of them empty."""
        for sentence in sentences:
            self._refuse_incomplete(Sentence(sentence))
        encoded = [self.vocabularies.encode(sentence, {}) for sentence in sentences]
        return source_of(self._batch(encoded).to(self.device))

    def _group(self, sentences: Sequence[Sentence], *, marginals: bool, batch_tokens: int) -> Iterator[TaggedSentence]:
        for sentence in sentences:
            self._refuse_incomplete(sentence)
        encoded = [self.vocabularies.encode(words, columns) for words, columns in sentences]
        lengths = [len(sentence.words) for sentence in encoded]
        tagged: dict[int, TaggedSentence] = {}
        for indices in _batches(lengths, batch_tokens=batch_tokens):
            batch = self._batch([encoded[index] for index in indices])
            for index, (labels, probabilities) in zip(indices, self._predict(batch, marginals=marginals), strict=True):
                tagged[index] = TaggedSentence(list(sentences[index].words), labels, probabilities)
        no_marginals: list[dict[str, float]] | None = [] if marginals else None
        yield from (tagged.get(index, TaggedSentence([], [], no_marginals)) for index in range(len(sentences)))

    @torch.inference_mode()
    def _predict(self, batch: TagBatch, *, marginals: bool) -> list[tuple[list[str], list[dict[str, float]] | None]]:
        scores = self.model(source_of(batch.to(self.device)))
        labels = self._names(scores, batch.lengths)
        if not marginals:
            return [(names, None) for names in labels]
        probabilities = self.model.marginals(scores, batch.lengths).cpu()
        return [
            (names, [self.vocabularies.label_shares(word) for word in row[: len(names)].tolist()])
            for names, row in zip(labels, probabilities, strict=True)
        ]

    def _names(self, scores: Tensor, lengths: Tensor) -> list[list[str]]:
        """The names of the best labels of each sentence, given the model's scores and the sentence lengths."""
        best = self.model.best(scores, lengths, allowed=self.allowed).cpu()
        rows = zip(best.tolist(), lengths.tolist(), strict=True)
        return [self.vocabularies.label_names(row[:length]) for row, length in rows]

    def _batch(self, sentences: Sequence[EncodedWords]) -> TagBatch:
        def packed(values: Iterable[Sequence[int]]) -> Rows:
            return pack(list(values))

        columns = {
            WORDS: packed(sentence.words for sentence in sentences),
            LABELS: packed([0] * len(sentence.words) for sentence in sentences),
            **{name: packed(sentence.columns[name] for sentence in sentences) for name in self.task.inputs},
        }
        if self.vocabularies.characters is not None:
            columns[CHARACTERS] = packed([id for word in sentence.characters for id in word] for sentence in sentences)
            columns[WORD_LENGTHS] = packed(list(map(len, sentence.characters)) for sentence in sentences)
        width = max(len(sentence.words) for sentence in sentences)
        planned = Planned(np.arange(len(sentences)), Size(len(sentences), (width,)))
        return collate_tags(store_in_memory(columns), planned, columns=self.task.inputs)

    def _refuse_incomplete(self, sentence: Sentence) -> None:
        for name in self.task.inputs:
            if name not in sentence.columns:
                raise TextError(
                    f"this model also reads the column {name!r}: pass a file with that column, or "
                    f"calque.engine.Sentence(words, {{{name!r}: [...]}})"
                )
            if len(sentence.columns[name]) != len(sentence.words):
                raise TextError(
                    f"the sentence has {len(sentence.words)} words, but {len(sentence.columns[name])} values in the "
                    f"column {name!r}; expected one per word"
                )


def tagger_sizes(vocabularies: TaggerVocabularies, *, inputs: Sequence[str]) -> TaggerSizes:
    """The sizes of a tagger's vocabularies; further columns are in the order of `inputs`."""
    characters = 0 if vocabularies.characters is None else len(vocabularies.characters)
    columns = {name: len(vocabularies.columns[name]) for name in inputs}
    return TaggerSizes(len(vocabularies.words), len(vocabularies.labels), characters, columns)


def as_sentence(text: str | Sequence[str] | Sentence) -> Sentence:
    """Converts a text with white space between its words, or a list of words, to a `Sentence`."""
    if isinstance(text, Sentence):
        return text
    return Sentence(text.split() if isinstance(text, str) else list(text))


def _batches(lengths: Sequence[int], *, batch_tokens: int) -> Iterator[list[int]]:
    """Yields batches of indices of non-empty sentences of similar length, within `batch_tokens` padded words."""
    batch: list[int] = []
    for index in sorted((index for index, length in enumerate(lengths) if length), key=lambda index: lengths[index]):
        if batch and (len(batch) + 1) * lengths[index] > batch_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
