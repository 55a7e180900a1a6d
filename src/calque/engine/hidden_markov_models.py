"""Builds hidden Markov taggers from the tables of `calque.statistics`."""

import numpy as np
import torch

from calque.errors import ConfigError
from calque.models.hidden_markov import HiddenMarkovConfig, HiddenMarkovTagger
from calque.models.tagger import TaggerSizes
from calque.statistics.tag_tables import TableSettings, TaggedWords, TagTables, count_tables
from calque.text import Vocabulary

LARGEST = 1 << 28  # values of the table of transitions, or of words


def estimate_tagger(
    corpus: TaggedWords, *, config: HiddenMarkovConfig, sizes: TaggerSizes, characters: Vocabulary
) -> tuple[HiddenMarkovTagger, TagTables]:
    """Estimates a tagger (on the CPU) and its tables from a corpus.

    Raises a ConfigError if there are too many labels or words.
    """
    refuse_large(config, sizes=sizes)
    settings = TableSettings(config.order, config.capitals, config.suffix, config.rare, config.smoothing)
    tables = count_tables(corpus, sizes=(sizes.words, sizes.labels), is_upper=upper_case(characters), settings=settings)
    model = HiddenMarkovTagger(config, sizes=sizes).double()
    arrays = {
        "transitions": tables.transitions,
        "states": tables.states,
        "words": tables.words,
        "suffixes": tables.suffixes.probabilities,
        "suffix_keys": tables.suffixes.keys,
        "is_upper": upper_case(characters),
    }
    model.fill({name: torch.from_numpy(array) for name, array in arrays.items()})
    return model.float(), tables


def upper_case(characters: Vocabulary) -> np.ndarray:
    """A mask [C] of the upper-case characters in a vocabulary."""
    return np.array([len(piece) == 1 and piece.isupper() for piece in characters.pieces])


def refuse_large(config: HiddenMarkovConfig, *, sizes: TaggerSizes) -> None:
    """Raises a ConfigError if the tables of a tagger would not fit into memory."""
    states = (2 if config.capitals else 1) * sizes.labels + 1
    if states**config.order > LARGEST:
        raise ConfigError(
            f"model.order = {config.order}: {sizes.labels:,} labels have {states:,}^{config.order} n-grams, too many "
            f"for a table in memory; set model.order = {config.order - 1}"
            + (" or model.capitals = false" if config.capitals else "")
        )
    if sizes.words * sizes.labels > LARGEST:
        raise ConfigError(
            f"{sizes.words:,} distinct words times {sizes.labels:,} labels are too many for a table in memory; set "
            "text.minimum_count = 2 or text.vocabulary_size"
        )
