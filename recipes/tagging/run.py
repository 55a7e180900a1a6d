"""Trains the taggers of this recipe with several seeds in parallel, scores them on their test sets, writes the table.

    python -m recipes.tagging.run CORPORA OUT [--seeds 1 2 3] [--only upos] [--side-by-side 6] [--minutes 25]
        [--keep recipes/tagging/results.json] [--write recipes/tagging/README.md] [KEY=VALUE ...]

CORPORA holds ud-english-ewt/{train,dev,test}.conllu.gz and conll2000/{train,test}.txt.gz. Existing results are not
computed again, and an interrupted training is resumed. KEY=VALUE are settings for all trainings.
"""

import argparse
import gzip
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from recipes.runner.evaluating import evaluation
from recipes.runner.files import write_json
from recipes.runner.pages import mean_and_range, table, write_page
from recipes.runner.results import mean
from recipes.runner.scheduler import Job, Stage, run_jobs, train_command

HERE = Path(__file__).resolve().parent
HELD_OUT = 936  # the last sentences of CoNLL-2000's training file, which has no development set of its own


class Entry(NamedTuple):
    """A tagger of the recipe."""

    name: str
    test_set: str
    metric: str  # of `calque evaluate --json`
    target: float
    options: tuple[str, ...] = ()


ENTRIES = (
    Entry("upos", "UD English EWT, UPOS, accuracy", "accuracy", 94.8),
    Entry("chunks", "CoNLL-2000, chunks, F1", "f1", 94.1, ("--columns", "form,pos,chunk")),
)


class Files(NamedTuple):
    """The training, validation and test files of a corpus."""

    train: Path
    dev: Path
    test: Path


def corpus_of(entry: Entry, corpora: Path, out: Path) -> Files:
    """The files of a corpus; CoNLL-2000's training file is first split into training and validation data."""
    if entry.name == "upos":
        return Files(*(corpora / "ud-english-ewt" / f"{part}.conllu.gz" for part in ("train", "dev", "test")))
    files = Files(out / "conll2000-train.txt", out / "conll2000-dev.txt", corpora / "conll2000" / "test.txt.gz")
    if not files.dev.is_file():
        text = gzip.decompress((corpora / "conll2000" / "train.txt.gz").read_bytes()).decode()
        sentences = [block for block in text.split("\n\n") if block.strip()]
        for path, part in ((files.train, sentences[:-HELD_OUT]), (files.dev, sentences[-HELD_OUT:])):
            path.write_text("".join(f"{block.strip()}\n\n" for block in part), encoding="utf-8")
    return files


def job(entry: Entry, seed: int, *, files: Files, out: Path, settings: list[str]) -> Job:
    """The job that trains an entry with one seed and scores it."""
    folder = out / f"{entry.name}-{seed}"
    result = folder / "result.json"
    begin = ["--config", str(HERE / f"{entry.name}.toml"), "--conll", str(files.train), "--valid-conll", str(files.dev)]
    begin += [*entry.options, f"seed={seed}", *settings]
    return Job(
        folder.name,
        folder,
        (
            Stage("training", lambda: train_command(folder, begin), folder / "trained"),
            evaluation(result, folder, "--conll", str(files.test)),
        ),
        summary=lambda: f"{entry.metric} {json.loads(result.read_bytes())[entry.metric]:.2f}",
    )


def collect(out: Path) -> dict[str, list[float]]:
    """The test scores of every entry, by seed."""
    return {
        entry.name: [
            json.loads(path.read_bytes())[entry.metric] for path in sorted(out.glob(f"{entry.name}-*/result.json"))
        ]
        for entry in ENTRIES
    }


def page(results: dict[str, list[float]]) -> str:
    """The table of results."""
    rows = [
        [
            f"`{entry.name}.toml`",
            entry.test_set,
            mean_and_range(results[entry.name]),
            str(len(results[entry.name])),
            verdict,
        ]
        for entry in ENTRIES
        if results.get(entry.name)
        for verdict in [f"{entry.target} {'reached' if mean(results[entry.name]) >= entry.target else 'missed'}"]
    ]
    return table(["config", "test set", "mean (range)", "seeds", "target"], rows)


def main(arguments: list[str]) -> int:
    options = _parser().parse_intermixed_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    entries = [entry for entry in ENTRIES if options.only in (None, entry.name)]
    jobs = [
        job(
            entry,
            seed,
            files=corpus_of(entry, options.corpora, options.out),
            out=options.out,
            settings=options.settings,
        )
        for entry in entries
        for seed in options.seeds
    ]
    seconds = None if options.minutes is None else 60 * options.minutes
    code = run_jobs(jobs, slots=options.side_by_side, seconds=seconds)
    results: dict[str, Any] = collect(options.out)
    if any(results.values()):
        print(page(results))
        if options.keep:
            write_json(options.keep, results)
        if options.write:
            write_page(options.write, page(results))
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", choices=[entry.name for entry in ENTRIES])
    parser.add_argument("--side-by-side", type=int, default=6, help="parallel processes (default: 6)")
    parser.add_argument("--minutes", type=float, help="save and stop after this time; the same command continues")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="save the results to this file")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table into this Markdown page")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
