"""The metric that selects a run's models is read from its folder, of any version, and without torch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from calque.config import values_to_toml
from calque.errors import ConfigError
from calque.tasks.metric import Metric
from calque.training.runs import record, section, selection_of


def run_with(folder: Path, config: dict[str, object], *, metrics: object = None) -> Path:
    (folder / "config.toml").write_text(values_to_toml(config), encoding="utf-8")
    (folder / "run.json").write_text(json.dumps({"metrics": metrics} if metrics else {}), encoding="utf-8")
    return folder


EARLIER = {"bleu": Metric("higher", 1.0), "ter": Metric("lower"), "loss": Metric("lower"), "chrf": Metric("higher")}


@pytest.mark.parametrize("name", EARLIER)
def test_the_metric_of_a_run_of_an_earlier_version_is_known_by_name(name: str, tmp_path: Path) -> None:
    recurrent = {"training": {"metric": name}, "model": {"encoder": {"kind": "recurrent"}}}
    selection = selection_of(run_with(tmp_path, recurrent))
    assert (selection.metric, selection.kind, selection.tie_breaker) == (name, EARLIER[name], "loss")


def test_the_default_metric_is_bleu(tmp_path: Path) -> None:
    selection = selection_of(run_with(tmp_path, {}))
    assert (selection.metric, selection.kind, selection.tie_breaker) == ("bleu", Metric("higher", 1.0), "loss")


def test_the_tie_breaker_of_a_run_is_that_of_its_config(tmp_path: Path) -> None:
    """Runs of earlier versions have none, so that the loss decides."""
    training = {"metric": "exact_match", "tie_breaker": "chrf"}
    assert selection_of(run_with(tmp_path, {"training": training})).tie({"exact_match": 5.0, "chrf": 40.0}) == 40.0
    assert selection_of(run_with(tmp_path, {"training": {"metric": "exact_match"}})).tie({"chrf": 40.0}) == 0.0
    with pytest.raises(ConfigError, match=r"config\.toml: training\.tie_breaker: expected a name, not 3"):
        selection_of(run_with(tmp_path, {"training": {"tie_breaker": 3}}))


def test_the_recorded_metrics_of_a_run_are_used(tmp_path: Path) -> None:
    recorded = {"accuracy": ["higher", 0.5], "bleu": ["lower", 0.0], "broken": "yes"}
    for name, metric in (("accuracy", Metric("higher", 0.5)), ("bleu", Metric("lower")), ("broken", Metric("higher"))):
        selection = selection_of(run_with(tmp_path, {"training": {"metric": name}}, metrics=recorded))
        assert (selection.metric, selection.kind) == (name, metric)


def test_the_metric_does_not_depend_on_the_model(tmp_path: Path) -> None:
    for model in ({"encoder": {"kind": "none"}}, {"kind": "language-model"}, "gpt"):
        run = run_with(tmp_path, {"training": {"metric": "chrf"}, "model": model})
        assert (selection_of(run).metric, selection_of(run).kind) == ("chrf", Metric("higher"))


@pytest.mark.parametrize("config", [{"model": "gpt"}, {"training": "yes"}, {"model": {"encoder": 3}}])
def test_a_value_in_place_of_a_section_is_rejected(config: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^runs/1/config\.toml: (model|training).*: expected a section, not "):
        section(config, "model.encoder" if "model" in config else "training", origin="runs/1/config.toml")
    if "training" in config:
        with pytest.raises(ConfigError, match=r"training: expected a section, not ") as refused:
            selection_of(run_with(tmp_path, config))
        assert str(refused.value).startswith(f"{tmp_path / 'config.toml'}: ")


def test_a_metric_that_is_no_name_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config\.toml: training\.metric: expected a name, not 3"):
        selection_of(run_with(tmp_path, {"training": {"metric": 3}}))


def test_it_does_not_import_torch() -> None:
    code = "import sys, calque.training.runs, calque.training.journal; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_note_about_a_change_is_returned_once_per_change(tmp_path: Path) -> None:
    def notes(threads: int, torch: str = "1") -> list[str]:
        return record(tmp_path, {"threads": threads, "torch": torch, "data": {}}, files={})

    assert notes(2) == []
    changed = "note: threads was 2 when the run was started and is 4 now; results may differ"
    assert notes(4) == [changed]
    assert notes(4) == [], "it was reported before"
    assert notes(4, torch="2") == ["note: torch was '1' when the run was started and is '2' now; results may differ"]
    assert notes(8, torch="2") == [changed.replace("is 4", "is 8")]
    assert notes(2, torch="2") == []
    assert notes(8, torch="2") == [changed.replace("is 4", "is 8")], "it had changed back meanwhile"
    assert notes(2) == notes(2) == []
    (tmp_path / "run.json").write_text(
        json.dumps({**json.loads((tmp_path / "run.json").read_text()), "notes": 3}), encoding="utf-8"
    )
    assert notes(4) == [changed]
