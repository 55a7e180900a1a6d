"""The table of runs: one line per run, with the most important columns on narrow terminals."""

import os
import time
from pathlib import Path

import pytest
from rich.cells import cell_len

from calque.commands.runs import Row, runs_in, table

DAY = "2026-07-31 09:00"
ROWS = [
    Row("runs/1", "recurrent 1×16 → luong 1×16", 20_000, 14, 14, "bleu", 34.123, 14, "done", DAY),
    Row("runs/long-transformer", "transformer 6×512", 4_500_000, 12_000, 100_000, "bleu", 27.3, 9_000, "running", DAY),
    Row("runs/2", "convolutional 3×512", 29_000, 4_000, 30_000, "chrf", 51.2, 3_000, "done, stopped early", DAY),
    Row("runs/中文", "transformer 6×512", None, 0, 30_000, "loss", None, None, "stopped", DAY),
    Row("runs/bad", state="damaged: runs/bad/config.toml: cannot be read"),
]
STATES = ["state", "done", "running", "done", "stopped", "damaged"]


@pytest.mark.parametrize(
    ("width", "second", "third"),
    [
        (24, "long-transformer running", "2 done early"),
        (60, "long-transformer running 12,000 bleu 27.30 2026-07-31", "2 done early 4,000 chrf 51.20 2026-07-31"),
        (
            80,
            "runs/long-transformer running 12,000 of 100,000 bleu 27.30 2026-07-31",
            "runs/2 done early 4,000 of 30,000 chrf 51.20 2026-07-31",
        ),
        (
            100,
            f"runs/long-transformer running 12,000 of 100,000 bleu 27.30 {DAY}",
            f"runs/2 done early 4,000 of 30,000 chrf 51.20 {DAY}",
        ),
        (
            140,
            f"runs/long-transformer running 12,000 of 100,000 bleu 27.30 {DAY} transformer 6×512 9,000 4,500,000",
            f"runs/2 done early 4,000 of 30,000 chrf 51.20 {DAY} convolutional 3×512 3,000 29,000",
        ),
    ],
)
def test_a_run_is_one_line_with_the_columns_that_fit(width: int, second: str, third: str) -> None:
    lines = table(ROWS, width=width)
    assert len(lines) == 1 + len(ROWS)
    assert max(map(cell_len, lines)) <= width or width < 30
    assert [" ".join(line.split()) for line in lines[2:4]] == [second, third]
    starts = {cell_len(line[: line.index(state)]) for line, state in zip(lines, STATES, strict=True)}
    assert len(starts) == 1, "columns are aligned"


def test_runs_of_the_same_name_are_distinguished() -> None:
    rows = [Row(f"{folder}/runs/1", state="done", changed=DAY) for folder in ("here", "there")]
    for width in (20, 40, 80):
        assert [line.split()[0] for line in table(rows, width=width)] == ["run", "here/runs/1", "there/runs/1"]


def test_line_breaks_in_a_name_do_not_break_the_table() -> None:
    assert len("\n".join(table([Row("runs/a\nb\x1b[2J\u2028c")], width=80)).splitlines()) == 2


def make_run(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in ("config.toml", "lock"):
        (folder / name).touch()
    return folder


def test_runs_are_searched_for_in_subfolders(tmp_path: Path) -> None:
    """But not in runs, in sealed folders, in hidden ones, or beyond the fourth level."""
    expected = [make_run(tmp_path / name) for name in ("2", "10", "a/1", "a/b/c/1", "lang/zh en")]
    for name in ("2/averaged", "a/1/inner", ".cache/run", "a/b/c/d/1"):
        make_run(tmp_path / name)
    (make_run(tmp_path / "store" / "x").parent / "manifest.json").touch()
    (tmp_path / "site" / "other").mkdir(parents=True)
    (tmp_path / "site" / "other" / "config.toml").touch()  # of another program
    assert runs_in(tmp_path) == expected
    assert runs_in(tmp_path / "a" / "b" / "c" / "d") == [tmp_path / "a/b/c/d/1"]
    assert runs_in(tmp_path / "a" / "1") == [tmp_path / "a" / "1"]


def test_links_to_runs_are_followed_and_loops_are_not(tmp_path: Path) -> None:
    run = make_run(tmp_path / "here" / "1")
    (tmp_path / "here" / "again").symlink_to(tmp_path)
    (tmp_path / "here" / "self").symlink_to(tmp_path / "here" / "self")
    (tmp_path / "here" / "linked").symlink_to(run)
    assert runs_in(tmp_path) == [run, tmp_path / "here" / "linked"]


def test_a_large_tree_is_searched_quickly(tmp_path: Path) -> None:
    """Every folder is read once, and files are not looked at: 3,000 folders and 6,000 files."""
    for first in range(30):
        for second in range(100):
            folder = tmp_path / f"{first}" / f"{second}"
            folder.mkdir(parents=True)
            for name in ("a", "b"):
                (folder / name).touch()
    run = make_run(tmp_path / "7" / "50" / "run")
    start = time.monotonic()
    assert runs_in(tmp_path) == [run]
    assert time.monotonic() - start < 5


def test_a_folder_that_may_not_be_read_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, scandir = make_run(tmp_path / "b" / "1"), os.scandir
    (tmp_path / "a").mkdir()

    def refusing(path: str) -> object:
        if Path(path).name == "a":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr("calque.commands.runs.os.scandir", refusing)
    assert runs_in(tmp_path) == [run]
    with pytest.raises(PermissionError):
        runs_in(tmp_path / "a")
