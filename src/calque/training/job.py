"""What a training run works with, and how it ends."""

from pathlib import Path
from typing import NamedTuple

from calque.data.store import Store
from calque.engine import Translator
from calque.training.distributed import Ranks
from calque.training.reporting import Reporter
from calque.training.settings import TrainingConfig
from calque.training.validation import Validation, ValidationSet


class Job(NamedTuple):
    """What a run works with."""

    config: TrainingConfig
    seed: int
    translator: Translator
    store: Store
    held_out: ValidationSet
    folder: Path
    reporter: Reporter
    card: str  # the model folder's README
    ranks: Ranks = Ranks()


class Summary(NamedTuple):
    """How a run ended."""

    step: int
    best_step: int
    best: Validation | None  # None when the best validation was before a resume
    best_value: float
    stopped_early: bool
    skipped: int  # updates left out, as they were not finite
    seconds: float  # since it was begun or resumed
