"""Warm start: a run begins with another one's weights, word by word where the vocabularies differ."""

from pathlib import Path

import torch
from torch import Tensor

from calque.config import flat, to_values
from calque.engine import Translator, load_translator
from calque.errors import ConfigError, first_few
from calque.layers.adaptive import AdaptiveOutput
from calque.models.model import Model, ModelConfig
from calque.text import Tokenizer, Tokenizers

KNOWN_SHARE = 0.5  # of the pieces; below it, the old rows would mean little
SHOWN = 5  # weights that are named


def refuse_unfit_start(model: Model, tokenizers: Tokenizers | None, *, config: ModelConfig, path: Path) -> None:
    """Raises an error for a folder whose weights will not fit: what can be known before a corpus is read.

    Without `tokenizers`, which that corpus will make, `model` may have any number of pieces.
    """
    old = load_translator(path, device="cpu")
    rows = None if tokenizers is None else _all_rows(old.tokenizers, tokenizers)
    _refuse(_misfits(model, old, rows=rows, config=config, path=path), path=path)


def warm_start(model: Model, tokenizers: Tokenizers, *, config: ModelConfig, path: Path) -> list[str]:
    """Puts the weights of a run or model folder into a model, and says what was taken from where.

    Rows of pieces that both vocabularies have are carried over; the rows of new pieces stay as they were drawn.
    Anything else that does not fit is refused.
    """
    old = load_translator(path, device="cpu")
    rows = _all_rows(old.tokenizers, tokenizers)
    _refuse(_misfits(model, old, rows=rows, config=config, path=path), path=path)
    same = _same(old.tokenizers, rows)
    given = dict(old.model.named_parameters())
    for name, value in model.named_parameters():
        changed = _changed(name, same)
        _take(value, given[name], rows=rows[changed] if changed else None)
    return [_told(side, found, path=path) for side, found in rows.items() if side == "target" or not tokenizers.joint]


def _misfits(
    model: Model, old: Translator, *, rows: dict[str, Tensor] | None, config: ModelConfig, path: Path
) -> list[str]:
    """Why an old model's weights do not fit; `rows` are of the new pieces, where these are known."""
    if rows is None:
        return _differences(model, old, config=config, same={"source": False, "target": False})
    problems = []
    for side, found in rows.items():
        known = int((found >= 0).sum())
        if known < KNOWN_SHARE * len(found):
            problems.append(
                f"only {known} of {len(found)} {side} pieces are known to it; take its own with "
                f'text.kind = "given" and text.path = "{path}"'
            )
    same = _same(old.tokenizers, rows)
    if isinstance(model.output, AdaptiveOutput) and not same["target"]:
        problems.append("an adaptive output layer orders the vocabulary, which must then be the same")
    return [*problems, *_differences(model, old, config=config, same=same)]


def _differences(model: Model, old: Translator, *, config: ModelConfig, same: dict[str, bool]) -> list[str]:
    """Where an old model has other weights: the settings that say so, and the first of the weights."""
    wanted, given = dict(model.named_parameters()), dict(old.model.named_parameters())
    found = [f"{name} is not in it" for name in wanted.keys() - given.keys()]
    found += [f"{name} is only in it" for name in given.keys() - wanted.keys()]
    for name in wanted.keys() & given.keys():
        first = 1 if _changed(name, same) else 0
        if wanted[name].shape[first:] != given[name].shape[first:]:
            shapes = f"{tuple(given[name].shape)} there and {tuple(wanted[name].shape)} here"
            found.append(f"{name} has the shape {shapes}")
    if not found:
        return []
    here, there = (dict(flat(to_values(each), name="model")) for each in (config, old.config))
    settings = [
        f"{key} is {there.get(key)!r} there and {here.get(key)!r} here"
        for key in dict.fromkeys([*here, *there])
        if here.get(key) != there.get(key) and not isinstance(here.get(key), float)  # rates change no shape
    ]
    return [*settings, *first_few(sorted(found), shown=SHOWN)]


def _refuse(problems: list[str], *, path: Path) -> None:
    if problems:
        told = "\n  ".join(problems)
        raise ConfigError(f"training.warm_start: {path} does not fit this model:\n  {told}")


def _rows(old: Tokenizer, new: Tokenizer) -> Tensor:
    """For each new piece its row in the old vocabulary, -1 where it has none."""
    places = {old.vocabulary.piece(row): row for row in range(len(old.vocabulary))}
    return torch.tensor([places.get(new.vocabulary.piece(row), -1) for row in range(len(new.vocabulary))])


def _all_rows(old: Tokenizers, new: Tokenizers) -> dict[str, Tensor]:
    """Those of each side."""
    return {"source": _rows(old.source, new.source), "target": _rows(old.target, new.target)}


def _same(old: Tokenizers, rows: dict[str, Tensor]) -> dict[str, bool]:
    """Whether each side has the old pieces in the old order."""
    sizes = {"source": len(old.source.vocabulary), "target": len(old.target.vocabulary)}
    return {
        side: len(found) == sizes[side] and bool((found == torch.arange(sizes[side])).all())
        for side, found in rows.items()
    }


def _changed(name: str, same: dict[str, bool]) -> str | None:
    """Whose vocabulary the rows of a parameter are, where they are words and the words are not the same."""
    if name == "encoder.embedding.weight":
        side = "source"
    elif name == "decoder.embedding.weight" or name.startswith("output."):
        side = "target"
    else:
        return None
    return None if same[side] else side


@torch.no_grad()
def _take(value: Tensor, given: Tensor, *, rows: Tensor | None) -> None:
    if rows is None:
        value.copy_(given)
    elif value.requires_grad:  # what an output layer counted is of the new corpus
        known = rows >= 0
        value[known.to(value.device)] = given[rows[known]].to(value)


def _told(side: str, rows: Tensor, *, path: Path) -> str:
    new = int((rows < 0).sum())
    told = (
        f"{new:,} of {len(rows):,} {side} pieces are new, their rows drawn" if new else f"all {side} pieces are known"
    )
    return f"warm start from {path}: {told}"
