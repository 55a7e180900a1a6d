"""The files that every model folder has: config, model card, weights and manifest."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from safetensors.torch import save_file
from torch import Tensor, nn

from calque.config import Config, to_toml
from calque.engine.int8_weights import from_int8
from calque.errors import FolderError
from calque.folders import write_folder
from calque.folders.weights import give_weights_to, read_weights, weights_of
from calque.tensors import weightless

AnyModel = TypeVar("AnyModel", bound=nn.Module)

KIND, FORMAT, INT8_FORMAT = "model", 3, 4
FORMATS = (1, 2, FORMAT, INT8_FORMAT)
INT8_DETAILS = {"weights": "int8"}  # in the manifest of a folder whose large weights have 8 bits
WEIGHTS = "weights.safetensors"


def write_model_folder(path: Path, *, fill: Callable[[Path], None], format: int = FORMAT) -> None:
    """Atomically writes a model folder; `fill` writes its files."""
    details = INT8_DETAILS if format == INT8_FORMAT else None
    write_folder(path, kind=KIND, format=format, fill=fill, details=details, replace=True)


def write_parts(
    folder: Path, folder_config: Config, *, model: nn.Module, card: str, artefacts: Mapping[str, bytes]
) -> None:
    """Writes the files of a model folder: config, model card, weights, and further files (`artefacts`, by name)."""
    (folder / "config.toml").write_text(to_toml(folder_config), encoding="utf-8")
    (folder / "README.md").write_text(card, encoding="utf-8")
    save_file(weights_of(model), folder / WEIGHTS)
    for name, content in artefacts.items():
        (folder / name).write_bytes(content)


def build_with_weights(build: Callable[[], AnyModel], *, folder: Path, format: int) -> AnyModel:
    """Builds a model with the folder's weights; allocates no memory for it before all shapes are checked."""
    weights = read_model_weights(folder, format=format)
    with weightless():
        model = build()
    give_weights_to(model, weights, origin=str(folder / WEIGHTS))
    return model


def read_model_weights(folder: Path, *, format: int) -> dict[str, Tensor]:
    """The weights in a model folder, in floating point."""
    weights = read_weights(folder / WEIGHTS)
    return from_int8(weights, origin=str(folder / WEIGHTS)) if format == INT8_FORMAT else weights


def refuse_other_pieces(folder: Path, sizes: dict[str, int], expected: dict[str, int], *, agree: bool) -> None:
    if sizes != expected or not agree:
        raise FolderError(
            f"{folder}: the tokenizer's vocabulary is not the one that config.toml describes, so these files do not "
            "belong together; copy the whole folder again from where it was trained"
        )
