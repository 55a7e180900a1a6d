"""Experiments: the root config, and the code that combines the parts of Calque to train a run.

A run folder contains config.toml (resolved), run.json (versions, machine, data and settings at the start), store/,
checkpoints/, model/, metrics.jsonl, timing.jsonl, samples.txt, plots/, lengths.json and log.txt. It also contains
history.jsonl if batches had to be split, gradients.jsonl if gradients are watched (training.watch_gradients), and
tensorboard/ if training.tensorboard is set.
"""

from calque.experiment.api import resume, train
from calque.experiment.averaging import average_run
from calque.experiment.building import assembly_of
from calque.experiment.own_task import OwnTask
from calque.experiment.running import Preparing, Run
from calque.experiment.settings import Experiment, differences, experiment_values
from calque.experiment.shortlist import add_shortlist

__all__ = [
    "Experiment",
    "OwnTask",
    "Preparing",
    "Run",
    "add_shortlist",
    "assembly_of",
    "average_run",
    "differences",
    "experiment_values",
    "resume",
    "train",
]
