"""The model folder of a sentence encoder."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from calque.config import Config
from calque.engine.model_files import build_with_weights, refuse_other_pieces, write_model_folder, write_parts
from calque.engine.sentence_encoder import SentenceEncoder
from calque.models.model import Sizes
from calque.models.sentence_encoder import SentenceEncoderConfig, SentenceEncoderModel
from calque.tasks.embedding import EmbeddingConfig
from calque.text import load_tokenizers, save_tokenizers


class SentenceEncoderFolder(Config):
    """The config.toml of a sentence encoder's folder."""

    task: EmbeddingConfig
    vocabularies: dict[str, int]
    """The vocabulary size of each column."""
    joint: bool = False
    """Whether source and target have the same pieces."""
    model: SentenceEncoderConfig


def save_sentence_encoder(
    path: Path, encoder: SentenceEncoder, *, card: str, artefacts: Mapping[str, bytes] | None = None
) -> None:
    """Writes the folder of a sentence encoder atomically."""
    tokenizers = encoder.tokenizers
    folder_config = SentenceEncoderFolder(
        task=encoder.task,
        vocabularies={name: len(tokenizer.vocabulary) for name, tokenizer in tokenizers._asdict().items()},
        joint=tokenizers.joint,
        model=encoder.config,
    )

    def fill(folder: Path) -> None:
        save_tokenizers(tokenizers, folder / "tokenizer")
        write_parts(folder, folder_config, model=encoder.model, card=card, artefacts=artefacts or {})

    write_model_folder(path, fill=fill)


def read_sentence_encoder(folder: Path, folder_config: SentenceEncoderFolder, *, format: int) -> SentenceEncoder:
    tokenizers = load_tokenizers(folder / "tokenizer")
    sizes = {name: len(tokenizer.vocabulary) for name, tokenizer in tokenizers._asdict().items()}
    refuse_other_pieces(folder, sizes, folder_config.vocabularies, agree=tokenizers.joint == folder_config.joint)
    model_sizes = Sizes(sizes["source"], sizes["target"], tokenizers.joint)
    build = partial(SentenceEncoderModel, folder_config.model, sizes=model_sizes)
    model = build_with_weights(build, folder=folder, format=format)
    return SentenceEncoder(model, tokenizers, config=folder_config.model, task=folder_config.task)
