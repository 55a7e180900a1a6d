"""The training loop. A run that is killed and resumed ends with the same model and metrics as one that was not.

Everything a step depends on is a function of the seed and the step, or is in the checkpoint: the batches are
f(seed, epoch), dropout is f(seed, step, rank), so no random state has to be saved.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from calque.data.batch import Batch, prefetch
from calque.data.batching import Planned, Shard
from calque.devices import choose_device, is_out_of_memory
from calque.errors import Interrupted, RankError, TrainingError, shell_path
from calque.memory import keep_memory, release_memory
from calque.training.checkpointing import Checkpointer
from calque.training.compiling import (
    NOT_CAPTURABLE,
    NOTICE,
    UNCAPTURED,
    UNCOMPILED,
    compile_afresh,
    is_compiler_error,
)
from calque.training.interrupt import stop_request
from calque.training.job import Job, Summary
from calque.training.journal import read_journal
from calque.training.learner import Learner
from calque.training.model_selection import ModelSelection
from calque.training.progress import Progress
from calque.training.records import Records
from calque.training.reporting import Pace
from calque.training.schedules import rate_at


def train(job: Job) -> Summary:
    """Trains until the last step or early stopping. If a stop is requested, saves and raises Interrupted."""
    if choose_device(job.config.device).type == "cpu":
        keep_memory()
    records = Records(
        job.folder,
        writes=job.ranks.leads,
        tensorboard=job.config.tensorboard,
        gradients=job.gradient_flow is not None,
    )
    try:
        with records, records.deletion_reported():
            return Trainer(job, records).run()
    finally:
        release_memory()


AHEAD = 4  # batches prefetched


class Place(NamedTuple):
    """The position of a batch in the run."""

    epoch: int  # from 0
    batch: int  # in the epoch, from 1

    def __str__(self) -> str:
        return f"{self.batch} of epoch {self.epoch + 1}"


class Span(NamedTuple):
    """The first and the last batch of an update."""

    first: Place
    last: Place


class Trainer:
    """The training loop of a run: it resumes from the newest intact checkpoint, or starts from scratch."""

    def __init__(self, job: Job, records: Records) -> None:
        self.job = job
        self.config = job.config
        self.records = records
        self.learner = Learner(job)
        self.checkpointer = Checkpointer(job, self.learner, records)
        self.selection = ModelSelection(job, self.learner, records)
        self.order = job.task.order(job.store, config=job.config.batch, seed=job.seed)
        config = self.config
        # on a GPU, divergence is checked at these intervals only
        interval = min(config.log_every, config.validate_every, config.checkpoint_every)
        self.stop_requested: Callable[[], bool] = lambda: False
        self.reported_graphs: tuple[int, str | None] = (0, None)
        self.spans: deque[Span] = deque(maxlen=config.skips + interval)

    @property
    def progress(self) -> Progress:
        return self.learner.progress

    def run(self) -> Summary:
        started = time.monotonic()
        reporter = self.job.reporter
        self.checkpointer.restore()
        is_owed = self._owes_validation()
        if self._is_over() and not is_owed:
            key = "patience" if self.progress.stopped_early else "steps"
            command = f"calque train --resume {shell_path(self.job.folder)} training.{key}=N"
            reporter.say(f"this run is finished; to train longer, raise training.{key}: {command}")
        with stop_request(self._announce_stop) as stop_requested:
            reporter.begin(self.progress.step)
            stream = self._batches()
            self.learner.model.train()
            self.stop_requested = stop_requested
            if not self._is_over() and (notice := self._compilation_notice()):
                reporter.say(notice)
            if is_owed:
                self._finish_step()
            while not self._is_over():
                self._step(self._next_batches(stream))
                self._after_step()
                if self.job.ranks.any(stop_requested()) and not self._is_over():
                    self._interrupt()
        checkpoints = self.checkpointer.weights_to_average()
        if checkpoints:
            self.selection.keep_mean(checkpoints)
        self.records.sync()
        reporter.note(f"done: {self.progress.step} steps, best at step {self.progress.best_step}")
        best = self.progress.best_value
        if best is None:
            raise TrainingError("no validation had a finite result, so no model was selected; lower the learning rate")
        return Summary(
            self.progress.step,
            self.progress.best_step,
            self.selection.best,
            self.job.judge.metrics[self.job.metric].value(best),
            self.progress.stopped_early,
            int(self.learner.updater.sums.skipped),
            time.monotonic() - started,
        )

    def _compilation_notice(self) -> str | None:
        """What to expect of training.compile or training.capture; None if neither is set, or all is as expected."""
        config = self.config
        if not (config.compile or config.capture):
            return None
        if not config.captures:
            return UNCOMPILED if config.compile else UNCAPTURED
        if config.compiles:
            return NOTICE
        return NOT_CAPTURABLE if self.learner.updater.captured is None else None

    def _is_over(self) -> bool:
        return self.progress.stopped_early or self.progress.step >= self.config.steps

    def _batches(self) -> Iterator[Batch]:
        """Yields the remaining batches of this epoch and of all later epochs; `progress` counts the batches read."""
        progress, ranks = self.progress, self.job.ranks
        if len(self.job.store) == 0:
            raise TrainingError("there is nothing to train on: the corpus is empty after cleaning")
        shard, is_pinned = Shard(ranks.rank, ranks.count), self.learner.updater.device.type == "cuda"
        while True:  # an epoch of a corpus with a small weight may be empty

            def collate(planned: Planned, epoch: int = progress.epoch) -> Batch:
                batch = self.job.task.collate(self.job.store, planned, epoch=epoch, shard=shard)
                return batch.pin() if is_pinned else batch

            planned = self.order.batches(progress.epoch, start=progress.batch)
            for batch in prefetch(planned, make=collate, workers=self.config.batch.workers, ahead=AHEAD):
                progress.batch += 1
                yield batch
            progress.epoch, progress.batch = progress.epoch + 1, 0

    def _next_batches(self, stream: Iterator[Batch]) -> list[Batch]:
        """The batches of the next update, read from `stream`."""
        batches = [next(stream)]
        first = self._place()
        batches += [next(stream) for _ in range(self.config.accumulate - 1)]
        while sum(batch.shared_weight for batch in batches) < self.config.accumulate_tokens:
            batches.append(next(stream))
        self.spans.append(Span(first, self._place()))
        return batches

    def _place(self) -> Place:
        """The position (epoch and batch number) of the batch that was read last."""
        return Place(self.progress.epoch, self.progress.batch)

    def _step(self, batches: list[Batch]) -> None:
        step = self.progress.step + 1
        try:
            self._step_or_recompile(batches, rate=self._rate(step))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise RankError(
                f"out of memory in step {step} after the backward pass, in the optimiser or the moving average, "
                "where smaller batches do not help; the last checkpoint is intact; resume when more memory is free, or "
                "start another run with a smaller model, training.optimiser.kind = 'sgd' or training.ema = 0"
            ) from error

    def _step_or_recompile(self, batches: list[Batch], *, rate: float) -> None:
        """Performs the next step. Retries it if the compiler fails, for example because it was killed by Ctrl-C."""
        try:
            self.learner.step(batches, rate=rate)
        except RuntimeError as error:
            if not (self.config.compiles and is_compiler_error(error)):
                raise
            self.learner.updater.optimiser.zero_grad(set_to_none=True)
            compile_afresh()
            self.learner.step(batches, rate=rate)

    def _rate(self, step: int) -> float:
        share = rate_at(self.config.schedule, step=step, steps=self.config.steps, drops=self.progress.drops)
        return self.config.optimiser.learning_rate * share

    def _after_step(self) -> None:
        config = self.config
        self.records.refuse_deleted()
        if is_logged := self._is_due(config.log_every):
            self._write_metrics()
            self._report_graphs()
        is_synchronised = is_logged or self._is_due(config.validate_every) or self._is_due(config.checkpoint_every)
        if is_synchronised or self.learner.updater.device.type == "cpu":
            self._refuse_divergence()
        self._finish_step()

    def _finish_step(self) -> None:
        """Validates and saves a checkpoint if due. After a stop during validation, the resumed run does both."""
        step, config = self.progress.step, self.config
        is_validated, is_saved = self._is_due(config.validate_every), self._is_due(config.checkpoint_every)
        if is_validated and not self.selection.validate(stop_requested=self.stop_requested):
            self._interrupt()
        if is_saved or self._is_over() or (is_validated and self.progress.best_steps):
            self.checkpointer.save(scheduled=True)
        self.job.reporter.advance(step)

    def _is_due(self, every: int) -> bool:
        step = self.progress.step
        return step >= self.config.steps or step % every == 0

    def _owes_validation(self) -> bool:
        """Whether the run was stopped during its last validation, so that metrics.jsonl has no result of it."""
        step = self.progress.step
        if step == 0 or not self._is_due(self.config.validate_every):
            return False
        lines = read_journal(self.job.folder / "metrics.jsonl") if self.job.ranks.leads else []
        is_recorded = any(line["kind"] == "valid" and line["step"] == step for line in lines)
        return not self.job.ranks.broadcast([is_recorded])[0]

    def _refuse_divergence(self) -> None:
        """Saves the last good state and stops the run if loss or gradient were not finite too many times in a row."""
        bad = int(self.learner.updater.sums.in_a_row)
        if bad >= self.config.skips:
            self.checkpointer.save(scheduled=False)
            spans = list(self.spans)[-bad:]
            since = "" if len(spans) == bad else "since the run was resumed, "  # earlier batches are not recorded
            raise TrainingError(
                f"the loss or its gradient was not finite in {bad} steps in a row, up to step {self.progress.step}: "
                f"{since}batches {spans[0].first} to {spans[-1].last}; these updates were skipped, and the state "
                "before them is saved; lower training.optimiser.learning_rate or lengthen the warm-up in config.toml "
                "and resume; if the first step after resuming is not finite either, the saved weights are unusable: "
                "start another run"
            )

    def _write_metrics(self) -> None:
        progress, sums = self.progress, self.learner.updater.sums
        weight, steps = max(1.0, float(sums.weight)), max(1.0, float(sums.steps))
        parts = {name: float(total) / weight for name, total in sums.parts.items()}
        objective, norm = float(sums.objective) / weight, float(sums.norm) / steps
        rate = self._rate(progress.step)
        padding, skipped = round(1 - progress.filled / max(1, progress.positions), 6), int(sums.skipped)
        seconds = self.records.watch.restart()
        speed = progress.tokens / seconds
        self.records.add(
            {
                "kind": "train",
                "step": progress.step,
                "epoch": progress.epoch + 1,  # counted from 1
                **parts,
                "objective": objective,
                "gradient_norm": norm,
                **({"clipped": float(sums.clipped) / steps} if self.config.clips else {}),
                "learning_rate": rate,
                "tokens": progress.tokens,
                "padding": padding,
                "skipped": skipped,
            }
        )
        self.records.add_timing(step=progress.step, seconds=seconds, tokens_per_second=speed)
        self.job.reporter.pace(
            Pace(progress.step, progress.epoch, parts[self.job.task.parts[0]], rate, speed, padding, skipped)
        )
        sums.clear()
        progress.tokens = progress.positions = progress.filled = 0

    def _report_graphs(self) -> None:
        """Reports how many batch shapes are captured as CUDA graphs and how long that took, or why capturing failed."""
        captured = self.learner.updater.captured
        if captured is None or (found := (len(captured), captured.failure)) == self.reported_graphs:
            return
        self.reported_graphs = found
        count, failure = found
        if failure is None:
            how = "compiled and captured" if self.config.compiles else "captured"
            self.job.reporter.note(f"batch shapes {how}: {count}, in {captured.seconds:.0f} s")
        else:
            self.job.reporter.say(
                f"training continues without CUDA graphs, because a step cannot be captured: {failure}"
            )

    def _announce_stop(self) -> None:
        self.job.reporter.say("stopping after this step is finished and saved; press Ctrl-C again to stop at once")

    def _interrupt(self) -> None:
        if self.progress.parent != self.progress.step:
            self.checkpointer.save(scheduled=False)
        if self.progress.best_value is None:
            self.selection.keep_unvalidated()
        self.job.reporter.note(f"stopped and saved at step {self.progress.step}")
        command = f"calque train --resume {shell_path(self.job.folder)}"
        raise Interrupted(f"saved at step {self.progress.step}; resume with: {command}")
