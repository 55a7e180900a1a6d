"""The training loop. A run that is killed and resumed ends with the same bytes as one that was not.

Everything a step depends on is a function of the seed and the step, or is in the checkpoint: the batches are
f(seed, epoch), dropout is f(seed, step, rank), so no random state has to be kept.
"""

import copy
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from calque.data.batch import Batch, batches
from calque.data.plan import Plan, Shard
from calque.data.store import Store
from calque.data.subwords import SubwordSampler
from calque.errors import FolderError, Interrupted, TrainingError
from calque.tasks.objectives import Objective
from calque.tasks.translation import Loss
from calque.training.averaging import MovingAverage, mean_weights
from calque.training.board import Board
from calque.training.checkpoints import (
    Snapshot,
    load_weights,
    lost_checkpoint,
    newest_checkpoint,
    prune_checkpoints,
    save_checkpoint,
    scheduled_steps,
)
from calque.training.compiling import compile_shapes
from calque.training.history import History
from calque.training.interrupt import stop_request
from calque.training.journal import Journal, read_journal
from calque.training.optimisers import optimiser_tensors, restore_optimiser
from calque.training.progress import Progress
from calque.training.ranks import Ranks
from calque.training.reporting import Pace, Reporter, samples_text
from calque.training.schedules import rate_at
from calque.training.settings import TrainingConfig
from calque.training.sharding import put_weights, shard, whole_weights
from calque.training.update import Updater
from calque.training.validation import NOTHING, Validation, ValidationSet, validate
from calque.translator import Translator, choose_device, load_weights_into, save_model


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


class Place(NamedTuple):
    """Where a step's last batch stands."""

    step: int
    epoch: int
    batch: int  # from 0


def train(job: Job) -> Summary:
    """Trains until the last step, until nothing gets better, or until asked to stop (then raises Interrupted)."""
    with ExitStack() as stack:
        names = ("metrics.jsonl", "timing.jsonl") if job.ranks.leads else ()
        journals = [stack.enter_context(Journal(job.folder / name)) for name in names]
        is_shown = job.config.tensorboard and job.ranks.leads
        board = stack.enter_context(Board(job.folder if is_shown else None))
        return Trainer(job, *journals, board=board).run()


class Trainer:
    """One run. `run` goes on from the newest sound checkpoint, or from the beginning where there is none.

    Only the leading rank has journals, and only it writes.
    """

    def __init__(
        self, job: Job, metrics: Journal | None = None, timing: Journal | None = None, *, board: Board | None = None
    ) -> None:
        self.job = job
        self.config = job.config
        self.ranks = job.ranks
        self.translator = job.translator  # holds the model that is judged and kept
        self.is_sharded = job.config.sharded and job.ranks.count > 1
        self.device = choose_device(job.config.device)
        self.has_copy = bool(job.config.ema) or self.is_sharded or job.config.compile
        self.model = copy.deepcopy(job.translator.model) if self.has_copy else job.translator.model  # the one trained
        if self.is_sharded:
            shard(self.model, device=self.device, ranks=job.ranks.count)
        self.average = MovingAverage(self.model, decay=job.config.ema) if job.config.ema else None
        self.updater = Updater(
            self.model,
            config=job.config,
            seed=job.seed,
            loss_of=self._loss,
            ranks=job.ranks,
            history=History(job.folder / "history.jsonl", writes=job.ranks.leads),
        )
        if job.config.compile:
            compile_shapes(self.model)
        tokenizers = job.translator.tokenizers
        smoothing = job.config.label_smoothing
        self.objective = Objective(
            job.config.objective, model=self.model, smoothing=smoothing, tokenizer=tokenizers.target
        )
        self.subwords = SubwordSampler.of(job.config.subwords, store=job.store, tokenizers=tokenizers, seed=job.seed)
        budget = job.config.batch
        if self.subwords is not None:  # what is drawn is longer
            assert isinstance(budget.tokens, int)  # fitted before
            budget = budget.model_copy(update={"tokens": max(2, int(budget.tokens / self.subwords.growth()))})
        self.plan = Plan(job.store, config=budget, seed=job.seed)
        self.progress = Progress()
        self.metrics, self.timing, self.board = metrics, timing, board or Board(None)
        self.samples = job.folder / "samples.txt"
        self.best: Validation | None = None
        self.places: deque[Place] = deque(maxlen=2 * job.config.skips)
        self.since = time.monotonic()  # the last line of metrics, less what was not training

    def run(self) -> Summary:
        started = time.monotonic()
        self._restore()
        if self._is_over():
            key = "patience" if self.progress.stopped_early else "steps"
            self.job.reporter.say(f"this run is finished; to train longer, raise training.{key} in its config.toml")
        with stop_request(self._announce_stop) as stop_asked:
            self.job.reporter.begin(self.progress.step)
            stream = self._batches()
            self.model.train()
            while not self._is_over():
                self._step(self._enough(stream))
                self._after_step()
                if self.ranks.any(stop_asked()) and not self._is_over():
                    self._interrupt()
        self._average()
        if self.metrics:
            self.metrics.sync()
        self.job.reporter.note(f"done: {self.progress.step} steps, best at step {self.progress.best_step}")
        best = self.progress.best_value
        if best is None:
            raise TrainingError("no validation gave a number, so there is no model; lower the learning rate")
        return Summary(
            self.progress.step,
            self.progress.best_step,
            self.best,
            best,
            self.progress.stopped_early,
            int(self.updater.sums.skipped),
            time.monotonic() - started,
        )

    def _is_over(self) -> bool:
        return self.progress.stopped_early or self.progress.step >= self.config.steps

    def _batches(self) -> Iterator[Batch]:
        """The rest of this epoch and all that follow; `progress` says where the next one stands."""
        progress = self.progress
        if len(self.job.store) == 0:
            raise TrainingError("there is no batch to train on: the corpus is empty after cleaning")
        shard = Shard(self.ranks.rank, self.ranks.count)
        place = Batch.pin if self.updater.device.type == "cuda" else None
        read = partial(batches, self.job.store) if self.subwords is None else self.subwords.batches
        while True:  # an epoch of a corpus with a small weight may be empty
            for batch in read(plan=self.plan, epoch=progress.epoch, start=progress.batch, shard=shard, place=place):
                progress.batch += 1
                yield batch
            progress.epoch, progress.batch = progress.epoch + 1, 0

    def _enough(self, stream: Iterator[Batch]) -> list[Batch]:
        """The batches of one update."""
        found = [next(stream) for _ in range(self.config.accumulate)]
        while sum(batch.shared_tokens for batch in found) < self.config.accumulate_tokens:
            found.append(next(stream))
        return found

    def _step(self, parts: list[Batch]) -> None:
        progress, step = self.progress, self.progress.step + 1
        self.places.append(Place(step, progress.epoch, progress.batch - 1))
        self.updater.update(parts, step=step, rate=self._rate(step))
        if self.average:
            self.average.follow(step=step)
        progress.tokens += sum(part.shared_tokens for part in parts)
        progress.positions += sum(part.positions for part in parts)
        progress.filled += sum(part.filled for part in parts)
        progress.step = step

    def _loss(self, batch: Batch, step: int) -> Loss:
        return self.objective(batch, step=step)

    def _rate(self, step: int) -> float:
        share = rate_at(self.config.schedule, step=step, steps=self.config.steps, drops=self.progress.drops)
        return self.config.optimiser.learning_rate * share

    def _after_step(self) -> None:
        step, config = self.progress.step, self.config
        is_last = step >= config.steps
        intervals = (config.log_every, config.validate_every, config.checkpoint_every)
        is_logged, is_validated, is_saved = (is_last or step % every == 0 for every in intervals)
        if is_logged:
            self._write_metrics()
        if is_logged or is_validated or is_saved or self.updater.device.type == "cpu":
            self._refuse_divergence()
        if is_validated:
            self._validate()
        if is_saved or self._is_over() or (is_validated and self.progress.best_steps):
            self._save(scheduled=True)
        self.job.reporter.advance(step)

    def _refuse_divergence(self) -> None:
        """Stops, with the last good state saved, after too many updates in a row that were not finite."""
        bad = int(self.updater.sums.in_a_row)
        if bad >= self.config.skips:
            self._save(scheduled=False)
            places = [f"{each.batch + 1} of epoch {each.epoch + 1}" for each in list(self.places)[-bad:]]
            raise TrainingError(
                f"the loss or its gradient was not finite in {bad} steps in a row, up to step {self.progress.step}: "
                f"batches {places[0]} to {places[-1]}; these updates were left out, and the state before them is "
                f"saved; try a lower training.optimiser.learning_rate, a longer warm-up, or other data"
            )

    def _write_metrics(self) -> None:
        progress, sums = self.progress, self.updater.sums
        counted, steps = max(1.0, float(sums.tokens)), max(1.0, float(sums.steps))
        loss, norm, rate = float(sums.loss) / counted, float(sums.norm) / steps, self._rate(progress.step)
        padding, skipped = round(1 - progress.filled / max(1, progress.positions), 6), int(sums.skipped)
        line = {
            "kind": "train",
            "step": progress.step,
            "epoch": progress.epoch,
            "loss": loss,
            "gradient_norm": norm,
            "learning_rate": rate,
            "tokens": progress.tokens,
            "padding": padding,
            "skipped": skipped,
        }
        seconds = time.monotonic() - self.since
        speed = progress.tokens / seconds
        if self.metrics and self.timing:
            self.metrics.append(line)
            self.board.add(line)
            self.timing.append(
                {"step": progress.step, "seconds": seconds, "tokens_per_second": speed, "at": time.time()}
            )
        self.job.reporter.pace(Pace(progress.step, progress.epoch, loss, rate, speed, padding, skipped))
        sums.clear()
        progress.tokens = progress.positions = progress.filled = 0
        self.since = time.monotonic()

    def _validate(self, *, averaged: int = 0) -> None:
        """Measures the model as it is; the best so far becomes RUN/model, and in the end the mean if asked for."""
        started = time.monotonic()
        progress = self.progress
        if self.has_copy and not averaged:
            load_weights_into(self.translator.model, self._judged_weights(), origin="the model that is trained")
        found = self._measure()
        metric = "loss" if self.translator.is_language_model else self.config.metric
        if averaged:  # is kept, however good it is
            progress.best_value, progress.best_step, is_best = found.value(metric), progress.step, True
        else:
            is_best = progress.judge(found.value(metric), loss=found.loss, config=self.config)
        if self.metrics:
            line = {"kind": "valid", "step": progress.step, **found.numbers, "best": is_best}
            line |= {"averaged": averaged} if averaged else {}
            self.metrics.append(line)
            self.board.add(line)
            self._write_samples(found)
        if is_best:
            self.best = found
            self.translator.confidence = found.confidence
            if self.ranks.leads:
                save_model(self.job.folder / "model", self.translator, card=self.job.card)
        self.job.reporter.say(
            f"step {progress.step}: {f'mean of {averaged} checkpoints, ' if averaged else ''}"
            f"{found.described(metric)}{' (kept)' if averaged else ' (best so far)' if is_best else ''}"
        )
        self.since += time.monotonic() - started

    def _measure(self) -> Validation:
        """The leading rank's validation; the others wait for its numbers."""
        config, search = self.config, self.translator.search
        if self.ranks.leads:
            self.translator.model.to(self.device)
            found = validate(
                self.translator, self.job.held_out, batch=config.batch, search=search, with_ter=config.metric == "ter"
            )
            if self.is_sharded:  # it may not fit beside what is trained
                self.translator.model.to("cpu")
        else:
            found = NOTHING
        loss, bleu, chrf, exact_match, ter = self.ranks.first(found[:5])
        return found._replace(loss=loss, bleu=bleu, chrf=chrf, exact_match=exact_match, ter=ter)

    def _judged_weights(self) -> dict[str, Tensor]:
        return whole_weights(self.model) | (self.average.whole_weights() if self.average else {})

    def _write_samples(self, found: Validation) -> None:
        held_out, count = self.job.held_out, self.config.samples
        rows = list(zip(held_out.sources, held_out.references, found.translations, strict=True))[:count]
        if rows:
            with self.samples.open("a", encoding="utf-8") as file:
                file.write(samples_text(self.progress.step, rows))

    def _save(self, *, scheduled: bool) -> None:
        started = time.monotonic()
        progress = self.progress
        if self.metrics:
            self.metrics.sync()
            progress.metrics = self.metrics.position
            progress.samples = self.samples.stat().st_size if self.samples.exists() else 0
        snapshot = self._snapshot() if self.ranks.leads or self.is_sharded else None
        if self.ranks.leads and snapshot is not None:
            save_checkpoint(
                self._checkpoints, snapshot, step=progress.step, scheduled=scheduled, parent=progress.parent
            )
            self._prune()
        progress.parent = progress.step
        self.ranks.wait()  # one that went ahead might end, and take the one that saves with it
        self.since += time.monotonic() - started

    def _prune(self) -> None:
        best = [step for _, step in self.progress.best_steps]
        last = 0 if self.config.average_of == "best" else self.config.average
        prune_checkpoints(self._checkpoints, keep=max(self.config.keep, last), also=best)

    def _snapshot(self) -> Snapshot:
        updater = self.updater
        tensors = {
            "weights": whole_weights(self.model),
            "optimiser": optimiser_tensors(updater.optimiser, self.model),
            "sums": {name: value.cpu() for name, value in vars(updater.sums).items()},
        }
        if self.average:
            tensors["average"] = self.average.whole_weights()
        return Snapshot(tensors, {**asdict(self.progress), "scaler": updater.scaler.state_dict()})

    @property
    def _checkpoints(self) -> Path:
        return self.job.folder / "checkpoints"

    def _restore(self) -> None:
        """Goes back to the newest sound checkpoint; what was written after it is cut away and will come again."""
        self.job.reporter.say(*self.ranks.led(self._missed).splitlines())
        found = newest_checkpoint(self._checkpoints) if self._checkpoints.is_dir() else None
        if found is not None:
            self.job.reporter.say(*found.skipped)
            tensors, values = found.snapshot.tensors, dict(found.snapshot.values)
            load_weights_into(self.translator.model, tensors["weights"], origin=str(found.path))
            put_weights(self.model, tensors["weights"])
            restore_optimiser(self.updater.optimiser, self.model, tensors["optimiser"])
            for name, value in vars(self.updater.sums).items():
                value.copy_(tensors["sums"][name])
            if self.average:
                self.average.restore(tensors["average"])
            self.updater.scaler.load_state_dict(values.pop("scaler"))
            best = [(value, step) for value, step in values.pop("best_steps")]
            self.progress = Progress(**values, best_steps=best)
            self.progress.parent = found.step
            self.progress.stopped_early = 0 < self.config.patience <= self.progress.since_best
            self.job.reporter.say(f"going on from step {found.step}")
        if self.metrics:
            self.metrics.cut(self.progress.metrics)
        if self.ranks.leads and self.samples.exists():
            with self.samples.open("r+b") as file:
                file.truncate(min(self.progress.samples, self.samples.stat().st_size))
        self.board.begin(step=self.progress.step)
        self.ranks.wait()
        if found is not None and self.ranks.leads:
            self._prune()  # what a kill right after a save has left

    def _missed(self) -> str:
        """What there is to say of checkpoints that were there and are gone; without any the run is refused."""
        reached = max((line["step"] for line in read_journal(self.job.folder / "metrics.jsonl")), default=0)
        every = self.config.checkpoint_every
        return "\n".join(lost_checkpoint(self._checkpoints, reached=reached, every=every))

    def _announce_stop(self) -> None:
        self.job.reporter.say("stopping: this step is finished and saved first; press Ctrl-C again to stop at once")

    def _interrupt(self) -> None:
        if self.progress.parent != self.progress.step:
            self._save(scheduled=False)
        self.job.reporter.note(f"stopped and saved at step {self.progress.step}")
        raise Interrupted(f"saved at step {self.progress.step}; go on with: calque train --resume {self.job.folder}")

    def _average(self) -> None:
        """The mean of some checkpoints becomes RUN/model, where that was asked for."""
        steps = self._averaged_steps()
        if len(steps) > 1:
            own = whole_weights(self.model)
            sound = self._sound_weights(steps)
            load_weights_into(self.translator.model, mean_weights(sound), origin="the mean of checkpoints")
            self._validate(averaged=len(sound))
            put_weights(self.model, own)

    def _averaged_steps(self) -> list[int]:
        if self.config.average < 2:
            return []
        if self.config.average_of == "best":
            return sorted(step for _, step in self.progress.best_steps)
        return scheduled_steps(self._checkpoints)[-self.config.average :]

    def _sound_weights(self, steps: Sequence[int]) -> list[dict[str, Tensor]]:
        """The weights of those checkpoints; damaged ones are named and left out."""
        found = []
        for step in steps:
            try:
                found.append(load_weights(self._checkpoints / f"step-{step}"))
            except FolderError as error:
                self.job.reporter.say(f"left out of the mean: {error}")
        return found or [whole_weights(self.model)]
