"""Many jobs side by side, each of several stages: begun as there is room and what they need is there, stopped together.

A recipe says what its jobs are; this keeps so many processes going, tells what happens, and asks all of them to save
and stop when the time is up. What is done is known by files alone, so that the same command goes on where it was.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

INTERRUPTED = 75  # how calque ends when it was asked to stop and has saved
SECONDS_TO_SAVE = 50.0  # after which a process that was asked to stop is killed; it then goes on from what was saved


class Stage(NamedTuple):
    """One command of a job."""

    name: str  # what is said when it begins: "is scored"
    command: Callable[[], list[str]]  # asked when it is begun: a training goes on where it was
    done: Path  # there when there is nothing left to do; it is touched where the command leaves no such file


def nothing() -> None:
    """What follows a job unless said."""


@dataclass(frozen=True)
class Job:
    """Stages one after the other; finished when the last one is."""

    label: str
    folder: Path  # its log is beside it
    stages: tuple[Stage, ...]
    needs: tuple[str, ...] = ()  # labels of jobs that must be done before, or have turned out not to be wanted
    cost: float = 0.0  # what starts first where costs decide
    is_wanted: Callable[[], bool | None] = lambda: True  # asked when all it needs is there; None: it is not known yet
    told: Callable[[], str] = lambda: "done"  # what came of it, in a few words
    afterwards: Callable[[], None] = nothing

    @property
    def is_finished(self) -> bool:
        return self.stages[-1].done.is_file()

    @property
    def log(self) -> Path:
        return self.folder.parent / f"{self.label}.log"

    def next_stage(self) -> Stage:
        """The first that is not done."""
        return next(stage for stage in self.stages if not stage.done.is_file())


@dataclass
class Worker:
    """A process at work on a stage of a job."""

    job: Job
    stage: Stage
    process: subprocess.Popen[bytes]
    since: float


class Fleet:
    """Keeps so many processes going; every method returns at once."""

    def __init__(self, jobs: Sequence[Job], *, side_by_side: int) -> None:
        labels = {job.label for job in jobs}
        unknown = sorted({need for job in jobs for need in job.needs} - labels)
        if unknown or len(labels) < len(jobs):
            raise ValueError(
                f"jobs need what no job makes: {', '.join(unknown)}" if unknown else "two jobs of one name"
            )
        self.finished = {job.label for job in jobs if job.is_finished}
        self.waiting = [job for job in jobs if not job.is_finished]
        self.side_by_side = side_by_side
        self.workers: list[Worker] = []
        self.left: list[Job] = []  # stopped before their end
        self.failed: list[Job] = []
        self.unwanted: list[Job] = []

    def start(self) -> None:
        """Starts what there is room for and has what it needs, in order; what turns out not to be wanted is dropped."""
        dropped = -1
        while dropped < len(self.unwanted):  # what waited for one that is dropped may begin
            dropped = len(self.unwanted)
            for job in list(self.waiting):
                if len(self.workers) >= self.side_by_side:
                    return
                settled = self.finished | {each.label for each in self.unwanted}
                wanted = job.is_wanted() if set(job.needs) <= settled else None
                if wanted is not None:
                    self.waiting.remove(job)
                if wanted:
                    self._launch(job)
                elif wanted is False:
                    self.unwanted.append(job)

    def look(self, *, stopping: bool = False) -> None:
        """Sees who has ended; a job's next stage is begun in its place, unless all are stopping."""
        for worker in [one for one in self.workers if one.process.poll() is not None]:
            self.workers.remove(worker)
            self._ended(worker, code=worker.process.returncode, stopping=stopping)

    def signal(self, number: int) -> None:
        """Sends a signal to every process of this fleet, and to no other."""
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
        self._say(job, stage.name)

    def _ended(self, worker: Worker, *, code: int, stopping: bool) -> None:
        job, stage, seconds = worker.job, worker.stage, time.monotonic() - worker.since
        if code == 0:
            stage.done.parent.mkdir(parents=True, exist_ok=True)
            stage.done.touch()
            if job.is_finished:
                self.finished.add(job.label)
                job.afterwards()
                self._say(job, f"is done: {job.told()}; the last stage took {seconds:.0f} s")
            elif stopping:
                self.left.append(job)
                self._say(job, f"has a stage left after {seconds:.0f} s")
            else:
                self._launch(job)
        elif stopping or code == INTERRUPTED:
            self.left.append(job)
            self._say(job, f"{'was saved' if code == INTERRUPTED else 'was cut off'} after {seconds:.0f} s")
        else:
            self.failed.append(job)
            self._say(job, f"FAILED with {code} after {seconds:.0f} s; see {job.log.name}: {_last_line(job.log)}")

    def _say(self, job: Job, what: str) -> None:
        counts = f"{len(self.finished)} done, {len(self.workers)} going, {len(self.waiting) + len(self.left)} waiting"
        say(f"{job.label} {what} [{counts}]")


def work(fleet: Fleet, *, seconds: float | None) -> None:
    """Until everything is done, the time is up, or this process is asked to stop; then all jobs save and stop."""
    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: asked.append(number))
    deadline = None if seconds is None else time.monotonic() + seconds
    while not asked and (deadline is None or time.monotonic() < deadline):
        fleet.look()
        fleet.start()
        if not fleet.workers:
            return
        time.sleep(0.1)
    say(f"stopping {len(fleet.workers)} processes")
    if signal.SIGINT not in asked:  # a Ctrl-C reaches the whole group, and a second signal would end them unsaved
        fleet.signal(signal.SIGTERM)
    latest = time.monotonic() + SECONDS_TO_SAVE
    while fleet.workers:
        fleet.look(stopping=True)
        if time.monotonic() > latest:
            fleet.signal(signal.SIGKILL)
        time.sleep(0.1)


def sail(jobs: Sequence[Job], *, side_by_side: int, seconds: float | None) -> int:
    """Does all jobs, or as many as time allows: 0 all are done, 1 one failed, 75 stopped with some left."""
    fleet = Fleet(jobs, side_by_side=side_by_side)
    say(f"{len(jobs)} jobs, {len(fleet.finished)} of them done before")
    work(fleet, seconds=seconds)
    left = [job.label for job in (*fleet.left, *fleet.waiting)]
    if fleet.unwanted:
        say(f"not wanted, as others were better: {' '.join(job.label for job in fleet.unwanted)}")
    if fleet.failed:
        say(f"failed: {' '.join(job.label for job in fleet.failed)}")
    if left:
        say(f"{len(left)} left: {' '.join(left)}; the same command goes on")
        return 1 if fleet.failed else INTERRUPTED
    say("all others are done" if fleet.failed else "all done")
    return 1 if fleet.failed else 0


def longest_chain_first(jobs: Sequence[Job]) -> list[Job]:
    """Jobs by what they and the dearest chain of jobs that wait for them cost: the end comes soonest so."""
    waiting: dict[str, list[Job]] = {job.label: [] for job in jobs}
    for job in jobs:
        for need in job.needs:
            waiting[need].append(job)
    chains: dict[str, float] = {}

    def chain(job: Job) -> float:
        if job.label not in chains:
            chains[job.label] = job.cost + max(map(chain, waiting[job.label]), default=0.0)
        return chains[job.label]

    return sorted(jobs, key=lambda job: -chain(job))


def train_command(folder: Path, begin: Sequence[str]) -> list[str]:
    """How a run begins, with these arguments of `calque train`, or goes on where it was."""
    calque = (sys.executable, "-m", "calque", "train")
    if (folder / "config.toml").is_file():
        return [*calque, "--resume", str(folder)]
    (folder / "config.toml.tmp").unlink(missing_ok=True)  # of a process killed as it began
    return [*calque, "--run", str(folder), *begin]


def refuse_other_settings(path: Path, settings: dict[str, Any]) -> None:
    """Raises a ValueError where the runs of a folder were begun with something else."""
    before = json.loads(path.read_bytes()) if path.exists() else settings
    changed = [
        f"{key} was {before.get(key)!r}, now {value!r}" for key, value in settings.items() if before.get(key) != value
    ]
    if changed:
        raise ValueError(f"{path.parent} was begun with other settings: {'; '.join(changed)}; choose another folder")


def write_json(path: Path, values: Any) -> None:
    """Whole or not at all."""
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    temporary.replace(path)


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
