"""`calque shortlist` and `calque translate --shortlist`: the file in the model folder, and translations with it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import calque
from calque.commands.loading import ModelPaths, search_of
from calque.commands.output import fingerprint
from calque.engine import Request, Translator, load
from calque.engine.shortlist import SHORTLIST
from calque.experiment import add_shortlist, resume, train
from calque.experiment.shortlist import Files
from calque.folders import write_folder
from calque.training.lock import run_lock
from tests.conftest import Answer, learning, still_and, toy_corpus, toy_values, without_plots
from tests.integration.conftest import LINES

OPTIONS = ("--frequent", 3, "--best", 1)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Copies of short sequences; `Translator`s learn them well enough to be certain."""
    return toy_corpus(tmp_path_factory.mktemp("corpus"), pairs=600, change=list)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, corpus: dict[str, Path]) -> Path:
    """A run without a shortlist; do not change it."""
    values = toy_values(corpus, "luong", *learning(steps=200, rate=0.01), *still_and(width=64))
    with without_plots():
        return train(values, run=tmp_path_factory.mktemp("run") / "run", quiet=True).folder


@pytest.fixture(scope="module")
def listed_run(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run with a shortlist of 3 frequent pieces and the best translation of each; do not change it."""
    copy = tmp_path_factory.mktemp("listed") / "run"
    shutil.copytree(run, copy)
    add_shortlist(copy, frequent=3, best=1)
    return copy


@pytest.fixture
def copied(listed_run: Path, tmp_path: Path) -> Path:
    """The run with a shortlist, to be changed."""
    shutil.copytree(listed_run, tmp_path / "run")
    return tmp_path / "run"


def with_shortlist(translator: Translator, **changes: object) -> calque.SearchConfig:
    return translator.search.model_copy(update={"shortlist": True, "shortlist_threshold": 0.0, **changes})


def test_a_shortlist_is_built_and_used(
    run: Path, sentences: Path, tmp_path: Path, command: Callable[..., Answer]
) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    built = command("shortlist", copy, *OPTIONS)
    assert (built.code, built.out) == (0, f"{copy / 'model'}\n")
    assert "frequent pieces, and on average" in built.err
    unknown = command("shortlist", copy, "--alignment", "ibm4")
    assert unknown.code == 2 and "--alignment: 'ibm4' is not one of hmm, ibm2, ibm1" in unknown.err
    assert command("shortlist", copy, *OPTIONS, "--alignment", "ibm2").code == 0
    plain = command("translate", copy, "--input", sentences)
    listed = command("translate", copy, "--input", sentences, "--shortlist")
    assert (listed.code, listed.out) == (0, plain.out)
    assert (
        "shortlist: 0 of 4 lines (0.0 %) were translated with the whole vocabulary (shortlist_threshold=0.1)"
        in listed.err
    )
    everything = command("translate", copy, "--input", sentences, "shortlist=true", "shortlist_threshold=1")
    assert everything.out == plain.out
    assert (
        "shortlist: 4 of 4 lines (100.0 %) were translated with the whole vocabulary (shortlist_threshold=1)"
        in everything.err
    )
    rows = command("translate", copy, "--input", sentences, "--shortlist", "--format", "jsonl").out.splitlines()
    best = [json.loads(row)["candidates"][0] for row in rows]
    assert [candidate.get("shortlisted", False) for candidate in best] == [bool(line) for line in LINES]


def test_a_model_without_a_shortlist_names_the_command_that_builds_it(
    run: Path, sentences: Path, command: Callable[..., Answer]
) -> None:
    answer = command("translate", run, "--input", sentences, "--shortlist")
    assert (answer.code, answer.out) == (2, "")
    assert f"{run}: the model has no shortlist; add one with `calque shortlist {run}`" in answer.err
    translator = load(run, device="cpu")
    with pytest.raises(calque.ConfigError, match="has no shortlist; `calque shortlist RUN` adds one"):
        translator.engine().answer(Request("a b", search=with_shortlist(translator)))


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("precision", ["float32", "float64", "int8"])
def test_translations_consist_of_listed_words(listed_run: Path, beam: int, precision: str) -> None:
    """One word of the source, and frequent ones: whatever the model prefers, nothing else comes out."""
    translator = load(listed_run, device="cpu", precision=precision)  # type: ignore[arg-type]
    table, vocabulary = translator.shortlist, translator.tokenizers.target.vocabulary
    assert table is not None
    lines = ["a b c d e f g h", "h h h", "c a", "g"]
    search = with_shortlist(translator, beam=beam, minimum=6)
    for line, translation in zip(lines, translator.stream(lines, search=search, nbest=beam), strict=True):
        own = table.own(translator.tokenizers.source.encode(line))
        allowed = {vocabulary.piece(int(id)) for id in (*own, *table.frequent)}
        assert len(allowed) < len(vocabulary) or len(set(line.split())) > 4
        for candidate in translation.candidates:
            assert candidate.shortlisted
            assert {*candidate.text.split()} <= allowed


def test_neighbours_do_not_change_a_translation(listed_run: Path) -> None:
    translator = load(listed_run, device="cpu", precision="float64")
    lines = ["a b c d e f", "h h", "c a", "g", "b d f h", "e", "a a a a"]
    for threshold in (0.0, 0.6):
        search = with_shortlist(translator, shortlist_threshold=threshold)
        together = list(translator.stream(lines, search=search))
        for line, translation in zip(lines, together, strict=True):
            (alone,) = translator.stream([line], search=search)
            assert alone.text == translation.text
            assert alone.candidates[0].shortlisted == translation.candidates[0].shortlisted
            assert alone.candidates[0].log_prob == pytest.approx(translation.candidates[0].log_prob, abs=1e-9)


def test_doubtful_translations_are_those_of_all_words(listed_run: Path) -> None:
    translator = load(listed_run, device="cpu")
    lines = ["a b c d e f", "h h", "c a", "g", "b d f h", "e", "a a a a", "z", "z z a"]  # z is unknown
    plain = [translation.text for translation in translator.stream(lines)]
    listed = list(translator.stream(lines, search=with_shortlist(translator)))
    probabilities = [
        np.exp(translation.candidates[0].log_prob / translation.candidates[0].pieces) for translation in listed
    ]
    threshold = float(np.median(probabilities))
    search = with_shortlist(translator, shortlist_threshold=threshold)
    answers = list(translator.stream(lines, search=search))
    assert [answer.candidates[0].shortlisted for answer in answers] == [value >= threshold for value in probabilities]
    for answer, full, short in zip(answers, plain, listed, strict=True):
        assert answer.text == (short.text if answer.candidates[0].shortlisted else full)


def test_required_words_are_in_the_list(listed_run: Path) -> None:
    translator = load(listed_run, device="cpu")
    table, vocabulary = translator.shortlist, translator.tokenizers.target.vocabulary
    assert table is not None
    listed = {*table.frequent.tolist(), *table.own(translator.tokenizers.source.encode("a")).tolist()}
    word = next(piece for id, piece in enumerate(vocabulary.pieces) if id > 3 and id not in listed)
    search = with_shortlist(translator, beam=4)
    for request in (Request("a", required=(word,)), Request("a", prefix=word), Request("a", prefix=f"{word} {word}")):
        answer = translator.engine().answer(request._replace(search=search))
        assert word in answer.text.split()
        assert answer.candidates[0].shortlisted
        assert not answer.candidates[0].missing_phrase


def test_other_kinds_of_search(listed_run: Path) -> None:
    """Those that need all log-probabilities get −∞ for words that are not listed."""
    translator = load(listed_run, device="cpu")
    lines = ["a b c d", "h g", "c"]
    expected = [translation.text for translation in translator.stream(lines, search=with_shortlist(translator))]
    for changes in ({"no_repeat": 6}, {"coverage": 1e-9}, {"groups": 1, "beam": 5}):
        search = with_shortlist(translator, **changes)
        assert [translation.text for translation in translator.stream(lines, search=search)] == expected
    diverse = with_shortlist(translator, beam=4, groups=2)
    assert all(translation.candidates[0].shortlisted for translation in translator.stream(lines, search=diverse))
    with_detail = list(translator.stream([Request(line, detail=True) for line in lines], search=diverse))
    assert all(translation.candidates[0].detail is not None for translation in with_detail)


def test_ensembles_use_the_first_shortlist_there_is(run: Path, listed_run: Path) -> None:
    without, listed = load(run, device="cpu", precision="float64"), load(listed_run, device="cpu", precision="float64")
    search = with_shortlist(listed)
    expected = list(listed.stream(LINES, search=search))
    for both in (listed.with_ensemble([without]), without.with_ensemble([listed])):
        assert both.shortlist is listed.shortlist
        for translation, alone in zip(both.stream(LINES, search=search), expected, strict=True):
            assert translation.text == alone.text, "an ensemble with itself changes nothing"
            assert translation.candidates[0].log_prob == pytest.approx(alone.candidates[0].log_prob, abs=1e-9)


def test_split_lines_and_submitted_requests(listed_run: Path) -> None:
    translator = load(listed_run, device="cpu")
    search = with_shortlist(translator)
    with translator.engine() as engine:
        pending = [engine.submit(Request(line, search=search)) for line in LINES]
        texts = [answer.result().text for answer in pending]
    assert texts == [translation.text for translation in translator.stream(LINES, search=search)]
    long = " . ".join(["a b c d e f g h"] * 8)
    (split,) = translator.stream([Request(long, long="split")], search=search)
    assert split.candidates[0].shortlisted
    (split,) = translator.stream(
        [Request(long, long="split")], search=with_shortlist(translator, shortlist_threshold=1)
    )
    assert not split.candidates[0].shortlisted


def test_what_cannot_be_combined_is_rejected(listed_run: Path, sentences: Path, command: Callable[..., Answer]) -> None:
    for method in ("sample", "risk"):
        answer = command("translate", listed_run, "--input", sentences, "--shortlist", f"method={method}")
        assert answer.code == 2
        assert f"search.shortlist cannot be combined with search.method = '{method}'" in answer.err
    idle = command("translate", listed_run, "--input", sentences, "shortlist_threshold=0.5")
    assert (idle.code, "used only with --shortlist" in idle.err) == (2, True)
    translator = load(listed_run, device="cpu")

    class Watcher:
        def search_step(self, step: object) -> None:
            raise AssertionError

    request = Request("a b", search=with_shortlist(translator))
    with pytest.raises(calque.ConfigError, match="cannot be combined with an observer or an intervention"):
        translator.engine().answer(request, observer=Watcher())
    assert translator.engine().answer(request).candidates[0].shortlisted


def test_models_that_a_shortlist_does_not_fit(
    tmp_path: Path, corpus: dict[str, Path], run: Path, command: Callable[..., Answer]
) -> None:
    few = command("shortlist", run)
    assert (
        few.code,
        "target pieces, and a shortlist with the 2,000 most frequent ones would contain all" in few.err,
    ) == (
        2,
        True,
    )
    copying = ["model.decoder.copies=true", "text.joint=true", "training.steps=2"]
    adaptive = [
        "model.output.kind=adaptive",
        "model.output.cutoffs=[6]",
        "training.steps=2",
        "training.label_smoothing=0",
    ]
    with without_plots():
        for name, settings, reason in (("copies", copying, "copies source words"), ("adaptive", adaptive, "adaptive")):
            values = toy_values(corpus, "luong", *settings)
            folder = train(values, run=tmp_path / name, quiet=True).folder
            answer = command("shortlist", folder, *OPTIONS)
            assert (answer.code, reason in answer.err) == (2, True), answer.err
            translator = load(folder, device="cpu")
            with pytest.raises(calque.ConfigError, match=r"search\.shortlist cannot be used with"):
                translator.engine().answer(Request("a b", search=with_shortlist(translator)))
            values = toy_values(corpus, "luong", *settings, "search.shortlist=true")
            with pytest.raises(calque.ConfigError, match=r"search\.shortlist = true and model"):
                train(values, run=tmp_path / f"{name} with", quiet=True)


def test_files_in_place_of_the_runs_data(
    run: Path, corpus: dict[str, Path], tmp_path: Path, command: Callable[..., Answer]
) -> None:
    """A model folder does not know its training data; the same lines give a list of the same words."""
    model = tmp_path / "model"
    shutil.copytree(run / "model", model)
    alone = command("shortlist", model, *OPTIONS)
    assert (
        alone.code,
        "not a run folder, so the training data of its model is unknown; name two text files" in alone.err,
    ) == (
        2,
        True,
    )
    files = ("--source", corpus["source"], "--target", corpus["target"])
    assert command("shortlist", model, *OPTIONS, *files).out == f"{model}\n"
    table = load(model, device="cpu").shortlist  # type: ignore[union-attr]
    assert table is not None and len(table.frequent) >= 3
    assert command("shortlist", model, *OPTIONS, *files[:2]).code == 2
    missing = command("shortlist", model, *OPTIONS, "--source", tmp_path / "none", *files[2:])
    assert (missing.code, "none" in missing.err) == (2, True)
    empty = tmp_path / "empty"
    empty.write_text("\n\n", encoding="utf-8")
    with pytest.raises(calque.DataError, match="no pairs to learn from"):
        add_shortlist(model, files=Files(empty, empty), frequent=3, best=1)
    short = command("shortlist", model, *OPTIONS, "--source", empty, *files[2:])
    assert (short.code, "lines" in short.err) == (2, True)


def test_a_run_that_is_being_trained_is_left_alone(copied: Path, command: Callable[..., Answer]) -> None:
    with run_lock(copied):
        answer = command("shortlist", copied, *OPTIONS)
    assert (answer.code, "is being trained" in answer.err) == (2, True)


def test_averages_and_further_training_keep_the_shortlist(copied: Path, command: Callable[..., Answer]) -> None:
    before = (copied / "model" / SHORTLIST).read_bytes()
    assert command("average", copied).code == 0
    assert (copied / "averaged" / SHORTLIST).read_bytes() == before
    weights = (copied / "model" / "weights.safetensors").read_bytes()
    with without_plots():
        resume(copied, settings=["training.steps=400", "training.validate_every=50"], quiet=True)
    assert (copied / "model" / "weights.safetensors").read_bytes() != weights, "a better model was saved"
    assert (copied / "model" / SHORTLIST).read_bytes() == before
    assert load(copied, device="cpu").shortlist is not None  # type: ignore[union-attr]


def rewrite(model: Path, change: Callable[[Path], None]) -> None:
    """Changes the files of a model folder, with a manifest that fits."""

    def fill(folder: Path) -> None:
        shutil.copytree(model, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("manifest.json"))
        change(folder / SHORTLIST)

    write_folder(model, kind="model", format=2, fill=fill, replace=True)


def changed(**parts: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    """A function that changes some tensors of a shortlist."""

    def change(path: Path) -> None:
        values = load_file(path)
        save_file({**values, **{name: function(values[name]) for name, function in parts.items()}}, path)

    return change


def replaced(data: bytes) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.write_bytes(data)

    return change


DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "not safetensors": (replaced(b"no"), "not a shortlist"),
    "empty": (replaced(b""), "not a shortlist"),
    "a part is missing": (lambda path: save_file({"frequent": np.arange(3)}, path), "not a shortlist"),
    "other pieces": (changed(vocabulary=lambda digest: digest[::-1].copy()), "another tokenizer than this model's"),
    "ids beyond the vocabulary": (changed(frequent=lambda ids: ids + 1000), "damaged"),
    "negative ids": (changed(targets=lambda ids: ids - 100), "damaged"),
    "no end mark": (changed(frequent=lambda ids: ids[ids != 2]), "damaged"),
    "offsets that fall": (changed(offsets=lambda values: values[::-1].copy()), "damaged"),
    "offsets of fewer pieces": (changed(offsets=lambda values: values[:-1]), "damaged"),
    "another type": (changed(targets=lambda ids: ids.astype(np.float32)), "damaged"),
    "a table of tables": (changed(frequent=lambda ids: ids[None]), "damaged"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_shortlist_is_rejected(name: str, copied: Path, command: Callable[..., Answer]) -> None:
    change, message = DAMAGE[name]
    rewrite(copied / "model", change)
    answer = command("translate", copied, stdin=b"a b\n")
    assert answer.code == 2
    assert SHORTLIST in answer.err and message in answer.err
    assert "build the shortlist again: calque shortlist RUN" in answer.err


def test_a_flipped_bit_is_noticed(copied: Path, command: Callable[..., Answer]) -> None:
    path = copied / "model" / SHORTLIST
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    answer = command("translate", copied, stdin=b"a b\n")
    assert (answer.code, f"{SHORTLIST}: changed since it was written" in answer.err) == (2, True)


def test_an_interrupted_output_depends_on_the_shortlist(listed_run: Path, sentences: Path) -> None:
    """The same command goes on; with another list of words it starts again."""
    paths = ModelPaths.from_options(listed_run, (), None, None, device="cpu", precision="float32")
    own = load(listed_run, device="cpu").search  # type: ignore[union-attr]
    marks = [
        fingerprint(
            models=paths.folders,
            input=sentences,
            files=(),
            settings=[search_of(own, settings, beam=None, nbest=1, batch_tokens=None).model_dump()],
        )
        for settings in ([], ["shortlist=true"], ["shortlist=true", "shortlist_threshold=0.3"])
    ]
    assert len({str(mark) for mark in marks}) == 3
