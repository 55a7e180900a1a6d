"""The results as tables, figures and the papers' claims, one part per corpus.

    python -m recipes.lineage.report OUT [OUT2 ...] --keep recipes/lineage/results
    python -m recipes.lineage.report recipes/lineage/results/*.jsonl --write recipes/lineage/README.md

Each path is a folder of runs, or a file that --keep saved. The report is printed; --keep saves the numbers it needs as
FOLDER/CORPUS.jsonl, and --write writes it between the marks of a page, with the figures next to the page.
"""

import sys
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from recipes.lineage.claims import LONG, MARGIN, claims_table, findings, loss_at_length
from recipes.lineage.corpus import UNITS, CorpusKind
from recipes.lineage.figure import draw_figure
from recipes.lineage.lengths import BUCKET_NAMES, JOINED
from recipes.lineage.results import Results, collect, keep
from recipes.runner import pages
from recipes.runner.arguments import parser_of
from recipes.runner.files import read_json
from recipes.runner.results import mean

SPEEDS = "speed.json"  # written by `recipes.lineage.speed`, beside kept files or in a folder of runs

Speeds = Mapping[str, float]  # target tokens per second, by entry


def table(results: Results, *, speeds: Speeds) -> str:
    """One row per entry: means over seeds, and the range of BLEU; a column of speeds if there are any."""
    header = (
        *("entry", "parameters", "rate", "seeds", "BLEU lowercased (range)", "cased", "chrF"),
        *(("target tokens/s",) if speeds else ()),
        *(*BUCKET_NAMES, f"lost on {LONG}, %"),
    )
    rows = []
    for name, seeds in results.items():
        runs = list(seeds.values())
        rows.append(
            [
                name,
                _distinct(f"{run['parameters']:,}" for run in runs),
                _distinct(run["learning_rate"] for run in runs),
                str(len(runs)),
                _ranged(_bleu(seeds), digits=2, bold=True),
                *(f"{mean([run[key] for run in runs]):.2f}" for key in ("bleu", "chrf")),
                *((_speed(name, speeds),) if speeds else ()),
                *(_at_length(runs, bucket) for bucket in BUCKET_NAMES),
                _lost(runs),
            ]
        )
    return pages.table(header, rows)


def provenance(results: Results) -> str:
    """Steps, machine, versions and search settings as a list; all distinct values if runs differ."""
    runs = [run for seeds in results.values() for run in seeds.values()]

    def distinct(*keys: str) -> str:
        return _distinct(reduce(getitem, keys, run) for run in runs)

    lengths = ", ".join(f"{name}: {distinct('lengths', name, 'sentences')}" for name in BUCKET_NAMES)
    signatures = (("BLEU lowercased", "bleu_lowercased"), ("BLEU cased", "bleu"), ("chrF", "chrf"))
    lines = [
        f"{len(runs)} runs of {distinct('steps')} steps on {distinct('device')}",
        f"torch {distinct('torch')}, Calque {distinct('calque')}; data {_distinct(run['data'][:12] for run in runs)}",
        f"beam {distinct('search', 'beam')}, length penalty {distinct('search', 'length_penalty')}",
        f"sentences by length, of the test set and its neighbours joined by {', '.join(map(str, JOINED))}: {lengths}; "
        f"longer and left out: {distinct('longer')}",
        *(f"{name}: `{distinct('signatures', key)}`" for name, key in signatures),
    ]
    return "\n".join(f"- {line}" for line in lines)


def report(corpus: CorpusKind, results: Results, *, speeds: Speeds) -> str:
    """The report of one corpus in Markdown."""
    unit = UNITS[corpus]
    parts = [
        f"Columns 1-10 to 41-60 are lowercased BLEU for sources of that many {unit}; the loss on long sentences is "
        "given below the figure.",
        table(results, speeds=speeds if corpus == "multi30k" else {}),
        f"![BLEU by the length of the source, and of all entries]({figure_name(corpus)})",
        "A difference is *shown* if its mean is larger than the spread, the largest distance between two seeds of one "
        "entry.\nThe loss on long sentences is how much lower, in per cent, BLEU is if joined sources of "
        f"{BUCKET_NAMES[-1]} {unit} are translated at once\ninstead of sentence by sentence; a system *loses* if every "
        f"seed loses more than {MARGIN:g} %, and does not lose if none does.",
        claims_table(findings(results)),
        provenance(results),
    ]
    return "\n\n".join(parts) + "\n"


def figure_name(corpus: CorpusKind) -> str:
    """The name of a corpus's figure, such as `lineage-multi30k.png`."""
    return f"lineage-{corpus}.png"


def fill(text: str, *, corpus: CorpusKind, results: str) -> str:
    """A page with the results between the marks of their corpus."""
    return pages.fill(text, results, name=f"results {corpus}")


def read_speeds(paths: Sequence[Path]) -> Speeds:
    """The training speeds saved next to these results; empty if they were not measured."""
    files = dict.fromkeys((path if path.is_dir() else path.parent) / SPEEDS for path in paths)
    return {name: speed for path in files if path.is_file() for name, speed in read_json(path).items()}


def _bleu(seeds: Mapping[int, Mapping[str, Any]]) -> list[float]:
    return [run["bleu_lowercased"] for run in seeds.values()]


def _at_length(runs: Sequence[Mapping[str, Any]], bucket: str) -> str:
    values = [run["lengths"][bucket]["bleu_lowercased"] for run in runs]
    return "" if None in values else f"{mean(values):.1f}"


def _lost(runs: Sequence[Mapping[str, Any]]) -> str:
    losses = [loss for run in runs if (loss := loss_at_length(run)) is not None]
    return f"{min(losses):.0f} to {max(losses):.0f}" if len(losses) == len(runs) else ""


def _speed(name: str, speeds: Speeds) -> str:
    return f"{round(speeds[name], -2):,.0f}" if name in speeds else ""


def _ranged(values: Sequence[float], *, digits: int, bold: bool) -> str:
    text = f"{mean(values):.{digits}f}"
    return f"{f'**{text}**' if bold else text} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def _distinct(values: Any) -> str:
    return " / ".join(dict.fromkeys(map(str, values)))


def _main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("paths", type=Path, nargs="+", metavar="PATH")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="the folder for compact results, one file per corpus"
    )
    parser.add_argument(
        "--write",
        type=Path,
        metavar="FILE",
        help="a Markdown page with marks for the results; figures are written next to it",
    )
    options = parser.parse_args()
    try:
        collected = collect(options.paths)
        if not collected:
            raise ValueError(f"no results in {', '.join(map(str, options.paths))}")
        speeds = read_speeds(options.paths)
        reports = {corpus: report(corpus, results, speeds=speeds) for corpus, results in collected.items()}
        for corpus, text in reports.items():
            print(f"## {corpus}\n\n{text}")
        if options.keep:
            keep(options.keep, collected)
        if options.write:
            text = options.write.read_text(encoding="utf-8")
            for corpus, results in reports.items():
                text = fill(text, corpus=corpus, results=results)
            options.write.write_text(text, encoding="utf-8")
            for corpus, corpus_results in collected.items():
                draw_figure(options.write.parent / figure_name(corpus), corpus_results, unit=UNITS[corpus])
    except (OSError, ValueError) as error:
        print(f"recipes.lineage.report: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    _main()
