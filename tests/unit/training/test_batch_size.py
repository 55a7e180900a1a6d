"""The batch size that fits: saved bytes are measured, and the budget follows from them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.conftest import FAMILIES, toy_corpus, toy_values
from tests.unit.training.objects import initial_model
from torch import nn

from calque.config import check, read_toml
from calque.data.batching import BatchConfig
from calque.data.buckets import Size
from calque.data.pair_batch import PairBatch, pair_widths
from calque.data.store import Store, store_of_pairs
from calque.data.subword_regularisation import FixedConfig
from calque.experiment import Experiment, resume, running, train
from calque.models.model import Sizes
from calque.objectives.objective import ObjectiveConfig
from calque.tasks.interfaces import Carry, Loss
from calque.tasks.translation import Translation
from calque.text import Tokenizers, WordsConfig, WordsTokenizer
from calque.training import batch_size
from calque.training.batch_size import LEAST, Fit, Trial, find_batch_size, free_memory
from calque.training.journal import read_journal

pytestmark = pytest.mark.usefixtures("unplotted")


def store(pairs: int) -> Store:
    generator = np.random.default_rng(0)
    return store_of_pairs(
        [([4] * int(generator.integers(3, 30)), [5] * int(generator.integers(3, 30))) for _ in range(pairs)]
    )


class Watched(Translation):
    """Translation that passes every batch to `look` first."""

    def __init__(self, look: Callable[[PairBatch], None] = lambda _: None) -> None:
        words = WordsTokenizer.train(WordsConfig(), lines=["a b c d"])
        super().__init__(ObjectiveConfig(), smoothing=0.1, tokenizers=Tokenizers(words, words), subwords=FixedConfig())
        self.look = look

    def loss(self, model: nn.Module, batch: PairBatch, *, step: int, carry: Carry | None = None) -> Loss:
        self.look(batch)
        return super().loss(model, batch, step=step, carry=carry)


def make_trial(family: str, tmp_path: Path, *overrides: str, pairs: int) -> Trial:
    values = toy_values({"source": tmp_path, "target": tmp_path}, family, *overrides)
    model = initial_model(check(Experiment, values, origin="test"), sizes=Sizes(50, 50, joint=True))
    return Trial(model, Watched(), store(pairs))


def fitted(trial: Trial, *, ranks: int = 1) -> Fit:
    positions = sum(axis.total() for axis in pair_widths(trial.store))
    return find_batch_size(trial, config=BatchConfig(tokens="auto"), positions=positions, ranks=ranks)


def saved_bytes(trial: Trial, *, tokens: int) -> int:
    """The bytes that a step of the fullest batch saves."""
    return batch_size._saved_bytes(trial, next(trial.extremes(BatchConfig(), tokens=tokens)))


@pytest.mark.parametrize("family", FAMILIES)
def test_twice_the_memory_takes_about_twice_the_batch(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, fits = make_trial(family, tmp_path, pairs=20_000), []
    for megabytes in (12, 24):
        monkeypatch.setattr(batch_size, "free_memory", lambda _device, free=megabytes: free << 20)
        fits.append(fitted(trial))
    assert all("fill" in fit.reason for fit in fits)
    assert 1.7 < fits[1].tokens / fits[0].tokens < 2.3


def test_a_step_with_the_budget_saves_the_expected_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The needs of a large batch are extrapolated from two small ones."""
    trial = make_trial("transformer", tmp_path, pairs=20_000)
    monkeypatch.setattr(batch_size, "free_memory", lambda _device: 100 << 20)
    saved = saved_bytes(trial, tokens=fitted(trial).tokens)
    assert 0.7 < saved / (0.4 * (100 << 20)) < 1.2


@pytest.mark.parametrize("measured", ["rows", "positions", "length"])
def test_a_budget_fits_only_where_every_kind_of_batch_does(measured: str, tmp_path: Path) -> None:
    """The fullest batch has neither the most sentences nor the longest ones."""
    trial = make_trial("luong", tmp_path, pairs=4000)
    measures: dict[str, Callable[[Size], int]] = {
        "rows": lambda size: size.rows,
        "positions": lambda size: size.positions,
        "length": lambda size: sum(size.widths),
    }
    measure = measures[measured]
    order = trial.task.order(trial.store, config=BatchConfig(tokens=2048), seed=0)
    most = max(measure(planned.size) for planned in order.batches(0))

    def fits(room: int) -> bool:
        def look(batch: PairBatch) -> None:
            rows, width = batch.source.values.shape
            if measure(Size(rows, (width, batch.target_input.shape[1]))) > room:
                raise torch.OutOfMemoryError("CUDA out of memory")

        return batch_size._fits(trial._replace(task=Watched(look)), config=BatchConfig(), tokens=2048)

    assert [fits(room) for room in (most, most - 1)] == [True, False]
    assert all(parameter.grad is None for parameter in trial.model.parameters())


@pytest.mark.parametrize("times", [2, 3])
def test_memory_for_the_optimiser_is_left_free(times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights, gradients and Adam's moments, a half or a third of the memory here, fit beside the saved bytes."""
    wide = [f"model.{side}.{size}" for side in ("encoder", "decoder") for size in ("width=64", "feed_forward=1024")]
    trial = make_trial("transformer", tmp_path, *wide, pairs=4000)
    state = 4 * 4 * sum(parameter.numel() for parameter in trial.model.parameters())
    monkeypatch.setattr(batch_size, "free_memory", lambda _device: int(times * state / 0.4))
    assert 0.5 * state < saved_bytes(trial, tokens=fitted(trial).tokens) <= (times - 1) * state


def test_ranks_of_other_machines_have_their_own_memory_and_those_of_one_share_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = make_trial("luong", tmp_path, pairs=4000)

    def tokens(ranks: int, *, free: int) -> int:
        monkeypatch.setattr(batch_size, "free_memory", lambda _device: free)
        return fitted(trial, ranks=ranks).tokens

    alone = tokens(1, free=6 << 20)
    assert 0 <= tokens(2, free=12 << 20) - 2 * alone < 2 * 64
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    assert 0 <= tokens(2, free=6 << 20) - 2 * alone < 2 * 64


def test_no_budget_is_larger_than_the_largest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_size, "MOST", 1024)
    assert fitted(make_trial("plain", tmp_path, pairs=2000)) == (1024, "the upper limit of automatic batch sizes")


def test_saved_tensors_are_counted_once_and_without_the_weights(tmp_path: Path) -> None:
    """y = exp(x) saves y, y·y saves it twice more, and w·w saves a weight."""

    class Squares(Watched):
        def loss(self, model: nn.Module, batch: PairBatch, *, step: int, carry: Carry | None = None) -> Loss:
            y = torch.ones(1000, requires_grad=True).exp()
            weight = next(model.parameters())
            return Loss((y * y).sum() + (weight * weight).sum(), {})

    trial = make_trial("plain", tmp_path, pairs=50)._replace(task=Squares())
    assert saved_bytes(trial, tokens=256) == 4000


def test_an_epoch_has_enough_updates_and_little_memory_still_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = make_trial("transformer", tmp_path, pairs=400)
    fit = fitted(trial)
    assert "20 batches" in fit.reason
    order = trial.task.order(trial.store, config=BatchConfig(tokens=fit.tokens), seed=0)
    assert len(list(order.batches(0))) >= 20
    monkeypatch.setattr(batch_size, "free_memory", lambda _device: 0)
    assert fitted(trial).tokens == LEAST


def test_the_budget_is_written_into_the_config_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resumed run reads it from there and does not search again."""
    values = toy_values(toy_corpus(tmp_path / "corpus"), "plain", "training.batch.tokens=auto", "training.steps=4")
    run = train(values, run=tmp_path / "run", quiet=True)
    tokens = read_toml(run.folder / "config.toml")["training"]["batch"]["tokens"]
    assert isinstance(tokens, int)
    assert f"training.batch.tokens = {tokens} fits this device" in (run.folder / "log.txt").read_text(encoding="utf-8")
    searches = []
    monkeypatch.setattr(
        running, "find_batch_size", lambda *_, **__: searches.append(1) or Fit(tokens // 2, "less is free")
    )
    config = run.folder / "config.toml"
    config.write_text(config.read_text(encoding="utf-8").replace("\nsteps = 4\n", "\nsteps = 6\n"), encoding="utf-8")
    resumed = resume(run.folder, quiet=True)
    assert resumed.config.training.batch.tokens == read_toml(config)["training"]["batch"]["tokens"] == tokens
    assert searches == []
    steps = [line["step"] for line in read_journal(run.folder / "metrics.jsonl") if line["kind"] == "train"]
    assert steps[-1] == 6
    assert (run.folder / "log.txt").read_text(encoding="utf-8").count("fits this device") == 1


def test_free_memory_is_not_more_than_there_is() -> None:
    free = free_memory(torch.device("cpu"))
    assert 0 < free < 1 << 50


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, batch_size.ASSUMED),
        ({"proc/meminfo": "MemTotal:  900 kB\nMemAvailable:  500 kB\n"}, 500 * 1024),
        ({"proc/meminfo": "MemAvailable:  500 kB\n", "limit": "max\n", "used": "7\n"}, 500 * 1024),
        ({"proc/meminfo": "MemAvailable:  500 kB\n", "limit": "300000\n", "used": "100000\n"}, 200_000),
        ({"proc/meminfo": "MemAvailable:  500 kB\n", "limit": "9000000\n", "used": "100000\n"}, 500 * 1024),
        ({"proc/meminfo": "MemAvailable:  500 kB\n", "limit": "300000\n", "used": "400000\n"}, 0),
    ],
)
def test_free_memory_is_limited_by_the_system_and_its_container(
    files: dict[str, str], free: int, tmp_path: Path
) -> None:
    names = {"limit": "sys/fs/cgroup/memory.max", "used": "sys/fs/cgroup/memory.current"}
    for name, text in files.items():
        path = tmp_path / names.get(name, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    assert free_memory(torch.device("cpu"), root=tmp_path) == free


@pytest.mark.parametrize(
    ("limit", "budget"), [(9999, 6400), (6400, 6400), (6399, 4608), (5440, 4608), (5439, 3904), (1, LEAST)]
)
def test_a_reduced_budget_leaves_a_margin(limit: int, budget: int) -> None:
    """Budgets of 6,400, 5,440, 4,608 …, each 85 % of the one before, in multiples of 64."""
    assert batch_size._reduce_until_fit(6400, fits=lambda tokens: tokens <= limit) == budget
