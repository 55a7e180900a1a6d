"""The loop: the update is the one that the equations give, and a run that is stopped goes on as if it had not been."""

import errno
import hashlib
import os
import signal
from collections.abc import Callable, Iterator
from functools import cache
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
from calque.tasks.translation import Loss
from calque.text import Tokenizers, Vocabulary, WordsTokenizer
from calque.text.vocabulary import PIECES
from calque.training import checkpoints, loop
from calque.training.checkpoints import load_checkpoint, load_weights, newest_checkpoint, scheduled_steps
from calque.training.journal import Journal, read_journal
from calque.training.loop import Job, Trainer, TrainingConfig, mean_weights, stream_seed
from calque.training.reporting import Reporter
from calque.training.schedules import rate_at
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
            patch.setattr("calque.experiment.draw_curves", lambda _folder: True)
            return train(toy_values(corpus, family, *overrides), run=tmp_path_factory.mktemp("whole"), quiet=True)

    return make


def digests(run: Path) -> dict[str, str]:
    """SHA-256 of all that must be the same however a run came to its end."""
    last = run / "checkpoints" / f"step-{scheduled_steps(run / 'checkpoints')[-1]}"
    files = [run / "model" / "weights.safetensors", run / "metrics.jsonl", run / "samples.txt"]
    files += [last / f"{group}.safetensors" for group in ("weights", "optimiser", "sums")]
    return {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def stop_at(monkeypatch: pytest.MonkeyPatch, step: int, *, before: str, action: Callable[[], None]) -> None:
    """Does `action` at that step, before the trainer's method `before`, once."""
    original = getattr(Trainer, before)
    done: list[int] = []

    def method(self: Trainer, *arguments: Any, **keywords: Any) -> Any:
        if self.progress.step >= step and not done:
            done.append(step)
            action()
        return original(self, *arguments, **keywords)

    monkeypatch.setattr(Trainer, before, method)


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
        stop_at(patch, 10, before="_write_samples", action=kill)
        with pytest.raises(Killed):
            resume(tmp_path / "stopped", quiet=True)
    assert digests(resume(tmp_path / "stopped", quiet=True).folder) == digests(whole(family).folder)
    lines = read_journal(tmp_path / "stopped" / "metrics.jsonl")
    steps = [(line["kind"], line["step"], "averaged" in line) for line in lines]
    assert len(set(steps)) == len(steps)


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
        patch.setattr("calque.experiment.target_counts", lambda _store, *, size: np.zeros(size))
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
    with Journal(tmp_path / "metrics.jsonl") as metrics, Journal(tmp_path / "timing.jsonl") as timing:

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
            return Trainer(job, metrics=metrics, timing=timing)

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
        after.append(weights(trainer.model))
    before = weights(make_trainer(family).model)
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
        named = dict(trainer.model.named_parameters())

        def keep(named: dict[str, Any] = named) -> None:
            seen.append({name: value.grad.clone() for name, value in named.items() if value.grad is not None})

        monkeypatch.setattr(trainer.optimiser, "step", keep)
        trainer._step([batch_of(trainer.job.store, 0, 1, 2, 3)])
    plain, clipped, loose = seen
    model = make_trainer().model
    batch = batch_of(store_of(PAIRS), 0, 1, 2, 3)
    logits = model.output.logits(model(batch.source, batch.target_input).hidden)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.target_output.flatten(), ignore_index=0)
    expected = torch.autograd.grad(loss, [value for name, value in model.named_parameters() if name in plain])
    norm = torch.sqrt(sum((each**2).sum() for each in expected))
    for name, gradient in zip(plain, expected, strict=True):
        torch.testing.assert_close(plain[name], gradient, rtol=0, atol=1e-12)
        torch.testing.assert_close(loose[name], gradient, rtol=0, atol=1e-12)
        torch.testing.assert_close(clipped[name], gradient * 0.01 / norm, rtol=1e-4, atol=0)
    assert trainer.sums.norm.item() == pytest.approx(norm.item(), rel=1e-6)


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
            _score(patch, lambda trainer, averaged, value=value: value if averaged else trainer.progress.step)
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
    patch: pytest.MonkeyPatch, value: Callable[[Trainer, int], float], *, loss: Callable[[int], float] = lambda _: 1.0
) -> None:
    """Lets `value` say how good each validation is, and `loss` (of the step) what it lost."""
    original, measure = Trainer._validate, loop.validate
    at: list[Any] = []

    def validate(self: Trainer, *, averaged: int = 0) -> None:
        at[:] = [self, averaged]
        original(self, averaged=averaged)

    patch.setattr(Trainer, "_validate", validate)

    def scored(*arguments: Any, **named: Any) -> Validation:
        changes = {"bleu": float(value(*at)), "loss": loss(at[0].progress.step)}
        return measure(*arguments, **named)._replace(**changes)

    patch.setattr(loop, "validate", scored)


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
    _score(monkeypatch, lambda trainer, _averaged: good[trainer.progress.step])
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
    _score(monkeypatch, lambda trainer, _averaged: -trainer.progress.step)
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
    _score(monkeypatch, lambda trainer, _averaged: -trainer.progress.step)
    warm = train(toy_values(corpus, "plain", *settings, "training.schedule.warmup=6"), run=tmp_path / "a", quiet=True)
    assert warm.summary.step == 6 + 2
    _score(monkeypatch, lambda trainer, _averaged: -trainer.progress.step, loss=lambda step: -min(step, 9))
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


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_a_loss_that_is_no_number_ends_the_run_and_nothing_of_it_is_saved(
    bad: float,
    where: str,
    corpus: dict[str, Path],
    whole: Callable[..., Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The step with the NaN is followed by a save before the next line of metrics is due."""
    compute = loop.translation_loss
    calls: list[int] = []

    def poisoned(model: Model, batch: Batch, *, smoothing: float) -> Loss:
        calls.append(1)
        loss = compute(model, batch, smoothing=smoothing)
        if len(calls) != 15:  # of step 8, at which a checkpoint is due
            return loss
        if where == "gradient":
            loss.objective.register_hook(lambda gradient: gradient * bad)
            return loss
        return Loss(*(each * bad for each in loss))

    with monkeypatch.context() as patch:
        patch.setattr(loop, "translation_loss", poisoned)
        with pytest.raises(TrainingError, match=r"(loss|norm) is (nan|inf) between steps 8 and 8"):
            train(toy_values(corpus, "plain", "training.log_every=7"), run=tmp_path / "run", quiet=True)
    found = newest_checkpoint(tmp_path / "run" / "checkpoints")
    assert found is not None
    assert found.step == 4
    assert all(value.isfinite().all() for value in found.snapshot.tensors["weights"].values())
    assert all(value.isfinite().all() for value in weights(load(tmp_path / "run").model).values())
    expected = digests(whole("plain", "training.log_every=7").folder)
    assert digests(resume(tmp_path / "run", quiet=True).folder) == expected


def test_a_corpus_without_a_batch_is_an_error(make_trainer: Callable[..., Trainer]) -> None:
    trainer = make_trainer()
    trainer.job = trainer.job._replace(store=store_of([]))
    trainer.plan = type(trainer.plan)(store_of([]), config=trainer.config.batch, seed=1)
    with pytest.raises(TrainingError, match="no batch"):
        next(trainer._batches())


def test_a_full_disk_leaves_the_last_checkpoint(
    corpus: dict[str, Path], whole: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, count = checkpoints.save_file, []

    def full(*arguments: Any) -> None:
        count.append(1)
        if len(count) > 4:
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
