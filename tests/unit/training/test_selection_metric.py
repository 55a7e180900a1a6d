"""The loss of a language model decides, whatever its config asks for."""

import subprocess
import sys

import pytest
from calque.training.selection_metric import deciding_metric, deciding_metric_of

from calque.errors import ConfigError


@pytest.mark.parametrize("asked", ["bleu", "ter", "loss"])
def test_the_metric_asked_for_decides_unless_nothing_is_translated(asked: str) -> None:
    training = {"metric": asked}
    assert deciding_metric(asked, is_language_model=False) == asked
    assert deciding_metric(asked, is_language_model=True) == "loss"
    assert deciding_metric_of({"training": training, "model": {"encoder": {"kind": "recurrent"}}}) == asked
    assert deciding_metric_of({"training": training, "model": {"encoder": {"kind": "none"}}}) == "loss"


def test_a_config_that_does_not_say_asks_for_bleu() -> None:
    assert deciding_metric_of({}) == "bleu"
    assert deciding_metric_of({"model": {"encoder": {"kind": "none"}}}) == "loss"


@pytest.mark.parametrize("config", [{"model": "gpt"}, {"training": "yes"}, {"model": {"encoder": 3}}])
def test_a_value_in_place_of_a_section_is_named(config: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"runs/1/config\.toml: (model|training).*: expected a section, not "):
        deciding_metric_of(config, origin="runs/1/config.toml")


def test_it_needs_no_torch_so_that_runs_are_listed_at_once() -> None:
    code = "import sys, calque.training.selection_metric; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
