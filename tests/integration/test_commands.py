"""The commands: results to standard output, a mistake is one message and exit code 2, and help has an example."""

import gzip
import json
import os
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from rich.text import Text

import calque
from calque.commands.main import app
from calque.config import check, read_toml, to_toml, to_values
from calque.engine import load, save_model
from calque.evaluation.diversity import distinct
from calque.evaluation.error_rates import error_rates
from calque.experiment import Experiment
from calque.models.systems import SYSTEMS, system_model
from tests.conftest import Answer, toy_corpus, toy_values

pytestmark = pytest.mark.usefixtures("unplotted")

Command = Callable[..., Answer]
SHORT = ("training.steps=2", "training.threads=1", "training.device=cpu")
QUICK = ("text.kind=words", "text.joint=true", *SHORT)


@pytest.fixture
def corpus(tmp_path: Path) -> dict[str, Path]:
    return toy_corpus(tmp_path / "corpus")


def sides(corpus: dict[str, Path]) -> list[object]:
    return ["--source", corpus["source"], "--target", corpus["target"]]


def refused(answer: Answer, *expected: str) -> None:
    """One message that says all of `expected`, exit code 2, no traceback, nothing on standard output."""
    assert answer.code == 2, answer
    assert "Traceback" not in answer.err
    assert answer.out == ""
    for text in expected:
        assert text in answer.err, answer.err


# --- Help and the small commands ---


def _commands(group: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    children = getattr(group, "commands", {})
    return [command for name, child in children.items() for command in _commands(child, (*path, name))] or [path]


COMMANDS = _commands(typer.main.get_command(app))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_has_an_example(path: tuple[str, ...], command: Command) -> None:
    answer = command(*path, "--help")
    assert (answer.code, answer.err) == (0, "")
    assert re.search(r"Examples?:", answer.out)
    assert f"calque {' '.join(path)}" in answer.out


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_no_word_of_a_help_text_is_markup(path: tuple[str, ...]) -> None:
    """`[model]` would be: typer shows helps by rich."""
    command: Any = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]
    for text in (command.help, *(parameter.help for parameter in command.params)):
        assert Text.from_markup(text or "").plain == (text or "")


def test_help_lists_every_command_and_short_help_works(command: Command) -> None:
    for answer in (command("--help"), command("-h")):
        assert answer.code == 0
        assert all(path[0] in answer.out for path in COMMANDS)


def test_version(command: Command) -> None:
    assert command("--version") == (0, f"calque {calque.__version__}\n", "")


def test_doctor_shows_versions_and_succeeds(command: Command) -> None:
    answer = command("doctor")
    assert (answer.code, answer.err) == (0, "")
    assert all(name in answer.out for name in ("torch", "sacrebleu", "extras:", "cpu", "cuda"))


def test_doctor_says_which_number_of_threads_to_set(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from calque.training import thread_tuning

    monkeypatch.setattr(thread_tuning, "usable_cores", lambda: 4)
    monkeypatch.setattr(
        thread_tuning, "measure_threads", lambda counts, **_: {count: 100.0 * count for count in counts}
    )
    answer = command("doctor", "--tune")
    assert answer.code == 0
    assert "  4 threads     400 target tokens per second\n" in answer.out
    assert answer.out.endswith("fastest with: calque train ... training.threads=4\n")
    assert "--tune" in command("doctor", "--help").out
    assert "threads=" not in command("doctor").out


def test_doctor_shows_missing_packages(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from calque.commands import doctor

    monkeypatch.setattr(doctor, "CORE", (*doctor.CORE, "no-such-package"))
    answer = command("doctor")
    assert answer.code == 1
    assert "MISSING" in answer.out


def test_systems_are_listed(command: Command) -> None:
    answer = command("systems")
    assert (answer.code, answer.err) == (0, "")
    assert all(name in answer.out and system.summary in answer.out for name, system in SYSTEMS.items())


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_is_printed_as_toml_that_reads_back(name: str, command: Command) -> None:
    answer = command("systems", name)
    assert answer.code == 0
    model = SYSTEMS[name].model
    assert check(type(model), tomllib.loads(answer.out)["model"], origin=name) == model


def test_a_system_can_be_scaled(command: Command, corpus: dict[str, Path], tmp_path: Path) -> None:
    answer = command("systems", "gnmt2016", "--scale", 0.25)
    assert tomllib.loads(answer.out)["model"] == to_values(system_model("gnmt2016", scale=0.25))
    assert "# gnmt2016, scaled by 0.25" in answer.out
    assert "encoder.layers 2 (8)" in answer.out
    done = command(
        *("train", *sides(corpus), "--system", "gnmt2016", "--scale", 0.01, "--run", tmp_path / "run", *SHORT)
    )
    assert done.code == 0, done.err
    assert read_toml(tmp_path / "run" / "config.toml")["model"]["decoder"]["width"] == 8
    refused(command("systems", "tiny", "--scale", 0), "scale is 0.0")
    refused(command("systems", "--scale", 0.25), "--scale applies to one system; name it")
    config = tmp_path / "config.toml"
    command("init", config, *sides(corpus), "--scale", 0.5)
    assert read_toml(config)["model"]["decoder"]["width"] == 64
    refused(command("train", "--config", config, "--scale", 0.5), "--scale needs --system")


def test_an_unknown_system_is_refused(command: Command, corpus: dict[str, Path], tmp_path: Path) -> None:
    refused(command("systems", "huge"), "unknown system 'huge'. Available systems: cho2014")
    refused(command("init", tmp_path / "a.toml", "--system", "large"), "'large'")
    refused(command("train", *sides(corpus), "--system", "large"), "'large'")


def test_init_writes_a_config_that_reads_back_and_trains(
    command: Command, corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "sub folder.toml"
    answer = command("init", file, *sides(corpus))
    assert (answer.code, answer.out) == (0, "")
    experiment = check(Experiment, read_toml(file), origin="test")
    assert check(Experiment, tomllib.loads(to_toml(experiment)), origin="test") == experiment
    assert to_values(experiment)["data"]["train"][0]["source"] == str(corpus["source"])
    refused(command("init", file), "already exists")
    monkeypatch.chdir(tmp_path)
    done = command("train", "--config", file, *SHORT)
    assert done.code == 0, done.err
    assert done.out == "runs/1\n"


def test_a_system_that_replaces_the_model_of_a_config_is_reported(
    command: Command, tmp_path: Path, corpus: dict[str, Path]
) -> None:
    command("init", tmp_path / "a.toml", *sides(corpus), "--system", "fast")
    missing = f"training.warm_start={tmp_path / 'nothing'}"  # so that nothing is trained
    options = ("--config", tmp_path / "a.toml", missing, "--run", tmp_path / "run")
    refused(command("train", *options, "--system", "tiny"), "--system tiny replaces the model")
    assert "replaces the model" not in command("train", *options).err


def test_init_explains_the_kinds_it_is_given(command: Command, tmp_path: Path) -> None:
    adaptive = ("model.output.kind=adaptive", "model.output.cutoffs=[500]", "model.tie=none")
    answer = command("init", tmp_path / "a.toml", *adaptive, "training.label_smoothing=0")
    assert answer.code == 0, answer.err
    text = (tmp_path / "a.toml").read_text(encoding="utf-8")
    assert "cutoffs = [500]" in text
    assert re.search(r"^# .+\nshrink = ", text, re.MULTILINE)
    refused(command("init", tmp_path / "b.toml", "model.widht=3"), "model.widht: unknown key")
    refused(command("init", "seed=3"), "the first argument must be the file to write")


def test_init_explains_every_setting_of_its_own_sections(command: Command, tmp_path: Path) -> None:
    """Each key of [training] and [search] stands under a line that explains it."""
    command("init", tmp_path / "a.toml")
    lines = (tmp_path / "a.toml").read_text(encoding="utf-8").splitlines()
    section, bare = "", []
    for before, line in zip(["", *lines], lines, strict=False):
        section = line if line.startswith("[") else section
        is_key = re.match(r"(# )?\w+ =", line) is not None
        if is_key and section.strip("[]").split(".")[0] in ("training", "search", "") and not before.startswith("# "):
            bare.append(f"{section} {line}")
    assert bare == []


def test_the_schema_is_json_and_knows_every_section(command: Command) -> None:
    answer = command("init", "--schema")
    assert answer.code == 0
    schema = json.loads(answer.out)
    assert set(schema["properties"]) == set(Experiment.model_fields)


# --- Train ---


def test_training_from_two_files(
    command: Command, corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = command("train", *sides(corpus), *QUICK, "seed=7")
    assert answer.code == 0, answer.err
    assert answer.out == "runs/1\n"  # the result; everything else goes to standard error
    assert "chosen for 100 pairs" in answer.err
    assert "next: calque translate runs/1" in answer.err
    assert "\x1b" not in answer.err  # no bars or colours without a terminal
    assert tomllib.loads(Path("runs/1/config.toml").read_text(encoding="utf-8"))["seed"] == 7
    assert command("train", *sides(corpus), *QUICK).out == "runs/2\n"
    again = command("train", "--resume", "runs/1")
    assert (again.code, again.out) == (0, "runs/1\n")
    assert "resuming from step 2" in again.err


def crlf(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def bom(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())


def packed(path: Path) -> None:
    path.write_bytes(gzip.compress(path.read_bytes()))


def unended(path: Path) -> None:
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))


@pytest.mark.parametrize("change", [crlf, bom, packed, unended])
def test_how_a_file_was_saved_does_not_matter(
    change: Callable[[Path], None], command: Command, corpus: dict[str, Path], tmp_path: Path
) -> None:
    command("train", *sides(corpus), *QUICK, "--run", tmp_path / "plain")
    odd = {side: path.with_name(f"ñ {path.name} 今") for side, path in corpus.items()}
    for side, path in odd.items():
        shutil.copy(corpus[side], path)
        change(path)
    answer = command("train", *sides(odd), *QUICK, "--run", tmp_path / "a b ü")
    assert answer.code == 0, answer.err
    assert answer.out == f"{tmp_path / 'a b ü'}\n"
    weights = [tmp_path / name / "model" / "weights.safetensors" for name in ("plain", "a b ü")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_validation_files_are_used(command: Command, corpus: dict[str, Path], tmp_path: Path) -> None:
    valid = toy_corpus(tmp_path / "valid", pairs=7, seed=9)
    options = ["--valid-source", valid["source"], "--valid-target", valid["target"]]
    answer = command("train", *sides(corpus), *options, *QUICK, "--run", tmp_path / "run")
    assert answer.code == 0, answer.err
    assert "150 pairs to train on, 7 to validate" in answer.err


def test_mistakes_in_the_options_of_train(command: Command, corpus: dict[str, Path], tmp_path: Path) -> None:
    source, target = corpus["source"], corpus["target"]
    nowhere = tmp_path / "nowhere"
    refused(command("train"), "nothing to train on")
    refused(command("train", "--source", source), "--source and --target must be given together")
    refused(command("train", "--target", target), "--source and --target must be given together")
    refused(command("train", *sides(corpus), "--valid-source", source), "--valid-source and --valid-target")
    refused(command("train", "--config", nowhere), f"{nowhere}: no such file")
    refused(command("train", "--config", tmp_path), str(tmp_path))
    refused(command("train", "--source", nowhere, "--target", nowhere), f"{nowhere}: No such file or directory")
    refused(command("train", "--source", tmp_path, "--target", target), f"{tmp_path}: Is a directory")
    refused(command("train", *sides(corpus), "training.steps"), "'training.steps' is not an override")
    refused(command("train", *sides(corpus), "training.device=cuda:9"), "training.device", "'cuda:9'")
    refused(command("train", *sides(corpus), "--steps", "5"), "no such option: --steps; use training.steps=5")
    refused(command("train", *sides(corpus), "--run", source / "below"), str(source))
    refused(command("train", "--resume", nowhere), f"{nowhere}: no such folder")
    refused(command("trian"), "no such command: trian; did you mean train?")


def test_unknown_keys_get_a_suggestion_and_all_problems_come_at_once(
    command: Command, corpus: dict[str, Path], tmp_path: Path
) -> None:
    wrong = ["training.stepz=5", "training.batch.tokens=1", "model.decoder.kind=lstm", "search.beam=wide", "sede=1"]
    answer = command("train", *sides(corpus), *wrong, "--run", tmp_path / "run")
    refused(
        answer, "5 problems", "training.stepz: unknown key; did you mean 'training.steps'?", "training.batch.tokens"
    )
    refused(answer, "model.decoder.kind: 'lstm' is not one of", "search.beam", "sede: unknown key", "'seed'")
    file = tmp_path / "my.toml"
    file.write_text("[training]\nstepz = 1\n", encoding="utf-8")
    refused(command("train", "--config", file), str(file), "2 problems", "stepz", "data: missing")
    file.write_bytes(b"[training\n\xff")
    refused(command("train", "--config", file), str(file), "not valid TOML")


def test_files_that_do_not_line_up_are_refused_with_both_counts(
    command: Command, corpus: dict[str, Path], tmp_path: Path
) -> None:
    lines = corpus["target"].read_text(encoding="utf-8").splitlines(keepends=True)
    corpus["target"].write_text("".join(lines[:80] + lines[81:]), encoding="utf-8")
    answer = command("train", *sides(corpus), *QUICK, "--run", tmp_path / "run")
    refused(answer, "150 lines", "149", "suspect line")
    assert not (tmp_path / "run").exists()
    corpus["target"].write_text("", encoding="utf-8")
    refused(command("train", *sides(corpus), *QUICK, "--run", tmp_path / "run"), "150 lines", " 0")


def test_bad_utf8_is_refused_with_file_line_and_byte(command: Command, corpus: dict[str, Path], tmp_path: Path) -> None:
    lines = corpus["source"].read_bytes().split(b"\n")
    lines[16] = b"a \xff b"
    corpus["source"].write_bytes(b"\n".join(lines))
    answer = command("train", *sides(corpus), *QUICK, "--run", tmp_path / "run")
    refused(answer, f"{corpus['source']}: line 17, byte 3: 0xff")
    skipped = command("train", *sides(corpus), *QUICK, "data.invalid=skip", "--run", tmp_path / "run")
    assert skipped.code == 0, skipped.err
    assert "1 not UTF-8" in skipped.err


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("\n" * 9, "\n" * 9, "lines has text in source and target"),
        ("", "", "/t: the corpus has no lines"),
        ("a\n", "b\n", "too few to hold some out"),
        ("a\n" * 30, "b\n" * 30, "too few to hold some out"),
        (" \n\t\n", "b\nc\n", "lines has text in source and target"),
    ],
)
def test_corpora_with_nothing_to_learn_from(
    source: str, target: str, message: str, command: Command, tmp_path: Path
) -> None:
    corpus = {"source": tmp_path / "s", "target": tmp_path / "t"}
    corpus["source"].write_text(source, encoding="utf-8")
    corpus["target"].write_text(target, encoding="utf-8")
    refused(command("train", *sides(corpus), *QUICK, "--run", tmp_path / "run"), message)


def test_one_pair_is_enough_with_a_validation_corpus(command: Command, tmp_path: Path) -> None:
    pair = toy_corpus(tmp_path / "one", pairs=1)
    valid = ["--valid-source", pair["source"], "--valid-target", pair["target"]]
    answer = command("train", *sides(pair), *valid, *QUICK, "--run", tmp_path / "run")
    assert answer.code == 0, answer.err


def test_a_damaged_gzip_is_named(command: Command, corpus: dict[str, Path], tmp_path: Path) -> None:
    packed(corpus["source"])
    corpus["source"].write_bytes(corpus["source"].read_bytes()[:-20])
    refused(command("train", *sides(corpus), *QUICK, "--run", tmp_path / "run"), str(corpus["source"]), "gzip")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(command: Command, corpus: dict[str, Path], trained: Path) -> None:
    corpus["source"].chmod(0)
    refused(command("train", *sides(corpus)), str(corpus["source"]), "Permission denied")
    refused(command("translate", trained, "--input", corpus["source"]), "Permission denied")


def test_resume_takes_no_other_option_and_a_used_folder_is_refused(command: Command, trained: Path) -> None:
    for extra in (["--system", "tiny"], ["--config", "x.toml"], ["--run", "x"], ["--source", "x"]):
        refused(command("train", "--resume", trained, *extra), "cannot be combined with other options", "KEY=VALUE")
    refused(command("train", "--resume", trained, "seed=4"), "seed: the order of the data depends on it")
    source = toy_corpus(trained / ".." / "corpus")
    refused(command("train", *sides(source), "--run", trained), "already holds a run", "--resume")
    refused(command("train", "--resume", trained / "model"), "not a run folder")
    refused(command("train", "--resume", trained / "config.toml"), "not a run folder")


# --- Translate ---


def test_translations_go_to_standard_output_and_nothing_else_does(command: Command, trained: Path) -> None:
    answer = command("translate", trained, stdin=b"a b c\n\nh g\n")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.split("\n") == ["a b c", "", "h g", ""]
    assert command("translate", trained / "model", stdin=b"a b c").out == "a b c\n"
    assert command("translate", trained, stdin=b"") == (0, "", "")


@pytest.mark.parametrize("change", [lambda _path: None, crlf, bom, packed, unended])
def test_translating_a_file(change: Callable[[Path], None], command: Command, trained: Path, tmp_path: Path) -> None:
    file = tmp_path / "in put ä.txt"
    file.write_bytes("a b c\n \nh\u2028g\x85f\n\ufffd\nd e\n".encode())
    change(file)
    out = tmp_path / "out"
    answer = command("translate", trained, "--input", file, "--output", out)
    assert (answer.code, answer.out) == (0, "")
    lines = out.read_bytes().decode().split("\n")
    assert len(lines) == 6
    assert (lines[0], lines[1], lines[4], lines[5]) == ("a b c", "", "d e", "")


def test_nbest_is_numbered_and_scored(command: Command, trained: Path) -> None:
    answer = command("translate", trained, "--nbest", 3, "--beam", 4, stdin=b"a b c\n\nd\n")
    rows = [line.split("\t") for line in answer.out.splitlines()]
    assert [row[0] for row in rows] == ["1"] * 3 + ["2"] + ["3"] * 3
    assert rows[0][2] == "a b c"
    scores = [float(row[1]) for row in rows[:3]]
    assert scores == sorted(scores, reverse=True)
    wide = command("translate", trained, "--nbest", 7, stdin=b"a b c\n")  # the beam follows
    assert len(wide.out.splitlines()) == 7


def test_a_line_that_is_too_long_is_cut_and_reported(command: Command, trained: Path) -> None:
    answer = command("translate", trained, stdin=b"a b\n" + b"a " * 2000 + b"\n" + b"b" * 300_000 + b"\nc\n")
    assert len(answer.out.splitlines()) == 4
    assert "standard input: line 2: too long; only its beginning (512 pieces) was read" in answer.err
    assert "line 3: too long" in answer.err
    assert "line 1" not in answer.err
    assert "line 4" not in answer.err


def test_bad_bytes_fail_or_are_skipped_or_replaced(command: Command, trained: Path) -> None:
    text = b"a b\nc \xff d\ne\n"
    failed = command("translate", trained, stdin=text)
    assert failed.code == 2
    assert "standard input: line 2, byte 3: 0xff is not UTF-8" in failed.err
    skipped = command("translate", trained, "--invalid", "skip", stdin=text)
    assert skipped.out.split("\n")[1] == ""
    assert len(skipped.out.splitlines()) == 3
    assert "line 2: byte number 3" in skipped.err
    replaced = command("translate", trained, "--invalid", "replace", stdin=text)
    assert replaced.out.split("\n")[1] != ""


def test_options_change_the_search_and_not_the_count(command: Command, trained: Path) -> None:
    plain = command("translate", trained, stdin=b"a b c\nd e f g\n")
    assert command("translate", trained, "--batch-tokens", 1, stdin=b"a b c\nd e f g\n") == plain
    assert len(command("translate", trained, "--beam", 1, stdin=b"a b c\nd\n").out.splitlines()) == 2


def test_mistakes_in_the_options_of_translate(command: Command, trained: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    refused(command("translate", nowhere), f"{nowhere}: no such run or model folder")
    file = tmp_path / "file"
    file.touch()
    refused(command("translate", file), f"{file} is a file, not a run or model folder")
    refused(command("runs", file), f"{file} is a file, not a folder")
    refused(command("translate", tmp_path), "manifest.json")
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "config.toml").touch()
    refused(command("translate", tmp_path / "unfinished"), "no model here yet")
    refused(command("translate", trained, "--input", nowhere), f"{nowhere}: No such file")
    refused(command("translate", trained, "--input", tmp_path), f"{tmp_path}: Is a directory")
    refused(command("translate", trained, "--device", "gpu"), "--device: 'gpu' is not one of auto, cpu, cuda, mps")
    refused(command("translate", trained, "--invalid", "ignore"), "--invalid: 'ignore' is not one of")
    refused(command("translate", trained, "--nbest", 5, "--beam", 3, stdin=b"a\n"), "nbest is 5 and beam is 3")
    refused(command("translate", trained, "--beam", 0), "--beam")
    refused(
        command("translate", trained, "--output", nowhere / "below", stdin=b"a\n"),
        f"{nowhere}: no such folder",
    )
    evaluated = ("evaluate", trained, "--source", file, "--reference", file, "--output", nowhere / "below")
    refused(command(*evaluated), f"{nowhere / 'below'}: cannot be written: {nowhere}: no such folder")
    refused(command("translate"), "MODEL is missing: a run or model folder")
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress(b"a b\n" * 9999)[:-20])
    answer = command("translate", trained, "--input", broken)
    assert answer.code == 2
    assert f"{broken}: damaged gzip" in answer.err


def test_the_input_is_not_overwritten(command: Command, trained: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("a b\n", encoding="utf-8")
    refused(command("translate", trained, "--input", file, "--output", file), "is also an input")
    assert file.read_text(encoding="utf-8") == "a b\n"


def test_a_damaged_model_is_refused(command: Command, trained: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(trained / "model", tmp_path / "model"))
    content = bytearray((model / "weights.safetensors").read_bytes())
    content[-3] ^= 1
    (model / "weights.safetensors").write_bytes(content)
    refused(command("translate", model, stdin=b"a\n"), "weights.safetensors: changed since it was written")


def test_a_model_with_nan_weights_is_rejected(command: Command, trained: Path, tmp_path: Path) -> None:
    translator = load(trained)
    with torch.no_grad():
        next(iter(translator.model.decoder.parameters()))[0] = float("nan")
    save_model(tmp_path / "model", translator, card="")
    refused(command("translate", tmp_path / "model", stdin=b"a\n"), "contain values that are not finite:\n  decoder.")


def test_a_line_without_a_translation_is_reported(command: Command, trained: Path, tmp_path: Path) -> None:
    """The prefix violates a constraint already, so no token may follow."""
    (tmp_path / "prefixes").write_text("a b a b\n\n", encoding="utf-8")
    options = ["--prefixes", tmp_path / "prefixes", "no_repeat=2"]
    answer = command("translate", trained, *options, stdin=b"a b\nc d\n")
    assert answer.code == 0
    assert "line 1: no translation: the constraints leave no possible next word" in answer.err
    assert len(answer.err.splitlines()) == 1, "neither empty nor at its maximum length, and no warning for line 2"
    assert answer.out.splitlines()[0] == "" != answer.out.splitlines()[1]


# --- Evaluate ---


def test_evaluate_prints_scores_with_signatures(command: Command, trained: Path, tmp_path: Path) -> None:
    files = toy_corpus(tmp_path / "test", pairs=20, change=list, seed=80)  # lines long enough for BLEU
    options = [trained, "--source", files["source"], "--reference", files["target"]]
    answer = command("evaluate", *options, "--output", tmp_path / "kept")
    assert (answer.code, answer.err) == (0, "")
    for name in ("bleu", "bleu lowercased", "chrf", "ter", "exact match", "perplexity"):
        assert re.search(rf"^{name} +\d", answer.out, re.MULTILINE)
    assert "nrefs:1|case:mixed" in answer.out
    translations = (tmp_path / "kept").read_text(encoding="utf-8").splitlines()
    assert translations == command("translate", trained, "--input", files["source"]).out.splitlines()
    refused(command("evaluate", *options, "covarage=1"), "did you mean 'coverage'")
    refused(command("evaluate", *options, "temperature=0.5"), "method=sample")
    scarce = json.loads(command("evaluate", *options, "--json", "maximum=1").out)
    assert scarce["exact_match"]["value"] == 0, "the setting was applied"
    scores = json.loads(command("evaluate", *options, "--json", "--beam", 2).out)
    assert scores["beam"] == 2
    assert scores["bleu"]["value"] > 50
    assert scores["perplexity"] >= 1


def test_evaluate_adds_metrics_of_other_tasks(command: Command, trained: Path, tmp_path: Path) -> None:
    files = toy_corpus(tmp_path / "test", pairs=12, change=list, seed=80)
    options = ["evaluate", trained, "--source", files["source"], "--reference", files["target"]]
    answer = command(*options, "--metric", "distinct", "--metric", "token_error_rate", "--output", tmp_path / "kept")
    assert (answer.code, answer.err) == (0, "")
    outputs, references = (
        (path.read_text(encoding="utf-8").splitlines()) for path in (tmp_path / "kept", files["target"])
    )
    expected = {
        "distinct1": distinct(outputs, n=1),
        "distinct2": distinct(outputs, n=2),
        "token error rate": error_rates(
            [line.split() for line in outputs], [[line.split()] for line in references]
        ).symbols,
    }
    for name, value in expected.items():
        assert re.search(rf"^{name} +{value:.2f} ", answer.out, re.MULTILINE)
    refused(command(*options, "--metric", "rogue"), "--metric rogue: unknown metric; expected one of rouge, distinct")
    refused(command("evaluate", trained, "--text", files["source"], "--metric", "distinct"), "--text is for a language")
    pytest.importorskip("rouge_score")
    scores = json.loads(command(*options, "--metric", "rouge", "--json").out)
    assert scores["rouge1"]["value"] > 50 and scores["rougeL"]["signature"].startswith("rouge-score:")


def test_evaluate_says_when_references_are_too_short_for_bleu(command: Command, trained: Path, tmp_path: Path) -> None:
    for words, is_short in (("a b c", True), ("a b c d", False)):
        (tmp_path / "lines").write_text(f"{words}\n" * 3, encoding="utf-8")
        options = (trained, "--source", tmp_path / "lines", "--reference", tmp_path / "lines")
        answer = command("evaluate", *options)
        assert "exact match" in answer.out
        assert ("BLEU is meaningless here" in answer.err) == is_short
        assert ("the median reference has 3 words; read exact match and chrF" in answer.err) == is_short
    assert json.loads(command("evaluate", *options, "--json").out)["median_reference_words"] == 4


def test_mistakes_in_the_options_of_evaluate(command: Command, trained: Path, tmp_path: Path) -> None:
    files = toy_corpus(tmp_path / "test", pairs=20)
    short = tmp_path / "short"
    short.write_text("a\n" * 19, encoding="utf-8")
    empty = tmp_path / "empty"
    empty.touch()

    def evaluate(source: Path, reference: Path, *extra: object) -> Answer:
        return command("evaluate", trained, "--source", source, "--reference", reference, *extra)

    refused(evaluate(files["source"], short), "20 lines", "19")
    refused(evaluate(empty, empty), "empty")
    refused(evaluate(tmp_path / "a", tmp_path / "b"), f"{tmp_path / 'a'}: No such", f"{tmp_path / 'b'}: No such")
    refused(evaluate(tmp_path, short), "directory")
    refused(evaluate(files["source"], files["target"], "--device", "tpu"), "--device")
    short.write_bytes(b"a\n\xfe\n")
    refused(evaluate(short, short), f"{short}: line 2, byte 1: 0xfe")
    refused(command("evaluate", tmp_path, "--source", files["source"], "--reference", files["target"]), "manifest")


# --- Data ---


def test_data_check_reports_and_refuses(command: Command, corpus: dict[str, Path]) -> None:
    answer = command("data", "check", *sides(corpus), "text.kind=words")
    assert answer.code == 0, answer.err
    assert "150 lines, 150 pairs" in answer.out
    corpus["source"].write_bytes(b"\xff\n" + corpus["source"].read_bytes().split(b"\n", 1)[1])
    bad = command("data", "check", *sides(corpus), "text.kind=words")
    assert bad.code == 2
    assert f"{corpus['source']}: line 1, byte 1" in bad.out
    assert "training would reject these corpora" in bad.err
    with corpus["source"].open("ab") as file:
        file.write(b"one more\n")
    worse = command("data", "check", *sides(corpus), "text.kind=words")
    assert "150 lines, 149 pairs" in worse.out
    assert f"{corpus['source']}: line 1, byte 1" in worse.out, "reported with the other problem"
    assert worse.out.count("has 151 lines") == 1
    assert "training would reject these corpora; the report" in worse.err
    refused(command("data", "check", "--source", corpus["source"]), "--source and --target must be given together")
    explained = " ".join(command("data", "check", "--help").out.split())
    assert "outside the vocabulary that training would build from these corpora" in explained
    assert "With exact shapes" in explained
    assert "Static shapes (training.batch.shapes)" in explained
    refused(command("data", "check", *sides(corpus), "--test-source", corpus["source"]), "--test-target")


def test_data_prepare_makes_a_store_that_training_uses(
    command: Command, corpus: dict[str, Path], tmp_path: Path
) -> None:
    answer = command("data", "prepare", *sides(corpus), "--out", tmp_path / "store", *QUICK[:2])
    assert (answer.code, answer.out) == (0, "")
    assert "100 pairs to train on, 50 to validate" in answer.err
    store = f"data.store={tmp_path / 'store'}"
    assert command("train", *sides(corpus), *QUICK, store, "--run", tmp_path / "run").code == 0
    changed = command("train", *sides(corpus), *QUICK, store, "text.kind=characters", "--run", tmp_path / "other")
    refused(changed, "prepared from other data or settings", "text.kind")


def test_lines_that_are_shifted_are_refused_unless_told_otherwise(command: Command, tmp_path: Path) -> None:
    corpus = toy_corpus(tmp_path / "corpus", pairs=1500, longest=30, change=lambda words: [*words, words[0]])
    lines = corpus["target"].read_text(encoding="utf-8").splitlines()
    lines = [*lines[:500], *lines[501:1000], "a b", *lines[1000:]]
    corpus["target"].write_text("\n".join(lines) + "\n", encoding="utf-8")
    pattern = re.compile(r"from about line 50\d to about line (99\d|1,00\d) targets come 1 line too early")
    checked = command("data", "check", *sides(corpus), "text.kind=words")
    assert checked.code == 2
    assert pattern.search(checked.out)
    assert "training would reject these corpora" in checked.err
    for answer in (
        command("data", "prepare", *sides(corpus), "--out", tmp_path / "store", *QUICK[:2]),
        command("train", *sides(corpus), *QUICK, "--run", tmp_path / "run"),
    ):
        refused(answer, str(corpus["target"]), "data.shifted=warn")
        assert pattern.search(answer.err)
    assert not (tmp_path / "store").exists()
    assert not (tmp_path / "run").exists()
    assert pattern.search(command("data", "check", *sides(corpus), "text.kind=words", "data.shifted=warn").out)
    prepared = command("data", "prepare", *sides(corpus), "--out", tmp_path / "store", *QUICK[:2], "data.shifted=warn")
    assert prepared.code == 0
    assert "warning: " in prepared.err
    assert pattern.search(prepared.err)
    store = f"data.store={tmp_path / 'store'}"
    trained = command("train", *sides(corpus), *QUICK, store, "--run", tmp_path / "run")
    assert trained.code == 0, "the store was made with them"
    assert pattern.search((tmp_path / "run" / "log.txt").read_text(encoding="utf-8"))


def test_a_config_is_used_by_every_command_that_takes_one(
    command: Command, corpus: dict[str, Path], tmp_path: Path
) -> None:
    file = tmp_path / "a.toml"
    file.write_text(to_toml(check(Experiment, toy_values(corpus, "plain"), origin="test")), encoding="utf-8")
    assert command("data", "check", "--config", file).code == 0
    assert command("data", "prepare", "--config", file, "--out", tmp_path / "store").code == 0
    answer = command("train", "--config", file, "training.steps=1", "--run", tmp_path / "run")
    assert answer.code == 0, answer.err


def test_a_phrasebook_is_not_written_to_a_used_folder(command: Callable[..., Answer], tmp_path: Path) -> None:
    assert command("data", "phrasebook", "--from", "de", "--pairs", 50, "--out", tmp_path / "book").code == 0
    refused(command("data", "phrasebook", "--pairs", 50, "--out", tmp_path / "book"), "not an empty folder")
    assert not (tmp_path / "book" / "train.zh").exists()


def test_a_phrasebook_is_written_with_alignments_to_learn_from(command: Callable[..., Answer], tmp_path: Path) -> None:
    book = tmp_path / "book"
    written = command("data", "phrasebook", "--pairs", 60, "--segment", "--alignments", "--out", book)
    assert written.code == 0, written.err
    assert {f"{part}.{suffix}" for part in ("train", "valid", "test") for suffix in ("zh", "en", "align")} == {
        file.name for file in book.iterdir()
    }
    files = {"source": book / "train.zh", "target": book / "train.en", "alignments": book / "train.align"}
    options = [text for name, file in files.items() for text in (f"--{name}", file)]
    run = tmp_path / "run"
    answer = command("train", *options, *QUICK, "training.objective.guidance.weight=0.5", "--run", run)
    assert answer.code == 0, answer.err


def test_alignments_of_chinese_need_spaces_between_its_words(command: Callable[..., Answer], tmp_path: Path) -> None:
    book = tmp_path / "book"
    refused(command("data", "phrasebook", "--pairs", 50, "--alignments", "--out", book), "Chinese", "--segment")
    refused(command("data", "phrasebook", "--from", "de", "--segment", "--out", book), "--segment", "de and en")
    assert not book.exists()
