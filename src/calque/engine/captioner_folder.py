"""The model folder of a captioner."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pydantic import Field

from calque.config import Config
from calque.data.caption_preparation import TEXT
from calque.engine.captioner import Captioner
from calque.engine.model_files import build_with_weights, refuse_other_pieces, write_model_folder, write_parts
from calque.models.captioner import CaptionerConfig, CaptionerModel
from calque.search.settings import SearchConfig
from calque.tasks.captioning import CaptioningConfig
from calque.text import load_tokenizer, save_columns


class CaptionerFolder(Config):
    """The config.toml of a captioner's folder."""

    task: CaptioningConfig
    vocabularies: dict[str, int]
    """The vocabulary size of each column."""
    longest: int = Field(ge=1, le=1 << 20)
    """The number of pieces of the longest training caption."""
    model: CaptionerConfig
    search: SearchConfig


def save_captioner(
    path: Path, captioner: Captioner, *, card: str, artefacts: Mapping[str, bytes] | None = None
) -> None:
    """Writes the folder of a captioner atomically."""
    folder_config = CaptionerFolder(
        task=captioner.task,
        vocabularies={TEXT: len(captioner.tokenizer.vocabulary)},
        longest=captioner.longest,
        model=captioner.config,
        search=captioner.search,
    )

    def fill(folder: Path) -> None:
        save_columns({TEXT: captioner.tokenizer}, folder / "tokenizer")
        write_parts(folder, folder_config, model=captioner.model, card=card, artefacts=artefacts or {})

    write_model_folder(path, fill=fill)


def read_captioner(folder: Path, folder_config: CaptionerFolder, *, format: int) -> Captioner:
    tokenizer = load_tokenizer(folder / "tokenizer", column=TEXT)
    size = len(tokenizer.vocabulary)
    refuse_other_pieces(folder, {TEXT: size}, folder_config.vocabularies, agree=True)
    build = partial(CaptionerModel, folder_config.model, vocabulary_size=size)
    return Captioner(
        build_with_weights(build, folder=folder, format=format),
        tokenizer,
        config=folder_config.model,
        task=folder_config.task,
        search=folder_config.search,
        longest=folder_config.longest,
    )
