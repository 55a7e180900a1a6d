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
from calque.engine import TextGenerator, save_language_model
from calque.engine.model_files import FORMAT, FORMATS, INT8_FORMAT
from calque.experiment import average_run, resume
from calque.training.journal import read_journal
from tests.formats.make import CORPUS

HERE = Path(__file__).parent
ERAS = {"pairs_only": 1, "no_target_limits": 2}
"""The folders of earlier versions, and the format of their models."""
MODELS = [path for era in ERAS for path in sorted((HERE / era / "models").iterdir())]
TRANSLATORS = [path for path in MODELS if path.name != "language-model"]
KILLED = [path for era in ERAS for path in sorted((HERE / era / "killed").iterdir())]
LATER = {"pairs_only": {"clipped"}, "no_target_limits": set[str]()}  # metrics that later versions record


def name_of(folder: Path) -> str:
    return f"{era_of(folder)}-{folder.name}"


def era_of(folder: Path) -> str:
    return folder.relative_to(HERE).parts[0]


@pytest.mark.parametrize("folder", MODELS, ids=name_of)
def test_every_earlier_format_has_a_folder(folder: Path) -> None:
    assert set(ERAS.values()) == {*FORMATS} - {FORMAT, INT8_FORMAT}  # both are written today
    manifest = json.loads((folder / "model" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["format"] == ERAS[era_of(folder)]


def test_a_language_model_of_format_2_scores_as_one_that_is_saved_anew(tmp_path: Path) -> None:
    model = load(HERE / "no_target_limits" / "models" / "language-model", device="cpu", precision="float64")
    assert isinstance(model, TextGenerator)
    save_language_model(tmp_path / "model", model, card="")
    assert json.loads((tmp_path / "model" / "manifest.json").read_text(encoding="utf-8"))["format"] == FORMAT
    again = load(tmp_path / "model", device="cpu", precision="float64")
    assert list(model.score(["be cab dad"])) == list(again.score(["be cab dad"]))


@pytest.mark.parametrize("folder", TRANSLATORS, ids=name_of)
def test_translators_of_earlier_formats_have_no_limits_of_target_lengths(folder: Path) -> None:
    profile = load(folder / "model", device="cpu").length_profile
    assert profile is not None and profile.pieces > 1
    assert profile.targets == () and profile.longest_target(3) is None


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("folder", TRANSLATORS, ids=name_of)
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
@pytest.mark.parametrize("folder", KILLED, ids=name_of)
def test_a_killed_run_resumes_to_the_same_weights(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(folder / "run", run)
    config = (run / "config.toml").read_text(encoding="utf-8")
    (run / "config.toml").write_text(config.replace(CORPUS, str(HERE / era_of(folder) / "corpus")), encoding="utf-8")
    resume(run, quiet=True)
    _assert_same_weights(run / "checkpoints" / "step-24" / "weights.safetensors", folder / "weights.safetensors")
    _assert_same_weights(run / "model" / "weights.safetensors", folder / "model.safetensors")
    lines, before = (read_journal(path / "metrics.jsonl") for path in (run, folder))
    later = LATER[era_of(folder)]
    assert {key for line in lines for key in line} - {key for line in before for key in line} == later
    for line, recorded in zip(lines, before, strict=True):
        assert {key: value for key, value in line.items() if key not in later} == pytest.approx(recorded, abs=1e-9)


@pytest.mark.parametrize("folder", KILLED, ids=name_of)
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
