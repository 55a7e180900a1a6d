"""`calque average`: averaged a run's checkpoints as a new model."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from calque.engine import load
from calque.experiment import train
from calque.training.checkpoints import scheduled_steps
from calque.training.journal import read_journal
from calque.training.lock import run_lock
from tests.conftest import Answer, toy_corpus, toy_values


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with the checkpoints of steps 4, 8, 12 and 14, all but one of them validated; tests must not change it."""
    folder = tmp_path_factory.mktemp("run")
    settings = ("training.average=0", "training.keep=4", "training.validate_every=4", "training.metric=loss")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("calque.experiment.running.draw_curves", lambda _folder: True)
        finished = train(toy_values(toy_corpus(folder), "luong", *settings), run=folder / "run", quiet=True).folder
    assert scheduled_steps(finished / "checkpoints") == [4, 8, 12, 14]
    return finished


def expected(run: Path, *steps: int) -> dict[str, torch.Tensor]:
    """The mean of each weight, computed in float64."""
    weights = [load_file(run / "checkpoints" / f"step-{step}" / "weights.safetensors") for step in steps]
    return {name: sum(checkpoint[name].double() for checkpoint in weights).float() / len(steps) for name in weights[0]}


def best(run: Path, count: int) -> list[int]:
    lines = [line for line in read_journal(run / "metrics.jsonl") if line["kind"] == "valid"]
    return sorted(line["step"] for line in sorted(lines, key=lambda line: line["loss"])[:count])


@pytest.mark.parametrize(
    ("options", "steps"),
    [([], [4, 8, 12, 14]), (["-n", 2], [12, 14]), (["--of", "last", "--count", 1], [14])],
    ids=["all", "last two", "last"],
)
def test_the_last_checkpoints_are_averaged(
    run: Path, tmp_path: Path, options: list[object], steps: list[int], command: Callable[..., Answer]
) -> None:
    answer = command("average", run, *options, "--output", tmp_path / "mean")
    assert (answer.code, answer.out) == (0, f"{tmp_path / 'mean'}\n")
    several = f"averaged {len(steps)} checkpoints: steps {', '.join(map(str, steps))}"
    single = f"only one checkpoint was found, so nothing was averaged; the model is that of step {steps[0]}"
    assert (several if len(steps) > 1 else single) in answer.err
    averaged = load_file(tmp_path / "mean" / "weights.safetensors")
    for name, value in expected(run, *steps).items():
        torch.testing.assert_close(averaged[name], value, rtol=0, atol=1e-7)


def test_the_average_of_the_best_checkpoints_translates(run: Path, command: Callable[..., Answer]) -> None:
    before = (run / "model" / "weights.safetensors").read_bytes()
    answer = command("average", run, "--of", "best", "-n", 2)
    assert answer.out == f"{run / 'averaged'}\n"
    assert f"steps {', '.join(map(str, best(run, 2)))}\n" in answer.err
    translator = load(run / "averaged", device="cpu")
    assert translator.confidence is None
    assert isinstance(translator.translate("a b c"), str)
    assert "the mean of the checkpoints of steps" in (run / "averaged" / "README.md").read_text(encoding="utf-8")
    assert (run / "model" / "weights.safetensors").read_bytes() == before
    assert command("average", run, "--of", "best", "-n", 2).code == 0  # the earlier average is replaced


def test_mistakes_are_reported(run: Path, tmp_path: Path, command: Callable[..., Answer]) -> None:
    (tmp_path / "there").mkdir()
    for arguments, message in (
        ([run, "-n", 5], "has 4 checkpoints, of steps 4, 8, 12, 14, but 5 are needed"),
        ([run, "--of", "worst"], "--of: 'worst' is not one of last, best"),
        ([run, "--of", "best", "-n", 5], "4 validated checkpoints"),
        ([tmp_path / "nothing"], "not a run folder"),
        ([run / "model"], "not a run folder"),
        ([run, "--output", tmp_path / "there"], "already exists"),
    ):
        answer = command("average", *arguments)
        assert answer.code == 2
        assert message in " ".join(answer.err.split())
        assert "Traceback" not in answer.err
    with run_lock(run):
        assert "is being trained" in command("average", run).err


def test_a_damaged_checkpoint_is_named(run: Path, tmp_path: Path, command: Callable[..., Answer]) -> None:
    weights = run / "checkpoints" / "step-8" / "weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    try:
        answer = command("average", run, "--output", tmp_path / "mean")
    finally:
        weights.write_bytes(whole)
    assert answer.code == 2
    assert "step-8" in answer.err
    assert not (tmp_path / "mean").exists()
