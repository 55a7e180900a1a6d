"""Adapts a model to another domain in several ways, and scores each on both domains: what it learns and forgets.

    python -m recipes.finetuning.run CORPUS OUT [--write README.md] [KEY=VALUE ...]

CORPUS is Multi30k: captions are the first domain, the built-in phrasebook is the new one, both German to English.
Existing runs and scores are kept, and an interrupted training is resumed. KEY=VALUE are settings for all trainings.
"""

import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from calque.config import read_toml
from recipes.runner.arguments import parser_of, split_assignments
from recipes.runner.files import read_json, read_lines, write_json, write_lines
from recipes.runner.pages import table, write_page

DOMAINS = ("captions", "phrasebook")
TESTED = 300  # sentences per domain
SCORES = "domains.json"  # of a run
LEARNING = ("training.batch.tokens=2048", "training.schedule.kind=linear", "training.patience=0")


class Adaptation(NamedTuple):
    """One way to obtain a model for the new domain."""

    name: str
    label: str
    warm_start: bool  # starts from the first domain's model
    extended: bool  # its tokenizer is trained on both domains
    mixed: bool = False  # captions stay in the training data
    steps: int = 150


ADAPTATIONS = (
    Adaptation("scratch", "from nothing", warm_start=False, extended=True),
    Adaptation("kept", "the old pieces", warm_start=True, extended=False),
    Adaptation("extended", "more pieces", warm_start=True, extended=True),
    Adaptation(
        "mixed", "more pieces, as many captions as phrases", warm_start=True, extended=True, mixed=True, steps=300
    ),
)


class Paths(NamedTuple):
    """The folders of corpora and runs."""

    corpus: Path
    out: Path

    @property
    def general(self) -> Path:
        """The run of the first domain."""
        return self.out / "general"

    @property
    def pieces(self) -> Path:
        """The prepared store of both domains, whose tokenizer all models use."""
        return self.out / "pieces"

    def pairs(self, domain: str, part: str, *, weight: float | None = None) -> str:
        """A part of a domain as an inline table of the data section."""
        if domain == "captions":
            name = {"train": "train", "valid": "val"}[part]
            source, target = (self.corpus / f"{name}.{language}.gz" for language in ("de", "en"))
        else:
            source, target = (self.out / "phrasebook" / f"{part}.{language}" for language in ("de", "en"))
        weighting = "" if weight is None else f", weight = {weight}"
        return f"{{kind = 'files', source = '{source}', target = '{target}'{weighting}}}"

    def test(self, domain: str, language: str) -> Path:
        """The test sentences of a domain."""
        return self.out / f"{domain}.test.{language}"


def train_command(run: Path, data: str, settings: Sequence[str]) -> list[str]:
    """The command that starts a run, with its corpora in a config next to it, or resumes the run."""
    if (run / "config.toml").is_file():
        return ["train", "--resume", str(run)]
    config = run.with_suffix(".toml")
    config.write_text(data, encoding="utf-8")
    return ["train", "--system", "tiny", "--config", str(config), "--run", str(run), *LEARNING, *settings]


def corpora(paths: Paths, adaptation: Adaptation | None = None) -> str:
    """The data section: captions, or the new domain's pairs, with captions added for `mixed`."""
    domain = "phrasebook" if adaptation else "captions"
    train = [paths.pairs(domain, "train")]
    if adaptation and adaptation.mixed:
        train.append(paths.pairs("captions", "train", weight=0.2))  # 5,800 of 29,000 per epoch, with 6,000 phrases
    return f"data.train = [{', '.join(train)}]\ndata.valid = [{paths.pairs(domain, 'valid')}]\n"


def general_settings() -> list[str]:
    """The settings of the first domain's model."""
    return [
        *("text.vocabulary_size=4000", *_steps(500), "training.schedule.warmup=150"),
        "training.optimiser.learning_rate=0.004",
    ]


def adaptation_settings(adaptation: Adaptation, paths: Paths) -> list[str]:
    """The settings of an adaptation: its tokenizer, number of steps and initial weights."""
    return [
        f"text={{kind = 'given', path = '{paths.pieces if adaptation.extended else paths.general}'}}",
        *_steps(adaptation.steps),
        *("training.schedule.warmup=50", "training.optimiser.learning_rate=0.002"),
        *([f"training.warm_start={paths.general}"] if adaptation.warm_start else []),
    ]


def scores_table(scores: Mapping[str, Mapping[str, float]], labels: Mapping[str, str], *, note: str) -> str:
    """The BLEU of every model on both domains, and how much of the first domain's BLEU is lost."""
    before = scores["general"]["captions"]
    rows = []
    for name, model in scores.items():
        lost = "" if name in ("general", "scratch") else f"{before - model['captions']:.1f}"
        numbers = (f"{model['new']:.0f}", f"{model['steps']:.0f}")
        bleu = (f"{model['phrasebook']:.1f}", f"{model['captions']:.1f}")
        rows.append((f"`{name}`", labels[name], *numbers, *bleu, lost))
    header = ("model", "what it is", "new pieces", "steps", "phrasebook BLEU", "captions BLEU", "forgotten")
    return f"{table(header, rows)}\n\n{note}"


def _steps(count: int) -> list[str]:
    return [f"training.{key}={count}" for key in ("steps", "validate_every", "checkpoint_every")]


def _calque(*command: str) -> str:
    """Runs a command of Calque and returns its standard output."""
    done = subprocess.run([sys.executable, "-m", "calque", *command], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def _write_corpora(paths: Paths) -> None:
    """Writes the phrasebook, the first test sentences of both domains, and a tokenizer for both."""
    book = paths.out / "phrasebook"
    if not (book / "test.en").is_file():
        _calque("data", "phrasebook", "--from", "de", "--to", "en", "--pairs", "6000", "--out", str(book))
    for language in ("de", "en"):
        captions = paths.corpus / f"test_2016_flickr.{language}.gz"
        for domain, path in (("captions", captions), ("phrasebook", book / f"test.{language}")):
            write_lines(paths.test(domain, language), read_lines(path)[:TESTED])
    if not paths.pieces.is_dir():
        both = ", ".join(paths.pairs(domain, "train") for domain in DOMAINS)
        config = paths.out / "pieces.toml"
        config.write_text(f"data.train = [{both}]\ntext.vocabulary_size = 4500\n", encoding="utf-8")
        _calque("data", "prepare", "--config", str(config), "--out", str(paths.pieces))


def _scores(run: Path, paths: Paths) -> dict[str, float]:
    """Greedy BLEU on both domains, saved next to the run."""
    kept = run / SCORES
    if not kept.is_file():
        scores: dict[str, float] = {}
        for domain in DOMAINS:
            files = ("--source", str(paths.test(domain, "de")), "--reference", str(paths.test(domain, "en")))
            metrics = json.loads(_calque("evaluate", str(run), *files, "--beam", "1", "--json"))
            scores[domain] = metrics["bleu"]["value"]
        log = (run / "log.txt").read_text(encoding="utf-8")
        new = re.search(r"warm start from .*: ([\d,]+) of [\d,]+ target pieces are new", log)
        scores["new"] = float(new[1].replace(",", "")) if new else 0.0
        scores["steps"] = float(read_toml(run / "config.toml")["training"]["steps"])
        write_json(kept, scores)
    return dict(read_json(kept))


def _main() -> None:
    started = time.monotonic()
    parser = parser_of(__doc__)
    parser.usage = "python -m recipes.finetuning.run CORPUS OUT [--write FILE] [KEY=VALUE ...]"
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="write the results between the marks of this Markdown page"
    )
    arguments, assignments = split_assignments(sys.argv[1:])
    options = parser.parse_args(arguments)
    paths = Paths(options.corpus.absolute(), options.out.absolute())
    paths.out.mkdir(parents=True, exist_ok=True)
    _write_corpora(paths)
    adaptations = {"general": None, **{adaptation.name: adaptation for adaptation in ADAPTATIONS}}
    scores = {}
    for name, adaptation in adaptations.items():
        run = paths.out / name
        if not (run / SCORES).is_file():
            settings = adaptation_settings(adaptation, paths) if adaptation else general_settings()
            _calque(*train_command(run, corpora(paths, adaptation), [*settings, *assignments]))
        scores[name] = _scores(run, paths)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall, core = time.monotonic() - started, children.ru_utime + children.ru_stime
    note = f"{TESTED} test sentences per domain, greedy. The recipe took {core:.0f} s of CPU time, {wall:.0f} s in all."
    labels = {"general": "captions alone", **{adaptation.name: adaptation.label for adaptation in ADAPTATIONS}}
    text = scores_table(scores, labels, note=note)
    print(text)
    if options.write:
        write_page(options.write, text)


if __name__ == "__main__":
    _main()
