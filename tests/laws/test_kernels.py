"""Models that compute with kernels in C, against the same models in torch: step by step, all at once and in search."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from calque.layers import int8, packed
from calque.layers.observers import AttentionLayer, change_attention
from calque.layers.recurrent import Gates, Recurrence
from calque.models.model import Model, ModelConfig, Sizes
from calque.models.transformer import IndexedState, TransformerDecoderConfig, TransformerEncoderConfig
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


@pytest.mark.parametrize("name", MODELS)
def test_8_bit_models_compute_what_they_compute_without_kernels(name: str, request: pytest.FixtureRequest) -> None:
    """Most differ by rounding alone; where a level of an input becomes the next, by a small share of the output."""
    model = int8.quantise(quiet(name))
    actual = model(source(), target()).hidden
    request.getfixturevalue("without_kernels")
    expected = int8.quantise(quiet(name))(source(), target()).hidden
    assert float((actual - expected).norm() / expected.norm()) < 0.02


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("name", EXACT)
def test_the_bits_of_a_sentence_do_not_depend_on_the_batch(name: str, precision: str) -> None:
    model = quiet(name)
    if precision == "int8":
        model = int8.quantise(model)  # type: ignore[assignment]
        assert all(layer.uses_native for layer in model.modules() if isinstance(layer, AttentionLayer))
    else:
        packed.pack(model)
    batch, tokens = source(), target()
    together = model(batch, tokens).hidden
    for row, length in enumerate(batch.lengths.tolist()):
        alone = model(Padded(batch.values[row : row + 1, :length], batch.lengths[row : row + 1]), tokens[row : row + 1])
        assert torch.equal(alone.hidden[0], together[row])


@pytest.mark.parametrize("options", [{}, {"positions": "rotary"}, {"copies": True}, {"attention_layer": 1}])
@pytest.mark.parametrize("attention", [False, True])
def test_8_bit_models_do_not_depend_on_the_batch_where_torch_computes_attention(
    options: dict[str, Any], attention: bool
) -> None:
    """Rotary positions in decoders, copying, attention weights on request; wider and longer than other models here."""
    side = {"layers": 2, "width": 128, "heads": 4, "feed_forward": 256}
    shared = {key: value for key, value in options.items() if key == "positions"}
    config = ModelConfig(
        encoder=TransformerEncoderConfig(**side, **shared), decoder=TransformerDecoderConfig(**side, **options)
    )
    torch.manual_seed(1)
    model = int8.quantise(Model(config, sizes=Sizes(50, 50, joint=True)).eval())
    batch, tokens = (
        Padded(torch.randint(50, (8, 33)), torch.tensor([33, 30, 25, 21, 17, 11, 5, 2])),
        torch.randint(50, (8, 9)),
    )
    together = model(batch, tokens, attention=attention)
    for row, length in enumerate(batch.lengths.tolist()):
        part = slice(row, row + 1)
        alone = model(Padded(batch.values[part, :length], batch.lengths[part]), tokens[part], attention=attention)
        assert torch.equal(alone.hidden[0], together.hidden[row])


def test_who_watches_or_changes_attention_selects_the_clear_path() -> None:
    model = with_kernels(quiet("transformer-pre"))
    layer = model.decoder.blocks[0].self_attention  # type: ignore[index, union-attr]
    context = model.prepare(source())
    assert isinstance(model.decoder.indexed(model.start(context)), IndexedState)
    with change_attention(model, "decoder.blocks.0.self_attention", lambda weights: weights):
        assert not isinstance(model.decoder.indexed(model.start(context)), IndexedState)
    layer.train()
    assert not isinstance(model.decoder.indexed(model.start(context)), IndexedState)


@pytest.mark.parametrize("name", ["luong-general-feeding", "luong-concat", "bahdanau", "lstm", "transformer-pre"])
@pytest.mark.parametrize("copied", [True, False])
def test_changed_weights_are_seen(name: str, copied: bool) -> None:
    model = with_kernels(quiet(name))
    model(source(), target())
    model = copy.deepcopy(model) if copied else model
    other = quiet(name)
    for parameter in other.parameters():
        parameter += 0.1
    for parameter, new in zip(model.parameters(), other.parameters(), strict=True):
        parameter.copy_(new)
    torch.testing.assert_close(model(source(), target()).hidden, other(source(), target()).hidden, atol=2e-5, rtol=1e-4)


def test_dropped_weights_and_gradients_are_left_to_torch() -> None:
    layer = Recurrence("lstm", input_width=5, width=6)
    layer.products = Gates(layer.kernel, linear=packed.PackedLinear.sharing)
    inputs, state = torch.randn(2, 3, 5), layer.zero_state(2, like=torch.zeros(1))
    with torch.enable_grad():
        outputs, _ = layer(inputs, state)
        outputs.sum().backward()
    assert layer.kernel.weight_hh_l0.grad is not None
    dropped = torch.zeros_like(layer.kernel.weight_hh_l0)
    plain = Recurrence("lstm", input_width=5, width=6)
    plain.kernel = layer.kernel
    assert torch.equal(layer(inputs, state, weight=dropped)[0], plain(inputs, state, weight=dropped)[0])


@pytest.mark.parametrize("name", ["luong-general-feeding", "bahdanau", "transformer-pre"])
def test_a_model_that_has_decoded_can_change_its_precision(name: str) -> None:
    model, plain = with_kernels(quiet(name)), quiet(name).double()
    model(source(), target())
    torch.testing.assert_close(model.double()(source(), target()).hidden, plain(source(), target()).hidden)
