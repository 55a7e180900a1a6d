"""The root config and the one place where everything meets: from a config to a trained run.

A run folder holds config.toml (resolved), run.json (what it was made with), store/, checkpoints/, model/,
metrics.jsonl, timing.jsonl, samples.txt, plots/, lengths.json and log.txt; history.jsonl where batches had to be split,
tensorboard/ where that was asked for.
"""

from calque.experiment.api import resume, train
from calque.experiment.averaging import average_run
from calque.experiment.building import assembly_of
from calque.experiment.own_task import OwnTask
from calque.experiment.running import Preparing, Run
from calque.experiment.settings import Experiment, differences, experiment_values

__all__ = [
    "Experiment",
    "OwnTask",
    "Preparing",
    "Run",
    "assembly_of",
    "average_run",
    "differences",
    "experiment_values",
    "resume",
    "train",
]
