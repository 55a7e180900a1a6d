"""Updates equal their equations, also with values that are not finite and without memory (P7, P8)."""

import math
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from tests.conftest import FAMILIES, toy_values
from tests.unit.training.objects import PAIRS, Killed, batch_of, digests, kill, stop_at, weights
from torch import nn

from calque.data.batch import Batch
from calque.data.pair_batch import PairBatch
from calque.data.store import store_of_pairs
from calque.errors import TrainingError
from calque.experiment import Run, resume, train
from calque.models.model import Model
from calque.objectives.cross_entropy import TokenLoss
from calque.objectives.objective import Objective
from calque.tasks.interfaces import Carry, Loss
from calque.training.averaging import MovingAverage
from calque.training.checkpoints import load_weights, newest_checkpoint
from calque.training.distributed import Ranks
from calque.training.journal import read_journal
from calque.training.loop import Trainer
from calque.training.settings import TrainingConfig
from calque.training.update import MemorySplits, Sums, Updater, join_carries, split_carry

pytestmark = pytest.mark.usefixtures("unplotted")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("clip", [0.0, 0.05])
def test_accumulated_batches_give_the_update_of_one_batch(
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
        for accumulated in after[1:]:
            torch.testing.assert_close(accumulated[name], after[0][name], rtol=0, atol=1e-9)


def test_the_gradient_is_that_of_the_mean_loss_per_token_and_is_clipped(
    make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the optimiser receives it."""
    received: list[dict[str, torch.Tensor]] = []
    for clip in (0.0, 0.01, 1e9):
        trainer = make_trainer(clip=clip)
        named = dict(trainer.learner.model.named_parameters())

        def keep(named: dict[str, Any] = named) -> None:
            received.append({name: value.grad.clone() for name, value in named.items() if value.grad is not None})

        monkeypatch.setattr(trainer.learner.updater.optimiser, "step", keep)
        trainer._step([batch_of(trainer.job.store, 0, 1, 2, 3)])
    plain, clipped, loose = received
    model = make_trainer().learner.model
    batch = batch_of(store_of_pairs(PAIRS), 0, 1, 2, 3)
    logits = model.output.logits(model(batch.source, batch.target_input).hidden)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.target_output.flatten(), ignore_index=0)
    expected = torch.autograd.grad(loss, [value for name, value in model.named_parameters() if name in plain])
    norm = torch.sqrt(sum((slope**2).sum() for slope in expected))
    for name, gradient in zip(plain, expected, strict=True):
        torch.testing.assert_close(plain[name], gradient, rtol=0, atol=1e-12)
        torch.testing.assert_close(loose[name], gradient, rtol=0, atol=1e-12)
        torch.testing.assert_close(clipped[name], gradient * 0.01 / norm, rtol=1e-4, atol=0)
    assert trainer.learner.updater.sums.norm.item() == pytest.approx(norm.item(), rel=1e-6)


def test_tf32_is_set_for_gradients_only_and_always_restored(
    make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both passes; a CPU may compute the same, so torch's setting is checked."""
    precisions: list[str] = []

    def look(_gradient: object = None) -> None:
        precisions.append(torch.get_float32_matmul_precision())

    for precision, expected in (("float32", "highest"), ("tf32", "high")):
        trainer = make_trainer(precision=precision)
        updater = trainer.learner.updater
        compute = updater.task.loss

        def watched(*arguments: Any, compute: Any = compute, **named: Any) -> Loss:
            look()
            loss: Loss = compute(*arguments, **named)
            loss.objective.register_hook(look)
            return loss

        monkeypatch.setattr(updater.task, "loss", watched)
        monkeypatch.setattr(updater.optimiser, "step", look)
        trainer._step([batch_of(trainer.job.store, 0, 1)])
        assert precisions == [expected, expected, "highest"]
        precisions.clear()

    def failing(*_arguments: Any, **_named: Any) -> Loss:
        raise ValueError(torch.get_float32_matmul_precision())

    monkeypatch.setattr(updater.task, "loss", failing)
    with pytest.raises(ValueError, match=r"^high$"):
        trainer._step([batch_of(trainer.job.store, 0, 1)])
    assert torch.get_float32_matmul_precision() == "highest"


def test_bfloat16_trains(corpus: dict[str, Path], tmp_path: Path) -> None:
    """Nearly as in float32, up to rounding; weights stay in float32."""
    losses = {}
    for precision in ("float32", "bfloat16"):
        values = toy_values(corpus, "transformer", f"training.precision={precision}", "training.steps=6")
        run = train(values, run=tmp_path / precision, quiet=True)
        losses[precision] = [line["loss"] for line in read_journal(run.folder / "metrics.jsonl")]
    assert all(few != many for many, few in zip(*losses.values(), strict=True))
    assert losses["bfloat16"] == pytest.approx(losses["float32"], abs=0.03)
    assert {str(value.dtype) for value in load_weights(run.folder / "checkpoints" / "step-6").values()} == {
        "torch.float32"
    }


def test_an_update_waits_for_its_tokens(corpus: dict[str, Path], tmp_path: Path) -> None:
    settings = ("training.accumulate=1", "training.accumulate_tokens=90", "training.log_every=1")
    run = train(toy_values(corpus, "plain", *settings), run=tmp_path / "run", quiet=True)
    tokens = [line["tokens"] for line in read_journal(run.folder / "metrics.jsonl") if line["kind"] == "train"]
    assert all(90 <= count < 90 + 75 for count in tokens)  # at most 75 of the 150 positions of a batch are targets


def test_gradients_are_clipped_by_value_and_the_reported_norm_is_the_one_before(
    make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = make_trainer(clip=0.0)
    plain._step([batch_of(plain.job.store, 0, 1, 2, 3)])
    largest: list[float] = []
    trainer = make_trainer(clip=0.0, clip_value=0.01)
    trained = trainer.learner.updater.trained
    monkeypatch.setattr(
        trainer.learner.updater.optimiser,
        "step",
        lambda: largest.extend(float(weight.grad.abs().max()) for weight in trained if weight.grad is not None),
    )
    trainer._step([batch_of(trainer.job.store, 0, 1, 2, 3)])
    assert max(largest) == 0.01
    assert trainer.learner.updater.sums.norm == plain.learner.updater.sums.norm


def test_gradients_clipped_by_value_are_scaled_from_their_norm_after_that(
    make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the norm before, which is many times larger, they would be scaled down too far."""
    norms: list[float] = []
    for clip in (0.0, 0.02):
        trainer = make_trainer(clip=clip, clip_value=0.01)
        trained = trainer.learner.updater.trained

        def keep(trained: list[torch.nn.Parameter] = trained) -> None:
            gradients = [weight.grad for weight in trained if weight.grad is not None]
            norms.append(float(torch.nn.utils.get_total_norm(gradients)))

        monkeypatch.setattr(trainer.learner.updater.optimiser, "step", keep)
        trainer._step([batch_of(trainer.job.store, 0, 1, 2, 3)])
    assert 0.02 < norms[0] < 0.8 * trainer.learner.updater.sums.norm.item()
    assert norms[1] == pytest.approx(0.02, rel=1e-3)


def test_an_infinite_gradient_is_skipped_though_it_could_be_clipped(make_trainer: Callable[..., Trainer]) -> None:
    """P7: clipping by value would make it finite."""
    trainer = make_trainer(clip_value=0.01)
    before = weights(trainer.learner.model)
    trainer.learner.updater.trained[0].register_hook(lambda gradient: torch.full_like(gradient, torch.inf))
    trainer._step([batch_of(trainer.job.store, 0, 1, 2, 3)])
    assert trainer.learner.updater.sums.skipped == 1
    assert all(torch.equal(value, before[name]) for name, value in weights(trainer.learner.model).items())


def test_float16_gives_the_gradient_of_float32(
    make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss is scaled up for float16, and its gradient down again before it is clipped and used."""
    received: list[dict[str, torch.Tensor]] = []
    norms: list[float] = []
    for precision in ("float32", "float16"):
        trainer = make_trainer("transformer", precision=precision, clip=0.05)
        named = dict(trainer.learner.model.float().named_parameters())

        def keep(*_arguments: Any, named: dict[str, Any] = named) -> None:
            received.append({name: value.grad.clone() for name, value in named.items() if value.grad is not None})

        monkeypatch.setattr(trainer.learner.updater.optimiser, "step", keep)
        trainer._step([batch_of(trainer.job.store, 0, 1, 2, 3)])
        assert trainer.learner.updater.scaler.is_enabled() == (precision == "float16")
        norms.append(trainer.learner.updater.sums.norm.item())
    plain, half = received
    assert plain.keys() == half.keys()
    assert norms[1] == pytest.approx(norms[0], rel=1e-2)  # before clipping
    for name, gradient in plain.items():
        torch.testing.assert_close(half[name], gradient, rtol=0, atol=2e-3 * 0.05)
    assert norms[1] != norms[0]  # it was computed in float16


def test_every_rank_and_every_step_has_its_own_random_numbers(make_trainer: Callable[..., Trainer]) -> None:
    """Half of the words are dropped: which ones is a function of seed, step and rank."""
    after = []
    for rank, step in ((0, 0), (0, 0), (1, 0), (0, 1)):
        trainer = make_trainer(objective={"word_dropout": {"source": 0.5, "target": 0.5}}, schedule={"warmup": 0})
        trainer.learner.updater.ranks = Ranks(rank, 1)
        trainer.progress.step = step
        trainer._step([batch_of(trainer.job.store, 0, 1, 2, 3)])
        after.append(weights(trainer.learner.model)["output.weight"])
    assert torch.equal(after[0], after[1])
    assert not torch.equal(after[0], after[2])
    assert not torch.equal(after[0], after[3])


# --- Updates that are not finite, and memory that runs out ---


def poison(patch: pytest.MonkeyPatch, *calls: int, bad: float = float("nan"), where: str = "loss") -> None:
    """Makes the loss, its gradient, or only the reported loss `bad` in those calls (from 1)."""
    compute = Objective.__call__
    numbers = count(1)

    def poisoned(objective: Objective, model: Model, batch: PairBatch, *, step: int) -> TokenLoss:
        loss = compute(objective, model, batch, step=step)
        if next(numbers) not in calls:
            return loss
        if where == "gradient":
            loss.objective.register_hook(lambda gradient: gradient * bad)
            return loss
        return TokenLoss(loss.objective if where == "report" else loss.objective * bad, loss.cross_entropy * bad)

    patch.setattr(Objective, "__call__", poisoned)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["loss", "gradient", "report"])
def test_an_update_that_is_not_finite_is_skipped_and_counted(
    bad: float, where: str, make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: weights, optimiser and the reported loss and norm are as without the step."""
    trainer, without = make_trainer(), make_trainer()
    rows = [(0, 1), (2, 3), (1, 2)]
    for step in (0, 2):
        without.progress.step = step
        without._step([batch_of(without.job.store, *rows[step])])
    poison(monkeypatch, 2, bad=bad, where=where)
    for step in range(3):
        trainer._step([batch_of(trainer.job.store, *rows[step])])
    expected = weights(without.learner.model)
    assert all(torch.equal(value, expected[name]) for name, value in weights(trainer.learner.model).items())
    sums, others = trainer.learner.updater.sums, without.learner.updater.sums
    assert (sums.parts, sums.weight, sums.norm, sums.steps) == (others.parts, others.weight, others.norm, 2)
    assert (sums.skipped, sums.in_a_row) == (1, 0)


def test_many_updates_in_a_row_that_are_not_finite_stop_the_run_with_the_last_good_state_saved(
    corpus: dict[str, Path], uninterrupted: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: the message names the batches; once the cause is gone, the run can be resumed."""
    settings = ("training.skips=3", "training.log_every=1")
    with monkeypatch.context() as patch:
        poison(patch, *range(11, 40))  # from step 6 on: two batches per step
        with pytest.raises(TrainingError, match=r"3 steps in a row, up to step 8: batches \d+ of epoch \d+ to \d+ of"):
            train(toy_values(corpus, "plain", *settings), run=tmp_path / "run", quiet=True)
    saved = newest_checkpoint(tmp_path / "run" / "checkpoints")
    assert saved is not None
    assert saved.step == 8
    assert all(value.isfinite().all() for value in saved.snapshot.tensors["weights"].values())
    resumed = resume(tmp_path / "run", quiet=True)
    assert (resumed.summary.step, resumed.summary.skipped) == (14, 3)
    lines = [line for line in read_journal(tmp_path / "run" / "metrics.jsonl") if line["kind"] == "train"]
    assert [line["skipped"] for line in lines] == [0] * 5 + [1, 2, *[3] * 7]
    assert digests(tmp_path / "run") != digests(uninterrupted("plain", *settings).folder)


def read_order(patch: pytest.MonkeyPatch) -> list[str]:
    """A list that fills with the positions of batches, as messages name them, in reading order."""
    places: list[str] = []
    stream = Trainer._batches

    def recorded(self: Trainer) -> Iterator[Batch]:
        epoch = number = 0
        for batch in stream(self):
            epoch, number = (epoch, number + 1) if epoch == self.progress.epoch else (self.progress.epoch, 1)
            places.append(f"{number} of epoch {epoch + 1}")
            yield batch

    patch.setattr(Trainer, "_batches", recorded)
    return places


@pytest.mark.parametrize("bad", [9, 10, 11, 12])
def test_all_batches_of_an_update_that_is_not_finite_are_named(
    bad: int, corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: one batch alone is bad, any of the third update's four."""
    poison(monkeypatch, bad)
    settings = ("training.skips=1", "training.accumulate=4", "training.batch.tokens=60")
    with pytest.raises(TrainingError, match=r"up to step 3: batches 9 of epoch 1 to 12 of epoch 1;"):
        train(toy_values(corpus, "plain", *settings), run=tmp_path / "run", quiet=True)


def test_batches_are_named_over_the_end_of_an_epoch_and_from_the_first_bad_step_on(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three batches per update, so that one update starts with an epoch."""
    for from_step in range(3, 9):
        with monkeypatch.context() as patch:
            places = read_order(patch)
            poison(patch, *range(3 * from_step - 2, 99))
            settings = ("training.skips=2", "training.accumulate=3", "training.average=0")
            with pytest.raises(TrainingError, match="2 steps in a row") as caught:
                train(toy_values(corpus, "plain", *settings), run=tmp_path / f"run-{from_step}", quiet=True)
        first, last = places[3 * (from_step - 1)], places[3 * (from_step + 1) - 1]
        assert f"batches {first} to {last};" in str(caught.value)
    assert first == "1 of epoch 4"


def test_a_gpu_that_is_checked_at_intervals_has_all_batches_named(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is checked when a line is logged: in step 7, after one bad step, which is not enough, and in step 14."""
    refuse = Trainer._refuse_divergence
    checked_at = (7, 14)
    monkeypatch.setattr(Trainer, "_refuse_divergence", lambda self: self.progress.step in checked_at and refuse(self))
    places = read_order(monkeypatch)
    poison(monkeypatch, *range(2 * 7 - 1, 99))
    settings = ("training.skips=2", "training.average=0")
    settings += tuple(f"training.{key}_every=7" for key in ("log", "validate", "checkpoint"))
    with pytest.raises(TrainingError, match="8 steps in a row, up to step 14") as caught:
        train(toy_values(corpus, "plain", *settings), run=tmp_path / "run", quiet=True)
    assert f": batches {places[12]} to {places[27]};" in str(caught.value)


def test_bad_steps_before_a_resume_are_counted_and_not_named(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        poison(patch, 7, 8)  # step 4, which is saved
        stop_at(patch, 4, before="_step", action=kill)
        with pytest.raises(Killed):
            train(toy_values(corpus, "plain", "training.skips=2"), run=tmp_path / "run", quiet=True)
    poison(monkeypatch, 1)
    with pytest.raises(TrainingError, match="2 steps in a row, up to step 5: since the run was resumed, batches 2 of"):
        resume(tmp_path / "run", quiet=True)


def test_a_run_with_a_bad_update_that_is_killed_ends_with_the_same_bytes(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bad update at step 6 is repeated after a kill at step 7, and counted once."""
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
            poison(monkeypatch, 11 - 2 * 4)  # it resumes from step 4
            resume(tmp_path / name, quiet=True)
    assert digests(tmp_path / "killed") == digests(tmp_path / "whole")


def starve(patch: pytest.MonkeyPatch, *, rows: int, error: Exception) -> list[int]:
    """Makes batches of more than `rows` rows run out of memory; a list of the rows of those that fitted."""
    compute = Objective.__call__
    fitted: list[int] = []

    def starved(objective: Objective, model: Model, batch: PairBatch, *, step: int) -> TokenLoss:
        loss = compute(objective, model, batch, step=step)
        if batch.rows > rows:
            raise error
        fitted.append(batch.rows)
        return loss

    patch.setattr(Objective, "__call__", starved)
    return fitted


NO_MEMORY = (
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"),
    RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: not enough memory: you tried to allocate 9"),
    MemoryError(),
    RuntimeError("could not create a primitive"),
    RuntimeError("could not execute a primitive"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
)
NO_MEMORY_NAMES = ["device", "cpu", "other cpu", "python", "oneDNN", "oneDNN execution", "cuBLAS"]


@pytest.mark.parametrize("error", NO_MEMORY, ids=NO_MEMORY_NAMES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_that_does_not_fit_is_halved_until_it_does(
    family: str, error: Exception, make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: the gradient is the same, and that of the first batch, which did fit, is not counted twice."""
    trainer, roomy = make_trainer(family), make_trainer(family)
    batches = [batch_of(trainer.job.store, 0), batch_of(trainer.job.store, 1, 2, 3)]
    roomy._step(batches)
    fitted = starve(monkeypatch, rows=1, error=error)
    trainer._step(batches)
    assert fitted == [1, 1, *[1] * 4]  # in one part, in two, and in four
    expected = weights(roomy.learner.model)
    for name, value in weights(trainer.learner.model).items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-9)


def test_the_baseline_of_hard_attention_is_as_if_batches_had_been_split_at_once(
    make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: an attempt that did not fit changes neither the baseline nor random numbers."""
    trainer, split = (make_trainer("luong", "model.decoder.attention.choice=hard") for _ in range(2))
    batches = [batch_of(trainer.job.store, 0), batch_of(trainer.job.store, 1, 2, 3)]
    split.learner.updater.splits._parts[1] = 4
    split._step(batches)
    starve(monkeypatch, rows=1, error=NO_MEMORY[0])
    trainer._step(batches)
    expected = weights(split.learner.model)
    assert expected["baseline.value"] != 0
    assert all(torch.equal(value, expected[name]) for name, value in weights(trainer.learner.model).items())


def test_a_single_process_holds_all_of_a_sharded_model_and_splits_batches(
    make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer(sharded=True)
    fitted = starve(monkeypatch, rows=1, error=NO_MEMORY[0])
    trainer._step([batch_of(trainer.job.store, 0, 1)])
    assert fitted == [1, 1]


@pytest.mark.parametrize(
    "message",
    [
        "mat1 and mat2 shapes cannot be multiplied",
        "could not create a primitive descriptor for a matmul primitive",
        "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`",
    ],
)
def test_other_errors_are_not_mistaken_for_a_lack_of_memory(
    message: str, make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer()
    starve(monkeypatch, rows=0, error=RuntimeError(message))
    with pytest.raises(RuntimeError, match=message):
        trainer._step([batch_of(trainer.job.store, 0, 1)])


def test_a_sentence_that_does_not_fit_ends_the_run(
    make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer()
    starve(monkeypatch, rows=0, error=NO_MEMORY[0])
    with pytest.raises(TrainingError, match="out of memory in step 1 even with one row"):
        trainer._step([batch_of(trainer.job.store, 0, 1, 2)])


@pytest.mark.parametrize("method", [(Updater, "_apply"), (MovingAverage, "update")])
def test_memory_that_runs_out_after_the_gradient_ends_the_run_with_its_checkpoint(
    method: tuple[type, str], corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Smaller batches would not help; resumed with more memory, the run ends with the usual bytes."""
    values = toy_values(corpus, "plain", "training.average=0", "training.ema=0.9")
    owner, name = method
    original, calls = getattr(owner, name), count(1)

    def starved(self: Any, **named: Any) -> None:
        if next(calls) == 6:
            raise NO_MEMORY[0]
        original(self, **named)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, starved)
        with pytest.raises(TrainingError, match=r"memory in step 6 after the backward pass.* the last checkpoint is"):
            train(values, run=tmp_path / "run", quiet=True)
    saved = newest_checkpoint(tmp_path / "run" / "checkpoints")
    assert saved is not None
    assert saved.step == 4
    roomy = train(values, run=tmp_path / "whole", quiet=True)
    assert digests(resume(tmp_path / "run", quiet=True).folder) == digests(roomy.folder)


@pytest.mark.parametrize("family", ["plain", "bahdanau"])  # tests/faults has the others
def test_a_split_is_repeated_after_a_resume(
    family: str, corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: with dropout another split is another update, so a resumed run with more memory must split as before."""
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


def test_a_checkpoint_without_the_sum_of_objectives_is_read(make_trainer: Callable[..., Trainer]) -> None:
    trainer = make_trainer()
    trainer._step([batch_of(trainer.job.store, 0, 1)])
    snapshot = trainer.learner.snapshot()
    del snapshot.tensors["sums"]["objective"], snapshot.tensors["sums"]["clipped"]
    resumed = make_trainer()
    resumed.learner.restore(snapshot, origin="test")
    sums = resumed.learner.updater.sums
    saved = trainer.learner.updater.sums
    assert float(sums.objective) == float(sums.parts["loss"]) == float(saved.parts["loss"]) > 0
    assert float(sums.weight) == float(saved.weight) > 0
    assert float(sums.clipped) == 0


def test_sums_are_restored_by_their_names_in_a_checkpoint() -> None:
    """The weight is called tokens there, as before there were other tasks than translation."""
    sums = Sums(("loss", "links"), device=torch.device("cpu"), dtype=torch.float64)
    names = ["clipped", "in_a_row", "links", "loss", "norm", "objective", "skipped", "steps", "tokens"]
    assert sorted(sums.tensors()) == names
    for number, value in enumerate(sums.tensors().values(), start=1):
        value.fill_(number)
    saved = {name: value.clone() for name, value in sums.tensors().items()}
    assert len({value.data_ptr() for value in sums.tensors().values()}) == len(names)
    restored = Sums(("loss", "links"), device=torch.device("cpu"), dtype=torch.float64)
    restored.restore(saved)
    assert restored.tensors() == saved
    assert float(restored.weight) == float(saved["tokens"])
    restored.clear()
    of_run = {"skipped", "in_a_row"}
    assert {name for name, value in restored.tensors().items() if value != 0} == of_run


# --- The state of running text ---


@pytest.mark.parametrize("rows", [1, 2, 5, 8])
@pytest.mark.parametrize("parts", [1, 2, 3, 8, 9])
def test_a_carry_is_split_as_batches_are_and_joined_again(rows: int, parts: int) -> None:
    carry = (torch.randn(rows, 2, 3), torch.arange(rows))
    split = split_carry(carry, rows, parts)
    assert len(split) == min(rows, parts)
    store = store_of_pairs([([4 + row], [5]) for row in range(rows)])
    batch = batch_of(store, *range(rows))
    for part, state in zip(batch.split(parts), split, strict=True):
        assert state is not None
        assert part.source.values[:, 0].tolist() == [4 + row for row in state[1].tolist()]  # the rows it belongs to
    joined = join_carries(split)
    assert joined is not None
    assert all(map(torch.equal, joined, carry))
    assert split_carry(None, rows, parts) == [None] * min(rows, parts)
    assert join_carries([None] * parts) is None


class Running:
    """A task in which the state of a row is the sum of its inputs; the loss is the distance of the model from it."""

    reads: ClassVar[dict[str, Any]] = {}
    parts = ("loss",)
    divisible = True

    def __init__(self) -> None:
        self.states: list[list[float] | None] = []

    def order(self, *_: Any, **__: Any) -> Any: ...
    def collate(self, *_: Any, **__: Any) -> Any: ...
    def follow(self, *_: Any) -> None: ...

    def loss(self, model: nn.Module, batch: PairBatch, *, step: int, carry: Carry | None = None) -> Loss:
        self.states.append(None if carry is None else carry[0][:, 0].tolist())
        before = torch.zeros(batch.rows, 1) if carry is None else carry[0]
        state = before + batch.source.values.sum(dim=1, keepdim=True)
        loss = (model(torch.ones(batch.rows, 1)) - state).square().sum() * (math.nan if step == 3 else 1)
        return Loss(loss, {"loss": loss.detach()}, carry=(state.detach(),))


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_the_state_is_carried_from_batch_to_batch_and_from_step_to_step(parts: int, tmp_path: Path) -> None:
    """However a batch is split; a step that is not finite resets the state, which may not be finite either."""
    store = store_of_pairs([([4 + row], [5]) for row in range(3)])
    batch, task, model = batch_of(store, 0, 1, 2), Running(), nn.Linear(1, 1, bias=False)
    splits = MemorySplits(tmp_path / "history.jsonl")
    for step in (1, 2, 3, 4):
        splits.record(step, parts=parts)
    updater = Updater(model, task=task, config=TrainingConfig(clip=0.0), seed=1, ranks=Ranks(), splits=splits)
    read = batch.source.values.sum(dim=1)
    for step, batches in ((1, 2), (2, 1), (3, 1)):
        updater.update([batch] * batches, step=step, rate=0.1)
        expected = {1: 2 * read, 2: 3 * read, 3: 0 * read}[step]
        assert updater.carry is not None
        assert updater.carry[0][:, 0].tolist() == expected.tolist()
    assert updater.sums.skipped == 1
    assert task.states[:parts] == [None] * parts
    assert [value for state in task.states[parts : 2 * parts] for value in state or ()] == read.tolist()
