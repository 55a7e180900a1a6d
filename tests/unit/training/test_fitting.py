"""Batch fitting: what a step keeps is counted, and the budget follows from it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.conftest import FAMILIES, toy_corpus, toy_values

from calque.config import check, read_toml
from calque.data.plan import BatchConfig, Plan
from calque.data.store import Store, store_of
from calque.experiment import Experiment, build, train
from calque.models.model import Model, Sizes
from calque.training import fitting
from calque.training.fitting import LEAST, fit_tokens, free_memory

pytestmark = pytest.mark.usefixtures("unplotted")


def store(pairs: int) -> Store:
    generator = np.random.default_rng(0)
    return store_of(
        [([4] * int(generator.integers(3, 30)), [5] * int(generator.integers(3, 30))) for _ in range(pairs)]
    )


def model(family: str, tmp_path: Path) -> Model:
    values = toy_values({"source": tmp_path, "target": tmp_path}, family)
    return build(check(Experiment, values, origin="test"), sizes=Sizes(50, 50, joint=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_twice_the_memory_takes_about_twice_the_batch(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, pairs = model(family, tmp_path), store(20_000)
    found = []
    for megabytes in (12, 24):
        monkeypatch.setattr(fitting, "free_memory", lambda _device, free=megabytes: free << 20)
        found.append(fit_tokens(built, pairs, config=BatchConfig(tokens="auto"), smoothing=0.1))
    assert all("fill" in each.reason for each in found)
    assert 1.7 < found[1].tokens / found[0].tokens < 2.3


def test_what_the_budget_leads_to_is_what_a_step_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line through two small batches tells a large one's needs."""
    built, pairs = model("transformer", tmp_path), store(20_000)
    monkeypatch.setattr(fitting, "free_memory", lambda _device: 100 << 20)
    fit = fit_tokens(built, pairs, config=BatchConfig(tokens="auto"), smoothing=0.1)
    batch = fitting._largest(pairs, config=BatchConfig(), tokens=fit.tokens)
    kept = fitting._kept_bytes(built, batch, smoothing=0.1)
    assert 0.7 < kept / (0.4 * (100 << 20)) < 1.2


def test_an_epoch_keeps_enough_updates_and_little_memory_still_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, pairs = model("transformer", tmp_path), store(400)
    fit = fit_tokens(built, pairs, config=BatchConfig(tokens="auto"), smoothing=0.1)
    assert "20 updates" in fit.reason
    plan = Plan(pairs, config=BatchConfig(tokens=fit.tokens), seed=0)
    assert len(list(plan.batches(0))) >= 20
    monkeypatch.setattr(fitting, "free_memory", lambda _device: 0)
    assert fit_tokens(built, pairs, config=BatchConfig(tokens="auto"), smoothing=0.1).tokens == LEAST


def test_the_number_is_written_into_the_config_and_kept(tmp_path: Path) -> None:
    values = toy_values(toy_corpus(tmp_path / "corpus"), "plain", "training.batch.tokens=auto", "training.steps=4")
    run = train(values, run=tmp_path / "run", quiet=True)
    tokens = read_toml(run.folder / "config.toml")["training"]["batch"]["tokens"]
    assert isinstance(tokens, int)
    assert f"training.batch.tokens = {tokens} fits this device" in (run.folder / "log.txt").read_text(encoding="utf-8")


def test_free_memory_is_not_more_than_there_is() -> None:
    free = free_memory(torch.device("cpu"))
    assert 0 < free < 1 << 50
