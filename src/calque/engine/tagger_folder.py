"""The model folder of a tagger."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, assert_never

from pydantic import Field

from calque.config import Config
from calque.engine.hidden_markov_models import refuse_large
from calque.engine.model_files import build_with_weights, refuse_other_pieces, write_model_folder, write_parts
from calque.engine.tagger import Tagger, tagger_sizes
from calque.models.hidden_markov import HiddenMarkovConfig, HiddenMarkovTagger
from calque.models.tagger import TaggerConfig, TaggerModel, TaggerSizes
from calque.tasks.tagging import TaggingConfig
from calque.text import FormsConfig, TaggerVocabularies

CONFUSION = "confusion.json"


class TaggerFolder(Config):
    """The config.toml of a tagger's folder."""

    task: TaggingConfig
    text: FormsConfig
    vocabularies: dict[str, int]
    """The vocabulary size of each column, labels included."""
    columns: tuple[str, ...] = ()
    """The names of the columns of the training files; empty for CoNLL-U."""
    model: Annotated[TaggerConfig | HiddenMarkovConfig, Field(discriminator="kind")]


def save_tagger(path: Path, tagger: Tagger, *, card: str, artefacts: Mapping[str, bytes] | None = None) -> None:
    """Writes the folder of a tagger atomically."""
    folder_config = TaggerFolder(
        task=tagger.task,
        text=tagger.vocabularies.config,
        vocabularies=tagger.vocabularies.sizes(),
        columns=tagger.columns,
        model=tagger.config,
    )

    def fill(folder: Path) -> None:
        tagger.vocabularies.save(folder / "tokenizer")
        write_parts(folder, folder_config, model=tagger.model, card=card, artefacts=artefacts or {})

    write_model_folder(path, fill=fill)


def read_tagger(folder: Path, folder_config: TaggerFolder, *, format: int) -> Tagger:
    vocabularies = TaggerVocabularies.load(folder / "tokenizer", config=folder_config.text)
    is_same = set(vocabularies.columns) == set(folder_config.task.inputs)
    refuse_other_pieces(folder, vocabularies.sizes(), folder_config.vocabularies, agree=is_same)
    sizes = tagger_sizes(vocabularies, inputs=folder_config.task.inputs)
    model = build_with_weights(partial(_build, folder_config.model, sizes=sizes), folder=folder, format=format)
    return Tagger(
        model, vocabularies, config=folder_config.model, task=folder_config.task, columns=folder_config.columns
    )


def _build(config: TaggerConfig | HiddenMarkovConfig, *, sizes: TaggerSizes) -> TaggerModel | HiddenMarkovTagger:
    match config:
        case TaggerConfig():
            return TaggerModel(config, sizes=sizes)
        case HiddenMarkovConfig():
            refuse_large(config, sizes=sizes)
            return HiddenMarkovTagger(config, sizes=sizes)
        case _:
            assert_never(config)
