"""Prepares sentence pairs for training: the source and target ids that a store holds, and any word alignments."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calque.data.corpora import DataConfig
from calque.data.fingerprint import text_settings
from calque.data.numericalise import Numericalised, Texts
from calque.data.store import ColumnKind, Rows, pack, select, smallest_unsigned
from calque.data.word_alignments import LINKS, piece_links
from calque.text import (
    TextConfig,
    Tokenizers,
    load_tokenizers,
    number_source,
    number_target,
    save_tokenizers,
    train_tokenizers,
)


class PairPreparation(NamedTuple):
    """How pairs are prepared for translation: the columns read, the vocabularies learnt and the columns stored."""

    text: TextConfig
    maximum_length: int = 256
    linked: bool = False
    """Whether any corpus has word alignments."""

    @classmethod
    def of(cls, data: DataConfig, *, text: TextConfig) -> "PairPreparation":
        """The preparation for the pairs of a data section."""
        return cls(text, data.maximum_length, data.aligned)

    @property
    def unit(self) -> str:
        return "pairs"

    @property
    def reads(self) -> tuple[str, ...]:
        return ("source", "target")

    @property
    def settings(self) -> Mapping[str, str]:
        return text_settings(self.text)

    @property
    def running(self) -> bool:
        return False

    @property
    def lines_up(self) -> bool:
        return True

    def lengths(self, rows: Sequence[Texts]) -> dict[str, list[int]]:
        return {f"{side} characters": [len(row[index]) for row in rows] for index, side in enumerate(self.reads)}

    def counts(self, rows: Sequence[Texts]) -> dict[str, Counter[str]]:
        return {}

    def learn(self, texts: Callable[[str], Iterator[str]], *, rows: int, folder: Path) -> None:
        tokenizers = train_tokenizers(
            self.text, source=lambda: texts("source"), target=lambda: texts("target"), pairs=rows
        )
        save_tokenizers(tokenizers, folder)

    def columns(self, folder: Path, *, training: bool) -> Mapping[str, ColumnKind]:
        tokenizers = load_tokenizers(folder)
        is_open = tokenizers.joint and not tokenizers.source.is_closed
        extra_ids = self.maximum_length if is_open else 0  # ids of words outside the vocabulary
        columns = {
            name: ColumnKind(smallest_unsigned(len(tokenizer.vocabulary) + extra_ids - 1))
            for name, tokenizer in tokenizers._asdict().items()
        }
        links = {LINKS: ColumnKind(smallest_unsigned(self.maximum_length))} if self.linked and training else {}
        return {**columns, **links}

    def numericaliser(self, folder: Path) -> "PairNumericaliser":
        return PairNumericaliser(load_tokenizers(folder), self.maximum_length, self.linked)


class PairNumericaliser(NamedTuple):
    """Converts pairs of texts to pairs of ids."""

    tokenizers: Tokenizers
    maximum_length: int
    linked: bool

    def __call__(self, columns: Sequence[Sequence[str]], *, training: bool) -> Numericalised:
        source, target = self._ids(columns[0], columns[1])
        is_empty = (source.lengths == 0) | (target.lengths == 0)
        is_long = ~is_empty & (np.maximum(source.lengths, target.lengths) > self.maximum_length)
        is_usable = ~(is_empty | is_long)
        usable: list[int] = np.flatnonzero(is_usable).tolist()
        ids = {"source": select(source, is_usable), "target": select(target, is_usable)}
        if self.linked and training:
            ids[LINKS] = pack([self._links([texts[index] for texts in columns]) for index in usable])
        return Numericalised(ids, usable, int(is_empty.sum()), int(is_long.sum()))

    def unknown(self, rows: Sequence[Texts]) -> dict[str, Counter[str]]:
        return {
            f"{side} characters": tokenizer.unknown_characters("".join(row[index] for row in rows))
            for index, (side, tokenizer) in enumerate(self.tokenizers._asdict().items())
        }

    def _links(self, row: Sequence[str]) -> list[int]:
        return piece_links(row, tokenizers=self.tokenizers) if len(row) > 2 else []

    def _ids(self, sources: Sequence[str], targets: Sequence[str]) -> tuple[Rows, Rows]:
        """The ids of sources and targets. With a joint vocabulary, unknown source words get ids and can be copied."""
        tokenizers = self.tokenizers
        if tokenizers.joint and not tokenizers.source.is_closed:
            numbered = number_source(tokenizers.source, sources)
            return pack([text.ids for text in numbered]), pack(
                number_target(tokenizers.target, targets, sources=numbered)
            )
        return Rows(*tokenizers.source.encode_flat(sources)), Rows(*tokenizers.target.encode_flat(targets))
