"""Validation in a run: the best model so far becomes RUN/model, and in the end the mean of some if asked for."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from calque.data.batching import BatchConfig
from calque.engine import load_weights_into, save_model
from calque.errors import RankError
from calque.search.settings import SearchConfig
from calque.training.averaging import mean_weights
from calque.training.job import Job
from calque.training.learner import Learner
from calque.training.records import Records
from calque.training.selection_metric import deciding_metric
from calque.training.update import is_out_of_memory
from calque.training.validation import NOTHING, Validation, validate


class StoppedError(Exception):
    """A validation ended before it knew anything, as a stop was asked for."""


class Judge:
    """Measures what a learner knows. The leading rank does it; all must ask, and all learn the numbers."""

    def __init__(self, job: Job, learner: Learner, records: Records) -> None:
        self.job = job
        self.learner = learner
        self.records = records
        self.metric = deciding_metric(job.config.metric, is_language_model=job.translator.is_language_model)
        self.best: Validation | None = None
        self._is_asked_to_stop: Callable[[], bool] = _never

    def validate(self, *, stop_asked: Callable[[], bool]) -> bool:
        """Measures the model as it is now and keeps it if none was better; False where a stop was asked for before.

        Then nothing is known, and nothing has changed: it can be done again.
        """
        with self.records.watch.paused():
            self.learner.show()
            self._is_asked_to_stop = stop_asked
            try:
                found = self._measure()
            except StoppedError:
                return False
            finally:
                self._is_asked_to_stop = _never
            value = found.value(self.metric)
            is_best = self.learner.progress.judge(value, loss=found.loss, config=self.job.config)
            self._record(found, best=is_best)
            if is_best:
                self._keep(found)
            by_loss = ", by its loss" if found.is_chance(self.metric) else ""
            self._say(f"{found.described(self.metric)}{f' (best so far{by_loss})' if is_best else ''}")
            return True

    def keep_mean(self, weights: Sequence[dict[str, Tensor]]) -> None:
        """Keeps the mean of weights, however good it is; a run ends with it."""
        with self.records.watch.paused():
            progress = self.learner.progress
            load_weights_into(self.learner.translator.model, mean_weights(weights), origin="the mean of checkpoints")
            found = self._measure()
            progress.best_value, progress.best_step = found.value(self.metric), progress.step
            self._record(found, best=True, averaged=len(weights))
            self._keep(found)
            self._say(f"mean of {len(weights)} checkpoints, {found.described(self.metric)} (kept)")

    def _measure(self) -> Validation:
        """The leading rank's validation; the others wait for its numbers."""
        learner = self.learner
        found, is_stopped = NOTHING, False
        if self.job.ranks.leads:
            try:
                found = self._validated()
            except StoppedError:
                is_stopped = True
            if learner.is_sharded:  # it may not fit beside what is trained
                learner.translator.model.to("cpu")
        loss, bleu, chrf, exact_match, ter, stopped = self.job.ranks.first([*found[:5], is_stopped])
        if stopped:
            raise StoppedError
        return found._replace(loss=loss, bleu=bleu, chrf=chrf, exact_match=exact_match, ter=ter)

    def _validated(self) -> Validation:
        """With batches as in training; where memory runs out with smaller ones, which change nothing but the speed."""
        batch, search = self.job.config.batch, self.learner.translator.search
        tokens = batch.budget // self.job.ranks.count  # what one device reads in training
        parts = 1
        while parts < 2 * max(tokens, search.batch_tokens):  # then every sentence was alone
            found = self._validated_with(
                batch.model_copy(update={"tokens": max(2, tokens // parts)}),
                search.model_copy(update={"batch_tokens": max(1, search.batch_tokens // parts)}),
            )
            if found is not None:
                return found
            parts *= 2
            self._say(f"out of memory in validation, which begins again with batches 1/{parts} as large")
        raise RankError(
            f"out of memory in the validation of step {self.learner.progress.step} even with one sentence at a time; "
            "the last checkpoint is intact; set a smaller search.maximum in config.toml and resume, or begin "
            "another run with a smaller data.maximum_length, or with a smaller model"
        )

    def _validated_with(self, batch: BatchConfig, search: SearchConfig) -> Validation | None:
        """None where memory ran out."""
        translator, device = self.learner.translator, self.learner.device
        asking = translator.model.encoder.register_forward_pre_hook(self._stop_if_asked)  # once a batch
        try:
            translator.model.to(device)
            with_ter = self.job.config.metric == "ter"
            return validate(translator, self.job.held_out, batch=batch, search=search, with_ter=with_ter)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        finally:
            asking.remove()
        if device.type == "cuda":
            torch.cuda.empty_cache()
        return None

    def _stop_if_asked(self, _encoder: nn.Module, _inputs: object) -> None:
        if self._is_asked_to_stop():
            raise StoppedError

    def _record(self, found: Validation, **marks: int) -> None:
        step, held_out = self.learner.progress.step, self.job.held_out
        self.records.add({"kind": "valid", "step": step, **found.numbers, **marks})
        if self.job.ranks.leads:
            rows = list(zip(held_out.sources, held_out.references, found.translations, strict=True))
            self.records.add_samples(step, rows[: self.job.config.samples])

    def _keep(self, found: Validation) -> None:
        self.best = found
        self.learner.translator.confidence = found.confidence
        if self.job.ranks.leads:
            save_model(self.job.folder / "model", self.learner.translator, card=self.job.card)

    def _say(self, text: str) -> None:
        self.job.reporter.say(f"step {self.learner.progress.step}: {text}")


def _never() -> bool:
    return False
