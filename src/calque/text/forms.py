"""The vocabularies of a tagger (words, their characters, further input columns) and its label set.

`save_columns` writes one vocabulary per column; the label set is written next to them as labels.json.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from calque.config import Config
from calque.errors import TextError
from calque.parsing import parse_json
from calque.text.cleaning import ESCAPE
from calque.text.folder import load_columns, save_columns
from calque.text.span_labels import bio_name, has_spans, to_bio, to_iobes
from calque.text.tokenizer import Tokenizer, normalise
from calque.text.tokens import TokensTokenizer
from calque.text.vocabulary import PIECES, Vocabulary

WORDS, CHARACTERS, LABELS = "words", "characters", "labels"
RESERVED = (WORDS, CHARACTERS, LABELS, "word_lengths")
"""Reserved names, which further input columns cannot have."""
LABEL_SET = "labels.json"


class FormsConfig(Config):
    """How words are read from files that list one word per row, so that no tokenizer is needed."""

    kind: Literal["forms"] = "forms"
    lowercase: bool = False
    """Ignore case when a word's vector is looked up; characters keep their case."""
    digits: bool = False
    """Replace all digits with 0 when a word's vector is looked up; characters keep their digits."""
    minimum_count: int = Field(default=1, ge=1)
    """Words that occur less often than this share the vector of the unknown word."""
    vocabulary_size: int | None = Field(default=None, gt=len(PIECES))
    """The number of most frequent words to keep, including the four special pieces; by default all words."""
    scheme: Literal["corpus", "iobes"] = "corpus"
    """How the model labels spans. corpus: as in the files. iobes: BIO labels are converted to IOBES for
    the model, which marks the last word of a span, and predictions are converted back to BIO."""
    maximum_characters: int = Field(default=40, ge=2, le=1 << 12)
    """The maximum number of characters read per word; of a longer word, half are from its beginning, half from its
    end."""

    @property
    def joint(self) -> bool:
        return False

    def word(self, form: str) -> str:
        """The form of a word to look up in the vocabulary: lowercased, and with digits replaced, if configured so."""
        form = normalise(form)
        if self.lowercase:
            form = form.lower()
        if self.digits:
            form = "".join("0" if character.isdecimal() else character for character in form)
        return escaped(form)

    def spelling(self, form: str) -> str:
        """The characters of a word that the model reads: the first and last ones if the word is too long."""
        form, half = normalise(form), self.maximum_characters // 2
        return form if len(form) <= self.maximum_characters else form[: self.maximum_characters - half] + form[-half:]


class EncodedWords(NamedTuple):
    """The ids of a sentence's words, of the words' characters, and of the values in further columns."""

    words: list[int]
    characters: list[list[int]]  # per word; empty if the model reads no characters
    columns: dict[str, list[int]]


class TaggerVocabularies(NamedTuple):
    """The vocabularies of a tagger's inputs, and its label set."""

    config: FormsConfig
    words: Vocabulary
    characters: Vocabulary | None
    columns: dict[str, Vocabulary]
    labels: tuple[str, ...]
    """The labels in the model's scheme; `predicted_labels` are those in the scheme of the corpus."""

    def encode(self, forms: Sequence[str], columns: Mapping[str, Sequence[str]]) -> EncodedWords:
        """The ids of a sentence's words; `columns` contains one value per word for each further input column."""
        characters: list[list[int]] = [[] for _ in forms]
        if self.characters is not None:
            characters = [self.characters.ids(self.config.spelling(form)) for form in forms]
        return EncodedWords(
            self.words.ids(map(self.config.word, forms)),
            characters,
            {name: vocabulary.ids(map(escaped, columns[name])) for name, vocabulary in self.columns.items()},
        )

    @property
    def predicted_labels(self) -> tuple[str, ...]:
        """The labels that can be predicted, in the label scheme of the corpus (such as BIO)."""
        if self.config.scheme == "corpus":
            return self.labels
        return tuple(dict.fromkeys(map(bio_name, self.labels)))

    def label_ids(self, labels: Sequence[str]) -> list[int]:
        """The ids of a sentence's labels. Labels that do not occur in training share the id after the last one."""
        ids = {label: id for id, label in enumerate(self.labels)}
        return [ids.get(label, len(ids)) for label in _in_scheme(labels, config=self.config)]

    def label_names(self, ids: Sequence[int]) -> list[str]:
        """The labels with these ids, one per word, converted to the label scheme of the corpus (such as BIO)."""
        names = [self.labels[id] for id in ids]
        return names if self.config.scheme == "corpus" else to_bio(names)

    def label_shares(self, shares: Sequence[float]) -> dict[str, float]:
        """The probability of each label in the corpus's scheme, given those of the model's labels.

        If the model uses another scheme, the probabilities of labels that the corpus does not distinguish (S-PER and
        B-PER are both B-PER in BIO) are added up.
        """
        if self.config.scheme == "corpus":
            return dict(zip(self.labels, shares, strict=True))
        totals = dict.fromkeys(self.predicted_labels, 0.0)
        for label, share in zip(self.labels, shares, strict=True):
            totals[bio_name(label)] += share
        return totals

    def sizes(self) -> dict[str, int]:
        """The vocabulary size of each input column, and the number of labels, by column name."""
        characters = {} if self.characters is None else {CHARACTERS: len(self.characters)}
        columns = {name: len(vocabulary) for name, vocabulary in self.columns.items()}
        return {WORDS: len(self.words), **characters, **columns, LABELS: len(self.labels)}

    def save(self, folder: Path) -> None:
        """Writes one file per vocabulary, and the label set."""
        vocabularies = {WORDS: self.words, **self.columns}
        if self.characters is not None:
            vocabularies[CHARACTERS] = self.characters
        tokenizers: dict[str, Tokenizer] = {
            name: TokensTokenizer(vocabulary) for name, vocabulary in vocabularies.items()
        }
        save_columns(tokenizers, folder)
        text = json.dumps({"labels": self.labels}, ensure_ascii=True, indent=1)
        (folder / LABEL_SET).write_text(text + "\n", encoding="ascii")

    @classmethod
    def load(cls, folder: Path, *, config: FormsConfig) -> "TaggerVocabularies":
        """The vocabularies that `save` wrote. Raises a TextError that names a missing or damaged file."""
        loaded = {name: tokenizer.vocabulary for name, tokenizer in load_columns(folder).items()}
        if WORDS not in loaded:
            raise TextError(f"{folder}: the vocabulary of words is missing; found only {' and '.join(sorted(loaded))}")
        columns = {name: vocabulary for name, vocabulary in loaded.items() if name not in RESERVED}
        labels = _read_labels(folder / LABEL_SET)
        return cls(config, loaded[WORDS], loaded.get(CHARACTERS), columns, labels)


def learn_vocabularies(
    config: FormsConfig,
    *,
    forms: Iterable[Sequence[str]],
    labels: Iterable[Sequence[str]],
    columns: Mapping[str, Iterable[Sequence[str]]],
    characters: bool,
) -> TaggerVocabularies:
    """The vocabularies and label set of a corpus, given the values of each column, one list per sentence."""
    words, character_counts = Counter[str](), Counter[str]()
    for sentence in forms:
        words.update(map(config.word, sentence))
        if characters:
            character_counts.update("".join(map(config.spelling, sentence)))
    size = config.vocabulary_size or len(PIECES) + len(words)
    return TaggerVocabularies(
        config,
        Vocabulary.from_counts(words, size=size, minimum_count=config.minimum_count),
        _vocabulary(character_counts) if characters else None,
        {name: _vocabulary(_counted(map(escaped, values) for values in lists)) for name, lists in columns.items()},
        _learn_labels(config, labels),
    )


def escaped(value: str) -> str:
    """The value, escaped if it would be read as a special piece."""
    return ESCAPE + value if value.lstrip(ESCAPE) in PIECES else value


def _learn_labels(config: FormsConfig, labels: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """All labels in `config.scheme`, most frequent first. Raises a TextError if they cannot be converted to it."""
    counts, raw = Counter[str](), Counter[str]()
    for sentence in labels:
        raw.update(sentence)
        counts.update(_in_scheme(sentence, config=config))
    if config.scheme == "iobes" and (not has_spans(raw) or any(label[0] in "ES" for label in raw)):
        listed = ", ".join(_by_frequency(raw)[:8])
        raise TextError(
            f'text.scheme = "iobes" is for BIO labels such as B-NP, I-NP and O, but this corpus has {listed}; '
            'set text.scheme = "corpus"'
        )
    return _by_frequency(counts)


def _in_scheme(labels: Sequence[str], *, config: FormsConfig) -> Sequence[str]:
    return to_iobes(labels) if config.scheme == "iobes" else labels


def _counted(lists: Iterable[Iterable[str]]) -> Counter[str]:
    counts = Counter[str]()
    for values in lists:
        counts.update(values)
    return counts


def _by_frequency(counts: Counter[str]) -> tuple[str, ...]:
    return tuple(sorted(counts, key=lambda value: (-counts[value], value)))


def _vocabulary(counts: Counter[str]) -> Vocabulary:
    return Vocabulary.from_counts(counts, size=len(PIECES) + len(counts))


def _read_labels(path: Path) -> tuple[str, ...]:
    try:
        labels = parse_json(path.read_bytes())["labels"]
        if isinstance(labels, list) and labels and all(isinstance(label, str) for label in labels):
            return tuple(labels)
    except OSError as error:
        raise TextError(f"{path}: {error.strerror or error}") from None
    except (ValueError, TypeError, KeyError):
        pass
    raise TextError(f"{path}: damaged: expected a list of labels")
