"""n-gram models as language models: from the tables of `calque.statistics` to a model, and back.

>>> queries = ngram_queries(calque.load("runs/kneser-ney"))
>>> log_prob, state = queries.score(queries.start(), word)
"""

import numpy as np
import torch

from calque.engine.text_generator import TextGenerator
from calque.errors import FolderError
from calque.models.language_model import LanguageModel, LanguageModelConfig
from calque.models.ngram import NgramOutput
from calque.statistics.ngram_tables import NgramQueries, NgramTables


def ngram_model(tables: NgramTables, *, config: LanguageModelConfig) -> LanguageModel:
    """The language model with these tables, on the CPU."""
    model = LanguageModel(config, vocabulary_size=tables.vocabulary_size)
    assert isinstance(model.output, NgramOutput)
    keys, log_probs, backoffs = (
        [torch.from_numpy(table) for table in part] for part in (tables.keys[1:], tables.log_probs, tables.backoffs)
    )
    model.output.fill(keys, log_probs, backoffs)
    return model


def ngram_tables(generator: TextGenerator) -> NgramTables:
    """The tables of an n-gram model; a FolderError for any other language model."""
    output, size = generator.model.output, generator.model.vocabulary_size
    if not isinstance(output, NgramOutput):
        kind = generator.config.network.kind
        raise FolderError(
            f"this language model is {'an' if kind[0] in 'aeiou' else 'a'} {kind} network, which has no n-grams; "
            "`calque train --system kneser-ney --text FILE` estimates a model that has"
        )
    keys = [table.cpu().numpy() for table in output.keys.values()]
    log_probs, backoffs = (
        [table.cpu().numpy().astype(np.float64) for table in part.values()]
        for part in (output.log10_probs, output.log10_backoffs)
    )
    return NgramTables(size, [np.arange(size), *keys], log_probs, backoffs)


def ngram_queries(generator: TextGenerator) -> NgramQueries:
    """Queries of an n-gram model word by word, on the host; much faster there than the model itself."""
    return NgramQueries(ngram_tables(generator), begin=generator.start)
