"""Measures how well attention aligns words: the error rate of every system, on pairs whose alignment is known.

    python -m recipes.alignment.run OUT [--seeds 1 2 3] [--jobs 4] [--seconds 540] [--device cuda]
        [--systems NAME ...] [KEY=VALUE ...]

Trains each system twice, on its own and with guided alignment (Chen 2016), on sentences of the built-in phrasebook,
whose grammar writes the alignments; then aligns the test pairs by the attention of forced decoding. Finished runs are
not repeated, and interrupted ones are resumed. `python -m recipes.alignment.report OUT` prints the table.
"""

import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from recipes.runner.arguments import parser_of, split_assignments
from recipes.runner.scheduler import Job, Stage, run_jobs, train_command

PAIRS = 20_000
LANGUAGES = ("de", "en")
WEIGHT = 0.3  # of guided alignment
RESULT = "alignment.json"
STEPS = 2_000


class Entry(NamedTuple):
    """A system, and the size that it is trained at."""

    system: str
    scale: float
    learning_rate: float
    can_be_guided: bool = True


ENTRIES = (
    Entry("bahdanau2015", 0.25, 0.002),
    Entry("luong2015", 0.25, 0.002),
    Entry("luong2015-local-m", 0.25, 0.002),
    Entry("luong2015-local-p", 0.25, 0.002),
    Entry("luong2015-hard", 0.25, 0.002, can_be_guided=False),
    Entry("gnmt2016", 0.25, 0.002),
    Entry("gehring2017", 0.25, 0.002),
    Entry("vaswani2017-base", 0.5, 0.002),
    Entry("fast", 0.5, 0.002),
)

SYSTEMS = tuple(entry.system for entry in ENTRIES)


def settings(entry: Entry, *, guided: bool, seed: int) -> list[str]:
    """The settings that all systems share, and this system's learning rate."""
    return [
        f"seed={seed}",
        "text.vocabulary_size=2000",
        "training.batch.tokens=4096",
        f"training.steps={STEPS}",
        "training.patience=0",
        "training.validate_every=500",
        "training.schedule.kind=linear",
        "training.schedule.warmup=200",
        "training.label_smoothing=0.1",
        f"training.optimiser.learning_rate={entry.learning_rate}",
        *([f"training.objective.guidance.weight={WEIGHT}"] if guided else []),
    ]


def jobs(
    out: Path,
    *,
    seeds: Sequence[int],
    device: str,
    assignments: Sequence[str],
    systems: Collection[str] = SYSTEMS,
) -> Iterator[Job]:
    """Yields a job per system and seed, with and without guidance, that trains a model and then aligns with it."""
    book = out / "book"
    corpus = [
        f"--{side}={book / f'train.{language}'}" for side, language in zip(("source", "target"), LANGUAGES, strict=True)
    ]
    for seed in seeds:
        for entry in (entry for entry in ENTRIES if entry.system in systems):
            for guided in (False, True) if entry.can_be_guided else (False,):
                label = f"{entry.system}-{'guided' if guided else 'own'}-{seed}"
                run = out / label
                arguments = [
                    *corpus,
                    *([f"--alignments={book / 'train.align'}"] if guided else []),
                    f"--system={entry.system}",
                    f"--scale={entry.scale}",
                    *settings(entry, guided=guided, seed=seed),
                    f"training.device={device}",
                    *assignments,
                ]
                align = [sys.executable, "-m", "recipes.alignment.align", str(run), str(book), "--device", device]
                yield Job(
                    label,
                    run,
                    (
                        Stage("training", partial(train_command, run, arguments), run / "trained"),
                        Stage("aligning", partial(list, align), run / RESULT),
                    ),
                )


def write_book(folder: Path, *, languages: tuple[str, str] = LANGUAGES) -> None:
    """Writes the corpus with its alignments unless it exists; Chinese is segmented, as alignments require."""
    if not folder.is_dir():
        source, target = languages
        command = ["data", "phrasebook", "--from", source, "--to", target, "--pairs", str(PAIRS), "--alignments"]
        command += ["--segment"] * ("zh" in languages)
        subprocess.run([sys.executable, "-m", "calque", *command, "--out", str(folder)], check=True)


def main() -> None:
    """Trains all systems and aligns the test pairs with each of them."""
    arguments, assignments = split_assignments(sys.argv[1:])
    parser = parser_of(__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS, metavar="NAME")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args(arguments)
    write_book(options.out / "book")
    chosen = jobs(
        options.out, seeds=options.seeds, device=options.device, assignments=assignments, systems=options.systems
    )
    sys.exit(run_jobs(list(chosen), slots=options.jobs, seconds=options.seconds))


if __name__ == "__main__":
    main()
