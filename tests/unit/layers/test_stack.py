"""Recurrent layers on each other: at once and stepped, connected, dropped and disturbed."""

import pytest
import torch
from pydantic import ValidationError
from tests.laws.cover import name, pairwise
from tests.laws.models import loud

from calque.layers.connections import Connection
from calque.layers.dropout import dropout
from calque.layers.recurrent import state_parts
from calque.layers.stack import RecurrentStack, StackConfig, split_layers, stack_layers
from calque.tensors import select_rows

ROWS, SIZE, INPUTS, WIDTH, LAYERS = 3, 5, 7, 4, 3
CONNECTIONS = ["none", "residual", "dense", "highway"]
COVER = {
    name(each): each
    for each in pairwise(
        {
            "cell": ["rnn", "rnn-relu", "lstm", "gru", "gru-original"],
            "connection": CONNECTIONS,
            "layer_norm": [False, True],
            "variational": [False, True],
            "weight_dropout": [0.0, 0.4],
        }
    )
}


def some(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def build(**options) -> RecurrentStack:
    config = StackConfig(**{"layers": LAYERS, "width": WIDTH, "dropout": 0.5, **options})
    return loud(RecurrentStack(config, input_width=INPUTS))


def first(stack: RecurrentStack):
    config = stack.config
    return stack.start(tuple(some(ROWS, config.layers, WIDTH) for _ in range(state_parts(config.cell))))


def stepped(stack: RecurrentStack, inputs: torch.Tensor, state):
    outputs, levels, entering = [], split_layers(state.parts), stack.entering(state, start=3)
    weights = stack.weights(state)
    for place, share in enumerate(stack.enter(inputs[..., :3], state).unbind(1)):
        gates = share + entering(inputs[:, place, 3:])
        output, levels = stack.step(gates, levels, inputs=inputs[:, place], masks=state.masks, weights=weights)
        outputs.append(output)
    return torch.stack(outputs, dim=1), state._replace(parts=stack_layers(levels))


@pytest.mark.parametrize("options", COVER)
@torch.no_grad()
def test_read_at_once_is_stepped(options: str) -> None:
    stack, inputs = build(**COVER[options]), some(ROWS, SIZE, INPUTS)
    state = first(stack)
    outputs, final = stack(inputs, state)
    again, last = stepped(stack, inputs, state)
    torch.testing.assert_close(again, outputs, rtol=0, atol=1e-12)
    torch.testing.assert_close(last.parts, final.parts, rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", [key for key, each in COVER.items() if each["variational"]])
@torch.no_grad()
def test_variational_masks_stay_the_same_in_training(options: str) -> None:
    """The chunk law in training mode: the masks are in the state, so any split drops the same."""
    stack, inputs = build(**COVER[options]).train(), some(ROWS, SIZE, INPUTS)
    state = first(stack)
    outputs, final = stack(inputs, state)
    again, last = stepped(stack, inputs, state)
    torch.testing.assert_close(again, outputs, rtol=0, atol=1e-12)
    torch.testing.assert_close(last.parts, final.parts, rtol=0, atol=1e-12)
    assert final.masks is state.masks
    other, _ = stack(inputs, stack.start(state.parts))
    assert not torch.equal(other, outputs), "another start draws other masks"


def test_variational_masks_keep_the_mean() -> None:
    stack = build(variational=True, dropout=0.25).train()
    masks = stack.start((torch.zeros(4000, LAYERS, WIDTH),) * 2).masks
    for mask in (*masks.inputs, *masks.hidden, masks.output):
        assert mask.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
        assert mask.mean().item() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("options", [key for key, each in COVER.items() if each["weight_dropout"]])
@torch.no_grad()
def test_the_same_weights_are_dropped_until_another_start(options: str) -> None:
    """The chunk law in training mode: the masks of the weights are in the state too."""
    still = {} if COVER[options]["variational"] else {"dropout": 0.0}
    stack, inputs = build(**COVER[options], **still).train(), some(ROWS, SIZE, INPUTS)
    state = first(stack)
    outputs, final = stack(inputs, state)
    again, last = stepped(stack, inputs, state)
    torch.testing.assert_close(again, outputs, rtol=0, atol=1e-12)
    torch.testing.assert_close(last.parts, final.parts, rtol=0, atol=1e-12)
    one, between = stack(inputs[:, :2], state)
    other, after = stack(inputs[:, 2:], between)
    torch.testing.assert_close(torch.cat([one, other], dim=1), outputs, rtol=0, atol=1e-12)
    torch.testing.assert_close(after.parts, final.parts, rtol=0, atol=1e-12)
    afresh, _ = stack(inputs, stack.start(state.parts)._replace(masks=state.masks))
    assert not torch.allclose(afresh, outputs), "another start draws other masks"


@torch.no_grad()
def test_all_rows_read_the_same_weights() -> None:
    """Whatever rows are chosen or repeated."""
    stack, inputs = build(dropout=0.0, weight_dropout=0.4).train(), some(ROWS, SIZE, INPUTS)
    state, rows = first(stack), torch.tensor([2, 0, 0, 1])
    outputs, _ = stack(inputs, state)
    chosen, _ = stack(inputs[rows], select_rows(state, rows))
    torch.testing.assert_close(chosen, outputs[rows], rtol=0, atol=1e-12)
    weights, masks = stack.weights(state), state.weight_masks.layers
    assert len({tuple((mask == 0).flatten().tolist()) for mask in masks}) == LAYERS, "each layer has its own mask"
    for layer, weight, mask in zip(stack.layers, weights, masks, strict=True):
        assert torch.equal(weight, layer.kernel.weight_hh_l0 * mask)


@torch.no_grad()
def test_weights_are_dropped_in_training_only() -> None:
    inputs = some(ROWS, SIZE, INPUTS)
    stack, plain = build(dropout=0.0, weight_dropout=0.4), build(dropout=0.0)
    state = first(stack)
    assert state.weight_masks is None and stack.weights(state) is None
    assert torch.equal(stack(inputs, state)[0], plain(inputs, state)[0])
    trained, _ = stack.train()(inputs, stack.start(state.parts))
    assert not torch.allclose(trained, plain(inputs, state)[0])


@pytest.mark.parametrize("variational", [False, True])
def test_nothing_is_drawn_for_weights_that_are_all_kept(variational: bool) -> None:
    """So that models without it learn from the same random numbers as before there was such a thing."""
    stack = build(variational=variational).train()
    torch.manual_seed(7)
    first(stack)
    after = torch.get_rng_state()
    torch.manual_seed(7)
    for _ in range(2):
        some(ROWS, LAYERS, WIDTH)
    for width in [*stack.widths, *[WIDTH] * LAYERS, WIDTH] if variational else []:
        dropout(torch.ones(ROWS, width, dtype=torch.float64), 0.5)
    assert torch.equal(torch.get_rng_state(), after)


@pytest.mark.parametrize("share", [1.0, -0.1, float("nan")])
def test_shares_of_weights_that_cannot_be_dropped_are_refused(share: float) -> None:
    with pytest.raises(ValidationError, match="weight_dropout"):
        StackConfig(weight_dropout=share)


@pytest.mark.parametrize("steps", [False, True])
@torch.no_grad()
def test_it_drops_between_layers_and_nowhere_else(steps: bool) -> None:
    inputs = some(ROWS, SIZE, INPUTS)

    def read(*, layers: int, dropout: float) -> torch.Tensor:
        stack = build(cell="gru", layers=layers, dropout=dropout).train()
        return (stepped(stack, inputs, first(stack)) if steps else stack(inputs, first(stack)))[0]

    def dropping_matters(layers: int) -> bool:
        torch.manual_seed(0)
        dropped = read(layers=layers, dropout=0.9)
        torch.manual_seed(0)
        return not torch.equal(dropped, read(layers=layers, dropout=0.0))

    assert not dropping_matters(1)
    assert dropping_matters(2)


@torch.no_grad()
def test_noise_is_for_training_only_and_as_strong_as_asked() -> None:
    stack = build(layers=1, dropout=0.0, noise=0.3)
    inputs, state = some(ROWS, 2000, INPUTS), first(stack)
    still, _ = stack(inputs, state)
    disturbed, _ = stack.train()(inputs, state)
    assert (disturbed - still).std().item() == pytest.approx(0.3, rel=0.05)
    assert torch.equal(stack.eval()(inputs, state)[0], still)


def test_highway_carries_at_first() -> None:
    connection = Connection("highway", layer=1, layers=2, width=WIDTH)
    inputs, outputs = torch.zeros(1, WIDTH), torch.ones(1, WIDTH)
    assert connection(inputs, outputs).max().item() < 0.3


def test_a_dense_layer_reads_all_below_it() -> None:
    assert build(connection="dense").widths == [INPUTS, INPUTS + WIDTH, INPUTS + 2 * WIDTH]
