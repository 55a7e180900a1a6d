"""A run on the disk: what is saved, found again after a crash, and thrown away."""

import json
import zlib

from torch import Tensor

from calque.errors import FolderError
from calque.folders import MANIFEST
from calque.training.checkpoints import (
    Found,
    load_weights,
    lost_checkpoint,
    newest_checkpoint,
    prune_checkpoints,
    save_checkpoint,
    scheduled_steps,
)
from calque.training.job import Job
from calque.training.journal import read_journal
from calque.training.learner import Learner
from calque.training.records import Records
from calque.training.runs import note_interval, saved_every


class Checkpointer:
    """Keeps what a learner knows under RUN/checkpoints. Only the leading rank writes; all of them must ask."""

    def __init__(self, job: Job, learner: Learner, records: Records) -> None:
        self.job = job
        self.learner = learner
        self.records = records
        self.folder = job.folder / "checkpoints"

    def save(self, *, scheduled: bool) -> None:
        """A checkpoint of the step just taken; those that are no longer needed go."""
        with self.records.watch.paused():
            progress, ranks = self.learner.progress, self.job.ranks
            progress.metrics, progress.samples = self.records.sync()
            is_shared = self.learner.is_sharded or self.learner.updater.carry is not None
            snapshot = self.learner.snapshot() if ranks.leads or is_shared else None
            if ranks.leads and snapshot is not None:
                save_checkpoint(self.folder, snapshot, step=progress.step, scheduled=scheduled, parent=progress.parent)
                self._prune()
            progress.parent = progress.step
            ranks.wait()  # one that went ahead might end, and take the one that saves with it

    def restore(self) -> None:
        """Goes back to the newest sound checkpoint; what was written after it is cut away and will come again."""
        config, ranks, reporter = self.job.config, self.job.ranks, self.job.reporter
        found = ranks.together(lambda: newest_checkpoint(self.folder) if self.folder.is_dir() else None)
        reporter.say(*ranks.led(lambda: self._missed(found)).splitlines())
        self._refuse_other_views(found)
        if found is not None:
            reporter.say(*found.skipped)
            notes = ranks.together(lambda: self.learner.restore(found.snapshot, origin=str(found.path)))
            self.learner.progress.parent = found.step
            self.learner.progress.stopped_early = 0 < config.patience <= self.learner.progress.since_best
            reporter.say(*notes, f"going on from step {found.step}")
        progress = self.learner.progress
        self.records.cut(step=progress.step, metrics=progress.metrics, samples=progress.samples)
        self._follow_metric()
        if ranks.leads:
            note_interval(self.job.folder, every=config.checkpoint_every)  # not before the metrics were cut
        ranks.wait()
        if found is not None and ranks.leads:
            self._prune()  # what a kill right after a save has left

    def _follow_metric(self) -> None:
        """Where another metric decides than before, what the kept models are worth by that one counts from now on."""
        progress, ranks = self.learner.progress, self.job.ranks
        metric = self.job.metric
        if progress.metric in (None, metric):
            progress.metric = metric
            return
        validations = {line["step"]: line for line in json.loads(ranks.led(self._kept_validations))}
        kind = self.job.judge.metrics[metric]
        self.job.reporter.say(progress.turn_to(metric, kind=kind, validations=validations))

    def _kept_validations(self) -> str:
        """The lines of the validations in which the kept models were found, as JSON."""
        progress = self.learner.progress
        steps = {progress.best_step, *(step for _, step in progress.best_steps)}
        lines = read_journal(self.job.folder / "metrics.jsonl", counts=("step",))
        return json.dumps([line for line in lines if line.get("kind") == "valid" and line["step"] in steps])

    def averaged(self) -> list[dict[str, Tensor]]:
        """The weights whose mean was asked for, if there are several; damaged ones are named and left out."""
        steps, found = self._averaged_steps(), []
        if len(steps) < 2:
            return []
        for step in steps:
            try:
                found.append(load_weights(self.folder / f"step-{step}"))
            except FolderError as error:
                self.job.reporter.say(f"left out of the mean: {error}")
        return found or [self.learner.weights()]

    def _averaged_steps(self) -> list[int]:
        config = self.job.config
        if config.average < 2:
            return []
        if config.average_of == "best":
            return sorted(step for _, step in self.learner.progress.best_steps)
        return scheduled_steps(self.folder)[-config.average :]

    def _prune(self) -> None:
        config = self.job.config
        best = [step for _, step in self.learner.progress.best_steps]
        last = 0 if config.average_of == "best" else config.average
        prune_checkpoints(self.folder, keep=max(config.keep, last), also=best)

    def _refuse_other_views(self, found: Found | None) -> None:
        """Raises a FolderError on all ranks if they do not see the same checkpoint, settings and data."""
        manifest = b"" if found is None else (found.path / MANIFEST).read_bytes()
        settings = f"{self.job.seed} {len(self.job.store)} {self.job.config.model_dump_json()}"
        mine = [0 if found is None else found.step, zlib.crc32(manifest), zlib.crc32(settings.encode())]
        views = self.job.ranks.each(mine)
        if any(view[:2] != views[0][:2] for view in views):
            steps = [f"rank {rank}: {f'step {step:.0f}' if step else 'none'}" for rank, (step, *_) in enumerate(views)]
            problem = f"the ranks see different checkpoints to go on from ({', '.join(steps)})"
        elif any(view != views[0] for view in views):
            problem = "the ranks see different settings or data"
        else:
            return
        raise self.job.ranks.shared(
            FolderError(
                f"{self.folder.parent}: {problem}; all machines must see one run folder and one corpus, on a disk that "
                "they share"
            )
        )

    def _missed(self, found: Found | None) -> str:
        """What there is to say of checkpoints that were there and are gone; without any the run is refused.

        Metrics behind those of the checkpoint that was found tell how far the run had come; they will be cut away, so
        what a power cut made of them does not matter.
        """
        sure = 0 if found is None else found.snapshot.values.get("metrics", 0)
        lines = read_journal(self.job.folder / "metrics.jsonl", counts=("step",), sure=sure)
        reached = max((line["step"] for line in lines), default=0)
        every = saved_every(self.job.folder) or self.job.config.checkpoint_every  # it may be another one from now on
        return "\n".join(lost_checkpoint(self.folder, reached=reached, every=every))
