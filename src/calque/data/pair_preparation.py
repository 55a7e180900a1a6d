"""Sentence pairs as columns of a store: source and target ids, and word alignments if there are any."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from calque.data.fingerprint import text_settings
from calque.data.numericalise import Numericalised, Texts
from calque.data.store import ColumnKind, pack, smallest_unsigned
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
    """How corpora of pairs are prepared for translation: columns read, vocabularies learnt, columns stored."""

    text: TextConfig
    maximum_length: int = 256
    linked: bool = False
    """Whether any corpus has word alignments."""

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

    def __call__(self, rows: Sequence[Texts], *, training: bool) -> Numericalised:
        sources, targets = self._ids(rows)
        usable: list[int] = []
        long = empty = 0
        for index, (source, target) in enumerate(zip(sources, targets, strict=True)):
            if not source or not target:
                empty += 1
            elif max(len(source), len(target)) > self.maximum_length:
                long += 1
            else:
                usable.append(index)
        columns = {
            "source": pack([sources[index] for index in usable]),
            "target": pack([targets[index] for index in usable]),
        }
        if self.linked and training:
            columns[LINKS] = pack([self._links(rows[index]) for index in usable])
        return Numericalised(columns, usable, empty, long)

    def unknown(self, rows: Sequence[Texts]) -> dict[str, Counter[str]]:
        return {
            f"{side} characters": tokenizer.unknown_characters("".join(row[index] for row in rows))
            for index, (side, tokenizer) in enumerate(self.tokenizers._asdict().items())
        }

    def _links(self, row: Texts) -> list[int]:
        return piece_links(row, tokenizers=self.tokenizers) if len(row) > 2 else []

    def _ids(self, rows: Sequence[Texts]) -> tuple[list[list[int]], list[list[int]]]:
        """The ids of both sides; with a joint vocabulary, words outside it get ids of their own and can be copied."""
        sources, targets = [row[0] for row in rows], [row[1] for row in rows]
        if not self.tokenizers.joint:
            return self.tokenizers.source.encode_many(sources), self.tokenizers.target.encode_many(targets)
        numbered = number_source(self.tokenizers.source, sources)
        return [text.ids for text in numbered], number_target(self.tokenizers.target, targets, sources=numbered)
