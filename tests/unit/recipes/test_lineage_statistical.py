"""The table of systems before the networks, and the table of the whole line."""

import re
from pathlib import Path

import pytest
from recipes.lineage import whole_line
from recipes.lineage.figure import draw_figure
from recipes.lineage.statistical import ENTRIES, page
from recipes.runner.files import read_json

from calque.errors import DataError
from calque.models.systems import STATISTICAL


def test_every_entry_is_a_system_and_has_a_row() -> None:
    assert {entry.system for entry in ENTRIES.values()} == set(STATISTICAL)
    result = {"bleu_lowercased": 35.086, "bleu": 34.7, "chrf": 63.2, "train_seconds": 54.6, "translate_seconds": 20.0}
    rows = page([{"name": name, "sentences": 1000, "megabytes": 83.1, **result} for name in ENTRIES]).splitlines()
    assert len(rows) == 2 + len(ENTRIES)
    assert rows[2] == "| dictionary | word for word | **35.09** | 34.70 | 63.20 | 55 | 50 | 83.1 |"


FOLDER = Path(__file__).parents[3] / "recipes" / "lineage"


def test_the_readme_shows_the_whole_line_that_was_kept(tmp_path: Path) -> None:
    kept = read_json(FOLDER / "results" / "whole_line.json")
    rows = whole_line.page(kept).splitlines()[2:]
    assert [row.split(" | ")[1] for row in rows if row.startswith("|")] == list(whole_line.SYSTEMS)
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    (part,) = re.findall(r"<!-- whole line -->(.*?)<!-- /whole line -->", readme, re.DOTALL)
    assert part.strip() == whole_line.page(kept)
    draw_figure(tmp_path / "line.png", whole_line.line_results(kept))
    assert (tmp_path / "line.png").stat().st_size > 10_000


def test_a_line_that_is_not_complete_says_what_is_missing(tmp_path: Path) -> None:
    assert whole_line.collect_line(tmp_path) == {}
    (tmp_path / f"{next(iter(whole_line.STATISTICAL))}.json").write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match=r"no pieces\.json, which `run` writes"):
        whole_line.collect_line(tmp_path)
    (tmp_path / "pieces.json").write_text("7", encoding="utf-8")
    assert whole_line.collect_line(tmp_path) == {"pieces": 7, "systems": [{}]}


def test_joined_sentences_are_scored_for_every_kind_of_system() -> None:
    """A system that copies has all of the BLEU of a text that is its own translation, whatever its length."""
    lines = [f"w{number} x{number % 7} y z{number % 3} ." for number in range(24)]
    scored = whole_line.scores_by_length(list, whole_line.Pairs(lines, lines), languages=("en", "de"))
    assert scored["bleu_lowercased"] > 99.9
    found = {name: part["sentences"] for name, part in scored["lengths"].items()}
    assert found == {"1-10": 24 + 12, "11-20": 8 + 6, "21-30": 0, "31-40": 0, "41-60": 0}
