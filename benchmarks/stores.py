"""Measures the anonymous memory of training on a very large store, which must not grow with the store.

    python -m benchmarks.stores                       # 50 thousand and 50 million pairs
    python -m benchmarks.stores 50000 5000000 --folder DIR

Stores are written directly as ids, about 60 bytes per pair on disk. The measured process trains `tiny` for 200 steps
(`--steps`) with validations and checkpoints, as `calque train` does once its data is prepared.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.memory import BOUND, EVERY, anonymous_bytes, process_tree
from calque.data.store import ColumnKind, Rows, Span, Store, StoreWriter, open_store, store_of_pairs

SIZES = (50_000, 50_000_000)
PIECES = 1000
BLOCK = 500_000  # pairs written together
IDS = ColumnKind("<u2")


def write_store(folder: Path, *, pairs: int) -> None:
    """Writes a store of random ids; lengths are 3 to 24 pieces."""
    generator = np.random.default_rng(7)
    with StoreWriter(folder, columns={"source": IDS, "target": IDS}, longest=32) as writer:
        for start in range(0, pairs, BLOCK):
            lengths = generator.integers(3, 25, min(BLOCK, pairs - start), dtype=np.uint32)
            ids = generator.integers(4, PIECES, int(lengths.sum()), dtype=np.uint32)
            rows = Rows(ids, lengths)
            writer.append({"source": rows, "target": rows})


def train_on(store: Store, *, folder: Path, steps: int) -> None:
    """Trains a small model on a store."""
    import torch

    from calque.engine import Translator, save_model
    from calque.experiment.judges import HeldOutPairs, TranslationJudge
    from calque.models.model import Model, ModelConfig, Sizes
    from calque.models.systems import system_model
    from calque.search.settings import SearchConfig
    from calque.tasks.translation import Translation
    from calque.text import Tokenizers, Vocabulary, WordsTokenizer
    from calque.text.vocabulary import PIECES as SPECIAL
    from calque.training.job import Job
    from calque.training.loop import train
    from calque.training.reporting import Reporter
    from calque.training.settings import TrainingConfig

    torch.set_num_threads(1)
    words = WordsTokenizer(Vocabulary([*SPECIAL, *(f"w{number}" for number in range(PIECES - len(SPECIAL)))]))
    config = system_model("tiny")
    assert isinstance(config, ModelConfig)
    model = Model(config, sizes=Sizes(PIECES, PIECES, joint=True))
    held_out = HeldOutPairs(store_of_pairs([([4, 5, 6], [6, 5, 4])] * 20), ["w0 w1 w2"] * 20, ["w2 w1 w0"] * 20)
    training = TrainingConfig.model_validate(
        {
            "steps": steps,
            "log_every": 20,
            "validate_every": steps // 2,
            "checkpoint_every": steps // 4,
            "device": "cpu",
            "batch": {"tokens": 4096},
        }
    )
    tokenizers = Tokenizers(words, words)
    translator = Translator(model, tokenizers, config=config, search=SearchConfig())
    task = Translation(training.objective, smoothing=0.1, tokenizers=tokenizers, subwords=training.subwords)
    judge = TranslationJudge(translator, held_out, batch=training.batch, metric="bleu")

    def save(path: Path, _model: object, _judgement: object) -> None:
        save_model(path, translator, card="")

    reporter = Reporter(None, steps=steps, quiet=True)
    train(Job(training, 1, task, model, store, judge, save, folder, reporter))


def measure(pairs: int, *, folder: Path, steps: int) -> tuple[int, float]:
    """The peak of anonymous memory in bytes, and the seconds that training took."""
    folder.mkdir()
    write_store(folder / "store", pairs=pairs)
    command = [
        sys.executable,
        "-m",
        "benchmarks.stores",
        "--child",
        str(pairs),
        "--folder",
        str(folder),
        "--steps",
        str(steps),
    ]
    started, peak = time.perf_counter(), 0
    with subprocess.Popen(command) as child:
        while child.poll() is None:
            peak = max(peak, sum(map(anonymous_bytes, process_tree(child.pid))))
            time.sleep(EVERY)
    if child.returncode:
        raise SystemExit(f"the measured process failed with exit code {child.returncode}")
    return peak, time.perf_counter() - started


def main() -> int:
    """Runs the benchmark; the exit code is 0 if memory grows by no more than the bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--folder", type=Path, help="folder for the stores (default: a temporary folder)")
    parser.add_argument("--steps", type=int, default=200, help="training steps, at least 4")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        store = open_store(options.folder / "store", spans=[Span(0, options.child, 1.0)])
        train_on(store, folder=options.folder, steps=options.steps)
        return 0
    with tempfile.TemporaryDirectory(prefix="calque-stores-", dir=options.folder) as folder:
        measured = [measure(size, folder=Path(folder) / str(size), steps=options.steps) for size in options.sizes]
    for size, (peak, seconds) in zip(options.sizes, measured, strict=True):
        print(f"{size:>12,} pairs  peak RssAnon {peak / 2**20:8.1f} MB  {seconds:6.1f} s")
    growth = measured[-1][0] - measured[0][0]
    print(f"growth of peak memory: {growth / 2**20:+.1f} MB (bound {BOUND / 2**20:.0f} MB)")
    return int(growth > BOUND)


if __name__ == "__main__":
    sys.exit(main())
