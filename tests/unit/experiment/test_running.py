"""From a config to a run: chosen settings, records, and what is rejected."""

import json
import math
import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.conftest import FAMILIES, Answer, Values, toy_corpus, toy_values

from calque.config import check, override, read_toml, to_toml, to_values, values_to_toml
from calque.data.prepare import Prepared, open_prepared, prepare
from calque.engine import load
from calque.errors import ConfigError, DataError, FolderError, UserError
from calque.experiment import (
    Experiment,
    assembly_of,
    differences,
    experiment_values,
    resume,
    train,
)
from calque.experiment.assembly import BaseAssembly, completed_card, refuse_warm_start
from calque.models.systems import SYSTEMS
from calque.tasks.interfaces import Judgement
from calque.text import EOS, load_tokenizers
from calque.training.auto_settings import complete_settings
from calque.training.journal import read_journal
from calque.training.lock import run_lock
from calque.training.runs import new_run_folder
from calque.training.settings import TrainingConfig

pytestmark = pytest.mark.usefixtures("unplotted")


@pytest.fixture
def corpus(tmp_path: Path) -> dict[str, Path]:
    return toy_corpus(tmp_path / "corpus")


def open_values(corpus: dict[str, Path], **training: Any) -> Values:
    """Values with nearly every setting open."""
    values = toy_values(corpus, "plain")
    return {**values, "training": {"threads": 1, "device": "cpu", **training}}


# --- Auto choices ---


def prepared_in(folder: Path, experiment: Experiment, *, workers: int | None = None) -> Prepared:
    return prepare(experiment.data, preparation=assembly_of(experiment).preparation, folder=folder, workers=workers)


def choose(values: Values, folder: Path) -> tuple[Values, list[str]]:
    experiment = check(Experiment, values, origin="test")
    corpus = assembly_of(experiment).corpus(prepared_in(folder, experiment))
    return complete_settings(values, corpus, device="cpu")


def test_open_settings_are_chosen_printed_and_saved(
    corpus: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = open_values(corpus, steps=4, batch={"tokens": 300})
    run = train(values, run=tmp_path / "run")
    messages = capsys.readouterr().err
    config = tomllib.loads((run.folder / "config.toml").read_text(encoding="utf-8"))
    for key in ("validate_every", "checkpoint_every", "log_every", "patience"):
        assert f"training.{key} = {config['training'][key]}\n" in messages
    assert f"training.optimiser.learning_rate = {config['training']['optimiser']['learning_rate']}\n" in messages
    assert f"training.schedule.warmup = {config['training']['schedule']['warmup']}\n" in messages
    assert "training.steps" not in messages  # explicit settings are not chosen
    assert "training.batch" not in messages
    assert (config["training"]["steps"], config["training"]["batch"]["tokens"]) == (4, 300)
    before = (run.folder / "config.toml").read_bytes()
    resume(run.folder)
    assert "chosen for" not in capsys.readouterr().err
    assert (run.folder / "config.toml").read_bytes() == before


def test_explicit_settings_are_never_changed(corpus: dict[str, Path], tmp_path: Path) -> None:
    values = to_values(check(Experiment, toy_values(corpus, "luong"), origin="test"))
    values["training"]["patience"] = 0
    completed, report = choose(values, tmp_path / "store")
    assert (completed, report) == (values, [])


@pytest.mark.parametrize("family", FAMILIES)
def test_choices_are_sane_for_every_family(family: str, corpus: dict[str, Path], tmp_path: Path) -> None:
    values = {**open_values(corpus), "model": FAMILIES[family]}
    completed, _ = choose(values, tmp_path / "store")
    chosen = check(Experiment, completed, origin="test").training
    assert chosen.steps >= 200
    assert 1 <= chosen.validate_every <= chosen.steps
    assert chosen.checkpoint_every == chosen.validate_every
    assert 0 < chosen.schedule.warmup < chosen.steps
    assert 256 <= chosen.batch.tokens <= 4096
    assert 0 < chosen.optimiser.learning_rate <= 4e-3
    assert chosen.device == "cpu"


def test_one_per_cent_between_fifty_and_two_thousand_is_held_out(tmp_path: Path) -> None:
    for pairs, expected in ((60, 30), (150, 50), (9000, 90)):
        corpus = toy_corpus(tmp_path / f"{pairs}", pairs=pairs, letters="abcdefghijklmnopqrstuvwxyz", longest=9)
        experiment = check(Experiment, open_values(corpus), origin="test")
        prepared = prepared_in(tmp_path / f"store-{pairs}", experiment, workers=1)
        assert len(prepared.valid) == pytest.approx(expected, abs=1)  # equal sources stay together
        assert len(prepared.train) + len(prepared.valid) == pairs
    assert experiment.data.validation.maximum == 2000


def test_duplicates_are_held_out_together_and_always_the_same_ones(tmp_path: Path) -> None:
    corpus = toy_corpus(tmp_path / "corpus", pairs=400, letters="ab", longest=7)
    experiment = check(Experiment, open_values(corpus), origin="test")
    first = prepared_in(tmp_path / "first", experiment)
    held_out = {source for source, _ in first.valid_text}
    sources, rows = load_tokenizers(first.vocabularies).source, first.train["source"]
    learnt = {sources.decode(rows.row(row).tolist()) for row in range(len(first.train))}
    assert held_out
    assert learnt
    assert not held_out & learnt
    lines = [path.read_text(encoding="utf-8").splitlines()[::-1] for path in corpus.values()]
    for path, reversed_lines in zip(corpus.values(), lines, strict=True):
        path.write_text("".join(f"{line}\n" for line in reversed_lines), encoding="utf-8")
    again = prepared_in(tmp_path / "again", experiment)
    assert {source for source, _ in again.valid_text} == held_out


# --- Configs in, configs out ---


def test_train_takes_values_a_file_or_an_experiment(corpus: dict[str, Path], tmp_path: Path) -> None:
    nothing_open = ("training.steps=2", "training.optimiser.learning_rate=0.002")  # a written file says everything
    experiment = check(Experiment, toy_values(corpus, "plain", *nothing_open), origin="test")
    file = tmp_path / "my config.toml"
    file.write_text(to_toml(experiment), encoding="utf-8")
    weights = set()
    for number, config in enumerate((experiment, to_values(experiment), file, str(file))):
        run = train(config, run=str(tmp_path / f"run {number}"), quiet=True)
        weights.add((run.folder / "model" / "weights.safetensors").read_bytes())
        assert run.config == check(Experiment, read_toml(run.folder / "config.toml"), origin="test")
    assert len(weights) == 1


def test_a_run_made_with_relative_paths_is_resumed_from_anywhere(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "corpus")
    values = toy_values({side: Path(path.name) for side, path in corpus.items()}, "plain", "training.steps=2")
    run = train(values, quiet=True)
    assert run.folder == Path("runs/1")
    folder = run.folder.absolute()
    monkeypatch.chdir(tmp_path)
    assert resume(folder, quiet=True).summary.step == 2


def test_systems_override_the_file_and_are_overridden_by_assignments(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('seed = 5\n[model]\ntie = "target"\n[data]\nmaximum_length = 9\n', encoding="utf-8")
    values = experiment_values(
        config=file, system="small", corpora={"train": []}, assignments=["model.tie=none", "training.steps=7"]
    )
    assert values["seed"] == 5
    assert values["model"] == {**to_values(SYSTEMS["small"].model), "tie": "none"}
    assert values["data"] == {"maximum_length": 9, "train": []}
    assert values["training"] == {"steps": 7}


def test_an_unknown_system_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown system 'tinny'; did you mean 'tiny'\? Available systems: cho2014, sutskever2014"
    ):
        experiment_values(config=None, system="tinny", corpora={}, assignments=[])


def test_initial_weights_depend_on_the_seed(corpus: dict[str, Path], tmp_path: Path) -> None:
    def weights(seed: int) -> torch.Tensor:
        experiment = check(Experiment, toy_values(corpus, "luong", f"seed={seed}"), origin="test")
        model = assembly_of(experiment).build(prepared_in(tmp_path / "store", experiment))
        return torch.cat([value.flatten() for value in model.parameters()])

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


# --- Run folders ---


def test_runs_are_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert new_run_folder(None) == Path("runs/1")
    Path("runs/9").mkdir()
    Path("runs/other").mkdir()
    assert new_run_folder(None) == Path("runs/10")
    monkeypatch.setattr(Path, "iterdir", lambda _self: iter([]))  # listed before another process created its folder
    assert new_run_folder(None) == Path("runs/2")


def test_an_unfinished_config_of_a_killed_process_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "config.toml.tmp").write_text("[trai", encoding="utf-8")
    assert new_run_folder(tmp_path) == tmp_path


def test_a_folder_that_is_not_empty_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FolderError, match="every run needs an empty folder"):
        new_run_folder(tmp_path)
    with pytest.raises(FolderError, match="every run needs an empty folder"):
        new_run_folder(tmp_path / "file")
    (tmp_path / "config.toml").touch()
    with pytest.raises(FolderError, match="--resume"):
        new_run_folder(tmp_path)


def missing(corpus: dict[str, Path]) -> Values:
    return toy_values({**corpus, "target": corpus["target"].with_name("nowhere")}, "plain")


def misaligned(corpus: dict[str, Path]) -> Values:
    corpus["target"].write_text("a\n" * 140, encoding="utf-8")
    return toy_values(corpus, "plain")


def untied(corpus: dict[str, Path]) -> Values:
    return toy_values(corpus, "plain", "model.tie=all")


def unbridged(corpus: dict[str, Path]) -> Values:
    return toy_values(corpus, "plain", "model.decoder.width=20")


def elsewhere(corpus: dict[str, Path]) -> Values:
    return toy_values(corpus, "plain", "training.device=mps")


@pytest.mark.parametrize("mistake", [missing, misaligned, untied, unbridged, elsewhere])
def test_a_mistake_leaves_no_folder_behind(
    mistake: Callable[[dict[str, Path]], Values], corpus: dict[str, Path], tmp_path: Path
) -> None:
    """So that the corrected command can be repeated."""
    with pytest.raises(UserError):
        train(mistake(corpus), run=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


ADAPTIVE = ("model.output.kind=adaptive", "training.label_smoothing=0", "training.steps=2")


def refuse_cutoffs(corpus: dict[str, Path], run: Path | None, *overrides: str) -> str:
    """The message about cutoffs that only the prepared data shows to be wrong."""
    values = toy_values(corpus, "plain", *ADAPTIVE, "model.output.cutoffs=[2, 5000]", *overrides)
    with pytest.raises(ConfigError, match="below the target vocabulary size of 12") as caught:
        train(values, run=run, quiet=True)
    return str(caught.value)


def unprepared(*_arguments: object, **_named: object) -> None:
    raise AssertionError("the data is prepared")


@pytest.mark.parametrize("named", [True, False])
def test_prepared_data_survives_a_config_that_turned_out_wrong(
    named: bool, corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Preparing may have taken hours; the corrected config uses the data in the folder that the message names."""
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run" if named else Path("runs/1")
    for _ in range(2):
        messages = refuse_cutoffs(corpus, run if named or run.exists() else None)
        assert (
            f"the prepared data is kept in {run / 'store'}; to reuse it with a corrected config, give --run {run}"
            in messages
        )
        assert [path.name for path in run.iterdir()] == ["store"]
        monkeypatch.setattr("calque.data.prepare._fill", unprepared)
    corrected = train(toy_values(corpus, "plain", *ADAPTIVE, "model.output.cutoffs=[2, 5]"), run=run, quiet=True)
    assert (corrected.folder, corrected.summary.step) == (run, 2)


def test_data_prepared_from_something_else_is_rejected_and_stays(corpus: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    refuse_cutoffs(corpus, run)
    with pytest.raises(DataError, match=r"prepared from other data or settings:\n  text.*\n.*remove this one"):
        train(toy_values(corpus, "plain", "text.minimum_count=2"), run=run, quiet=True)
    assert [path.name for path in run.iterdir()] == ["store"]


def test_a_store_outside_the_run_folder_stays(corpus: dict[str, Path], tmp_path: Path) -> None:
    messages = refuse_cutoffs(corpus, tmp_path / "run", f"data.store={tmp_path / 'store'}")
    assert "kept" not in messages
    assert not (tmp_path / "run").exists()
    assert (tmp_path / "store" / "manifest.json").is_file()


def test_a_folder_without_a_manifest_is_not_taken_for_a_store(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with pytest.raises(FolderError, match="every run needs an empty folder"):
        new_run_folder(tmp_path)
    (tmp_path / "store" / "manifest.json").touch()
    (tmp_path / "other").touch()
    with pytest.raises(FolderError, match="every run needs an empty folder"):
        new_run_folder(tmp_path)


@pytest.mark.parametrize(
    ("message", "overrides"),
    [
        (r"below the target vocabulary size of 12", (*ADAPTIVE, "model.output.cutoffs=[2, 5000]")),
        (r"needs text\.kind = 'sentencepiece', not 'words'", ("training.subwords.kind=bpe-dropout",)),
    ],
)
def test_settings_that_do_not_fit_given_pieces_are_rejected_before_the_data_is_prepared(
    message: str,
    overrides: tuple[str, ...],
    corpus: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experiment = check(Experiment, toy_values(corpus, "plain"), origin="test")
    prepared_in(tmp_path / "store", experiment)
    monkeypatch.setattr("calque.data.prepare._fill", unprepared)
    values = toy_values(corpus, "plain", *overrides)
    values["text"] = {"kind": "given", "path": str(tmp_path / "store")}
    with pytest.raises(ConfigError, match=message):
        train(values, run=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_cutoffs_beyond_the_largest_vocabulary_are_rejected_before_the_data_is_prepared(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calque.data.prepare._fill", unprepared)
    overrides = (*ADAPTIVE, "text.vocabulary_size=400", "model.output.cutoffs=[2, 400]")
    with pytest.raises(ConfigError, match="below the target vocabulary size of 400"):
        train(toy_values(corpus, "plain", *overrides), run=tmp_path / "run", quiet=True)


HALF = ("training.precision=float16", "training.steps=2")


def test_lstms_without_a_float16_kernel_are_rejected_before_a_run_starts_and_when_it_is_resumed_elsewhere(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train(toy_values(corpus, "plain", "training.steps=2"), run=tmp_path / "run", quiet=True).folder
    (run / "config.toml").write_text(values_to_toml(toy_values(corpus, "plain", *HALF, "training.steps=3")))
    monkeypatch.setattr("calque.experiment.assembly._has_half_lstm", lambda: False)
    with pytest.raises(ConfigError, match=r'training\.precision = "float16".*use float32 or bfloat16'):
        resume(run, quiet=True)
    monkeypatch.setattr("calque.data.prepare._fill", unprepared)
    for family in ("plain", "luong"):
        with pytest.raises(ConfigError, match=r'training\.precision = "float16".*use float32 or bfloat16'):
            train(toy_values(corpus, family, *HALF), run=tmp_path / "other", quiet=True)
    assert not (tmp_path / "other").exists()


def test_float64_is_rejected_on_devices_without_it(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calque.experiment.assembly.choose_device", lambda _: torch.device("mps"))
    with pytest.raises(ConfigError, match=r'training\.precision = "float64": mps does not support it'):
        train(toy_values(corpus, "plain", "training.precision=float64"), run=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_this_cpu_computes_in_float16_all_that_is_not_rejected(corpus: dict[str, Path], tmp_path: Path) -> None:
    """Whatever kernels it has: a wrong check would end in a traceback."""
    try:
        train(toy_values(corpus, "plain", *HALF), run=tmp_path / "lstm", quiet=True)
    except ConfigError as error:
        assert "LSTM" in str(error)
    for cell in ("gru", "rnn"):
        cells = [f"model.{side}.cell={cell}" for side in ("encoder", "decoder")]
        train(toy_values(corpus, "plain", *HALF, *cells), run=tmp_path / cell, quiet=True)
    normed = [f"model.{side}.layer_norm=true" for side in ("encoder", "decoder")]  # without a fused kernel
    train(toy_values(corpus, "plain", *HALF, *normed), run=tmp_path / "normed", quiet=True)


def test_only_a_run_can_be_resumed(trained: Path, tmp_path: Path) -> None:
    """A model folder has a config.toml too; not even a lock may be created in it."""
    with pytest.raises(FolderError, match=r"no config\.toml"):
        resume(tmp_path)
    before = sorted((trained / "model").iterdir())
    with pytest.raises(FolderError, match="not a run folder"):
        resume(trained / "model")
    assert sorted((trained / "model").iterdir()) == before


def test_a_misspelt_run_is_suggested(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(FolderError, match=rf"rum: no such folder; did you mean {re.escape(str(trained))}\?"):
        resume(trained.with_name("rum"))
    with pytest.raises(FolderError, match=r"no such folder$"):
        resume(tmp_path / "run")


def test_changed_data_is_rejected_with_the_changes(corpus: dict[str, Path], tmp_path: Path) -> None:
    run = train(toy_values(corpus, "plain", "training.steps=2"), run=tmp_path / "run", quiet=True)
    text = corpus["source"].read_text(encoding="utf-8")
    corpus["source"].write_text(text.replace("a", "b", 1), encoding="utf-8")
    with pytest.raises(DataError, match="source changed"):
        resume(run.folder, quiet=True)


def test_changes_since_a_run_was_started_are_reported(
    corpus: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = train(toy_values(corpus, "plain", "training.steps=2"), run=tmp_path / "run", quiet=True)
    record = json.loads((run.folder / "run.json").read_text(encoding="utf-8"))
    assert record["reproducible"] is True
    (run.folder / "run.json").write_text(json.dumps({**record, "torch": "1.0"}), encoding="utf-8")
    resume(run.folder)
    assert f"note: torch was '1.0' when the run was started and is '{torch.__version__}' now" in capsys.readouterr().err
    for text in ("{", "[1]"):
        (run.folder / "run.json").write_text(text, encoding="utf-8")
        with pytest.raises(FolderError, match=r"run\.json"):
            resume(run.folder, quiet=True)


@pytest.fixture
def short(corpus: dict[str, Path], tmp_path: Path) -> Path:
    """A run of two steps."""
    return train(toy_values(corpus, "plain", "training.steps=2"), run=tmp_path / "run", quiet=True).folder


def test_a_record_that_is_a_pipe_is_not_read(short: Path) -> None:
    (short / "run.json").unlink()
    os.mkfifo(short / "run.json")
    with pytest.raises(FolderError, match=r"run\.json"):
        resume(short, quiet=True)


@pytest.mark.parametrize(("file", "line"), [("history.jsonl", '{"step": 3}'), ("metrics.jsonl", '{"kind": "train"}')])
def test_lines_with_missing_counts_are_reported(short: Path, file: str, line: str) -> None:
    """At the start: after the checkpoint's position, metrics may be damaged (test_loop.py)."""
    journal = short / file
    journal.write_text(
        f"{line}\n" + (journal.read_text(encoding="utf-8") if journal.exists() else ""), encoding="utf-8"
    )
    with pytest.raises(FolderError, match=rf"{file}, line \d+: '\w+' is missing or not an integer"):
        resume(short, quiet=True)


def edit(run: Path, *assignments: str) -> None:
    """Changes settings of a run before it is resumed."""
    values = override(read_toml(run / "config.toml"), assignments)
    (run / "config.toml").write_text(values_to_toml(values), encoding="utf-8")


def test_edited_settings_are_reported(short: Path, capsys: pytest.CaptureFixture[str]) -> None:
    resume(short)
    assert "note:" not in capsys.readouterr().err
    edit(short, "seed=9", "training.steps=3", "training.label_smoothing=0.3", "model.decoder.dropout=0.15")
    resume(short)
    messages = capsys.readouterr().err
    for key, value in {
        "seed": "9",
        "training.steps": "3",
        "training.label_smoothing": "0.3",
        "model.decoder.dropout": "0.15",
    }.items():
        assert re.search(rf"note: {re.escape(key)} was .* when the run was started and is {value} now", messages), (
            messages
        )


@pytest.mark.parametrize(
    ("change", "is_skipped"),
    [("training.batch.tokens=60", True), ("seed=5", True), ("training.batch.workers=0", False)],
)
def test_the_rest_of_an_epoch_whose_batches_changed_is_skipped(
    corpus: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: str,
    is_skipped: bool,
) -> None:
    """It is not known which of its pairs were read: none may be read twice and others not at all."""
    values = toy_values(corpus, "plain", "training.steps=2", "training.batch.tokens=100", "training.log_every=1")
    run = train(values, run=tmp_path / "run", quiet=True).folder
    edit(run, "training.steps=3", change)
    resume(run)
    assert ("the rest of epoch 1 is skipped" in capsys.readouterr().err) == is_skipped
    epochs = [line["epoch"] for line in read_journal(run / "metrics.jsonl") if line["kind"] == "train"]
    assert epochs == [1, 1, 2 if is_skipped else 1]


def test_threads_are_those_the_run_was_started_with(corpus: dict[str, Path], tmp_path: Path) -> None:
    before = torch.get_num_threads()
    run = train(toy_values(corpus, "plain", "training.steps=2"), run=tmp_path / "run", quiet=True)
    try:
        torch.set_num_threads(2)
        resume(run.folder, quiet=True)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [0, 1025, 100_000])
def test_numbers_of_threads_that_no_machine_has_are_rejected(threads: int, corpus: dict[str, Path]) -> None:
    """Starting them would end the process with a signal."""
    with pytest.raises(ConfigError, match=rf"training\.threads: .*found {threads}"):
        check(Experiment, toy_values(corpus, "plain", f"training.threads={threads}"), origin="test")
    check(Experiment, toy_values(corpus, "plain", "training.threads=1024"), origin="test")


def test_two_runs_share_a_store(corpus: dict[str, Path], tmp_path: Path) -> None:
    values = toy_values(corpus, "plain", "training.steps=2", f"data.store={tmp_path / 'shared store'}")
    for name in ("one", "two"):
        run = train(values, run=tmp_path / name, quiet=True)
        assert not (run.folder / "store").exists()
    assert (tmp_path / "shared store" / "manifest.json").is_file()


# --- Longer runs, other runs ---


def test_a_finished_run_continues_when_its_steps_are_raised(corpus: dict[str, Path], tmp_path: Path) -> None:
    run = train(toy_values(corpus, "plain", "training.steps=4"), run=tmp_path / "run", quiet=True)
    path = run.folder / "config.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("steps = 4", "steps = 8"), encoding="utf-8")
    longer = resume(run.folder, quiet=True)
    uninterrupted = train(toy_values(corpus, "plain", "training.steps=8"), run=tmp_path / "whole", quiet=True)
    assert longer.summary.step == 8
    ends = [folder / "checkpoints" / "step-8" / "weights.safetensors" for folder in (run.folder, uninterrupted.folder)]
    assert ends[0].read_bytes() == ends[1].read_bytes()


def test_differences_name_changed_values(corpus: dict[str, Path], tmp_path: Path) -> None:
    values = toy_values(corpus, "plain", "training.steps=2")
    run = train(values, run=tmp_path / "run", quiet=True)
    assert differences(values, run=run.folder) == []
    assert differences({**values, "seed": 99}, run=run.folder) == ["seed is 3, not 99"]


def test_an_experiment_leaves_open_what_was_not_set(corpus: dict[str, Path], tmp_path: Path) -> None:
    values = toy_values(corpus, "plain", "training.steps=2")
    experiment = check(Experiment, values, origin="test")
    run = train(experiment, run=tmp_path / "run", quiet=True)
    assert run.config.training.patience == 8  # chosen, though the default of the class is 0


# --- Output layers ---


@pytest.mark.parametrize("kind", ["sampled", "adaptive"])
def test_smoothing_without_the_full_softmax_is_rejected_with_both_keys(
    kind: str, corpus: dict[str, Path], tmp_path: Path, command: Callable[..., Answer]
) -> None:
    """Smoothing is on by default."""
    values = toy_values(corpus, "plain", f"model.output.kind={kind}")
    with pytest.raises(ConfigError, match="1 problem") as caught:
        train(values, run=tmp_path / "run", quiet=True)
    message = f"training.label_smoothing = 0.1 and model.output.kind = '{kind}'"
    assert message in str(caught.value)
    assert "set training.label_smoothing = 0" in str(caught.value)
    file = tmp_path / "config.toml"
    file.write_text(values_to_toml({**values, "data": {}}), encoding="utf-8")
    sides = ("--source", corpus["source"], "--target", corpus["target"])
    answer = command("train", "--config", file, *sides, "--run", tmp_path / "run")
    assert answer.code == 2
    assert message in answer.err
    assert not (tmp_path / "run").exists()


def test_output_layers_that_do_not_fit_are_rejected_with_their_key(corpus: dict[str, Path], tmp_path: Path) -> None:
    refused = {
        r"model: tie = 'target' and output\.kind = 'adaptive'": ("model.tie=target",),
        r"model\.output: width 16 is too small for 2 clusters, each narrower by a factor of 5": (
            "model.output.shrink=5",
        ),
        r"model\.output\.cutoffs: .*strictly ascending": ("model.output.cutoffs=[5, 3]",),
        r"model\.output: cutoffs \[2, 5000\] must all be below the target vocabulary size of 12": (
            "model.output.cutoffs=[2, 5000]",
        ),
    }
    for number, (message, overrides) in enumerate(refused.items()):
        values = toy_values(corpus, "plain", "model.output.kind=adaptive", "training.label_smoothing=0", *overrides)
        with pytest.raises(ConfigError, match=message):
            train(values, run=tmp_path / f"{number}", quiet=True)


@pytest.mark.parametrize("kind", ["sampled", "adaptive"])
def test_an_output_layer_learns_the_frequencies_of_the_training_pairs(
    kind: str, corpus: dict[str, Path], tmp_path: Path
) -> None:
    settings = (f"model.output.kind={kind}", "training.label_smoothing=0", "training.steps=2", "training.average=0")
    run = train(toy_values(corpus, "plain", *settings), run=tmp_path / "run", quiet=True)
    prepared = open_prepared(run.folder / "store")
    counts = [0] * len(load_tokenizers(prepared.vocabularies).target.vocabulary)
    for row in range(len(prepared.train)):
        for piece in (*prepared.train["target"].row(row).tolist(), EOS):
            counts[piece] += 1
    learnt = dict(load(run.folder).model.named_parameters())
    if kind == "sampled":
        total = sum(counts) + len(counts)
        assert learnt["output.proposal"].tolist() == pytest.approx([(count + 1) / total for count in counts], rel=1e-6)
    else:
        order = sorted(range(len(counts)), key=lambda piece: (-counts[piece], piece))
        assert learnt["output.ranks"].argsort().tolist() == order


def test_two_processes_that_start_in_one_folder_do_not_harm_each_other(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one started between the first one's check and its config; the first still prepares its data."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.toml").write_text("seed = 5\n", encoding="utf-8")
    monkeypatch.setattr("calque.experiment.running.new_run_folder", lambda _folder: run)
    with run_lock(run), pytest.raises(FolderError, match="is training in this folder"):
        train(open_values(corpus), run=run, quiet=True)
    with pytest.raises(FolderError, match="has just started a run here"):
        train(open_values(corpus), run=run, quiet=True)
    assert (run / "config.toml").read_text(encoding="utf-8") == "seed = 5\n"


@pytest.mark.parametrize(("warmup", "is_reported"), [(3, True), (2, False)])
def test_a_warm_up_beyond_the_last_step_is_reported(
    warmup: int, is_reported: bool, corpus: dict[str, Path], tmp_path: Path
) -> None:
    values = toy_values(corpus, "plain", "training.steps=2", f"training.schedule.warmup={warmup}")
    train(values, run=tmp_path / "run", quiet=True)
    assert ("never reaches its peak" in (tmp_path / "run/log.txt").read_text(encoding="utf-8")) == is_reported


# --- Precision ---


@pytest.mark.parametrize("is_fast", [False, True])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_slow_bfloat16_is_announced(
    precision: str,
    is_fast: bool,
    corpus: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("calque.experiment.assembly.multiplies_bfloat16", lambda: is_fast)
    train(toy_values(corpus, "plain", "training.steps=1", f"training.precision={precision}"), run=tmp_path / "run")
    is_announced = "this CPU has no instructions for it" in capsys.readouterr().err
    assert is_announced == (precision == "bfloat16" and not is_fast)


def test_a_run_in_float64_has_weights_in_float64(corpus: dict[str, Path], tmp_path: Path) -> None:
    values = toy_values(corpus, "plain", "training.steps=2", "training.precision=float64")
    run = train(values, run=tmp_path / "run", quiet=True).folder
    kinds = {value.dtype for value in load_file(run / "checkpoints" / "step-2" / "weights.safetensors").values()}
    assert kinds == {torch.float64}


# --- Model cards, and what only some models support ---


def test_a_warm_start_is_refused_in_the_same_words_everywhere(tmp_path: Path) -> None:
    words = r"training\.warm_start is not supported for .*, only for translation models; leave it out"
    with pytest.raises(ConfigError, match=words):
        BaseAssembly().warm_start(torch.nn.Identity(), None, path=tmp_path)
    with pytest.raises(ConfigError, match=words):
        refuse_warm_start(TrainingConfig(warm_start=tmp_path), models="taggers")


def test_a_model_that_was_never_validated_says_so_in_its_card() -> None:
    card = "# A model\n"
    assert completed_card(card, Judgement({"loss": 2.0, "bleu": math.nan})) == card
    unvalidated = completed_card(card, Judgement({"loss": math.nan, "bleu": math.nan}))
    assert unvalidated.startswith(card) and "never validated" in unvalidated


# --- Plots ---


@pytest.mark.parametrize("quiet", [False, True])
def test_missing_plots_are_reported_unless_the_run_is_quiet(
    quiet: bool, corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calque.experiment.running.draw_curves", lambda _folder: False)  # no matplotlib
    run = train(toy_values(corpus, "plain", "training.steps=1"), run=tmp_path / "run", quiet=quiet).folder
    log = (run / "log.txt").read_text(encoding="utf-8")
    assert ("nothing was plotted, because matplotlib is not installed" in log) != quiet
