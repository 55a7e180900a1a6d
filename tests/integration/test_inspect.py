"""`calque inspect`: tables, documents, pictures and pages from a trained run, and what it refuses."""

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import without_plots
from tests.promises.subjects import SUBJECTS

TEXT = "a b c d"


def made(task: str, folder: Path) -> Path:
    """A run of another task."""
    subject = SUBJECTS[{"language": "language model of lines", "tagger": "tagging"}[task]]
    with without_plots():
        return subject.train(folder / "run", *(["task.inputs=[]"] if task == "tagger" else [])).folder


def test_tables_show_pieces_attention_and_narrower_beams(command, trained: Path) -> None:
    answer = command("inspect", trained, TEXT, "beam=3")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == f"source       {TEXT}"
    header = next(line for line in lines if line.startswith("#"))
    assert header.split()[:2] == ["#", "piece"]
    assert header.split()[2:5] == ["P", "rank", "entropy"]
    assert "runners-up" in header
    ended = next(place for place, line in enumerate(lines) if line.startswith("finished hypotheses: "))
    assert lines[ended + 1].split() == ["score", "log", "P", "text"]
    best = next(line for line in lines if line.startswith("score  ")).split()[1]
    assert lines[ended + 2].split()[0] == best
    assert "attends to" in header
    assert any(line.startswith("beam 3: ") for line in lines)
    narrower = [line.split(":")[0].strip() for line in lines if line.startswith("  beam")]
    assert narrower in (["beam 1", "beam 2"], ["beam 1 to 2"])


def test_json_has_what_the_translator_computes(command, trained: Path, tmp_path: Path) -> None:
    printed = json.loads(command("inspect", trained, TEXT, "--format", "json").out)
    output = tmp_path / "look.json"
    assert command("inspect", trained, TEXT, "--output", output).code == 0
    assert json.loads(output.read_text(encoding="utf-8")) == printed
    (sentence,) = printed["sentences"]
    translation = command("translate", trained, stdin=TEXT.encode()).out
    assert sentence["target"]["text"] == translation.rstrip("\n")
    assert [len(sentence[key]["pieces"]) for key in ("source", "target")] == [
        len(sentence["attention"]["maps"][0]["weights"][0][0]),
        len(sentence["steps"]),
    ]


@pytest.mark.parametrize("picture", ["attention", "heads", "beam"])
@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_pictures(command, trained: Path, tmp_path: Path, picture: str, suffix: str) -> None:
    output = tmp_path / f"look{suffix}"
    assert command("inspect", trained, TEXT, "--output", output, "--picture", picture).code == 0
    content = output.read_bytes()
    assert content.startswith(b"\x89PNG" if suffix == ".png" else b"<?xml")
    if suffix == ".svg" and picture != "heads":
        assert "</s>" in content.decode().replace("&lt;", "<").replace("&gt;", ">")


def test_what_if_and_side_by_side(command, trained: Path, tmp_path: Path) -> None:
    text = command("inspect", trained, TEXT, "b a", "--prefix", "c").out
    translations = [line for line in text.splitlines() if line.startswith("translation")]
    assert len(translations) == 2
    assert all(line.split()[1] == "c" for line in translations)
    assert text.count("what if      the translation had to begin with 'c'\n") == 2
    moved = command("inspect", trained, TEXT, "--attend", "1:2", "--format", "json")
    (sentence,) = json.loads(moved.out)["sentences"]
    assert sentence["attention"]["maps"][0]["weights"][0][0][1] == 1
    assert sentence["what_if"] == {"prefix": "", "forbidden": [], "attend": [[1, 2]]}
    other = tmp_path / "copy"
    other.symlink_to(trained)
    both = json.loads(command("inspect", trained, TEXT, "--with", other, "--format", "json").out)
    assert [sentence["model"] for sentence in both["sentences"]] == [str(trained), str(other)]
    assert len(both["models"]) == 2


def test_text_can_be_written_to_a_file(command, trained: Path, tmp_path: Path) -> None:
    output = tmp_path / "look.txt"
    assert command("inspect", trained, TEXT, "--output", output).code == 0
    assert output.read_text(encoding="utf-8") == command("inspect", trained, TEXT).out


def test_saliency_has_a_column_beside_attention(command, trained: Path) -> None:
    header = next(line for line in command("inspect", trained, TEXT, "--saliency").out.splitlines() if "rank" in line)
    assert header.split("  ")[-1].strip() == "integrated gradients"
    assert "attends to" in header


def test_a_long_source_is_said_to_be_cut(command, trained: Path) -> None:
    shown = command("inspect", trained, TEXT, "source_limit=2").out
    assert "too long: only its beginning, 2 pieces, was read" in shown


def test_pages_and_gradients_and_states(command, trained: Path, tmp_path: Path) -> None:
    run = shutil.copytree(trained, tmp_path / "run")
    assert "states of" in command("inspect", run, "--index", "--index-states", "200").err
    shown = command("inspect", run, TEXT, "--states")
    assert shown.code == 0
    assert "encoder states: nearest of" in shown.out
    for arguments, name in (([TEXT, "--states"], "look.html"), (["--gradients", "--limit", "3"], "flow.html")):
        output = tmp_path / name
        assert command("inspect", run, *arguments, "--output", output).code == 0
        page = output.read_text(encoding="utf-8")
        assert page.startswith("<!doctype html>")
        assert "http://" not in page.replace("http://www.w3.org", "")
    states = tmp_path / "states.svg"
    assert command("inspect", run, TEXT, "--states", "--picture", "states", "--output", states).code == 0
    flow = json.loads(command("inspect", run, "--gradients", "--limit", "3", "--format", "json").out)
    assert flow["kind"] == "gradient-flow"
    assert "factor per step" in command("inspect", run, "--gradients", "--limit", "3").out
    pictures = tmp_path / "pictures"
    assert command("inspect", run, "--gradients", "--limit", "3", "--output", pictures).code == 0
    assert (pictures / "gradient-norms.svg").is_file()


@pytest.mark.parametrize(("task", "text"), [("language", "a b"), ("tagger", "a b")])
def test_other_tasks(command, tmp_path: Path, task: str, text: str) -> None:
    run = made(task, tmp_path)
    shown = command("inspect", run, text)
    assert shown.code == 0
    assert "P" in shown.out
    document = json.loads(command("inspect", run, text, "--format", "json").out)
    assert document["task"] == {"language": "language-modelling", "tagger": "tagging"}[task]
    for name in ("look.html", "look.svg"):
        assert command("inspect", run, text, "--output", tmp_path / name).code == 0
    refused = command("inspect", run, text, "--attend", "1:1")
    assert refused.code == 2
    assert "for neural translation models only" in refused.err
    if task == "language":
        assert "beam" in command("inspect", run, text, "--continuation", "3").out


def test_a_tagger_that_reads_further_columns_is_shown_a_column_file(command, tmp_path: Path) -> None:
    run = SUBJECTS["tagging"].train(tmp_path / "run").folder
    refused = command("inspect", run, "a b")
    assert refused.code == 2
    assert "also reads the column 'pos'" in refused.err
    words = tmp_path / "words.col"
    words.write_text("a X\nb Y\n\nc X\n", encoding="utf-8")
    document = json.loads(command("inspect", run, "--source", words, "--format", "json").out)
    assert [sentence["words"] for sentence in document["sentences"]] == [["a", "b"], ["c"]]
    assert document["sentences"][0]["columns"] == {"pos": ["X", "Y"]}


def test_files_of_sentences_and_of_pairs(command, trained: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("a b\n\nc d\ne f\n", encoding="utf-8")
    target.write_text("b a\n\nd c\nf e\n", encoding="utf-8")
    found = command("inspect", trained, "--source", source, "--limit", "3", "--format", "json")
    assert [sentence["source"]["text"] for sentence in json.loads(found.out)["sentences"]] == ["a b", "c d"]
    given = command("inspect", trained, "--source", source, "--target", target, "--format", "json")
    sentences = json.loads(given.out)["sentences"]
    assert [sentence["target"]["text"] for sentence in sentences] == ["b a", "d c", "f e"]
    assert all(sentence["target"]["given"] for sentence in sentences)
    own = command("translate", trained, stdin=b"a b\n\nc d\n").out.splitlines()
    assert [sentence["own"]["text"] for sentence in sentences][:2] == [own[0], own[2]]
    shown = command("inspect", trained, "--source", source, "--target", target, "beam=2").out
    assert shown.count("the given translation in beam search:\n  beam 1") == 3
    assert shown.count("own output   ") == 3
    summary = shown[shown.index("3 texts by log P, the least probable first") :].splitlines()
    assert summary[1].split("  ")[0] == "#"
    values = [float(line.split()[1].replace("−", "-")) for line in summary[2:]]
    assert values == sorted(values) == pytest.approx(sorted(item["log_prob"] for item in sentences), abs=1e-3)
    target.write_text("b a\n\nd c\n", encoding="utf-8")
    uneven = command("inspect", trained, "--source", source, "--target", target, "--limit", "2")
    assert uneven.code == 2
    assert "has 4 lines, but" in uneven.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a sentence"),
        ([" "], "the text is empty"),
        ([TEXT, "--output", "look.pdf"], "the suffix must be .html, .json, .svg, .png or .txt"),
        ([TEXT, "--format", "html"], "--format html needs --output"),
        ([TEXT, "--format", "pdf"], "--format: 'pdf' is not one of text, json, html, svg, png"),
        ([TEXT, "--picture", "beam"], "--picture needs an --output"),
        ([TEXT, "--attend", "3"], "is not a move of attention"),
        ([TEXT, "--attend", "1:99"], "source piece 99: the source has only 5 pieces"),
        ([TEXT, "beam=0"], "beam"),
        ([TEXT, "--source", "missing"], "both sentences and --source were given"),
        (["--source", "missing"], "missing: No such file or directory"),
        ([TEXT, "b", "--target", "c"], "--target takes the translation of a single sentence"),
        ([TEXT, "b", "--output", "look.svg"], "a picture shows one sentence and one model, but more were given"),
        ([TEXT, "b", "--states", "--picture", "beam", "--output", "look.svg"], "a picture shows one sentence"),
        ([TEXT, "bean=10"], "did you mean 'beam'?"),
        ([TEXT, "--attend", "99:1"], "target piece 99: the translation has"),
        ([TEXT, "--attend", "1:1", "--attend", "1:2"], "attention can be moved only once"),
        ([TEXT, "--format", "png", "--output", "look.svg"], "must end in .png"),
        ([TEXT, "--output", "missing/look.html"], "missing: no such folder"),
        ([TEXT, "--output", "look.svg", "--picture", "states"], "--picture states needs --states"),
        ([TEXT, "--output", "look.svg", "--picture", "marginals"], "--picture: 'marginals' is not one of attention"),
        ([TEXT, "--states"], "calque inspect"),
        ([TEXT, "--states", "--attend", "1:1"], "--states and --attend cannot be combined"),
        ([TEXT, "--index"], "--index only builds the index and shows nothing"),
        ([TEXT, "--gradients"], "--gradients measures a whole corpus and cannot be combined with a sentence"),
        (["--gradients", "--saliency", "--picture", "beam"], "cannot be combined with --picture, --saliency"),
        (["--gradients", "--output", "look.svg"], "--gradients cannot write this format"),
        ([TEXT, "--continuation", "3"], "--continuation: supported for language models only"),
    ],
)
def test_mistakes(command, trained: Path, arguments: list[str], message: str) -> None:
    answer = command("inspect", trained, *arguments)
    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.err
