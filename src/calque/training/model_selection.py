"""Model selection: RUN/model is the model with the best validation or, at the end, the mean of checkpoints."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from calque.devices import is_out_of_memory
from calque.errors import OutOfMemory, RankError
from calque.folders.weights import load_weights_into
from calque.tasks.interfaces import Judgement, StoppedError
from calque.training.averaging import mean_weights
from calque.training.job import Job
from calque.training.learner import Learner
from calque.training.records import Records


class ModelSelection:
    """Validates a learner's model and saves the best. All ranks must call its methods; the leading rank validates."""

    def __init__(self, job: Job, learner: Learner, records: Records) -> None:
        self.job = job
        self.learner = learner
        self.records = records
        self.selection = job.selection
        self.best: Judgement | None = None

    def validate(self, *, stop_requested: Callable[[], bool]) -> bool:
        """Validates the current model and saves it if it is the best so far.

        Returns False if a stop was requested meanwhile. A stopped validation changes nothing, so it can be repeated.
        """
        with self.records.watch.paused():
            self.learner.update_judged()
            try:
                judgement = self._judge(stop_requested)
            except StoppedError:
                return False
            value, tie = self.selection.worth(judgement.values), self.selection.tie(judgement.values)
            is_best = self.learner.progress.judge(value, tie=tie, loss=judgement.loss, config=self.job.config)
            self._record(judgement, best=is_best)
            self._watch_gradients()
            if is_best:
                self._keep(judgement)
            self._trigger_averaging(judgement.loss)
            by_loss = ", by its loss" if self.selection.is_chance(judgement.values) else ""
            self._say(f"{judgement.summary}{f' (best so far{by_loss})' if is_best else ''}")
            return True

    def _watch_gradients(self) -> None:
        """Records gradient flow at every N-th validation (training.watch_gradients) without changing the model."""
        config, step, model = self.job.config, self.learner.progress.step, self.learner.judged
        validation = -(-step // config.validate_every)  # the last may come early
        if self.job.gradient_flow is None or not self.job.ranks.leads or validation % config.watch_gradients:
            return
        was_training = model.training
        try:
            line = self.job.gradient_flow(model.eval())
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            self._say("out of memory while gradient flow was measured: this step is missing from gradients.jsonl")
        else:
            self.records.add_gradients({"step": step, **line})
        finally:
            model.train(was_training)

    def _trigger_averaging(self, loss: float) -> None:
        """Starts averaging the weights if the validation loss has stopped improving; `loss` is the latest."""
        learner, patience = self.learner, self.job.config.averaged_sgd
        if learner.triggered is None or learner.triggered.has_started:
            return
        if learner.progress.triggers_averaging(loss, patience=patience):
            learner.triggered.start()
            learner.progress.averaged_steps = learner.triggered.steps
            self._say("the validation score has stopped improving: from this step on, the weights are averaged")

    def keep_mean(self, weights: Sequence[dict[str, Tensor]]) -> None:
        """Saves the mean of the given weights as the final model, whatever its validation score."""
        with self.records.watch.paused():
            progress = self.learner.progress
            load_weights_into(self.learner.judged, mean_weights(weights), origin="the mean of checkpoints")
            judgement = self._judge(_never)
            progress.best_value, progress.best_step = self.selection.worth(judgement.values), progress.step
            self._record(judgement, best=True, averaged=len(weights))
            self._keep(judgement)
            self._say(f"mean of {len(weights)} checkpoints, {judgement.summary} (kept)")

    def keep_unvalidated(self) -> None:
        """Saves the current model of a run that stops before its first validation; resuming the run replaces it."""
        with self.records.watch.paused():
            self.learner.update_judged()
            self._save(Judgement(dict.fromkeys(self.job.judge.reports, math.nan)))
            self._say(f"{self.job.folder / 'model'} contains the weights of this step, which were never validated")
            self.job.ranks.barrier()  # a rank that exited first would break the connection of the rank that is saving

    def _judge(self, stop_requested: Callable[[], bool]) -> Judgement:
        """Validates the model on the leading rank and sends the scores to the other ranks."""
        learner, judge = self.learner, self.job.judge
        judgement, is_stopped = Judgement(dict.fromkeys(judge.reports, math.nan)), False
        if self.job.ranks.leads:
            try:
                judgement = self._measure(stop_requested)
            except StoppedError:
                is_stopped = True
            if learner.is_sharded:  # it may not fit beside the model that is trained
                learner.judged.to("cpu")
        numbers = self.job.ranks.broadcast([*(judgement.values[name] for name in judge.reports), is_stopped])
        if numbers[-1]:
            raise StoppedError
        return judgement._replace(values=dict(zip(judge.reports, numbers, strict=False)))

    def _measure(self, stop_requested: Callable[[], bool]) -> Judgement:
        """Validates the model. If memory runs out, repeats this with smaller batches, which give the same result."""
        parts = 1
        while parts < 2 * self.job.judge.positions:  # beyond this, every batch had a single row
            judgement = self._measure_in(parts, stop_requested)
            if judgement is not None:
                return judgement
            parts *= 2
            self._say(f"out of memory in validation; repeating it with batches 1/{parts} as large")
        raise RankError(
            f"out of memory in the validation of step {self.learner.progress.step} even with one row at a time; "
            "the last checkpoint is intact; set a smaller search.maximum in config.toml and resume, or start "
            "another run with a smaller data.maximum_length, or with a smaller model"
        )

    def _measure_in(self, parts: int, stop_requested: Callable[[], bool]) -> Judgement | None:
        """The result of validation with batches 1/`parts` as large as usual; None if memory ran out."""
        model, device = self.learner.judged, self.learner.device
        was_training = model.training
        try:
            model.to(device).eval()
            return self.job.judge(model, parts=parts, stop=stop_requested)
        except (RuntimeError, MemoryError, OutOfMemory) as error:
            if not isinstance(error, OutOfMemory) and not is_out_of_memory(error):
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
        self._save(judgement)

    def _save(self, judgement: Judgement) -> None:
        if self.job.ranks.leads:
            self.records.refuse_deleted()
            self.job.save_model(self.job.folder / "model", self.learner.judged, judgement)

    def _say(self, text: str) -> None:
        self.job.reporter.say(f"step {self.learner.progress.step}: {text}")


def _never() -> bool:
    return False
