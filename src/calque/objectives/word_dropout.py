"""Word dropout: random input words are replaced by the unknown piece; the words to predict stay the same."""

import torch
from pydantic import Field
from torch import Tensor

from calque.config import Config
from calque.data.pair_batch import PairBatch
from calque.text import BOS, EOS, PAD, UNK


class WordDropoutConfig(Config):
    """How often a word is replaced by the unknown piece (Bowman et al. 2016, §3.1, for target words)."""

    source: float = Field(default=0.0, ge=0, lt=1)
    """The fraction of source words that are replaced; end marks are kept."""
    target: float = Field(default=0.0, ge=0, lt=1)
    """The fraction of the decoder's input words that are replaced; begin marks are kept."""


def drop_words(batch: PairBatch, config: WordDropoutConfig) -> PairBatch:
    """The batch with randomly chosen words of its source and target inputs replaced by UNK."""
    source = batch.source._replace(values=_dropped(batch.source.values, config.source))
    return batch._replace(source=source, target_input=_dropped(batch.target_input, config.target))


def _dropped(tokens: Tensor, probability: float) -> Tensor:
    if probability == 0:
        return tokens
    dropped = (torch.rand(tokens.shape) < probability).to(tokens.device, non_blocking=True)
    is_mark = (tokens == PAD) | (tokens == BOS) | (tokens == EOS)
    return tokens.masked_fill(dropped & ~is_mark, UNK)
