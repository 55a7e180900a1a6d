"""Folders that earlier versions wrote: models translate as they did, and killed runs resume to the same weights.

`make.py` says how the folders were made. Numbers are compared as float64 allows across processors, text exactly.
"""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from calque import load
from calque.experiment import average_run, resume
from calque.training.journal import read_journal
from tests.formats.make import CORPUS

HERE = Path(__file__).parent
PAIRS_ONLY = HERE / "pairs_only"
MODELS = sorted(path for path in (PAIRS_ONLY / "models").iterdir() if path.name != "language-model")
KILLED = sorted((PAIRS_ONLY / "killed").iterdir())
LATER = {"clipped"}  # metrics that later versions record


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("folder", MODELS, ids=lambda path: path.name)
def test_models_translate_to_the_same_text(folder: Path, beam: int) -> None:
    recorded = [json.loads(line) for line in (folder / f"beam-{beam}.jsonl").read_text(encoding="utf-8").splitlines()]
    model = load(folder / "model", device="cpu", precision="float64")
    search = model.search.model_copy(update={"beam": beam})
    translations = model.stream([line["source"] for line in recorded], search=search, nbest=min(2, beam))
    for line, translation in zip(recorded, translations, strict=True):
        assert [candidate.text for candidate in translation.candidates] == [
            candidate["text"] for candidate in line["candidates"]
        ]
        for candidate, before in zip(translation.candidates, line["candidates"], strict=True):
            assert candidate.score == pytest.approx(before["score"], abs=1e-9)
            assert candidate.log_prob == pytest.approx(before["log_prob"], abs=1e-9)


@pytest.mark.usefixtures("unplotted")
@pytest.mark.parametrize("folder", KILLED, ids=lambda path: path.name)
def test_a_killed_run_resumes_to_the_same_weights(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(folder / "run", run)
    config = (run / "config.toml").read_text(encoding="utf-8")
    (run / "config.toml").write_text(config.replace(CORPUS, str(PAIRS_ONLY / "corpus")), encoding="utf-8")
    resume(run, quiet=True)
    _assert_same_weights(run / "checkpoints" / "step-24" / "weights.safetensors", folder / "weights.safetensors")
    _assert_same_weights(run / "model" / "weights.safetensors", folder / "model.safetensors")
    lines, before = (read_journal(path / "metrics.jsonl") for path in (run, folder))
    assert {key for line in lines for key in line} - {key for line in before for key in line} == LATER
    for line, recorded in zip(lines, before, strict=True):
        assert {key: value for key, value in line.items() if key not in LATER} == pytest.approx(recorded, abs=1e-9)


@pytest.mark.parametrize("folder", KILLED, ids=lambda path: path.name)
def test_the_mean_of_a_runs_checkpoints_is_a_model_like_the_runs_own(folder: Path, tmp_path: Path) -> None:
    steps = average_run(folder / "run", of="last", count=None, output=tmp_path / "mean")
    checkpoints = [load_file(folder / "run" / "checkpoints" / f"step-{step}" / "weights.safetensors") for step in steps]
    own, mean = (
        load(path, device="cpu", precision="float64") for path in (folder / "run" / "model", tmp_path / "mean")
    )
    assert (mean.config, mean.length_profile) == (own.config, own.length_profile)
    assert mean.confidence is None
    for name, value in mean.model.named_parameters():
        expected = torch.stack([weights[name].double() for weights in checkpoints]).mean(dim=0)
        torch.testing.assert_close(value.double(), expected, rtol=0, atol=1e-7)
    assert isinstance(mean.translate("a b c"), str)


def _assert_same_weights(path: Path, recorded: Path) -> None:
    weights, before = load_file(path), load_file(recorded)
    assert weights.keys() == before.keys()
    for name, values in weights.items():
        torch.testing.assert_close(values, before[name], rtol=0, atol=1e-9)
