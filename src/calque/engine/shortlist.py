"""The shortlist of a translation model: reads and writes its file, checks its use, and builds a batch's word lists."""

import hashlib
import math
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load, save
from torch.nn.utils.rnn import pad_sequence

from calque.engine.constraints import ConstraintIds
from calque.engine.translation_models import TranslationModels
from calque.engine.types import Candidate
from calque.errors import ConfigError, FolderError
from calque.layers.output import FullOutput
from calque.layers.shortlist import WordLists
from calque.search.settings import SearchConfig
from calque.statistics.shortlist import Shortlist
from calque.text import EOS, Tokenizers

SHORTLIST = "shortlist.safetensors"
_DTYPES = Shortlist("int32", "int32", "int64", "int32")  # type: ignore[arg-type]


def check_shortlist(search: SearchConfig, models: TranslationModels) -> None:
    """Raises a ConfigError if the settings ask for a shortlist that the models do not have or cannot use."""
    if not search.shortlist:
        return
    members = (models.model, *models.ensemble.models)
    if any(model.copies for model in members):
        raise ConfigError(
            "search.shortlist cannot be used with a model that copies source words (model.decoder.copies), as it "
            "needs the probabilities of all words; set search.shortlist = false"
        )
    if not all(isinstance(model.output, FullOutput) for model in members):
        raise ConfigError(
            "search.shortlist cannot be used with an adaptive output layer, which already scores only a few words; "
            "set search.shortlist = false"
        )
    if search.method != "beam":
        raise ConfigError(
            f"search.shortlist cannot be combined with search.method = {search.method!r}, which samples from the "
            "probabilities of all words; use beam search, or set search.shortlist = false"
        )
    if models.shortlist is None:
        raise ConfigError("search.shortlist: this model has no shortlist; `calque shortlist RUN` adds one")


def word_lists(
    shortlist: Shortlist,
    sources: Sequence[Sequence[int]],
    constraints: Sequence[ConstraintIds],
    *,
    device: torch.device,
) -> WordLists:
    """The word list of each sentence, given its source ids; includes the pieces that its translation must contain."""
    own = [
        torch.from_numpy(shortlist.own(ids, further=[*required.prefix, *chain(*required.required)]).astype(np.int64))
        for ids, required in zip(sources, constraints, strict=True)
    ]
    shared, sample = (
        torch.from_numpy(part.astype(np.int64)).to(device) for part in (shortlist.frequent, shortlist.sample)
    )
    return WordLists(shared, sample, pad_sequence(own, batch_first=True, padding_value=-1).to(device))


def is_too_improbable(candidate: Candidate, *, threshold: float) -> bool:
    """Whether a translation found with a shortlist is too improbable to be used.

    A translation is too improbable if the geometric mean of the probabilities of its pieces and its end is 0 or below
    the threshold.
    """
    mean = math.exp(candidate.log_prob / max(1, candidate.pieces))
    return mean < threshold or candidate.log_prob == -math.inf


def shortlist_bytes(shortlist: Shortlist, tokenizers: Tokenizers) -> bytes:
    """The content of a model folder's shortlist.safetensors."""
    return save({**shortlist._asdict(), "vocabulary": _digest(tokenizers)})


def read_shortlist(path: Path, tokenizers: Tokenizers) -> Shortlist | None:
    """The shortlist in a file; None if there is no file.

    Raises a FolderError if the shortlist is damaged, or was built for other pieces than those of the tokenizers.
    """
    if not path.exists():
        return None
    again = "remove the file or build the shortlist again: calque shortlist RUN"
    try:
        values = load(path.read_bytes())
        vocabulary = values.pop("vocabulary")
        shortlist = Shortlist(**values)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise FolderError(f"{path}: this is not a shortlist ({error}); {again}") from None
    if not np.array_equal(vocabulary, _digest(tokenizers)):
        raise FolderError(f"{path}: this shortlist was built for another tokenizer than this model's; {again}")
    if not _is_valid(shortlist, sources=len(tokenizers.source.vocabulary), targets=len(tokenizers.target.vocabulary)):
        raise FolderError(f"{path}: this shortlist is damaged: its ids or offsets are invalid; {again}")
    return shortlist


def _digest(tokenizers: Tokenizers) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    """The SHA-256 of the source and target tokenizers together, as an array of bytes."""
    digests = b"".join(hashlib.sha256(tokenizer.to_bytes()).digest() for tokenizer in tokenizers)
    return np.frombuffer(hashlib.sha256(digests).digest(), dtype=np.uint8)


def _is_valid(shortlist: Shortlist, *, sources: int, targets: int) -> bool:
    """Whether a shortlist's arrays have valid types, sizes and ids for vocabularies of `sources` and `targets` ids."""
    frequent, sample, offsets, table = shortlist
    if any(part.dtype != dtype or part.ndim != 1 for part, dtype in zip(shortlist, _DTYPES, strict=True)):
        return False
    if len(offsets) != sources + 1 or offsets[0] != 0 or offsets[-1] != len(table):
        return False
    increasing = all(bool((np.diff(part) > 0).all()) for part in (frequent, sample))
    within = all(bool(((part >= 0) & (part < targets)).all()) for part in (frequent, sample, table))
    apart = not np.isin(sample, frequent).any() and not np.isin(table, frequent).any()
    return increasing and within and apart and EOS in frequent and bool((np.diff(offsets) >= 0).all())
