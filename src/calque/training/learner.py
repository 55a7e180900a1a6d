"""The state of training in memory, which checkpoints save: model, optimiser, averages and progress."""

import copy
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from calque.data.batch import Batch
from calque.devices import choose_device
from calque.errors import ConfigError
from calque.folders.weights import load_weights_into
from calque.tasks.interfaces import Carry
from calque.training.averaging import MovingAverage, TriggeredAverage
from calque.training.checkpoints import Snapshot
from calque.training.compiling import compile_model, keep_compiled
from calque.training.distributed import Ranks, copy_weights, full_weights, shard
from calque.training.job import Job
from calque.training.optimisers import optimiser_tensors, restore_optimiser
from calque.training.progress import Progress
from calque.training.update import MemorySplits, Updater


class Learner:
    """Trains `model`; `judged` is the model that is validated and saved.

    They are the same model, unless weights are averaged or sharded or the model is compiled or captured: `judged` is
    then a copy, unsharded and not compiled, with the averaged weights once there are any. Captured graphs read weights
    where they lie, and validation may move them, as `nn.LSTM.to` does even if the device stays the same.
    """

    def __init__(self, job: Job) -> None:
        config, ranks = job.config, job.ranks
        self.judged = job.model
        self.ranks = ranks
        self.device = choose_device(config.device)
        self.is_sharded = config.divides(ranks.count)
        self._has_copy = bool(config.ema) or bool(config.averaged_sgd) or self.is_sharded or config.captures
        self.model = copy.deepcopy(job.model) if self._has_copy else job.model
        if self.is_sharded:
            shard(self.model, device=self.device, ranks=ranks.count)
        self.average = MovingAverage(self.model, decay=config.ema) if config.ema else None
        self.triggered = TriggeredAverage(self.model) if config.averaged_sgd else None
        splits = MemorySplits(job.folder / "history.jsonl", writes=ranks.leads)
        self.updater = Updater(self.model, task=job.task, config=config, seed=job.seed, ranks=ranks, splits=splits)
        self.updater.observer = job.observer
        if config.compiles:
            keep_compiled()
            compile_model(self.model, version=config.arithmetic, captured=self.updater.captured is not None)
        self.progress = Progress()
        self._fixed_settings = {  # the state depends on them
            "training.optimiser.kind": config.optimiser.kind,
            "training.precision": config.precision,
            "training.arithmetic": str(config.arithmetic),
            "training.ema": "on" if config.ema else "off",
            "training.averaged_sgd": "on" if config.averaged_sgd else "off",
        }
        self._order_settings: dict[str, Any] = {  # the batches of an epoch depend on them
            "seed": job.seed,
            "batch": config.batch.order_settings(),
            "subwords": config.subwords.model_dump(mode="json"),
        }
        if settings := getattr(job.task, "order_settings", None):
            self._order_settings["task"] = dict(settings)

    def step(self, parts: Sequence[Batch], *, rate: float) -> None:
        """Performs the next update."""
        progress, step = self.progress, self.progress.step + 1
        self.updater.update(parts, step=step, rate=rate)
        if self.average:
            self.average.update(step=step)
        if self.triggered:
            self.triggered.update()
            progress.averaged_steps = self.triggered.steps
        progress.tokens += sum(part.shared_weight for part in parts)
        progress.positions += sum(part.positions for part in parts)
        progress.filled += sum(part.filled for part in parts)
        progress.step = step

    def update_judged(self) -> None:
        """Copies the current weights, or their average, into `judged`."""
        if self._has_copy:
            weights = self.weights() | self._averaged_weights()
            load_weights_into(self.judged, weights, origin="the model that is trained")

    def _averaged_weights(self) -> dict[str, Tensor]:
        """The average of the weights over time; empty if weights are not averaged (yet)."""
        if self.average:
            return self.average.full_weights()
        return self.triggered.full_weights() if self.triggered and self.triggered.has_started else {}

    def weights(self) -> dict[str, Tensor]:
        """The trained weights, unsharded and on the CPU. If they are sharded, all ranks must call this."""
        return full_weights(self.model)

    def snapshot(self) -> Snapshot:
        """The state to resume from. If it is distributed over the ranks, all ranks must call this."""
        updater = self.updater
        tensors = {
            "weights": self.weights(),
            "optimiser": optimiser_tensors(updater.optimiser, self.model),
            "sums": {name: value.cpu() for name, value in updater.sums.tensors().items()},
        }
        if average := self._averaged_weights():
            tensors["average"] = average
        if updater.carry is not None:
            carry = gather_carry(updater.carry, ranks=self.ranks)
            tensors["carry"] = {str(index): state.cpu() for index, state in enumerate(carry)}
        settings = {"made_with": self._fixed_settings, "ordered_by": self._order_settings}
        return Snapshot(tensors, {**asdict(self.progress), "scaler": updater.scaler.state_dict(), **settings})

    def restore(self, snapshot: Snapshot, *, origin: str) -> list[str]:
        """Restores a snapshot. Returns a line for the log if the rest of the epoch has to be skipped.

        Raises a ConfigError if settings that the state depends on have changed. If settings that the batches depend on
        have changed, the next epoch is started, since it is no longer known which rows of this one were read.
        """
        tensors, values = snapshot.tensors, dict(snapshot.values)
        self._refuse_changed_settings(values.pop("made_with", {}), origin=origin)
        load_weights_into(self.judged, tensors["weights"], origin=origin)
        copy_weights(self.model, tensors["weights"])
        restore_optimiser(self.updater.optimiser, self.model, tensors["optimiser"])
        self.updater.sums.restore(tensors["sums"])
        states = tensors.get("carry", {})
        if states:
            carry = tuple(states[str(index)].to(self.device) for index in range(len(states)))
            self.updater.carry = tuple(state[self.ranks.rank :: self.ranks.count].contiguous() for state in carry)
        if self.average:
            self.average.restore(tensors["average"])
        if self.triggered and values.get("averaged_steps"):
            self.triggered.restore(tensors["average"], steps=values["averaged_steps"])
        self.updater.scaler.load_state_dict(values.pop("scaler"))
        best = [(value, step) for value, step in values.pop("best_steps")]
        order = values.pop("ordered_by", self._order_settings)
        self.progress = progress = Progress(**values, best_steps=best)
        if order == self._order_settings or not progress.batch:
            return []
        progress.epoch, progress.batch = progress.epoch + 1, 0
        self.updater.carry = None
        return [f"settings that the batches depend on have changed, so the rest of epoch {progress.epoch} is skipped"]

    def _refuse_changed_settings(self, before: dict[str, str], *, origin: str) -> None:
        now = self._fixed_settings
        changes = [f"{key} was {value} and is {now[key]} now" for key, value in before.items() if now[key] != value]
        if changes:
            raise ConfigError(
                f"{origin} cannot be resumed: {'; '.join(changes)}; restore the old settings in config.toml, or start "
                "another run with training.warm_start"
            )


def gather_carry(carry: Carry, *, ranks: Ranks) -> Carry:
    """The states carried between batches of running text, gathered from all ranks in the order of the batch's rows.

    Every rank must call this.
    """
    if ranks.count == 1:
        return carry
    gathered = []
    for state in carry:
        rows = torch.zeros(ranks.count * len(state), *state.shape[1:], dtype=state.dtype, device=state.device)
        rows[ranks.rank :: ranks.count] = state
        ranks.all_reduce([rows])
        gathered.append(rows)
    return tuple(gathered)
