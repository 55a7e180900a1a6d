"""`python -m benchmarks.prepare`: the same work as Calque's, and its report on a stand-in."""

import json
from pathlib import Path

import pytest
from benchmarks import prepare, source_trees
from benchmarks.corpora import write_lines
from benchmarks.sentencepiece_alone import spread_evenly
from tests.unit.benchmarks.stand_in import write_stand_in

from calque.text.training import spread


@pytest.mark.parametrize("take", [1, 3, 7, 10, 20])
def test_the_lines_that_a_vocabulary_is_learnt_from_are_those_that_calque_takes(take: int) -> None:
    lines = [str(number) for number in range(10)]
    assert spread_evenly(lines, take=take) == list(spread(iter(lines), of=len(lines), take=take))


def test_costs_are_reported_as_ratios_of_cpu_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(source_trees, "REPOSITORY", write_stand_in(tmp_path / "here"))
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    lines = [f"some words and {number} more" for number in range(300)]
    for part in ("train", "val"):
        for language in ("de", "en"):
            write_lines(corpus / f"{part}.{language}", lines)
    options = ("--corpus", corpus, "--rounds", 2, "--vocabulary", 400, "--json", tmp_path / "x.json")
    assert prepare.main([str(word) for word in options]) == 0
    values = json.loads((tmp_path / "x.json").read_text())
    costs = {name: [usage["cpu"] for usage in usages] for name, usages in values["usages"].items()}
    assert list(costs) == ["here", "sentencepiece"]
    ratios = [ours / theirs for ours, theirs in zip(*costs.values(), strict=True)]
    assert values["ratios"]["sentencepiece"]["least"] == pytest.approx(min(ratios))
    assert "corpus: 300 pairs, 400 pieces, 2 rounds" in capsys.readouterr().out
