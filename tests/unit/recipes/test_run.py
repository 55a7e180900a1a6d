"""A list of variants from beginning to end on a toy corpus: chosen on val, distilled, adapted, tested once."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import environment, toy_corpus

ROOT = Path(__file__).parents[3]

CONFIG = """
text.kind = "words"
[model]
tie = "none"
[model.encoder]
kind = "transformer"
layers = 1
width = 32
heads = 2
feed_forward = 64
[model.decoder]
kind = "transformer"
layers = 1
width = 32
heads = 2
feed_forward = 64
[training]
steps = 120
validate_every = 60
checkpoint_every = 30
keep = 3
average = 2
patience = 0
log_every = 30
batch.tokens = 400
optimiser.learning_rate = 0.01
schedule = {kind = "linear", warmup = 20}
"""

LIST = """
[variants.plain]
why = "it learns"
config = "toy.toml"
seeds = "all"

[variants.still]
why = "it does not"
config = "toy.toml"
settings = ["training.optimiser.learning_rate=1e-9"]

[variants.risk]
why = "a second phase"
config = "toy.toml"
warm_start = "plain"
settings = ["training.steps=4", "training.checkpoint_every=2", "training.objective.method.kind=minimum-risk"]

[variants.student]
why = "it learns from its teachers"
config = "toy.toml"
corpus = "distilled"

[corpora.distilled]
teacher = "plain"
nbest = 2
beam = 2
parts = 2

[rows.best]
label = "the best"
candidates = ["still", "plain"]
beams = [1, 2]
length_penalties = [0.0, 1.0]

[rows.risk]
label = "minimum risk"
candidates = ["risk"]

[rows.student]
label = "student"
candidates = ["student"]

[rows.together]
label = "all seeds"
candidates = ["plain"]
ensemble = true
"""


@pytest.mark.full
def test_a_list_is_trained_chosen_and_tested(tmp_path: Path) -> None:
    for seed, (name, pairs) in enumerate((("train", 400), ("val", 30), ("test_2016_flickr", 20))):
        files = toy_corpus(tmp_path / name, pairs=pairs, change=list, seed=seed)
        for side, language in (("source", "en"), ("target", "de")):
            (tmp_path / f"{name}.{language}.gz").write_bytes(gzip.compress(files[side].read_bytes()))
    (tmp_path / "toy.toml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "list.toml").write_text(LIST, encoding="utf-8")
    out = tmp_path / "out"
    command = [sys.executable, "-m", "recipes.run", tmp_path, out, "--lists", tmp_path / "list.toml"]
    command += ["--seeds", "1", "2", "--jobs", "2", "--device", "cpu"]
    for seconds, expected in (("0", 75), ("1200", 0), ("1200", 0)):
        done = subprocess.run(
            [*map(str, command), "--seconds", seconds],
            capture_output=True,
            text=True,
            env=environment(),
            cwd=ROOT,
            timeout=1300,
        )
        assert done.returncode == expected, done.stderr
    assert "already done" in done.stderr and "training" not in done.stderr
    tested = {path.stem: json.loads(path.read_bytes()) for path in (out / "tested").glob("*.json")}
    assert set(tested) == {*(f"{row}-{seed}" for row in ("best", "risk", "student") for seed in (1, 2)), "together-1"}
    assert [tested[f"best-{seed}"]["run"] for seed in (1, 2)] == ["plain-1", "plain-2"]
    assert not (out / "still-2").exists()
    tuned = [json.loads((out / "tuned" / f"best-{seed}.json").read_bytes())["tried"] for seed in (1, 2)]
    assert [len(tried) for tried in tuned] == [4, 4]
    means = [
        (first_run["bleu_lowercased"] + second_run["bleu_lowercased"]) / 2
        for first_run, second_run in zip(*tuned, strict=True)
    ]
    assert tested["best-1"]["scores"]["setting"] == tuned[0][means.index(max(means))]["setting"]
    assert tested["best-1"]["scores"]["bleu_lowercased"] > 20
    distilled = (out / "distilled/distilled/train.de").read_text(encoding="utf-8").splitlines()
    sources = (out / "distilled/distilled/train.en").read_text(encoding="utf-8").splitlines()
    assert len(distilled) == len(sources) == 400
    assert sum(translation == source for translation, source in zip(distilled, sources, strict=True)) > 100
