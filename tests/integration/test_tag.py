"""`calque tag`, and `train` and `evaluate` of a tagger: files come back byte for byte, and mistakes are named."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from calque.data.column_files import file_sentences
from calque.experiment import train
from calque.experiment.tagging import TaggingAssembly
from tests.conftest import Answer, without_plots
from tests.tagged import sentence, tagging_values, write_columns, write_conllu

Command = Callable[..., Answer]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A tagger of chunks from columns, and one of parts of speech from CoNLL-U; do not change them."""
    folder = tmp_path_factory.mktemp("tag")
    with without_plots(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(TaggingAssembly, "draw", lambda *_: None)
        values = tagging_values(folder)
        chunks = train(values, run=folder / "chunks", quiet=True).folder
        path = write_conllu(folder / "train.conllu", sentences=200)
        words = {**values, "task": {"kind": "tagging"}, "data": {"train": [{"kind": "conllu", "path": str(path)}]}}
        upos = train(words, run=folder / "upos", quiet=True).folder
    return {"chunks": chunks, "upos": upos}


def test_a_column_file_comes_back_with_its_label_column_replaced_or_appended(runs, tmp_path, command: Command) -> None:
    path = write_columns(tmp_path / "test.txt", sentences=20, seed=5)
    answer = command("tag", runs["chunks"], "--input", path, "--format", "columns")
    assert answer.code == 0, answer.err
    before, after = path.read_text().splitlines(), answer.out.splitlines()
    assert [line.split()[:2] for line in after] == [line.split()[:2] for line in before]
    short = tmp_path / "short.col.gz"
    short.write_bytes(gzip.compress("".join(" ".join(line.split()[:2]) + "\n" for line in before).encode()))
    output = tmp_path / "out.txt"
    assert command("tag", runs["chunks"], "--input", short, "--output", output).code == 0
    assert output.read_text().splitlines() == after
    appended = command("tag", runs["chunks"], "--input", path, "--append").out.splitlines()
    assert [line.split()[:3] for line in appended] == [line.split() for line in before]
    assert [line.split()[3:] for line in appended] == [line.split()[2:] for line in after]
    marked = command("tag", runs["chunks"], "--input", path, "--format", "columns", "--marginals").out.splitlines()
    assert [line.split()[:3] for line in marked] == [line.split() for line in after]
    assert all(0 <= float(line.split()[3]) <= 1 for line in marked if line)


def test_a_conllu_file_with_another_name_is_recognised(runs, tmp_path, command: Command) -> None:
    path = write_conllu(tmp_path / "a.conllu", sentences=5, seed=5)
    other = tmp_path / "a.txt"
    other.write_text("# a comment\n" + path.read_text())
    expected = command("tag", runs["upos"], "--input", path)
    answer = command("tag", runs["upos"], "--input", other)
    assert answer.code == 0 and answer.out == "# a comment\n" + expected.out, answer.err
    for arguments in (
        ["evaluate", runs["upos"], "--json", "--conll"],
        ["compare", f"a={runs['upos']}", f"b={runs['upos']}", "--randomisation", 0, "--conll"],
        ["data", "check", "--conll"],
        ["inspect", runs["upos"], "--format", "json", "--source"],
    ):
        answers = [command(*arguments, file) for file in (path, other)]
        assert [answer.code for answer in answers] == [0, 0], answers[1].err
        if arguments[0] in ("evaluate", "inspect"):
            assert answers[0].out.replace(str(path), "") == answers[1].out.replace(str(other), "")
    named = command("data", "check", "--conll", other, "--columns", ",".join("abcdefghij"), "task.words=b")
    assert "CoNLL-U" not in named.err  # --columns: not CoNLL-U
    other.write_text("1 2 3 4 5 6 7 8 9 10\n")  # words separated by spaces
    assert len(command("tag", runs["upos"], "--input", other).out.split()) == 10


@pytest.mark.parametrize("option", ["--format=columns", "--append"])
def test_columns_without_names_are_not_guessed(runs, tmp_path, command: Command, option: str) -> None:
    path = write_columns(tmp_path / "test.txt", sentences=20, seed=5)
    for run, columns, extra in (("upos", "form,upos,chunk", ""), ("chunks", "form,pos,chunk,extra", " x")):
        path.write_text("".join(f"{line}{extra}\n" if line else "\n" for line in path.read_text().splitlines()))
        answer = command("tag", runs[run], "--input", path, option)
        assert answer.code == 2 and f"{path}: line 1: found {3 + len(extra) // 2} columns" in answer.err, answer.err
        assert "--columns" in answer.err and answer.out == ""
        answer = command("evaluate", runs[run], "--conll", path)
        assert answer.code == 2 and "--columns" in answer.err, answer.err
        assert command("evaluate", runs[run], "--conll", path, "--columns", columns).code == 0
        labelled = command("tag", runs[run], "--input", path, "--columns", columns, option)
        assert labelled.code == 0, labelled.err
        replaced = columns.split(",").index("upos" if run == "upos" else "chunk")
        for before, after in zip(path.read_text().splitlines(), labelled.out.splitlines(), strict=True):
            old, new = before.split(), after.split()
            if option == "--append":
                assert new[: len(old)] == old
            else:
                assert new[:replaced] == old[:replaced] and new[replaced + 1 :] == old[replaced + 1 :]


def test_a_file_is_read_as_those_the_tagger_was_trained_on(runs, tmp_path, command: Command) -> None:
    path = write_columns(tmp_path / "test.txt", sentences=20, seed=5)
    by_default = command("tag", runs["chunks"], "--input", path)
    assert by_default == command("tag", runs["chunks"], "--input", path, "--format", "columns")
    text = tmp_path / "raw.txt"
    text.write_text("the old dog sees a cat\n")
    answer = command("tag", runs["chunks"], "--input", text)
    assert answer.code == 2 and "6 columns, but the model was trained on form, pos, chunk" in answer.err
    assert "--format text for raw text" in answer.err
    warned = command("tag", runs["upos"], "--input", path)
    assert warned.code == 0 and "has 3 words; if it is a column file with one word per line, use --format" in warned.err
    assert "warning" not in command("tag", runs["upos"], "--input", text).err


def test_conllu_comes_back_with_upos_replaced(runs, tmp_path, command: Command) -> None:
    path = write_conllu(tmp_path / "test.conllu", sentences=20, seed=5)
    out = command("tag", runs["upos"], "--format", "conllu", stdin=path.read_bytes()).out
    by_name = command("tag", runs["upos"], "--input", path).out
    assert out == by_name
    for before, after in zip(path.read_text().splitlines(), out.splitlines(), strict=True):
        cells, tagged_cells = before.split("\t"), after.split("\t")
        assert cells[:3] == tagged_cells[:3] and cells[4:] == tagged_cells[4:]
    marked = tmp_path / "marked.conllu"
    assert command("tag", runs["upos"], "--input", path, "--output", marked, "--marginals").code == 0
    (first, *_) = file_sentences(marked, format="conllu")
    assert all(misc.startswith("Probability=") for misc in first.column(10))


def test_every_line_of_text_gives_one_line_of_labels(runs, command: Command) -> None:
    answer = command("tag", runs["upos"], stdin=b"the dog sees a  cat\n\n the\n")
    assert [len(line.split()) for line in answer.out.split("\n")] == [5, 0, 1, 0]
    rows = [
        json.loads(line) for line in command("tag", runs["upos"], "--marginals", stdin=b"the dog\n").out.splitlines()
    ]
    assert rows[0]["words"] == ["the", "dog"] and len(rows[0]["labels"]) == 2
    for label, shares in zip(rows[0]["labels"], rows[0]["marginals"], strict=True):
        assert label in shares and sum(shares.values()) == pytest.approx(1, abs=1e-5)


def test_a_tagger_is_evaluated(runs, tmp_path, command: Command) -> None:
    path = write_columns(tmp_path / "test.txt", sentences=20, seed=5)
    with path.open("a") as file:
        file.write("\nnew X B-NEW\n")
    picture = tmp_path / "confusion.png"
    answer = command("evaluate", runs["chunks"], "--conll", path, "--confusion", picture)
    assert answer.code == 0 and picture.read_bytes().startswith(b"\x89PNG")
    assert "B-NEW (1)" in answer.err and answer.out.startswith("accuracy") and "\nNP " in answer.out
    values = json.loads(command("evaluate", runs["chunks"], "--conll", path, "--json").out)
    tagged = command("tag", runs["chunks"], "--input", path, "--format", "columns").out
    gold, predicted = ([line.split()[2] for line in text.splitlines() if line] for text in (path.read_text(), tagged))
    right = sum(label == prediction for label, prediction in zip(gold, predicted, strict=True))
    assert values["accuracy"] == pytest.approx(100 * right / len(gold)) and set(values["types"]) == {"NP", "NEW"}
    plain = json.loads(
        command("evaluate", runs["upos"], "--json", "--conll", write_conllu(tmp_path / "a.conllu", sentences=9)).out
    )
    assert "f1" not in plain


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "columns"], "standard input: line 1: found 1 columns separated by spaces, expected at least 2"),
        ([], "also reads the column pos"),
        (["--columns", "form,chunk"], "'pos', but the columns are form, chunk"),
        (["--format", "conllu", "--append"], "--append needs a column file"),
        (["--format", "text", "--columns", "form"], "--columns needs a column file"),
    ],
)
def test_bad_input_is_named(runs, command: Command, arguments, message) -> None:
    answer = command("tag", runs["chunks"], *arguments, stdin=b"dog\n")
    assert answer.code == 2 and message in answer.err


def test_other_commands_name_the_command_for_a_tagger(runs, command: Command) -> None:
    for arguments in (["translate", runs["upos"]], ["score", runs["upos"], "--target", __file__]):
        answer = command(*arguments, stdin=b"x\n")
        assert answer.code == 2 and "is a tagger" in answer.err
    assert "is not a tagger" not in command("tag", runs["upos"], stdin=b"x\n").err


def test_training_from_the_command_line(tmp_path, command: Command, monkeypatch) -> None:
    monkeypatch.setattr(TaggingAssembly, "draw", lambda *_: None)
    monkeypatch.setattr("calque.experiment.running.draw_curves", lambda _folder: True)
    path = write_columns(tmp_path / "train.txt", sentences=150)
    settings = ["training.steps=2", "--scale", "0.1", "--run", tmp_path / "run"]
    answer = command("train", "--conll", path, "--columns", "form,pos,chunk", 'task.inputs=["pos"]', *settings)
    assert answer.code == 0 and f"next: calque tag {tmp_path / 'run'} --input FILE" in answer.err, answer.err
    for arguments, message in (
        (["--valid-conll", path], "--valid-conll needs --conll"),
        (["--conll", path, "--text", path], "--conll is for a tagger"),
        (["--conll", path], "has 3 columns; name them all with --columns, e.g. --columns form,pos,chunk"),
        (["--conll", path, "--columns", "form,pos"], "has 3 columns; name them all with --columns"),
        (["--conll", path, "--columns", "form,pos,chunk", "--system", "tiny"], "--conll is for a tagger"),
        (["--source", path, "--target", path, "--system", "huang2015"], "a tagger reads words and labels"),
        (
            ["--conll", path, "--columns", "form,pos,chunk", "--label", "nothing", "--run", tmp_path / "x"],
            "this task reads nothing",
        ),
    ):
        answer = command("train", *arguments)
        assert answer.code == 2 and message in answer.err, answer.err


def test_the_toy_corpus_needs_its_context() -> None:
    import random

    rows = [row for seed in range(50) for row in sentence(random.Random(seed))]
    assert {label for word, label in rows if word == "watch"} == {"N", "V"}
