"""Trains and scores the whole line, many runs side by side; called again it goes on where it was.

    python recipes/lineage/run.py CORPUS OUT --seeds 1 2 3 --jobs 16

Every run is OUT/NAME-SEED with its log beside it, and is finished when it has a result.json. After --seconds all
runs save and stop. Exit codes: 0 all done, 1 a run failed, 2 a mistake in what was asked, 75 stopped with some left.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from corpus import Corpus, open_corpus
from entries import ENTRIES, Entry
from score import RESULT, write_json

from calque.config import check
from calque.data.prepare import prepare
from calque.errors import UserError
from calque.experiment import Experiment, experiment_values

HERE = Path(__file__).resolve().parent
CONFIG = HERE / "lineage.toml"
SETTINGS = "settings.json"
TRAINED = "trained"  # a file in a run's folder: there is nothing left to train
INTERRUPTED = 75
ASSIGNMENT = re.compile(r"[a-z_]+(\.[a-z_]+)+=.*", re.DOTALL)
SECONDS_TO_SAVE = 50.0  # after which a run that was asked to stop is killed; it then goes on from its last checkpoint


class Plan(NamedTuple):
    """What was asked for."""

    corpus: Corpus
    out: Path
    factor: float
    device: str
    assignments: Sequence[str]
    keeps_checkpoints: bool = False

    @property
    def store(self) -> Path:
        """The prepared corpus that all runs share."""
        return self.out / "store"


class Run(NamedTuple):
    """One entry with one seed."""

    entry: Entry
    seed: int
    out: Path

    @property
    def label(self) -> str:
        return f"{self.entry.name}-{self.seed}"

    @property
    def folder(self) -> Path:
        return self.out / self.label

    @property
    def is_finished(self) -> bool:
        return (self.folder / RESULT).is_file()


@dataclass
class Worker:
    """A process at work on a run: it trains, or it scores."""

    run: Run
    process: subprocess.Popen[bytes]
    is_scoring: bool
    since: float


def runs_of(entries: Sequence[Entry], *, seeds: Sequence[int], out: Path) -> list[Run]:
    """Seed by seed, so that the first whole table is there early."""
    return [Run(entry, seed, out) for seed in seeds for entry in entries]


def train_command(run: Run, plan: Plan) -> list[str]:
    """How a run begins, or goes on where it was."""
    if (run.folder / "config.toml").is_file():
        return [sys.executable, "-m", "calque", "train", "--resume", str(run.folder)]
    source, target = plan.corpus
    return [
        *(sys.executable, "-m", "calque", "train", "--config", str(CONFIG), "--run", str(run.folder)),
        *("--system", run.entry.system, "--scale", repr(run.entry.scale * plan.factor)),
        *("--source", str(source.train), "--target", str(target.train)),
        *("--valid-source", str(source.valid), "--valid-target", str(target.valid)),
        *(f"seed={run.seed}", f"data.store={plan.store}", f"training.device={plan.device}"),
        *run.entry.assignments,
        *plan.assignments,
    ]


def score_command(run: Run, plan: Plan) -> list[str]:
    """How a trained run gets its result.json."""
    source, target = plan.corpus
    return [
        *(sys.executable, str(HERE / "score.py"), str(run.folder)),
        *("--name", run.entry.name, "--seed", str(run.seed)),
        *("--source", str(source.test), "--reference", str(target.test)),
        *("--languages", source.language, target.language, "--device", plan.device),
    ]


def experiment_of(entry: Entry, plan: Plan) -> Experiment:
    """What a run of an entry will be; a ConfigError where the settings do not fit it."""
    source, target = plan.corpus
    corpora = {
        role: [{"kind": "files", "source": str(getattr(source, role)), "target": str(getattr(target, role))}]
        for role in ("train", "valid")
    }
    values = experiment_values(
        config=CONFIG,
        system=entry.system,
        corpora=corpora,
        assignments=[*entry.assignments, *plan.assignments],
        scale=entry.scale * plan.factor,
    )
    return check(Experiment, values, origin=entry.name)


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


def keep_settings(path: Path, settings: dict[str, Any]) -> None:
    """Writes down what all runs of a folder share; raises a ValueError where they were begun with something else."""
    if not path.exists():
        write_json(path, settings)
        return
    before = json.loads(path.read_bytes())
    changed = [
        f"{key} was {before.get(key)!r}, now {value!r}" for key, value in settings.items() if before[key] != value
    ]
    if changed:
        raise ValueError(f"{path.parent} was begun with other settings: {'; '.join(changed)}; choose another folder")


def _last_line(run: Run) -> str:
    lines = (run.out / f"{run.label}.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def _arguments(known: dict[str, Entry]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.usage = "%(prog)s CORPUS OUT [OPTION ...] [KEY=VALUE ...]"
    parser.epilog = "KEY=VALUE are settings of Calque for all runs, such as training.steps=5000."
    parser.add_argument("corpus", type=Path, help="the folder of the corpus")
    parser.add_argument("out", type=Path, help="the folder for all runs")
    parser.add_argument("--corpus-kind", choices=("multi30k", "dialog"), default="multi30k")
    parser.add_argument(
        "--names", nargs="+", choices=known, default=list(known), metavar="NAME", help="all unless said"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--jobs", type=int, default=16, help="processes side by side")
    parser.add_argument("--seconds", type=float, help="save and stop after so long")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto")
    parser.add_argument("--keep-checkpoints", action="store_true", help="of finished runs too: half a gigabyte each")
    parser.add_argument("--factor", type=float, default=1.0, help="on top of every entry's scale, for a quick try")
    given = parser.parse_args([one for one in sys.argv[1:] if not ASSIGNMENT.fullmatch(one)])
    given.assignments = list(filter(ASSIGNMENT.fullmatch, sys.argv[1:]))
    if given.jobs < 1:
        parser.error("--jobs must be 1 or more")
    return given


def _main() -> int:
    started = time.monotonic()
    known = {entry.name: entry for entry in ENTRIES}
    given = _arguments(known)
    out = given.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    shared = {"corpus_kind": given.corpus_kind, "factor": given.factor, "assignments": given.assignments}
    try:
        corpus = open_corpus(given.corpus.absolute(), kind=given.corpus_kind, held_out=out / "corpus")
        plan = Plan(corpus, out, given.factor, given.device, given.assignments, given.keep_checkpoints)
        experiments = [experiment_of(known[name], plan) for name in given.names]
        keep_settings(out / SETTINGS, shared)
        # once, before many processes want it at the same time
        prepare(experiments[0].data, text=experiments[0].text, folder=plan.store)
    except (OSError, ValueError, UserError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    runs = runs_of([known[name] for name in given.names], seeds=given.seeds, out=out)
    pool = Pool(plan, runs, jobs=given.jobs)
    say(f"{len(runs)} runs, {pool.done} of them done before")
    work(pool, seconds=None if given.seconds is None else max(0.0, given.seconds - (time.monotonic() - started)))
    left = [run.label for run in runs if not run.is_finished and run not in pool.failed]
    if pool.failed:
        say(f"failed: {' '.join(run.label for run in pool.failed)}")
    if left:
        say(f"{len(left)} left: {' '.join(left)}; the same command goes on")
        return INTERRUPTED
    say("all others are done" if pool.failed else "all done")
    return 1 if pool.failed else 0


if __name__ == "__main__":
    sys.exit(_main())
