"""Subword regularisation: the words of each pair are segmented anew in every epoch.

The segmentation of a pair depends only on the seed, the epoch and the pair's index in the store. Batches are planned
from the lengths in the store, so neither the number of workers nor resuming changes which pairs they contain. Sampled
segmentations are usually longer than the stored ones, so a batch may be larger than planned.
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
_SAMPLE = 256  # pairs from which the growth in length is estimated


class FixedConfig(Config):
    """Words are always segmented the same way."""

    kind: Literal["fixed"] = "fixed"


class BpeDropoutConfig(Config):
    """BPE-dropout: merges of byte-pair encoding are skipped at random (Provilkov et al. 2020)."""

    kind: Literal["bpe-dropout"] = "bpe-dropout"
    dropout: float = Field(default=0.1, gt=0, le=1)
    """The probability that a merge is skipped."""
    sides: Sides = "both"
    """The sides whose segmentation is sampled."""
    longest: int = Field(default=256, ge=1)
    """A text whose sampled segmentation has more pieces than this keeps its usual segmentation."""


class UnigramSamplingConfig(Config):
    """Segmentations are sampled from the unigram model (Kudo 2018, §3.3)."""

    kind: Literal["unigram"] = "unigram"
    alpha: float = Field(default=0.2, ge=0)
    """Segmentations are sampled in proportion to their probability to this power; with 0, uniformly."""
    nbest: int = Field(default=0, ge=0, le=512)
    """The number of most probable segmentations of a text to sample from; 0 samples from all."""
    sides: Sides = "both"
    """The sides whose segmentation is sampled."""
    longest: int = Field(default=256, ge=1)
    """A text whose sampled segmentation has more pieces than this keeps its usual segmentation."""


SubwordsConfig = Annotated[FixedConfig | BpeDropoutConfig | UnigramSamplingConfig, Field(discriminator="kind")]


def misfits(config: SubwordsConfig, *, text: TextConfig, batch: BatchConfig) -> list[str]:
    """Messages that say why subword sampling cannot be combined with the config's text or batch section."""
    if isinstance(config, FixedConfig):
        return []
    problems = []
    needed = _algorithm(config)
    kind, algorithm = getattr(text, "kind", "given"), getattr(text, "algorithm", None)
    name = f"training.subwords.kind = {config.kind!r}"
    if kind not in ("sentencepiece", "given"):
        problems.append(f"{name} and text.kind = {kind!r} cannot be combined; set text.kind = 'sentencepiece'")
    elif algorithm not in (needed, None):
        problems.append(
            f"{name} and text.algorithm = {algorithm!r} cannot be combined; set text.algorithm = {needed!r}"
        )
    if batch.shapes == "static":
        problems.append(
            f"{name} and training.batch.shapes = 'static' cannot be combined, as sampled segmentations vary in length; "
            "set training.batch.shapes = 'exact'"
        )
    return problems


def refuse_unfit_tokenizers(config: SubwordsConfig, tokenizers: Tokenizers) -> None:
    """Raises a ConfigError if these tokenizers do not support the configured kind of subword sampling."""
    if not isinstance(config, FixedConfig):
        for tokenizer in tokenizers:
            _sampled_tokenizer(tokenizer, config)


class Draw(Protocol):
    """Samples a segmentation of a text, as ids."""

    def __call__(self, text: str, *, random: Random) -> list[int]: ...


class SubwordSampler:
    """Samples the segmentations of a store's pairs, anew in each epoch.

    Law: a pair's pieces depend only on seed, epoch and index, and together they spell its text.
    """

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
        self.sides = tuple(_sampled_tokenizer(tokenizer, config) for tokenizer in tokenizers)
        draws = {id(tokenizer): _draw(tokenizer, config) for tokenizer in self.sides}
        self.draws = [draws[id(tokenizer)] for tokenizer in self.sides]

    @classmethod
    def of(cls, config: SubwordsConfig, *, store: Store, tokenizers: Tokenizers, seed: int) -> Self | None:
        """The sampler that a config describes; None if segmentations are fixed."""
        if isinstance(config, FixedConfig):
            return None
        return cls(config, store=store, tokenizers=tokenizers, seed=seed)

    def pair(self, index: int, *, epoch: int) -> tuple[list[int], list[int]]:
        """The ids of source and target of a pair, as segmented in this epoch."""
        random = Random(f"subwords {self.seed} {epoch} {index}")  # Random hashes a string with SHA-512
        sides = []
        for name, tokenizer, draw in zip(_SIDES, self.sides, self.draws, strict=True):
            stored = self.store[name].row(index).tolist()
            sampled = stored
            if self.config.sides in ("both", name):
                sampled = draw(tokenizer.decode(stored), random=random)
            sides.append(sampled if 0 < len(sampled) <= self.config.longest else stored)
        source, target = sides
        return source, target

    def collate(self, planned: Planned, *, epoch: int, shard: Shard = WHOLE) -> PairBatch:
        """Collates a planned batch, as wide as its longest pair in this epoch; with a shard, only that rank's rows.

        Every rank segments all pairs of the batch, because it needs their total number of tokens.
        """
        pairs = [self.pair(int(index), epoch=epoch) for index in planned.indices]
        width, height = (1 + max(len(pair[side]) for pair in pairs) for side in (0, 1))
        size = Size(planned.size.rows, (width, height))
        return collate_pairs(store_of_pairs(pairs), planned=Planned(np.arange(len(pairs)), size), shard=shard)

    def growth(self) -> float:
        """The length of sampled pairs relative to stored ones, at least 1; a batch's token budget is divided by it."""
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


def _word_by_word(tokenizer: SentencePieceTokenizer, segment: Segmenter) -> Draw:
    def draw(text: str, *, random: Random) -> list[int]:
        return tokenizer.encode_with(text, segment=partial(segment, random=random))

    return draw


def _sampled_tokenizer(
    tokenizer: Tokenizer, config: BpeDropoutConfig | UnigramSamplingConfig
) -> SentencePieceTokenizer:
    """Returns the tokenizer; raises a ConfigError if it does not support the configured kind of subword sampling."""
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
