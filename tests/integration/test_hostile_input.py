"""Closed streams, little memory, deep nesting, odd paths: one message, exit code 2 (1 for no memory), no traceback."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from calque.commands.standard_streams import prepare_streams
from calque.config import read_toml, values_to_toml
from calque.engine import load
from calque.engine.engine import NO_MEMORY
from calque.engine.types import Request
from calque.experiment import train
from calque.folders.weights import read_tensors
from tests.conftest import Answer, environment, without_plots
from tests.faults.hostile import reseal
from tests.faults.runs import Warm
from tests.promises.subjects import SUBJECTS

Command = Callable[..., Answer]
DEEP_JSON = '{"a":' * 100_000
DEEP_TOML = f"a = {'[' * 100_000}"
NOT_UTF8 = os.fsdecode(b"\xff")


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A language model and a tagger, hardly trained."""
    runs = {}
    with without_plots():
        for name, subject in {"language": "language model of lines", "tagger": "tagging"}.items():
            folder = tmp_path_factory.mktemp(name)
            values = SUBJECTS[subject].experiment(folder, "training.steps=2", "training.validate_every=2")
            runs[name] = train(values, run=folder / "run", quiet=True).folder
    return runs


def refused(answer: Answer, message: str, *, code: int = 2) -> None:
    assert answer.code == code, answer
    assert "Traceback" not in answer.err
    assert answer.err.count("calque: ") == 1
    assert message in answer.err


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Answer]]:
    """`warm(*arguments, memory=BYTES, closed=STREAMS)`: a command in a fork, with a line to read."""
    text = tmp_path_factory.mktemp("input") / "text"
    text.write_text("a b c\n")
    with Warm() as process:

        def call(*arguments: object, **request: object) -> Answer:
            ended = process(*arguments, input=str(text), **request)
            return Answer(ended.code, ended.out, ended.err)

        yield call


@pytest.mark.slow
def test_closed_standard_input_is_reported(trained: Path, others: dict[str, Path], warm: Callable[..., Answer]) -> None:
    message = "standard input is closed; name a file with --input"
    refused(warm("translate", trained, closed=[0]), message)
    refused(warm("generate", others["language"], closed=[0]), message)
    refused(warm("tag", others["tagger"], "--format", "columns", closed=[0]), message)
    refused(warm("score", others["language"], "--target", "/dev/stdin", closed=[0]), "/dev/stdin: Is a directory")
    command = [sys.executable, "-m", "calque", "translate", str(trained)]
    done = subprocess.run(command, capture_output=True, env=environment(), preexec_fn=partial(os.close, 0), timeout=120)
    refused(Answer(done.returncode, done.stdout.decode(), done.stderr.decode()), message)


@pytest.mark.slow
def test_closed_standard_output_and_error(trained: Path, tmp_path: Path, warm: Callable[..., Answer]) -> None:
    for arguments in (["translate", trained], ["systems"], ["runs", trained], ["--help"], ["--version"]):
        refused(warm(*arguments, closed=[1]), "standard output is closed")
    kept = warm("translate", trained, "--output", tmp_path / "target", closed=[1])
    assert kept.code == 0
    assert (tmp_path / "target").read_text() == "a b c\n"
    resumed = warm("train", "--resume", trained, closed=[1])  # its results are in its folder
    assert resumed.code == 0
    assert warm("translate", trained, closed=[2]) == (0, "a b c\n", "")
    assert warm("translate", tmp_path, closed=[1, 2]) == (2, "", "")


def test_a_closed_descriptor_is_not_given_to_a_file(tmp_path: Path) -> None:
    """What a library writes to standard error must not end up in the first file that is opened."""
    child = os.fork()
    if child == 0:
        for number in range(3):
            os.close(number)
        sys.stdin = sys.stdout = sys.stderr = None  # type: ignore[assignment]
        prepare_streams()
        file = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
        os.write(2, b"a message")
        os._exit(file > 2 and (tmp_path / "file").stat().st_size == 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


HUGE = 10**30
GREEDY = [
    (["translate", "method=risk", "samples=2000000000"], 1, NO_MEMORY),
    (
        ["translate", "method=sample", "--nbest", "1000000000"],
        2,
        "nbest is 1000000000: it must be between 1 and 100,000",
    ),
    (["translate", "--beam", "1000", "minimum=300000000", "maximum=300000000"], 1, NO_MEMORY),
    (["translate", f"minimum={HUGE}"], 2, "minimum: input should be less than or equal to 2147483647"),
    (["translate", f"maximum={HUGE}", f"samples={HUGE}"], 2, "2 problems"),
    (["translate", "method=sample", "--nbest", HUGE], 2, "nbest"),
    (["translate", "--beam", HUGE], 2, "beam: input should be less than or equal to 1000"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "code", "message"), GREEDY)
def test_what_does_not_fit_into_memory_is_reported(
    arguments: list[object], code: int, message: str, trained: Path, warm: Callable[..., Answer]
) -> None:
    name, *rest = arguments
    refused(warm(name, trained, *rest, memory=4 << 30), message, code=code)


def copied_run(run: Path, folder: Path) -> Path:
    return Path(shutil.copytree(run, folder / "run"))


@pytest.mark.parametrize("depth", [200, 990, 100_000])
@pytest.mark.parametrize("open_", ["[", "{a=", "[{a="])
def test_a_deeply_nested_config_is_refused(depth: int, open_: str, command: Command, tmp_path: Path) -> None:
    close = {"[": "]", "{a=": "}", "[{a=": "}]"}[open_]
    (tmp_path / "deep.toml").write_text(f"a = {open_ * depth}1{close * depth}\n")
    answer = command("train", "--config", tmp_path / "deep.toml")
    refused(answer, "deep.toml: not valid TOML: tables or lists are nested more than 100 levels deep")


@pytest.mark.parametrize("section", ["task", "model"])
def test_a_kind_that_is_no_text_is_refused(section: str, command: Command, trained: Path, tmp_path: Path) -> None:
    """In a config, and in the config of a model folder that a hostile maker has sealed."""
    config = tmp_path / "config.toml"
    config.write_text(f"[{section}]\nkind = ['x']\n")
    refused(command("train", "--config", config, "--run", tmp_path / "run"), f"{section}.kind")
    model = Path(shutil.copytree(trained / "model", tmp_path / "model"))
    values = read_toml(model / "config.toml")
    values[section] = values.get(section, {}) | {"kind": ["x"]}
    (model / "config.toml").write_text(values_to_toml(values))
    reseal(model)
    refused(command("translate", model), f"{section}.kind")


def test_deep_settings_and_keys_are_refused(command: Command, trained: Path) -> None:
    refused(command("translate", trained, f"coverage={'[' * 3000}"), "coverage: ")
    refused(command("translate", trained, f"{'a.' * 3000}a=1"), "the key has 3,001 sections")
    refused(command("init", "new.toml", f"model.decoder.dropout={'[' * 3000}"), "model.decoder")


DEEP: dict[str, str] = {
    "config.toml": DEEP_TOML,
    "run.json": DEEP_JSON,
    "metrics.jsonl": f"{DEEP_JSON}\n",
    "model/manifest.json": DEEP_JSON,
}


@pytest.mark.parametrize("name", DEEP)
def test_deeply_nested_files_of_a_run_are_refused(name: str, command: Command, trained: Path, tmp_path: Path) -> None:
    run = copied_run(trained, tmp_path)
    (run / name).write_text(DEEP[name])
    if name == "model/manifest.json":
        refused(command("translate", run), "not a JSON object")
        return
    answer = command("train", "--resume", run)
    refused(answer, name.partition("/")[2] or name)
    shown = command("runs", tmp_path)
    assert shown.code == 0
    assert "damaged" in shown.out


def test_a_deeply_nested_checkpoint_is_skipped(command: Command, trained: Path, tmp_path: Path) -> None:
    run = copied_run(trained, tmp_path)
    (checkpoint,) = (run / "checkpoints").iterdir()
    (checkpoint / "state.json").write_text(DEEP_JSON)
    reseal(checkpoint)
    refused(command("train", "--resume", run), "state.json: not valid JSON: tables or lists are nested more than")


def test_a_deeply_nested_note_of_an_output_starts_over(command: Command, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "source").write_text("a b c\n")
    (tmp_path / "out.part").write_text("half a li")
    (tmp_path / "out.part.json").write_text(DEEP_JSON)
    answer = command("translate", trained, "--input", tmp_path / "source", "--output", tmp_path / "out")
    assert answer.code == 0
    assert (tmp_path / "out").read_text() == "a b c\n"


NUMBERS = ["1e999", "-1e999", "NaN", f"1{'0' * 400}", f"-1{'0' * 400}", f"1{'0' * 5000}"]


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_beyond_a_float_in_a_model_folder_are_refused(
    number: str, command: Command, trained: Path, tmp_path: Path
) -> None:
    def spoilt(name: str, change: Callable[[str], str]) -> Path:
        folder = Path(shutil.copytree(trained / "model", tmp_path / name))
        (folder / name).write_text(change((folder / name).read_text()))
        reseal(folder)
        return folder

    knots = json.loads((trained / "model" / "confidence.json").read_text())["knots"]
    folder = spoilt("confidence.json", lambda text: text.replace(repr(knots[0][0]), number, 1))
    refused(command("translate", folder), "confidence.json: the file is damaged")
    toml = number.replace("NaN", "nan")
    folder = spoilt("config.toml", lambda text: text.replace("coverage = 0.0", f"coverage = {toml}", 1))
    refused(command("translate", folder), "coverage" if len(toml) < 4000 else "config.toml: not valid TOML")


@pytest.mark.slow
def test_paths_that_are_not_utf8(command: Command, trained: Path, others: dict[str, Path], tmp_path: Path) -> None:
    """Runs, inputs and outputs work under any name; only a config cannot name a file whose name is not UTF-8."""
    folder = tmp_path / NOT_UTF8
    folder.mkdir()
    run = Path(shutil.copytree(trained, folder / "run"))
    source, target = folder / "source", folder / "target"
    source.write_text("a b c\nd e\n" * 20)
    done = command("translate", run, "--input", source, "--output", target, "--forbid", source)
    assert done.code == 0
    assert len(target.read_text().splitlines()) == 40
    assert command("score", run, "--source", source, "--target", source).code == 0
    assert command("evaluate", run, "--source", source, "--reference", source, "--beam", 1).code == 0
    assert command("data", "check", "--source", source, "--target", source).code == 0
    resumed = command("train", "--resume", run)
    assert (resumed.code, "damaged" in resumed.err) == (0, False)
    assert len(load(run).translate(["a b c"])) == 1
    assert command("average", run, "--output", folder / "average").code == 0
    language = Path(shutil.copytree(others["language"], folder / "language"))
    assert command("generate", language, "--prompt", "a").code == 0
    refused(command("train", "--source", source, "--target", source, "--run", folder / "new"), "its name is not UTF-8")
    assert not (folder / "new").exists()


def test_tensors_are_the_same_under_any_path(trained: Path, tmp_path: Path) -> None:
    (tmp_path / NOT_UTF8).mkdir()
    weights = trained / "model" / "weights.safetensors"
    shutil.copyfile(weights, tmp_path / NOT_UTF8 / weights.name)
    plain, odd = read_tensors(weights), read_tensors(tmp_path / NOT_UTF8 / weights.name)
    assert plain.keys() == odd.keys()
    assert all(bool((plain[name] == odd[name]).all()) for name in plain)


def test_end_normalisation_counts_the_end_mark_of_the_source(trained: Path) -> None:
    """The score of a translation of 3 pieces grows by γ (3 + 1) / (3 + 1)."""
    translator = load(trained)
    plain = {"length_penalty": 0.0, "beam": 1}
    scores = []
    for gamma in (0.0, 0.5):
        search = translator.search.model_copy(update={**plain, "end_normalisation": gamma})
        (translation,) = translator.stream([Request("a b c")], search=search)
        assert translation.candidates[0].pieces == 4
        scores.append(translation.candidates[0].score)
    assert scores[1] - scores[0] == pytest.approx(0.5 * 4 / 4, abs=1e-5)
