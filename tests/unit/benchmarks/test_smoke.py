"""The commands as a person runs them, on Calque itself: short, so their figures mean nothing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import environment, toy_corpus

ROOT = Path(__file__).parents[3]
LEAST = 60  # pieces of a translation: work enough to be seen beside a start-up, with so small a model
pytestmark = pytest.mark.slow


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder of a toy corpus with the names that --corpus expects."""
    folder = tmp_path / "corpus"
    for part, pairs in (("train", 800), ("val", 20), ("test", 2000)):
        for side, path in toy_corpus(folder / part, pairs=pairs, seed=pairs).items():
            path.rename(folder / f"{part}.{'de' if side == 'source' else 'en'}")
    return folder


def run(name: str, *words: object, folder: Path) -> dict[str, Any]:
    path = folder / "results.json"
    command = [sys.executable, "-m", f"benchmarks.{name}", *map(str, words), "--json", str(path)]
    ended = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return values


@pytest.mark.parametrize(
    "work", ["transformer", *(pytest.param(name, marks=pytest.mark.full) for name in ("lstm", "language-model"))]
)
def test_this_tree_trains(work: str, corpus: Path, tmp_path: Path) -> None:
    short = ("--rounds", 1, "--steps", 1, 13, "--tokens", 1200, "--vocabulary", 300)
    values = run("train", "--work", work, "--corpus", corpus, *short, folder=tmp_path)
    (measured,) = values["rounds"]["here"]
    assert measured["long"]["tokens"] > 6 * measured["short"]["tokens"] > 0
    assert 0 <= measured["long"]["padding"] < 0.5
    assert measured["long"]["store"] > 10_000
    assert measured["long"]["usage"]["peak"] > 100e6


def test_this_tree_decodes_as_itself(trained: Path, corpus: Path, tmp_path: Path) -> None:
    short = ("--rounds", 1, "--lines", 10, 2000, "--beams", 5, "--model", trained, f"minimum={LEAST}")
    values = run("decode", "--against", ROOT, "--corpus", corpus, *short, folder=tmp_path)
    (search,) = values["searches"]
    assert search["outputs"][str(ROOT)] == "same bytes"
    assert search["tokens"]["here"] == search["tokens"][str(ROOT)]
    assert search["tokens"]["here"][1] / 2000 > LEAST
