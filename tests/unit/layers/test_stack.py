"""Recurrent layers on each other: at once and stepped, connected, dropped and disturbed."""

import pytest
import torch
from tests.laws.cover import name, pairwise
from tests.laws.models import loud

from calque.layers.connections import Connection
from calque.layers.recurrent import state_parts
from calque.layers.stack import RecurrentStack, StackConfig, apart, together

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
    outputs, levels, entering = [], apart(state.parts), stack.entering(state, start=3)
    for place, share in enumerate(stack.enter(inputs[..., :3], state).unbind(1)):
        gates = share + entering(inputs[:, place, 3:])
        output, levels = stack.step(gates, levels, inputs=inputs[:, place], masks=state.masks)
        outputs.append(output)
    return torch.stack(outputs, dim=1), state._replace(parts=together(levels))


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
