"""Decoders that copy must give back words they have never seen; attention with coverage must look back less.

The bounds are shares of whole sentences that are right; the seed changes with the commit.
"""

import random
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from calque.config import to_values
from calque.engine import Translator, load, pad_source
from calque.experiment import train
from calque.models.systems import system_model
from calque.text import BOS
from tests.conftest import learning, toy_corpus, toy_values
from tests.system.learning import DRY, TASKS, lines, share_right

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("unplotted")]

PATTERNS = (("say {0}", "{0} said"), ("ask {0} about {1}", "about {1} asked {0}"), ("give {0} to {1}", "{1} got {0}"))
PIECES = 32  # 4 special ones, the 8 words of the patterns, and 20 of the names


class Recipe(NamedTuple):
    """How small a system is made, how fast it learns, and what it must reach by copying."""

    scale: float
    rate: float
    bound: float


COPYING = {
    "bahdanau2015": Recipe(0.048, 0.01, bound=0.9),
    "luong2015": Recipe(0.048, 0.01, bound=0.9),
    "gnmt2016": Recipe(0.047, 0.01, bound=0.9),
    "tiny": Recipe(0.375, 0.005, bound=0.9),
}


@pytest.mark.parametrize("name", COPYING)
def test_it_copies_words_it_has_never_seen(name: str, tmp_path: Path, seed: int) -> None:
    assert copied(name, copies=True, folder=tmp_path, seed=seed) >= COPYING[name].bound


@pytest.mark.parametrize("name", COPYING)
def test_without_copying_such_words_are_lost(name: str, tmp_path: Path, seed: int) -> None:
    assert copied(name, copies=False, folder=tmp_path, seed=seed) <= 0.02


def test_coverage_makes_attention_look_back_less(tmp_path: Path, seed: int) -> None:
    without, covered = (
        looking_back(is_covered, folder=tmp_path / str(is_covered), seed=seed) for is_covered in (False, True)
    )
    assert covered <= 0.3 * without


def copied(name: str, *, copies: bool, folder: Path, seed: int) -> float:
    """The share of sentences with new names that a system, made small, has right after training."""
    recipe = COPYING[name]
    generator = random.Random(seed)
    names = sorted({"".join(generator.choices("bdfgklmnprstvz", k=6)) for _ in range(600)})
    generator.shuffle(names)
    corpus = name_corpus(folder / "corpus", pairs=2000, names=names[:300], power=1, generator=generator)
    unseen = name_corpus(folder / "unseen", pairs=300, names=names[300:], power=0, generator=generator)
    values = toy_values(
        corpus,
        to_values(system_model(name, scale=recipe.scale)),
        f"seed={seed}",
        *learning(steps=250, rate=recipe.rate, tokens=600),
        *DRY,
        "text.joint=true",
        f"text.vocabulary_size={PIECES}",
        f"model.decoder.copies={str(copies).lower()}",
    )
    run = train(values, run=folder / "run", quiet=True)
    right = share_right(load(run.folder).translate(lines(unseen["source"])), lines(unseen["target"]))
    print(f"{name} × {recipe.scale}, copies {copies}, seed {seed}: {right:.1%} of sentences with new names right")
    return right


def name_corpus(folder: Path, *, pairs: int, names: list[str], power: int, generator: random.Random) -> dict[str, Path]:
    """`folder`/source and target: sentences of the patterns; the n-th name is drawn n^−power as often as the first."""
    weights = [(place + 1) ** -power for place in range(len(names))]
    rows = []
    for _ in range(pairs):
        who, what = generator.choices(names, weights=weights, k=2)
        rows.append([side.format(who, what) for side in generator.choice(PATTERNS)])
    folder.mkdir(parents=True)
    files = {"source": folder / "source", "target": folder / "target"}
    for path, side in zip(files.values(), zip(*rows, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    return files


def looking_back(coverage: bool, *, folder: Path, seed: int) -> float:
    """How much attention falls on what was looked at before, in a model that has learnt to copy letters."""
    corpus, unseen = (
        toy_corpus(folder / part, pairs=pairs, change=TASKS["copy"], seed=number)
        for part, pairs, number in (("corpus", 2000, seed), ("unseen", 200, seed + 1))
    )
    values = toy_values(
        corpus,
        to_values(system_model("bahdanau2015", scale=0.048)),
        f"seed={seed}",
        *learning(steps=300, rate=0.01, tokens=600),
        *DRY,
        f"model.decoder.attention.coverage={str(coverage).lower()}",
    )
    translator = load(train(values, run=folder / "run", quiet=True).folder)
    sources, targets = lines(unseen["source"]), lines(unseen["target"])
    right = share_right(translator.translate(sources), targets)
    back = repeated_attention(translator, sources, targets)
    print(f"bahdanau2015, coverage {coverage}, seed {seed}: {back:.4f} looked at again a token, {right:.1%} right")
    assert right >= 0.5
    return back


@torch.inference_mode()
def repeated_attention(translator: Translator, sources: list[str], targets: list[str]) -> float:
    """The mean over all target tokens of Σₛ min(aₜₛ, Σ_{u<t} aᵤₛ) (See 2017, eq. 12), every token given."""
    model, tokenizers = translator.model, translator.tokenizers
    context = model.prepare(pad_source(tokenizers.source.encode_many(sources)))
    outputs = pad_source(tokenizers.target.encode_many(targets))
    inputs = torch.cat([torch.full_like(outputs.values[:, :1], BOS), outputs.values[:, :-1]], dim=1)
    weights = model.read(inputs, model.start(context), context, attention=True)[0].attention
    assert weights is not None
    repeated = torch.minimum(weights, weights.cumsum(dim=1) - weights).sum(dim=-1)
    return float(repeated[outputs.mask].mean())
