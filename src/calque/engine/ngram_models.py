"""Converts the n-gram tables of `calque.statistics` to language models, and back.

>>> queries = ngram_queries(calque.load("runs/kneser-ney"))
>>> log_prob, state = queries.score(queries.start(), word)
"""

from typing import Literal

import numpy as np
import torch

from calque import __version__
from calque.engine.text_generator import TextGenerator
from calque.errors import FolderError
from calque.models.language_model import LanguageModel, LanguageModelConfig
from calque.models.ngram import NgramLanguageConfig, NgramOutput
from calque.search.settings import SearchConfig
from calque.statistics.arpa import ArpaModel
from calque.statistics.ngram_tables import NgramQueries, NgramTables
from calque.tasks.language_modelling import LanguageModellingConfig
from calque.text import Tokenizer, TokensTokenizer, Vocabulary


def ngram_model(tables: NgramTables, *, config: LanguageModelConfig) -> LanguageModel:
    """The language model with these tables, on the CPU."""
    model = LanguageModel(config, vocabulary_size=tables.vocabulary_size)
    assert isinstance(model.output, NgramOutput)
    keys, log_probs, backoffs = (
        [torch.from_numpy(table) for table in part] for part in (tables.keys[1:], tables.log_probs, tables.backoffs)
    )
    model.output.fill(keys, log_probs, backoffs)
    return model


def ngram_tables(generator: TextGenerator, *, origin: str = "this language model") -> NgramTables:
    """The tables of an n-gram model. Raises a FolderError for any other model, which the message calls `origin`."""
    output, size = generator.model.output, generator.model.vocabulary_size
    if not isinstance(output, NgramOutput):
        raise FolderError(
            f"{origin} has a {generator.config.network.kind} network, not n-grams; train an n-gram model with "
            "`calque train --system kneser-ney --text FILE`"
        )
    keys = [table.cpu().numpy() for table in output.keys.values()]
    log_probs, backoffs = (
        [table.cpu().numpy().astype(np.float64) for table in part.values()]
        for part in (output.log10_probs, output.log10_backoffs)
    )
    return NgramTables(size, [np.arange(size), *keys], log_probs, backoffs)


def ngram_queries(generator: TextGenerator) -> NgramQueries:
    """An object that scores words one by one with an n-gram model, on the CPU and much faster than the model itself."""
    return NgramQueries(ngram_tables(generator), begin=generator.start)


def arpa_generator(
    model: ArpaModel, *, tokenizer: Tokenizer | None, reading: Literal["lines", "running"]
) -> TextGenerator:
    """A text generator with the n-grams of an ARPA file; without a `tokenizer`, the file's words are its pieces."""
    config = LanguageModelConfig(network=NgramLanguageConfig(order=model.tables.order))
    return TextGenerator(
        ngram_model(model.tables, config=config).eval(),
        tokenizer or TokensTokenizer(Vocabulary(model.pieces)),
        config=config,
        task=LanguageModellingConfig(reading=reading),
        search=SearchConfig(),
    )


def arpa_card(model: ArpaModel, *, name: str) -> str:
    """The model card of an imported ARPA file."""
    sizes = ", ".join(f"{size:,} {order}-grams" for order, size in enumerate(model.tables.sizes, start=1))
    return "\n".join(
        [
            "# A language model",
            "",
            f"- n-grams read from the ARPA file {name} with Calque {__version__}",
            f"- {sizes}",
            "",
            "Use it: `calque score FOLDER --target FILE`, `calque generate FOLDER`, or in Python",
            '`calque.load("FOLDER").score(["..."])`. `manifest.json` holds the SHA-256 of every file here.',
            "",
        ]
    )
