"""Tables, notes and JSON."""

import json
from pathlib import Path

import pytest
from benchmarks.figures import Spread
from benchmarks.machine import Machine
from benchmarks.processes import Usage
from benchmarks.report import (
    Report,
    command_line,
    markdown,
    remarks_on_table,
    show,
    shown_bytes,
    shown_spread,
    today,
    write_json,
    write_note,
)

MACHINE = Machine("Some Chip", ("AVX2",), 2, 0.5, "3.11.9", "2.13.0")
REPORT = Report(
    *("train-lstm", "python -m benchmarks.train", MACHINE, {"threads": "1"}),
    *(
        ["contender", "speed"],
        [["here", "3 [2–4]"], ["[red]other", "1 [1–1]"]],
        ["A remark."],
        {"speeds": {"here": [1]}},
    ),
)


def test_figures_are_shown_with_their_spread() -> None:
    assert shown_spread(Spread(1.0204, 0.99, 1.05), digits=2) == "1.02 [0.99–1.05]"
    assert shown_spread(Spread(1234.5, 999, 2000), digits=0) == "1,234 [999–2,000]"
    assert shown_bytes(1_234_567) == "1.2 MB"


@pytest.mark.parametrize(("wall", "threads", "busy"), [(2.1, 1, False), (4.0, 1, True), (4.0, 2, False)])
def test_a_busy_machine_is_reported(wall: float, threads: int, busy: bool) -> None:
    """Half of the time without a core; with several threads CPU seconds tell nothing about that."""
    usages = [Usage(1.0, wall / 2, 0), Usage(1.0, wall / 2, 0)]
    remarks = remarks_on_table(base="here", usages=usages, threads=threads)
    assert any("had a core for 50% of the time" in remark for remark in remarks) == busy


def test_a_command_names_no_folders_of_this_machine() -> None:
    words = ["--corpus", "/some/where/multi30k", "--against", "main", "--json", "out/x y.json"]
    shown = "python -m benchmarks.train --corpus multi30k --against main --json 'out/x y.json'"
    assert command_line("benchmarks.train", words) == shown


def test_piped_output_is_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    show(REPORT)
    shown = capsys.readouterr().out
    assert shown == markdown(REPORT) + "\n"
    assert "\x1b" not in shown
    table = [line for line in shown.splitlines() if line.startswith("|")]
    assert table == ["| contender | speed |", "| --- | ---: |", "| here | 3 [2–4] |", "| [red]other | 1 [1–1] |"]


def test_a_terminal_gets_a_table_that_shows_brackets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    show(REPORT)
    shown = capsys.readouterr().out
    assert "[red]other" in shown
    assert "3 [2–4]" in shown


def test_a_note_is_named_by_theme_hardware_and_date_and_keeps_earlier_ones(tmp_path: Path) -> None:
    path = write_note(REPORT, folder=tmp_path / "results")
    assert path.name == f"train-lstm_some-chip-avx2_{today()}.md"
    assert write_note(REPORT._replace(remarks=["Another."]), folder=path.parent) == path
    text = path.read_text(encoding="utf-8")
    assert text.count("# train-lstm") == 1
    assert text.count("- command: `python -m benchmarks.train`\n- machine: Some Chip (AVX2 yes, ") == 2
    assert text.index("A remark.") < text.index("Another.")


def test_json_holds_facts_and_measurements(tmp_path: Path) -> None:
    write_json(REPORT, tmp_path / "x.json")
    values = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    assert values["machine"]["features"] == ["AVX2"]
    assert values["speeds"] == {"here": [1]}
    assert values["date"] == today()
