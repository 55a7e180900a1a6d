"""`calque translate` and `calque score`: formats, options, sampling, and files that are resumed after a kill."""

import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import calque
from calque.experiment import train
from tests.conftest import Answer, environment, toy_corpus, toy_values, without_plots
from tests.integration.conftest import LINES

Command = Callable[..., Answer]


def rows(answer: Answer) -> list[dict[str, Any]]:
    assert answer.code == 0, answer.err
    return [json.loads(line) for line in answer.out.splitlines()]


def test_jsonl_has_all_details(command: Command, trained: Path, sentences: Path) -> None:
    plain = command("translate", trained, "--input", sentences).out.splitlines()
    lines = rows(command("translate", trained, "--input", sentences, "--nbest", 2, "--format", "jsonl", "--attention"))
    assert [row["line"] for row in lines] == [1, 2, 3, 4, 5]
    assert [row["source"] for row in lines] == LINES
    assert [row["candidates"][0]["text"] for row in lines] == plain
    for row in lines:
        for candidate in row["candidates"] if row["source"] else []:
            assert sum(candidate["log_probs"]) == pytest.approx(candidate["log_prob"], abs=1e-4)
            assert len(candidate["log_probs"]) == len(candidate["pieces"]) + (not candidate["cut"])
            assert len(candidate["attention"]) == len(candidate["log_probs"])
            links = [tuple(map(int, link.split("-"))) for link in candidate["alignment"].split()]
            assert all(0 <= source_word < len(row["source"].split()) for source_word, _ in links)


def test_a_copying_model_is_aligned_with_itself(command: Command, trained: Path, sentences: Path) -> None:
    """The trained model has learnt to copy: most words are aligned with themselves."""
    lines = rows(command("translate", trained, "--input", sentences, "--format", "jsonl"))
    right = total = 0
    for row in lines:
        best = row["candidates"][0]
        if row["source"] and best["text"] == row["source"]:
            links = best["alignment"].split()
            right += sum(source_word == target_word for source_word, target_word in (link.split("-") for link in links))
            total += len(links)
    assert total > 0
    assert right / total > 0.7


def test_tsv_has_line_score_and_text(command: Command, trained: Path, sentences: Path) -> None:
    answer = command("translate", trained, "--input", sentences, "--nbest", 3)
    first = [line.split("\t") for line in answer.out.splitlines() if line.startswith("1\t")]
    assert len(first) == 3
    scores = [float(score) for _, score, _ in first]
    assert scores == sorted(scores, reverse=True)


def test_settings_are_those_of_the_config(command: Command, trained: Path, sentences: Path) -> None:
    answer = command("translate", trained, "coverage=0.3", "stopping=first", "no_repeat=1", "--input", sentences)
    assert answer.code == 0, answer.err
    for line in answer.out.splitlines():
        assert len(set(line.split())) == len(line.split())
    wrong = command("translate", trained, "covarage=0.3", "--input", sentences)
    assert wrong.code == 2
    assert "did you mean" in wrong.err
    assert command("translate", trained, "beam=4", "groups=3", "--input", sentences).code == 2


def test_prefixes_terms_and_forbidden_words(command: Command, trained: Path, sentences: Path, tmp_path: Path) -> None:
    files = {"prefixes": "h h\n\ng\n\n\n", "terms": "b c\th a\n\ne\tb b\n", "forbid": "c\nd\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    options = [part for name in files for part in (f"--{name}", tmp_path / name)]
    translations = command("translate", trained, "--input", sentences, *options).out.splitlines()
    assert len(translations) == len(LINES)
    assert translations[0].startswith("h h")
    assert translations[2].startswith("g")
    assert " h a" in f" {translations[0]}"
    assert " b b" in f" {translations[2]}"
    assert " b b" in f" {translations[4]}"
    assert not {"c", "d"} & set(" ".join(translations).split())


def test_a_missing_phrase_is_reported(command: Command, trained: Path, tmp_path: Path) -> None:
    """Line 1 has no room for it, line 4 is empty, and no token may follow the prefix of line 5."""
    source, prefixes = tmp_path / "source", tmp_path / "prefixes"
    source.write_text(
        '<term target="a b c d">e</term> f\ne <term target="a">f</term>\ne f\n'
        '<term target="a"></term>\n<term target="a">e</term>\n',
        encoding="utf-8",
    )
    prefixes.write_text("\n\n\n\nh h h\n", encoding="utf-8")
    options = ["--input", source, "--inline", "--prefixes", prefixes, "maximum=3", "no_repeat=1"]
    answer = command("translate", trained, *options, "--format", "jsonl", "--nbest", 2)
    missing = [{candidate["missing_phrase"] for candidate in row["candidates"]} for row in rows(answer)]
    assert missing == [{True}, {False}, {False}, {True}, {True}]
    warnings = [f"{source}: line {line}: a required phrase is missing from the translation" for line in (1, 4)]
    for format in ("jsonl", "tsv", "text"):
        err = command("translate", trained, *options, "--format", format).err
        assert [line for line in err.splitlines() if "required phrase is missing" in line] == warnings
        assert "line 5: no translation" in err


def test_a_long_line_is_cut_or_split(command: Command, trained: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("a b c\nc b a b c d e f g h\n\n", encoding="utf-8")
    cut = command("translate", trained, "source_limit=5", "--input", source)
    assert "line 2: too long" in cut.err
    whole = command("translate", trained, "source_limit=5", "--input", source, "--long", "split")
    assert (whole.code, whole.err) == (0, "")
    first, second, third = whole.out.splitlines()
    translator = calque.load(trained)
    search = translator.search.model_copy(update={"source_limit": 5})
    parts = [translation.text for translation in translator.stream(["c b a b c", "d e f g h"], search=search)]
    assert second == " ".join(parts)
    assert first == cut.out.splitlines()[0]
    assert third == ""


def test_a_line_in_parts_has_parts_as_long_as_the_lines_of_training(command: Command, trained: Path) -> None:
    """Far below source_limit; the training lines have at most 6 letters."""
    assert calque.load(trained).length_profile[:2] == (6, 1)
    line, part = " ".join("abcdefgh" * 9), " ".join("abcdefgh" * 9)[: 2 * 6 - 1]
    whole = command("translate", trained, "--long", "split", "--format", "jsonl", stdin=f"{line}\n".encode())
    assert (whole.code, whole.err) == (0, "")
    best = json.loads(whole.out)["candidates"][0]
    assert best["pieces"].count("</s>") == 11
    alone = command("translate", trained, stdin=f"{part}\n".encode()).out.strip()
    assert best["text"].startswith(f"{alone} ")


def test_degenerate_translations_are_reported_and_counted(command: Command, trained: Path) -> None:
    """With these settings the empty translation has the best score wherever it is in the beam."""
    empty = ("length_penalty=0", "end_normalisation=1000", "beam=12")
    answer = command("translate", trained, *empty, stdin=b"a b c\n\n" + b"a b c d e f g h a b c d\n" * 12)
    assert (answer.code, answer.out) == (0, "\n" * 14)
    warnings = [f"standard input: line {line}: the translation is empty" for line in (1, *range(3, 12))]
    assert answer.err.splitlines() == [*warnings, "standard input: 13 lines in all: the translation is empty"]
    short = command(
        "translate", trained, *empty, "beam=100", "minimum=1", stdin=b"a b c\n" + b"a b c d e f g h a b c d\n"
    )
    assert short.err == "standard input: line 2: the translation is far shorter than its source\n"
    long = command("translate", trained, "minimum=20", "no_repeat=4", stdin=b"a b\n")
    assert "line 1: the translation is far longer than its source" in long.err


def test_a_frequent_warning_is_given_for_ten_lines_and_counted(command: Command, trained: Path, tmp_path: Path) -> None:
    """Lines that are cut, translations that are cut, invalid UTF-8, and lines that are too long to be scored."""

    def warnings(message: str, answer: Answer) -> list[str]:
        assert answer.code == 0, answer.err
        return [line for line in answer.err.splitlines() if message in line]

    many = b"a b c d\n" * 12
    drawn = ["translate", trained, "method=sample", "temperature=9", "maximum=2"]
    lines = rows(command(*drawn, "--format", "jsonl", stdin=many * 2))
    numbers = [row["line"] for row in lines if row["candidates"][0]["cut"]]
    assert len(numbers) > 10
    limited = warnings("maximum length", command(*drawn, stdin=many * 2))
    assert limited == [
        *(f"standard input: line {number}: the translation reached its maximum length" for number in numbers[:10]),
        f"standard input: {len(numbers)} lines in all: the translation reached its maximum length",
    ]
    cut = warnings("too long", command("translate", trained, "source_limit=2", stdin=many))
    assert (len(cut), cut[-1]) == (
        11,
        "standard input: 12 lines in all: too long; only its beginning (2 pieces) was read",
    )
    invalid = warnings("UTF-8", command("translate", trained, "--invalid", "replace", stdin=b"a\xff\na b\xff\n" * 6))
    assert (len(invalid), invalid[1], invalid[-1]) == (
        11,
        "standard input: line 2: byte number 4 of the line is not UTF-8",
        "standard input: 12 lines in all: not UTF-8",
    )
    few = warnings("too long", command("translate", trained, "source_limit=2", stdin=b"a b c d\n" * 10))
    assert len(few) == 10
    source = tmp_path / "source"
    source.write_text(("a " * 600 + "\n") * 12, encoding="utf-8")
    scored = warnings("too long", command("score", trained, "--source", source, "--target", source))
    assert (len(scored), scored[-1]) == (11, f"{source}: 12 lines in all: too long; only its beginning was read")


def test_options_without_effect_are_reported(command: Command, trained: Path, tmp_path: Path) -> None:
    refused = command("translate", trained, "temperature=0.5", stdin=b"a b\n")
    assert (refused.code, refused.out) == (2, "")
    assert "method=sample" in refused.err
    corpus = toy_corpus(tmp_path / "corpus")
    with without_plots():
        plain = train(toy_values(corpus, "plain"), run=tmp_path / "plain", quiet=True).folder
    answer = command("translate", plain, "--format", "jsonl", "--attention", stdin=b"a b\n")
    assert answer.code == 0
    assert answer.err.splitlines()[0].startswith("--attention has no effect")
    links = tmp_path / "links"
    links.write_text("0-0\n" * 150, encoding="utf-8")
    files = ["--source", corpus["source"], "--target", corpus["target"], "--alignments", links]
    unread = command("train", *files, "--run", tmp_path / "guided")
    assert (unread.code, (tmp_path / "guided").exists()) == (2, False)
    assert "training.objective.guidance.weight=0.1" in unread.err


def test_a_line_whose_constraints_allow_nothing_is_empty(trained: Path) -> None:
    translator = calque.load(trained)
    search = translator.search.model_copy(update={"no_repeat": 1, "minimum": 40})
    for method in ("beam", "sample"):
        changed = search.model_copy(update={"method": method})
        request = calque.Request("a b c", forbidden=tuple("abcdefgh"))
        (translation,) = translator.stream([request], search=changed)
        assert translation.candidates[0].cut
        assert not set(translation.text.split()) & set("abcdefgh")


def test_a_terms_file_that_is_not_pairs_is_refused(
    command: Command, trained: Path, sentences: Path, tmp_path: Path
) -> None:
    """All malformed lines are reported."""
    (tmp_path / "terms").write_text("a\tb\nno tab\n\na\tb\tc\n", encoding="utf-8")
    answer = command("translate", trained, "--input", sentences, "--terms", tmp_path / "terms")
    assert answer.code == 2
    assert re.findall(r"line (\d+): expected two tab-separated fields", answer.err) == ["2", "4"]


def test_prefixes_line_up_with_their_sentences(
    command: Command, trained: Path, sentences: Path, tmp_path: Path
) -> None:
    count = len(sentences.read_text(encoding="utf-8").splitlines())
    prefixes, output = tmp_path / "prefixes", tmp_path / "output"
    for lines, message in ((1, "ends after line 1"), (count + 1, f"has {count + 1} lines"), (count, None)):
        prefixes.write_text("a\n" * lines, encoding="utf-8")
        answer = command("translate", trained, "--input", sentences, "--prefixes", prefixes, "--output", output)
        assert answer.code == (2 if message else 0)
        assert output.exists() is not bool(message)
        assert message is None or message in answer.err


def test_marks_require_phrases_and_are_not_translated(command: Command, trained: Path, tmp_path: Path) -> None:
    source, plain, terms = (tmp_path / name for name in ("source", "plain", "terms"))
    marked = ['a <term target="h h">b</term> c', "", "\\<term > d", 'e <term target="g">f</term>']
    source.write_text("".join(f"{line}\n" for line in marked), encoding="utf-8")
    plain.write_text("a b c\n\n<term > d\ne f\n", encoding="utf-8")
    terms.write_text("f\tg\ne\tb b\n", encoding="utf-8")
    options = ["--inline", "--terms", terms, "--format", "jsonl"]
    lines = rows(command("translate", trained, "--input", source, *options))
    assert [row["source"] for row in lines] == plain.read_text(encoding="utf-8").splitlines()
    first, second, third, fourth = (row["candidates"][0]["text"] for row in lines)
    assert " h h" in f" {first}"
    assert second == ""
    assert fourth.split().count("g") == 1, "required by a mark and by a term, it occurs once"
    assert "b b" in fourth
    assert third == command("translate", trained, "--input", plain).out.splitlines()[2]
    (same,) = calque.load(trained).stream([calque.Request.inline(marked[0])])
    assert same.text == first
    unread = command("translate", trained, "--input", source)
    assert unread.code == 0, "without --inline marks are text"


def test_a_malformed_mark_is_one_message(command: Command, trained: Path) -> None:
    answer = command("translate", trained, "--inline", stdin=b'a\n<term target="b">c\n')
    assert answer.code == 2
    assert "standard input: line 2: this <term> is not closed" in answer.err
    assert "Traceback" not in answer.err


def test_in_a_long_line_a_phrase_belongs_to_the_part_with_its_words(command: Command, trained: Path) -> None:
    line = b'c b a b c <term target="h h">d</term> e f g b\n'
    answer = command("translate", trained, "source_limit=5", "--long", "split", "--inline", stdin=line)
    assert answer.code == 0, answer.err
    assert f" {answer.out.strip()} ".count(" h h ") == 1
    assert answer.out.startswith("c b a b c ")


@pytest.mark.parametrize("setting", [["method=sample"], ["method=risk"], ["groups=2", "beam=4"]])
def test_phrases_are_rejected_with_searches_that_cannot_place_them(
    command: Command, trained: Path, setting: list[str]
) -> None:
    answer = command("translate", trained, *setting, "--inline", stdin=b'<term target="b">c</term>\n')
    assert answer.code == 2
    assert "cannot be combined with" in answer.err


def test_a_forbidden_word_is_not_the_last_word_of_a_cut_translation(trained: Path) -> None:
    translator = calque.load(trained)
    search = translator.search.model_copy(update={"maximum": 4, "minimum": 4})
    for required in ((), ("g",)):
        request = calque.Request("a b c h g f", required=required, forbidden=("h", "d"))
        (translation,) = translator.stream([request], search=search, nbest=3)
        assert all(not {"h", "d"} & set(candidate.text.split()) for candidate in translation.candidates)


def test_a_word_that_is_required_and_forbidden_is_rejected(command: Command, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "forbid").write_text("d\nh\n", encoding="utf-8")
    (tmp_path / "terms").write_text("b\tg h\n", encoding="utf-8")
    options = ("--forbid", tmp_path / "forbid", "--terms", tmp_path / "terms")
    answer = command("translate", trained, *options, stdin=b"a b c\n")
    assert (answer.code, answer.out) == (2, "\n"), "the line is left empty"
    assert "'g h' is required but 'h' is forbidden" in answer.err
    assert command("translate", trained, *options, stdin=b"a c\n").code == 0, "without the term, nothing is required"


def test_diverse_translations_are_distinct(trained: Path) -> None:
    translator = calque.load(trained)
    search = translator.search.model_copy(update={"beam": 6, "groups": 3, "diversity": 0.0})
    for translation in translator.stream(["a b c", "h g f e"], search=search, nbest=6):
        whole = [candidate.text for candidate in translation.candidates if not candidate.cut]
        assert len(set(whole)) == len(whole) > 1


def test_mistakes_are_one_message(command: Command, trained: Path, sentences: Path, tmp_path: Path) -> None:
    for options, message in (
        (["--output", tmp_path], "is a folder"),
        (["--language", trained], "not a language model"),
        (["coverage"], "is not a setting: write KEY=VALUE"),
        (["minimum=9", "maximum=3"], "minimum 9 is more than maximum 3"),
        (["beam=100000"], "less than or equal to 1000"),
        (["--precision", "int4"], "not one of auto, float32, bfloat16, float64, int8"),
    ):
        answer = command("translate", trained, "--input", sentences, *options)
        assert answer.code == 2, options
        assert message in answer.err
        assert "Traceback" not in answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["input"]


def test_samples_depend_on_seed_and_line_alone(trained: Path) -> None:
    translator = calque.load(trained)
    search = translator.search.model_copy(update={"method": "sample", "temperature": 2.0, "batch_tokens": 30})
    lines = [line for line in LINES if line] * 5

    def samples(**changes: Any) -> list[str]:
        return [translation.text for translation in translator.stream(lines, search=search.model_copy(update=changes))]

    assert samples() == samples(batch_tokens=4000)
    assert samples() != samples(seed=2)
    alone = [
        next(iter(translator.stream([line], search=search, first=number))).text for number, line in enumerate(lines)
    ]
    assert alone == samples()


def test_minimum_risk_ranks_by_utility(trained: Path) -> None:
    translator = calque.load(trained)
    search = translator.search.model_copy(update={"method": "risk", "samples": 16})
    (translation,) = translator.stream(["a b c d"], search=search, nbest=3)
    utilities = [candidate.score for candidate in translation.candidates]
    assert utilities == sorted(utilities, reverse=True)
    assert all(0 <= utility <= 1 for utility in utilities)
    assert len({candidate.text for candidate in translation.candidates}) == len(translation.candidates)


def test_score_agrees_with_search(command: Command, trained: Path, sentences: Path, tmp_path: Path) -> None:
    translations = rows(command("translate", trained, "--input", sentences, "--format", "jsonl"))
    finished = [
        (row["source"], row["candidates"][0])
        for row in translations
        if row["source"] and not row["candidates"][0]["cut"]
    ]
    for name, lines in (("s", [source for source, _ in finished]), ("t", [best["text"] for _, best in finished])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    answer = command("score", trained, "--source", tmp_path / "s", "--target", tmp_path / "t")
    assert answer.code == 0, answer.err
    assert "perplexity" in answer.err
    for line, (_, best) in zip(answer.out.splitlines(), finished, strict=True):
        log_prob, per_piece = map(float, line.split("\t"))
        assert log_prob == pytest.approx(best["log_prob"], abs=2e-3)
        assert per_piece == pytest.approx(log_prob / len(best["log_probs"]), abs=1e-3)
    detailed = rows(
        command("score", trained, "--source", tmp_path / "s", "--target", tmp_path / "t", "--format", "jsonl")
    )
    assert all(math.isclose(sum(row["log_probs"]), row["log_prob"], rel_tol=1e-9) for row in detailed)
    (tmp_path / "t").write_text("a\n", encoding="utf-8")
    assert command("score", trained, "--source", tmp_path / "s", "--target", tmp_path / "t").code == 2


def test_a_complete_output_is_replaced(command: Command, trained: Path, sentences: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.write_text("old\n", encoding="utf-8")
    assert command("translate", trained, "--input", sentences, "--output", output).code == 0
    assert output.read_text(encoding="utf-8") == command("translate", trained, "--input", sentences).out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input", "output"]


@pytest.mark.slow
def test_a_killed_translation_is_resumed_to_the_same_bytes(trained: Path, tmp_path: Path, seed: int) -> None:
    """kill -9 at any moment, several times."""
    generator = random.Random(seed)
    lines = [" ".join(generator.choices("abcdefgh", k=generator.randint(1, 6))) for _ in range(9000)]
    source = tmp_path / "input"
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    whole, output = tmp_path / "whole", tmp_path / "output"

    def start(path: Path) -> "subprocess.Popen[bytes]":
        command = ["translate", trained, "--input", source, "--output", path, "--beam", 2]
        called = [sys.executable, "-m", "calque", *map(str, command)]
        return subprocess.Popen(called, env=environment(), stderr=subprocess.DEVNULL)

    assert start(whole).wait(timeout=300) == 0

    def progress() -> bytes | None:
        try:
            return (tmp_path / "output.part.json").read_bytes()
        except FileNotFoundError:
            return None

    kills = 0
    while not output.exists():
        before = progress()
        process = start(output)
        while process.poll() is None and progress() in (None, before):
            time.sleep(0.005)
        time.sleep(generator.uniform(0, 0.3))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
    print(f"{kills} kills")
    assert kills > 0
    assert output.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input", "output", "whole"]


def test_marks_that_are_not_read_are_mentioned_once(command: Command, trained: Path) -> None:
    line = 'a <term target="b">c</term>\n'
    answer = command("translate", trained, stdin=f"a\n{line}b\n{line}".encode())
    warning = "standard input: line 2: <term ...> is translated as text; use --inline if it marks a required phrase"
    assert answer.code == 0
    assert answer.err.splitlines().count(warning) == answer.err.count("--inline") == 1
    for quiet in (command("translate", trained, "--inline", stdin=line.encode()), command("translate", trained)):
        assert "--inline" not in quiet.err
    for text in ("a <terms> b", "a < term", "</term>", "<term>b</term>"):
        assert "--inline" not in command("translate", trained, stdin=f"{text}\n".encode()).err


def test_an_output_file_is_reported_on_a_terminal_only(
    command: Command, trained: Path, sentences: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "output"
    message = f"wrote {output}: translations of 5 lines\n"
    arguments = ("translate", trained, "--input", sentences)
    assert message not in command(*arguments, "--output", output).err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert message in command(*arguments, "--output", output).err
    assert command(*arguments, "--output", output, "--nbest", 2).err.endswith(message)
    assert "wrote" not in command(*arguments).err
    sentences.write_text("a b\n", encoding="utf-8")
    assert command(*arguments, "--output", output).err.endswith(f"wrote {output}: translations of 1 line\n")
