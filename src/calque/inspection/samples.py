"""Samples of data to inspect a model on: rows of prepared data, or lines of text, batched by length."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calque.data.batching import Planned
from calque.data.buckets import Size
from calque.data.pair_batch import PairBatch, collate_pairs
from calque.data.store import Store, pack, store_in_memory, store_of_pairs
from calque.data.tag_batch import TagBatch, collate_tags
from calque.data.text_batch import COLUMN, TextBatch, collate_lines, collate_streams
from calque.engine import TextGenerator, Translator
from calque.errors import DataError
from calque.inspection.state_gradients import InspectedBatch
from calque.tasks.language_modelling import LanguageModellingConfig
from calque.tasks.tagging import TaggingConfig
from calque.tasks.translation import TranslationConfig
from calque.text import BOS
from calque.text.forms import WORDS

LONGEST = 64  # positions of a sampled row
TOGETHER = 16  # rows of a batch

TaskConfig = TranslationConfig | LanguageModellingConfig | TaggingConfig
"""The tasks whose models `calque inspect --gradients` measures."""
Rows = NDArray[np.int64]


def sample_store(task: TaskConfig, store: Store, *, sentences: int) -> list[InspectedBatch]:
    """Batches of at most `sentences` evenly spaced rows of prepared data, none longer than `LONGEST` positions.

    If all rows are longer, the shortest are taken. The choice depends on the data alone, so that different models and
    training steps are compared on the same rows.
    """
    match task:
        case TranslationConfig():
            return [_pairs(store, rows) for rows in _batches(store, ("source", "target"), sentences=sentences)]
        case TaggingConfig():
            return [_tags(store, rows, task.inputs) for rows in _batches(store, (WORDS,), sentences=sentences)]
        case LanguageModellingConfig() if task.reading == "lines":
            return [_lines(store, rows) for rows in _batches(store, (COLUMN,), sentences=sentences)]
        case LanguageModellingConfig():
            return _running(store, sentences=sentences)


def sample_pairs(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> list[InspectedBatch]:
    """Batches of sentence pairs given as text; pairs with an empty side are left out.

    Out-of-vocabulary words are read as the unknown piece, even by models that can copy words.
    """
    tokenizers = translator.tokenizers
    pairs = list(zip(tokenizers.source.encode_many(sources), tokenizers.target.encode_many(targets), strict=True))
    store = store_of_pairs([(source, target) for source, target in pairs if source and target])
    return sample_store(TranslationConfig(), _refuse_empty(store), sentences=len(store))


def sample_text(generator: TextGenerator, lines: Sequence[str]) -> list[InspectedBatch]:
    """Batches of given lines of text, each read by itself; empty lines are left out."""
    encoded = [ids for ids in generator.tokenizer.encode_many(lines) if ids]
    store = _refuse_empty(store_in_memory({COLUMN: pack(encoded)}))
    batches = [_lines(store, rows) for rows in _batches(store, (COLUMN,), sentences=len(store))]
    return [batch._replace(inputs=batch.inputs.masked_fill(batch.inputs == BOS, generator.start)) for batch in batches]


def _refuse_empty(store: Store) -> Store:
    if len(store) == 0:
        raise DataError("every line is empty: there is nothing to inspect")
    return store


def _batches(store: Store, columns: Sequence[str], *, sentences: int) -> list[Rows]:
    """Batches of at most `sentences` evenly spaced rows of the store, given as row numbers, longest rows first."""
    longest = np.max([store[name].lengths.astype(np.int64) for name in columns], axis=0)
    rows = np.flatnonzero((longest > 0) & (longest < LONGEST))
    if len(rows) == 0:
        rows = np.argsort(longest, kind="stable")[:sentences]
    chosen = rows[np.unique(np.linspace(0, len(rows) - 1, min(sentences, len(rows))).astype(np.int64))]
    ordered = chosen[np.argsort(-longest[chosen], kind="stable")]
    return [ordered[start : start + TOGETHER] for start in range(0, len(ordered), TOGETHER)]


def _planned(store: Store, rows: Rows, columns: Sequence[str], *, marks: int) -> Planned:
    widths = tuple(int(store.widths(name, marks=marks)[rows].max()) for name in columns)
    return Planned(rows, Size(len(rows), widths))


def _pairs(store: Store, rows: Rows) -> PairBatch:
    return collate_pairs(store, planned=_planned(store, rows, ("source", "target"), marks=1))


def _lines(store: Store, rows: Rows) -> TextBatch:
    return collate_lines(store, _planned(store, rows, (COLUMN,), marks=1))


def _tags(store: Store, rows: Rows, inputs: Sequence[str]) -> TagBatch:
    return collate_tags(store, _planned(store, rows, (WORDS,), marks=0), columns=inputs)


def _running(store: Store, *, sentences: int) -> list[InspectedBatch]:
    """Batches of at most `sentences` evenly spaced segments of a text that is read as one stream, not line by line."""
    total = len(store[COLUMN].values)
    width = min(LONGEST, total - 1)
    count = max(1, min(sentences, total // (width + 1)))
    starts = np.linspace(0, total - width - 1, count).astype(np.int64)
    return [
        collate_streams(store, Planned(part, Size(len(part), (width,))))
        for part in (starts[at : at + TOGETHER] for at in range(0, len(starts), TOGETHER))
    ]
