"""Open settings are chosen to fit the corpus: steps, batch size, learning rate."""

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import FAMILIES, Values, toy_values

from calque.config import check
from calque.data.batching import BatchConfig, Bucketed
from calque.data.pair_batch import pair_widths
from calque.data.prepare import Prepared
from calque.data.rows import Tally
from calque.data.store import Store, store_of_pairs
from calque.experiment import Experiment, assembly_of
from calque.training.auto_settings import complete_settings


def chosen(store: Store, family: str = "luong", *, device: str = "cpu", **training: Any) -> Values:
    """The completed training section for one with a few settings."""
    return dict(completed(store, FAMILIES[family], training, device=device)[0]["training"])


def completed(store: Store, model: Values, training: Values, *, device: str = "cpu") -> tuple[Values, list[str]]:
    """The completed values of a translation experiment, and the report of the choices."""
    nowhere = Path("nowhere")
    values = toy_values({"source": nowhere, "target": nowhere}, model, "seed=1")
    prepared = Prepared(nowhere, store, store, Tally(), Tally(), {})
    corpus = assembly_of(check(Experiment, values, origin="test")).corpus(prepared)
    return complete_settings({"training": training}, corpus, device=device)


def pairs(count: int, *, size: int = 4) -> Store:
    """Each has `size` positions on either side, including the end mark."""
    return store_of_pairs([([5] * (size - 1), [6] * (size - 1))] * count)


def batches(store: Store, tokens: int) -> int:
    config = BatchConfig(tokens=tokens)
    return sum(1 for _ in Bucketed(pair_widths(store), spans=store.spans, config=config, seed=1).batches(0))


@pytest.mark.parametrize(("count", "epochs"), [(400, 100), (7500, 60), (30_000, 30)])
def test_small_corpora_are_read_more_often(count: int, epochs: int) -> None:
    """30 times for 30,000 pairs, twice as often for a fourth of them, never more than 100 times."""
    store = pairs(count)
    settings = chosen(store)
    tokens = settings["batch"]["tokens"]
    assert tokens == max(256, min(4096, 8 * count // 100))
    assert settings["steps"] == max(200, epochs * batches(store, tokens))
    assert settings["validate_every"] == settings["checkpoint_every"] == max(50, batches(store, tokens))
    assert settings["schedule"]["warmup"] == settings["steps"] // 12
    assert settings["log_every"] == max(1, min(50, settings["steps"] // 200))
    assert settings["patience"] == 8


@pytest.mark.parametrize(("steps", "warmup"), [(2, 0), (40, 10), (200, 20), (100_000, 4000)])
def test_a_warm_up_leaves_most_of_a_run(steps: int, warmup: int) -> None:
    assert chosen(pairs(400), steps=steps)["schedule"]["warmup"] == warmup


def test_an_epoch_has_fewer_steps_when_gradients_are_summed() -> None:
    store = pairs(7500)
    steps = chosen(store)["steps"]
    assert chosen(store, accumulate=4)["steps"] == pytest.approx(steps / 4, rel=0.05)
    assert chosen(store, accumulate_tokens=1000)["steps"] == 60 * (7500 * 4 // 1000)


def test_a_device_takes_larger_batches() -> None:
    store = pairs(4000, size=256)
    assert [chosen(store, device=device)["batch"]["tokens"] for device in ("cpu", "cuda")] == [4096, 16_384]


@pytest.mark.parametrize(
    ("family", "kind", "rate"), [("luong", "adam", 4e-3), ("luong", "sgd", 0.7), ("plain", "adadelta", 1.0)]
)
def test_every_optimiser_has_its_default_rate(family: str, kind: str, rate: float) -> None:
    assert chosen(pairs(400), family, optimiser={"kind": kind})["optimiser"]["learning_rate"] == rate


@pytest.mark.parametrize(("family", "rate"), [("luong", 0.00187), ("plain", 0.00187), ("convolutional", 0.00187)])
def test_wide_layers_of_all_kinds_learn_more_slowly(family: str, rate: float) -> None:
    """0.06 / √width without a Transformer, and at most 4e-3."""
    values = {side: FAMILIES[family][side] | {"width": 1024} for side in ("encoder", "decoder")}
    settings, _ = completed(pairs(400), values, {})
    assert settings["training"]["optimiser"]["learning_rate"] == rate


@pytest.mark.parametrize(("width", "rate"), [(16, 2e-3), (256, 0.00125), (1024, 0.00063)])
def test_wide_transformers_learn_more_slowly(width: int, rate: float) -> None:
    """0.02 / √width, and at most 2e-3."""
    model = {side: FAMILIES["transformer"][side] | {"width": width} for side in ("encoder", "decoder")}
    settings, report = completed(pairs(400), model, {})
    assert settings["training"]["optimiser"]["learning_rate"] == pytest.approx(rate, abs=1e-5)
    assert f"  training.optimiser.learning_rate = {settings['training']['optimiser']['learning_rate']}" in report
