"""Warm start: a run begins with another one's weights, word by word where the vocabularies differ."""

from pathlib import Path

import torch
from torch import Tensor

from calque.errors import ConfigError
from calque.layers.adaptive import AdaptiveOutput
from calque.models.model import Model
from calque.text import Tokenizer, Tokenizers
from calque.translator import load

KNOWN_SHARE = 0.5  # of the pieces; below it, the old rows would mean little


def warm_start(model: Model, tokenizers: Tokenizers, *, path: Path) -> list[str]:
    """Puts the weights of a run or model folder into a model, and says what was taken from where.

    Rows of pieces that both vocabularies have are carried over; the rows of new pieces stay as they were drawn.
    Anything else that does not fit is refused, all of it in one message.
    """
    old = load(path, device="cpu")
    rows = {"source": _rows(old.tokenizers.source, tokenizers.source)}
    rows["target"] = _rows(old.tokenizers.target, tokenizers.target)
    given, problems = dict(old.model.named_parameters()), []
    for side, found in rows.items():
        known = int((found >= 0).sum())
        if known < KNOWN_SHARE * len(found):
            problems.append(
                f"only {known} of {len(found)} {side} pieces are known to it; take its own with "
                f'text.kind = "given" and text.path = "{path}"'
            )
    same = {side: _is_same(found, len(getattr(old.tokenizers, side).vocabulary)) for side, found in rows.items()}
    if isinstance(model.output, AdaptiveOutput) and not same["target"]:
        problems.append("an adaptive output layer orders the vocabulary, which must then be the same")
    wanted = dict(model.named_parameters())
    problems += [f"{name} is not in it" for name in wanted.keys() - given.keys()]
    problems += [f"{name} is only in it" for name in given.keys() - wanted.keys()]
    for name in sorted(wanted.keys() & given.keys()):
        first = 1 if _changed(name, same) else 0
        if wanted[name].shape[first:] != given[name].shape[first:]:
            shapes = f"{tuple(given[name].shape)} there and {tuple(wanted[name].shape)} here"
            problems.append(f"{name} has the shape {shapes}")
    if problems:
        told = "\n  ".join(sorted(problems))
        raise ConfigError(f"training.warm_start: {path} does not fit this model:\n  {told}")
    for name, value in wanted.items():
        changed = _changed(name, same)
        _take(value, given[name], rows=rows[changed] if changed else None)
    return [_told(side, found, path=path) for side, found in rows.items() if side == "target" or not tokenizers.joint]


def _rows(old: Tokenizer, new: Tokenizer) -> Tensor:
    """For each new piece its row in the old vocabulary, -1 where it has none."""
    places = {old.vocabulary.piece(row): row for row in range(len(old.vocabulary))}
    return torch.tensor([places.get(new.vocabulary.piece(row), -1) for row in range(len(new.vocabulary))])


def _is_same(rows: Tensor, old: int) -> bool:
    return len(rows) == old and bool((rows == torch.arange(old)).all())


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
