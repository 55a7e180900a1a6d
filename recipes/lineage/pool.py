"""Many processes side by side, one a run: started as there is room, scored when trained, saved and stopped together."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from plan import Plan, Run, score_command, train_command
from score import RESULT

INTERRUPTED = 75  # how calque train ends when it was asked to stop and has saved
TRAINED = "trained"  # a file in a run's folder: there is nothing left to train
SECONDS_TO_SAVE = 50.0  # after which a run that was asked to stop is killed; it then goes on from its last checkpoint


@dataclass
class Worker:
    """A process at work on a run: it trains, or it scores."""

    run: Run
    process: subprocess.Popen[bytes]
    is_scoring: bool
    since: float


class Pool:
    """Keeps so many processes going; every method returns at once."""

    def __init__(self, plan: Plan, runs: Sequence[Run], *, jobs: int) -> None:
        self.plan = plan
        self.waiting = [run for run in runs if not run.is_finished]
        self.done = len(runs) - len(self.waiting)
        self.jobs = jobs
        self.workers: list[Worker] = []
        self.left: list[Run] = []  # stopped before their end
        self.failed: list[Run] = []

    def start(self) -> None:
        """Starts what there is room for."""
        while self.waiting and len(self.workers) < self.jobs:
            run = self.waiting.pop(0)
            self._launch(run, scoring=(run.folder / TRAINED).exists())

    def look(self, *, stopping: bool = False) -> None:
        """Sees who has ended; a run that is trained is scored by the same worker, unless all are stopping."""
        for worker in [one for one in self.workers if one.process.poll() is not None]:
            self.workers.remove(worker)
            self._ended(worker, code=worker.process.returncode, stopping=stopping)

    def signal(self, number: int) -> None:
        """Sends a signal to every process of this pool, and to no other."""
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.send_signal(number)

    def _launch(self, run: Run, *, scoring: bool) -> None:
        is_new = not (run.folder / "config.toml").is_file()
        if is_new:
            (run.folder / "config.toml.tmp").unlink(missing_ok=True)  # of a process killed as it began
        command = (score_command if scoring else train_command)(run, self.plan)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        with (run.out / f"{run.label}.log").open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment
            )
        self.workers.append(Worker(run, process, scoring, time.monotonic()))
        self._say(run, "is being scored" if scoring else "starts" if is_new else "goes on")

    def _ended(self, worker: Worker, *, code: int, stopping: bool) -> None:
        run, seconds = worker.run, time.monotonic() - worker.since
        if code == 0 and not worker.is_scoring:
            (run.folder / TRAINED).touch()
            if stopping:
                self.left.append(run)
                self._say(run, "is trained, but not scored")
            else:
                self._launch(run, scoring=True)
        elif code == 0:
            found = json.loads((run.folder / RESULT).read_bytes())
            self.done += 1
            if not self.plan.keeps_checkpoints:
                shutil.rmtree(run.folder / "checkpoints", ignore_errors=True)
            told = f"BLEU {found['bleu_lowercased']:.2f}, trained in {found['training_seconds']:.0f} s"
            self._say(run, f"is done: {told}, scored in {seconds:.0f} s")
        elif stopping or code == INTERRUPTED:
            self.left.append(run)
            how = "was saved" if code == INTERRUPTED else "is to be scored anew" if worker.is_scoring else "was cut off"
            self._say(run, f"{how} after {seconds:.0f} s")
        else:
            self.failed.append(run)
            self._say(run, f"FAILED with {code} after {seconds:.0f} s; see {run.label}.log: {_last_line(run)}")

    def _say(self, run: Run, what: str) -> None:
        counts = f"{self.done} done, {len(self.workers)} going, {len(self.waiting) + len(self.left)} waiting"
        say(f"{run.label} {what} [{counts}]")


def work(pool: Pool, *, seconds: float | None) -> None:
    """Until everything is done, the time is up, or this process is asked to stop; then all runs save and stop."""
    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: asked.append(number))
    deadline = None if seconds is None else time.monotonic() + seconds
    while not asked and (deadline is None or time.monotonic() < deadline):
        pool.look()
        pool.start()
        if not pool.workers:
            return
        time.sleep(0.1)
    say(f"stopping {len(pool.workers)} processes")
    if signal.SIGINT not in asked:  # a Ctrl-C reaches the whole group, and a second signal would end them unsaved
        pool.signal(signal.SIGTERM)
    latest = time.monotonic() + SECONDS_TO_SAVE
    while pool.workers:
        pool.look(stopping=True)
        if time.monotonic() > latest:
            pool.signal(signal.SIGKILL)
        time.sleep(0.1)


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def _last_line(run: Run) -> str:
    lines = (run.out / f"{run.label}.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
