"""Fuzzed command lines and damaged model folders: one message and a documented exit code, never a traceback."""

import gzip
import hashlib
import os
import random
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from recipes.digits.tones import write_tones
from recipes.recommendation.generate import write_sequences

from calque.config import read_toml, to_values
from calque.experiment import train
from calque.models.systems import system_model
from tests.captioned import write_images
from tests.conftest import Values, toy_corpus, toy_values, without_plots
from tests.faults.conftest import Tally
from tests.faults.hostile import RESEALED, SOUND, UNSEALED, CommandLine, command_line
from tests.faults.runs import Ended, Warm
from tests.promises.subjects import SUBJECTS

pytestmark = pytest.mark.slow

MEMORY = 6 << 30
MUCH = ("minimum", "minimum_ratio", "samples", "beam")
PATIENCE = 30.0  # seconds: some lines ask for training or for texts without an end
WARNING = re.compile(r"\.py:\d+: \w*Warning")
USE = {
    "translation": ["translate", "MODEL"],
    "subwords": ["translate", "MODEL"],
    "phrases": ["translate", "MODEL"],
    "language": ["generate", "MODEL"],
    "ngrams": ["generate", "MODEL"],
    "tagger": ["tag", "MODEL", "--format", "columns", "--input", "words.txt"],
    "hidden-markov": ["tag", "MODEL", "--format", "columns", "--input", "words.txt"],
    "embedding": ["embed", "MODEL", "--jsonl"],
    "recommendation": ["recommend", "MODEL", "--input", "users.txt"],
    "recognition": ["transcribe", "MODEL", "audio/0.wav"],
    "captioning": ["caption", "MODEL", "images/0.png"],
}
"""How a model of each run is used."""
ARPA = """\\data\\
ngram 1=4
ngram 2=2

\\1-grams:
-99\t<s>\t-0.3
-0.5\t</s>
-0.4\ta\t-0.2
-0.7\tb

\\2-grams:
-0.2\t<s> a
-0.3\ta </s>

\\end\\
"""


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of each task, corpora and odd files; copy it before use."""
    folder = tmp_path_factory.mktemp("stage")
    corpus = toy_corpus(tmp_path_factory.mktemp("corpus"), pairs=60)
    subjects = {"language": "language model of lines", "tagger": "tagging"}
    subjects |= {name: name for name in ("embedding", "recommendation", "recognition", "captioning")}
    subwords = ("text.kind=sentencepiece", "text.vocabulary_size=280")
    pairs = {"train": [{"kind": "files", **{side: str(path) for side, path in corpus.items()}}]}
    (folder / "words.txt").write_text("the D B-NP\ndog N I-NP\n\na D B-NP\ncat N I-NP\nsees V O\n" * 20)
    text = "".join(corpus["source"].read_text().splitlines(keepends=True)[:20])
    (folder / "text").write_text(text)
    columns = {"kind": "columns", "path": str(folder / "words.txt"), "columns": ["form", "pos", "chunk"]}
    estimated: dict[str, Values] = {
        "ngrams": {
            "task": {"kind": "language-modelling"},
            "data": {"train": [{"kind": "text", "path": str(folder / "text")}], "validation": {"minimum": 2}},
            "text": {"kind": "tokens"},
            "model": {"network": {"kind": "ngram", "order": 2}},
        },
        "hidden-markov": {
            "task": {"kind": "tagging", "labels": "pos"},
            "model": {"kind": "hidden-markov"},
            "data": {"train": [columns]},
        },
        "phrases": {"model": to_values(system_model("dictionary")), "data": pairs},
    }
    with without_plots():
        train(toy_values(corpus, "luong"), run=folder / "translation", quiet=True)
        train(toy_values(corpus, "transformer", *subwords), run=folder / "subwords", quiet=True)
        for name, subject in subjects.items():
            train(SUBJECTS[subject].values(tmp_path_factory.mktemp(name)), run=folder / name, quiet=True)
        for name, values in estimated.items():
            train(values, run=folder / name, quiet=True)
    for name, path in corpus.items():
        shutil.copyfile(path, folder / name)
    write_sequences(folder / "users.txt", users=12)
    write_tones(folder / "audio", recordings=3)
    write_images(folder / "images", images=3)
    (folder / "model.arpa").write_text(ARPA)
    (folder / "terms.tsv").write_text("a\tb\nc\td\n")
    (folder / "empty").write_bytes(b"")
    (folder / "binary").write_bytes(random.Random(0).randbytes(2000))
    (folder / "packed.gz").write_bytes(gzip.compress(text.encode())[:-9])
    (folder / "config.toml").write_text("[training]\nsteps = 'many'\n")
    (folder / "deep.toml").write_text("a = " + "[" * 9000)
    (folder / "empty-folder").mkdir()
    (folder / "link").symlink_to("missing/target")
    return folder


class Outcome(NamedTuple):
    """How a command line ended: the problem, if there was one, and whether the command ended by itself."""

    problem: str | None
    has_ended: bool


def problems(ended: Ended) -> list[str]:
    """What is wrong with the way a command ended."""
    said = ended.out + ended.err
    if ended.was_killed and ended.seconds >= PATIENCE:
        return []  # it was still at work
    wrong = [] if ended.code in (0, 1, 2) else [f"exit code {ended.code}"]
    wrong += ["a traceback"] if "Traceback" in said or "Error:" in said.replace("FileError:", "") else []
    wrong += ["a warning of Python"] if WARNING.search(said) else []
    wrong += ["no message"] if ended.code and not ended.err.strip() else []
    wrong += ["several messages"] if len(re.findall(r"^calque: ", ended.err, re.MULTILINE)) > 1 else []
    return wrong


def shown(arguments: list[str]) -> str:
    return ascii([argument if len(argument) < 60 else f"{argument[:30]}...({len(argument)})" for argument in arguments])


def run_line(line: CommandLine, *, warm: Warm, stage: Path, folder: Path) -> Outcome:
    """Runs a command line in a copy of the stage."""
    shutil.copytree(stage, folder, symlinks=True)
    try:
        ended = warm(*line.arguments, cwd=str(folder), input=str(folder / line.input), memory=MEMORY, patience=PATIENCE)
    finally:
        shutil.rmtree(folder)
    wrong = problems(ended)
    message = f"{shown(line.arguments)}: {', '.join(wrong)}\n{ended.err[-600:]}" if wrong else None
    return Outcome(message, has_ended=not ended.was_killed)


@pytest.mark.parametrize("count", [25, pytest.param(500, marks=pytest.mark.full)])
def test_no_command_line_ends_in_a_traceback(
    count: int, seed: int, warm: Warm, stage: Path, tmp_path: Path, tally: Tally
) -> None:
    generator = random.Random(seed)
    lines = [command_line(generator) for _ in range(count)]
    outcomes = [run_line(line, warm=warm, stage=stage, folder=tmp_path / "here") for line in lines]
    ended = sum(outcome.has_ended for outcome in outcomes)
    tally("fuzzed command lines", "all", tried=ended, wrong=[item.problem for item in outcomes if item.problem])
    assert ended > 0.8 * count  # a line that is still at work proves nothing


def contents(folder: Path) -> dict[str, tuple[int, str]]:
    """The kind and the bytes of everything in a folder."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode >> 12,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and os.access(path, os.R_OK) else "",
        )
        for path in folder.rglob("*")
        if not path.is_symlink() or path.exists()
    }


def asks_for_much(config: Path) -> bool:
    """Whether the search settings of a model ask for work without an end, such as a minimum of 65,536 pieces."""
    search = read_toml(config).get("search", {})
    return any(isinstance(value, int | float) and value > 1000 for key, value in search.items() if key in MUCH)


def damage_folder(generator: random.Random, *, warm: Warm, stage: Path, folder: Path) -> str | None:
    """Damages a model folder and uses it; what went wrong, if anything did."""
    shutil.copytree(stage, folder, symlinks=True)
    name = generator.choice(list(USE))
    model = folder / name / "model"
    (folder / name / "config.toml").unlink()  # only the model is left of the run
    ways = generator.choice((UNSEALED, RESEALED, RESEALED))
    way = generator.choice(list(ways))
    before = contents(model)
    ways[way](model, generator)
    try:
        is_same = ways is UNSEALED and os.access(model, os.R_OK) and contents(model) == before
        command = [str(model) if part == "MODEL" else part for part in USE[name]]
        ended = warm(*command, cwd=str(folder), input=str(folder / "text"), memory=MEMORY, patience=PATIENCE)
        takes_long = ended.was_killed and asks_for_much(model / "config.toml")
    finally:
        shutil.rmtree(folder)
    wrong = problems(ended) + (["it did not end"] if ended.was_killed and not takes_long else [])
    if ways is UNSEALED and not is_same and ended.code != 2:
        wrong.append(f"exit code {ended.code}, though the manifest does not fit")
    if is_same and ended.code != 0:
        wrong.append("it was refused, though nothing had changed")
    return f"{name}: {way}: {', '.join(wrong)}\n{ended.err[-600:]}" if wrong else None


@pytest.mark.parametrize("count", [15, pytest.param(200, marks=pytest.mark.full)])
def test_no_damaged_model_folder_ends_in_a_traceback(
    count: int, seed: int, warm: Warm, stage: Path, tmp_path: Path, tally: Tally
) -> None:
    """A folder that still loads is one that a hostile maker has sealed again, or one that was not changed."""
    generator = random.Random(seed)
    ended = [damage_folder(generator, warm=warm, stage=stage, folder=tmp_path / "here") for _ in range(count)]
    tally("damaged model folders", "all", tried=count, wrong=[problem for problem in ended if problem])


@pytest.mark.parametrize("share", [0.2, pytest.param(1.0, marks=pytest.mark.full)])
def test_the_lines_are_sound_before_they_are_spoilt(
    share: float, seed: int, warm: Warm, stage: Path, tmp_path: Path
) -> None:
    """Otherwise the fuzzer would try little but the first checks."""
    lines = [line for line in SOUND if line[0] not in ("quickstart", "doctor", "runs") and "config.toml" not in line]
    failed = []
    for arguments in random.Random(seed).sample(lines, round(share * len(lines))):
        folder = Path(shutil.copytree(stage, tmp_path / "here", symlinks=True))
        ended = warm(*arguments, cwd=str(folder), input=str(folder / "text"), memory=MEMORY)
        failed += [f"{' '.join(arguments)}: {ended.err}"] if ended.code else []
        shutil.rmtree(folder)
    assert not failed, "\n".join(failed)
