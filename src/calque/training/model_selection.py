"""Validation in a run: the best model so far becomes RUN/model, and in the end the mean of some if asked for."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from calque.errors import RankError
from calque.folders.weights import load_weights_into
from calque.tasks.interfaces import Judgement, StoppedError
from calque.training.averaging import mean_weights
from calque.training.job import Job
from calque.training.learner import Learner
from calque.training.records import Records
from calque.training.update import is_out_of_memory


class ModelSelection:
    """Judges what a learner knows and keeps the best. The leading rank measures; all ask, and all learn the numbers."""

    def __init__(self, job: Job, learner: Learner, records: Records) -> None:
        self.job = job
        self.learner = learner
        self.records = records
        self.metric = job.metric
        self.kind = job.judge.metrics[job.metric]
        self.best: Judgement | None = None

    def validate(self, *, stop_asked: Callable[[], bool]) -> bool:
        """Measures the model as it is now and keeps it if none was better; False where a stop was asked for before.

        Then nothing is known, and nothing has changed: it can be done again.
        """
        with self.records.watch.paused():
            self.learner.show()
            try:
                judgement = self._judge(stop_asked)
            except StoppedError:
                return False
            value = self._value(judgement)
            is_best = self.learner.progress.judge(value, loss=judgement.loss, config=self.job.config)
            self._record(judgement, best=is_best)
            if is_best:
                self._keep(judgement)
            self._trigger_averaging(judgement.loss)
            by_loss = ", by its loss" if self.kind.is_chance(judgement.values[self.metric]) else ""
            self._say(f"{judgement.summary}{f' (best so far{by_loss})' if is_best else ''}")
            return True

    def _trigger_averaging(self, loss: float) -> None:
        """Begins to average the weights where validations have stopped getting better."""
        learner, patience = self.learner, self.job.config.averaged_sgd
        if learner.triggered is None or learner.triggered.is_begun:
            return
        if learner.progress.triggers_averaging(loss, patience=patience):
            learner.triggered.begin()
            learner.progress.averaged_steps = learner.triggered.steps
            self._say("validations have stopped getting better: the weights are averaged from here on")

    def keep_mean(self, weights: Sequence[dict[str, Tensor]]) -> None:
        """Keeps the mean of weights, however good it is; a run ends with it."""
        with self.records.watch.paused():
            progress = self.learner.progress
            load_weights_into(self.learner.judged, mean_weights(weights), origin="the mean of checkpoints")
            judgement = self._judge(_never)
            progress.best_value, progress.best_step = self._value(judgement), progress.step
            self._record(judgement, best=True, averaged=len(weights))
            self._keep(judgement)
            self._say(f"mean of {len(weights)} checkpoints, {judgement.summary} (kept)")

    def _value(self, judgement: Judgement) -> float:
        return self.kind.worth(judgement.values[self.metric])

    def _judge(self, stop_asked: Callable[[], bool]) -> Judgement:
        """The leading rank's judgement; the others wait for its numbers."""
        learner, judge = self.learner, self.job.judge
        judgement, is_stopped = Judgement(dict.fromkeys(judge.reports, math.nan)), False
        if self.job.ranks.leads:
            try:
                judgement = self._measure(stop_asked)
            except StoppedError:
                is_stopped = True
            if learner.is_sharded:  # it may not fit beside what is trained
                learner.judged.to("cpu")
        numbers = self.job.ranks.first([*(judgement.values[name] for name in judge.reports), is_stopped])
        if numbers[-1]:
            raise StoppedError
        return judgement._replace(values=dict(zip(judge.reports, numbers, strict=False)))

    def _measure(self, stop_asked: Callable[[], bool]) -> Judgement:
        """With the judge's usual batches; where memory runs out with smaller ones, which change only the speed."""
        parts = 1
        while parts < 2 * self.job.judge.positions:  # then every row was alone
            judgement = self._measure_in(parts, stop_asked)
            if judgement is not None:
                return judgement
            parts *= 2
            self._say(f"out of memory in validation, which begins again with batches 1/{parts} as large")
        raise RankError(
            f"out of memory in the validation of step {self.learner.progress.step} even with one row at a time; "
            "the last checkpoint is intact; set a smaller search.maximum in config.toml and resume, or begin "
            "another run with a smaller data.maximum_length, or with a smaller model"
        )

    def _measure_in(self, parts: int, stop_asked: Callable[[], bool]) -> Judgement | None:
        """None where memory ran out."""
        model, device = self.learner.judged, self.learner.device
        was_training = model.training
        try:
            model.to(device).eval()
            return self.job.judge(model, parts=parts, stop=stop_asked)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        finally:
            model.train(was_training)
        if device.type == "cuda":
            torch.cuda.empty_cache()
        return None

    def _record(self, judgement: Judgement, **marks: int) -> None:
        step = self.learner.progress.step
        self.records.add({"kind": "valid", "step": step, **judgement.values, **marks})
        self.records.add_samples(step, judgement.samples[: self.job.config.samples])

    def _keep(self, judgement: Judgement) -> None:
        self.best = judgement
        if self.job.ranks.leads:
            self.job.save_model(self.job.folder / "model", self.learner.judged, judgement)

    def _say(self, text: str) -> None:
        self.job.reporter.say(f"step {self.learner.progress.step}: {text}")


def _never() -> bool:
    return False
