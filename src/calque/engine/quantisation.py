"""`calque quantise`: copies a model folder with its large weights rounded to 8 bits."""

import json
import shutil
from pathlib import Path
from typing import NamedTuple

from safetensors.torch import save_file

from calque.config import check, read_toml, to_toml
from calque.engine.folder import has_int8_weights, load, model_folder
from calque.engine.int8_weights import to_int8
from calque.engine.model_files import FORMATS, INT8_FORMAT, KIND, WEIGHTS, write_model_folder
from calque.engine.translation_folder import EARLIER_PROFILE, PROFILE, TranslationFolder
from calque.errors import FolderError
from calque.folders import MANIFEST, verify_folder
from calque.folders.upgrades import upgrade_length_profile, upgrade_model
from calque.folders.weights import read_weights
from calque.layers.int8 import NARROWEST
from calque.parsing import parse_json

NOTE = (
    "\nThe large weights of this model are rounded to 8 bits: the model is meant for decoding on a CPU, and cannot be "
    "trained further.\n"
)


class Sizes(NamedTuple):
    """The size of a model's weights in bytes."""

    before: int
    after: int


def quantise_model(path: str | Path, output: Path) -> Sizes:
    """Copies a model folder with its large weights rounded to 8 bits, a quarter of their size; returns both sizes.

    The new model produces the same translations as the original with `precision="int8"`, byte for byte.
    """
    if has_int8_weights(Path(path)):
        raise FolderError(f"{path}: its weights are already 8-bit; use it as it is")
    if output.exists():
        raise FolderError(f"{output}: already exists; choose another folder")
    load(path, device="cpu", precision="float32")  # rejects whatever is not a model
    folder = model_folder(Path(path))

    def fill(new: Path) -> None:
        shutil.copytree(folder, new, dirs_exist_ok=True)
        try:
            format = verify_folder(new, kind=KIND, formats=FORMATS).format
        except FolderError:
            raise FolderError(f"{folder} was replaced while it was being read; start again") from None
        (new / MANIFEST).unlink()
        _upgrade(new, format=format)
        stored = to_int8(weights := read_weights(new / WEIGHTS))
        if stored.keys() == weights.keys():
            raise FolderError(
                f"{path}: none of its weights has at least {NARROWEST} rows and {NARROWEST} columns, so "
                "8 bits would save nothing; use it as it is"
            )
        save_file(stored, new / WEIGHTS)
        card = new / "README.md"
        card.write_text(card.read_text(encoding="utf-8") + NOTE, encoding="utf-8")

    write_model_folder(output, fill=fill, format=INT8_FORMAT)
    return Sizes(*((place / WEIGHTS).stat().st_size for place in (folder, output)))


def _upgrade(folder: Path, *, format: int) -> None:
    """Upgrades the files of a model folder from `format` to the current one; from format 1, only translation models."""
    config, profile, origin = folder / "config.toml", folder / PROFILE, str(folder)
    if format == 1:
        values = upgrade_model(read_toml(config), format=format, origin=origin)
        config.write_text(to_toml(check(TranslationFolder, values, origin=origin, written=True)), encoding="utf-8")
        if (folder / EARLIER_PROFILE).exists():
            (folder / EARLIER_PROFILE).rename(profile)
    if profile.exists():
        values = upgrade_length_profile(parse_json(profile.read_text(encoding="ascii")), format=format)
        profile.write_text(json.dumps(values), encoding="ascii")
