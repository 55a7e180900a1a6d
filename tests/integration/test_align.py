"""`calque align`: what it reads, writes and rejects, and that training takes its output."""

import gzip
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import get_args

import pytest

from calque.commands.align import METHODS, MODELS, TENSIONS
from calque.config import read_toml
from calque.engine.constraint_files import read_pairs
from calque.statistics.diagonal import LARGEST
from calque.statistics.symmetrisation import SYMMETRISATIONS
from calque.statistics.word_alignment import ModelName
from tests.conftest import Answer, environment

Command = Callable[..., Answer]

WORDS = {"haus": "house", "hund": "dog", "rot": "red", "klein": "small", "sieht": "sees", "der": "the", "und": "and"}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """200 pairs, word for word, with empty sides in lines 3, 4 and 5, and their true alignments."""
    random = Random(0)
    source = [random.sample(sorted(WORDS), random.randint(2, 6)) for _ in range(200)]
    target = [[WORDS[word] for word in row] for row in source]
    source[2], target[3], source[4], target[4] = [], [], [], []
    gold = [range(min(len(words), len(row))) for words, row in zip(source, target, strict=True)]
    source[9] = [word.upper() for word in source[9]]
    texts = {
        "source": "".join(f"{' '.join(row)}\n" for row in source),
        "target": "".join(f"{' '.join(row)}\n" for row in target),
        "gold": "".join(" ".join(f"{word}-{word}" for word in row) + "\n" for row in gold),
    }
    paths = {name: tmp_path / name for name in texts}
    for name, text in texts.items():
        paths[name].write_text(text, encoding="utf-8")
    return paths


def pair_options(files: dict[str, Path]) -> list[object]:
    return ["--source", files["source"], "--target", files["target"]]


def refused(answer: Answer, *expected: str) -> None:
    """One message that says all of `expected`, exit code 2, nothing on standard output, no traceback."""
    assert (answer.code, answer.out) == (2, "") and "Traceback" not in answer.err, answer
    for text in expected:
        assert text in answer.err, answer.err


def test_the_choices_are_those_of_the_models() -> None:
    assert set(METHODS) == set(SYMMETRISATIONS)
    assert set(MODELS) == set(get_args(ModelName))
    assert TENSIONS == (0, LARGEST)


@pytest.mark.parametrize("method", METHODS)
def test_word_for_word(command: Command, files: dict[str, Path], method: str) -> None:
    answer = command("align", *pair_options(files), "--symmetrise", method, "--reference", files["gold"])
    assert answer.code == 0
    assert answer.out == files["gold"].read_text(), "one line per pair, empty for an empty side"
    assert "alignment error rate 0.00 %" in answer.err
    assert "197 pairs aligned; left out: 3 with an empty side" in answer.err
    trained = {line.split(":")[0] for line in answer.err.splitlines() if "iteration" in line}
    assert trained == ({method} if method in ("forward", "backward") else {"forward", "backward"})


def test_perplexity_falls_and_is_printed_for_each_iteration(command: Command, files: dict[str, Path]) -> None:
    answer = command("align", *pair_options(files), "--iterations", 3, 2, "--symmetrise", "forward")
    lines = [line for line in answer.err.splitlines() if "iteration" in line]
    assert [line.split(": ")[1] for line in lines] == [
        *(f"IBM 1, iteration {number}" for number in (1, 2, 3)),
        *(f"HMM, iteration {number}" for number in (1, 2)),
    ]
    perplexities = [float(line.split("perplexity ")[1].split()[0]) for line in lines]
    assert perplexities[0] > perplexities[1] > perplexities[2]
    assert perplexities[3] > perplexities[4]
    ibm1 = command("align", *pair_options(files), "--iterations", 2, 5, "--model", "ibm1")
    assert ibm1.code == 0 and ibm1.err.count("IBM 1, iteration") == 4 and "HMM" not in ibm1.err


def test_ibm2_learns_its_tension_unless_it_is_given(command: Command, files: dict[str, Path]) -> None:
    ibm2, options = ("--model", "ibm2", "--symmetrise", "forward"), pair_options(files)
    learnt, fixed, bayes = (
        command("align", *options, *ibm2, *further) for further in ([], ["--tension", 2], ["--dirichlet", 0.01])
    )
    for answer in (learnt, fixed, bayes):
        assert answer.code == 0 and answer.out == files["gold"].read_text()
        assert answer.err.count("IBM 1, iteration") == answer.err.count("IBM 2, iteration") == 5

    def tensions(answer: Answer) -> list[str]:
        return [line.split("λ ")[1] for line in answer.err.splitlines() if "IBM 2" in line]

    assert tensions(learnt)[0] == "4.00" != tensions(learnt)[-1]
    assert set(tensions(fixed)) == {"2.00"}


def test_the_dictionary_is_one_of_calque_translate(command: Command, files: dict[str, Path], tmp_path: Path) -> None:
    lexicon, dictionary = tmp_path / "lexicon", tmp_path / "dictionary"
    options = ("--symmetrise", "backward", "--lexicon", lexicon, "--dictionary", dictionary)
    assert command("align", *pair_options(files), *options).code == 0
    best = {}
    for line in lexicon.read_text().splitlines():
        source, target, _ = line.split("\t")
        best.setdefault(source, target)
    del best[""]
    assert dict(read_pairs(dictionary)) == best


def test_the_output_appears_when_it_is_complete_and_is_always_the_same(
    command: Command, files: dict[str, Path], tmp_path: Path
) -> None:
    outputs = [tmp_path / "one", tmp_path / "two"]
    for output in outputs:
        assert command("align", *pair_options(files), "--output", output).out == ""
    assert outputs[0].read_bytes() == outputs[1].read_bytes() == files["gold"].read_bytes()
    assert not list(tmp_path.glob("*.part*"))


def test_case_counts_only_on_request(command: Command, files: dict[str, Path], tmp_path: Path) -> None:
    lexicons = [tmp_path / "lower", tmp_path / "case"]
    for lexicon, option in zip(lexicons, ([], ["--case"]), strict=True):
        assert command("align", *pair_options(files), "--lexicon", lexicon, *option).code == 0
    lower, case = ([line.split("\t") for line in path.read_text().splitlines()] for path in lexicons)
    assert not any(source.isupper() for source, _, _ in lower)
    assert any(source.isupper() for source, _, _ in case)


def test_the_lexicon_has_the_most_likely_translation_first(
    command: Command, files: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "lexicon"
    for method in ("grow-diag-final-and", "backward"):
        assert command("align", *pair_options(files), "--lexicon", path, "--symmetrise", method).code == 0
        best: dict[str, tuple[str, float]] = {}
        for line in path.read_text().splitlines():
            source, target, probability = line.split("\t")
            assert float(probability) >= 0.001
            first = best.setdefault(source, (target, float(probability)))
            assert float(probability) <= first[1]
        assert {source: target for source, (target, _) in best.items() if source} == WORDS
        assert "" in best, "the empty word"
        path.unlink()


def test_tables_and_compressed_files_are_the_same(command: Command, files: dict[str, Path], tmp_path: Path) -> None:
    """Line n of the output belongs to line n of the file; a header has an empty line."""
    expected = files["gold"].read_text()
    source, target = (files[side].read_text().splitlines() for side in ("source", "target"))
    rows = list(zip(source, target, strict=True))
    (tmp_path / "s.gz").write_bytes(gzip.compress(files["source"].read_bytes()))
    (tmp_path / "pairs.tsv").write_text("".join(f"{b}\t{a}\n" for a, b in rows))
    (tmp_path / "named.tsv").write_text("en\tde\n" + "".join(f"{b}\t{a}\n" for a, b in rows))
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps({"de": a, "en": b}) + "\n" for a, b in rows))
    (tmp_path / "pairs.csv").write_text("de,en\n" + "".join(f'"{a}",{b}\n' for a, b in rows))
    named = ("--source-column", "de", "--target-column", "en")
    for options, output in (
        (["--source", tmp_path / "s.gz", "--target", files["target"]], expected),
        (["--tsv", tmp_path / "pairs.tsv", "--source-column", 2, "--target-column", 1], expected),
        (["--tsv", tmp_path / "named.tsv", *named], "\n" + expected),
        (["--jsonl", tmp_path / "pairs.jsonl", *named], expected),
        (["--csv", tmp_path / "pairs.csv", *named], "\n" + expected),
    ):
        answer = command("align", *options)
        assert (answer.code, answer.out) == (0, output), answer.err


def test_pairs_that_are_too_long_have_an_empty_line(command: Command, files: dict[str, Path]) -> None:
    answer = command("align", *pair_options(files), "--maximum", 4)
    assert answer.code == 0
    for line, source in zip(answer.out.splitlines(), files["source"].read_text().splitlines(), strict=True):
        assert bool(line) == (1 < len(source.split()) <= 4) or not line
    assert "with more than 4 words on a side" in answer.err


def test_what_cannot_be_aligned_is_rejected(command: Command, files: dict[str, Path], tmp_path: Path) -> None:
    short, invalid, blank = tmp_path / "short", tmp_path / "invalid", tmp_path / "blank"
    short.write_text("".join(files["target"].read_text().splitlines(keepends=True)[:-1]))
    invalid.write_bytes(files["source"].read_bytes().replace(b"hund", b"h\xfcnd", 1))
    blank.write_text("\n" * 200)
    (tmp_path / "one.tsv").write_text("a\n")
    source, target = pair_options(files)[:2], pair_options(files)[2:]
    refused(command("align", *source, "--target", short), "has 200 lines", "has 199")
    refused(command("align", *source), "--target", "missing")
    refused(command("align"), "the options name no corpora; give exactly one: --source and --target")
    refused(command("align", *source, *target, "--tsv", files["source"]), "the options name 2 corpora")
    refused(command("align", "--tsv", tmp_path / "one.tsv"), "one.tsv: line 1", "1 column")
    refused(command("align", "--source", invalid, *target), "invalid: line", "0xfc is not UTF-8 here", "iconv")
    refused(command("align", "--source", tmp_path / "missing", *target), "missing: No such file")
    refused(command("align", "--source", blank, *target), "nothing to align: each of its 200 pairs")
    refused(command("align", *source, *target, "--model", "ibm4"), "--model: 'ibm4' is not one of hmm, ibm2, ibm1")
    for option, value, low, high in (("--tension", 21, 0, 20), ("--dirichlet", 0.001, 0.01, 10)):
        ibm2 = command("align", *source, *target, "--model", "ibm2", option, value)
        refused(ibm2, f"{option} is {float(value)}; expected a number from {low} to {high}")
        refused(command("align", *source, *target, option, 1), f"{option} has no effect on --model hmm")
    refused(command("align", *source, *target, "--dictionary", "a", "--lexicon", "a"), "name two different files")
    refused(command("align", *source, *target, "--symmetrise", "grow"), "--symmetrise: 'grow' is not one of")
    refused(command("align", *source, *target, "--iterations", 0, 5), "--iterations is 0 5", "at least 1")
    for arguments in ((*source, *target, "--iterations", 5), ("--iterations", 5, *source, *target)):
        refused(command("align", *arguments), "--iterations needs 2 values, N N: the EM iterations of IBM 1, and those")
    refused(command("align", *source, *target, "--output", files["source"]), "is also an input")
    refused(command("align", *source, *target, "--lexicon", tmp_path), "is a folder; name a file for --lexicon")
    refused(command("align", *source, *target, "--output", "a", "--lexicon", "a"), "name two different files")
    refused(
        command("align", *source, *target, "--source-column", 1, "--target-column", 2), "have no effect without --tsv"
    )
    assert not Path("a").exists()


def test_a_reference_that_does_not_fit_is_rejected_before_training(
    command: Command, files: dict[str, Path], tmp_path: Path
) -> None:
    gold, wrong = files["gold"].read_text().splitlines(), tmp_path / "wrong"
    for lines, messages in (
        (gold[:-1], ["wrong has 199 lines, but the corpus has 200"]),
        ([*gold, ""], ["wrong has 201 lines, but the corpus has 200"]),
        (["0-0", "0:1", *gold[2:]], ["wrong: line 2: '0:1' is not a link"]),
        (["0-99", *gold[1:]], ["wrong: line 1: 0-99 links target word 99"]),
    ):
        wrong.write_text("".join(f"{line}\n" for line in lines))
        answer = command("align", *pair_options(files), "--reference", wrong)
        refused(answer, *messages)
        assert "iteration" not in answer.err


def test_text_without_spaces_is_pointed_out(command: Command, tmp_path: Path) -> None:
    (tmp_path / "zh").write_text("今天天气很好。\n他很高兴。\n")
    (tmp_path / "en").write_text("The weather is good today.\nHe is happy.\n")
    answer = command("align", "--source", tmp_path / "zh", "--target", tmp_path / "en")
    assert answer.code == 0
    assert "warning: 2 source lines consist of a single word" in answer.err and "segmented" in answer.err


@pytest.mark.usefixtures("unplotted")
def test_the_output_guides_training(command: Command, files: dict[str, Path], tmp_path: Path) -> None:
    links, run = tmp_path / "links", tmp_path / "run"
    assert command("align", *pair_options(files), "--output", links).code == 0
    answer = command(
        "train",
        *pair_options(files),
        *("--alignments", links, "--system", "luong2015", "--scale", 0.05, "--run", run),
        *("text.kind=words", "training.objective.guidance.weight=0.1", "training.steps=2", "training.device=cpu"),
    )
    assert answer.code == 0, answer.err
    assert read_toml(run / "config.toml")["training"]["objective"]["guidance"]["weight"] == 0.1


def test_ctrl_c_ends_it_cleanly(tmp_path: Path) -> None:
    random = Random(1)
    lines = [" ".join(str(random.randrange(5000)) for _ in range(20)) for _ in range(20_000)]
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines))
    arguments = ["--source", "text", "--target", "text", "--output", "links", "--iterations", "100", "5"]
    process = subprocess.Popen(
        [sys.executable, "-m", "calque", "align", *arguments],
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a background job begins with it ignored
    )
    assert process.stderr is not None
    while "iteration" not in (line := process.stderr.readline()):
        assert line, "it ended before its first iteration"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err and "stopped immediately" in err
    assert [path.name for path in tmp_path.iterdir()] == ["text"]
