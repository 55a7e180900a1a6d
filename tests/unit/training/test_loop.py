"""The training loop: exact resume, what is logged and saved, and errors."""

import errno
import os
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import FAMILIES, toy_values
from tests.unit.training.objects import Killed, digests, kill, score, stop_at, train_until_killed, weights

from calque.data.store import store_of_pairs
from calque.engine import load
from calque.errors import ConfigError, FolderError, Interrupted, TrainingError
from calque.experiment import Run, resume, train
from calque.tasks.interfaces import Judgement
from calque.training import checkpoints
from calque.training.checkpoints import load_checkpoint, load_weights, scheduled_steps
from calque.training.journal import read_journal
from calque.training.loop import Trainer
from calque.training.model_selection import ModelSelection
from calque.training.schedules import rate_at
from calque.training.update import stream_seed

pytestmark = pytest.mark.usefixtures("unplotted")

# --- Exact resume (P1, P9, P10) ---


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_that_was_killed_ends_with_the_same_bytes(
    family: str,
    corpus: dict[str, Path],
    uninterrupted: Callable[..., Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed in the middle of a step, after validating but before saving, and after an interrupt's extra save."""
    values = toy_values(corpus, family)
    train_until_killed(values, run=tmp_path / "stopped", step=6, monkeypatch=monkeypatch)
    with monkeypatch.context() as patch:
        stop_at(patch, 7, before="_step", action=lambda: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(Interrupted):
            resume(tmp_path / "stopped", quiet=True)
    with monkeypatch.context() as patch:
        stop_at(patch, 10, before="_say", of=ModelSelection, action=kill)
        with pytest.raises(Killed):
            resume(tmp_path / "stopped", quiet=True)
    assert digests(resume(tmp_path / "stopped", quiet=True).folder) == digests(uninterrupted(family).folder)
    lines = read_journal(tmp_path / "stopped" / "metrics.jsonl")
    steps = [(line["kind"], line["step"], "averaged" in line) for line in lines]
    assert len(set(steps)) == len(steps)


@pytest.mark.parametrize("at", [3, 10])
def test_checkpoints_that_were_never_due_are_not_reported_missing(
    at: int, corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A run that was killed before or after its first checkpoint is resumed with a shorter interval."""
    values = toy_values(corpus, "plain", "training.checkpoint_every=8", "training.log_every=1", "training.average=0")
    run = tmp_path / "run"
    for every in (8, 4, 2):
        with monkeypatch.context() as patch:
            stop_at(patch, at, before="_step", action=kill)
            with pytest.raises(Killed):
                train(values, run=run, quiet=True) if every == 8 else resume(run)
        config = (run / "config.toml").read_text(encoding="utf-8")
        shorter = config.replace(f"checkpoint_every = {every}\n", f"checkpoint_every = {every // 2}\n")
        assert shorter != config
        (run / "config.toml").write_text(shorter, encoding="utf-8")
    resume(run)
    assert "is missing" not in capfd.readouterr().err
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(FolderError, match="reached step 14 and saved step 13"):
        resume(run)


def test_metrics_damaged_after_the_checkpoint_do_not_matter(
    corpus: dict[str, Path], uninterrupted: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a power cut. Garbage before the recorded byte is an error; a missing checkpoint is still reported."""
    run = tmp_path / "run"
    train_until_killed(toy_values(corpus, "plain"), run=run, step=11, monkeypatch=monkeypatch)
    metrics = run / "metrics.jsonl"
    recorded, content = load_checkpoint(run / "checkpoints" / "step-8").values["metrics"], metrics.read_bytes()
    assert recorded < len(content)
    behind = content[:recorded] + b"\0" * 40 + b"\n" + content[recorded:]
    shutil.copytree(run, tmp_path / "lost")
    shutil.rmtree(tmp_path / "lost" / "checkpoints")
    (tmp_path / "lost" / "metrics.jsonl").write_bytes(behind)
    with pytest.raises(FolderError, match="reached step 10 and saved step 8"):
        resume(tmp_path / "lost", quiet=True)
    metrics.write_bytes(b"\0" + content[1:])
    with pytest.raises(FolderError, match=r"metrics\.jsonl, line 1: not a JSON object"):
        resume(run, quiet=True)
    metrics.write_bytes(behind)
    assert digests(resume(run, quiet=True).folder) == digests(uninterrupted("plain").folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("ema = 0.0", "ema = 0.9"), "training.ema was off and is on now"),
        (('precision = "float32"', 'precision = "float16"'), "training.precision was float32 and is float16 now"),
        (('kind = "adam"', 'kind = "adadelta"'), "training.optimiser.kind was adam and is adadelta now"),
    ],
)
def test_settings_that_the_state_depends_on_cannot_change(
    change: tuple[str, str], message: str, uninterrupted: Callable[..., Run], tmp_path: Path
) -> None:
    shutil.copytree(uninterrupted("transformer", "training.average=0").folder, tmp_path / "run")
    config = (tmp_path / "run" / "config.toml").read_text(encoding="utf-8")
    assert config.count(change[0]) == 1
    (tmp_path / "run" / "config.toml").write_text(config.replace(*change), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        resume(tmp_path / "run", quiet=True)


@pytest.mark.parametrize("family", ["plain", "luong"])
def test_a_killed_run_with_weight_dropout_ends_with_the_same_bytes(
    family: str,
    corpus: dict[str, Path],
    uninterrupted: Callable[..., Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = ("model.encoder.weight_dropout=0.4", "model.decoder.weight_dropout=0.4", "text.kind=tokens")
    train_until_killed(toy_values(corpus, family, *settings), run=tmp_path / "stopped", step=6, monkeypatch=monkeypatch)
    resumed = digests(resume(tmp_path / "stopped", quiet=True).folder)
    assert resumed == digests(uninterrupted(family, *settings).folder)
    assert resumed != digests(uninterrupted(family, *settings[2:]).folder)


OUTPUTS = {
    "sampled": ("model.output.kind=sampled", "model.output.samples=5", "training.label_smoothing=0"),
    "adaptive": ("model.output.kind=adaptive", "training.label_smoothing=0"),
}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_a_killed_run_with_another_output_layer_ends_with_the_same_bytes(
    kind: str,
    corpus: dict[str, Path],
    uninterrupted: Callable[..., Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The frequencies in the layer are those of the checkpoint, in every step and in the mean of checkpoints."""
    train_until_killed(
        toy_values(corpus, "luong", *OUTPUTS[kind]), run=tmp_path / "stopped", step=6, monkeypatch=monkeypatch
    )
    with monkeypatch.context() as patch:
        patch.setattr("calque.experiment.translation.id_counts", lambda _store, *, size, **_: np.zeros(size))
        resume(tmp_path / "stopped", quiet=True)
    finished = uninterrupted("luong", *OUTPUTS[kind]).folder
    assert digests(tmp_path / "stopped") == digests(finished)
    name = {"sampled": "output.proposal", "adaptive": "output.ranks"}[kind]
    folder = finished / "checkpoints"
    saved = [load_weights(folder / f"step-{step}")[name] for step in scheduled_steps(folder)]
    expected = weights(load(finished).model)[name]
    assert all(torch.equal(frequencies, expected) for frequencies in saved)
    assert not any(key.startswith(name) for key in load_checkpoint(folder / "step-14").tensors["optimiser"])


@pytest.mark.parametrize("kind", OUTPUTS)
def test_bfloat16_trains_every_output_layer(kind: str, corpus: dict[str, Path], tmp_path: Path) -> None:
    """As in float32, up to rounding."""
    losses = {}
    for precision in ("float32", "bfloat16"):
        short = (f"training.precision={precision}", "training.steps=4", "training.average=0")
        values = toy_values(corpus, "transformer", *OUTPUTS[kind], *short)
        run = train(values, run=tmp_path / precision, quiet=True)
        losses[precision] = [line["loss"] for line in read_journal(run.folder / "metrics.jsonl")]
    assert all(few != many for many, few in zip(*losses.values(), strict=True))
    assert losses["bfloat16"] == pytest.approx(losses["float32"], abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("step", range(14))
def test_a_run_can_be_interrupted_at_every_step(
    step: int,
    corpus: dict[str, Path],
    uninterrupted: Callable[..., Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An interrupt at each step, whatever falls on it: epoch ends, log lines, validations, saves, the last step."""
    values = toy_values(corpus, "transformer")
    stop_at(monkeypatch, step, before="_step", action=lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(Interrupted, match=f"saved at step {step + 1}"):
        train(values, run=tmp_path / "stopped", quiet=True)
    resume(tmp_path / "stopped", quiet=True)
    assert digests(tmp_path / "stopped") == digests(uninterrupted("transformer").folder)


def stop_in_validation(patch: pytest.MonkeyPatch, *, step: int, batch: int) -> list[int]:
    """Requests a stop before a batch (from 1) of a step's validation; a list that fills with the batches started."""
    judge: Any = ModelSelection._judge
    started: list[int] = []

    def watched(self: ModelSelection, stop_requested: Callable[[], bool]) -> Judgement:
        def stop() -> bool:
            if self.learner.progress.step == step:
                if len(started) == batch - 1:
                    os.kill(os.getpid(), signal.SIGTERM)
                started.append(len(started) + 1)
            return stop_requested()

        return judge(self, stop)

    patch.setattr(ModelSelection, "_judge", watched)
    return started


VALIDATIONS: dict[str, tuple[tuple[str, ...], int]] = {
    "alone": ((), 5),
    "with a save": (("training.validate_every=4",), 8),
    "with the best kept": (("training.validate_every=4", "training.average_of=best"), 4),
    "without a save, with the best kept": (("training.average_of=best",), 10),
    "of the last step": ((), 14),
    "of a moving average": (("training.average=0", "training.ema=0.9"), 10),
    "with patience": (("training.patience=2", "training.validate_every=1", "training.schedule.warmup=0"), 3),
}


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("which", VALIDATIONS)
def test_a_stop_in_a_validation_takes_effect_at_once_and_the_resumed_run_repeats_it(
    which: str,
    batch: int,
    corpus: dict[str, Path],
    uninterrupted: Callable[..., Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P4: stopped there twice, before the first batch and after some, the run ends with the same bytes."""
    settings, step = VALIDATIONS[which]
    settings = (*settings, "training.batch.tokens=40")
    expected, run = uninterrupted("transformer", *settings), tmp_path / "run"
    for again in (False, True):
        with monkeypatch.context() as patch:
            started = stop_in_validation(patch, step=step, batch=batch)
            with pytest.raises(Interrupted, match=f"saved at step {step};"):
                resume(run, quiet=True) if again else train(
                    toy_values(corpus, "transformer", *settings), run=run, quiet=True
                )
        assert started == list(range(1, batch + 1))
        lines = read_journal(run / "metrics.jsonl")
        assert not any(line["kind"] == "valid" and line["step"] == step for line in lines)
    resumed = resume(run, quiet=True)
    assert digests(run) == digests(expected.folder)
    assert scheduled_steps(run / "checkpoints") == scheduled_steps(expected.folder / "checkpoints")
    assert resumed.summary._replace(best=None, seconds=0) == expected.summary._replace(best=None, seconds=0)


def test_the_same_seed_gives_the_same_bytes_and_another_gives_others(
    corpus: dict[str, Path], uninterrupted: Callable[..., Run], tmp_path: Path
) -> None:
    """Whatever state the global generators are in."""
    torch.manual_seed(99)
    again = train(toy_values(corpus, "luong"), run=tmp_path / "again", quiet=True)
    assert digests(again.folder) == digests(uninterrupted("luong").folder)
    first, second = digests(uninterrupted("luong").folder), digests(uninterrupted("luong", "seed=4").folder)
    different = [name for name in first if first[name] != second[name]]
    for name in ("model/weights.safetensors", "metrics.jsonl", "weights.safetensors", "optimiser.safetensors"):
        assert any(path.endswith(name) for path in different), name


def test_a_finished_run_can_be_resumed_and_stays_as_it_is(corpus: dict[str, Path], tmp_path: Path) -> None:
    run = train(toy_values(corpus, "plain"), run=tmp_path / "run", quiet=True)
    before = digests(run.folder)
    again = resume(run.folder, quiet=True)
    assert digests(run.folder) == before
    assert (again.summary.step, again.summary.best_step) == (run.summary.step, run.summary.best_step)


def test_a_damaged_checkpoint_is_reported_and_the_previous_one_used(
    corpus: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = train(toy_values(corpus, "plain"), run=tmp_path / "run", quiet=True)
    before = digests(run.folder)
    damaged = run.folder / "checkpoints" / "step-14" / "optimiser.safetensors"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    resume(run.folder)
    messages = capsys.readouterr().err
    assert "step-14" in messages
    assert "optimiser.safetensors" in messages
    assert "resuming from step 12" in messages
    assert digests(run.folder) == before


def test_streams_of_different_purpose_are_different() -> None:
    seeds = {stream_seed(seed, purpose) for seed in range(20) for purpose in ("weights", *map(str, range(20)))}
    assert len(seeds) == 20 * 21
    assert all(0 <= seed < 2**63 for seed in seeds)


# --- Logs, model selection and checkpoints ---


def test_the_rate_of_each_step_is_the_schedules(uninterrupted: Callable[..., Run]) -> None:
    run = uninterrupted("plain", "training.log_every=1")
    config = run.config.training
    lines = [line for line in read_journal(run.folder / "metrics.jsonl") if line["kind"] == "train"]
    assert [line["step"] for line in lines] == list(range(1, 15))
    for line in lines:
        share = rate_at(config.schedule, step=line["step"], steps=config.steps)
        assert line["learning_rate"] == config.optimiser.learning_rate * share


def test_metrics_hold_no_clock(uninterrupted: Callable[..., Run]) -> None:
    run = uninterrupted("plain")
    for line in read_journal(run.folder / "metrics.jsonl"):
        assert not {"seconds", "at", "time", "tokens_per_second"} & line.keys()
    assert all("seconds" in line for line in read_journal(run.folder / "timing.jsonl"))


def test_tokens_of_all_log_lines_are_the_tokens_that_were_read(uninterrupted: Callable[..., Run]) -> None:
    totals = [
        sum(line["tokens"] for line in read_journal(run.folder / "metrics.jsonl") if line["kind"] == "train")
        for run in (uninterrupted("plain"), uninterrupted("plain", "training.log_every=1"))
    ]
    assert totals[0] == totals[1] > 0


def test_old_checkpoints_are_removed(corpus: dict[str, Path], tmp_path: Path) -> None:
    settings = ("training.keep=1", "training.average=0", "training.checkpoint_every=2")
    run = train(toy_values(corpus, "plain", *settings), run=tmp_path / "run", quiet=True)
    assert scheduled_steps(run.folder / "checkpoints") == [14]


def test_early_stopping_keeps_the_best_model(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = toy_values(
        corpus,
        "plain",
        "training.steps=100",
        "training.patience=2",
        "training.validate_every=2",
        "training.checkpoint_every=2",
        "training.keep=9",
        "training.average=0",
        "training.schedule.warmup=0",
    )
    good = {2: 1.0, 4: 5.0, 6: 4.0, 8: 6.0, 10: 6.0, 12: 3.0}  # an equal value is not better
    score(monkeypatch, lambda step, _averaged: good[step])
    run = train(values, run=tmp_path / "run", quiet=True)
    assert (run.summary.step, run.summary.best_step, run.summary.best_value) == (12, 8, 6.0)
    assert run.summary.stopped_early
    best = load_weights(run.folder / "checkpoints" / "step-8")
    saved = weights(load(run.folder).model)
    assert all(torch.equal(saved[key], best[key]) for key in best)
    again = resume(run.folder, quiet=True)
    assert again.summary.stopped_early
    assert again.summary.step == 12


def test_patience_is_counted_across_a_resume(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (
        "training.patience=3",
        "training.validate_every=1",
        "training.checkpoint_every=1",
        "training.steps=50",
        "training.schedule.warmup=0",
    )
    score(monkeypatch, lambda step, _averaged: -step)
    train_until_killed(toy_values(corpus, "plain", *settings), run=tmp_path / "run", step=2, monkeypatch=monkeypatch)
    assert resume(tmp_path / "run", quiet=True).summary.step == 4


def test_patience_waits_for_the_warm_up_and_for_a_falling_loss(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BLEU of a few sentences is noisy: a run continues while the loss falls, and during the warm-up."""
    settings = ("training.patience=2", "training.validate_every=1", "training.steps=50", "training.average=0")
    score(monkeypatch, lambda step, _averaged: -step)
    warm = train(toy_values(corpus, "plain", *settings, "training.schedule.warmup=6"), run=tmp_path / "a", quiet=True)
    assert warm.summary.step == 6 + 2
    score(monkeypatch, lambda step, _averaged: -step, loss=lambda step: -min(step, 9))
    values = toy_values(corpus, "plain", *settings, "training.schedule.warmup=0")
    assert train(values, run=tmp_path / "b", quiet=True).summary.step == 9 + 2


def test_with_metric_loss_the_lowest_loss_is_the_best(corpus: dict[str, Path], tmp_path: Path) -> None:
    settings = ("training.metric=loss", "training.validate_every=2", "training.average=0")
    run = train(toy_values(corpus, "plain", *settings), run=tmp_path / "run", quiet=True)
    losses = {
        line["step"]: line["loss"] for line in read_journal(run.folder / "metrics.jsonl") if line["kind"] == "valid"
    }
    assert run.summary.best_step == min(losses, key=lambda step: losses[step])
    assert run.summary.best_value == min(losses.values())


OFTEN = tuple(f"training.{setting}" for setting in ("validate_every=2", "checkpoint_every=2", "schedule.warmup=0"))


def set_metric(run: Path, before: str, after: str) -> None:
    config = (run / "config.toml").read_text(encoding="utf-8")
    assert config.count(f'metric = "{before}"') == 1
    changed = config.replace(f'metric = "{before}"', f'metric = "{after}"')
    (run / "config.toml").write_text(changed, encoding="utf-8")


def log_of(run: Path) -> str:
    return (run / "log.txt").read_text(encoding="utf-8")


def test_after_a_change_of_metric_its_values_decide(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BLEU is never compared with a loss, neither for the best model nor for the best steps; one message says so."""
    run = tmp_path / "run"
    values = toy_values(corpus, "plain", *OFTEN, "training.average_of=best")
    bleu = {2: 10.0, 4: 50.0, 6: 20.0}
    loss = {2: 5.0, 4: 4.0, 6: 3.8, 8: 4.5, 10: 3.5, 12: 3.9, 14: 3.7}
    score(monkeypatch, lambda step, _averaged: bleu.get(step, 1.0), loss=lambda step: loss[step])
    train_until_killed(values, run=run, step=6, monkeypatch=monkeypatch)
    set_metric(run, "bleu", "loss")
    with monkeypatch.context() as patch:
        stop_at(patch, 12, before="_step", action=kill)
        with pytest.raises(Killed):
            resume(run, quiet=True)
    resume(run, quiet=True)
    lines = [line for line in read_journal(run / "metrics.jsonl") if line["kind"] == "valid" and "averaged" not in line]
    assert [line["step"] for line in lines if line["best"]] == [2, 4, 10]
    saved = load_checkpoint(run / "checkpoints" / "step-14").values
    assert (saved["metric"], saved["best_value"], saved["best_step"]) == ("loss", -3.5, 10)
    assert saved["best_steps"] == [[-3.5, 10], [-3.7, 14]]
    assert log_of(run).count("training.metric is now loss: the best model (step 4) has 4.000") == 1


def test_patience_starts_anew_with_another_metric(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (*OFTEN, "training.patience=2", "training.steps=50", "training.average=0")
    score(monkeypatch, lambda step, _averaged: -step)
    run = train(toy_values(corpus, "plain", *settings), run=tmp_path / "run", quiet=True)
    assert (run.summary.step, run.summary.stopped_early) == (6, True)
    set_metric(run.folder, "bleu", "loss")
    again = resume(run.folder, quiet=True)
    assert (again.summary.step, again.summary.stopped_early) == (10, True)  # the loss is the same in all of them


def test_a_finished_run_keeps_its_model_if_its_value_by_a_new_metric_is_unknown(
    corpus: dict[str, Path], tmp_path: Path
) -> None:
    run = train(toy_values(corpus, "plain", *OFTEN, "training.average=0"), run=tmp_path / "run", quiet=True)
    before = digests(run.folder)
    set_metric(run.folder, "bleu", "ter")
    again = resume(run.folder, quiet=True)
    assert (again.summary.step, again.summary.best_step) == (14, run.summary.best_step)
    assert f"the best model (step {run.summary.best_step}) has no value of this metric" in log_of(run.folder)
    assert digests(run.folder) == before


def test_a_checkpoint_without_a_metric_can_be_resumed(
    corpus: dict[str, Path], uninterrupted: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older checkpoints have none."""
    train_until_killed(toy_values(corpus, "plain"), run=tmp_path / "run", step=6, monkeypatch=monkeypatch)
    folder = tmp_path / "run" / "checkpoints"
    tensors, saved = load_checkpoint(folder / "step-4")
    assert saved.pop("metric") == "bleu"
    checkpoints.save_checkpoint(folder, checkpoints.Snapshot(tensors, saved), step=4, scheduled=True, parent=None)
    assert digests(resume(tmp_path / "run", quiet=True).folder) == digests(uninterrupted("plain").folder)
    assert "training.metric" not in log_of(tmp_path / "run")
    assert load_checkpoint(folder / "step-14").values["metric"] == "bleu"


def test_on_a_plateau_the_rate_drops_and_the_drop_survives_a_kill(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = ("kind=plateau", "warmup=0", "patience=2", "factor=0.5")
    settings = [f"training.schedule.{setting}" for setting in schedule]
    settings += ["training.validate_every=1", "training.log_every=1", "training.average=0", "training.steps=8"]
    good = {1: 1.0, 2: 0.9, 3: 0.8, 4: 0.7, 5: 2.0, 6: 1.5, 7: 1.4, 8: 1.0}
    score(monkeypatch, lambda step, _averaged: good[step])
    values = toy_values(corpus, "plain", *settings)
    train_until_killed(values, run=tmp_path / "run", step=6, monkeypatch=monkeypatch)
    run = resume(tmp_path / "run", quiet=True)
    lines = [line for line in read_journal(run.folder / "metrics.jsonl") if line["kind"] == "train"]
    peak = run.config.training.optimiser.learning_rate
    assert [line["learning_rate"] / peak for line in lines] == [1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25]


KINDS = {"sgd": "momentum=0.9", "adadelta": "rho=0.9", "adam": "beta1=0.8", "adamw": "weight_decay=0.01"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_optimiser_is_resumed_exactly(
    kind: str, corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (f"training.optimiser.kind={kind}", f"training.optimiser.{KINDS[kind]}", "training.steps=9")
    values = toy_values(corpus, "plain", *settings)
    run = train(values, run=tmp_path / "whole", quiet=True)
    train_until_killed(values, run=tmp_path / "killed", step=6, monkeypatch=monkeypatch)
    assert digests(resume(tmp_path / "killed", quiet=True).folder) == digests(run.folder)


def test_the_loss_scale_of_float16_survives_a_kill(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts far too large here, so that the first steps are skipped, and grows after three good ones."""
    scaler = partial(torch.amp.GradScaler, init_scale=2.0**22, growth_interval=3)
    monkeypatch.setattr("calque.training.update.torch.amp.GradScaler", scaler)
    values = toy_values(corpus, "transformer", "training.precision=float16")
    run = train(values, run=tmp_path / "whole", quiet=True)
    assert 0 < run.summary.skipped < 8
    train_until_killed(values, run=tmp_path / "killed", step=10, monkeypatch=monkeypatch)
    assert digests(resume(tmp_path / "killed", quiet=True).folder) == digests(run.folder)
    states = [
        load_checkpoint(tmp_path / name / "checkpoints" / "step-14").values["scaler"] for name in ("whole", "killed")
    ]
    assert states[0] == states[1]
    assert states[0]["scale"] < 2.0**22


@pytest.mark.parametrize("metric", ["chrf", "ter", "exact_match", "perplexity"])
def test_any_metric_can_select_the_best_model(metric: str, corpus: dict[str, Path], tmp_path: Path) -> None:
    settings = (f"training.metric={metric}", "training.validate_every=4", "training.average=0", "training.patience=9")
    run = train(toy_values(corpus, "plain", *settings), run=tmp_path / "run", quiet=True)
    lines = [line for line in read_journal(run.folder / "metrics.jsonl") if line["kind"] == "valid"]
    sign = -1 if metric in ("ter", "perplexity") else 1
    assert run.summary.best_value == sign * max(sign * line[metric] for line in lines)


# --- Errors ---


def test_a_corpus_without_a_batch_is_an_error(make_trainer: Callable[..., Trainer]) -> None:
    trainer = make_trainer()
    empty = store_of_pairs([])
    trainer.job = trainer.job._replace(store=empty)
    trainer.order = trainer.job.task.order(empty, config=trainer.config.batch, seed=1)
    with pytest.raises(TrainingError, match="nothing to train on"):
        next(trainer._batches())


def test_a_full_disk_leaves_the_last_checkpoint(
    corpus: dict[str, Path], uninterrupted: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, saved = checkpoints.save_file, []

    def full(*arguments: Any) -> None:
        saved.append(1)
        if len(saved) > 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        save(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "save_file", full)
        with pytest.raises(FolderError, match="step-8 could not be written"):
            train(toy_values(corpus, "plain"), run=tmp_path / "run", quiet=True)
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == ["step-4"]
    assert digests(resume(tmp_path / "run", quiet=True).folder) == digests(uninterrupted("plain").folder)
