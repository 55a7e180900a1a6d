"""Nearest states against brute force, projections against numpy's SVD, and the index of training states on disk."""

import json
import math
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import FAMILIES

from calque.data.corpora import DataConfig
from calque.data.holdout import Holdout, text_hashes
from calque.engine.translator import Translator
from calque.errors import ConfigError, DataError, FolderError
from calque.inspection.model_states import PairIds, read_states
from calque.inspection.pictures_states import draw_states
from calque.inspection.projection import fit_projection, from_values, to_values
from calque.inspection.state_index import SIDES, StateIndex, build_index, build_run_index, open_index, open_run_index
from calque.inspection.state_search import Metric, nearest
from calque.inspection.states import SentenceStates, nearest_states, states_of_view, states_summary, states_values
from calque.inspection.training_pairs import draw_pairs, given_data
from calque.inspection.translation import inspect_translation
from calque.models.model import Model, ModelConfig, Sizes
from calque.search.settings import SearchConfig
from calque.tensors import Padded
from calque.text import BOS, EOS, NumberedText, Tokenizers, TokensConfig
from calque.text.tokens import TokensTokenizer

WORDS = [*"abcdefgh", "$x$", "<b>"]
BAG = {
    "encoder": {"kind": "mean", "width": 16, "embedding": 12},
    "decoder": {"kind": "recurrent", "layers": 1, "width": 16, "embedding": 12, "bridge": "tanh"},
}
COPYING = {**FAMILIES["luong"], "decoder": {**FAMILIES["luong"]["decoder"], "copies": True}}
REVERSED = {
    **FAMILIES["plain"],
    "encoder": {**FAMILIES["plain"]["encoder"], "reverse": True},
}
ARCHITECTURES = {**FAMILIES, "bag of words": BAG, "copying": COPYING, "reversed": REVERSED}


def translator_of(family: str = "luong", *, seed: int = 0, dtype: torch.dtype = torch.float32) -> Translator:
    """A model with random weights that reads the words above."""
    torch.manual_seed(seed)
    tokenizer = TokensTokenizer.train(TokensConfig(), lines=WORDS * 2)
    config = ModelConfig.model_validate(ARCHITECTURES[family])
    size = len(tokenizer.vocabulary)
    model = Model(config, sizes=Sizes(size, size, True)).to(dtype).eval()
    return Translator(model, Tokenizers(tokenizer, tokenizer), config=config, search=SearchConfig(beam=2))


def corpus(folder: Path, *, pairs: int = 60, seed: int = 0) -> DataConfig:
    """Random words and their reversals, in two files; a word outside the vocabulary in some."""
    random = np.random.default_rng(seed)
    lines = [
        [str(word) for word in random.choice([*WORDS, "unseen"], size=random.integers(1, 7))] for _ in range(pairs)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "source").write_text("".join(" ".join(line) + "\n" for line in lines), encoding="utf-8")
    (folder / "target").write_text("".join(" ".join(line[::-1]) + "\n" for line in lines), encoding="utf-8")
    return given_data(folder / "source", folder / "target")


def run_of(folder: Path, data: DataConfig, *, seed: int = 7, rest: str = "") -> Path:
    """A run folder as far as the index reads it."""
    (path,) = data.train
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(
        f"seed = {seed}\n[data]\n{rest}[[data.train]]\nkind = 'files'\nsource = '{path.source}'\n"  # type: ignore[union-attr]
        f"target = '{path.target}'\n",  # type: ignore[union-attr]
        encoding="utf-8",
    )
    return folder


@pytest.fixture
def translator() -> Translator:
    return translator_of()


@pytest.fixture
def index(tmp_path: Path, translator: Translator) -> StateIndex:
    return build_index(translator, tmp_path / "states", data=corpus(tmp_path / "corpus"), seed=1)


def quiet(stage: str, done: int, total: int) -> None:
    pass


# --- Search ---


def brute(states: np.ndarray, query: np.ndarray, *, metric: Metric) -> list[tuple[float, int]]:
    """Every state's distance, nearest first, in plain Python."""

    def distance(state: list[float], other: list[float]) -> float:
        if metric == "euclidean":
            return math.dist(state, other)
        norms = math.hypot(*state) * math.hypot(*other)
        return 1 - math.fsum(a * b for a, b in zip(state, other, strict=True)) / norms if norms else 1.0

    return sorted((distance(state, query.tolist()), place) for place, state in enumerate(states.tolist()))


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_the_nearest_are_those_of_brute_force_with_ties_in_the_order_of_the_index(data: st.DataObject) -> None:
    """Whole numbers have exact distances, so that equal ones are equal."""
    random = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    size, width, count = (data.draw(st.integers(1, most)) for most in (40, 5, 12))
    states = random.integers(-2, 3, (size, width)).astype(np.float32)
    queries = random.integers(-2, 3, (3, width)).astype(np.float32)
    indices, distances = nearest(states, queries, count=count, chunk=data.draw(st.integers(1, 45)))
    for query, found, values in zip(queries, indices, distances, strict=True):
        expected = brute(states, query, metric="euclidean")[:count]
        assert found.tolist() == [place for _, place in expected]
        assert values.tolist() == [distance for distance, _ in expected]


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_the_nearest_of_real_numbers_are_those_of_brute_force(metric: Metric, dtype: Any) -> None:
    random = np.random.default_rng(0)
    states = random.normal(size=(300, 24)).astype(dtype)
    states[5] = 0  # has no direction
    queries = random.normal(size=(7, 24)).astype(np.float32)
    indices, distances = nearest(states, queries, count=9, metric=metric, chunk=64)
    for query, found, values in zip(queries, indices, distances, strict=True):
        expected = brute(states.astype(np.float64), query.astype(np.float64), metric=metric)[:9]
        assert found.tolist() == [place for _, place in expected]
        assert values.tolist() == pytest.approx([distance for distance, _ in expected], rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_copies_of_a_state_are_equally_near_wherever_they_stand(metric: Metric) -> None:
    """Products of matrices round differently at the edges of blocks; ties must not depend on that."""
    random = np.random.default_rng(1)
    states = random.normal(size=(1003, 37)) + 1000
    copies = [3, 511, 512, 700, 1002]
    states[copies] = states[3]
    query = states[3] + 1e-3 * random.normal(size=37)
    for chunk in (100, 512, 4096):
        indices, distances = nearest(states, query[None], count=5, metric=metric, chunk=chunk)
        assert indices[0].tolist() == copies
        assert len(set(distances[0].tolist())) == 1


def test_small_distances_between_large_vectors_are_exact() -> None:
    """|x|² − 2xy + |y|² alone would lose all digits."""
    states = np.full((50, 16), 1e6)
    states[:, 0] += np.arange(50) * 1e-4
    indices, distances = nearest(states, states[20:21], count=3, chunk=7)
    assert indices.tolist() == [[20, 19, 21]] or indices.tolist() == [[20, 21, 19]]
    assert distances[0].tolist() == pytest.approx([0, 1e-4, 1e-4], rel=1e-5, abs=0)


# --- Projection ---


def oracle(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first two right singular vectors of the centred states, and the shares of variance."""
    _, values, directions = np.linalg.svd(states - states.mean(axis=0), full_matrices=False)
    return directions[:2], (values**2 / (values**2).sum())[:2]


@pytest.mark.parametrize("chunk", [17, 100, 10_000])
def test_the_projection_is_that_of_a_singular_value_decomposition(chunk: int) -> None:
    random = np.random.default_rng(2)
    states = random.normal(size=(300, 9)) * np.arange(1, 10) + 5
    directions, shares = oracle(states)
    projection = fit_projection(states, chunk=chunk)
    for component, direction in zip(projection.components, directions, strict=True):
        assert component[np.argmax(np.abs(component))] > 0
        assert np.abs(component @ direction) == pytest.approx(1, abs=1e-10)
    assert projection.explained == pytest.approx(shares.tolist(), abs=1e-12)
    signs = np.sign((projection.components * directions).sum(axis=1))
    np.testing.assert_allclose(projection(states), (states - states.mean(axis=0)) @ (signs * directions.T), atol=1e-9)


def test_directions_without_variance_are_zero() -> None:
    line = fit_projection(np.arange(10.0)[:, None] * np.array([3.0, 4.0, 0.0]))
    np.testing.assert_allclose(line.components, [[0.6, 0.8, 0], [0, 0, 0]], atol=1e-12)
    assert line.explained == pytest.approx((1, 0))
    assert fit_projection(np.ones((4, 3))).explained == (0, 0)
    assert fit_projection(np.arange(4.0)[:, None]).components.tolist() == [[1], [0]]


def test_a_projection_survives_json() -> None:
    projection = fit_projection(np.random.default_rng(3).normal(size=(20, 4)))
    read = from_values(json.loads(json.dumps(to_values(projection))), width=4)
    assert all((before == after).all() for before, after in zip(projection[:2], read[:2], strict=True))
    with pytest.raises(ValueError, match="components of shape"):
        from_values(to_values(projection), width=5)


# --- Memory ---


def peak(work: Callable[[], object]) -> int:
    """The most bytes that are allocated at a time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["search", "projection"])
def test_memory_does_not_grow_with_the_index(tmp_path: Path, name: str) -> None:
    peaks = []
    for size in (4_000, 32_000):
        states = np.memmap(tmp_path / str(size), dtype=np.float32, mode="w+", shape=(size, 32))
        states[:] = np.random.default_rng(4).normal(size=states.shape)
        work = partial(nearest, states, states[:3], count=4) if name == "search" else partial(fit_projection, states)
        peaks.append(peak(partial(work, chunk=1000)))
    assert peaks[1] < 1.2 * peaks[0]
    assert peaks[1] < 32_000 * 32 * 4  # less than the states themselves


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    data = corpus(tmp_path, pairs=1000)
    lines = {side: (tmp_path / side).read_text(encoding="utf-8") for side in ("source", "target")}
    peaks = []
    for copies in (40, 120):
        for side, text in lines.items():
            (tmp_path / side).write_text(text * copies, encoding="utf-8")
        peaks.append(peak(partial(draw_pairs, data, seed=1, most=100, progress=quiet)))
    assert peaks[1] < 1.3 * peaks[0]


# --- Drawing pairs ---


def test_every_pair_is_equally_likely_to_be_drawn(tmp_path: Path) -> None:
    data = corpus(tmp_path, pairs=50)
    counts = np.zeros(51)
    for seed in range(400):
        drawn = draw_pairs(data, seed=seed, most=10, progress=quiet).pairs
        assert len({pair.line for pair in drawn}) == 10
        for pair in drawn:
            counts[pair.line] += 1
    assert counts[0] == 0
    squares = float(((counts[1:] - 80) ** 2 / (80 * 0.8)).sum())
    assert squares < 100  # χ² with about 49 degrees of freedom


def test_pairs_held_out_for_validation_are_not_drawn(tmp_path: Path) -> None:
    data = corpus(tmp_path, pairs=200).model_copy(update={"valid": ()})
    sources = (tmp_path / "source").read_text(encoding="utf-8").splitlines()
    holdout = Holdout(data.validation)
    holdout.add(text_hashes(sources))
    held_out = set(holdout.chosen()[0].tolist())
    drawn, total = draw_pairs(data, seed=1, most=1000, progress=quiet)
    assert total == len(drawn) == draw_pairs(data, seed=1, most=5, progress=quiet).total
    assert {pair.source for pair in drawn} == {source for source in sources if text_hashes([source])[0] not in held_out}
    assert 0 < len(drawn) < 200


def test_lines_that_are_not_utf_8_are_rejected_with_their_place(tmp_path: Path) -> None:
    data = corpus(tmp_path)
    (tmp_path / "source").write_bytes(b"a\n\xff\n" + b"b\n" * 58)
    with pytest.raises(DataError, match="line 2"):
        draw_pairs(data, seed=1, most=10, progress=quiet)
    (tmp_path / "source").unlink()
    with pytest.raises(DataError, match="no such file"):
        draw_pairs(data, seed=1, most=10, progress=quiet)


# --- States of a model ---


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_states_are_those_of_a_sentence_alone_read_piece_by_piece(family: str) -> None:
    """The second implementation reads one token at a time, as search does, in float64."""
    translator = translator_of(family, dtype=torch.float64)
    model, size = translator.model, len(translator.tokenizers.target.vocabulary)
    source_ids = [[5, 6, 7, 8], [9], [4, size if family == "copying" else 5, 4]]
    pairs = [PairIds(ids, [*reversed(ids), EOS]) for ids in source_ids]
    for pair, states in zip(pairs, read_states(model, pairs), strict=True):
        with torch.inference_mode():
            source = torch.tensor([[*pair.source, EOS]])
            padded = Padded(source, torch.tensor([source.shape[1]]))
            context = model.prepare(padded)
            state, hidden = model.start(context), []
            for token in [BOS, *pair.target[:-1]]:
                output, state = model.read(torch.tensor([[token]]), state, context)
                hidden.append(output.hidden[0, 0])
            torch.testing.assert_close(states.encoder, model.encode(padded).values[0], atol=1e-10, rtol=1e-8)
            torch.testing.assert_close(states.decoder, torch.stack(hidden), atol=1e-10, rtol=1e-8)


# --- The index ---


def every_byte(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_the_index_has_the_states_of_its_sentences(tmp_path: Path, family: str) -> None:
    translator = translator_of(family)
    index = build_index(translator, tmp_path / "states", data=corpus(tmp_path / "corpus"), seed=1, states=150)
    size = index.size
    assert 100 < max(size.encoder, size.decoder) <= 150
    models = translator.engine().models
    numbers = {side: [index.place(side, state)[0] for state in range(getattr(size, side))] for side in SIDES}
    for number in range(size.pairs):
        sentence = index.sentence(number)
        (source,) = models.encode_sources([sentence.source], limit=100)
        (target,) = models.encode_targets([sentence.target], [source.numbered])
        (states,) = read_states(models.model, [PairIds(source.numbered.ids, [*target.numbered.ids, EOS])])
        for side in SIDES:
            rows = index.store[side].row(number)
            torch.testing.assert_close(torch.tensor(rows), getattr(states, side), atol=1e-5, rtol=1e-5)
            assert len(sentence.pieces(side)) == len(rows) == numbers[side].count(number)
        assert sentence.source_pieces[-1] == "</s>"
        if family == "copying":
            assert sentence.source_pieces[:-1] == sentence.source.split()
            assert sentence.target_pieces[:-1] == sentence.target.split()


def test_the_same_model_data_and_seed_give_the_same_bytes(tmp_path: Path, translator: Translator) -> None:
    data = corpus(tmp_path / "corpus")
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        build_index(translator, tmp_path / name, data=data, seed=seed, states=120)
    assert every_byte(tmp_path / "a") == every_byte(tmp_path / "b")
    assert every_byte(tmp_path / "a").keys() == every_byte(tmp_path / "c").keys()
    assert every_byte(tmp_path / "a")["columns/encoder.values"] != every_byte(tmp_path / "c")["columns/encoder.values"]


def test_the_size_is_reported_before_and_after(tmp_path: Path, translator: Translator) -> None:
    messages: list[str] = []
    stages: list[tuple[str, int, int]] = []
    index = build_index(
        translator,
        tmp_path / "states",
        data=corpus(tmp_path / "corpus"),
        seed=1,
        report=messages.append,
        progress=lambda *stage: stages.append(stage),
    )
    pairs = len((tmp_path / "corpus" / "source").read_text(encoding="utf-8").splitlines())
    assert index.size.total == pairs
    assert f"{index.size.pairs:,} of {pairs:,} training pairs ({index.size.pairs / pairs:.1%})" in messages[1]
    assert messages == [f"{tmp_path / 'states'}: {index.size} {when}" for when in ("to write", "written")]
    values = sum((tmp_path / "states" / "columns" / f"{side}.values").stat().st_size - 16 for side in SIDES)
    assert index.size.bytes == values
    assert {stage for stage, _, _ in stages} == {"reading the corpora", "computing states", "fitting projections"}
    assert stages[-1][1:] == (2, 2)


def test_half_precision_takes_half_the_bytes(tmp_path: Path, translator: Translator, index: StateIndex) -> None:
    data = corpus(tmp_path / "corpus")
    half = build_index(translator, tmp_path / "half", data=data, seed=1, precision="float16")
    assert 2 * half.size.bytes == index.size.bytes
    np.testing.assert_allclose(half.states("decoder"), index.states("decoder"), atol=2e-3)
    translator = translator_of("convolutional")
    with torch.no_grad():
        for parameter in translator.model.parameters():
            parameter.mul_(1e5)
    with pytest.raises(ConfigError, match="too large for float16"):
        build_index(translator, tmp_path / "large", data=data, seed=1, precision="float16")
    assert not (tmp_path / "large").exists()


def test_a_run_has_its_index_in_its_folder(tmp_path: Path, translator: Translator) -> None:
    data = corpus(tmp_path / "corpus", pairs=200)
    run = run_of(tmp_path / "run", data)
    with pytest.raises(FolderError, match=r"build it first: calque inspect .*run --index"):
        open_run_index(translator, run)
    built = build_run_index(translator, run, states=300)
    assert open_run_index(translator, run).id == built.id
    assert built.folder == run / "states"
    assert built.manifest.details["seed"] == 7
    files = (tmp_path / "corpus" / "target", tmp_path / "corpus" / "source")
    other = build_run_index(translator, run, files=files, states=300)  # replaces it
    assert other.id != built.id
    assert other.manifest.details["corpora"] == [[str(path) for path in files]]


def test_a_model_folder_has_no_place_for_an_index(tmp_path: Path, translator: Translator) -> None:
    data = corpus(tmp_path / "corpus")
    model = tmp_path / "model"
    model.mkdir()
    with pytest.raises(FolderError, match="not a run"):
        build_run_index(translator, model)
    with pytest.raises(FolderError, match="training corpora are unknown"):
        build_run_index(translator, model, folder=tmp_path / "states")
    (files,) = data.train
    index = build_run_index(
        translator,
        model,
        folder=tmp_path / "states",
        files=(files.source, files.target),  # type: ignore[union-attr]
    )
    assert open_run_index(translator, model, folder=tmp_path / "states").id == index.id


def test_states_of_another_model_are_refused(index: StateIndex) -> None:
    assert open_index(index.folder, translator_of()).id == index.id
    with pytest.raises(FolderError, match=r"another model.*weights differ.*build the index again: calque inspect"):
        open_index(index.folder, translator_of(seed=1))
    with pytest.raises(FolderError, match="weights and config differ"):
        open_index(index.folder, translator_of("transformer"))
    with pytest.raises(FolderError, match="another precision"):
        open_index(index.folder, translator_of(dtype=torch.bfloat16))


@pytest.mark.parametrize("name", ["encoder.values", "decoder.offsets", "sentences.values", "projections.json"])
def test_a_damaged_index_is_refused_with_the_file(index: StateIndex, translator: Translator, name: str) -> None:
    path = next(index.folder.rglob(name))
    content = path.read_bytes()
    for damaged in (content[:-1], content[:-1] + bytes([content[-1] ^ 1]), b""):
        path.write_bytes(damaged)
        with pytest.raises(FolderError, match=rf"is damaged:\n.*{name}(.|\n)*build it again"):
            open_index(index.folder, translator)
    path.unlink()
    with pytest.raises(FolderError, match=f"{name}: missing"):
        open_index(index.folder, translator)


def test_what_is_no_index_is_refused(tmp_path: Path, translator: Translator) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(FolderError, match="no index of training states"):
        open_index(tmp_path / "nothing", translator)
    with pytest.raises(FolderError, match="no manifest"):
        open_index(tmp_path / "empty", translator)
    (tmp_path / "empty" / "file").write_text("precious", encoding="utf-8")
    with pytest.raises(FolderError, match="not replaced"):
        build_index(translator, tmp_path / "empty", data=corpus(tmp_path / "corpus"), seed=1)
    assert (tmp_path / "empty" / "file").read_text(encoding="utf-8") == "precious"


def test_an_index_that_no_pair_fits_into_is_refused(tmp_path: Path, translator: Translator) -> None:
    data = corpus(tmp_path / "corpus")
    (tmp_path / "corpus" / "source").write_text("a b c d e\n" * 60, encoding="utf-8")
    with pytest.raises(DataError, match="index of 3 states"):
        build_index(translator, tmp_path / "states", data=data, seed=1, states=3)
    with pytest.raises(ConfigError, match="at least 2"):
        build_index(translator, tmp_path / "states", data=data, seed=1, states=1)


# --- Sentences ---


def states_of(translator: Translator, index: StateIndex, text: str, **options: Any) -> SentenceStates:
    view = inspect_translation(translator, text)
    return states_of_view(translator, view, index=index, **options)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_training_sentence_lies_nearest_to_itself(translator: Translator, index: StateIndex, metric: Metric) -> None:
    sentence = index.sentence(3)
    view = inspect_translation(translator, sentence.source, target=sentence.target)
    states = states_of_view(translator, view, index=index, metric=metric)
    for side in SIDES:
        points = states.side(side).points
        assert [item.piece for item in points] == sentence.pieces(side)
        for item in points:
            assert item.neighbours[0].distance < 1e-5
            equal = [neighbour for neighbour in item.neighbours if neighbour.distance < 1e-5]
            assert all(neighbour.point == pytest.approx(item.point, abs=1e-4) for neighbour in equal)
            distances = [neighbour.distance for neighbour in item.neighbours]
            assert distances == sorted(distances)
            for neighbour in item.neighbours:
                assert states.sentences[neighbour.sentence].pieces(side)[neighbour.position] == neighbour.piece


def test_neighbours_are_those_of_brute_force_over_the_index(translator: Translator, index: StateIndex) -> None:
    source, target = NumberedText([5, 6, 9], (), "a b c"), [7, 8, EOS]
    states = nearest_states(translator, source, target, index=index, neighbours=4)
    (own,) = read_states(translator.model, [PairIds(source.ids, target)])
    for side in SIDES:
        indexed, projection = np.array(index.states(side), dtype=np.float64), index.projections[side]
        assert len(states.side(side).background) == min(1000, len(indexed))
        for item, vector in zip(states.side(side).points, getattr(own, side).double().numpy(), strict=True):
            expected = brute(indexed, vector, metric="euclidean")[:4]
            assert [index.place(side, place) for _, place in expected] == [
                (neighbour.sentence, neighbour.position) for neighbour in item.neighbours
            ]
            np.testing.assert_allclose(item.point, projection(vector[None])[0], atol=1e-9)
    with pytest.raises(ConfigError, match="at least 1"):
        nearest_states(translator, source, target, index=index, neighbours=0)


@pytest.mark.parametrize("family", ["transformer", "copying", "bag of words"])
def test_translations_have_states(tmp_path: Path, family: str) -> None:
    translator = translator_of(family)
    index = build_index(translator, tmp_path / "states", data=corpus(tmp_path / "corpus"), seed=1)
    view = inspect_translation(translator, "a unseen b new")
    states = states_of_view(translator, view, index=index)
    assert [item.piece for item in states.encoder.points] == view.source_pieces
    assert [item.piece for item in states.decoder.points] == view.target_pieces


def test_the_document_refers_to_its_sentences(translator: Translator, index: StateIndex) -> None:
    states = states_of(translator, index, "a $x$ c")
    values = json.loads(json.dumps(states_values(states), allow_nan=False))
    assert values["index"]["id"] == index.id
    assert values["index"]["states"] == {side: len(index.states(side)) for side in SIDES}
    for side in SIDES:
        for point, item in zip(values[side]["points"], states.side(side).points, strict=True):
            for neighbour, expected in zip(point["neighbours"], item.neighbours, strict=True):
                sentence = values["sentences"][neighbour["sentence"]]
                assert sentence == index.sentence(expected.sentence)._asdict()
                side_pieces = sentence["source_pieces" if side == "encoder" else "target_pieces"]
                assert side_pieces[neighbour["position"]] == neighbour["piece"]
    other = states_values(states_of(translator, index, "d e"))
    assert other["index"]["id"] == values["index"]["id"]
    assert other["encoder"]["background"] == values["encoder"]["background"]


def test_the_summary_shows_neighbours_in_their_sentences(translator: Translator, index: StateIndex) -> None:
    sentence = index.sentence(0)
    view = inspect_translation(translator, sentence.source, target=sentence.target)
    lines = states_summary(states_of_view(translator, view, index=index), shown=2)
    pieces = sentence.source_pieces
    assert lines[0] == f"the index has {index.size.coverage}"
    assert lines[1].startswith(f"encoder states: nearest of {len(index.states('encoder'))} training states (euclidean)")
    sources = [index.sentence(number).source.split() for number in range(index.size.pairs)]
    word = sentence.source.split()[0]
    assert f" {sum(map(len, sources)):,} in all: {word} {sum(line.count(word) for line in sources):,}" in lines[2]
    assert lines[3] == f"  {pieces[0]}"
    assert len(lines) == 5 + 3 * (len(pieces) + len(sentence.target_pieces))
    assert f"[{pieces[0]}]" in lines[4]
    assert "0.000" in lines[4]


def test_the_picture_labels_the_pieces(tmp_path: Path, translator: Translator, index: StateIndex) -> None:
    pytest.importorskip("matplotlib")
    sentences = [states_of(translator, index, text) for text in ("a $x$ <b> g", "b c")]
    for name in ("a.svg", "b.svg", "c.png"):
        assert draw_states(tmp_path / name, sentences, names=["first", "$second$"]) == []
    svg = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert svg == (tmp_path / "b.svg").read_text(encoding="utf-8")
    assert all(label in svg for label in (">$x$<", "&lt;b&gt;", ">first<", ">$second$<"))
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_pieces_of_any_script_are_drawn_without_warnings(tmp_path: Path, translator: Translator) -> None:
    pytest.importorskip("matplotlib")
    index = build_index(translator, tmp_path / "states", data=corpus(tmp_path / "corpus"), seed=1)
    states = states_of(translator, index, "a b")
    points = [item._replace(piece=piece) for item, piece in zip(states.encoder.points, "天ابठ", strict=False)]
    drawn = states._replace(encoder=states.encoder._replace(points=points))
    assert all("no installed font" in warning for warning in draw_states(tmp_path / "a.png", [drawn]))
    assert draw_states(tmp_path / "a.svg", [drawn]) == []
    assert all(piece in (tmp_path / "a.svg").read_text(encoding="utf-8") for piece in "天اب")
