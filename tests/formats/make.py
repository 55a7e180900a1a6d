"""Makes `tests/formats/NAME`: runs that were killed halfway, models, and what the code of that day made of them.

    python tests/formats/make.py NAME

Run it before a file format changes; the folder is then never made again. RUNS and MODELS may be cut down to what the
change touches. It uses the command line alone, so that it runs with any version. Numbers are in float64, so that other
processors come to the same ones up to rounding.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
CORPUS = "@CORPUS@"  # stands in a kept config for the folder of the corpus
WORDS = ("a", "be", "cab", "dad", "ebb", "fade", "gag", "head")

RECURRENT = ("layers=1", "width=8", "embedding=8", "dropout=0.1")
TRANSFORMER = ("kind=transformer", "layers=1", "width=8", "heads=2", "feed_forward=16", "dropout=0.1")
CONVOLUTIONS = ("kind=convolutional", "layers=2", "width=8", "embedding=8", "kernel=3", "dropout=0.1")


def both(*settings: str) -> list[str]:
    """The same settings for encoder and decoder."""
    return [f"model.{side}.{setting}" for side in ("encoder", "decoder") for setting in settings]


def recurrent(decoder: str, *settings: str) -> list[str]:
    """A recurrent encoder with that decoder."""
    sizes = [setting for setting in RECURRENT if decoder != "bahdanau" or not setting.startswith("layers")]
    return [
        *("model.encoder.kind=recurrent", *(f"model.encoder.{setting}" for setting in RECURRENT)),
        *(f"model.decoder.kind={decoder}", *(f"model.decoder.{setting}" for setting in (*sizes, *settings))),
    ]


COMMON = (
    *("seed=3", "training.precision=float64", "training.device=cpu", "training.threads=1", "training.samples=2"),
    *("data.validation.minimum=6", "search.beam=4"),
)
HALF = (
    *("training.steps=24", "training.accumulate=2", "training.log_every=3", "training.validate_every=5"),
    *("training.checkpoint_every=4", "training.keep=2", "training.batch.tokens=150", "training.schedule.warmup=5"),
)
WHOLE = (
    *(f"training.{key}=400" for key in ("steps", "validate_every", "checkpoint_every")),
    *("training.label_smoothing=0", "training.optimiser.learning_rate=0.02", "training.batch.tokens=400"),
    *("training.schedule.kind=linear", "training.schedule.warmup=20"),
)
BPE = ("text.kind=sentencepiece", "text.algorithm=bpe", "text.vocabulary_size=280", "text.joint=true")

RUNS: dict[str, list[str]] = {
    "transformer": [*both(*TRANSFORMER), "model.tie=none", "text.kind=words", "training.average=2"],
    "hard-attention": [
        *recurrent("luong", "input_feeding=true", "attention.choice=hard"),
        *(*BPE, "training.subwords.kind=bpe-dropout", "training.ema=0.9", "model.tie=none"),
    ],
    "guided": [
        *both(*TRANSFORMER),
        *("model.tie=none", "text.kind=words", "training.batch.shapes=static"),
        *("training.objective.method.kind=r-drop", "training.label_smoothing=0.1"),
        *("training.objective.guidance.weight=0.5", "training.objective.word_dropout.target=0.1"),
    ],
}
MODELS: dict[str, list[str]] = {
    "luong-copying": [
        *recurrent("luong", "input_feeding=true", "copies=true"),
        *("model.tie=none", "text.kind=words", "text.joint=true"),
    ],
    "bahdanau": [
        *recurrent("bahdanau", "readout=8", "attention.alignment=8"),
        *("model.tie=none", "text.kind=characters"),
    ],
    "convolutional": [*both(*CONVOLUTIONS), "model.tie=none", "text.kind=bytes"],
    "transformer": [*both(*TRANSFORMER), "model.tie=all", *BPE],
}


def calque(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8", "MPLBACKEND": "agg"}
    return subprocess.Popen([sys.executable, "-m", "calque", *map(str, arguments)], env=environment, **options)  # type: ignore[call-overload,no-any-return]


def finished(*arguments: object) -> None:
    if calque(*arguments).wait():
        raise SystemExit(f"calque {' '.join(map(str, arguments))} failed")


def write_corpus(folder: Path) -> None:
    """Words, the same in reverse, and which came from which."""
    generator = random.Random(0)
    rows = [[generator.choice(WORDS) for _ in range(generator.randint(2, 6))] for _ in range(150)]
    links = [" ".join(f"{place}-{len(row) - 1 - place}" for place in range(len(row))) for row in rows]
    folder.mkdir(parents=True)
    (folder / "source").write_text("".join(" ".join(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "target").write_text("".join(" ".join(row[::-1]) + "\n" for row in rows), encoding="utf-8")
    (folder / "alignments").write_text("".join(line + "\n" for line in links), encoding="utf-8")
    (folder / "lines").write_text("".join(" ".join(row) + "\n" for row in [*rows[:12], ["a", "xe", "cab"], []]))


def half_run(name: str, *, corpus: Path, made: Path, scratch: Path) -> None:
    """A run killed after its second checkpoint, and what it gives when it is resumed."""
    run, files = scratch / name, ["--source", corpus / "source", "--target", corpus / "target"]
    files += ["--alignments", corpus / "alignments"] if name == "guided" else []
    process = calque("train", *files, "--run", run, *COMMON, *HALF, *RUNS[name])
    while process.poll() is None and not (run / "checkpoints" / "step-8" / "manifest.json").exists():
        time.sleep(0.0005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    newest = max(int(path.name.removeprefix("step-")) for path in (run / "checkpoints").glob("step-*[0-9]"))
    assert 8 <= newest < 24, f"{name}: killed too late, at step {newest}"
    kept = made / "killed" / name
    shutil.copytree(run, kept / "run", ignore=shutil.ignore_patterns("*.lock", "lock", "plots"))
    config = kept / "run" / "config.toml"
    config.write_text(config.read_text(encoding="utf-8").replace(str(corpus), CORPUS), encoding="utf-8")
    finished("train", "--resume", run)
    shutil.copy(run / "checkpoints" / "step-24" / "weights.safetensors", kept / "weights.safetensors")
    shutil.copy(run / "model" / "weights.safetensors", kept / "model.safetensors")
    shutil.copy(run / "metrics.jsonl", kept / "metrics.jsonl")


def whole_model(name: str, *, corpus: Path, made: Path, scratch: Path) -> None:
    """A model, and how it translates."""
    run, files = scratch / f"model-{name}", ["--source", corpus / "source", "--target", corpus / "target"]
    finished("train", *files, "--run", run, *COMMON, *WHOLE, *MODELS[name])
    kept = made / "models" / name
    shutil.copytree(run / "model", kept / "model")
    for beam in (1, 4):
        search = ["--beam", beam, "--nbest", min(2, beam), "--precision", "float64", "--format", "jsonl"]
        finished("translate", run, "--input", corpus / "lines", "--output", kept / f"beam-{beam}.jsonl", *search)


def main() -> None:
    made = HERE / sys.argv[1]
    if made.exists():
        raise SystemExit(f"{made} is there already; it is made once")
    write_corpus(made / "corpus")
    with tempfile.TemporaryDirectory() as scratch:
        for name in RUNS:
            half_run(name, corpus=made / "corpus", made=made, scratch=Path(scratch))
        for name in MODELS:
            whole_model(name, corpus=made / "corpus", made=made, scratch=Path(scratch))
        files = ["--text", made / "corpus" / "target", "--system", "language", "--scale", 0.03125]
        finished("train", *files, "--run", Path(scratch) / "language", *COMMON, *HALF, "text.kind=words")
        shutil.copytree(Path(scratch) / "language" / "model", made / "models" / "language-model" / "model")


if __name__ == "__main__":
    main()
