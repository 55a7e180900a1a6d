"""Compares the whole line of systems, from a dictionary to the Transformer, in one table and one figure.

    python -m recipes.lineage.whole_line run CORPUS OUT
    python -m recipes.lineage.whole_line report OUT --keep recipes/lineage/results/whole_line.json \\
        --write recipes/lineage/README.md

CORPUS is Multi30k's folder. `run` trains the statistical systems on the pairs that the networks are trained on, joined
ones included, and scores them by length as the networks are; each is finished when there is an OUT/NAME.json. It also
counts the target pieces that the networks read in training. `report` puts these systems before the main networks of
results/multi30k.jsonl, whose training times follow from results/speed.json.
"""

import argparse
import sys
from itertools import count, islice
from pathlib import Path
from typing import Any

import calque
from calque.data.pair_batch import pair_widths
from calque.data.prepare import prepare
from calque.engine import PhraseTranslator
from calque.errors import DataError
from calque.experiment import assembly_of
from recipes.lineage.claims import LONG, loss_at_length
from recipes.lineage.corpus import Corpus, derive_corpus
from recipes.lineage.entries import ENTRIES
from recipes.lineage.figure import draw_figure
from recipes.lineage.lengths import BUCKET_NAMES
from recipes.lineage.plan import Plan, experiment_of
from recipes.lineage.results import Results, collect
from recipes.lineage.score import Pairs, scores_by_length
from recipes.lineage.statistical import seconds_of, stored_values
from recipes.runner.files import read_json, read_lines, write_json
from recipes.runner.pages import mean_and_range, publish, report_parser, table
from recipes.runner.results import mean

SYSTEMS = {
    "dictionary": ("before", "word for word, by a dictionary"),
    "brown1993": ("1990–1993", "noisy channel: IBM models and n-grams"),
    "koehn2003": ("2003", "phrases, log-linear model"),
    "cho2014": ("2014", "GRU, one vector for the source"),
    "sutskever2014": ("2014", "LSTM, one vector, source reversed"),
    "bahdanau2015": ("2015", "GRU with additive attention"),
    "luong2015": ("2015", "LSTM with multiplicative attention"),
    "gehring2017": ("2017", "convolutions with attention"),
    "vaswani2017-base": ("2017", "self-attention (Transformer)"),
}
"""The year and the description of each system."""
STATISTICAL = ("dictionary", "brown1993", "koehn2003")
RESULTS = Path(__file__).resolve().parent / "results"
FIGURE = "whole-line.png"


def run(folder: Path, out: Path, *, names: list[str]) -> None:
    """Trains and scores the statistical systems that are not finished, and counts the pieces of the networks."""
    corpus = derive_corpus(folder, kind="multi30k", to=out / "corpus")
    source, target = corpus
    test = Pairs(read_lines(source.test), read_lines(target.test))
    files = {"source": source.train, "target": target.train, "valid-source": source.valid, "valid-target": target.valid}
    options = [f"--{option}={path}" for option, path in files.items()]
    for name in names:
        if (out / f"{name}.json").exists():
            continue
        seconds = seconds_of("train", "--system", name, *options, "--run", str(out / name))
        translator = calque.load(out / name)
        assert isinstance(translator, PhraseTranslator)
        scored = scores_by_length(translator.translate, test, languages=(source.language, target.language))
        facts = {"name": name, "seed": 1, "parameters": stored_values(out / name), "training_seconds": seconds}
        write_json(out / f"{name}.json", {**facts, **scored})
    if not (out / "pieces.json").exists():
        write_json(out / "pieces.json", trained_pieces(corpus, out))


def trained_pieces(corpus: Corpus, out: Path) -> int:
    """The number of target pieces in all training steps of a network, end marks included."""
    experiment = experiment_of(ENTRIES[0], Plan(corpus, out, 1.0, "cpu", ()))
    assembly = assembly_of(experiment)
    prepared = prepare(experiment.data, preparation=assembly.preparation, folder=out / "store")
    order = assembly.task(prepared).order(prepared.train, config=experiment.training.batch, seed=1)
    widths = pair_widths(prepared.train)[1]
    batches = (planned for epoch in count() for planned in order.batches(epoch))
    return int(sum(widths[planned.indices].sum() for planned in islice(batches, experiment.training.steps)))


def collect_line(out: Path) -> dict[str, Any]:
    """The results of the statistical systems, and the number of pieces that networks read in training."""
    systems = [read_json(path) for name in STATISTICAL if (path := out / f"{name}.json").exists()]
    if not systems:
        return {}
    if not (out / "pieces.json").exists():
        raise DataError(f"{out} has no pieces.json, which `run` writes at its end; start `run` with this folder again")
    return {"pieces": read_json(out / "pieces.json"), "systems": systems}


def line_results(kept: dict[str, Any]) -> Results:
    """The statistical systems and the main networks, in the order of their years."""
    networks = collect([RESULTS / "multi30k.jsonl"])["multi30k"]
    found = {item["name"]: {item["seed"]: item} for item in kept["systems"]}
    return {name: results for name in SYSTEMS if (results := found.get(name) or networks.get(name))}


def page(kept: dict[str, Any]) -> str:
    """The table, one row per system, with means over seeds."""
    speeds = read_json(RESULTS / "speed.json")
    header = ["year", "system", "", "BLEU lowercased (range)", "chrF", *BUCKET_NAMES, f"lost on {LONG}, %"]
    rows = []
    for name, seeds in line_results(kept).items():
        runs = list(seeds.values())
        losses = [loss for item in runs if (loss := loss_at_length(item)) is not None]
        if name in STATISTICAL:
            training = f"{runs[0]['training_seconds'] / 60:.1f} min, one core"
        else:
            training = f"{kept['pieces'] / speeds[name] / 60:.1f} min, H200"
        rows.append(
            [
                *(SYSTEMS[name][0], name, SYSTEMS[name][1]),
                mean_and_range([item["bleu_lowercased"] for item in runs]),
                f"{mean([item['chrf'] for item in runs]):.2f}",
                *(
                    f"{mean([item['lengths'][bucket]['bleu_lowercased'] for item in runs]):.1f}"
                    for bucket in BUCKET_NAMES
                ),
                mean_and_range(losses, digits=0),
                f"{mean([item['parameters'] for item in runs]) / 1e6:.1f}",
                training,
            ]
        )
    lines = [table([*header, "numbers stored, millions", "training"], rows)]
    lines.append(f"![BLEU of the whole line, by the length of the source and in all]({FIGURE})")
    return "\n\n".join(lines)


def main() -> None:
    """Trains the statistical systems, or reports the whole line."""
    if sys.argv[1:2] == ["report"]:
        options = report_parser(__doc__).parse_args(sys.argv[2:])
        try:
            kept = publish(options, collect=collect_line, page=page, name="whole line")
        except DataError as error:
            sys.exit(str(error))
        if options.write:
            draw_figure(options.write.parent / FIGURE, line_results(kept))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run"], help="train; the options of `report` are in `report --help`")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--names", nargs="+", choices=STATISTICAL, default=list(STATISTICAL))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    run(options.corpus.absolute(), options.out.absolute(), names=options.names)


if __name__ == "__main__":
    main()
