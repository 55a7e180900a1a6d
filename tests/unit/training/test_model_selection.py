"""Validation when memory runs out: smaller batches, or an error that says what to do."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.conftest import toy_values
from tests.unit.training.objects import digests

from calque.engine.decoding import decode_batch
from calque.errors import TrainingError
from calque.experiment import Run, resume, train
from calque.models.model import Model
from calque.training.checkpoints import newest_checkpoint
from calque.training.journal import read_journal

pytestmark = pytest.mark.usefixtures("unplotted")


def starve(patch: pytest.MonkeyPatch, where: str, *, rows: int) -> list[int]:
    """Makes validation run out of memory beyond `rows` rows, in its loss or search; a list of the rows that fitted."""
    forward = Model.forward
    fitted: list[int] = []

    def take(count: int) -> None:
        if count > rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        fitted.append(count)

    def starved_forward(self: Model, source: Any, *arguments: Any, **named: Any) -> Any:
        if not self.training:
            take(len(source.lengths))
        return forward(self, source, *arguments, **named)

    def starved_decode(models: Any, parts: Sequence[Any], *arguments: Any, **named: Any) -> Any:
        take(len(parts))
        return decode_batch(models, parts, *arguments, **named)

    if where == "loss":
        patch.setattr(Model, "forward", starved_forward)
    else:
        patch.setattr("calque.engine.engine.decode_batch", starved_decode)
    return fitted


@pytest.mark.parametrize("where", ["loss", "search"])
@pytest.mark.parametrize("family", ["plain", "transformer"])
def test_a_validation_that_does_not_fit_uses_smaller_batches_with_the_same_results(
    family: str,
    where: str,
    corpus: dict[str, Path],
    uninterrupted: Callable[..., Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Training then continues as usual, with its dropout."""
    roomy = uninterrupted(family)
    fitted = starve(monkeypatch, where, rows=1)
    run = train(toy_values(corpus, family), run=tmp_path / "run", quiet=True)
    assert len(fitted) >= 3
    reached, expected = digests(run.folder), digests(roomy.folder)
    assert reached.keys() == expected.keys()
    assert [name for name in reached if reached[name] != expected[name]] in (
        [],
        ["metrics.jsonl"],
    )  # the loss is rounded
    lines = [read_journal(folder / "metrics.jsonl") for folder in (run.folder, roomy.folder)]
    for line, expected_line in zip(*lines, strict=True):
        assert line.pop("kind") == expected_line.pop("kind")
        assert line == pytest.approx(expected_line, rel=1e-6)


@pytest.mark.parametrize("where", ["loss", "search"])
def test_a_validation_in_which_no_sentence_fits_ends_the_run_with_its_checkpoint(
    where: str,
    corpus: dict[str, Path],
    uninterrupted: Callable[..., Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        starve(patch, where, rows=0)
        with pytest.raises(TrainingError, match=r"validation of step 5 even with one row.* search\.maximum"):
            train(toy_values(corpus, "plain"), run=tmp_path / "run", quiet=True)
    saved = newest_checkpoint(tmp_path / "run" / "checkpoints")
    assert saved is not None
    assert saved.step == 4
    assert digests(resume(tmp_path / "run", quiet=True).folder) == digests(uninterrupted("plain").folder)


def test_other_errors_in_a_validation_are_not_mistaken_for_a_lack_of_memory(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: Any, **_named: Any) -> Any:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr("calque.engine.engine.decode_batch", broken)
    with pytest.raises(RuntimeError, match="mat1"):
        train(toy_values(corpus, "plain"), run=tmp_path / "run", quiet=True)


def test_a_best_model_at_chance_level_is_reported_as_best_by_its_loss(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A toy model translates nothing correctly in its first steps."""
    logs = []
    for bleu in (0.5, 50.0):
        monkeypatch.setattr("calque.experiment.judges.bleu", lambda *_, bleu=bleu: bleu)
        run = train(toy_values(corpus, "plain"), run=tmp_path / str(bleu), quiet=True)
        logs.append((run.folder / "log.txt").read_text(encoding="utf-8"))
    assert "(best so far, by its loss)" in logs[0] and "(best so far)" not in logs[0]
    assert "(best so far)" in logs[1] and "by its loss" not in logs[1]
