"""The model folder of a language model."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from calque.config import Config
from calque.engine.model_files import build_with_weights, refuse_other_pieces, write_model_folder, write_parts
from calque.engine.text_generator import TextGenerator
from calque.models.language_model import LanguageModel, LanguageModelConfig
from calque.search.settings import SearchConfig
from calque.tasks.language_modelling import LanguageModellingConfig
from calque.text import load_tokenizer, save_columns


class LanguageModelFolder(Config):
    """The config.toml of a language model's folder."""

    task: LanguageModellingConfig
    vocabularies: dict[str, int]
    """The vocabulary size of each column."""
    model: LanguageModelConfig
    search: SearchConfig


def save_language_model(
    path: Path, generator: TextGenerator, *, card: str, artefacts: Mapping[str, bytes] | None = None
) -> None:
    """Writes the folder of a language model atomically."""
    folder_config = LanguageModelFolder(
        task=generator.task,
        vocabularies={"text": len(generator.tokenizer.vocabulary)},
        model=generator.config,
        search=generator.search,
    )

    def fill(folder: Path) -> None:
        save_columns({"text": generator.tokenizer}, folder / "tokenizer")
        write_parts(folder, folder_config, model=generator.model, card=card, artefacts=artefacts or {})

    write_model_folder(path, fill=fill)


def read_language_model(folder: Path, folder_config: LanguageModelFolder, *, format: int) -> TextGenerator:
    tokenizer = load_tokenizer(folder / "tokenizer", column="text")
    size = len(tokenizer.vocabulary)
    refuse_other_pieces(folder, {"text": size}, folder_config.vocabularies, agree=True)
    build = partial(LanguageModel, folder_config.model, vocabulary_size=size)
    model = build_with_weights(build, folder=folder, format=format)
    return TextGenerator(
        model, tokenizer, config=folder_config.model, task=folder_config.task, search=folder_config.search
    )
