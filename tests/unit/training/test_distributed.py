"""Ranks by environment variables; tests/integration/test_ranks.py trains with several processes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Answer, toy_values

from calque.config import values_to_toml
from calque.errors import ConfigError
from calque.training.distributed import joined_ranks, started_ranks

NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
PLACE = "MASTER_ADDR=127.0.0.1 MASTER_PORT=29500"


def set_environment(monkeypatch: pytest.MonkeyPatch, environment: str) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    for variable in environment.split():
        monkeypatch.setenv(*variable.split("=", 1))


@pytest.mark.parametrize("environment", ["", "RANK=0", "WORLD_SIZE=1", "RANK=0 WORLD_SIZE=1", f"{PLACE} WORLD_SIZE="])
def test_one_process_is_one_rank(environment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_environment(monkeypatch, environment)
    with joined_ranks() as ranks:
        assert (ranks.rank, ranks.count, ranks.leads) == (0, 1, True)


def test_the_rank_is_known_before_processes_are_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    set_environment(monkeypatch, f"RANK=2 WORLD_SIZE=3 {PLACE}")
    ranks = started_ranks()
    assert (ranks.rank, ranks.count, ranks.leads) == (2, 3, False)


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        ("WORLD_SIZE=2", "RANK and MASTER_ADDR and MASTER_PORT are not set"),
        (f"WORLD_SIZE=2 {PLACE}", "RANK is not set"),
        (f"RANK=1 {PLACE}", "WORLD_SIZE is not set"),
        ("RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1", "MASTER_PORT is not set"),
        (f"RANK=2 WORLD_SIZE=2 {PLACE}", "from 0 to WORLD_SIZE - 1"),
        (f"RANK=1 WORLD_SIZE=1 {PLACE}", "from 0 to WORLD_SIZE - 1"),
        (f"RANK=0 WORLD_SIZE=0 {PLACE}", "from 0 to WORLD_SIZE - 1"),
        (f"RANK=-1 WORLD_SIZE=2 {PLACE}", "from 0 to WORLD_SIZE - 1"),
        (f"RANK=0 WORLD_SIZE=two {PLACE}", "from 0 to WORLD_SIZE - 1"),
    ],
)
def test_incomplete_environments_are_rejected(environment: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_environment(monkeypatch, environment)
    with pytest.raises(ConfigError, match=f"{problem}; torchrun sets these variables") as refused, joined_ranks():
        pass
    assert environment.split()[0] in str(refused.value)


@pytest.mark.usefixtures("unplotted")
def test_the_command_trains_or_rejects_the_environment(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., Answer]
) -> None:
    config = tmp_path / "toy.toml"
    config.write_text(values_to_toml(toy_values(corpus, "plain", "training.steps=2")), encoding="utf-8")
    for environment in ("RANK=1", "WORLD_SIZE=2"):
        set_environment(monkeypatch, environment)
        answer = command("train", "--config", config, "--run", tmp_path / "run")
        assert (answer.code, answer.out) == (2, "")
        assert "torchrun" in answer.err
        assert not (tmp_path / "run").exists()
    set_environment(monkeypatch, "RANK=0")
    assert command("train", "--config", config, "--run", tmp_path / "run").out == f"{tmp_path / 'run'}\n"
