"""The back-translation recipe: what it does to text, its lexicon, its jobs, and a tiny run of it."""

import gzip
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipes.back_translation import steps
from recipes.back_translation.graph import Training, run_values
from recipes.back_translation.lexicon import induce, procrustes, spelling, word_for_word, word_vectors, words_of
from recipes.back_translation.recipe import HERE, RECIPE, SUPERVISED, unsupervised
from recipes.back_translation.text import SYNTHETIC, halve, noised, tagged, untagged
from recipes.runner.pair_jobs import jobs_of
from recipes.runner.pair_recipe import Options, read_part
from tests.conftest import environment

from calque.config import check
from calque.experiment.settings import Experiment

ROOT = Path(__file__).parents[3]


def captions(count: int, *, seed: int = 1) -> list[str]:
    """Sentences of a small grammar in which every noun has its own verbs and places."""
    generator = random.Random(seed)
    lines = []
    for _ in range(count):
        kind = generator.randrange(12)
        adjective, verb = generator.choice(range(4)), 3 * kind + generator.randrange(3)
        lines.append(f"the adjective{adjective} noun{kind} verb{verb} in place{(kind * 5 + verb) % 17} .")
    return lines


def other_language(line: str) -> str:
    """The same sentence in a language that shares places and nothing else."""
    return " ".join(word if word.startswith("place") else word[::-1] for word in line.split())


def test_halves_share_no_pair_and_lose_their_order() -> None:
    pairs = [(f"s{n}", f"t{n}") for n in range(101)]
    halves = halve(pairs)
    assert len(halves.pairs) == 50 and len(halves.sources) == len(halves.targets) == 51
    assert {source for source, _ in halves.pairs}.isdisjoint(halves.sources)
    assert {source[1:] for source in halves.sources} == {target[1:] for target in halves.targets}
    aligned = sum(source[1:] == target[1:] for source, target in zip(halves.sources, halves.targets, strict=True))
    assert aligned < 10 and halve(pairs) == halves


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=12), st.integers(0, 99))
def test_noise_drops_and_moves_words(words: list[str], seed: int) -> None:
    named = [f"{word}{place}" for place, word in enumerate(words)]
    moved = noised(" ".join(named), random.Random(seed), drop=0.0, distance=3).split()
    assert sorted(moved) == sorted(named)
    assert all(abs(place - named.index(word)) <= 3 for place, word in enumerate(moved))
    dropped = noised(" ".join(words), random.Random(seed), drop=0.9).split()
    assert dropped and not Counter(dropped) - Counter(words)


def test_noise_drops_the_given_share() -> None:
    text = " ".join(["word"] * 5000)
    assert 0.88 < len(noised(text, random.Random(3), drop=0.1).split()) / 5000 < 0.92
    assert tagged(["ein Hund", ""], SYNTHETIC) == ["<BT> ein Hund", "<BT>"]


def test_an_empty_output_becomes_the_source_with_one_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "load_translator", lambda *_arguments, **_options: None)
    monkeypatch.setattr(steps, "decode", lambda *_arguments, **_options: ["ein Hund", " "])
    (tmp_path / "en.tagged.txt").write_text("<2de> a dog\n<2de> a cat\n", encoding="utf-8")
    steps.translate(
        tmp_path, tmp_path / "en.tagged.txt", tmp_path / "de.txt", tag="<2en>", settings=[], device="cpu", seed=1
    )
    assert (tmp_path / "de.txt").read_text(encoding="utf-8") == "ein Hund\na cat\n"
    assert (tmp_path / "de.tagged.txt").read_text(encoding="utf-8") == "<2en> ein Hund\n<2en> a cat\n"
    assert untagged("<BT> <2en> a <2de> dog") == "a <2de> dog" and untagged("a dog") == "a dog"


def test_the_map_of_rotated_vectors_is_their_rotation() -> None:
    generator = np.random.default_rng(1)
    rotation, _ = np.linalg.qr(generator.normal(size=(6, 6)))
    vectors = generator.normal(size=(40, 6))
    assert np.allclose(procrustes(vectors, vectors @ rotation), rotation)


def test_a_lexicon_is_found_without_pairs() -> None:
    """Two texts with different sentences of one grammar; only the names of places are spelled the same."""
    source, target = captions(1500, seed=1), [other_language(line) for line in captions(1500, seed=2)]
    vectors = [word_vectors([words_of(line) for line in lines], width=16) for lines in (source, target)]
    lexicon = induce(vectors[0], vectors[1])
    assert lexicon.seeds >= 10
    nouns = [f"noun{kind}" for kind in range(12)]
    assert sum(lexicon.forward[noun] == noun[::-1] for noun in nouns) >= 10
    assert sum(lexicon.backward[noun[::-1]] == noun for noun in nouns) >= 10
    assert word_for_word("Noun3 unknown!", {"noun3": "3nuon"}) == "3nuon unknown !"


def test_spelling_is_the_cosine_of_character_ngrams() -> None:
    words = ["guitar", "gitarre", "in", "hund"]
    similarities = spelling(words, words)
    assert np.allclose(similarities, similarities.T) and np.allclose(np.diag(similarities), [1, 1, 0, 1])
    # g^ gi it ta ar … of ^guitar$ and ^gitarre$: shared are ^g, it, ta, ar, ita, tar
    assert similarities[0, 1] == pytest.approx(6 / np.sqrt(13 * 15))
    assert not similarities[0, 3]


def test_texts_without_common_spelling_have_no_lexicon() -> None:
    vectors = [word_vectors([[letter * 5, letter * 6]] * 9, width=4) for letter in ("a", "z")]
    with pytest.raises(ValueError, match="spelled alike"):
        induce(vectors[0], vectors[1])


def test_every_run_has_what_it_needs(tmp_path: Path) -> None:
    steps = {step.name: step for step in (*SUPERVISED, *unsupervised())}
    jobs = jobs_of(RECIPE, tmp_path, Options((1, 2), "cpu", ()))
    labels = {job.label for job in jobs}
    assert {need for job in jobs for need in job.needs} <= labels
    assert len(jobs) == 2 * (len(steps) + len(RECIPE.rows))
    one = jobs_of(RECIPE, tmp_path, Options((3,), "cpu", (), ("beam",)))
    assert [job.label.removeprefix("back_translation-") for job in one] == [
        "reverse-3", "en-beam-3", "beam-3", "beam-3-scores",
    ]  # fmt: skip


@pytest.mark.parametrize("step", [step for step in (*SUPERVISED, *unsupervised()) if isinstance(step, Training)])
def test_configs_of_runs_are_valid(step: Training, tmp_path: Path) -> None:
    values = run_values(step, 2, out=tmp_path, config=HERE / "transformer.toml")
    config = check(Experiment, values, origin=step.name)
    assert len(config.data.train) == len(step.corpora)
    written = {corpus.weight for corpus in config.data.train}
    assert written == {corpus.weight for corpus in step.corpora}
    assert (config.training.warm_start is not None) == (step.start is not None)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpora") / "multi30k"
    folder.mkdir()
    for part, count in (("train", 120), ("val", 6), ("test_2016_flickr", 5)):
        english = captions(count, seed=count)
        for side, lines in (("en", english), ("de", [other_language(line) for line in english])):
            (folder / f"{part}.{side}.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    return folder.parent


def test_no_pair_of_the_unsupervised_texts_is_kept(corpora: Path, tmp_path: Path) -> None:
    counts = RECIPE.prepare(corpora, tmp_path)
    assert counts == {"pairs": 60, "monolingual": 60, "valid": 6, "test": 5}
    pairs = read_part(tmp_path / "all", "train")
    english = (tmp_path / "unsupervised" / "en.txt").read_text(encoding="utf-8").splitlines()
    assert english == [source for source, _ in pairs]
    assert all(source.startswith("<2de> ") for source, _ in read_part(tmp_path / "unsupervised", "test"))
    german = (tmp_path / "unsupervised" / "de.tagged.txt").read_text(encoding="utf-8").splitlines()
    assert all(line.startswith("<2en> ") for line in german)
    targets = [target for _, target in read_part(tmp_path / "unsupervised", "test")]
    assert RECIPE.score(tmp_path / "unsupervised", targets)["bleu"] == pytest.approx(100)


@pytest.mark.full
@pytest.mark.parametrize("rows", [["tagged"], ["unsupervised-1"]])
def test_the_script_trains_a_chain_of_runs(rows: list[str], corpora: Path, tmp_path: Path) -> None:
    tiny = [
        *(f"training.{key}=2" for key in ("steps", "validate_every", "checkpoint_every", "keep", "average")),
        *(f"model.{side}.{key}" for side in ("encoder", "decoder") for key in ("width=16", "layers=1")),
        "search.maximum=6", "training.batch.tokens=400",
    ]  # fmt: skip
    script = ROOT / "recipes" / "back_translation" / "run"
    command = [script, corpora, tmp_path, "--device", "cpu", "--seeds", 1, "--jobs", 2, "--rows", *rows, *tiny]
    variables = {**environment(), "PYTHON": sys.executable}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=variables, timeout=500)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("not measured yet") == len(RECIPE.rows) - 1
