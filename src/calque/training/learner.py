"""The model of a run as it learns, and how far it has come: all that a checkpoint holds, and nothing of the disk."""

import copy
from collections.abc import Sequence
from dataclasses import asdict

import torch
from torch import Tensor

from calque.data.batch import Batch
from calque.devices import choose_device
from calque.errors import ConfigError
from calque.folders.weights import load_weights_into
from calque.tasks.interfaces import Carry
from calque.training.averaging import MovingAverage, TriggeredAverage
from calque.training.checkpoints import Snapshot
from calque.training.compiling import compile_shapes
from calque.training.distributed import Ranks, put_weights, shard, whole_weights
from calque.training.job import Job
from calque.training.optimisers import optimiser_tensors, restore_optimiser
from calque.training.progress import Progress
from calque.training.update import MemorySplits, Updater


class Learner:
    """`model` is trained, `judged` is the one that is validated and kept: often the same, sometimes its mean."""

    def __init__(self, job: Job) -> None:
        config, ranks = job.config, job.ranks
        self.judged = job.model
        self.ranks = ranks
        self.device = choose_device(config.device)
        self.is_sharded = config.divides(ranks.count)
        self._has_copy = bool(config.ema) or bool(config.averaged_sgd) or self.is_sharded or config.compile
        self.model = copy.deepcopy(job.model) if self._has_copy else job.model
        if self.is_sharded:
            shard(self.model, device=self.device, ranks=ranks.count)
        self.average = MovingAverage(self.model, decay=config.ema) if config.ema else None
        self.triggered = TriggeredAverage(self.model) if config.averaged_sgd else None
        splits = MemorySplits(job.folder / "history.jsonl", writes=ranks.leads)
        self.updater = Updater(self.model, task=job.task, config=config, seed=job.seed, ranks=ranks, splits=splits)
        if config.compile:
            compile_shapes(self.model)
        self.progress = Progress()
        self._made_with = {
            "training.optimiser.kind": config.optimiser.kind,
            "training.precision": config.precision,
            "training.ema": "on" if config.ema else "off",
        }
        self._ordered_by = {  # what decides which rows are in which batch of an epoch
            "seed": job.seed,
            "batch": config.batch.model_dump(mode="json", exclude={"workers"}),
            "subwords": config.subwords.model_dump(mode="json"),
        }

    def step(self, parts: Sequence[Batch], *, rate: float) -> None:
        """Takes the next step."""
        progress, step = self.progress, self.progress.step + 1
        self.updater.update(parts, step=step, rate=rate)
        if self.average:
            self.average.follow(step=step)
        if self.triggered:
            self.triggered.follow()
            progress.averaged_steps = self.triggered.steps
        progress.tokens += sum(part.shared_weight for part in parts)
        progress.positions += sum(part.positions for part in parts)
        progress.filled += sum(part.filled for part in parts)
        progress.step = step

    def show(self) -> None:
        """What has been learnt so far, or its mean, is in `judged` from now on."""
        if self._has_copy:
            weights = whole_weights(self.model) | self._mean()
            load_weights_into(self.judged, weights, origin="the model that is trained")

    def _mean(self) -> dict[str, Tensor]:
        """The mean of the weights over time that is judged; nothing where there is none, or none yet."""
        if self.average:
            return self.average.whole_weights()
        return self.triggered.whole_weights() if self.triggered and self.triggered.is_begun else {}

    def weights(self) -> dict[str, Tensor]:
        """The weights that are trained, whole and on the CPU; of sharded ones all ranks must ask."""
        return whole_weights(self.model)

    def snapshot(self) -> Snapshot:
        """All that is needed to go on; all ranks must ask, where they hold parts of it."""
        updater = self.updater
        tensors = {
            "weights": self.weights(),
            "optimiser": optimiser_tensors(updater.optimiser, self.model),
            "sums": {name: value.cpu() for name, value in updater.sums.tensors().items()},
        }
        if mean := self._mean():
            tensors["average"] = mean
        if updater.carry is not None:
            carry = whole_carry(updater.carry, ranks=self.ranks)
            tensors["carry"] = {str(place): state.cpu() for place, state in enumerate(carry)}
        made = {"made_with": self._made_with, "ordered_by": self._ordered_by}
        return Snapshot(tensors, {**asdict(self.progress), "scaler": updater.scaler.state_dict(), **made})

    def restore(self, snapshot: Snapshot, *, origin: str) -> list[str]:
        """Back to where a snapshot was taken, and what there is to say of it.

        Settings that would make another state of it are refused. Where others put the rows into other batches, those
        that were read cannot be told from those that were not: the epoch is left.
        """
        tensors, values = snapshot.tensors, dict(snapshot.values)
        self._refuse_other_settings(values.pop("made_with", {}), origin=origin)
        load_weights_into(self.judged, tensors["weights"], origin=origin)
        put_weights(self.model, tensors["weights"])
        restore_optimiser(self.updater.optimiser, self.model, tensors["optimiser"])
        self.updater.sums.restore(tensors["sums"])
        states = tensors.get("carry", {})
        if states:
            carry = tuple(states[str(place)].to(self.device) for place in range(len(states)))
            self.updater.carry = tuple(state[self.ranks.rank :: self.ranks.count].contiguous() for state in carry)
        if self.average:
            self.average.restore(tensors["average"])
        if self.triggered and values.get("averaged_steps"):
            self.triggered.restore(tensors["average"], steps=values["averaged_steps"])
        self.updater.scaler.load_state_dict(values.pop("scaler"))
        best = [(value, step) for value, step in values.pop("best_steps")]
        order = values.pop("ordered_by", self._ordered_by)
        self.progress = progress = Progress(**values, best_steps=best)
        if order == self._ordered_by or not progress.batch:
            return []
        progress.epoch, progress.batch = progress.epoch + 1, 0
        self.updater.carry = None
        return [f"seed, batch or subwords were changed, so the rest of epoch {progress.epoch} is left out"]

    def _refuse_other_settings(self, before: dict[str, str], *, origin: str) -> None:
        now = self._made_with
        changes = [f"{key} was {value} and is {now[key]} now" for key, value in before.items() if now[key] != value]
        if changes:
            raise ConfigError(
                f"{origin} cannot be gone on with: {'; '.join(changes)}; set it back in config.toml, or begin another "
                "run with training.warm_start"
            )


def whole_carry(carry: Carry, *, ranks: Ranks) -> Carry:
    """The states of all ranks' rows, in the order of the batch; every rank must ask."""
    if ranks.count == 1:
        return carry
    whole = []
    for state in carry:
        rows = torch.zeros(ranks.count * len(state), *state.shape[1:], dtype=state.dtype, device=state.device)
        rows[ranks.rank :: ranks.count] = state
        ranks.add_up([rows])
        whole.append(rows)
    return tuple(whole)
