"""Tokenizers that are there already: those of another run, so that its model and a new one share their pieces."""

from pathlib import Path
from typing import Literal

from calque.config import Config
from calque.errors import TextError
from calque.text.folder import DESCRIPTION, load_tokenizers
from calque.text.tokenizer import Tokenizers


class GivenConfig(Config):
    """The pieces of a run that is there."""

    kind: Literal["given"] = "given"
    path: Path
    """A run, model, store or tokenizer folder, whose tokenizers are taken as they are."""

    @property
    def folder(self) -> Path:
        """Where its tokenizers lie."""
        for place in (self.path / "model" / "tokenizer", self.path / "tokenizer", self.path):
            if (place / DESCRIPTION).is_file():
                return place
        raise TextError(f"text.path: {self.path}: no tokenizer here; give a run, model, store or tokenizer folder")

    @property
    def joint(self) -> bool:
        return self.load().joint

    def load(self) -> Tokenizers:
        """The tokenizers."""
        return load_tokenizers(self.folder)
