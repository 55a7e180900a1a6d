"""`calque compare`: runs and files of every task, as table, JSON and page; bad input is one message and exit code 2."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calque.engine import TextGenerator, Translator, load
from tests.conftest import Answer, toy_corpus
from tests.promises.subjects import SUBJECTS
from tests.tagged import write_columns

Command = Callable[..., Answer]
QUICK = ["--bootstrap", 50, "--randomisation", 50]

pytestmark = pytest.mark.usefixtures("unplotted")


@pytest.fixture
def held_out(tmp_path: Path) -> dict[str, Path]:
    """Sequences to copy."""
    return toy_corpus(tmp_path / "test", pairs=30, change=list, seed=7)


def _document(answer: Answer) -> dict[str, Any]:
    assert answer.code == 0, answer.err
    document: dict[str, Any] = json.loads(answer.out)
    return document


def test_a_run_is_compared_with_a_file(
    trained: Path, held_out: dict[str, Path], tmp_path: Path, command: Command
) -> None:
    hypotheses = tmp_path / "other.txt"
    lines = held_out["target"].read_text(encoding="utf-8").splitlines()
    hypotheses.write_text("".join(f"a {line}\n" for line in lines), encoding="utf-8")
    systems = [f"copier={trained}", hypotheses]
    files = ["--source", held_out["source"], "--reference", held_out["target"]]
    document = _document(command("compare", *systems, *files, *QUICK, "--beam", 1, "--format", "json"))
    run, file = document["systems"]
    assert (run["name"], run["kind"], file["name"], file["kind"]) == ("copier", "run", "other.txt", "hypotheses")
    assert run["model"]["parameters"] > 0 and run["speed"]["sentences_per_second"] > 0
    assert run["run"]["steps"] == 200 and run["curves"]["train"]["step"][-1] == 200
    assert "bleu" in run["curves"]["valid"] and file["curves"] is None
    assert document["training"]["pairs"] == 600  # of the run's own config
    assert "training-overlap" in [section["id"] for section in document["sections"]]
    translator = load(trained)
    assert isinstance(translator, Translator)
    texts = translator.translate(held_out["source"].read_text(encoding="utf-8").splitlines(), beam=1)
    assert ["".join(item["systems"][0]["words"]).strip() for item in document["sentences"]["items"]] == texts
    shown = command("compare", *systems, *files, *QUICK, "--beam", 1)
    assert shown.code == 0, shown.err
    assert "paired bootstrap, 50 resamples, seed 12345" in shown.out
    assert "n-grams that other.txt gets right more often" in shown.out or "n-grams that copier" in shown.out
    assert all(len(line) < 200 for line in shown.out.splitlines())


def test_search_settings_of_one_system(
    trained: Path, held_out: dict[str, Path], tmp_path: Path, command: Command
) -> None:
    """The same run with several settings; each gives what `calque translate` gives with them."""
    files = ["--source", held_out["source"], "--reference", held_out["target"], "--bootstrap", "0"]
    systems = [f"{trained}:beam=1:length_penalty=0", f"wide={trained}:beam=4", trained]
    answer = command("compare", *systems, *files, "--beam", "2", "--format", "json")
    assert answer.code == 0, answer.err
    document = json.loads(answer.out)
    name = trained.name
    assert [system["name"] for system in document["systems"]] == [f"{name}:beam=1:length_penalty=0", "wide", name]
    assert [system["settings"] for system in document["systems"]] == [["beam=1", "length_penalty=0"], ["beam=4"], []]
    expected = [["beam=1", "length_penalty=0"], ["beam=4"], ["beam=2"]]
    translations = [
        command("translate", trained, *settings, "--input", held_out["source"]).out for settings in expected
    ]
    for place, text in enumerate(translations):
        output = tmp_path / f"{place}.txt"
        output.write_text(text, encoding="utf-8")
    plain = command("compare", *(tmp_path / f"{place}.txt" for place in range(3)), *files, "--json")
    assert [system["scores"] for system in json.loads(plain.out)["systems"]] == [
        system["scores"] for system in document["systems"]
    ]
    shown = command("compare", *systems, *files).out
    assert "search settings" in shown and "beam=1, length_penalty=0" in shown
    grouped = command("compare", "--group", f"a={trained}:beam=1,{trained}:beam=2", trained, *files, "--json")
    assert [system["group"] for system in json.loads(grouped.out)["systems"]] == [None, "a", "a"]


def test_groups_of_files_are_compared(held_out: dict[str, Path], tmp_path: Path, command: Command) -> None:
    lines = held_out["target"].read_text(encoding="utf-8").splitlines()
    for name, every in (("a1", 2), ("a2", 3), ("b1", 9), ("b2", 10)):
        changed = ["x" if number % every == 0 else line for number, line in enumerate(lines)]
        (tmp_path / name).write_text("\n".join(changed) + "\n", encoding="utf-8")
    groups = [f"--group={name}={tmp_path / name}1,{tmp_path / name}2" for name in "ab"]
    document = _document(command("compare", *groups, "--reference", held_out["target"], *QUICK, "--format", "json"))
    assert [system["name"] for system in document["systems"]] == ["a1", "a2", "b1", "b2"]
    first, second = (group["scores"]["bleu"] for group in document["groups"])
    assert second["difference"] == pytest.approx(second["mean"] - first["mean"]) and second["difference"] > 0
    shown = command("compare", *groups, "--reference", held_out["target"], *QUICK)
    assert "groups: BLEU, bootstrap over seeds and sentences" in shown.out, shown.err


def test_taggers_and_labelled_files_are_compared(tmp_path: Path, command: Command) -> None:
    run = SUBJECTS["tagging"].train(tmp_path / "run", "training.steps=4").folder
    test = write_columns(tmp_path / "test.txt", sentences=20, seed=4)
    labelled = tmp_path / "labelled.txt"
    labelled.write_text(test.read_text(encoding="utf-8").replace("I-NP", "O"), encoding="utf-8")
    document = _document(command("compare", run, labelled, "--conll", test, *QUICK, "--format", "json"))
    assert document["task"] == "tagging" and [metric["name"] for metric in document["metrics"]] == ["accuracy", "f1"]
    assert document["systems"][1]["scores"]["accuracy"] > 50
    assert next(entry for entry in document["labels"] if entry["label"] == "I-NP")["systems"][1]["recall"] == 0
    shown = command("compare", run, labelled, "--conll", test, *QUICK)
    assert "most frequent confusions of labelled.txt" in shown.out, shown.err


@pytest.mark.parametrize("subject", ["language model of lines", "language model of running text"])
def test_language_models_are_compared(subject: str, tmp_path: Path, command: Command) -> None:
    runs = [
        SUBJECTS[subject].train(tmp_path / name, f"training.steps={steps}").folder
        for name, steps in (("first", 2), ("second", 8))
    ]
    text = tmp_path / "test.txt"
    text.write_text("a b c\n\nb c d e\nzebra a\n", encoding="utf-8")
    document = _document(command("compare", *runs, "--text", text, *QUICK, "--format", "json"))
    assert [section["id"] for section in document["sections"]] == ["position", "frequency"]
    assert document["training"]["lines"] > 0
    for run, system in zip(runs, document["systems"], strict=True):
        generator = load(run)
        assert isinstance(generator, TextGenerator)
        expected = generator.perplexity(text.read_text(encoding="utf-8").splitlines())
        assert system["scores"]["per_word"] == pytest.approx(expected.per_word, rel=1e-5)
        assert system["scores"]["per_byte"] == pytest.approx(expected.per_byte, rel=1e-5)
        assert (system["pieces"], document["test"]["words"]) == (expected.tokens, expected.words)
    shown = command("compare", *runs, "--text", text, *QUICK)
    assert "loss by position in the line, nats per word" in shown.out, shown.err


def test_a_page_and_json_are_written(held_out: dict[str, Path], tmp_path: Path, command: Command) -> None:
    other = tmp_path / "<b>.txt"
    other.write_text("<script>alert(1)</script>\n" * 30, encoding="utf-8")
    arguments = ["compare", held_out["target"], other, "--reference", held_out["source"], *QUICK, "--metric", "bleu"]
    labels = tmp_path / "labels"
    labels.write_text("news\ntalk\n" * 15, encoding="utf-8")
    answer = command(*arguments, "--sentence-labels", labels, "--output", tmp_path / "report.html")
    assert answer.code == 0 and "the report is in" in answer.err, answer.err
    assert "BLEU by label of the sentence" in answer.out
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "calque/comparison" in page and "<script>alert" not in page and "<b>" not in page
    assert command(*arguments, "--json", "--output", tmp_path / "report.json").code == 0
    document = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert [system["name"] for system in document["systems"]] == ["target", "<b>.txt"]


def test_a_tagger_labels_the_words(held_out: dict[str, Path], tmp_path: Path, command: Command) -> None:
    run = SUBJECTS["tagging"].train(tmp_path / "run", "training.steps=2", "task.inputs=[]").folder
    files = [held_out["source"], f"other={held_out['target']}", "--reference", held_out["target"]]
    document = _document(command("compare", *files, "--tagger", run, *QUICK, "--format", "json"))
    section = document["words"][-1]
    assert section["id"] == "word-label" and {row["f1"] for row in section["systems"][1]} == {1}


def test_the_page_of_the_documentation_works_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "compare.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(example, {})
    assert capsys.readouterr().out.startswith("100.0")


def test_mistakes(trained: Path, held_out: dict[str, Path], tmp_path: Path, command: Command) -> None:
    reference = held_out["target"]
    files = {"good": reference.read_text(encoding="utf-8"), "short": "a b\n", "empty": "", "blank": "\n" * 30}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    good, short, empty, blank = (tmp_path / name for name in files)
    both = [f"other={good}", good]
    with_reference = ["--reference", reference]
    for arguments, message in (
        ([good, *with_reference], "one system was given; give at least two runs"),
        (with_reference, "no system was given"),
        ([good, short, *with_reference], "short has 1 lines, but the reference has 30"),
        ([*both, "--reference", short], "other has 30 lines, but the reference has 1"),
        ([*both, *with_reference, "--source", short], "the source has 1 lines, but the reference has 30"),
        ([*both, "--reference", empty], "nothing to compare: the reference file is empty"),
        ([good, empty, *with_reference], "empty has 0 lines, but the reference has 30"),
        ([good, blank, *with_reference], "blank: every line is blank"),
        ([*both, *with_reference, "--metric", "bleu,comet"], "unknown metric 'comet': choose from bleu, chrf, ter"),
        ([*both, *with_reference, "--metric", ","], "--metric is empty"),
        ([good, tmp_path / "none", *with_reference], "none: no such run, model folder or file"),
        ([good, good, *with_reference], "several systems are called '"),
        (both, "give --source and --reference for translation"),
        ([*both, "--source", good], "--reference is missing"),
        ([*both, *with_reference, "--text", good], "--reference and --text belong to different tasks"),
        ([good, trained, *with_reference], "--source is missing"),
        ([f"other={trained}", trained, "--text", good], "is a translation model: --text FILE cannot be used for it"),
        ([*both, "--text", good], "language models are compared by the losses that they compute"),
        ([*both, *with_reference, "--output", tmp_path / "a.pdf"], "the name must end in .html"),
        ([*both, *with_reference, "--output", tmp_path / "none" / "a.html"], "no such folder"),
        ([*both, *with_reference, "--train-source", good], "--train-source and --train-target must name"),
        ([*both, *with_reference, "--columns", "a,b"], "--columns: not supported for the task"),
        ([*both, *with_reference, "--group", "a"], "expected NAME=PATH,PATH"),
        ([good, f"other={good}:beam=1", *with_reference], "search settings do not apply; leave out beam=1"),
        ([good, f"{trained}:baem=1", *with_reference, "--source", good], "did you mean 'beam'?"),
        ([good, f"{trained}:beam=0", *with_reference, "--source", good], "beam"),
        ([trained, f"{trained}:beam=1", "--text", good], "search settings are not supported"),
    ):
        answer = command("compare", *arguments)
        assert answer.code == 2 and message in answer.err, (arguments, answer)
        assert "Traceback" not in answer.err and not answer.out


def test_the_footnote_is_there_only_with_a_star(tmp_path: Path, command: Command) -> None:
    reference, good, bad = (tmp_path / name for name in ("reference", "good", "bad"))
    sentences = [f"a red house number {number} stands near the old river" for number in range(60)]
    reference.write_text("".join(f"{line}\n" for line in sentences), encoding="utf-8")
    good.write_text(reference.read_text(encoding="utf-8"), encoding="utf-8")
    bad.write_text("".join(f"{' '.join(line.split()[::-1])}\n" for line in sentences), encoding="utf-8")
    different = command("compare", bad, good, "--reference", reference).out
    assert "* p < 0.05 against the baseline" in different
    same = command("compare", f"one={good}", f"two={good}", "--reference", reference).out
    assert "no score differs from the baseline's with p < 0.05" in same
    assert "*" not in same
