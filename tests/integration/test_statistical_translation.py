"""Statistical translation, from `calque train --system koehn2003` to `calque inspect`, on a language with one rule."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import calque
from calque.engine import PhraseTranslator
from calque.engine.phrase_folder import _problems
from calque.errors import ConfigError, FolderError
from calque.folders.weights import read_weights
from calque.inspection.phrase_view import inspect_phrases
from tests.conftest import Answer, without_plots

Command = Callable[..., Answer]

NOUNS = {"car": "coche", "dog": "perro", "tree": "árbol", "book": "libro", "boat": "barco", "king": "rey"}
ADJECTIVES = {"red": "rojo", "big": "grande", "old": "viejo", "blue": "azul", "new": "nuevo"}
VERBS = {"sees": "ve", "wants": "quiere", "finds": "encuentra", "sells": "vende"}


def pair(generator: random.Random) -> tuple[str, str]:
    """A sentence and its translation, in which adjectives follow their nouns."""
    sides = []
    for _ in range(2):
        noun, adjective = generator.choice(list(NOUNS)), generator.choice(list(ADJECTIVES))
        the, el = generator.choice([("the", "el"), ("a", "un")])
        if generator.random() < 0.6:
            sides.append((f"{the} {adjective} {noun}", f"{el} {NOUNS[noun]} {ADJECTIVES[adjective]}"))
        else:
            sides.append((f"{the} {noun}", f"{el} {NOUNS[noun]}"))
    verb, end = generator.choice(list(VERBS)), generator.choice(".!")
    source, target = (f"{sides[0][side]} {(verb, VERBS[verb])[side]} {sides[1][side]}{end}" for side in (0, 1))
    return source.capitalize(), target.capitalize()


def write_corpus(folder: Path, name: str, *, pairs: int, seed: int) -> tuple[Path, Path]:
    generator = random.Random(seed)
    rows = [pair(generator) for _ in range(pairs)]
    paths = folder / f"{name}.en", folder / f"{name}.es"
    for path, texts in zip(paths, zip(*rows, strict=True), strict=True):
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return paths


def values(folder: Path, system: str, **model: Any) -> dict[str, Any]:
    from calque.config import to_values
    from calque.models.systems import system_model

    train, valid = write_corpus(folder, "train", pairs=250, seed=1), write_corpus(folder, "valid", pairs=30, seed=2)
    corpora = [{"kind": "files", "source": str(source), "target": str(target)} for source, target in (train, valid)]
    settings = to_values(system_model(system)) | model
    if system == "koehn2003":
        settings["reordering"] = True
        settings["tuning"] = {"iterations": 2, "nbest": 20, "restarts": 0, "sentences": 20}
    return {"model": settings, "data": {"train": corpora[:1], "valid": corpora[1:]}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One run of every statistical system; do not change them."""
    folder = tmp_path_factory.mktemp("statistical")
    with without_plots():
        return {
            name: calque.train(values(folder, name), run=folder / name, quiet=True).folder
            for name in ("dictionary", "brown1993", "koehn2003")
        }


@pytest.fixture(scope="module")
def held_out(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_corpus(tmp_path_factory.mktemp("test"), "test", pairs=40, seed=3)


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_phrases_learn_the_order_that_words_do_not(runs: dict[str, Path], held_out: tuple[Path, Path]) -> None:
    sources, references = map(lines, held_out)
    outputs = {name: calque.load(run).translate(sources) for name, run in runs.items()}
    right = {
        name: sum(text == reference for text, reference in zip(texts, references, strict=True)) / len(references)
        for name, texts in outputs.items()
    }
    assert right["koehn2003"] >= 0.95
    assert right["dictionary"] < 0.5, "adjectives are in the wrong place"
    words = re.compile(r"\w+|[.!]")
    for text, reference in zip(outputs["dictionary"], references, strict=True):
        assert sorted(words.findall(text.lower())) == sorted(words.findall(reference.lower())), "but all are right"


def test_word_for_word_is_the_best_translation_of_each_word(runs: dict[str, Path]) -> None:
    translator = calque.load(runs["dictionary"])
    assert isinstance(translator, PhraseTranslator)
    table, vocabulary = translator.phrases.table, translator.tokenizers.target.vocabulary
    source = translator.read("The old dog sees the tree.")
    expected = []
    for word in source.ids:
        node = table.sources.children(np.array([0]), np.array([word]))[0]
        best = max(range(table.offsets[node], table.offsets[node + 1]), key=lambda entry: table.scores[entry, 1])
        expected.append(vocabulary.piece(table.targets.words(table.translations[best])[0]))
    ((_, derivation),) = translator.derivations(source)
    assert translator.target_pieces(source, derivation.words) == expected


def test_a_language_model_changes_words_in_context(runs: dict[str, Path]) -> None:
    """The noisy channel adds the score of the language model; without it, the same words would be chosen."""
    translator = calque.load(runs["brown1993"])
    assert isinstance(translator, PhraseTranslator)
    assert translator.phrases.language is not None
    view = inspect_phrases(translator, "The old dog sees the tree.")
    assert view.weights["language"] == 1 and view.features["language"] < 0
    assert [step.start for step in view.steps[:-1]] == list(range(len(view.steps) - 1)), "in the order of the source"


def test_translate(runs: dict[str, Path], held_out: tuple[Path, Path], tmp_path: Path, command: Command) -> None:
    run, output = runs["koehn2003"], tmp_path / "out"
    assert command("translate", run, "--input", held_out[0], "--output", output).code == 0
    assert lines(output) == calque.load(run).translate(lines(held_out[0]))
    answer = command("translate", run, "--input", held_out[0], "--nbest", "3")
    rows = [line.split("\t") for line in answer.out.splitlines()]
    assert next(row[2] for row in rows if row[0] == "1") == lines(output)[0]
    scores = [float(row[1]) for row in rows if row[0] == "1"]
    assert scores == sorted(scores, reverse=True) and len({row[2] for row in rows if row[0] == "1"}) == 3
    text = tmp_path / "text"
    text.write_text("the dog sees the zyzzyva.\n\nThe DOG sees the car. The king sells the boat.\n", encoding="utf-8")
    first, empty, third = command("translate", run, "--input", text, "--long", "split").out.splitlines()
    assert (first, empty) == ("el perro ve el zyzzyva.", "")
    assert third.startswith("El perro ve el coche.")
    document = json.loads(command("translate", run, "--input", text, "--format", "jsonl").out.splitlines()[0])
    assert document["candidates"][0]["text"] == first
    assert document["candidates"][0]["pieces"] == ["el", "perro", "ve", "el", "zyzzyva", "￭."]
    narrow = command("translate", run, "stack=1", "pops=1", "distortion=0", "--input", held_out[0])
    assert narrow.code == 0 and len(narrow.out.splitlines()) == 40


def test_evaluate_and_compare(runs: dict[str, Path], held_out: tuple[Path, Path], command: Command) -> None:
    options = ("--source", held_out[0], "--reference", held_out[1])
    scores = json.loads(command("evaluate", runs["koehn2003"], *options, "--json").out)
    assert scores["bleu"]["value"] > 90 and scores["perplexity"] is None and scores["beam"] == 100
    assert "perplexity" not in command("evaluate", runs["dictionary"], *options).out
    answer = command("compare", runs["koehn2003"], runs["dictionary"], *options, "--format", "json")
    assert answer.code == 0, answer.err
    systems = {system["name"]: system for system in json.loads(answer.out)["systems"]}
    assert systems["koehn2003"]["model"]["architecture"] == "phrase-based"
    assert systems["dictionary"]["speed"]["sentences_per_second"] > 0


def test_inspect_shows_phrases_and_features(runs: dict[str, Path], tmp_path: Path, command: Command) -> None:
    sentence = "The old dog sees the zyzzyva."
    answer = command("inspect", runs["koehn2003"], sentence)
    assert answer.code == 0 and "zyzzyva (copied)" in answer.out and "weight" in answer.out, answer.err
    (view,) = json.loads(command("inspect", runs["koehn2003"], sentence, "--format", "json").out)["sentences"]
    total = sum(view["weights"][name] * value for name, value in view["features"].items())
    assert total == pytest.approx(view["score"], abs=1e-3)
    assert sum(phrase["score"] for phrase in view["phrases"]) == pytest.approx(view["score"], abs=1e-3)
    spans = [phrase["span"] for phrase in view["phrases"] if phrase["span"]]
    assert sorted(place for start, stop in spans for place in range(start, stop)) == list(range(7))
    assert view["candidates"][0]["text"] == view["target"]["text"]
    assert len(command("inspect", runs["koehn2003"], sentence, "The dog.", "A king.").out.splitlines()) > 30
    page = tmp_path / "page.html"
    assert command("inspect", runs["koehn2003"], sentence, "--output", page).code == 0
    assert "statistical translation" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("translate", "--forbid", "{file}", "--attention", "--format", "jsonl"),
            "--attention, --forbid: supported for neural",
        ),
        (("translate", "method=sample"), "method: no effect on a statistical model"),
        (("translate", "stack=0"), "stack"),
        (("translate", "--beam", "5", "stack=7"), "leave one of them out"),
        (("translate", "--precision", "bfloat16"), "float32"),
        (("evaluate", "beam=3", "--source", "{file}", "--reference", "{file}"), "no effect on a statistical model"),
        (("score", "--source", "{file}", "--target", "{file}"), "not probabilities"),
        (("inspect", "A dog.", "--states"), "for neural translation models only"),
        (("inspect", "A dog.", "--output", "{folder}/x.svg"), "cannot be drawn"),
        (("inspect", "--gradients"), "no gradients"),
        (("quantise", "{folder}/int8"), "8 bits would save nothing"),
        (("shortlist",), "statistical translation model"),
    ],
)
def test_options_without_meaning_are_refused(
    runs: dict[str, Path], tmp_path: Path, command: Command, arguments: tuple[str, ...], message: str
) -> None:
    file = tmp_path / "file"
    file.write_text("the dog.\n", encoding="utf-8")
    name, *others = (argument.format(file=file, folder=tmp_path) for argument in arguments)
    options = ["--input", file] if name == "translate" else []
    answer = command(name, runs["koehn2003"], *others, *options)
    assert answer.code == 2 and message in answer.err and "Traceback" not in answer.err, answer


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"search": {"beam": 3}}, "set its limits in model.search"),
        ({"training": {"steps": 3}}, "training.steps"),
        ({"text": {"kind": "forms"}}, "for taggers"),
        ({"training": {"metric": "loss"}}, "loss"),
    ],
)
def test_settings_without_meaning_are_refused(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        calque.train(values(tmp_path, "dictionary") | settings, run=tmp_path / "run", quiet=True)
    with pytest.raises(ConfigError, match="unknown features beauty"):
        calque.train(values(tmp_path, "koehn2003", weights={"beauty": 1.0}), run=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_a_config_with_the_batch_size_that_was_once_the_default_is_accepted(tmp_path: Path) -> None:
    """Configs of earlier runs contain all defaults of their time, and a batch size has no effect here."""
    given = values(tmp_path, "dictionary") | {"search": {"batch_tokens": 4000}}
    assert calque.train(given, run=tmp_path / "run", quiet=True).folder == tmp_path / "run"


def test_the_interface_of_python(runs: dict[str, Path]) -> None:
    translator = calque.load(runs["koehn2003"])
    assert isinstance(translator, PhraseTranslator)
    assert isinstance(translator.translate("The dog."), str)
    assert len(translator.translate(["The dog.", "The car."], nbest=2)[0]) == 2
    for request in (
        calque.Request("The dog.", required=("gato",)),
        calque.Request("The dog.", search=translator.search.model_copy(update={"beam": 3})),
        calque.Request("The dog.", nbest=0),
    ):
        (good, bad) = translator.engine().answers([calque.Request("The dog."), request])
        assert isinstance(bad, calque.CalqueError) and not isinstance(good, calque.CalqueError)
    with pytest.raises(FolderError, match="only neural models are supported here"):
        calque.engine.load_translator(runs["koehn2003"])
    long = translator.engine().answer(calque.Request("the dog sees " * 100))
    assert long.source_cut
    assert "PhraseTranslator(phrases" in repr(translator)


def test_estimation_gives_the_same_bytes(runs: dict[str, Path], tmp_path: Path) -> None:
    folder = runs["koehn2003"].parent
    again = values(folder, "koehn2003")
    with without_plots():
        calque.train(again, run=tmp_path / "again", quiet=True)
    for name in ("weights.safetensors", "config.toml"):
        first, second = ((run / "model" / name).read_bytes() for run in (runs["koehn2003"], tmp_path / "again"))
        assert first == second
    assert "tuning, iteration 1: BLEU" in (tmp_path / "again" / "log.txt").read_text(encoding="utf-8")


def test_case(tmp_path: Path) -> None:
    """With each setting, the case of the training text comes back where the source has it."""
    outputs = {}
    for case in ("lowercase", "truecase", "keep"):
        with without_plots():
            run = calque.train(values(tmp_path, "dictionary", case=case), run=tmp_path / case, quiet=True)
        outputs[case] = calque.load(run.folder).translate(["The dog.", "the dog.", "THE DOG."])
    assert outputs["truecase"] == ["El perro.", "el perro.", "El perro."]
    assert outputs["lowercase"] == ["El perro.", "el perro.", "El perro."]
    assert outputs["keep"] == ["El perro.", "el perro.", "THE DOG."]


def test_tables_that_do_not_fit_are_found(runs: dict[str, Path]) -> None:
    """The manifest notices changed bytes; what a wrong writer could write is found as well."""
    translator = calque.load(runs["koehn2003"])
    assert isinstance(translator, PhraseTranslator)
    path = runs["koehn2003"] / "model" / "weights.safetensors"
    weights = {name.removeprefix("tables."): table for name, table in read_weights(path).items()}
    sizes = len(translator.tokenizers.source.vocabulary), len(translator.tokenizers.target.vocabulary)

    def problems(**changes: torch.Tensor | None) -> list[str]:
        changed = {name: table for name, table in (weights | changes).items() if table is not None}
        return _problems(changed, config=translator.config, sizes=sizes)  # type: ignore[arg-type, union-attr]

    assert problems() == []
    assert problems(scores=None) == ["scores is missing"]
    assert problems(more=torch.zeros(1)) == ["more is unknown"]
    assert "scores has shape" in problems(scores=weights["scores"][:, :2])[0]
    assert "translations has shape" in problems(translations=weights["translations"].float())[0]
    assert problems(sources=weights["sources"].flip(0)) == ["sources: not a trie"]
    assert problems(offsets=weights["offsets"][:-1])
    assert "out of range" in problems(translations=weights["translations"] + 10**6)[0]
    assert "entries" in problems(estimates=weights["estimates"][:-1])[0]
    assert "n-grams" in problems(language_keys_3=weights["language_keys_3"].flip(0))[0]
    assert "entries" in problems(language_log10_2=weights["language_log10_2"][:-1])[0]


@pytest.mark.parametrize("name", ["dictionary", "brown1993", "koehn2003"])
def test_a_translation_does_not_depend_on_its_company(
    name: str, runs: dict[str, Path], held_out: tuple[Path, Path]
) -> None:
    translator = calque.load(runs[name])
    sentences = [*lines(held_out[0])[:12], "", "A zyzzyva!"]
    together = translator.translate(sentences)
    assert [translator.translate(sentence) for sentence in sentences] == together
    assert translator.translate(sentences[::-1]) == together[::-1]


def test_alignments_and_a_scale_are_refused_in_training(tmp_path: Path, command: Command) -> None:
    source, target = write_corpus(tmp_path, "train", pairs=60, seed=1)
    options = ("train", "--system", "koehn2003", "--source", source, "--target", target, "--run", tmp_path / "run")
    answer = command(*options, "--alignments", source)
    assert answer.code == 2 and "--alignments has no effect on this system" in answer.err, answer.err
    assert "guidance.weight" not in answer.err
    answer = command(*options, "--scale", "0.5")
    assert answer.code == 2 and "scale 0.5 has no effect on koehn2003" in answer.err, answer.err
