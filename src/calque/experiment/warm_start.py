"""Warm start: initialises a run with the weights of another, piece by piece if the vocabularies differ."""

from pathlib import Path

import torch
from torch import Tensor

from calque.config import flat, to_values
from calque.engine import Translator, load_translator
from calque.engine.folder import has_int8_weights
from calque.errors import ConfigError, first_few
from calque.layers.adaptive import AdaptiveOutput
from calque.models.model import Model, ModelConfig
from calque.text import Tokenizer, Tokenizers

KNOWN_SHARE = 0.5  # of the new pieces that the old vocabulary must have: with fewer, its weights would help little
SHOWN = 5  # differing weights that are listed


def refuse_unfit_start(model: Model, tokenizers: Tokenizers | None, *, config: ModelConfig, path: Path) -> None:
    """Raises an error if the weights in a folder do not fit the model, as far as is known before a corpus is read.

    `tokenizers` is None if they will be trained on that corpus; the number of pieces is then not compared.
    """
    old = _load(path)
    rows = None if tokenizers is None else _all_rows(old.tokenizers, tokenizers)
    _refuse(_misfits(model, old, rows=rows, config=config, path=path), path=path)


def warm_start(model: Model, tokenizers: Tokenizers, *, config: ModelConfig, path: Path) -> list[str]:
    """Copies the weights of a run or model folder into a model; returns lines for the log that say what was copied.

    Embedding rows of pieces that are in both vocabularies are copied; rows of new pieces keep their initial values. Any
    other mismatch raises a ConfigError.
    """
    old = _load(path)
    rows = _all_rows(old.tokenizers, tokenizers)
    _refuse(_misfits(model, old, rows=rows, config=config, path=path), path=path)
    same = _same(old.tokenizers, rows)
    old_weights = dict(old.model.named_parameters())
    for name, value in model.named_parameters():
        side = _changed_side(name, same)
        _copy_rows(value, old_weights[name], rows=rows[side] if side else None)
    return [
        _message(side, old_rows, path=path)
        for side, old_rows in rows.items()
        if side == "target" or not tokenizers.joint
    ]


def _load(path: Path) -> Translator:
    if has_int8_weights(path):
        raise ConfigError(
            f"training.warm_start: {path} has 8-bit weights, which can only be used for decoding; use the model from "
            "which `calque quantise` made it"
        )
    return load_translator(path, device="cpu")


def _misfits(
    model: Model, old: Translator, *, rows: dict[str, Tensor] | None, config: ModelConfig, path: Path
) -> list[str]:
    """The reasons why an old model's weights do not fit a new model; empty if they fit.

    `rows` contains the row of each new piece in the old embeddings; it is None if the new pieces are not known yet.
    """
    if rows is None:
        return _differences(model, old, config=config, same={"source": False, "target": False})
    problems = []
    for side, old_rows in rows.items():
        known = int((old_rows >= 0).sum())
        if known < KNOWN_SHARE * len(old_rows):
            problems.append(
                f"its vocabulary has only {known} of the {len(old_rows)} {side} pieces; use its vocabulary with "
                f'text.kind = "given" and text.path = "{path}"'
            )
    same = _same(old.tokenizers, rows)
    if isinstance(model.output, AdaptiveOutput) and not same["target"]:
        problems.append(
            "an adaptive output layer depends on the order of the vocabulary, but the target vocabularies differ"
        )
    return [*problems, *_differences(model, old, config=config, same=same)]


def _differences(model: Model, old: Translator, *, config: ModelConfig, same: dict[str, bool]) -> list[str]:
    """If an old model's weights do not match the new model's, the differing settings and the first few mismatches."""
    here, there = dict(model.named_parameters()), dict(old.model.named_parameters())
    mismatches = [f"{name} is only in the new model" for name in here.keys() - there.keys()]
    mismatches += [f"{name} is only in the old model" for name in there.keys() - here.keys()]
    for name in here.keys() & there.keys():
        first = 1 if _changed_side(name, same) else 0
        if here[name].shape[first:] != there[name].shape[first:]:
            shapes = f"{tuple(there[name].shape)} in the old model and {tuple(here[name].shape)} in the new"
            mismatches.append(f"{name} has the shape {shapes}")
    if not mismatches:
        return []
    new_settings, old_settings = (dict(flat(to_values(values), name="model")) for values in (config, old.config))
    settings = [
        f"{key} is {old_settings.get(key)!r} in the old model and {new_settings.get(key)!r} in the new"
        for key in dict.fromkeys([*new_settings, *old_settings])
        if new_settings.get(key) != old_settings.get(key)
        and not isinstance(new_settings.get(key), float)  # floats, such as dropout, change no shape
    ]
    return [*settings, *first_few(sorted(mismatches), shown=SHOWN)]


def _refuse(problems: list[str], *, path: Path) -> None:
    if problems:
        listed = "\n  ".join(problems)
        raise ConfigError(f"training.warm_start: {path} does not fit this model:\n  {listed}")


def _rows(old: Tokenizer, new: Tokenizer) -> Tensor:
    """For each piece of the new vocabulary, its row in the old vocabulary, or -1 if the old one lacks it."""
    old_rows = {old.vocabulary.piece(row): row for row in range(len(old.vocabulary))}
    return torch.tensor([old_rows.get(new.vocabulary.piece(row), -1) for row in range(len(new.vocabulary))])


def _all_rows(old: Tokenizers, new: Tokenizers) -> dict[str, Tensor]:
    """For source and target, each new piece's row in the old vocabulary, or -1 if the old vocabulary lacks it."""
    return {"source": _rows(old.source, new.source), "target": _rows(old.target, new.target)}


def _same(old: Tokenizers, rows: dict[str, Tensor]) -> dict[str, bool]:
    """For source and target, whether the new vocabulary has exactly the old pieces, in the same order."""
    sizes = {"source": len(old.source.vocabulary), "target": len(old.target.vocabulary)}
    return {
        side: len(old_rows) == sizes[side] and bool((old_rows == torch.arange(sizes[side])).all())
        for side, old_rows in rows.items()
    }


def _changed_side(name: str, same: dict[str, bool]) -> str | None:
    """The side (source or target) whose changed vocabulary the rows of parameter `name` belong to; None if neither."""
    if name == "encoder.embedding.weight":
        side = "source"
    elif name == "decoder.embedding.weight" or name.startswith("output."):
        side = "target"
    else:
        return None
    return None if same[side] else side


@torch.no_grad()
def _copy_rows(value: Tensor, old: Tensor, *, rows: Tensor | None) -> None:
    """Copies `old` to `value`; with `rows` (each new piece's old row, or -1), only rows of pieces in both models."""
    if rows is None:
        value.copy_(old)
    elif value.requires_grad:  # frequencies in an output layer stay those of the new corpus
        known = rows >= 0
        value[known.to(value.device)] = old[rows[known]].to(value)


def _message(side: str, rows: Tensor, *, path: Path) -> str:
    new = int((rows < 0).sum())
    text = (
        f"{new:,} of {len(rows):,} {side} pieces are new, with randomly initialised embeddings"
        if new
        else f"all {side} pieces are known"
    )
    return f"warm start from {path}: {text}"
