"""The parts of a training step are measured in both versions of the arithmetic, in turns."""

import re

import pytest
from benchmarks.training_parts import PARTS, _turns, main


def test_every_round_has_both_versions_in_changing_order() -> None:
    assert list(_turns(2)) == [(0, 2), (0, 1), (1, 1), (1, 2), (2, 2), (2, 1)]


def test_each_part_is_a_line_with_its_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--rounds", "1", "--parts", "dropout", "lstm"])
    lines = capsys.readouterr().out.splitlines()
    assert [re.fullmatch(r"(\w+) +[\d.]+ ms +[\d.]+ ms +[\d.]+x", line)[1] for line in lines] == ["dropout", "lstm"]  # type: ignore[index]
    assert {"dropout", "lstm"} <= PARTS.keys()
