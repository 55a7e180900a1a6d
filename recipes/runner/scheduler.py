"""Runs many jobs in parallel, each in several stages, and stops them together.

A recipe lists its jobs. The scheduler keeps a number of processes busy, reports progress, and asks all processes to
save and stop when time is up. Which stages are complete is known from files alone, so the same command resumes.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from recipes.runner.files import read_json, write_json

INTERRUPTED = 75  # Calque's exit code when it was asked to stop and has saved
SECONDS_TO_SAVE = 50.0  # after which a process that was asked to stop is killed; it resumes from its last checkpoint
POLL_SECONDS = 0.1


class Stage(NamedTuple):
    """One command of a job."""

    name: str  # for progress reports: "training"
    command: Callable[[], list[str]]  # called when the stage starts: whether training resumes is known only then
    output: Path  # exists once the stage is complete; it is touched if the command does not write it


def nothing() -> None:
    """Does nothing: the default clean-up of a job."""


@dataclass(frozen=True)
class Job:
    """Stages that run in sequence; the job is finished when the last stage is."""

    label: str
    folder: Path  # the log is written beside it
    stages: tuple[Stage, ...]
    needs: tuple[str, ...] = ()  # labels of jobs that must be finished, or dropped, before
    cost: float = 0.0  # relative duration, for `longest_chain_first`
    is_wanted: Callable[[], bool | None] = lambda: True  # called once all needs are met; None: not decided yet
    summary: Callable[[], str] = lambda: "done"  # the outcome, for the progress report
    clean_up: Callable[[], None] = nothing

    @property
    def is_finished(self) -> bool:
        return self.stages[-1].output.is_file()

    @property
    def log(self) -> Path:
        return self.folder.parent / f"{self.label}.log"

    def next_stage(self) -> Stage:
        """The first incomplete stage."""
        return next(stage for stage in self.stages if not stage.output.is_file())


@dataclass
class Worker:
    """A process running one stage of a job."""

    job: Job
    stage: Stage
    process: subprocess.Popen[bytes]
    started: float


class Scheduler:
    """Keeps up to `slots` processes running; every method returns immediately."""

    def __init__(self, jobs: Sequence[Job], *, slots: int) -> None:
        labels = {job.label for job in jobs}
        unknown = sorted({need for job in jobs for need in job.needs} - labels)
        if unknown:
            raise ValueError(f"jobs depend on jobs that do not exist: {', '.join(unknown)}")
        if len(labels) < len(jobs):
            raise ValueError("two jobs have the same label")
        self.finished = {job.label for job in jobs if job.is_finished}
        self.waiting = [job for job in jobs if not job.is_finished]
        self.slots = slots
        self.workers: list[Worker] = []
        self.stopped: list[Job] = []  # before their end
        self.failed: list[Job] = []
        self.dropped: list[Job] = []  # not wanted after all

    def start_ready(self) -> None:
        """Starts jobs whose dependencies are finished, in order, while slots are free; drops unwanted jobs."""
        count = -1
        while count < len(self.dropped):  # a dropped job may have been the last need of another one
            count = len(self.dropped)
            for job in list(self.waiting):
                if len(self.workers) >= self.slots:
                    return
                settled = self.finished | {dropped.label for dropped in self.dropped}
                wanted = job.is_wanted() if set(job.needs) <= settled else None
                if wanted is not None:
                    self.waiting.remove(job)
                if wanted:
                    self._launch(job)
                elif wanted is False:
                    self.dropped.append(job)

    def collect_ended(self, *, stopping: bool = False) -> None:
        """Handles processes that have ended; the job's next stage takes the slot unless all jobs are stopping."""
        for worker in [worker for worker in self.workers if worker.process.poll() is not None]:
            self.workers.remove(worker)
            self._handle_end(worker, code=worker.process.returncode, stopping=stopping)

    def signal(self, number: int) -> None:
        """Sends a signal to every process of this scheduler, and to no other."""
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.send_signal(number)

    def _launch(self, job: Job) -> None:
        stage = job.next_stage()
        job.folder.parent.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        with job.log.open("ab") as log:
            process = subprocess.Popen(
                stage.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment
            )
        self.workers.append(Worker(job, stage, process, time.monotonic()))
        self._report(job, stage.name)

    def _handle_end(self, worker: Worker, *, code: int, stopping: bool) -> None:
        job, stage, seconds = worker.job, worker.stage, time.monotonic() - worker.started
        if code == 0:
            stage.output.parent.mkdir(parents=True, exist_ok=True)
            stage.output.touch()
            if job.is_finished:
                self.finished.add(job.label)
                job.clean_up()
                self._report(job, f"{job.summary()}; {stage.name} took {seconds:.0f} s")
            elif stopping:
                self.stopped.append(job)
                self._report(job, f"stopped after {stage.name}, {seconds:.0f} s")
            else:
                self._launch(job)
        elif stopping or code == INTERRUPTED:
            self.stopped.append(job)
            self._report(job, f"{'saved' if code == INTERRUPTED else 'killed'} after {seconds:.0f} s")
        else:
            self.failed.append(job)
            self._report(job, f"FAILED with {code} after {seconds:.0f} s; see {job.log.name}: {_last_line(job.log)}")

    def _report(self, job: Job, news: str) -> None:
        waiting = len(self.waiting) + len(self.stopped)
        report(f"{job.label}: {news} [{len(self.finished)} done, {len(self.workers)} running, {waiting} waiting]")


def run_jobs(jobs: Sequence[Job], *, slots: int, seconds: float | None) -> int:
    """Runs all jobs, or as many as time allows. Exit code: 0 all done, 1 a job failed, 75 stopped with jobs left."""
    scheduler = Scheduler(jobs, slots=slots)
    report(f"{len(jobs)} jobs, {len(scheduler.finished)} of them already done")
    _supervise(scheduler, seconds=seconds)
    remaining = [job.label for job in (*scheduler.stopped, *scheduler.waiting)]
    if scheduler.dropped:
        report(f"not selected on validation: {' '.join(job.label for job in scheduler.dropped)}")
    if scheduler.failed:
        report(f"failed: {' '.join(job.label for job in scheduler.failed)}")
    if remaining:
        report(f"{len(remaining)} left: {' '.join(remaining)}; run the same command again to resume")
        return 1 if scheduler.failed else INTERRUPTED
    report("all others are done" if scheduler.failed else "all done")
    return 1 if scheduler.failed else 0


def longest_chain_first(jobs: Sequence[Job]) -> list[Job]:
    """Jobs by decreasing cost of the most expensive chain of jobs that starts with them, so that all end early."""
    dependents: dict[str, list[Job]] = {job.label: [] for job in jobs}
    for job in jobs:
        for need in job.needs:
            dependents[need].append(job)
    chains: dict[str, float] = {}

    def chain(job: Job) -> float:
        if job.label not in chains:
            chains[job.label] = job.cost + max(map(chain, dependents[job.label]), default=0.0)
        return chains[job.label]

    return sorted(jobs, key=lambda job: -chain(job))


def train_command(run: Path, arguments: Sequence[str]) -> list[str]:
    """The command that starts a run with these arguments, or resumes it if it has already started."""
    calque = (sys.executable, "-m", "calque", "train")
    if (run / "config.toml").is_file():
        return [*calque, "--resume", str(run)]
    (run / "config.toml.tmp").unlink(missing_ok=True)  # left by a process that was killed as it started
    return [*calque, "--run", str(run), *arguments]


def refuse_other_settings(path: Path, settings: dict[str, Any]) -> None:
    """Raises a ValueError if the runs of a folder were started with other settings."""
    before = read_json(path) if path.exists() else settings
    changes = [
        f"{key} was {before.get(key)!r}, now {value!r}" for key, value in settings.items() if before.get(key) != value
    ]
    if changes:
        raise ValueError(f"{path.parent} was started with other settings: {'; '.join(changes)}; use another folder")


def claim_folder(out: Path, settings: dict[str, Any]) -> None:
    """Records the settings of a folder's runs in settings.json; raises a ValueError if it was started with others."""
    refuse_other_settings(out / "settings.json", settings)
    write_json(out / "settings.json", settings)


def report(line: str) -> None:
    """Prints a line with the time to standard error."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def _supervise(scheduler: Scheduler, *, seconds: float | None) -> None:
    """Runs jobs until all are done, time is up, or a signal asks this process to stop; then all jobs save and stop."""
    signals: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: signals.append(number))
    deadline = None if seconds is None else time.monotonic() + seconds
    while not signals and (deadline is None or time.monotonic() < deadline):
        scheduler.collect_ended()
        scheduler.start_ready()
        if not scheduler.workers:
            return
        time.sleep(POLL_SECONDS)
    report(f"stopping {len(scheduler.workers)} processes")
    if signal.SIGINT not in signals:  # Ctrl-C reaches the whole group, and a second signal would end them unsaved
        scheduler.signal(signal.SIGTERM)
    deadline = time.monotonic() + SECONDS_TO_SAVE
    while scheduler.workers:
        scheduler.collect_ended(stopping=True)
        if time.monotonic() > deadline:
            scheduler.signal(signal.SIGKILL)
        time.sleep(POLL_SECONDS)


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
