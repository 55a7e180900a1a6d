"""Every promise of estimation holds for every model that is counted.

Each CI run tests every promise and every model at least once, which ones changes with the commit; a full run tests all.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file

import calque
from calque.data import prepare
from calque.errors import CalqueError
from calque.experiment import estimation
from calque.training.records import Records
from tests.conftest import Answer, without_plots
from tests.integration.ranks import cold_ranks, train_ranks
from tests.promises.estimated import ESTIMATED, Estimated
from tests.promises.test_promises import Killed


class Ground(NamedTuple):
    """What a promise is tested with."""

    subject: Estimated
    folder: Path
    patch: pytest.MonkeyPatch
    command: Callable[..., Answer]
    seed: int

    def estimate(self, name: str, *changes: str) -> Path:
        """A run of that name; the corpora of all runs are the same files."""
        values = self.subject.experiment(self.folder / "corpora", *changes)
        return calque.train(values, run=self.folder / name, quiet=True).folder


def contents(run: Path) -> dict[str, bytes]:
    """Every file of a run that does not depend on the clock or the machine."""
    ignored = ("log.txt", "run.lock", "run.json", "timing.jsonl", "config.toml", "manifest.json")
    files = [path for path in run.rglob("*") if path.is_file() and path.name not in ignored]
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


def killed_runs_end_with_the_same_bytes(ground: Ground) -> None:
    """Before the estimation, between estimation and validation, while the model is saved, and before the journal."""
    whole = contents(ground.estimate("whole"))
    assert "model/weights.safetensors" in whole and "metrics.jsonl" in whole

    def kill(*_: object, **__: object) -> Any:
        raise Killed

    places: list[tuple[object, str]] = [
        (estimation, "_estimate_and_judge"),
        (estimation, "table_size"),
        (os, "replace"),
        (Records, "add"),
    ]
    random.Random(ground.seed).shuffle(places)
    killed = ground.folder / "killed"
    values = ground.subject.experiment(ground.folder / "corpora")
    for number, (owner, name) in enumerate(places):
        with ground.patch.context() as patch:
            if name == "replace" and not number:
                continue  # the store is not there yet, and would be killed instead
            patch.setattr(owner, name, kill)
            with pytest.raises(Killed):
                if killed.exists():
                    calque.resume(killed, quiet=True)
                else:
                    calque.train(values, run=killed, quiet=True)
    calque.resume(killed, quiet=True)
    assert contents(killed) == whole


def threads_and_processes_change_no_byte(ground: Ground) -> None:
    first = ground.estimate("one", "training.threads=1")
    threads = torch.get_num_threads()
    try:
        second = ground.estimate("two", "training.threads=2")
    finally:
        torch.set_num_threads(threads)
    ground.patch.setattr(prepare, "workers_for", lambda *_args, **_named: 2)
    third = ground.estimate("three", "training.threads=1")
    assert contents(first) == contents(second) == contents(third)


def damaged_files_are_refused_by_name(ground: Ground) -> None:
    model = ground.estimate("run") / "model"
    generator, kept = random.Random(ground.seed), calque.load(model)
    assert kept is not None
    files = [path for path in sorted(model.rglob("*")) if path.is_file() and path.name != "README.md"]
    assert len(files) >= 3
    for path in files:
        whole = path.read_bytes()
        place = generator.randrange(len(whole))
        flipped = whole[:place] + bytes([whole[place] ^ 1 << generator.randrange(8)]) + whole[place + 1 :]
        for damaged in (flipped, whole[: generator.randrange(len(whole))], None):
            path.unlink()
            if damaged is not None:
                path.write_bytes(damaged)
            with pytest.raises(CalqueError) as error:
                calque.load(model)
            assert str(model) in str(error.value)
            path.write_bytes(whole)
    assert type(calque.load(model)) is type(kept)


def the_order_of_the_corpus_does_not_matter(ground: Ground) -> None:
    first = load_file(ground.estimate("first") / "model" / "weights.safetensors")
    values = ground.subject.experiment(ground.folder / "corpora")
    for name in ground.subject.files:
        path = ground.folder / "corpora" / name
        rows = [row for row in path.read_text(encoding="utf-8").split(ground.subject.separator) if row]
        random.Random(ground.seed).shuffle(rows)  # both sides of a pair alike
        separator = ground.subject.separator
        path.write_text("".join(f"{row}{separator}" for row in rows), encoding="utf-8")
    run = calque.train(values, run=ground.folder / "second", quiet=True).folder
    second = load_file(run / "model" / "weights.safetensors")
    if not ground.subject.sums:
        assert first.keys() == second.keys()
        assert all(torch.equal(value, second[name]) for name, value in first.items())
        return
    sentences = (ground.folder / "corpora" / ground.subject.files[0]).read_text(encoding="utf-8").splitlines()[:40]
    one, other = (calque.load(ground.folder / name).translate(sentences) for name in ("first", "second"))
    assert sum(text == its for text, its in zip(one, other, strict=True)) >= 36, "the last digits may decide a tie"


def a_finished_run_is_left_alone(ground: Ground) -> None:
    run = ground.estimate("run")
    before = {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (run / "model").rglob("*") if path.is_file()
    }
    ground.patch.setattr(estimation, "_estimate_and_judge", lambda *_: pytest.fail("it was estimated again"))
    calque.resume(run, quiet=True)
    assert before == {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (run / "model").rglob("*") if path.is_file()
    }


def several_ranks_are_refused(ground: Ground) -> None:
    values = ground.subject.experiment(ground.folder / "corpora")
    ended = train_ranks(cold_ranks, 2, values, ground.folder / "run")
    assert ended.codes[0] == 2 and all(ended.codes), ended
    assert "estimated by one process; start it without torchrun" in ended.said[0]
    assert not any("Traceback" in text for text in ended.said)
    assert not (ground.folder / "run" / "model").exists()


def runs_are_listed_and_show_samples(ground: Ground) -> None:
    run = ground.estimate("runs/1")
    answer = ground.command("runs", ground.folder / "runs")
    head, row = (line.split("\t") for line in answer.out.splitlines())
    shown = dict(zip(head, row, strict=True))
    assert (shown["state"], shown["step"], shown["steps"]) == ("done", "1", "1")
    assert (run / "samples.txt").read_text(encoding="utf-8").strip()


PROMISES: dict[str, Callable[[Ground], None]] = {
    "resume": killed_runs_end_with_the_same_bytes,
    "threads": threads_and_processes_change_no_byte,
    "damage": damaged_files_are_refused_by_name,
    "order": the_order_of_the_corpus_does_not_matter,
    "finished": a_finished_run_is_left_alone,
    "ranks": several_ranks_are_refused,
    "runs": runs_are_listed_and_show_samples,
}


def _pairs() -> list[Any]:
    shift = int(os.environ.get("CALQUE_TEST_SEED", "0"))
    return [
        pytest.param(
            model,
            promise,
            id=f"{model}-{promise}",
            marks=[] if (row + column + shift) % len(ESTIMATED) == 0 else [pytest.mark.full],
        )
        for row, model in enumerate(ESTIMATED)
        for column, promise in enumerate(PROMISES)
    ]


@pytest.mark.parametrize(("model", "promise"), _pairs())
def test_promise_of_estimation(
    model: str,
    promise: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Callable[..., Answer],
    seed: int,
) -> None:
    with without_plots():
        PROMISES[promise](Ground(ESTIMATED[model], tmp_path, monkeypatch, command, seed))
