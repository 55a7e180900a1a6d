"""Saving, restoring and pruning the checkpoints of a run."""

import json
import zlib

from torch import Tensor

from calque.errors import FolderError
from calque.folders import MANIFEST
from calque.training.checkpoints import (
    LatestCheckpoint,
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
from calque.training.records import Records, Sizes
from calque.training.runs import checkpoint_interval, record_checkpoint_interval


class Checkpointer:
    """Saves a learner's state under RUN/checkpoints. All ranks must call its methods; only the leading rank writes."""

    def __init__(self, job: Job, learner: Learner, records: Records) -> None:
        self.job = job
        self.learner = learner
        self.records = records
        self.folder = job.folder / "checkpoints"

    def save(self, *, scheduled: bool) -> None:
        """Saves a checkpoint of the current step and removes those that are no longer needed."""
        with self.records.watch.paused():
            progress, ranks = self.learner.progress, self.job.ranks
            progress.metrics, progress.samples, progress.gradients = self.records.sync()
            is_collective = self.learner.is_sharded or self.learner.updater.carry is not None
            snapshot = self.learner.snapshot() if ranks.leads or is_collective else None
            if ranks.leads and snapshot is not None:
                self.records.refuse_deleted()
                save_checkpoint(self.folder, snapshot, step=progress.step, scheduled=scheduled, parent=progress.parent)
                self._prune()
            progress.parent = progress.step
            ranks.barrier()  # a rank that exited first would break the connection of the rank that is saving

    def restore(self) -> None:
        """Restores the newest intact checkpoint. Records written after it are cut off and will be written again."""
        config, ranks, reporter = self.job.config, self.job.ranks, self.job.reporter
        latest = ranks.on_all(lambda: newest_checkpoint(self.folder) if self.folder.is_dir() else None)
        reporter.say(*ranks.on_leader(lambda: self._missing_checkpoints(latest)).splitlines())
        self._refuse_disagreement(latest)
        if latest is not None:
            reporter.say(*latest.skipped)
            notes = ranks.on_all(lambda: self.learner.restore(latest.snapshot, origin=str(latest.path)))
            self.learner.progress.parent = latest.step
            self.learner.progress.stopped_early = 0 < config.patience <= self.learner.progress.since_best
            reporter.say(*notes, f"resuming from step {latest.step}")
        progress = self.learner.progress
        self.records.cut(Sizes(progress.metrics, progress.samples, progress.gradients), step=progress.step)
        self._adopt_selection()
        if ranks.leads:
            record_checkpoint_interval(self.job.folder, every=config.checkpoint_every)  # after the metrics were cut
        ranks.barrier()
        if latest is not None and ranks.leads:
            self._prune()  # if the run was killed between saving and pruning

    def _adopt_selection(self) -> None:
        """If training.metric or its tie-breaker has changed, ranks the best models so far by the new settings."""
        progress, selection = self.learner.progress, self.job.selection
        if progress.metric is None:
            progress.metric, progress.tie_breaker = selection.metric, selection.tie_breaker
        if (progress.metric, progress.tie_breaker) == (selection.metric, selection.tie_breaker):
            return
        validations = {line["step"]: line for line in json.loads(self.job.ranks.on_leader(self._best_validations))}
        self.job.reporter.say(progress.switch_selection(selection, validations=validations))

    def _best_validations(self) -> str:
        """The lines of metrics.jsonl for the validations of the best models, as JSON."""
        progress = self.learner.progress
        steps = {progress.best_step, *(step for _, step in progress.best_steps)}
        lines = read_journal(self.job.folder / "metrics.jsonl", counts=("step",))
        return json.dumps([line for line in lines if line.get("kind") == "valid" and line["step"] in steps])

    def weights_to_average(self) -> list[dict[str, Tensor]]:
        """The weights of the checkpoints that training.average selects, or an empty list if there are fewer than two.

        Damaged checkpoints are reported and left out.
        """
        steps, checkpoints = self._averaged_steps(), []
        if len(steps) < 2:
            return []
        for step in steps:
            try:
                checkpoints.append(load_weights(self.folder / f"step-{step}"))
            except FolderError as error:
                self.job.reporter.say(f"a checkpoint is left out of the mean of the weights: {error}")
        return checkpoints or [self.learner.weights()]

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

    def _refuse_disagreement(self, latest: LatestCheckpoint | None) -> None:
        """Raises a FolderError on all ranks if they do not see the same checkpoint, settings and data."""
        manifest = b"" if latest is None else (latest.path / MANIFEST).read_bytes()
        settings = f"{self.job.seed} {len(self.job.store)} {self.job.config.model_dump_json()}"
        view = [0 if latest is None else latest.step, zlib.crc32(manifest), zlib.crc32(settings.encode())]
        views = self.job.ranks.all_gather(view)
        if any(view[:2] != views[0][:2] for view in views):
            steps = [f"rank {rank}: {f'step {step:.0f}' if step else 'none'}" for rank, (step, *_) in enumerate(views)]
            problem = f"the ranks see different checkpoints to resume from ({', '.join(steps)})"
        elif any(view != views[0] for view in views):
            problem = "the ranks see different settings or data"
        else:
            return
        raise self.job.ranks.reported_by_leader(
            FolderError(
                f"{self.folder.parent}: {problem}; all machines must use the same run folder and corpus, on a "
                "shared disk"
            )
        )

    def _missing_checkpoints(self, latest: LatestCheckpoint | None) -> str:
        """A message about lost checkpoints, or an empty string. Raises a FolderError if all checkpoints are lost.

        The lines of metrics.jsonl written after the latest checkpoint show how far the run had come. Resuming cuts them
        off, so it does not matter if a power cut damaged them.
        """
        durable = 0 if latest is None else latest.snapshot.values.get("metrics", 0)
        lines = read_journal(self.job.folder / "metrics.jsonl", counts=("step",), durable=durable)
        reached = max((line["step"] for line in lines), default=0)
        every = checkpoint_interval(self.job.folder) or self.job.config.checkpoint_every  # the config may have changed
        return "\n".join(lost_checkpoint(self.folder, reached=reached, every=every))
