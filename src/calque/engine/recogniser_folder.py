"""The model folder of a recogniser."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from calque.config import Config
from calque.engine.model_files import build_with_weights, refuse_other_pieces, write_model_folder, write_parts
from calque.engine.recogniser import Recogniser
from calque.models.recogniser import RecogniserConfig, RecogniserModel, RecogniserSizes
from calque.search.settings import SearchConfig
from calque.tasks.recognition import RecognitionConfig
from calque.text import load_tokenizer, save_columns


class RecogniserFolder(Config):
    """The config.toml of a recogniser's folder."""

    task: RecognitionConfig
    vocabularies: dict[str, int]
    """The vocabulary size of each column."""
    model: RecogniserConfig
    search: SearchConfig


def save_recogniser(
    path: Path, recogniser: Recogniser, *, card: str, artefacts: Mapping[str, bytes] | None = None
) -> None:
    """Writes the folder of a recogniser atomically."""
    folder_config = RecogniserFolder(
        task=recogniser.task,
        vocabularies={"text": len(recogniser.tokenizer.vocabulary)},
        model=recogniser.config,
        search=recogniser.search,
    )

    def fill(folder: Path) -> None:
        save_columns({"text": recogniser.tokenizer}, folder / "tokenizer")
        write_parts(folder, folder_config, model=recogniser.model, card=card, artefacts=artefacts or {})

    write_model_folder(path, fill=fill)


def read_recogniser(folder: Path, folder_config: RecogniserFolder, *, format: int) -> Recogniser:
    tokenizer = load_tokenizer(folder / "tokenizer", column="text")
    size = len(tokenizer.vocabulary)
    refuse_other_pieces(folder, {"text": size}, folder_config.vocabularies, agree=True)
    sizes = RecogniserSizes(size, folder_config.task.rate)
    model = build_with_weights(partial(RecogniserModel, folder_config.model, sizes=sizes), folder=folder, format=format)
    return Recogniser(
        model, tokenizer, config=folder_config.model, task=folder_config.task, search=folder_config.search
    )
