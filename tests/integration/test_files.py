"""What `calque translate` and `calque score` read and write: pipes, links, devices, long lines, many answers."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import calque
from calque.commands.output import ResumableFile
from calque.commands.streaming import LineTranslator
from calque.data.lines import Line
from calque.engine import Request
from calque.engine.constraint_files import RequestBuilder
from calque.experiment import train
from tests.conftest import Answer, environment, toy_corpus, toy_values, without_plots
from tests.integration.conftest import LINES

Command = Callable[..., Answer]


@contextmanager
def piped(*texts: bytes) -> Iterator[list[Path]]:
    """Names of pipes through which the texts come, as a shell's `<(...)` gives them."""
    pipes = [os.pipe() for _ in texts]

    def feed(write: int, text: bytes) -> None:
        with open(write, "wb") as out:
            out.write(text)

    for (_, write), text in zip(pipes, texts, strict=True):
        threading.Thread(target=feed, args=(write, text), daemon=True).start()
    yield [Path(f"/dev/fd/{read}") for read, _ in pipes]
    for read, _ in pipes:
        os.close(read)


@contextmanager
def reading(pipe: Path) -> Iterator[list[bytes]]:
    """What somebody else reads from a pipe with a name."""
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    thread.start()
    yield got
    thread.join()


def rows(answer: Answer) -> list[dict[str, Any]]:
    assert answer.code == 0, answer.err
    return [json.loads(line) for line in answer.out.splitlines()]


# --- Pipes ---


def test_pipes_are_read_like_files(command: Command, trained: Path, sentences: Path, tmp_path: Path) -> None:
    files = {"prefixes": "\n\ng\n\n\n", "terms": "b c\th a\n", "forbid": "d\n", "dictionary": "x\ty\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    options = [part for name in files for part in (f"--{name}", tmp_path / name)]
    expected = command("translate", trained, "--input", sentences, *options)
    plain = command("translate", trained, "--input", sentences)
    assert expected.code == 0, expected.err
    assert expected.out != plain.out
    with piped(sentences.read_bytes(), *(text.encode() for text in files.values())) as (source, *pipes):
        piped_options = [part for name, pipe in zip(files, pipes, strict=True) for part in (f"--{name}", pipe)]
        answer = command("translate", trained, "--input", source, *piped_options)
    assert (answer.code, answer.out) == (0, expected.out)


def test_a_pipe_into_a_file_loses_no_line_and_is_not_resumed(
    command: Command, trained: Path, sentences: Path, tmp_path: Path
) -> None:
    output, pipe = tmp_path / "output", tmp_path / "pipe"
    os.mkfifo(pipe)
    feeding = threading.Thread(target=lambda: pipe.write_bytes(sentences.read_bytes()), daemon=True)
    feeding.start()
    answer = command("translate", trained, "--input", pipe, "--output", output)
    feeding.join()
    assert answer.code == 0, answer.err
    assert "the input is a pipe, so the output cannot be resumed if it is interrupted" in answer.err
    assert output.read_text(encoding="utf-8") == command("translate", trained, "--input", sentences).out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input", "output", "pipe"]


def test_score_reads_pipes(command: Command, trained: Path, sentences: Path) -> None:
    expected = command("score", trained, "--source", sentences, "--target", sentences)
    text = sentences.read_bytes()
    with piped(text, text) as (source, target):
        answer = command("score", trained, "--source", source, "--target", target)
    assert answer == expected
    assert "5 pairs" in answer.err
    with piped(text, text[:-10]) as (source, target):
        refused = command("score", trained, "--source", source, "--target", target)
    assert refused.code == 2
    assert "have different numbers of lines" in refused.err


@pytest.mark.slow
def test_a_shells_pipes(trained: Path, tmp_path: Path) -> None:
    """3,000 lines, more than one window and more than a pipe holds, and nothing but a pipe on either side."""
    many = tmp_path / "many"
    many.write_text("".join(f"{line}\n" for line in LINES) * 600, encoding="utf-8")
    (tmp_path / "forbid").write_text("a\n", encoding="utf-8")
    calling = f"{sys.executable} -m calque translate {trained} --beam 1"
    script = f"""
        {calling} --input {many} --forbid {tmp_path}/forbid > {tmp_path}/expected || exit 1
        {calling} --input <(cat {many}) --forbid <(echo a) --output >(cat > {tmp_path}/found) || exit 1
        cat {many} | {calling} --input /dev/stdin --forbid <(echo a) --output /dev/stdout | cat > {tmp_path}/third
    """
    done = subprocess.run(["bash", "-c", script], env=environment(), capture_output=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, b"")
    expected = (tmp_path / "expected").read_bytes()
    assert expected.count(b"\n") == 3000
    assert b"a" not in expected
    assert (tmp_path / "found").read_bytes() == expected == (tmp_path / "third").read_bytes()


# --- Outputs ---


@pytest.mark.parametrize("work", ["translate", "score"])
def test_pipes_and_links_are_written_directly(
    command: Command, trained: Path, sentences: Path, tmp_path: Path, work: str
) -> None:
    inputs = ["--input", sentences] if work == "translate" else ["--source", sentences, "--target", sentences]
    expected = command(work, trained, *inputs).out.encode()
    pipe, target, link = (tmp_path / name for name in ("pipe", "target", "link"))
    target.write_bytes(b"old\n")
    link.symlink_to(target)
    os.mkfifo(pipe)
    with reading(pipe) as got:
        assert command(work, trained, *inputs, "--output", pipe).code == 0
    assert got == [expected]
    assert pipe.is_fifo()
    assert command(work, trained, *inputs, "--output", link).code == 0
    assert link.is_symlink()
    assert target.read_bytes() == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input", "link", "pipe", "target"]


@pytest.mark.parametrize("work", ["translate", "score"])
def test_an_output_that_another_process_writes_is_refused(
    command: Command, trained: Path, sentences: Path, tmp_path: Path, work: str
) -> None:
    inputs = ["--input", sentences] if work == "translate" else ["--source", sentences, "--target", sentences]
    with ResumableFile(tmp_path / "output") as writer:
        writer.write(b"other\n")
        answer = command(work, trained, *inputs, "--output", tmp_path / "output")
    assert answer.code == 2
    assert "another process is writing this file" in answer.err
    assert (tmp_path / "output").read_bytes() == b"other\n"


def test_scores_come_window_by_window_and_a_failure_keeps_the_old_file(
    command: Command, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calque.engine.engine.WINDOW", 2)
    source, output = tmp_path / "source", tmp_path / "output"
    source.write_bytes(b"a b\nb c\n\xff\n")
    output.write_bytes(b"old\n")
    answer = command("score", trained, "--source", source, "--target", source)
    assert answer.code == 2
    assert "line 3, byte 1" in answer.err
    assert len(answer.out.splitlines()) == 2, "what was scored before is there"
    assert command("score", trained, "--source", source, "--target", source, "--output", output).code == 2
    assert output.read_bytes() == b"old\n"


# --- Draws, seeds and beams ---


def test_samples_of_a_line_do_not_depend_on_the_window(trained: Path) -> None:
    """Neither a split line before it nor the start of the window changes a sample."""
    translator = calque.load(trained)
    changes = {"method": "sample", "temperature": 2.0, "source_limit": 4}
    search = translator.search.model_copy(update=changes)
    template = Request("", search=search, long="split")
    builder = RequestBuilder("in", template=template, prefixes=None, terms=None, inline=False)
    lines_translator = LineTranslator(translator.engine(), builder)
    texts = ["a b c d e f g h a b", "c d e f", "h g f e d c", "b b a c"]
    lines = [Line(text, number, cut=False, invalid=None) for number, text in enumerate(texts, start=1)]
    whole = [line.answer.text for line in lines_translator.translate(lines)]
    for cut in (1, 2, 3):
        windows = (lines[:cut], lines[cut:])
        texts_by_window = [line.answer.text for window in windows for line in lines_translator.translate(window)]
        assert texts_by_window == whole
    alone = translator.stream([texts[1]], search=search, first=1)
    assert next(alone).text == whole[1]


def test_large_seeds_are_accepted(command: Command, trained: Path, sentences: Path) -> None:
    outputs = {}
    for seed in (1, 2**32 + 1, 3_000_000_000, 2**63 - 1):
        answer = command("translate", trained, "method=sample", "temperature=3", f"seed={seed}", "--input", sentences)
        assert answer.code == 0, answer.err
        outputs[seed] = answer.out
    assert len(set(outputs.values())) == 4
    refused = command("translate", trained, "method=sample", f"seed={2**63}", "--input", sentences)
    assert refused.code == 2
    assert "seed" in refused.err
    assert "Traceback" not in refused.err


def test_a_beam_that_is_not_set_is_not_rejected(command: Command, trained: Path) -> None:
    drawn = command("translate", trained, "method=sample", "--nbest", 1200, "--format", "text", stdin=b"a b\n")
    assert (drawn.code, len(drawn.out.splitlines())) == (0, 1200)
    diverse = command("translate", trained, "groups=2", "--nbest", 3, stdin=b"a b c\n")
    assert (diverse.code, len(diverse.out.splitlines())) == (0, 3)
    wide = command("translate", trained, "--nbest", 1200, stdin=b"a b c\n")
    assert wide.code == 2
    assert "--nbest and groups need a beam of 1200" in wide.err


# --- Output formats ---


def test_every_line_has_the_same_fields(command: Command, trained: Path) -> None:
    """Empty ones, and those that are translated in parts."""
    text = b"a b\n\nc b a b c d e f g h\n \t\n"
    options = ["source_limit=5", "--long", "split", "--format", "jsonl", "--attention"]
    short, empty, split, blank = (
        row["candidates"][0] for row in rows(command("translate", trained, *options, stdin=text))
    )
    assert short.keys() == empty.keys() == split.keys() == blank.keys()
    for candidate in (empty, blank):
        assert (
            candidate["text"],
            candidate["pieces"],
            candidate["log_probs"],
            candidate["alignment"],
            candidate["attention"],
        ) == (
            "",
            [],
            [],
            "",
            [],
        )
    for candidate in (short, split):
        assert sum(candidate["log_probs"]) == pytest.approx(candidate["log_prob"], abs=1e-4)
        assert len(candidate["log_probs"]) == len(candidate["pieces"]) + 1
        assert {len(row) for row in candidate["attention"]} == {len(candidate["source_pieces"]) + 1}
    assert " ".join(piece for piece in split["pieces"] if piece != "</s>") == split["text"]
    links = [tuple(map(int, link.split("-"))) for link in split["alignment"].split()]
    assert {target_word for _, target_word in links} == set(range(len(split["text"].split())))
    assert all(
        (source_word < 5) == (target_word < split["pieces"].index("</s>")) for source_word, target_word in links
    ), "each part attends to itself"


def test_as_text_every_line_has_nbest_translations(command: Command, trained: Path) -> None:
    text = b"a b\n\nc b a b c d e f g h\nb a\n"
    options = ["source_limit=5", "--long", "split", "--nbest", 2]
    translations = command("translate", trained, *options, "--format", "text", stdin=text).out.split("\n")[:-1]
    assert len(translations) == 8
    best = command("translate", trained, "source_limit=5", "--long", "split", stdin=text).out.split("\n")[:-1]
    assert translations[::2] == best
    assert (translations[3], translations[5]) == ("", "")


@pytest.mark.parametrize("long", ["cut", "split"])
def test_a_line_of_too_many_bytes_is_reported(command: Command, trained: Path, long: str) -> None:
    answer = command("translate", trained, "--long", long, stdin=b"a b c" + b" " * 70_000 + b"d\n")
    assert (answer.code, answer.out) == (0, "a b c\n")
    assert "line 1: too long; only its beginning (65,536 bytes) was read" in answer.err
    cut = command("translate", trained, "source_limit=2", stdin=b"a b c" + b" " * 70_000 + b"d\n")
    assert "line 1: too long; only its beginning (2 pieces) was read" in cut.err


@pytest.fixture(scope="module")
def incapable(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of models that have no unknown words, or no attention to find their sources."""
    folder = tmp_path_factory.mktemp("incapable")
    corpus = toy_corpus(folder / "corpus")
    with without_plots():
        return {
            name: train(toy_values(corpus, family, *more, "training.steps=2"), run=folder / name, quiet=True).folder
            for name, family, more in (("spelling", "luong", ["text.kind=bytes"]), ("blind", "plain", []))
        }


def test_replacing_unknown_words_without_effect_is_reported(
    command: Command, trained: Path, incapable: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "dictionary").write_text("x\ty\n", encoding="utf-8")
    for option in (["--replace-unknown"], ["--dictionary", tmp_path / "dictionary"]):
        for name, why in (("spelling", "none is unknown"), ("blind", "no attention")):
            answer = command("translate", incapable[name], *option, stdin=b"a\nb\n")
            assert (answer.code, len(answer.out.splitlines())) == (0, 2)
            assert answer.err.count(f"{option[0]} has no effect: ") == 1
            assert why in answer.err
        assert command("translate", trained, *option, stdin=b"a\nb\n").err == ""


# --- Lines ---


def test_sampled_bytes_are_one_line_for_every_reader(
    command: Command, incapable: dict[str, Path], tmp_path: Path
) -> None:
    source, output = tmp_path / "source", tmp_path / "output"
    source.write_text("a b c\n" * 40, encoding="utf-8")
    drawn = ["method=sample", "temperature=3", "maximum=40", "--input", source, "--output", output]
    translator = calque.load(incapable["spelling"])
    search = translator.search.model_copy(update={"method": "sample", "temperature": 3.0, "maximum": 40})
    texts = [translation.text for translation in translator.stream(["a b c"] * 40, search=search)]
    assert len("\n".join(texts).splitlines()) > 40, "some samples have line breaks"
    for format in ("text", "tsv", "jsonl"):
        assert command("translate", incapable["spelling"], *drawn, "--format", format).code == 0
        written = output.read_bytes().decode()
        assert written.count("\n") == len(written.splitlines()) == 40
        if format == "jsonl":
            assert [json.loads(line)["candidates"][0]["text"] for line in written.splitlines()] == texts
    source.write_text("a\u2028b\n", encoding="utf-8")
    scored = command("score", incapable["spelling"], "--source", source, "--target", source, "--format", "jsonl")
    assert len(scored.out.splitlines()) == 1
