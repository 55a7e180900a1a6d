"""Subword sampling: every epoch cuts the words of a pair into other pieces.

How a pair is cut is a function of seed, epoch and the pair's index in the store, and of nothing else. The plan of
batches stays that of the store, so that neither workers nor a resume change anything; what is drawn is longer, and a
batch becomes as wide as it must.
"""

from functools import partial
from random import Random
from typing import Annotated, Literal, Protocol, Self, assert_never

import numpy as np
from pydantic import Field

from calque.config import Config
from calque.data.batching import WHOLE, BatchConfig, Planned, Shard
from calque.data.buckets import Size
from calque.data.pair_batch import PairBatch, collate_pairs, pair_widths
from calque.data.store import Store, store_of_pairs
from calque.errors import ConfigError
from calque.text import SentencePieceTokenizer, TextConfig, Tokenizer, Tokenizers
from calque.text.sampling import MergeDropout, NBestSampling, Segmenter, UnigramSampling

Sides = Literal["both", "source", "target"]
_SIDES = ("source", "target")
_SAMPLE = 256  # pairs that say how much longer drawn ones are


class FixedConfig(Config):
    """Words are always cut the same way."""

    kind: Literal["fixed"] = "fixed"


class BpeDropoutConfig(Config):
    """Merges of byte-pair encoding are left out at random (Provilkov et al. 2020)."""

    kind: Literal["bpe-dropout"] = "bpe-dropout"
    dropout: float = Field(default=0.1, gt=0, le=1)
    """How likely each merge is left out."""
    sides: Sides = "both"
    """Which sides are cut anew."""
    longest: int = Field(default=256, ge=1)
    """A text that would get more pieces than this is cut as usual."""


class UnigramSamplingConfig(Config):
    """Ways to cut a text are drawn from the unigram model (Kudo 2018, §3.3)."""

    kind: Literal["unigram"] = "unigram"
    alpha: float = Field(default=0.2, ge=0)
    """Each counts by its probability to this power; 0: all the same."""
    nbest: int = Field(default=0, ge=0, le=512)
    """Only so many of the likeliest ways to cut a whole text are drawn from; 0: all there are."""
    sides: Sides = "both"
    """Which sides are cut anew."""
    longest: int = Field(default=256, ge=1)
    """A text that would get more pieces than this is cut as usual."""


SubwordsConfig = Annotated[FixedConfig | BpeDropoutConfig | UnigramSamplingConfig, Field(discriminator="kind")]


def misfits(config: SubwordsConfig, *, text: TextConfig, batch: BatchConfig) -> list[str]:
    """Why a way to cut words does not go with a text or batch section, a sentence each; empty where it does."""
    if isinstance(config, FixedConfig):
        return []
    found = []
    needed = _algorithm(config)
    kind, algorithm = getattr(text, "kind", "given"), getattr(text, "algorithm", None)
    name = f"training.subwords.kind = {config.kind!r}"
    if kind not in ("sentencepiece", "given"):
        found.append(f"{name} and text.kind = {kind!r} cannot be combined; set text.kind = 'sentencepiece'")
    elif algorithm not in (needed, None):
        found.append(f"{name} and text.algorithm = {algorithm!r} cannot be combined; set text.algorithm = {needed!r}")
    if batch.shapes == "static":
        found.append(
            f"{name} and training.batch.shapes = 'static' cannot be combined, as what is drawn has any length; "
            "set training.batch.shapes = 'exact'"
        )
    return found


def refuse_unfit_tokenizers(config: SubwordsConfig, tokenizers: Tokenizers) -> None:
    """Raises a ConfigError where words cannot be cut that way with these tokenizers."""
    if not isinstance(config, FixedConfig):
        for tokenizer in tokenizers:
            _fitting(tokenizer, config)


class Draw(Protocol):
    """The ids of a text, cut anew."""

    def __call__(self, text: str, *, random: Random) -> list[int]: ...


class SubwordSampler:
    """Pairs of a store, cut anew per epoch.   Law: a pair's pieces are f(seed, epoch, index) and spell its text."""

    def __init__(
        self,
        config: BpeDropoutConfig | UnigramSamplingConfig,
        *,
        store: Store,
        tokenizers: Tokenizers,
        seed: int,
    ) -> None:
        self.config = config
        self.store = store
        self.seed = seed
        self.sides = tuple(_fitting(each, config) for each in tokenizers)
        draws = {id(each): _draw(each, config) for each in self.sides}
        self.draws = [draws[id(each)] for each in self.sides]

    @classmethod
    def of(cls, config: SubwordsConfig, *, store: Store, tokenizers: Tokenizers, seed: int) -> Self | None:
        """A sampler, where one is asked for."""
        if isinstance(config, FixedConfig):
            return None
        return cls(config, store=store, tokenizers=tokenizers, seed=seed)

    def pair(self, index: int, *, epoch: int) -> tuple[list[int], list[int]]:
        """The ids of both sides in an epoch."""
        random = Random(f"subwords {self.seed} {epoch} {index}")  # which hashes it with SHA-512
        drawn = []
        for name, tokenizer, draw in zip(_SIDES, self.sides, self.draws, strict=True):
            stored = self.store[name].row(index).tolist()
            new = stored
            if self.config.sides in ("both", name):
                new = draw(tokenizer.decode(stored), random=random)
            drawn.append(new if 0 < len(new) <= self.config.longest else stored)
        source, target = drawn
        return source, target

    def collate(self, planned: Planned, *, epoch: int, shard: Shard = WHOLE) -> PairBatch:
        """The batch a plan over the store asks for, as wide as its pairs are in this epoch, or one rank's rows of it.

        Every rank cuts all pairs, as it must know how many tokens they have together.
        """
        pairs = [self.pair(int(index), epoch=epoch) for index in planned.indices]
        width, height = (1 + max(len(pair[side]) for pair in pairs) for side in (0, 1))
        size = Size(planned.size.rows, (width, height))
        return collate_pairs(store_of_pairs(pairs), planned=Planned(np.arange(len(pairs)), size), shard=shard)

    def growth(self) -> float:
        """How much longer pairs are than in the store, end marks counted: a plan's budget is divided by it."""
        count = len(self.store)
        indices = np.unique(np.linspace(0, count - 1, num=min(count, _SAMPLE)).astype(np.int64))
        before = sum(int(widths[indices].sum()) for widths in pair_widths(self.store))
        after = sum(2 + len(source) + len(target) for source, target in (self.pair(int(i), epoch=0) for i in indices))
        return max(1.0, after / before) if before else 1.0


def _draw(tokenizer: SentencePieceTokenizer, config: BpeDropoutConfig | UnigramSamplingConfig) -> Draw:
    match config:
        case BpeDropoutConfig():
            return _word_by_word(tokenizer, MergeDropout(tokenizer.scores(), dropout=config.dropout))
        case UnigramSamplingConfig(nbest=0):
            return _word_by_word(tokenizer, UnigramSampling(tokenizer.scores(), alpha=config.alpha))
        case UnigramSamplingConfig():
            return NBestSampling(partial(tokenizer.nbest, count=config.nbest), alpha=config.alpha)
        case _:
            assert_never(config)


def _word_by_word(tokenizer: SentencePieceTokenizer, cut: Segmenter) -> Draw:
    def draw(text: str, *, random: Random) -> list[int]:
        return tokenizer.encode_with(text, segment=partial(cut, random=random))

    return draw


def _fitting(tokenizer: Tokenizer, config: BpeDropoutConfig | UnigramSamplingConfig) -> SentencePieceTokenizer:
    """The tokenizer, if it can be sampled from that way."""
    needed = _algorithm(config)
    if not isinstance(tokenizer, SentencePieceTokenizer):
        raise ConfigError(
            f"training.subwords.kind = {config.kind!r} needs text.kind = 'sentencepiece', not {tokenizer.kind!r}"
        )
    if tokenizer.algorithm != needed:
        raise ConfigError(
            f"training.subwords.kind = {config.kind!r} needs text.algorithm = {needed!r}, not {tokenizer.algorithm!r}"
        )
    return tokenizer


def _algorithm(config: BpeDropoutConfig | UnigramSamplingConfig) -> str:
    return "bpe" if config.kind == "bpe-dropout" else "unigram"
