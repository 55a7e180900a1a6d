"""The model folder of a recommender."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from calque.config import Config
from calque.engine.model_files import build_with_weights, refuse_other_pieces, write_model_folder, write_parts
from calque.engine.recommender import Recommender
from calque.models.recommender import RecommenderConfig, RecommenderModel
from calque.tasks.recommendation import RecommendationConfig
from calque.text.catalogue import Catalogue


class RecommenderFolder(Config):
    """The config.toml of a recommender's folder."""

    task: RecommendationConfig
    vocabularies: dict[str, int]
    """The number of ids of items and, if the model reads them, of behaviour types."""
    model: RecommenderConfig


def save_recommender(
    path: Path, recommender: Recommender, *, card: str, artefacts: Mapping[str, bytes] | None = None
) -> None:
    """Writes the folder of a recommender atomically."""
    folder_config = RecommenderFolder(
        task=recommender.task, vocabularies=recommender.catalogue.sizes(), model=recommender.config
    )

    def fill(folder: Path) -> None:
        recommender.catalogue.save(folder / "tokenizer")
        write_parts(folder, folder_config, model=recommender.model, card=card, artefacts=artefacts or {})

    write_model_folder(path, fill=fill)


def read_recommender(folder: Path, folder_config: RecommenderFolder, *, format: int) -> Recommender:
    """The recommender in a verified folder."""
    catalogue, config = Catalogue.load(folder / "tokenizer"), folder_config.model
    sizes = catalogue.sizes()
    is_same = ("behaviours" in sizes) == config.reads_behaviours
    refuse_other_pieces(folder, sizes, folder_config.vocabularies, agree=is_same)
    build = partial(RecommenderModel, config, vocabulary_size=sizes["items"], behaviours=sizes.get("behaviours", 0))
    model = build_with_weights(build, folder=folder, format=format)
    return Recommender(model, catalogue, config=config, task=folder_config.task)
