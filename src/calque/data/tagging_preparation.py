"""Labelled sentences as columns of a store, for taggers."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from calque.data.fingerprint import text_settings
from calque.data.numericalise import Numericalised, Texts
from calque.data.store import ColumnKind, pack, smallest_unsigned
from calque.text import UNK, FormsConfig, TaggerVocabularies, learn_vocabularies
from calque.text.forms import CHARACTERS, LABELS, WORDS, EncodedWords

WORD_LENGTHS = "word_lengths"


class TaggingPreparation(NamedTuple):
    """How labelled sentences are prepared for taggers: which columns hold the words, the labels and other inputs."""

    text: FormsConfig
    words: str
    labels: str
    inputs: tuple[str, ...] = ()
    """Further input columns."""
    characters: bool = False
    """Whether the characters of the words are stored."""
    maximum_length: int = 256

    @property
    def unit(self) -> str:
        return "sentences"

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.words, self.labels, *self.inputs)

    @property
    def settings(self) -> Mapping[str, str]:
        return {
            **text_settings(self.text),
            "task.words": self.words,
            "task.labels": self.labels,
            "task.inputs": "\t".join(self.inputs),
            "task.characters": "yes" if self.characters else "no",
        }

    @property
    def running(self) -> bool:
        return False

    @property
    def lines_up(self) -> bool:
        return False

    def lengths(self, rows: Sequence[Texts]) -> dict[str, list[int]]:
        return {"words per sentence": [row[0].count("\t") + 1 for row in rows]}

    def counts(self, rows: Sequence[Texts]) -> dict[str, Counter[str]]:
        return {self.labels: Counter(label for row in rows for label in row[1].split("\t"))}

    def learn(self, texts: Callable[[str], Iterator[str]], *, rows: int, folder: Path) -> None:
        def values(column: str) -> Iterator[list[str]]:
            return (text.split("\t") for text in texts(column))

        learn_vocabularies(
            self.text,
            forms=values(self.words),
            labels=values(self.labels),
            columns={name: values(name) for name in self.inputs},
            characters=self.characters,
        ).save(folder)

    def columns(self, folder: Path, *, training: bool) -> Mapping[str, ColumnKind]:
        sizes = TaggerVocabularies.load(folder, config=self.text).sizes()
        kinds = {name: ColumnKind(smallest_unsigned(size)) for name, size in sizes.items()}
        if self.characters:
            kinds[WORD_LENGTHS] = ColumnKind(smallest_unsigned(self.text.maximum_characters))
        return kinds

    def numericaliser(self, folder: Path) -> "TaggingNumericaliser":
        return TaggingNumericaliser(
            TaggerVocabularies.load(folder, config=self.text), self.inputs, self.characters, self.maximum_length
        )


class TaggingNumericaliser(NamedTuple):
    """Converts sentences to ids. Labels that do not occur in training share one id, the next after the known labels."""

    vocabularies: TaggerVocabularies
    inputs: tuple[str, ...]
    characters: bool
    maximum_length: int

    def __call__(self, columns: Sequence[Sequence[str]], *, training: bool) -> Numericalised:
        usable: list[int] = []
        sentences: list[EncodedWords] = []
        labels: list[list[int]] = []
        for index, (words, gold, *inputs) in enumerate(zip(*columns, strict=True)):
            forms = words.split("\t")
            if len(forms) > self.maximum_length:
                continue
            values = {name: text.split("\t") for name, text in zip(self.inputs, inputs, strict=True)}
            usable.append(index)
            sentences.append(self.vocabularies.encode(forms, values))
            labels.append(self.vocabularies.label_ids(gold.split("\t")))
        ids = {
            WORDS: pack([sentence.words for sentence in sentences]),
            LABELS: pack(labels),
            **{name: pack([sentence.columns[name] for sentence in sentences]) for name in self.inputs},
        }
        if self.characters:
            ids[CHARACTERS] = pack([list(chain.from_iterable(sentence.characters)) for sentence in sentences])
            ids[WORD_LENGTHS] = pack([list(map(len, sentence.characters)) for sentence in sentences])
        return Numericalised(ids, usable, long=len(columns[0]) - len(usable))

    def unknown(self, rows: Sequence[Texts]) -> dict[str, Counter[str]]:
        vocabularies = self.vocabularies
        forms = Counter(form for row in rows for form in row[0].split("\t"))
        ids = vocabularies.words.ids(map(vocabularies.config.word, forms))
        return {"words": Counter({form: forms[form] for form, id in zip(forms, ids, strict=True) if id == UNK})}
