"""The alignment recipe: its systems, its jobs, its measure and its table."""

from pathlib import Path

import pytest
from recipes.alignment import run, statistical
from recipes.alignment.align import alignments, read_links
from recipes.alignment.report import collect, page
from recipes.alignment.run import ENTRIES, RESULT, jobs
from recipes.runner.files import write_json

import calque
from calque.commands.main import app
from calque.evaluation.alignment import alignment_error_rate
from calque.models.model import Model, Sizes
from calque.models.systems import TRANSLATORS, system_model
from calque.tensors import weightless

SAME_AS = {"vaswani2017-big", "tiny", "small", "base"}  # Transformers of other sizes


def test_every_attentional_system_is_measured() -> None:
    with weightless():
        attentional = {
            name
            for name in TRANSLATORS
            if Model(system_model(name, scale=0.1), sizes=Sizes(20, 20, joint=True)).decoder.attends
        }
    assert {entry.system for entry in ENTRIES} == attentional - SAME_AS


def test_every_system_is_trained_on_its_own_and_guided_where_that_is_possible(tmp_path: Path) -> None:
    listed = list(jobs(tmp_path, seeds=[1, 2], device="cpu", assignments=["training.steps=3"]))
    labels = [job.label for job in listed]
    assert len(labels) == len(set(labels)) == 2 * (2 * len(ENTRIES) - 1)
    for job in listed:
        command = job.stages[0].command()
        guided = any(argument.startswith("--alignments=") for argument in command)
        assert guided == ("guided" in job.label)
        assert guided == any(argument.startswith("training.objective.guidance") for argument in command)
        assert command[-1] == "training.steps=3"


def test_the_error_rate_counts_links_of_all_pairs() -> None:
    gold = [read_links("0-0 1-2 2-1"), read_links("")]
    assert alignment_error_rate(gold, gold) == 0
    assert alignment_error_rate([[], []], gold) == 1
    assert alignment_error_rate([[(0, 0), (1, 1)], [(0, 0)]], gold) == pytest.approx(1 - 2 * 1 / (3 + 3))


def test_the_trained_model_is_aligned_by_every_layer(trained: Path) -> None:
    translator = calque.load(trained)
    assert isinstance(translator, calque.Translator)
    by_layer = alignments(translator, ["a b c", "d e"], ["a b c", "d e"])
    assert set(by_layer) == {"mean", "decoder.attention"}
    assert all(len(links) == 2 for links in by_layer.values())
    assert by_layer["mean"] == by_layer["decoder.attention"], "it has one layer and one head"


def test_the_table_has_a_row_for_every_measured_system(tmp_path: Path) -> None:
    for label, rate in (("luong2015-own-1", 0.2), ("luong2015-own-2", 0.4), ("luong2015-guided-1", 0.1)):
        rates = {"mean": rate, "decoder.attention": rate}
        write_json(tmp_path / label / RESULT, {"rates": rates, "exact": 0.9, "pairs": 10})
    layers = {"mean": 0.3, "decoder.blocks.0.cross_attention": 0.8, "decoder.blocks.1.cross_attention": 0.25}
    write_json(tmp_path / "vaswani2017-base-own-1" / RESULT, {"rates": layers, "exact": 1.0, "pairs": 10})
    lines = page(collect(tmp_path)).splitlines()
    assert lines[2] == "| luong2015 | 30.0 (20.0 to 40.0) |  | 10.0 | 90.0 (90.0 to 90.0) | 90.0 |"
    assert lines[3] == "| vaswani2017-base | 30.0 | 25.0, layer 2 |  | 100.0 |  |"


def test_statistical_aligners_are_measured_on_both_pairs_of_languages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With few pairs; the links of the test pairs are those of `calque align` on the same text."""
    monkeypatch.setattr(run, "PAIRS", 400)
    monkeypatch.setattr(statistical, "TESTED", 40)
    monkeypatch.setattr(statistical, "EFLOMAL", "not_installed")
    results = statistical.collect(tmp_path)
    assert {(name, model) for name in results for model in results[name]} == {
        (name, model) for name in ("de-en", "zh-en") for model in ("ibm1", "ibm2", "ibm2-bayes", "hmm")
    }
    rates = [rate for models in results.values() for methods in models.values() for rate in methods.values()]
    assert len(rates) == 48 and all(0.05 < rate < 0.6 for rate in rates)
    lines = statistical.page(results).splitlines()
    assert len(lines) == 10 + 17 and lines[5].startswith("| de-en | HMM | ")
    assert lines[6] == "| de-en | attention of bahdanau2015 | 18.2 (14.5 to 20.9) |  |  |  |  |  |"
    assert lines[-1].startswith("| zh-en | HMM | ")
    assert len(statistical.page(results, attention={}).splitlines()) == 10
    for language in ("de", "en"):
        test, train = (
            (tmp_path / "book" / f"{part}.{language}").read_text().splitlines() for part in ("test", "train")
        )
        (tmp_path / language).write_text("".join(f"{line}\n" for line in [*test[:40], *train]))
    capfd.readouterr()
    app(["align", "--source", str(tmp_path / "de"), "--target", str(tmp_path / "en")], standalone_mode=False)
    links = [read_links(line) for line in capfd.readouterr().out.splitlines()[:40]]
    gold = [read_links(line) for line in (tmp_path / "book" / "test.align").read_text().splitlines()[:40]]
    assert alignment_error_rate(links, gold) == results["de-en"]["hmm"]["grow-diag-final-and"]
