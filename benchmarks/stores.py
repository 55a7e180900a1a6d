"""Anonymous memory while a model is trained on a very long store: it must not grow with it.

    python benchmarks/stores.py                       # 50 thousand and 50 million pairs
    python benchmarks/stores.py 50000 5000000 --folder DIR

Stores are written directly as ids, about 60 bytes a pair on disk. What is measured is a process that trains `tiny`
for 200 steps with validations and checkpoints, as `calque train` does once its data is prepared.
`--steps` takes fewer.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from memory import BOUND, EVERY, _anonymous, _family

from calque.data.store import ColumnKind, Rows, Span, Store, StoreWriter, open_store, store_of_pairs

SIZES = (50_000, 50_000_000)
PIECES = 1000
BLOCK = 500_000  # pairs written together


def write_store(folder: Path, *, pairs: int) -> None:
    """A store of random ids; lengths are 3 to 24 pieces."""
    generator = np.random.default_rng(7)
    columns = dict.fromkeys(("source", "target"), ColumnKind("<u2"))
    with StoreWriter(folder, columns=columns, longest=32) as writer:
        for start in range(0, pairs, BLOCK):
            lengths = generator.integers(3, 25, min(BLOCK, pairs - start), dtype=np.uint32)
            ids = generator.integers(4, PIECES, int(lengths.sum()), dtype=np.uint32)
            writer.append(dict.fromkeys(columns, Rows(ids, lengths)))


def train_on(store: Store, *, folder: Path, steps: int) -> None:
    """Trains a small model on a store."""
    import torch

    from calque.data.subword_regularisation import FixedConfig
    from calque.engine import Translator, save_model
    from calque.experiment.judges import HeldOutPairs, TranslationJudge
    from calque.models.model import Model, Sizes
    from calque.models.systems import SYSTEMS
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
    tokenizers = Tokenizers(words, words)
    model = Model(SYSTEMS["tiny"].model, sizes=Sizes(PIECES, PIECES, joint=True))
    translator = Translator(model, tokenizers, config=SYSTEMS["tiny"].model, search=SearchConfig())
    pairs = store_of_pairs([([4, 5, 6], [6, 5, 4])] * 20)
    held_out = HeldOutPairs(pairs, ["w0 w1 w2"] * 20, ["w2 w1 w0"] * 20)
    every = {"log_every": 20, "validate_every": steps // 2, "checkpoint_every": steps // 4}
    config = TrainingConfig.model_validate({"steps": steps, "device": "cpu", **every})
    job = Job(
        config=config,
        seed=1,
        task=Translation(
            config.objective, smoothing=config.label_smoothing, tokenizers=tokenizers, subwords=FixedConfig()
        ),
        model=model,
        store=store,
        judge=TranslationJudge(translator, held_out, batch=config.batch, metric=config.metric),
        save_model=lambda path, _model, _judgement: save_model(path, translator, card=""),
        folder=folder,
        reporter=Reporter(None, steps=steps, quiet=True),
    )
    train(job)


def measure(pairs: int, *, folder: Path, steps: int) -> tuple[int, float]:
    """The peak of anonymous memory in bytes, and the seconds that training took."""
    folder.mkdir()
    write_store(folder / "store", pairs=pairs)
    command = [sys.executable, __file__, "--child", str(pairs), "--folder", str(folder), "--steps", str(steps)]
    started, peak = time.perf_counter(), 0
    with subprocess.Popen(command) as child:
        while child.poll() is None:
            peak = max(peak, sum(map(_anonymous, _family(child.pid))))
            time.sleep(EVERY)
    if child.returncode:
        raise SystemExit(f"the child failed with {child.returncode}")
    return peak, time.perf_counter() - started


def main() -> int:
    """Exit code 0 if the bound holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--folder", type=Path, help="where to write the stores; a temporary folder otherwise")
    parser.add_argument("--steps", type=int, default=200, help="how long to train, at least 4")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        store = open_store(given.folder / "store", spans=[Span(0, given.child, 1.0)])
        train_on(store, folder=given.folder, steps=given.steps)
        return 0
    with tempfile.TemporaryDirectory(prefix="calque-stores-", dir=given.folder) as folder:
        found = [measure(size, folder=Path(folder) / str(size), steps=given.steps) for size in given.sizes]
    for size, (peak, seconds) in zip(given.sizes, found, strict=True):
        print(f"{size:>12,} pairs  peak RssAnon {peak / 2**20:8.1f} MB  {seconds:6.1f} s")
    growth = found[-1][0] - found[0][0]
    print(f"growth of the peak: {growth / 2**20:+.1f} MB (bound {BOUND / 2**20:.0f} MB)")
    return int(growth > BOUND)


if __name__ == "__main__":
    sys.exit(main())
