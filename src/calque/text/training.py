"""Training the tokenizers of a corpus: one per column, or one that source and target share."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, compress, count
from pathlib import Path
from typing import Annotated, Literal, assert_never

import numpy as np
from pydantic import Field

from calque.config import Config, Values
from calque.errors import TextError
from calque.text.bytes import BytesConfig, BytesTokenizer
from calque.text.characters import CharactersConfig, CharactersTokenizer
from calque.text.folder import DESCRIPTION, load_tokenizer, load_tokenizers
from calque.text.forms import FormsConfig
from calque.text.sentencepiece import SentencePieceConfig, SentencePieceTokenizer
from calque.text.tokenizer import Tokenizer, Tokenizers
from calque.text.tokens import TokensConfig, TokensTokenizer
from calque.text.words import WordsConfig, WordsTokenizer


class GivenConfig(Config):
    """Use the tokenizers of an existing run, model or store."""

    kind: Literal["given"] = "given"
    path: Path
    """A run, model, store or tokenizer folder, whose tokenizers are used unchanged."""

    @property
    def folder(self) -> Path:
        """The folder that contains the tokenizers themselves."""
        for place in (self.path / "model" / "tokenizer", self.path / "tokenizer", self.path):
            if (place / DESCRIPTION).is_file():
                return place
        raise TextError(f"text.path: {self.path}: no tokenizer found; expected a run, model, store or tokenizer folder")

    @property
    def joint(self) -> bool:
        return self.load().joint

    def load(self) -> Tokenizers:
        """The tokenizers of source and target."""
        return load_tokenizers(self.folder)


ColumnTextConfig = Annotated[
    SentencePieceConfig | TokensConfig | WordsConfig | CharactersConfig | BytesConfig | GivenConfig,
    Field(discriminator="kind"),
]


class ColumnsConfig(Config):
    """Separate settings for source and target, such as characters for one and words for the other."""

    kind: Literal["columns"] = "columns"
    source: ColumnTextConfig
    target: ColumnTextConfig

    @property
    def joint(self) -> bool:
        return False


TextConfig = Annotated[
    SentencePieceConfig
    | TokensConfig
    | WordsConfig
    | CharactersConfig
    | BytesConfig
    | GivenConfig
    | ColumnsConfig
    | FormsConfig,
    Field(discriminator="kind"),
]
_BLOCK = 1 << 14  # lines
_FORMS = 'text.kind = "forms" is for tagging, whose corpora have one word per line; choose another kind'


def with_kind(section: Values) -> Values:
    """The values of a text section, with a default kind: columns if it has source or target, else sentencepiece."""
    kind = "columns" if {"source", "target"} & section.keys() else "sentencepiece"
    return section if "kind" in section else {"kind": kind, **section}


Lines = Callable[[], Iterator[str]]


def train_tokenizers(config: TextConfig, *, source: Lines, target: Lines, pairs: int) -> Tokenizers:
    """The tokenizers of source and target, trained on `pairs` lines each, which `source()` and `target()` yield."""
    match config:
        case ColumnsConfig():
            return Tokenizers(
                train_tokenizer(config.source, lines=source, count=pairs, column="source"),
                train_tokenizer(config.target, lines=target, count=pairs, column="target"),
            )
        case SentencePieceConfig():
            take = config.sample // 2 if config.joint else config.sample
            share = min(1.0, take / max(pairs, 1))
            sides = [spread(lines(), of=pairs, take=take) for lines in (source, target)]
        case TokensConfig() | WordsConfig() | CharactersConfig():
            share = 1.0
            sides = [source(), target()]
        case BytesConfig():
            return _shared(BytesTokenizer())
        case GivenConfig():
            return config.load()
        case FormsConfig():
            raise TextError(_FORMS)
        case _:
            assert_never(config)
    if config.joint:
        return _shared(_train(config, lines=chain(*sides), share=share))
    return Tokenizers(*(_train(config, lines=lines, share=share) for lines in sides))


def train_tokenizer(config: TextConfig, *, lines: Lines, count: int, column: str = "text") -> Tokenizer:
    """Trains the tokenizer of one corpus column, such as the source, on its `count` lines."""
    match config:
        case SentencePieceConfig():
            share = min(1.0, config.sample / max(count, 1))
            return _train(config, lines=spread(lines(), of=count, take=config.sample), share=share)
        case TokensConfig() | WordsConfig() | CharactersConfig():
            return _train(config, lines=lines(), share=1.0)
        case BytesConfig():
            return BytesTokenizer()
        case GivenConfig():
            return load_tokenizer(config.folder, column=column)
        case FormsConfig():
            raise TextError(_FORMS)
        case ColumnsConfig():
            raise TextError(
                'text.kind = "columns" is for source and target, but this task reads a single text; choose another kind'
            )
        case _:
            assert_never(config)


def spread(lines: Iterable[str], *, of: int, take: int) -> Iterator[str]:
    """Yields `take` of the `of` lines, evenly spaced from the first on, or all lines if there are at most `take`."""
    if take >= of:
        return iter(lines)
    blocks = (np.arange(start, start + _BLOCK) for start in count(step=_BLOCK))
    return compress(lines, chain.from_iterable((places * take % of < take).tolist() for places in blocks))


def _train(
    config: SentencePieceConfig | TokensConfig | WordsConfig | CharactersConfig, *, lines: Iterable[str], share: float
) -> Tokenizer:
    match config:
        case SentencePieceConfig():
            return SentencePieceTokenizer.train(config, lines=lines, share=share)
        case TokensConfig():
            return TokensTokenizer.train(config, lines=lines)
        case WordsConfig():
            return WordsTokenizer.train(config, lines=lines)
        case CharactersConfig():
            return CharactersTokenizer.train(config, lines=lines)
        case _:
            assert_never(config)


def _shared(tokenizer: Tokenizer) -> Tokenizers:
    return Tokenizers(source=tokenizer, target=tokenizer)
