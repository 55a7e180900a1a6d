"""Compares hidden Markov and recurrent taggers on UD English EWT: accuracy on known and unknown words, and time.

    python -m recipes.tagging.statistical CORPORA OUT [--only trigram bigram frequent]
        [--keep recipes/tagging/statistical.json] [--write recipes/tagging/README.md]

CORPORA holds ud-english-ewt/{train,dev,test}.conllu.gz. Each tagger is trained by `calque train` on one thread of a
CPU, unless OUT has it already, and then tags the dev and the test set. A word is known if its form occurs in the
training set. Times are CPU times, of the whole training command and of tagging the test set with the loaded model.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from calque.data.column_files import file_sentences
from calque.engine import Sentence, Tagger
from calque.engine.folder import load_tagger
from recipes.runner.arguments import parser_of
from recipes.runner.files import write_json
from recipes.runner.pages import table, write_page

FORM, UPOS = 2, 4  # columns of CoNLL-U
_LSTM = (
    *("--system", "lample2016", "text.lowercase=true", "text.digits=true", "text.minimum_count=2"),
    *("model.word_dropout=0.1", "training.batch.tokens=2048", "training.steps=1000", "training.validate_every=250"),
    *("training.optimiser.learning_rate=0.004", "training.schedule.kind=linear", "training.schedule.warmup=60"),
    *("training.ema=0.99", "training.clip=5.0"),
)


class Entry(NamedTuple):
    """A tagger: its name in the table, and the arguments of `calque train`."""

    title: str
    arguments: tuple[str, ...]


ENTRIES = {
    "frequent": Entry(
        "each word's most frequent tag",
        ("--system", "brants2000", "model.order=1", "model.suffix=0", "model.capitals=false"),
    ),
    "bigram": Entry("HMM, bigrams", ("--system", "brants2000", "model.order=2")),
    "trigram": Entry("HMM, trigrams (TnT)", ("--system", "brants2000")),
    "bilstm": Entry("BiLSTM, softmax", (*_LSTM, "model.head=softmax")),
    "bilstm-crf": Entry("BiLSTM-CRF", (*_LSTM, "model.head=crf")),
}

Labelled = list[tuple[list[str], list[str]]]
"""The words and the labels of each sentence."""


def train(name: str, *, corpora: Path, out: Path) -> float:
    """Trains a tagger unless it is in `out`; returns the CPU-seconds of the command."""
    record = out / f"{name}.seconds"
    if not record.is_file():
        files = [f"--conll={corpora / 'train.conllu.gz'}", f"--valid-conll={corpora / 'dev.conllu.gz'}"]
        further = ["--run", str(out / name), "training.threads=1", "training.device=cpu"]
        command = [sys.executable, "-m", "calque", "train", *files, *ENTRIES[name].arguments, *further]
        before = _children()
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        record.write_text(f"{_children() - before:.1f}\n")
    return float(record.read_text())


def accuracies(predicted: Sequence[Sequence[str]], gold: Labelled, *, known: set[str]) -> dict[str, float]:
    """The accuracy, in per cent, on all words, on known and on unknown ones."""
    right: dict[bool, list[bool]] = {True: [], False: []}
    for labels, (words, expected) in zip(predicted, gold, strict=True):
        for word, label, true in zip(words, labels, expected, strict=True):
            right[word in known].append(label == true)
    parts = {"all": [*right[True], *right[False]], "known": right[True], "unknown": right[False]}
    return {name: 100 * sum(values) / max(1, len(values)) for name, values in parts.items()}


def measure(tagger: Tagger, sets: dict[str, Labelled], *, known: set[str]) -> dict[str, Any]:
    """The accuracies on each set, and how many words of the last set are tagged per CPU-second."""
    results: dict[str, Any] = {}
    for name, gold in sets.items():
        sentences = [Sentence(words) for words, _ in gold]
        before = time.process_time()
        predicted = [sentence.labels for sentence in tagger.stream(sentences)]
        seconds = time.process_time() - before
        results[name] = accuracies(predicted, gold, known=known)
        results["words_per_second"] = sum(len(words) for words, _ in gold) / max(seconds, 1e-9)
    return results


def page(results: dict[str, Any]) -> str:
    """The table, one row per tagger."""
    header = ["tagger", "dev", "test", "test, known words", "unknown words", "CPU-s to train", "words per CPU-s"]
    rows = []
    for name, values in results.items():
        test = values["test"]
        shares = [values["dev"]["all"], test["all"], test["known"], test["unknown"]]
        speed = round(values["words_per_second"], -2)
        rows.append(
            [ENTRIES[name].title, *(f"{share:.2f}" for share in shares), f"{values['seconds']:.0f}", f"{speed:,.0f}"]
        )
    return table(header, rows)


def read(path: Path) -> Labelled:
    """The sentences of a CoNLL-U file."""
    sentences = file_sentences(path, format="conllu", columns=UPOS)
    return [(rows.column(FORM), rows.column(UPOS)) for rows in sentences if rows.cells]


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Trains, measures, prints the table, and writes it into a page."""
    parser = parser_of(__doc__)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", choices=[*ENTRIES], default=[*ENTRIES])
    parser.add_argument("--keep", type=Path, metavar="FILE", help="save the results to this file")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table into this Markdown page")
    options = parser.parse_args()
    corpora = options.corpora / "ud-english-ewt"
    options.out.mkdir(parents=True, exist_ok=True)
    known = {word for words, _ in read(corpora / "train.conllu.gz") for word in words}
    sets = {part: read(corpora / f"{part}.conllu.gz") for part in ("dev", "test")}
    results = {}
    for name in options.only:
        seconds = train(name, corpora=corpora, out=options.out)
        tagger = load_tagger(options.out / name, device="cpu")
        results[name] = {"seconds": seconds, **measure(tagger, sets, known=known)}
    print(page(results))
    if options.keep:
        write_json(options.keep, results)
    if options.write:
        write_page(options.write, page(results), name="statistical")


if __name__ == "__main__":
    main()
