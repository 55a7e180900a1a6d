"""Models that compute with kernels in C, against the same models in torch: step by step, all at once and in search."""

import copy
from collections.abc import Iterator

import pytest
import torch

from calque.layers import int8, packed
from calque.layers.observers import AttentionLayer
from calque.models.model import Model
from calque.models.transformer import IndexedState
from calque.native.operations import is_available
from calque.objectives.decoding_step import decoding_step
from calque.search.beam import BestK, Goal, beam_search
from calque.search.fast_beam import fast_beam_search
from calque.search.scoring import Scoring
from calque.search.step import BestStep
from calque.tensors import Padded, Slots, select_rows, with_slots
from tests.laws import laws
from tests.laws.models import BEAMS, MODELS, SENTENCES, build, source, target

pytestmark = pytest.mark.skipif(not is_available(), reason="the kernels are not compiled here")
EXACT = ("lstm", "gru", "luong-general-feeding", "luong-concat", "transformer-pre", "transformer-post")


@pytest.fixture(autouse=True)
def _inference(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(packed, "SMALLEST", 1)
    monkeypatch.setattr(int8, "NARROWEST", 1)
    with torch.no_grad():
        yield


def quiet(name: str) -> Model:
    """A model in float32 whose rounding errors do not grow from layer to layer."""
    model = build(name, dtype=torch.float32)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter *= 0.5
    return model


def with_kernels(model: Model) -> Model:
    model = copy.deepcopy(model)
    packed.pack(model)
    return model


@pytest.mark.parametrize("name", MODELS)
def test_all_tokens_at_once(name: str) -> None:
    model = quiet(name)
    expected, actual = model(source(), target()), with_kernels(model)(source(), target())
    torch.testing.assert_close(actual.hidden, expected.hidden, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_token_by_token_with_hypotheses_that_are_reordered_and_dropped(name: str) -> None:
    model = quiet(name)
    fast = with_kernels(model)
    context, fast_context = model.prepare(source()), fast.prepare(source())
    state, fast_state = model.start(context), fast.decoder.indexed(fast.start(fast_context))
    generator = torch.Generator().manual_seed(3)
    slots, rows = None, torch.arange(SENTENCES)
    for step in range(5):
        tokens = target(step, rows=len(rows))[:, :1]
        output, state = model.read(tokens, state, with_slots(context, slots))
        actual, fast_state = fast.read(tokens, fast_state, with_slots(fast_context, slots))
        torch.testing.assert_close(actual.hidden, output.hidden, atol=2e-5, rtol=1e-4)
        sentence = rows if slots is None else slots.sentences
        places = [place for place in range(SENTENCES * BEAMS) if (place // BEAMS + place % BEAMS + step) % 3]
        slots = Slots(torch.tensor(places), BEAMS)
        rows = torch.tensor(
            [
                int(
                    (sentence == s)
                    .nonzero()
                    .flatten()[torch.randint(int((sentence == s).sum()), (1,), generator=generator)]
                )
                for s in slots.sentences.tolist()
            ]
        )
        state, fast_state = select_rows((state, fast_state), rows)


def test_plain_transformers_are_indexed() -> None:
    for name in MODELS:
        model = with_kernels(quiet(name))
        context = model.prepare(source())
        is_plain = name in ("transformer-pre", "transformer-post", "transformer-grouped", "transformer-multi-query")
        is_indexed = isinstance(model.decoder.indexed(model.start(context)), IndexedState)
        assert is_indexed or not is_plain


@pytest.mark.parametrize("name", MODELS)
def test_search(name: str) -> None:
    model = quiet(name)
    fast = with_kernels(model)
    if model.copies:
        return
    step, plain = decoding_step(fast), decoding_step(model)
    assert isinstance(step, BestStep)
    context, plain_context = fast.prepare(source()), model.prepare(source())
    arguments = {"limits": laws.limits(), "marks": laws.MARKS, "source_lengths": source().lengths}
    goal = Goal(Scoring(0.7), BEAMS)
    state = fast.decoder.indexed(fast.start(context))
    actual = fast_beam_search(step, state, context, beams=BEAMS, goal=goal, **arguments)
    expected = beam_search(
        plain, model.start(plain_context), plain_context, expansion=BestK(BEAMS), goal=goal, **arguments
    )
    for found, wanted in zip(actual, expected, strict=True):
        assert [hypothesis.tokens for hypothesis in found] == [hypothesis.tokens for hypothesis in wanted]
        assert [hypothesis.score for hypothesis in found] == pytest.approx([item.score for item in wanted], abs=1e-4)


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("name", EXACT)
def test_the_bits_of_a_sentence_do_not_depend_on_the_batch(name: str, precision: str) -> None:
    model = quiet(name)
    if precision == "int8":
        model = int8.quantise(model)  # type: ignore[assignment]
        assert not any(layer.in_float64 for layer in model.modules() if isinstance(layer, AttentionLayer))
    else:
        packed.pack(model)
    batch, tokens = source(), target()
    together = model(batch, tokens).hidden
    for row, length in enumerate(batch.lengths.tolist()):
        alone = model(Padded(batch.values[row : row + 1, :length], batch.lengths[row : row + 1]), tokens[row : row + 1])
        assert torch.equal(alone.hidden[0], together[row])
