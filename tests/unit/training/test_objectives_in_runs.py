"""Every objective in a run: resuming from an older checkpoint gives the same bytes; misfits are rejected."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Answer, toy_corpus, toy_values

from calque.data.batch import Batch
from calque.experiment import resume, train
from calque.training.journal import read_journal
from calque.training.loop import Trainer

PIECES = ["text.kind=sentencepiece", "text.vocabulary_size=290"]
OBJECTIVES = {
    "scheduled-sampling": [
        "training.objective.method.kind=scheduled-sampling",
        "training.objective.method.decay.kind=linear",
        "training.objective.method.decay.c=0.05",
    ],
    "r-drop": ["training.objective.method.kind=r-drop"],
    "minimum-risk": ["training.objective.method.kind=minimum-risk", "training.objective.method.samples=3"],
    "word-dropout": [f"training.objective.word_dropout.{side}=0.2" for side in ("source", "target")],
    "guidance": ["training.objective.guidance.weight=0.3"],
    "bpe-dropout": [*PIECES, "training.subwords.kind=bpe-dropout", "training.subwords.dropout=0.3"],
    "unigram": [*PIECES, "text.algorithm=unigram", "training.subwords.kind=unigram"],
}
SAME = ("metrics.jsonl", "checkpoints/step-14/weights.safetensors", "checkpoints/step-14/optimiser.safetensors")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reversed letters, with their word alignments."""
    files = toy_corpus(tmp_path_factory.mktemp("corpus"))
    lengths = [len(line.split()) for line in files["source"].read_text(encoding="utf-8").splitlines()]
    links = "".join(" ".join(f"{word}-{size - 1 - word}" for word in range(size)) + "\n" for size in lengths)
    files["source"].with_name("links").write_text(links, encoding="utf-8")
    return files


def values_of(corpus: dict[str, Path], family: str, objective: str):
    values = toy_values(corpus, family, *OBJECTIVES[objective])
    if objective == "guidance":
        values["data"]["train"][0]["alignments"] = str(corpus["source"].with_name("links"))
    return values


@pytest.mark.usefixtures("unplotted")
@pytest.mark.parametrize(
    ("family", "objective"),
    [
        *(pytest.param("transformer", objective) for objective in OBJECTIVES),
        *(
            pytest.param(family, objective, marks=pytest.mark.slow)
            for family in ("plain", "luong", "bahdanau", "convolutional")
            for objective in OBJECTIVES
            if family != "plain" or objective != "guidance"
        ),
    ],
)
def test_a_resumed_run_ends_with_the_same_bytes(
    family: str, objective: str, corpus: dict[str, Path], tmp_path: Path
) -> None:
    train(values_of(corpus, family, objective), run=tmp_path / "whole", quiet=True)
    shutil.copytree(tmp_path / "whole", tmp_path / "resumed")
    for step in (12, 14):
        shutil.rmtree(tmp_path / f"resumed/checkpoints/step-{step}")
    resume(tmp_path / "resumed", quiet=True)
    for name in SAME:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "resumed" / name).read_bytes(), name


@pytest.mark.usefixtures("unplotted")
def test_batches_of_sampled_pieces_keep_the_budget(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words split into letters and word boundaries are twice as long, so a batch has half the pairs."""
    positions: dict[str, list[int]] = {}
    for name, settings in {"fixed": [], "sampled": ["kind=bpe-dropout", "dropout=1.0"]}.items():
        counts = positions.setdefault(name, [])

        def step(self: Trainer, batches: list[Batch], counts: list[int] = counts) -> None:
            counts.extend(batch.positions for batch in batches)
            self.learner.progress.step += 1

        monkeypatch.setattr(Trainer, "_step", step)
        subwords = [f"training.subwords.{setting}" for setting in settings]
        train(toy_values(corpus, "plain", *PIECES, *subwords), run=tmp_path / name, quiet=True)
    means = {name: sum(counts) / len(counts) for name, counts in positions.items()}
    assert 0.5 * means["fixed"] < means["sampled"] < 1.2 * means["fixed"]


def test_misfits_are_a_users_mistake(corpus: dict[str, Path], tmp_path: Path, command: Callable[..., Answer]) -> None:
    files = ("--source", corpus["source"], "--target", corpus["target"], "--run", tmp_path / "run")
    answer = command("train", *files, "training.objective.guidance.weight=0.5")
    assert answer.code == 2
    assert "needs word alignments" in answer.err
    broken = tmp_path / "broken"
    broken.write_text("0-0 9-9\n" * 150, encoding="utf-8")
    answer = command("train", *files, "--alignments", broken, "training.objective.guidance.weight=0.5")
    assert answer.code == 2
    assert f"{broken}: line 1: 9-9 links source word 9" in answer.err
    answer = command("train", *files, "training.subwords.kind=unigram")
    assert answer.code == 2
    assert "set text.algorithm = 'unigram'" in answer.err
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("unplotted")
def test_the_objective_is_reported_beside_the_loss(corpus: dict[str, Path], tmp_path: Path) -> None:
    still = ("model.encoder.dropout=0.3", "model.decoder.dropout=0.3", "training.log_every=1", "training.steps=2")
    alone = (
        *OBJECTIVES["minimum-risk"],
        "training.objective.method.weight=1",
        "training.objective.method.reference=false",
    )
    lines = {}
    for name, overrides in (("plain", ()), ("r-drop", OBJECTIVES["r-drop"]), ("risk", alone)):
        train(toy_values(corpus, "transformer", *still, *overrides), run=tmp_path / name, quiet=True)
        lines[name] = [line for line in read_journal(tmp_path / name / "metrics.jsonl") if line["kind"] == "train"]
        assert len(lines[name]) == 2
    assert all(line["objective"] == line["loss"] for line in lines["plain"])
    assert all(line["objective"] > line["loss"] + 1e-3 for line in lines["r-drop"])
    assert all(0 < line["objective"] < 1 < line["loss"] for line in lines["risk"])


@pytest.mark.usefixtures("unplotted")
@pytest.mark.parametrize(
    ("overrides", "is_reported"),
    [
        ((), True),
        (("model.encoder.attention_dropout=0.1",), False),
        (("training.objective.word_dropout.target=0.1",), False),
    ],
)
def test_r_drop_without_dropout_is_reported(
    overrides: tuple[str, ...], is_reported: bool, corpus: dict[str, Path], tmp_path: Path
) -> None:
    kinds = ("dropout", "attention_dropout", "activation_dropout")
    still = [f"model.{side}.{kind}=0" for side in ("encoder", "decoder") for kind in kinds]
    values = toy_values(corpus, "transformer", *still, "training.steps=1", *OBJECTIVES["r-drop"], *overrides)
    train(values, run=tmp_path / "run", quiet=True)
    assert (
        "r-drop has no effect: without dropout" in (tmp_path / "run/log.txt").read_text(encoding="utf-8")
    ) == is_reported
