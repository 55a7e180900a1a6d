"""Word dropout: words of what a model reads become unknown; what it should say does not change."""

import torch
from pydantic import Field
from torch import Tensor

from calque.config import Config
from calque.data.pair_batch import PairBatch
from calque.text import BOS, EOS, PAD, UNK


class WordDropoutConfig(Config):
    """How often a word is read as unknown (Bowman et al. 2016, §3.1, who do so with target words)."""

    source: float = Field(default=0.0, ge=0, lt=1)
    """The share of source words; never the end mark."""
    target: float = Field(default=0.0, ge=0, lt=1)
    """The share of target words that the decoder reads; never the begin mark."""


def drop_words(batch: PairBatch, config: WordDropoutConfig) -> PairBatch:
    """The batch with words of its source and target inputs replaced by UNK, drawn one by one."""
    source = batch.source._replace(values=_dropped(batch.source.values, config.source))
    return batch._replace(source=source, target_input=_dropped(batch.target_input, config.target))


def _dropped(tokens: Tensor, probability: float) -> Tensor:
    if probability == 0:
        return tokens
    drawn = (torch.rand(tokens.shape) < probability).to(tokens.device, non_blocking=True)
    is_mark = (tokens == PAD) | (tokens == BOS) | (tokens == EOS)
    return tokens.masked_fill(drawn & ~is_mark, UNK)
