"""The model of a run as it learns, and how far it has come: all that a checkpoint holds, and nothing of the disk."""

import copy
from collections.abc import Sequence
from dataclasses import asdict

from torch import Tensor

from calque.data.batch import Batch
from calque.engine import choose_device, load_weights_into
from calque.errors import ConfigError
from calque.objectives.cross_entropy import Loss
from calque.objectives.objective import Objective
from calque.training.averaging import MovingAverage
from calque.training.checkpoints import Snapshot
from calque.training.compiling import compile_shapes
from calque.training.distributed import put_weights, shard, whole_weights
from calque.training.job import Job
from calque.training.optimisers import optimiser_tensors, restore_optimiser
from calque.training.progress import Progress
from calque.training.update import MemorySplits, Updater


class Learner:
    """`model` is trained, `translator` holds the one that is judged and kept: often the same, sometimes its mean."""

    def __init__(self, job: Job) -> None:
        config, ranks = job.config, job.ranks
        self.translator = job.translator
        self.device = choose_device(config.device)
        self.is_sharded = config.divides(ranks.count)
        self._has_copy = bool(config.ema) or self.is_sharded or config.compile
        self.model = copy.deepcopy(job.translator.model) if self._has_copy else job.translator.model
        if self.is_sharded:
            shard(self.model, device=self.device, ranks=ranks.count)
        self.average = MovingAverage(self.model, decay=config.ema) if config.ema else None
        history = MemorySplits(job.folder / "history.jsonl", writes=ranks.leads)
        self.updater = Updater(
            self.model, config=config, seed=job.seed, loss_of=self._loss, ranks=ranks, history=history
        )
        if config.compile:
            compile_shapes(self.model)
        self.objective = Objective(
            config.objective,
            model=self.model,
            smoothing=config.label_smoothing,
            tokenizer=job.translator.tokenizers.target,
        )
        self.progress = Progress()
        self._made_with = {
            "training.optimiser.kind": config.optimiser.kind,
            "training.precision": config.precision,
            "training.ema": "on" if config.ema else "off",
        }
        self._ordered_by = {  # what decides which pairs are in which batch of an epoch
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
        progress.tokens += sum(part.shared_tokens for part in parts)
        progress.positions += sum(part.positions for part in parts)
        progress.filled += sum(part.filled for part in parts)
        progress.step = step

    def _loss(self, batch: Batch, step: int) -> Loss:
        return self.objective(batch, step=step)

    def show(self) -> None:
        """What has been learnt so far, or its mean, is in `translator` from now on."""
        if self._has_copy:
            weights = whole_weights(self.model) | (self.average.whole_weights() if self.average else {})
            load_weights_into(self.translator.model, weights, origin="the model that is trained")

    def weights(self) -> dict[str, Tensor]:
        """The weights that are trained, whole and on the CPU; of sharded ones all ranks must ask."""
        return whole_weights(self.model)

    def snapshot(self) -> Snapshot:
        """All that is needed to go on; of a sharded model all ranks must ask."""
        updater = self.updater
        tensors = {
            "weights": self.weights(),
            "optimiser": optimiser_tensors(updater.optimiser, self.model),
            "sums": {name: value.cpu() for name, value in vars(updater.sums).items()},
        }
        if self.average:
            tensors["average"] = self.average.whole_weights()
        made = {"made_with": self._made_with, "ordered_by": self._ordered_by}
        return Snapshot(tensors, {**asdict(self.progress), "scaler": updater.scaler.state_dict(), **made})

    def restore(self, snapshot: Snapshot, *, origin: str) -> list[str]:
        """Back to where a snapshot was taken, and what there is to say of it.

        Settings that would make another state of it are refused. Where others put the pairs into other batches, those
        that were read cannot be told from those that were not: the epoch is left.
        """
        tensors, values = snapshot.tensors, dict(snapshot.values)
        self._refuse_other_settings(values.pop("made_with", {}), origin=origin)
        load_weights_into(self.translator.model, tensors["weights"], origin=origin)
        put_weights(self.model, tensors["weights"])
        restore_optimiser(self.updater.optimiser, self.model, tensors["optimiser"])
        for name, value in vars(self.updater.sums).items():
            value.copy_(tensors["sums"].get(name, tensors["sums"]["loss"]))  # once the objective was not summed
        if self.average:
            self.average.restore(tensors["average"])
        self.updater.scaler.load_state_dict(values.pop("scaler"))
        best = [(value, step) for value, step in values.pop("best_steps")]
        order = values.pop("ordered_by", self._ordered_by)
        self.progress = progress = Progress(**values, best_steps=best)
        if order == self._ordered_by or not progress.batch:
            return []
        progress.epoch, progress.batch = progress.epoch + 1, 0
        return [f"seed, batch or subwords were changed, so the rest of epoch {progress.epoch} is left out"]

    def _refuse_other_settings(self, before: dict[str, str], *, origin: str) -> None:
        now = self._made_with
        changes = [f"{key} was {value} and is {now[key]} now" for key, value in before.items() if now[key] != value]
        if changes:
            raise ConfigError(
                f"{origin} cannot be gone on with: {'; '.join(changes)}; set it back in config.toml, or begin another "
                "run with training.warm_start"
            )
