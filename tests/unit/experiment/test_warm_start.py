"""Warm start: rows of shared pieces are copied, and models that do not fit are rejected."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.conftest import toy_corpus, toy_values, without_plots
from tests.unit.training.objects import Killed

from calque.config import to_values
from calque.data.prepare import open_prepared
from calque.engine import load
from calque.errors import CalqueError, ConfigError
from calque.experiment import Run, assembly_of, resume, train
from calque.models.systems import system_model
from calque.training.checkpoints import load_weights

pytestmark = pytest.mark.usefixtures("unplotted")

SHORT = ("training.steps=4", "training.average=0", "training.checkpoint_every=4", "training.validate_every=4")
FROZEN = ("training.steps=1", "training.checkpoint_every=1", "training.optimiser.learning_rate=1e-30")


def make(folder: Path, model: Any, *settings: str, letters: str = "abcdefgh", seed: int = 0) -> Run:
    corpus = toy_corpus(folder / "corpus", letters=letters, seed=seed)
    return train(toy_values(corpus, model, *SHORT, *settings), run=folder / "run", quiet=True)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Run:
    with without_plots():
        return make(tmp_path_factory.mktemp("old"), "luong")


def test_with_the_same_vocabulary_every_weight_is_copied(old: Run, tmp_path: Path) -> None:
    new = make(tmp_path, "luong", *FROZEN, f"training.warm_start={old.folder}")
    copied = load_weights(new.folder / "checkpoints" / "step-1")
    expected = load_weights(old.folder / "checkpoints" / "step-4")
    for name, value in expected.items():
        torch.testing.assert_close(copied[name], value, rtol=0, atol=1e-12)
    assert "all target pieces are known" in (new.folder / "log.txt").read_text(encoding="utf-8")


NEW = {
    "hgfedcbaxy": "2 of 14 {side} pieces are new, with randomly initialised embeddings",
    "hgfedcba": "all {side} pieces are known",
}


@pytest.mark.parametrize("letters", NEW)
def test_rows_of_known_pieces_are_copied_and_new_ones_are_random(letters: str, old: Run, tmp_path: Path) -> None:
    """The new corpus has its letters in another order, and perhaps new ones; the log says how many."""
    new = make(tmp_path, "luong", *FROZEN, f"training.warm_start={old.folder}", letters=letters, seed=5)
    before, after = load(old.folder), load(new.folder)
    old_weights = load_weights(old.folder / "checkpoints" / "step-4")
    copied = load_weights(new.folder / "checkpoints" / "step-1")
    ids = [tokenizers.target.vocabulary for tokenizers in (before.tokenizers, after.tokenizers)]
    assert [ids[0].id(letter) for letter in "abcdefgh"] != [ids[1].id(letter) for letter in "abcdefgh"]
    for name in ("encoder.embedding.weight", "decoder.embedding.weight", "output.weight", "output.bias"):
        for letter in "abcdefgh":
            old_row, new_row = old_weights[name][ids[0].id(letter)], copied[name][ids[1].id(letter)]
            torch.testing.assert_close(new_row, old_row, rtol=0, atol=1e-12)
    initial = dict(assembly_of(new.config).build(open_prepared(new.folder / "store")).named_parameters())
    for letter in letters[8:]:
        row = ids[1].id(letter)
        torch.testing.assert_close(copied["output.weight"][row], initial["output.weight"][row], rtol=0, atol=1e-12)
    assert copied["output.weight"].shape[0] == old_weights["output.weight"].shape[0] + len(letters) - 8
    log = (new.folder / "log.txt").read_text(encoding="utf-8")
    assert all(NEW[letters].format(side=side) in log for side in ("source", "target"))


POSITIONED = {
    "gehring2017": ("encoder.embedding.positions", "decoder.embedding.positions"),
    "tiny": ("encoder.embedding.positions.weight", "decoder.embedding.positions.weight"),
}


@pytest.mark.parametrize("name", POSITIONED)
def test_positions_are_not_mistaken_for_pieces(name: str, tmp_path: Path) -> None:
    """Their rows are all copied, also if there are as many pieces as positions."""
    model = to_values(system_model(name, scale=0.02))
    if name == "tiny":
        model |= {"tie": "none"}
        for side in ("encoder", "decoder"):
            model[side] |= {"positions": "learned", "maximum_positions": 12}
    old = make(tmp_path / "old", model)
    new = make(tmp_path / "new", model, *FROZEN, f"training.warm_start={old.folder}", letters="hgfedcbaxy")
    old_weights = load_weights(old.folder / "checkpoints" / "step-4")
    copied = load_weights(new.folder / "checkpoints" / "step-1")
    for positions in POSITIONED[name]:
        torch.testing.assert_close(copied[positions], old_weights[positions], rtol=0, atol=1e-12)


def test_frequencies_in_an_output_layer_are_those_of_the_new_corpus(tmp_path: Path) -> None:
    sampled = ("model.output.kind=sampled", "model.output.samples=5", "training.label_smoothing=0")
    first = make(tmp_path / "first", "luong", *sampled)
    settings = (*FROZEN, *sampled, f"training.warm_start={first.folder}")
    warm = make(tmp_path / "warm", "luong", *settings, letters="hgfedcbaxy", seed=5)
    cold = make(tmp_path / "cold", "luong", *settings[:-1], letters="hgfedcbaxy", seed=5)
    copied, expected = (load_weights(run.folder / "checkpoints" / "step-1") for run in (warm, cold))
    assert torch.equal(copied["output.proposal"], expected["output.proposal"])
    assert not torch.equal(copied["output.weight"], expected["output.weight"])


def test_all_mismatches_are_reported(old: Run, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        make(
            tmp_path,
            "luong",
            f"training.warm_start={old.folder}",
            "model.decoder.embedding=20",
            "model.encoder.layers=2",
        )
    message = str(caught.value)
    assert "does not fit this model" in message
    assert "model.encoder.layers is 1 in the old model and 2 in the new" in message
    assert "model.decoder.embedding is 12 in the old model and 20 in the new" in message
    assert "is only in the new model" in message
    assert "more" in message.splitlines()[-1]
    assert len(message.splitlines()) < 12
    assert not (tmp_path / "run").exists()


def test_a_model_with_additional_weights_does_not_fit(old: Run, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\n  decoder\.\S+ is only in the old model"):
        make(tmp_path, "plain", f"training.warm_start={old.folder}")


def test_an_adaptive_output_layer_needs_the_same_vocabulary(old: Run, tmp_path: Path) -> None:
    settings = ("model.output.kind=adaptive", "training.label_smoothing=0")
    with pytest.raises(ConfigError, match="is only in the old model") as caught:  # that of the other layer
        make(tmp_path / "full", "luong", *settings, f"training.warm_start={old.folder}")
    assert "the order of the vocabulary" not in str(caught.value)
    adaptive = make(tmp_path / "adaptive", "luong", *settings).folder
    with pytest.raises(ConfigError, match="an adaptive output layer depends on the order of the vocabulary"):
        make(tmp_path / "other", "luong", *settings, f"training.warm_start={adaptive}", letters="hgfedcbaxy")
    make(tmp_path / "same", "luong", *settings, f"training.warm_start={adaptive}")


def test_a_vocabulary_that_is_mostly_unknown_is_rejected(old: Run, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has only 4 of the 20 source pieces; use its vocabulary with text\.kind"):
        make(tmp_path, "luong", f"training.warm_start={old.folder}", letters="ijklmnopqrstuvwx")
    assert not (tmp_path / "run" / "config.toml").exists(), "the name can be used again"


def test_a_given_vocabulary_that_is_mostly_unknown_is_rejected_before_the_data_is_prepared(
    old: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = make(tmp_path / "other", "luong", letters="ijklmnopqrstuvwx")

    def unprepared(*_arguments: object, **_named: object) -> None:
        raise AssertionError("the data is prepared")

    monkeypatch.setattr("calque.data.prepare._fill", unprepared)
    values = toy_values(toy_corpus(tmp_path / "corpus"), "luong", *SHORT, f"training.warm_start={old.folder}")
    values["text"] = {"kind": "given", "path": str(foreign.folder)}
    with pytest.raises(ConfigError, match="has only 4 of the 20 source pieces"):
        train(values, run=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_no_run_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(CalqueError, match="nothing"):
        make(tmp_path, "luong", f"training.warm_start={tmp_path / 'nothing'}")
    assert not (tmp_path / "run").exists()


def test_a_missing_tensorboard_is_noticed_before_the_run_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)
    with pytest.raises(ConfigError, match="pip install tensorboard"):
        make(tmp_path, "luong", "training.tensorboard=true")
    assert not (tmp_path / "run").exists()


def test_a_run_killed_in_its_first_save_still_has_a_warm_start(
    old: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of checkpoints holds only an unfinished checkpoint."""

    def killed(*_arguments: object, **_named: object) -> None:
        raise Killed

    settings = (*FROZEN, f"training.warm_start={old.folder}")
    with monkeypatch.context() as patch:
        patch.setattr("calque.training.checkpointing.save_checkpoint", killed)
        with pytest.raises(Killed):
            make(tmp_path, "luong", *settings)
    (tmp_path / "run" / "checkpoints" / "step-1.tmp-1").mkdir(parents=True)
    resume(tmp_path / "run", quiet=True)
    copied = load_weights(tmp_path / "run" / "checkpoints" / "step-1")
    for name, value in load_weights(old.folder / "checkpoints" / "step-4").items():
        torch.testing.assert_close(copied[name], value, rtol=0, atol=1e-12)
