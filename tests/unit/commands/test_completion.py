"""Shell completion: the names are those of the classes, and nothing heavy is imported for them."""

import os
import subprocess
import sys

import pytest
from tests.conftest import environment

from calque.commands.completion import SECTIONS, config_keys, search_keys, system_names
from calque.config import Config
from calque.experiment import Experiment
from calque.models.systems import SYSTEMS
from calque.search.settings import SearchConfig


def test_systems_are_those_that_exist() -> None:
    assert system_names() == list(SYSTEMS)
    assert system_names("luong2015-") == ["luong2015-local-m", "luong2015-local-p", "luong2015-hard"]


def test_settings_are_those_of_the_config() -> None:
    expected = []
    for section in SECTIONS:
        config: object = Experiment.model_construct()
        for name in section.split("."):
            config = getattr(config, name)
        assert isinstance(config, Config)
        expected += [f"{section}.{name}=" for name in type(config).model_fields if not _is_section(config, name)]
    assert config_keys() == ["seed=", *expected]
    assert search_keys() == [f"{name}=" for name in SearchConfig.model_fields]
    assert config_keys("training.st") == ["training.steps="]


def _is_section(config: Config, name: str) -> bool:
    return isinstance(getattr(config, name), Config)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("calque tra", {"train", "translate", "transcribe"}),
        ("calque train --system gn", {"gnmt2016"}),
        ("calque train training.st", {"training.steps="}),
        ("calque translate RUN --device c", {"cpu", "cuda"}),
        ("calque translate RUN temp", {"temperature="}),
    ],
)
def test_a_shell_is_answered_without_torch(words: str, expected: set[str]) -> None:
    """As bash asks, with torch forbidden."""
    program = (
        "import sys; sys.modules['torch'] = None; sys.argv[0] = 'calque'; from calque.commands.main import run; run()"
    )
    asked = {"_CALQUE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", program], env={**environment(), **asked}, capture_output=True, text=True
    )
    assert (set(done.stdout.split()), done.stderr) == (expected, ""), os.fspath(sys.executable)
