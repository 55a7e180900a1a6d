"""Validation in a run: the best model so far becomes RUN/model, and in the end the mean of some if asked for."""

from collections.abc import Sequence

from torch import Tensor

from calque.training.averaging import mean_weights
from calque.training.deciding import deciding_metric
from calque.training.job import Job
from calque.training.learner import Learner
from calque.training.records import Records
from calque.training.validation import NOTHING, Validation, validate
from calque.translator import load_weights_into, save_model


class Judge:
    """Measures what a learner knows. The leading rank does it; all must ask, and all learn the numbers."""

    def __init__(self, job: Job, learner: Learner, records: Records) -> None:
        self.job = job
        self.learner = learner
        self.records = records
        self.metric = deciding_metric(job.config.metric, is_language_model=job.translator.is_language_model)
        self.best: Validation | None = None

    def validate(self) -> None:
        """Measures the model as it is now and keeps it if none was better."""
        with self.records.watch.paused():
            self.learner.show()
            found = self._measure()
            value = found.value(self.metric)
            is_best = self.learner.progress.judge(value, loss=found.loss, config=self.job.config)
            self._record(found, best=is_best)
            if is_best:
                self._keep(found)
            self._say(f"{found.described(self.metric)}{' (best so far)' if is_best else ''}")

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
        config, learner = self.job.config, self.learner
        found = NOTHING
        if self.job.ranks.leads:
            translator = learner.translator
            translator.model.to(learner.device)
            assert isinstance(config.batch.tokens, int)  # fitted before
            tokens = max(2, config.batch.tokens // self.job.ranks.count)  # what one device reads in training
            found = validate(
                translator,
                self.job.held_out,
                batch=config.batch.model_copy(update={"tokens": tokens}),
                search=translator.search,
                with_ter=config.metric == "ter",
            )
            if learner.is_sharded:  # it may not fit beside what is trained
                translator.model.to("cpu")
        loss, bleu, chrf, exact_match, ter = self.job.ranks.first(found[:5])
        return found._replace(loss=loss, bleu=bleu, chrf=chrf, exact_match=exact_match, ter=ter)

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
