"""The training loop. A run that is killed and resumed ends with the same bytes as one that was not.

Everything a step depends on is a function of the seed and the step, or is in the checkpoint: the batches are
f(seed, epoch), dropout is f(seed, step), so no random state has to be kept.
"""

import hashlib
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from calque.config import Config
from calque.data.batch import Batch, batches
from calque.data.plan import BatchConfig, Plan
from calque.data.store import Store
from calque.errors import FolderError, Interrupted, TrainingError
from calque.tasks.translation import translation_loss
from calque.training.checkpoints import (
    Snapshot,
    load_weights,
    newest_checkpoint,
    prune_checkpoints,
    save_checkpoint,
    scheduled_steps,
)
from calque.training.interrupt import stop_request
from calque.training.journal import Journal
from calque.training.optimisers import (
    OptimiserConfig,
    build_optimiser,
    optimiser_tensors,
    restore_optimiser,
    set_learning_rate,
)
from calque.training.reporting import Pace, Reporter, samples_text
from calque.training.schedules import ScheduleConfig, rate_at
from calque.training.validation import Validation, ValidationSet, validate
from calque.translator import Translator, load_weights_into, save_model, weights_of


class TrainingConfig(Config):
    """How long, how fast and how carefully a model is trained."""

    steps: int = Field(default=10_000, ge=1)
    """Updates of the weights."""
    accumulate: int = Field(default=1, ge=1)
    """Batches whose gradients are summed for one update."""
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """The share of each target that is spread over the whole vocabulary (Szegedy 2016, §7)."""
    clip: float = Field(default=1.0, ge=0)
    """Gradients are scaled down to this norm; 0 leaves them."""
    log_every: int = Field(default=20, ge=1)
    """Steps between two lines of metrics.jsonl."""
    validate_every: int = Field(default=500, ge=1)
    """Steps between two validations."""
    checkpoint_every: int = Field(default=500, ge=1)
    """Steps between two checkpoints: the most that a crash can lose."""
    keep: int = Field(default=3, ge=1)
    """How many checkpoints stay on disk."""
    patience: int = Field(default=0, ge=0)
    """Stop after so many validations in which neither the metric nor the loss got better; 0 never does."""
    metric: Literal["bleu", "loss"] = "bleu"
    """What makes a model better: BLEU of greedy translations, or the loss, on the validation pairs."""
    average: int = Field(default=0, ge=0)
    """The model is the mean of the last so many checkpoints; 0 or 1 keeps the best validated one instead."""
    samples: int = Field(default=4, ge=0)
    """Translations written to samples.txt at each validation."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """What the forward pass computes in; weights and optimiser stay in float32."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """auto takes the best there is."""
    threads: int | None = Field(default=None, ge=1)
    """CPU threads; all cores unless said."""
    batch: BatchConfig = BatchConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    schedule: ScheduleConfig = ScheduleConfig()


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


class Summary(NamedTuple):
    """How a run ended."""

    step: int
    best_step: int
    best: Validation | None  # None when the best validation was before a resume
    best_value: float
    stopped_early: bool
    seconds: float  # since it was begun or resumed


@dataclass
class Progress:
    """Where a run is: what a checkpoint holds beside weights and optimiser."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # of the epoch, the next one to read
    tokens: int = 0  # target tokens since the last line of metrics
    best_value: float | None = None
    best_step: int = 0
    best_loss: float = math.inf
    since_best: int = 0  # validations in which neither the metric nor the loss got better, after the warm-up
    stopped_early: bool = False
    metrics: int = 0  # bytes of metrics.jsonl
    samples: int = 0  # bytes of samples.txt
    parent: int | None = None  # the checkpoint this one follows


@dataclass
class Sums:
    """Loss and gradient norm since the last line of metrics; they stay on the device until a line is written."""

    loss: Tensor
    norm: Tensor
    steps: int = 0
    started: float = field(default_factory=time.monotonic)


def train(job: Job) -> Summary:
    """Trains until the last step, until nothing gets better, or until asked to stop (then raises Interrupted)."""
    with (
        Journal(job.folder / "metrics.jsonl") as metrics,
        Journal(job.folder / "timing.jsonl") as timing,
    ):
        return Trainer(job, metrics=metrics, timing=timing).run()


class Trainer:
    """One run. `run` goes on from the newest sound checkpoint, or from the beginning where there is none."""

    def __init__(self, job: Job, *, metrics: Journal, timing: Journal) -> None:
        self.job = job
        self.config = job.config
        self.translator = job.translator
        self.model = job.translator.model
        self.device = job.translator.device
        self.optimiser = build_optimiser(job.config.optimiser, self.model)
        self.plan = Plan(job.store, config=job.config.batch, seed=job.seed)
        self.progress = Progress()
        zero = torch.zeros((), device=self.device)
        self.sums = Sums(zero.clone(), zero.clone())
        self.metrics, self.timing = metrics, timing
        self.samples = job.folder / "samples.txt"
        self.best: Validation | None = None

    def run(self) -> Summary:
        started = time.monotonic()
        self._restore()
        if self._is_over():
            self.job.reporter.say("this run is finished; to train longer, raise training.steps in its config.toml")
        with stop_request(self._announce_stop) as stop_asked:
            self.job.reporter.begin(self.progress.step)
            stream = self._batches()
            self.model.train()
            while not self._is_over():
                self._step([next(stream) for _ in range(self.config.accumulate)])
                self._after_step()
                if stop_asked() and not self._is_over():
                    self._interrupt()
        self._average()
        self.metrics.sync()
        self.job.reporter.note(f"done: {self.progress.step} steps, best at step {self.progress.best_step}")
        best = self.progress.best_value
        assert best is not None
        return Summary(
            self.progress.step,
            self.progress.best_step,
            self.best,
            best,
            self.progress.stopped_early,
            time.monotonic() - started,
        )

    def _is_over(self) -> bool:
        return self.progress.stopped_early or self.progress.step >= self.config.steps

    def _batches(self) -> Iterator[Batch]:
        """The rest of this epoch and all that follow; `progress` says where the next one stands."""
        progress = self.progress
        if len(self.job.store) == 0:
            raise TrainingError("there is no batch to train on: the corpus is empty after cleaning")
        while True:  # an epoch of a corpus with a small weight may be empty
            place = Batch.pin if self.device.type == "cuda" else None
            ahead = batches(self.job.store, plan=self.plan, epoch=progress.epoch, start=progress.batch, place=place)
            for batch in ahead:
                progress.batch += 1
                yield batch
            progress.epoch, progress.batch = progress.epoch + 1, 0

    def _step(self, parts: list[Batch]) -> None:
        step = self.progress.step + 1
        torch.manual_seed(stream_seed(self.job.seed, f"step {step}"))
        tokens = sum(part.tokens for part in parts)
        for part in parts:
            with self._precision():
                loss = translation_loss(self.model, part.to(self.device), smoothing=self.config.label_smoothing)
            torch.autograd.backward(loss.objective / tokens)
            self.sums.loss += loss.cross_entropy.detach()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip or math.inf)
        self.sums.norm += norm
        set_learning_rate(self.optimiser, self._rate(step))
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.sums.steps += 1
        self.progress.tokens += tokens
        self.progress.step = step

    def _rate(self, step: int) -> float:
        share = rate_at(self.config.schedule, step=step, steps=self.config.steps)
        return self.config.optimiser.learning_rate * share

    def _precision(self) -> AbstractContextManager[object]:
        if self.config.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def _after_step(self) -> None:
        step, config = self.progress.step, self.config
        is_last = step >= config.steps
        intervals = (config.log_every, config.validate_every, config.checkpoint_every)
        is_logged, is_validated, is_saved = (is_last or step % every == 0 for every in intervals)
        if is_logged or is_validated or is_saved:
            self._refuse_divergence()
        if is_logged:
            self._write_metrics()
        if is_validated:
            self._validate()
        if is_saved or self._is_over():
            self._save(scheduled=True)
        self.job.reporter.advance(step)

    def _refuse_divergence(self) -> None:
        """Stops before anything that is not a number is written, validated or saved."""
        progress, sums = self.progress, self.sums
        loss, norm = float(sums.loss), float(sums.norm)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            what = f"gradient's norm is {norm}" if math.isfinite(loss) else f"loss is {loss}"
            raise TrainingError(
                f"the {what} between steps {progress.step - sums.steps + 1} and {progress.step}; "
                "the last checkpoint is intact; try a lower training.optimiser.learning_rate or a longer warm-up"
            )

    def _write_metrics(self) -> None:
        progress, sums = self.progress, self.sums
        loss, norm = float(sums.loss) / progress.tokens, float(sums.norm) / sums.steps
        self.metrics.append(
            {
                "kind": "train",
                "step": progress.step,
                "epoch": progress.epoch,
                "loss": loss,
                "gradient_norm": norm,
                "learning_rate": self._rate(progress.step),
                "tokens": progress.tokens,
            }
        )
        seconds = time.monotonic() - sums.started
        speed = progress.tokens / seconds
        self.timing.append({"step": progress.step, "seconds": seconds, "tokens_per_second": speed, "at": time.time()})
        self.job.reporter.pace(Pace(progress.step, progress.epoch, loss, self._rate(progress.step), speed))
        sums.loss.zero_()
        sums.norm.zero_()
        progress.tokens, sums.steps, sums.started = 0, 0, time.monotonic()

    def _validate(self, *, averaged: int = 0) -> None:
        """Measures the model as it is; the best so far becomes RUN/model, and in the end the mean if asked for."""
        started = time.monotonic()
        progress = self.progress
        found = validate(self.translator, self.job.held_out, batch=self.config.batch, search=self.translator.search)
        by_loss = self.config.metric == "loss" or self.translator.is_language_model
        value = -found.loss if by_loss else found.bleu
        is_best = bool(averaged) or progress.best_value is None or value > progress.best_value
        self.metrics.append(
            {
                "kind": "valid",
                "step": progress.step,
                "loss": found.loss,
                "perplexity": found.perplexity,
                "bleu": found.bleu,
                "exact_match": found.exact_match,
                "best": is_best,
            }
            | ({"averaged": averaged} if averaged else {})
        )
        self._write_samples(found)
        if is_best:
            progress.best_value, progress.best_step, progress.since_best = value, progress.step, 0
            self.best = found
            self.translator.confidence = found.confidence
            save_model(self.job.folder / "model", self.translator, card=self.job.card)
        elif found.loss < progress.best_loss or progress.step <= self.config.schedule.warmup:
            progress.since_best = 0
        else:
            progress.since_best += 1
            progress.stopped_early = 0 < self.config.patience <= progress.since_best
        progress.best_loss = min(progress.best_loss, found.loss)
        self.job.reporter.say(
            f"step {progress.step}: {f'mean of {averaged} checkpoints, ' if averaged else ''}"
            f"validation loss {found.loss:.3f}, BLEU {found.bleu:.1f}, "
            f"exact {found.exact_match:.1f} %{' (kept)' if averaged else ' (best so far)' if is_best else ''}"
        )
        self.sums.started += time.monotonic() - started

    def _write_samples(self, found: Validation) -> None:
        held_out, count = self.job.held_out, self.config.samples
        rows = list(zip(held_out.sources, held_out.references, found.translations, strict=True))[:count]
        if rows:
            with self.samples.open("a", encoding="utf-8") as file:
                file.write(samples_text(self.progress.step, rows))

    def _save(self, *, scheduled: bool) -> None:
        started = time.monotonic()
        progress = self.progress
        self.metrics.sync()
        progress.metrics = self.metrics.position
        progress.samples = self.samples.stat().st_size if self.samples.exists() else 0
        tensors = {
            "weights": weights_of(self.model),
            "optimiser": optimiser_tensors(self.optimiser, self.model),
            "sums": {"loss": self.sums.loss.cpu(), "norm": self.sums.norm.cpu()},
        }
        values = {**vars(progress), "sum_steps": self.sums.steps}
        save_checkpoint(
            self._checkpoints,
            Snapshot(tensors, values),
            step=progress.step,
            scheduled=scheduled,
            parent=progress.parent,
        )
        progress.parent = progress.step
        prune_checkpoints(self._checkpoints, keep=max(self.config.keep, self.config.average))
        self.sums.started += time.monotonic() - started

    @property
    def _checkpoints(self) -> Path:
        return self.job.folder / "checkpoints"

    def _restore(self) -> None:
        """Goes back to the newest sound checkpoint; what was written after it is cut away and will come again."""
        found = newest_checkpoint(self._checkpoints) if self._checkpoints.is_dir() else None
        if found is not None:
            self.job.reporter.say(*found.skipped)
            tensors, values = found.snapshot.tensors, dict(found.snapshot.values)
            load_weights_into(self.model, tensors["weights"], origin=str(found.path))
            restore_optimiser(self.optimiser, self.model, tensors["optimiser"])
            self.sums.loss.copy_(tensors["sums"]["loss"])
            self.sums.norm.copy_(tensors["sums"]["norm"])
            self.sums.steps = values.pop("sum_steps")
            self.progress = Progress(**values)
            self.progress.parent = found.step
            self.job.reporter.say(f"going on from step {found.step}")
        self.metrics.cut(self.progress.metrics)
        if self.samples.exists():
            with self.samples.open("r+b") as file:
                file.truncate(min(self.progress.samples, self.samples.stat().st_size))

    def _announce_stop(self) -> None:
        self.job.reporter.say("stopping: this step is finished and saved first; press Ctrl-C again to stop at once")

    def _interrupt(self) -> None:
        if self.progress.parent != self.progress.step:
            self._refuse_divergence()
            self._save(scheduled=False)
        self.job.reporter.note(f"stopped and saved at step {self.progress.step}")
        raise Interrupted(f"saved at step {self.progress.step}; go on with: calque train --resume {self.job.folder}")

    def _average(self) -> None:
        """The mean of the last checkpoints becomes RUN/model, where that was asked for."""
        steps = scheduled_steps(self._checkpoints)[-self.config.average :] if self.config.average > 1 else []
        if len(steps) > 1:
            own = weights_of(self.model)
            sound = self._sound_weights(steps)
            load_weights_into(self.model, mean_weights(sound), origin="the mean of checkpoints")
            self._validate(averaged=len(sound))
            load_weights_into(self.model, own, origin="the last step")

    def _sound_weights(self, steps: Sequence[int]) -> list[dict[str, Tensor]]:
        """The weights of those checkpoints; damaged ones are named and left out."""
        found = []
        for step in steps:
            try:
                found.append(load_weights(self._checkpoints / f"step-{step}"))
            except FolderError as error:
                self.job.reporter.say(f"left out of the mean: {error}")
        return found or [weights_of(self.model)]


def mean_weights(checkpoints: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each weight, taken in float64; whole numbers, such as ranks, are those of the first."""
    return {
        name: torch.stack([one[name].double() for one in checkpoints]).mean(dim=0).to(value.dtype)
        if value.is_floating_point()
        else value
        for name, value in checkpoints[0].items()
    }


def stream_seed(seed: int, purpose: str) -> int:
    """A seed of 63 bits for one purpose of a run: streams of different purposes are unrelated."""
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
