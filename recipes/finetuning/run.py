"""Adapts a model to another domain in several ways, and scores each on both domains: what is learnt, what is forgotten.

    python recipes/finetuning/run.py CORPUS OUT [--write README.md] [KEY=VALUE ...]

CORPUS is Multi30k: captions are the first domain, the built-in phrasebook is the new one, both German to English. What
is done already is not done again, and a training that was cut off goes on. KEY=VALUE are settings of all trainings.
"""

import argparse
import gzip
import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from pages import write_page

DOMAINS = ("captions", "phrasebook")
TESTED = 300  # sentences of each domain
ASSIGNMENT = re.compile(r"[a-z_]+(\.[a-z_]+)+=.*", re.DOTALL)
LEARNING = ("training.batch.tokens=2048", "training.schedule.kind=linear", "training.patience=0")


class Way(NamedTuple):
    """One way to a model of the new domain."""

    name: str
    told: str
    is_warm: bool  # whether it begins with the first domain's model
    is_extended: bool  # whether its pieces are learnt from both domains
    is_mixed: bool = False  # whether it still sees captions
    steps: int = 150


WAYS = (
    Way("scratch", "from nothing", is_warm=False, is_extended=True),
    Way("kept", "the old pieces", is_warm=True, is_extended=False),
    Way("extended", "more pieces", is_warm=True, is_extended=True),
    Way("mixed", "more pieces, as many captions as phrases", is_warm=True, is_extended=True, is_mixed=True, steps=300),
)


class Place(NamedTuple):
    """Where everything lies."""

    corpus: Path
    out: Path

    @property
    def general(self) -> Path:
        return self.out / "general"

    @property
    def pieces(self) -> Path:
        """The store of both domains, whose tokenizer is taken."""
        return self.out / "pieces"

    def pairs(self, domain: str, part: str, **more: float) -> str:
        """A part of a domain as an inline table of the data section."""
        if domain == "captions":
            name = {"train": "train", "valid": "val"}[part]
            source, target = (self.corpus / f"{name}.{language}.gz" for language in ("de", "en"))
        else:
            source, target = (self.out / "phrasebook" / f"{part}.{language}" for language in ("de", "en"))
        weights = "".join(f", {key} = {value}" for key, value in more.items())
        return f"{{kind = 'files', source = '{source}', target = '{target}'{weights}}}"

    def tested(self, domain: str, language: str) -> Path:
        return self.out / f"{domain}.test.{language}"


def train_command(run: Path, data: str, settings: Sequence[str]) -> list[str]:
    """How a run begins, its corpora in a config beside it, or goes on where it was."""
    if (run / "config.toml").is_file():
        return ["train", "--resume", str(run)]
    config = run.with_suffix(".toml")
    config.write_text(data, encoding="utf-8")
    return ["train", "--system", "tiny", "--config", str(config), "--run", str(run), *LEARNING, *settings]


def corpora(place: Place, way: Way | None = None) -> str:
    """What is trained and validated on: captions, or the new domain's pairs, some with captions beside them."""
    domain = "phrasebook" if way else "captions"
    train = [place.pairs(domain, "train")]
    if way and way.is_mixed:
        train.append(place.pairs("captions", "train", weight=0.2))  # 5,800 of 29,000 in an epoch, beside 6,000 phrases
    return f"data.train = [{', '.join(train)}]\ndata.valid = [{place.pairs(domain, 'valid')}]\n"


def general_settings() -> list[str]:
    """The first domain's model, as a user might have it for long."""
    return [
        *("text.vocabulary_size=4000", *_steps(500), "training.schedule.warmup=150"),
        "training.optimiser.learning_rate=0.004",
    ]


def way_settings(way: Way, place: Place) -> list[str]:
    """How a way is trained: its pieces, and what it begins with."""
    return [
        f"text={{kind = 'given', path = '{place.pieces if way.is_extended else place.general}'}}",
        *_steps(way.steps),
        *("training.schedule.warmup=50", "training.optimiser.learning_rate=0.002"),
        *([f"training.warm_start={place.general}"] if way.is_warm else []),
    ]


def table(scores: Mapping[str, Mapping[str, float]], told: Mapping[str, str], *, note: str) -> str:
    """Each model's BLEU on both domains, and what it has lost of the first one's."""
    before = scores["general"]["captions"]
    rows = [
        "| model | what it is | new pieces | steps | phrasebook BLEU | captions BLEU | forgotten |",
        "|---" * 7 + "|",
    ]
    for name, found in scores.items():
        lost = "" if name in ("general", "scratch") else f"{before - found['captions']:.1f}"
        cells = (
            f"{found['new']:.0f}",
            f"{found['steps']:.0f}",
            f"{found['phrasebook']:.1f}",
            f"{found['captions']:.1f}",
        )
        rows.append(f"| {' | '.join((f'`{name}`', told[name], *cells, lost))} |")
    return "\n".join([*rows, "", note])


def _steps(count: int) -> list[str]:
    return [f"training.{key}={count}" for key in ("steps", "validate_every", "checkpoint_every")]


def _calque(*command: str) -> str:
    done = subprocess.run([sys.executable, "-m", "calque", *command], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def _make_texts(place: Place) -> None:
    """The phrasebook, the first test sentences of both domains, and the pieces of both."""
    book = place.out / "phrasebook"
    if not (book / "test.en").is_file():
        _calque("data", "phrasebook", "--from", "de", "--to", "en", "--pairs", "6000", "--out", str(book))
    for language in ("de", "en"):
        with gzip.open(place.corpus / f"test_2016_flickr.{language}.gz", "rt", encoding="utf-8", newline="\n") as file:
            place.tested("captions", language).write_text("".join(islice(file, TESTED)), encoding="utf-8")
        with (book / f"test.{language}").open(encoding="utf-8", newline="\n") as file:
            place.tested("phrasebook", language).write_text("".join(islice(file, TESTED)), encoding="utf-8")
    if not place.pieces.is_dir():
        both = ", ".join(place.pairs(domain, "train") for domain in DOMAINS)
        config = place.out / "pieces.toml"
        config.write_text(f"data.train = [{both}]\ntext.vocabulary_size = 4500\n", encoding="utf-8")
        _calque("data", "prepare", "--config", str(config), "--out", str(place.pieces))


def _scores(run: Path, place: Place) -> dict[str, float]:
    """Greedy BLEU on both domains, kept beside the run."""
    kept = run / "domains.json"
    if not kept.is_file():
        found: dict[str, float] = {}
        for domain in DOMAINS:
            files = ("--source", str(place.tested(domain, "de")), "--reference", str(place.tested(domain, "en")))
            told: dict[str, Any] = json.loads(_calque("evaluate", str(run), *files, "--beam", "1", "--json"))
            found[domain] = told["bleu"]["value"] if isinstance(told["bleu"], dict) else told["bleu"]
        lines = (run / "log.txt").read_text(encoding="utf-8")
        new = re.search(r"warm start from .*: ([\d,]+) of [\d,]+ target pieces are new", lines)
        found["new"] = float(new[1].replace(",", "")) if new else 0.0
        found["steps"] = float(
            re.findall(r"^steps = (\d+)", (run / "config.toml").read_text(encoding="utf-8"), re.M)[0]
        )
        kept.write_text(json.dumps(found), encoding="ascii")
    return dict(json.loads(kept.read_bytes()))


def _main() -> None:
    started = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.usage = "%(prog)s CORPUS OUT [--write FILE] [KEY=VALUE ...]"
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--write", type=Path, metavar="FILE", help="with marks to be filled")
    given = parser.parse_args([one for one in sys.argv[1:] if not ASSIGNMENT.fullmatch(one)])
    assignments = list(filter(ASSIGNMENT.fullmatch, sys.argv[1:]))
    place = Place(given.corpus.absolute(), given.out.absolute())
    place.out.mkdir(parents=True, exist_ok=True)
    _make_texts(place)
    ways = {"general": None, **{way.name: way for way in WAYS}}
    scores = {}
    for name, way in ways.items():
        run = place.out / name
        if not (run / "domains.json").is_file():
            settings = way_settings(way, place) if way else general_settings()
            _calque(*train_command(run, corpora(place, way), [*settings, *assignments]))
        scores[name] = _scores(run, place)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall, core = time.monotonic() - started, children.ru_utime + children.ru_stime
    note = (
        f"{TESTED} test sentences of each domain, greedy. All of it took {core:.0f} s of a core, {wall:.0f} s in all."
    )
    told = {"general": "captions alone", **{way.name: way.told for way in WAYS}}
    made = table(scores, told, note=note)
    print(made)
    if given.write:
        write_page(given.write, made)


if __name__ == "__main__":
    _main()
