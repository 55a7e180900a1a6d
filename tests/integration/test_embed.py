"""`calque embed`, and `train`, `evaluate` and `data check` of sentence encoders: files line up, mistakes are named."""

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import calque
from calque.commands import sentence_vectors, streaming
from calque.commands.vector_files import npy_header
from calque.engine import SentenceEncoder
from tests.conftest import Answer, toy_corpus, without_plots
from tests.promises.subjects import SUBJECTS

Command = Callable[..., Answer]
OTHERS = {"translation": "a translation model", "language model of lines": "a language model", "tagging": "a tagger"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence encoder with an encoder for each side; do not change it."""
    with without_plots():
        return SUBJECTS["embedding"].train(tmp_path_factory.mktemp("embed") / "run").folder


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models of other tasks, hardly trained; do not change them."""
    folder = tmp_path_factory.mktemp("others")
    with without_plots():
        return {
            name: SUBJECTS[name]
            .train(folder / name.split()[0], "training.steps=2", "training.validate_every=2", *changes)
            .folder
            for name, changes in {**dict.fromkeys(OTHERS, ()), "tagging": ("task.inputs=[]",)}.items()
        }


@pytest.fixture
def corpus(tmp_path: Path) -> dict[str, Path]:
    return toy_corpus(tmp_path / "test", pairs=40, seed=9)


def rows(answer: Answer) -> list[dict[str, object]]:
    assert answer.code == 0, answer.err
    return [json.loads(line) for line in answer.out.splitlines()]


def test_numpy_and_json_have_the_vectors_of_python(run: Path, corpus, tmp_path: Path, command: Command) -> None:
    lines = corpus["source"].read_text().splitlines()
    expected = calque.load(run).embed(lines)
    output = tmp_path / "vectors.npy"
    assert command("embed", run, "--input", corpus["source"], "--output", output).code == 0
    vectors = np.load(output)
    assert vectors.dtype == np.float32 and np.allclose(vectors, expected, atol=1e-6)
    packed = tmp_path / "source.gz"
    packed.write_bytes(gzip.compress(corpus["source"].read_bytes()))
    values = rows(command("embed", run, "--input", packed))
    assert [row["text"] for row in values] == lines and [row["line"] for row in values] == list(range(1, 41))
    assert np.array_equal(np.array([row["vector"] for row in values], dtype=np.float32), vectors)
    assert (
        command("embed", run, "--jsonl", stdin=corpus["source"].read_bytes()).out
        == command("embed", run, "--jsonl", "--input", corpus["source"]).out
    )
    target = rows(command("embed", run, "--input", corpus["source"], "--side", "target"))
    assert not np.allclose([row["vector"] for row in target], vectors)


def test_hostile_lines_keep_their_places(run: Path, tmp_path: Path, command: Command) -> None:
    path, output = tmp_path / "hostile", tmp_path / "vectors.npy"
    path.write_bytes(b"\xef\xbb\xbfa b\r\n\n \t \na" + b" b" * 3000 + b"\n\x00\xe2\x80\xa8 c\n" + b"zz\xc3\xa9" * 9)
    answer = command("embed", run, "--input", path, "--output", output, "--batch-tokens", "7")
    assert answer.code == 0, answer.err
    vectors = np.load(output)
    assert vectors.shape[0] == 6 and np.isfinite(vectors).all()
    assert [bool(row.any()) for row in vectors] == [True, False, False, True, True, True]
    assert np.allclose(vectors[0], calque.load(run).embed("a b"), atol=1e-6)
    assert f"{path}: line 2: no words" in answer.err and f"{path}: line 4: too long" in answer.err
    assert rows(command("embed", run, stdin=b"")) == []
    assert command("embed", run, "--output", output, stdin=b"").code == 0
    assert np.load(output).shape == (0, 10)


def test_lines_that_are_not_utf8(run: Path, tmp_path: Path, command: Command) -> None:
    path = tmp_path / "latin"
    path.write_bytes(b"a b\nz\xe4hl\n")
    answer = command("embed", run, "--input", path)
    assert answer.code == 2 and f"{path}: line 2, byte 2" in answer.err
    values = rows(command("embed", run, "--input", path, "--invalid", "skip"))
    assert values[1]["text"] == "" and "no words" in str(values[1]["problem"])
    assert "\ufffd" in str(rows(command("embed", run, "--input", path, "--invalid", "replace"))[1]["text"])


def test_a_vector_that_is_not_finite_is_reported(run: Path, tmp_path: Path, command: Command, monkeypatch) -> None:
    stream = sentence_vectors.stream_vectors

    def spoilt(*arguments, **settings):
        for number, vector in enumerate(stream(*arguments, **settings)):
            yield vector._replace(values=vector.values * (np.nan if number == 1 else 1))

    monkeypatch.setattr(sentence_vectors, "stream_vectors", spoilt)
    answer = command("embed", run, "--output", tmp_path / "v.npy", stdin=b"a\nb\nc\n")
    assert (
        answer.code == 1
        and "line 2: its vector is not finite" in answer.err
        and "vectors of 1 line are not" in answer.err
    )
    assert [bool(row.any()) for row in np.load(tmp_path / "v.npy")] == [True, False, True]


def test_an_interrupted_file_is_resumed(run: Path, corpus, tmp_path: Path, command: Command, monkeypatch) -> None:
    output, whole = tmp_path / "vectors.npy", tmp_path / "whole.npy"
    monkeypatch.setattr(streaming, "WINDOW", 8)
    assert command("embed", run, "--input", corpus["source"], "--output", whole).code == 0
    embed, calls = sentence_vectors._embed_window, []

    def broken(*arguments, **settings):
        calls.append(1)
        if len(calls) == 3:
            raise calque.CalqueError("the power went out")
        return embed(*arguments, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(sentence_vectors, "_embed_window", broken)
        assert command("embed", run, "--input", corpus["source"], "--output", output).code == 1
    assert not output.exists()
    answer = command("embed", run, "--input", corpus["source"], "--output", output)
    assert answer.code == 0 and "resuming after line 16" in answer.err
    assert output.read_bytes() == whole.read_bytes()


def test_the_nearest_sentences_are_those_of_a_plain_sort(run: Path, corpus, command: Command) -> None:
    with corpus["target"].open("a") as file:
        file.write("\n" + corpus["target"].read_text())  # an empty line, and ties
    encoder = calque.load(run)
    assert isinstance(encoder, SentenceEncoder)
    sources, targets = (corpus[side].read_text().splitlines() for side in ("source", "target"))
    answer = command("embed", run, "--input", corpus["source"], "--nearest", corpus["target"], "--top", "4")
    assert answer.code == 0 and f"{corpus['target']}: line 41: no words" in answer.err
    found = [line.split("\t") for line in answer.out.splitlines()]
    cosines = encoder.similarity(sources, targets)
    words = [column for column in range(len(targets)) if targets[column]]
    for row in range(len(sources)):
        order = sorted(words, key=lambda column: (-cosines[row, column], column))[:4]
        part = found[4 * row : 4 * row + 4]
        assert [int(cells[0]) for cells in part] == [row + 1] * 4 and [cells[1] for cells in part] == list("1234")
        assert [float(cells[2]) for cells in part] == pytest.approx([cosines[row, at] for at in order], abs=1e-4)
        assert [cells[4] for cells in part] == [targets[int(cells[3]) - 1] for cells in part]
    options = ("--nearest", corpus["target"], "--nearest-side", "source", "--top", "1", "--jsonl")
    (own, nothing) = rows(command("embed", run, *options, stdin=targets[5].encode() + b"\n\n"))
    assert own["nearest"] == [{"line": 1 + targets.index(targets[5]), "score": 1.0, "text": targets[5]}]
    assert nothing["nearest"] == [] and "no words" in str(nothing["problem"])


@pytest.mark.parametrize("name", OTHERS)
def test_models_of_other_tasks_have_vectors_too(others, name: str, corpus, tmp_path: Path, command: Command) -> None:
    output = tmp_path / "vectors.npy"
    for pooling in ("last", "mean", "attention"):
        options = ("--pooling", pooling, "--normalise", "--output", output)
        answer = command("embed", others[name], "--input", corpus["source"], *options)
        assert answer.code == 0, answer.err
        lines = corpus["source"].read_text().splitlines()
        expected = calque.load(others[name]).embed(lines, pooling=pooling, normalise=True)
        assert np.allclose(np.load(output), expected, atol=1e-5)
        assert np.allclose(np.linalg.norm(expected, axis=1), 1, atol=1e-5)
    answer = command("embed", others[name], "--side", "source", stdin=b"a\n")
    assert answer.code == 2 and f"--side: this is {OTHERS[name]}, which does not distinguish" in answer.err
    answer = command("evaluate", others[name], "--source", corpus["source"], "--target", corpus["source"], "--json")
    assert json.loads(answer.out)["mean"] == {"top1": 100.0, "top5": 100.0, "mrr": 100.0}


def test_evaluation_is_retrieval_in_both_directions(run: Path, corpus, command: Command) -> None:
    answer = command("evaluate", run, "--source", corpus["source"], "--target", corpus["target"], "--json")
    assert answer.code == 0, answer.err
    values = json.loads(answer.out)
    encoder = calque.load(run)
    assert isinstance(encoder, SentenceEncoder)
    sources, targets = (corpus[side].read_text().splitlines() for side in ("source", "target"))
    cosines = encoder.similarity(sources, targets)
    right = sum(targets[int(row.argmax())] == target for row, target in zip(cosines, targets, strict=True))
    assert values["source_to_target"]["top1"] == pytest.approx(100 * right / len(sources))
    assert values["pairs"] == 40
    table = command("evaluate", run, "--source", corpus["source"], "--target", corpus["target"]).out
    assert f"{values['mean']['top1']:8.2f}" in table and table.startswith("retrieval, %")


def test_mistakes_are_named(run: Path, corpus, tmp_path: Path, command: Command) -> None:
    source, target = corpus["source"], corpus["target"]
    short = tmp_path / "short"
    short.write_text("a b\n")
    (tmp_path / "empty").write_text("\n\n")
    training = ["train", "--source", source, "--target", target, "--system", "sentences", "--run", tmp_path / "x"]
    cases = [
        (["embed", run, "--input", tmp_path / "none"], "No such file"),
        (["embed", run, "--input", source, "--pooling", "max"], "--pooling: 'max' is not one of last, mean, attention"),
        (["embed", run, "--input", source, "--pooling", "mean"], "trained with 'attention' pooling"),
        (["embed", run, "--input", source, "--side", "left"], "--side: 'left' is not one of source, target"),
        (["embed", run, "--input", source, "--top", "3"], "--top and --nearest-side need --nearest"),
        (["embed", run, "--input", source, "--nearest", target, "--top", "0"], "at least 1"),
        (["embed", run, "--input", source, "--nearest", tmp_path / "empty"], "no line contains words"),
        (["embed", run, "--input", source, "--output", source], "is also an input"),
        (
            ["embed", run, "--input", source, "--output", tmp_path / "v.jsonl"],
            "add --jsonl, or choose a name that ends in .npy",
        ),
        (["embed", run, "--input", source, "--output", "/dev/stdout"], "add --jsonl"),
        (["embed", tmp_path, "--input", source], "has no manifest.json"),
        (["evaluate", run, "--source", source, "--target", short], "40 lines"),
        (["evaluate", run, "--target", target], "--target needs --source"),
        (["evaluate", run, "--source", source, "--target", target, "--beam", "2"], "cannot be combined with --beam"),
        (["evaluate", run, "--source", source, "--reference", target], "--source FILE --target FILE` evaluates it"),
        (["evaluate", run, "--source", source, "--pooling", "mean"], "--pooling needs --source and --target"),
        (["translate", run, "--input", source], f"`calque embed {run}` computes sentence vectors"),
        (["score", run, "--target", target], "is a sentence encoder, whose scores are not probabilities"),
        (["train", "--text", source, "--system", "sentences", "--run", tmp_path / "x"], "this system reads pairs"),
        (
            [*training, "training.compile=true", "training.label_smoothing=0.1"],
            "training.compile is not supported for sentence encoders",
        ),
        (
            [*training, "model.sides=shared", "text.joint=false"],
            "model.sides = 'shared' needs one vocabulary",
        ),
    ]
    for arguments, message in cases:
        answer = command(*arguments)
        assert answer.code == 2 and message in answer.err, (arguments, answer)
        assert "Traceback" not in answer.err


def test_a_config_and_a_check_of_pairs(tmp_path: Path, corpus, command: Command) -> None:
    config = tmp_path / "my.toml"
    pairs = ("--source", corpus["source"], "--target", corpus["target"])
    assert command("init", config, *pairs, "--system", "sentences").code == 0
    assert 'kind = "embedding"' in config.read_text() and "temperature" in config.read_text()
    answer = command("data", "check", *pairs, "task.kind=embedding")
    assert answer.code == 0, answer.err
    assert "40 pairs" in answer.out


def test_sentences_are_inspected_together(run: Path, corpus, tmp_path: Path, command: Command) -> None:
    answer = command("inspect", run, "a b", "b a", "c d")
    assert answer.code == 0 and len(answer.out.splitlines()) == 4, answer.err
    pairs = ("--source", corpus["source"], "--target", corpus["target"], "--limit", "6")
    assert len(command("inspect", run, *pairs).out.splitlines()) == 2 + 6
    for name, start in (("page.html", b"<!doctype"), ("all.json", b"{"), ("matrix.svg", b"<?xml")):
        assert command("inspect", run, *pairs, "--output", tmp_path / name).code == 0
        assert (tmp_path / name).read_bytes().startswith(start)
    assert command("inspect", run, *pairs, "--output", tmp_path / "p.png", "--picture", "projection").code == 0
    for options, message in (
        (["a b", "--prefix", "x"], "--prefix: supported for neural translation models only"),
        (["a b", "--gradients"], "cannot be combined with a sentence"),
        (["--gradients"], "gradient flow can be measured only for"),
        ([" "], "without words"),
        (["a b", "--output", tmp_path / "a.svg", "--picture", "beam"], "--picture: 'beam' is not one of similarity"),
    ):
        answer = command("inspect", run, *options)
        assert answer.code == 2 and message in answer.err, answer.err


def test_systems_are_compared_by_retrieval(run: Path, others, corpus, tmp_path: Path, command: Command) -> None:
    translator, pairs = others["translation"], ("--source", corpus["source"], "--target", corpus["target"])
    answer = command("compare", translator, run, *pairs, "--json", "--randomisation", "100")
    assert answer.code == 0, answer.err
    document = json.loads(answer.out)
    for system, path in zip(document["systems"], (translator, run), strict=True):
        values = json.loads(command("evaluate", path, *pairs, "--json").out)
        assert system["scores"]["top1_to_target"] == pytest.approx(values["source_to_target"]["top1"])
        assert system["scores"]["mrr_to_source"] == pytest.approx(values["target_to_source"]["mrr"])
        assert system["model"]["parameters"] and system["speed"]["sentences_per_second"]
    page = tmp_path / "page.html"
    assert "40 pairs" in command("compare", translator, run, *pairs, "--output", page, "--randomisation", "0").out
    assert page.read_text().startswith("<!doctype")
    for options, message in (
        ([translator, corpus["source"], *pairs], "not a run or model folder"),
        ([translator, run, *pairs, "--reference", corpus["target"]], "belong to different tasks"),
        ([translator, run, "--target", corpus["target"]], "--target needs --source"),
        ([translator, run, *pairs, "--tagger", run], "--tagger: not supported for the task"),
    ):
        answer = command("compare", *options)
        assert answer.code == 2 and message in answer.err, answer.err


def test_the_header_of_a_numpy_file_has_one_length() -> None:
    for rows_, width in ((0, 1), (123_456_789_012, 65_536)):
        header = npy_header(rows=rows_, width=width)
        assert len(header) == 128
        version = np.lib.format.read_magic(io.BytesIO(header))
        stream = io.BytesIO(header)
        stream.seek(8)
        assert version == (1, 0) and np.lib.format.read_array_header_1_0(stream)[0] == (rows_, width)
