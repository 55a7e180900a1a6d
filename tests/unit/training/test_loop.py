"""The loop: the update is the one that the equations give, and a run that is stopped goes on as if it had not been."""

import errno
import hashlib
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import FAMILIES, Values, toy_corpus, toy_values

from calque.config import check
from calque.data.batch import Batch, collate
from calque.data.plan import Planned
from calque.data.shapes import Shape
from calque.data.store import Store, store_of
from calque.errors import FolderError, Interrupted, TrainingError
from calque.experiment import Experiment, Run, build, resume, train
from calque.models.model import Model, Sizes
from calque.search.settings import SearchConfig
from calque.tasks.objectives import Objective
from calque.tasks.translation import Loss
from calque.text import Tokenizers, Vocabulary, WordsTokenizer
from calque.text.vocabulary import PIECES
from calque.training import checkpoints
from calque.training.averaging import mean_weights
from calque.training.checkpoints import load_checkpoint, load_weights, newest_checkpoint, scheduled_steps
from calque.training.job import Job
from calque.training.journal import read_journal
from calque.training.judging import Judge
from calque.training.loop import Trainer
from calque.training.records import Records
from calque.training.reporting import Reporter
from calque.training.schedules import rate_at
from calque.training.seeds import stream_seed
from calque.training.settings import TrainingConfig
from calque.training.validation import Validation, ValidationSet
from calque.translator import Translator, load

pytestmark = pytest.mark.usefixtures("unplotted")

PAIRS = [([4, 5, 6], [7, 4]), ([5], [6, 6, 6, 4, 5]), ([7, 7, 4, 4, 5], [4]), ([6, 4], [5, 5, 7])]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return toy_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def whole(corpus: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """An uninterrupted run, made once for each family and settings; do not change it."""

    @cache
    def make(family: str, *overrides: str) -> Run:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("calque.experiment.running.draw_curves", lambda _folder: True)
            return train(toy_values(corpus, family, *overrides), run=tmp_path_factory.mktemp("whole"), quiet=True)

    return make


def digests(run: Path) -> dict[str, str]:
    """SHA-256 of all that must be the same however a run came to its end."""
    last = run / "checkpoints" / f"step-{scheduled_steps(run / 'checkpoints')[-1]}"
    files = [run / "model" / "weights.safetensors", run / "metrics.jsonl", run / "samples.txt"]
    files += [last / f"{group}.safetensors" for group in ("weights", "optimiser", "sums")]
    return {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def stop_at(
    monkeypatch: pytest.MonkeyPatch, step: int, *, before: str, action: Callable[[], None], of: type = Trainer
) -> None:
    """Does `action` at that step, before the method `before`, once."""
    original = getattr(of, before)
    done: list[int] = []

    def method(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if self.learner.progress.step >= step and not done:
            done.append(step)
            action()
        return original(self, *arguments, **keywords)

    monkeypatch.setattr(of, before, method)


class Killed(BaseException):
    """Stands for kill -9: nothing in the code under test catches it."""


def kill() -> None:
    raise Killed


# --- Exact resume (P1, P9, P10) ---


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_that_was_killed_ends_with_the_same_bytes(
    family: str,
    corpus: dict[str, Path],
    whole: Callable[..., Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed in the middle of a step, after validating but before saving, and after an interrupt's extra save."""
    values = toy_values(corpus, family)
    with monkeypatch.context() as patch:
        stop_at(patch, 6, before="_step", action=kill)
        with pytest.raises(Killed):
            train(values, run=tmp_path / "stopped", quiet=True)
    with monkeypatch.context() as patch:
        stop_at(patch, 7, before="_step", action=lambda: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(Interrupted):
            resume(tmp_path / "stopped", quiet=True)
    with monkeypatch.context() as patch:
        stop_at(patch, 10, before="_say", of=Judge, action=kill)
        with pytest.raises(Killed):
            resume(tmp_path / "stopped", quiet=True)
    assert digests(resume(tmp_path / "stopped", quiet=True).folder) == digests(whole(family).folder)
    lines = read_journal(tmp_path / "stopped" / "metrics.jsonl")
    steps = [(line["kind"], line["step"], "averaged" in line) for line in lines]
    assert len(set(steps)) == len(steps)


@pytest.mark.parametrize("at", [3, 10])
def test_checkpoints_that_were_never_due_are_not_missed(
    at: int, corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A run that was killed before or after its first checkpoint goes on, with fewer steps between two of them."""
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


OUTPUTS = {
    "sampled": ("model.output.kind=sampled", "model.output.samples=5", "training.label_smoothing=0"),
    "adaptive": ("model.output.kind=adaptive", "training.label_smoothing=0"),
}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_a_killed_run_with_another_output_layer_ends_with_the_same_bytes(
    kind: str, corpus: dict[str, Path], whole: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what the layer knows of the corpus is what the checkpoint says, in every step and in the mean of some."""
    with monkeypatch.context() as patch:
        stop_at(patch, 6, before="_step", action=kill)
        with pytest.raises(Killed):
            train(toy_values(corpus, "luong", *OUTPUTS[kind]), run=tmp_path / "stopped", quiet=True)
    with monkeypatch.context() as patch:
        patch.setattr("calque.experiment.building.target_counts", lambda _store, *, size: np.zeros(size))
        resume(tmp_path / "stopped", quiet=True)
    finished = whole("luong", *OUTPUTS[kind]).folder
    assert digests(tmp_path / "stopped") == digests(finished)
    name = {"sampled": "output.proposal", "adaptive": "output.ranks"}[kind]
    folder = finished / "checkpoints"
    kept = [load_weights(folder / f"step-{step}")[name] for step in scheduled_steps(folder)]
    found = weights(load(finished).model)[name]
    assert all(torch.equal(one, found) for one in kept)
    assert not any(key.startswith(name) for key in load_checkpoint(folder / "step-14").tensors["optimiser"])


@pytest.mark.parametrize("kind", OUTPUTS)
def test_bfloat16_trains_every_output_layer(kind: str, corpus: dict[str, Path], tmp_path: Path) -> None:
    values = toy_values(
        corpus, "transformer", *OUTPUTS[kind], "training.precision=bfloat16", "training.steps=4", "training.average=0"
    )
    run = train(values, run=tmp_path / "run", quiet=True)
    assert all(0 < line["loss"] < 10 for line in read_journal(run.folder / "metrics.jsonl"))


@pytest.mark.slow
@pytest.mark.parametrize("step", range(14))
def test_every_step_is_a_good_one_to_stop_at(
    step: int, corpus: dict[str, Path], whole: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt at each step, whatever falls on it: epoch ends, log lines, validations, saves, the last step."""
    values = toy_values(corpus, "transformer")
    stop_at(monkeypatch, step, before="_step", action=lambda: os.kill(os.getpid(), signal.SIGINT))
    if step < 13:
        with pytest.raises(Interrupted, match=f"saved at step {step + 1}"):
            train(values, run=tmp_path / "stopped", quiet=True)
        resume(tmp_path / "stopped", quiet=True)
    else:  # the last step: it is done, so there is nothing to interrupt
        train(values, run=tmp_path / "stopped", quiet=True)
    assert digests(tmp_path / "stopped") == digests(whole("transformer").folder)


def test_the_same_seed_gives_the_same_bytes_and_another_gives_others(
    corpus: dict[str, Path], whole: Callable[..., Run], tmp_path: Path
) -> None:
    """Whatever state the global generators are in."""
    torch.manual_seed(99)
    again = train(toy_values(corpus, "luong"), run=tmp_path / "again", quiet=True)
    assert digests(again.folder) == digests(whole("luong").folder)
    first, other = digests(whole("luong").folder), digests(whole("luong", "seed=4").folder)
    different = [name for name in first if first[name] != other[name]]
    for name in ("model/weights.safetensors", "metrics.jsonl", "weights.safetensors", "optimiser.safetensors"):
        assert any(found.endswith(name) for found in different), name


def test_a_finished_run_can_be_resumed_and_stays_as_it_is(corpus: dict[str, Path], tmp_path: Path) -> None:
    run = train(toy_values(corpus, "plain"), run=tmp_path / "run", quiet=True)
    before = digests(run.folder)
    again = resume(run.folder, quiet=True)
    assert digests(run.folder) == before
    assert (again.summary.step, again.summary.best_step) == (run.summary.step, run.summary.best_step)


def test_a_damaged_checkpoint_is_named_and_the_one_before_used(
    corpus: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = train(toy_values(corpus, "plain"), run=tmp_path / "run", quiet=True)
    before = digests(run.folder)
    damaged = run.folder / "checkpoints" / "step-14" / "optimiser.safetensors"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    resume(run.folder)
    said = capsys.readouterr().err
    assert "step-14" in said
    assert "optimiser.safetensors" in said
    assert "going on from step 12" in said
    assert digests(run.folder) == before


def test_streams_of_different_purpose_are_different() -> None:
    seeds = {stream_seed(seed, purpose) for seed in range(20) for purpose in ("weights", *map(str, range(20)))}
    assert len(seeds) == 20 * 21
    assert all(0 <= seed < 2**63 for seed in seeds)


# --- One update ---


@pytest.fixture
def make_trainer(tmp_path: Path) -> Iterator[Callable[..., Trainer]]:
    """A trainer over PAIRS, in float64 and without dropout."""
    with Records(tmp_path) as records:

        def make(family: str = "luong", **changes: Any) -> Trainer:
            values = _still(toy_values({"source": tmp_path, "target": tmp_path}, family))
            experiment = check(Experiment, values, origin="test")
            words = WordsTokenizer(Vocabulary([*PIECES, "a", "b", "c", "d"]))
            model = build(experiment, sizes=Sizes(8, 8, joint=True)).double()
            translator = Translator(model, Tokenizers(words, words), config=experiment.model, search=SearchConfig())
            config = TrainingConfig.model_validate({"label_smoothing": 0.0, **changes})
            store = store_of(PAIRS)
            held_out = ValidationSet(store, ["a b c", "b"], ["d a", "c c c"])
            reporter = Reporter(None, steps=1, quiet=True)
            job = Job(config, 3, translator, store, held_out, tmp_path, reporter, card="")
            return Trainer(job, records)

        yield make


def _still(values: Values) -> Values:
    sides = {side: {**part, "dropout": 0.0} for side, part in values["model"].items()}
    for part in sides.values():
        part.pop("attention_dropout", None)
        part.pop("activation_dropout", None)
    return {**values, "model": sides}


def batch_of(store: Store, *rows: int) -> Batch:
    indices = np.array(rows)
    widths = [int(lengths[indices].max()) for lengths in (store.source_lengths, store.target_lengths)]
    return collate(store, planned=Planned(indices, Shape(len(rows), *widths)))


def weights(model: Model) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("clip", [0.0, 0.05])
def test_accumulated_parts_give_the_update_of_the_whole(
    family: str, clip: float, make_trainer: Callable[..., Trainer]
) -> None:
    """The parts have different numbers of tokens, so a mean of means would show."""
    after = []
    for parts in ([(0, 1, 2, 3)], [(0, 1), (2, 3)], [(1,), (3, 0, 2)]):
        trainer = make_trainer(family, clip=clip)
        trainer._step([batch_of(trainer.job.store, *rows) for rows in parts])
        trainer._step([batch_of(trainer.job.store, *rows) for rows in reversed(parts)])
        after.append(weights(trainer.learner.model))
    before = weights(make_trainer(family).learner.model)
    assert not any(torch.equal(before[name], after[0][name]) for name in before)
    for name in before:
        for other in after[1:]:
            torch.testing.assert_close(other[name], after[0][name], rtol=0, atol=1e-9)


def test_the_gradient_is_of_the_mean_loss_a_token_and_is_clipped(
    make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen where the optimiser sees it."""
    seen: list[dict[str, torch.Tensor]] = []
    for clip in (0.0, 0.01, 1e9):
        trainer = make_trainer(clip=clip)
        named = dict(trainer.learner.model.named_parameters())

        def keep(named: dict[str, Any] = named) -> None:
            seen.append({name: value.grad.clone() for name, value in named.items() if value.grad is not None})

        monkeypatch.setattr(trainer.learner.updater.optimiser, "step", keep)
        trainer._step([batch_of(trainer.job.store, 0, 1, 2, 3)])
    plain, clipped, loose = seen
    model = make_trainer().learner.model
    batch = batch_of(store_of(PAIRS), 0, 1, 2, 3)
    logits = model.output.logits(model(batch.source, batch.target_input).hidden)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.target_output.flatten(), ignore_index=0)
    expected = torch.autograd.grad(loss, [value for name, value in model.named_parameters() if name in plain])
    norm = torch.sqrt(sum((each**2).sum() for each in expected))
    for name, gradient in zip(plain, expected, strict=True):
        torch.testing.assert_close(plain[name], gradient, rtol=0, atol=1e-12)
        torch.testing.assert_close(loose[name], gradient, rtol=0, atol=1e-12)
        torch.testing.assert_close(clipped[name], gradient * 0.01 / norm, rtol=1e-4, atol=0)
    assert trainer.learner.updater.sums.norm.item() == pytest.approx(norm.item(), rel=1e-6)


def test_bfloat16_trains(corpus: dict[str, Path], tmp_path: Path) -> None:
    values = toy_values(corpus, "transformer", "training.precision=bfloat16", "training.steps=6")
    run = train(values, run=tmp_path / "run", quiet=True)
    lines = read_journal(run.folder / "metrics.jsonl")
    assert all(0 < line["loss"] < 10 for line in lines)
    assert {str(value.dtype) for value in load_weights(run.folder / "checkpoints" / "step-6").values()} == {
        "torch.float32"
    }


# --- What is logged, kept and saved ---


def test_the_rate_of_each_step_is_the_schedules(whole: Callable[..., Run]) -> None:
    run = whole("plain", "training.log_every=1")
    config = run.config.training
    lines = [line for line in read_journal(run.folder / "metrics.jsonl") if line["kind"] == "train"]
    assert [line["step"] for line in lines] == list(range(1, 15))
    for line in lines:
        share = rate_at(config.schedule, step=line["step"], steps=config.steps)
        assert line["learning_rate"] == config.optimiser.learning_rate * share


def test_metrics_hold_no_clock(whole: Callable[..., Run]) -> None:
    run = whole("plain")
    for line in read_journal(run.folder / "metrics.jsonl"):
        assert not {"seconds", "at", "time", "tokens_per_second"} & line.keys()
    assert all("seconds" in line for line in read_journal(run.folder / "timing.jsonl"))


def test_tokens_of_all_log_lines_are_the_tokens_that_were_read(whole: Callable[..., Run]) -> None:
    totals = [
        sum(line["tokens"] for line in read_journal(run.folder / "metrics.jsonl") if line["kind"] == "train")
        for run in (whole("plain"), whole("plain", "training.log_every=1"))
    ]
    assert totals[0] == totals[1] > 0


def test_only_so_many_checkpoints_stay(corpus: dict[str, Path], tmp_path: Path) -> None:
    settings = ("training.keep=1", "training.average=0", "training.checkpoint_every=2")
    run = train(toy_values(corpus, "plain", *settings), run=tmp_path / "run", quiet=True)
    assert scheduled_steps(run.folder / "checkpoints") == [14]


def test_the_model_is_the_mean_of_the_last_checkpoints_where_that_was_asked_for(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However well it does on the validation pairs."""
    for name, value in (("better", 101.0), ("worse", -1.0)):
        with monkeypatch.context() as patch:
            _score(patch, lambda step, averaged, value=value: value if averaged else step)
            values = toy_values(corpus, "plain", "training.average=3", "training.patience=1")
            run = train(values, run=tmp_path / name, quiet=True)
        folder = run.folder / "checkpoints"
        assert scheduled_steps(folder) == [8, 12, 14]
        parts = [load_weights(folder / f"step-{step}") for step in (8, 12, 14)]
        expected = mean_weights(parts)
        found = weights(load(run.folder).model)
        assert all(torch.equal(found[key], expected[key]) for key in expected)
        assert not run.summary.stopped_early
        assert read_journal(run.folder / "metrics.jsonl")[-1]["averaged"] == 3


def test_mean_weights_is_the_mean_taken_in_float64() -> None:
    """In float32 the ones would vanish beside 2^24."""
    parts = [{"w": torch.tensor([value])} for value in (2.0**24, 1.0, 1.0, -(2.0**24))]
    assert mean_weights(parts)["w"].tolist() == [0.5]
    assert mean_weights(parts)["w"].dtype == torch.float32


def test_whole_numbers_have_no_mean() -> None:
    parts = [{"w": torch.tensor([value]), "ranks": torch.tensor([2**60 + 1, 0])} for value in (1.0, 3.0)]
    found = mean_weights(parts)
    assert found["w"].tolist() == [2.0]
    assert found["ranks"].tolist() == [2**60 + 1, 0]
    assert found["ranks"].dtype == torch.int64


def _score(
    patch: pytest.MonkeyPatch, value: Callable[[int, bool], float], *, loss: Callable[[int], float] = lambda _: 1.0
) -> None:
    """Lets `value` (of the step, and whether it is the mean) say how good a validation is, `loss` what it lost."""
    measure, keep_mean = Judge._measure, Judge.keep_mean
    means: list[int] = []

    def kept(self: Judge, weights: Sequence[dict[str, torch.Tensor]]) -> None:
        means.append(len(weights))
        keep_mean(self, weights)

    def scored(self: Judge) -> Validation:
        step = self.learner.progress.step
        return measure(self)._replace(bleu=float(value(step, bool(means))), loss=loss(step))

    patch.setattr(Judge, "keep_mean", kept)
    patch.setattr(Judge, "_measure", scored)


def test_early_stopping_and_the_best_model_is_the_one_kept(
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
    good = {2: 1.0, 4: 5.0, 6: 4.0, 8: 6.0, 10: 6.0, 12: 3.0}  # an equal one is no better
    _score(monkeypatch, lambda step, _averaged: good[step])
    run = train(values, run=tmp_path / "run", quiet=True)
    assert (run.summary.step, run.summary.best_step, run.summary.best_value) == (12, 8, 6.0)
    assert run.summary.stopped_early
    best = load_weights(run.folder / "checkpoints" / "step-8")
    found = weights(load(run.folder).model)
    assert all(torch.equal(found[key], best[key]) for key in best)
    again = resume(run.folder, quiet=True)
    assert again.summary.stopped_early
    assert again.summary.step == 12


def test_patience_counts_on_over_a_resume(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (
        "training.patience=3",
        "training.validate_every=1",
        "training.checkpoint_every=1",
        "training.steps=50",
        "training.schedule.warmup=0",
    )
    _score(monkeypatch, lambda step, _averaged: -step)
    with monkeypatch.context() as patch:
        stop_at(patch, 2, before="_step", action=kill)
        with pytest.raises(Killed):
            train(toy_values(corpus, "plain", *settings), run=tmp_path / "run", quiet=True)
    assert resume(tmp_path / "run", quiet=True).summary.step == 4


def test_patience_waits_for_the_warm_up_and_for_a_falling_loss(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BLEU of a few sentences is noisy: a run goes on while the loss falls, and is not judged before its rate is up."""
    settings = ("training.patience=2", "training.validate_every=1", "training.steps=50", "training.average=0")
    _score(monkeypatch, lambda step, _averaged: -step)
    warm = train(toy_values(corpus, "plain", *settings, "training.schedule.warmup=6"), run=tmp_path / "a", quiet=True)
    assert warm.summary.step == 6 + 2
    _score(monkeypatch, lambda step, _averaged: -step, loss=lambda step: -min(step, 9))
    values = toy_values(corpus, "plain", *settings, "training.schedule.warmup=0")
    assert train(values, run=tmp_path / "b", quiet=True).summary.step == 9 + 2


def test_with_metric_loss_the_lowest_loss_is_the_best(corpus: dict[str, Path], tmp_path: Path) -> None:
    settings = ("training.metric=loss", "training.validate_every=2", "training.average=0")
    run = train(toy_values(corpus, "plain", *settings), run=tmp_path / "run", quiet=True)
    losses = {
        line["step"]: line["loss"] for line in read_journal(run.folder / "metrics.jsonl") if line["kind"] == "valid"
    }
    assert run.summary.best_step == min(losses, key=lambda step: losses[step])
    assert run.summary.best_value == -min(losses.values())


# --- What goes wrong ---


def poison(patch: pytest.MonkeyPatch, *calls: int, bad: float = float("nan"), where: str = "loss") -> None:
    """Makes the loss or its gradient no number in those calls (from 1)."""
    compute = Objective.__call__
    counted = count(1)

    def poisoned(objective: Objective, batch: Batch, *, step: int) -> Loss:
        loss = compute(objective, batch, step=step)
        if next(counted) not in calls:
            return loss
        if where == "gradient":
            loss.objective.register_hook(lambda gradient: gradient * bad)
            return loss
        return Loss(loss.objective * bad, loss.cross_entropy * bad)

    patch.setattr(Objective, "__call__", poisoned)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_an_update_that_is_no_number_is_left_out_and_counted(
    bad: float, where: str, make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: weights and optimiser are as if the step had not been, and so is what is told of loss and norm."""
    trainer, other = make_trainer(), make_trainer()
    rows = [(0, 1), (2, 3), (1, 2)]
    for at in (0, 2):
        other.progress.step = at
        other._step([batch_of(other.job.store, *rows[at])])
    poison(monkeypatch, 2, bad=bad, where=where)
    for at in range(3):
        trainer._step([batch_of(trainer.job.store, *rows[at])])
    expected = weights(other.learner.model)
    assert all(torch.equal(value, expected[name]) for name, value in weights(trainer.learner.model).items())
    found, wanted = trainer.learner.updater.sums, other.learner.updater.sums
    assert (found.loss, found.tokens, found.norm, found.steps) == (wanted.loss, wanted.tokens, wanted.norm, 2)
    assert (found.skipped, found.in_a_row) == (1, 0)


def test_many_updates_in_a_row_that_are_no_number_stop_the_run_with_the_last_good_state_saved(
    corpus: dict[str, Path], whole: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: the message names the batches; once the cause is gone the run goes on with what it had."""
    settings = ("training.skips=3", "training.log_every=1")
    with monkeypatch.context() as patch:
        poison(patch, *range(11, 40))  # from step 6 on: two batches a step
        with pytest.raises(TrainingError, match=r"3 steps in a row, up to step 8: batches \d+ of epoch \d+ to \d+ of"):
            train(toy_values(corpus, "plain", *settings), run=tmp_path / "run", quiet=True)
    found = newest_checkpoint(tmp_path / "run" / "checkpoints")
    assert found is not None
    assert found.step == 8
    assert all(value.isfinite().all() for value in found.snapshot.tensors["weights"].values())
    resumed = resume(tmp_path / "run", quiet=True)
    assert (resumed.summary.step, resumed.summary.skipped) == (14, 3)
    lines = [line for line in read_journal(tmp_path / "run" / "metrics.jsonl") if line["kind"] == "train"]
    assert [line["skipped"] for line in lines] == [0] * 5 + [1, 2, *[3] * 7]
    assert digests(tmp_path / "run") != digests(whole("plain", *settings).folder)


def test_a_run_with_a_bad_update_that_is_killed_ends_with_the_same_bytes(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one at step 6 comes again after a kill at step 7; the count of them is right."""
    for name, is_killed in (("whole", False), ("killed", True)):
        with monkeypatch.context() as patch:
            poison(patch, 11)
            if is_killed:
                stop_at(patch, 7, before="_step", action=kill)
                with pytest.raises(Killed):
                    train(toy_values(corpus, "plain"), run=tmp_path / name, quiet=True)
            else:
                train(toy_values(corpus, "plain"), run=tmp_path / name, quiet=True)
        if is_killed:
            poison(monkeypatch, 11 - 2 * 4)  # it goes on from step 4
            resume(tmp_path / name, quiet=True)
    assert digests(tmp_path / "killed") == digests(tmp_path / "whole")


def starve(patch: pytest.MonkeyPatch, *, rows: int, error: Exception) -> list[int]:
    """Lets batches of more than so many rows run out of memory; gives a list of the rows of those that did not."""
    compute = Objective.__call__
    taken: list[int] = []

    def starved(objective: Objective, batch: Batch, *, step: int) -> Loss:
        loss = compute(objective, batch, step=step)
        if len(batch.target_lengths) > rows:
            raise error
        taken.append(len(batch.target_lengths))
        return loss

    patch.setattr(Objective, "__call__", starved)
    return taken


NO_MEMORY = (
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"),
    MemoryError(),
)


@pytest.mark.parametrize("error", NO_MEMORY, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_that_does_not_fit_is_halved_until_it_does(
    family: str, error: Exception, make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: the gradient is the same."""
    trainer, other = make_trainer(family), make_trainer(family)
    batch = batch_of(trainer.job.store, 0, 1, 2, 3)
    other._step([batch])
    taken = starve(monkeypatch, rows=1, error=error)
    trainer._step([batch])
    assert taken == [1, 1, 1, 1]
    expected = weights(other.learner.model)
    for name, value in weights(trainer.learner.model).items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-9)


def test_other_errors_are_not_taken_for_a_lack_of_memory(
    make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer()
    starve(monkeypatch, rows=0, error=RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="mat1"):
        trainer._step([batch_of(trainer.job.store, 0, 1)])


def test_a_sentence_that_does_not_fit_ends_the_run(
    make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer()
    starve(monkeypatch, rows=0, error=NO_MEMORY[0])
    with pytest.raises(TrainingError, match="out of memory in step 1 even with one sentence"):
        trainer._step([batch_of(trainer.job.store, 0, 1, 2)])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_split_is_remembered_over_a_resume(
    family: str, corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: with dropout another split is another update, so a resume with more memory must split as before."""
    for name, is_killed in (("whole", False), ("killed", True)):
        with monkeypatch.context() as patch:
            starve(patch, rows=5, error=NO_MEMORY[0])
            if is_killed:
                stop_at(patch, 7, before="_after_step", action=kill)
                with pytest.raises(Killed):
                    train(toy_values(corpus, family, "training.steps=7"), run=tmp_path / name, quiet=True)
            else:
                train(toy_values(corpus, family, "training.steps=7"), run=tmp_path / name, quiet=True)
        if is_killed:
            resume(tmp_path / name, quiet=True)
    assert (tmp_path / "whole" / "history.jsonl").read_bytes()
    assert digests(tmp_path / "killed") == digests(tmp_path / "whole")


def test_a_corpus_without_a_batch_is_an_error(make_trainer: Callable[..., Trainer]) -> None:
    trainer = make_trainer()
    trainer.job = trainer.job._replace(store=store_of([]))
    trainer.plan = type(trainer.plan)(store_of([]), config=trainer.config.batch, seed=1)
    with pytest.raises(TrainingError, match="no batch"):
        next(trainer._batches())


def test_a_full_disk_leaves_the_last_checkpoint(
    corpus: dict[str, Path], whole: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    assert digests(resume(tmp_path / "run", quiet=True).folder) == digests(whole("plain").folder)


def test_a_damaged_checkpoint_is_left_out_of_the_mean(corpus: dict[str, Path], tmp_path: Path) -> None:
    settings = ("training.steps=6", "training.checkpoint_every=2", "training.keep=3", "training.average=3")
    run = train(toy_values(corpus, "plain", *settings), run=tmp_path / "run", quiet=True)
    damaged = run.folder / "checkpoints" / "step-2" / "weights.safetensors"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    again = resume(run.folder, quiet=True)
    expected = mean_weights([load_weights(run.folder / "checkpoints" / f"step-{step}") for step in (4, 6)])
    found = weights(load(again.folder).model)
    assert all(torch.equal(found[key], expected[key]) for key in expected)
    assert "left out of the mean" in (run.folder / "log.txt").read_text(encoding="utf-8")


# --- Means of weights, and what an update waits for ---


def test_the_model_is_the_mean_of_the_best_checkpoints_where_that_was_asked_for(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay on disk beside the last ones, and are there after a kill too."""
    good = {2: 1.0, 4: 7.0, 6: 4.0, 8: 7.0, 10: 6.0, 12: 3.0, 14: 2.0}
    settings = ("training.average=3", "training.average_of=best", "training.validate_every=2", "training.keep=1")
    values = toy_values(corpus, "luong", *settings, "training.checkpoint_every=5")
    runs = []
    for name in ("whole", "killed"):
        with monkeypatch.context() as patch:
            _score(patch, lambda step, averaged: 0.5 if averaged else good[step])
            if name == "killed":
                stop_at(patch, 11, before="_step", action=kill)
                with pytest.raises(Killed):
                    train(values, run=tmp_path / name, quiet=True)
                runs.append(resume(tmp_path / name, quiet=True))
            else:
                runs.append(train(values, run=tmp_path / name, quiet=True))
    for run in runs:
        folder = run.folder / "checkpoints"
        assert scheduled_steps(folder) == [4, 8, 10, 14]
        expected = mean_weights([load_weights(folder / f"step-{step}") for step in (4, 8, 10)])
        found = weights(load(run.folder).model)
        assert all(torch.equal(found[key], expected[key]) for key in expected)
    assert digests(runs[0].folder) == digests(runs[1].folder)


def test_the_moving_average_follows_its_equation_and_is_the_model_that_is_kept(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("training.average=0", "training.ema=0.8", "training.steps=6", "training.checkpoint_every=1")
    values = toy_values(corpus, "transformer", *settings, "training.keep=9", "training.validate_every=6")
    run = train(values, run=tmp_path / "run", quiet=True)
    folder = run.folder / "checkpoints"
    torch.manual_seed(stream_seed(3, "weights"))
    expected = {name: value.double() for name, value in load_weights(folder / "step-1").items()}
    first = load_checkpoint(folder / "step-1").tensors["average"]
    expected = {name: value.double() for name, value in first.items()}
    for step in range(2, 7):
        share = min(0.8, (1 + step) / (10 + step))
        now = load_weights(folder / f"step-{step}")
        expected = {name: share * value + (1 - share) * now[name].double() for name, value in expected.items()}
    found = weights(load(run.folder).model)
    for name, value in expected.items():
        torch.testing.assert_close(found[name].double(), value, rtol=0, atol=1e-6)
    assert any(not torch.equal(found[name], load_weights(folder / "step-6")[name]) for name in expected)
    with monkeypatch.context() as patch:
        stop_at(patch, 3, before="_step", action=kill)
        with pytest.raises(Killed):
            train(values, run=tmp_path / "killed", quiet=True)
    assert digests(resume(tmp_path / "killed", quiet=True).folder) == digests(run.folder)


def test_an_update_waits_for_its_tokens(corpus: dict[str, Path], tmp_path: Path) -> None:
    settings = ("training.accumulate=1", "training.accumulate_tokens=90", "training.log_every=1")
    run = train(toy_values(corpus, "plain", *settings), run=tmp_path / "run", quiet=True)
    tokens = [line["tokens"] for line in read_journal(run.folder / "metrics.jsonl") if line["kind"] == "train"]
    assert all(90 <= each < 90 + 75 for each in tokens)  # a batch has at most half of its 150 positions to say


def test_gradients_are_clipped_by_value_before_their_norm_is_taken(
    make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []
    trainer = make_trainer(clip=0.0, clip_value=0.01)
    learning = trainer.learner.updater.learning
    monkeypatch.setattr(
        trainer.learner.updater.optimiser,
        "step",
        lambda: seen.extend(float(one.grad.abs().max()) for one in learning if one.grad is not None),
    )
    trainer._step([batch_of(trainer.job.store, 0, 1, 2, 3)])
    assert max(seen) == 0.01


def test_on_a_plateau_the_rate_drops_and_the_drop_outlives_a_kill(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = ("kind=plateau", "warmup=0", "patience=2", "factor=0.5")
    settings = [f"training.schedule.{each}" for each in schedule]
    settings += ["training.validate_every=1", "training.log_every=1", "training.average=0", "training.steps=8"]
    good = {1: 1.0, 2: 0.9, 3: 0.8, 4: 0.7, 5: 2.0, 6: 1.5, 7: 1.4, 8: 1.0}
    _score(monkeypatch, lambda step, _averaged: good[step])
    values = toy_values(corpus, "plain", *settings)
    with monkeypatch.context() as patch:
        stop_at(patch, 6, before="_step", action=kill)
        with pytest.raises(Killed):
            train(values, run=tmp_path / "run", quiet=True)
    run = resume(tmp_path / "run", quiet=True)
    lines = [line for line in read_journal(run.folder / "metrics.jsonl") if line["kind"] == "train"]
    peak = run.config.training.optimiser.learning_rate
    assert [line["learning_rate"] / peak for line in lines] == [1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25]


KINDS = {"sgd": "momentum=0.9", "adadelta": "rho=0.9", "adam": "beta1=0.8", "adamw": "weight_decay=0.01"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_optimiser_goes_on_exactly(
    kind: str, corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (f"training.optimiser.kind={kind}", f"training.optimiser.{KINDS[kind]}", "training.steps=9")
    values = toy_values(corpus, "plain", *settings)
    run = train(values, run=tmp_path / "whole", quiet=True)
    with monkeypatch.context() as patch:
        stop_at(patch, 6, before="_step", action=kill)
        with pytest.raises(Killed):
            train(values, run=tmp_path / "killed", quiet=True)
    assert digests(resume(tmp_path / "killed", quiet=True).folder) == digests(run.folder)


@pytest.mark.parametrize("metric", ["chrf", "ter", "exact_match", "perplexity"])
def test_any_metric_can_choose_the_best(metric: str, corpus: dict[str, Path], tmp_path: Path) -> None:
    settings = (f"training.metric={metric}", "training.validate_every=4", "training.average=0", "training.patience=9")
    run = train(toy_values(corpus, "plain", *settings), run=tmp_path / "run", quiet=True)
    lines = [line for line in read_journal(run.folder / "metrics.jsonl") if line["kind"] == "valid"]
    sign = -1 if metric in ("ter", "perplexity") else 1
    assert run.summary.best_value == max(sign * line[metric] for line in lines)
