"""Trains and scores the statistical systems that preceded neural networks, on the same corpus.

    python -m recipes.lineage.statistical run CORPUS OUT
    python -m recipes.lineage.statistical report OUT --keep recipes/lineage/results/statistical.json \\
        --write recipes/lineage/README.md

CORPUS is a folder with `train`, `val` and `test_2016_flickr`, each as `.en.gz` and `.de.gz` (Multi30k). Each run is
OUT/NAME, and its translations are OUT/NAME.de; it is finished when there is an OUT/NAME.json. Times are CPU-seconds of
one core.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from recipes.runner.files import read_json, read_lines, write_json
from recipes.runner.pages import publish, report_parser, table
from recipes.runner.scoring import scores


class Entry(NamedTuple):
    """A system with settings, and its name in the table."""

    system: str
    title: str
    settings: tuple[str, ...] = ()


UNTUNED, REORDERED = "model.tuning.iterations=0", "model.reordering=true"
ENTRIES: dict[str, Entry] = {
    "dictionary": Entry("dictionary", "word for word"),
    "brown1993": Entry("brown1993", "noisy channel, trigrams"),
    "koehn2003": Entry("koehn2003", "phrase-based, 5-grams"),
    "reordered": Entry("koehn2003", "with lexicalised reordering", (REORDERED,)),
    "untuned": Entry("koehn2003", "the same, initial weights", (REORDERED, UNTUNED)),
    "untuned-trigrams": Entry("koehn2003", "the same, trigrams", (REORDERED, UNTUNED, "model.language_order=3")),
    "untuned-lowercased": Entry("koehn2003", "as untuned, lowercased", (REORDERED, UNTUNED, "model.case=lowercase")),
    "untuned-plain": Entry("koehn2003", "as untuned, without discounts", (REORDERED, UNTUNED, "model.discount=none")),
}


def run(corpus: Path, out: Path, *, names: list[str]) -> None:
    """Trains and scores the entries that are not finished."""
    test = {side: corpus / f"test_2016_flickr.{side}.gz" for side in ("en", "de")}
    for name in names:
        if (out / f"{name}.json").exists():
            continue
        entry, folder, output = ENTRIES[name], out / name, out / f"{name}.de"
        files = [f"--{option}={corpus / part}.gz" for option, part in FILES.items()]
        system = ["--system", entry.system, *entry.settings]
        trained = seconds_of("train", *system, *files, "--run", str(folder))
        translated = seconds_of("translate", str(folder), "--input", str(test["en"]), "--output", str(output))
        write_json(out / f"{name}.json", result(name, out, test["de"], trained=trained, translated=translated))


FILES = {"source": "train.en", "target": "train.de", "valid-source": "val.en", "valid-target": "val.de"}


def result(name: str, out: Path, reference: Path, *, trained: float, translated: float) -> dict[str, Any]:
    """The scores of an entry's translations, its size, and how long it took."""
    translations = read_lines(out / f"{name}.de")
    size = sum(path.stat().st_size for path in (out / name / "model").rglob("*") if path.is_file())
    return {
        "name": name,
        **scores(translations, read_lines(reference)),
        "values": stored_values(out / name),
        "megabytes": size / 1e6,
        "train_seconds": trained,
        "translate_seconds": translated,
        "sentences": len(translations),
    }


def stored_values(run: Path) -> int:
    """The number of values in the tables of a statistical model, read from its log."""
    found = re.search(r"model: ([\d,]+) values", (run / "log.txt").read_text(encoding="utf-8"))
    if not found:
        raise ValueError(f"{run / 'log.txt'} does not say how many values the model has; train it again")
    return int(found[1].replace(",", ""))


def seconds_of(*arguments: str) -> float:
    """Runs a command of Calque and returns the CPU-seconds that it took."""
    process = subprocess.Popen([sys.executable, "-m", "calque", *arguments], env={**os.environ, "OMP_NUM_THREADS": "1"})
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"calque {' '.join(arguments)} failed")
    return usage.ru_utime + usage.ru_stime


def collect(out: Path) -> list[dict[str, Any]]:
    """The results of all finished entries."""
    return [read_json(path) for name in ENTRIES if (path := out / f"{name}.json").exists()]


def page(results: list[dict[str, Any]]) -> str:
    """The table, one row per entry."""
    header = ["entry", "", "BLEU lowercased", "cased", "chrF", "train, s", "sentences/s", "MB"]
    rows = [
        [
            item["name"],
            ENTRIES[item["name"]].title,
            f"**{item['bleu_lowercased']:.2f}**",
            f"{item['bleu']:.2f}",
            f"{item['chrf']:.2f}",
            f"{item['train_seconds']:.0f}",
            f"{item['sentences'] / item['translate_seconds']:.0f}",
            f"{item['megabytes']:.1f}",
        ]
        for item in results
    ]
    return table(header, rows)


def main() -> None:
    """Runs the entries, or reports their results."""
    if sys.argv[1:2] == ["report"]:
        publish(report_parser(__doc__).parse_args(sys.argv[2:]), collect=collect, page=page, name="statistical")
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "report"])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--names", nargs="+", choices=ENTRIES, default=list(ENTRIES))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    run(options.corpus, options.out, names=options.names)


if __name__ == "__main__":
    main()
