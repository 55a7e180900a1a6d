"""Language models: reading in chunks, rows and masks of dropout; and the AWD-LSTM written out a second time."""

from typing import Any

import pytest
import torch
from tests.laws.slopes import slopes_in_a_direction
from torch import Tensor
from torch.nn import functional as F

from calque.config import check
from calque.errors import ConfigError
from calque.layers.embedding import UNKNOWN
from calque.models.language_model import LanguageModel, LanguageModelConfig
from calque.models.systems import LANGUAGE_MODELS, system_model
from calque.tensors import select_rows
from calque.text import UNK

V, N, T = 11, 3, 7
RECURRENT = {"kind": "recurrent", "layers": 2, "width": 6, "embedding": 5, "dropout": 0.3}
TRANSFORMER = {"kind": "transformer", "layers": 2, "width": 8, "heads": 2, "feed_forward": 12, "dropout": 0.0}
NETWORKS: dict[str, dict[str, Any]] = {
    **{cell: {**RECURRENT, "cell": cell} for cell in ("rnn", "rnn-relu", "lstm", "gru", "gru-original")},
    "narrow top": {**RECURRENT, "layers": 3, "top_width": 5},
    "variational": {**RECURRENT, "variational": True, "weight_dropout": 0.4},
    "transformer": TRANSFORMER,
    "rotary": {**TRANSFORMER, "positions": "rotary"},
    "relative": {**TRANSFORMER, "positions": "relative"},
    "ssru": {**TRANSFORMER, "mixer": "ssru"},
    "average": {**TRANSFORMER, "mixer": "average"},
    "ngram": {"kind": "ngram", "order": 4},
}


def build(network: dict[str, Any], **options: Any) -> LanguageModel:
    torch.manual_seed(3)
    config = check(LanguageModelConfig, {"network": network, **options}, origin="test")
    return LanguageModel(config, vocabulary_size=V).double()


def tokens(rows: int = N, size: int = T) -> Tensor:
    return torch.randint(4, V, (rows, size), generator=torch.Generator().manual_seed(rows + size))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("split", [1, 3, 6])
def test_reading_in_chunks_is_reading_at_once(name: str, split: int) -> None:
    model = build(NETWORKS[name]).eval()
    whole, _ = model.read(tokens(), model.start(N))
    first, state = model.read(tokens()[:, :split], model.start(N))
    second, _ = model.read(tokens()[:, split:], state)
    torch.testing.assert_close(torch.cat([first.hidden, second.hidden], dim=1), whole.hidden, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", NETWORKS)
def test_rows_are_independent_and_can_be_chosen(name: str) -> None:
    model = build(NETWORKS[name]).eval()
    _, state = model.read(tokens(), model.start(N))
    rows = torch.tensor([2, 0, 2, 1])
    chosen, _ = model.read(tokens()[rows][:, :2], select_rows(state, rows))
    every, _ = model.read(tokens()[:, :2], state)
    torch.testing.assert_close(chosen.hidden, every.hidden[rows], rtol=0, atol=1e-9)
    alone, _ = model.read(tokens()[1:2], model.start(1))
    together, _ = model.read(tokens(), model.start(N))
    torch.testing.assert_close(alone.hidden, together.hidden[1:2], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_token_sees_nothing_behind_it(name: str) -> None:
    model = build(NETWORKS[name]).eval()
    changed = tokens().clone()
    changed[:, 4:] = 5
    one, _ = model.read(tokens(), model.start(N))
    other, _ = model.read(changed, model.start(N))
    torch.testing.assert_close(one.hidden[:, :4], other.hidden[:, :4], rtol=0, atol=1e-9)


def test_masks_hold_for_all_positions_of_a_pass() -> None:
    """The chunk law in training mode: variational masks and dropped weights are part of the state."""
    model = build(NETWORKS["variational"]).train()
    state = model.start(N)
    whole, _ = model.read(tokens(), state)
    first, between = model.read(tokens()[:, :3], state)
    second, _ = model.read(tokens()[:, 3:], between)
    torch.testing.assert_close(torch.cat([first.hidden, second.hidden], dim=1), whole.hidden, rtol=0, atol=1e-9)


def test_the_equations_of_awd_lstm() -> None:
    """Merity et al. 2018 and 2017, written out: masks on inputs, layers and output, M ∘ U, and both penalties."""
    options = {"layers": 2, "width": 6, "top_width": 5, "embedding": 5, "dropout": 0.3, "input_dropout": 0.2}
    more = {"output_dropout": 0.4, "variational": True, "weight_dropout": 0.5, "type_dropout": 0.0}
    network = {"kind": "recurrent", **options, **more, "activation_penalty": 2.0, "temporal_penalty": 1.0}
    model = build(network).train()
    state = model.start(N)
    read, after = model.read(tokens(), state)
    recurrent = model.network
    values = F.embedding(tokens(), recurrent.embedding.weight)
    for number, layer in enumerate(recurrent.layers):
        w, u, b, c = layer.kernel.all_weights[0]
        u = u * state.weight_masks.layers[number]
        hidden = cell = values.new_zeros(N, layer.width)
        outputs = []
        for x in (values * state.masks[number][:, None]).unbind(1):
            i, f, g, o = (x @ w.T + b + hidden @ u.T + c).chunk(4, dim=1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
            outputs.append(hidden)
        values = torch.stack(outputs, dim=1)
    dropped = values * state.masks[-1][:, None]
    torch.testing.assert_close(read.hidden, dropped, rtol=0, atol=1e-9)
    before = torch.cat([torch.zeros(N, 1, 5), values[:, :-1]], dim=1)
    penalties = 2 * dropped.square().mean(-1) + (values - before).square().mean(-1)
    torch.testing.assert_close(read.penalties, penalties, rtol=0, atol=1e-9)
    torch.testing.assert_close(after.last, values[:, -1], rtol=0, atol=1e-9)
    assert model.eval().read(tokens(), model.start(N))[0].penalties is None


def test_weights_are_tied_where_asked() -> None:
    tied, apart = build(NETWORKS["lstm"]), build(NETWORKS["lstm"], tie=False)
    assert tied.output.weight is tied.network.embedding.weight
    assert apart.output.weight is not apart.network.embedding.weight
    assert all(parameter.abs().max() <= 0.05 for parameter in build(NETWORKS["lstm"], spread=0.05).parameters())


def test_what_does_not_fit_is_rejected() -> None:
    with pytest.raises(ConfigError, match="adaptive"):
        build(NETWORKS["lstm"], output={"kind": "adaptive"})
    with pytest.raises(ConfigError, match="spread"):
        build(NETWORKS["transformer"], spread=0.1)
    with pytest.raises(ConfigError, match="mixer"):
        build({**NETWORKS["ssru"], "positions": "rotary"})


def test_the_published_sizes() -> None:
    """AWD-LSTM on Penn Treebank has 24 million parameters, Zaremba's medium model 20 million."""
    sizes = {
        name: sum(
            parameter.numel() for parameter in LanguageModel(system_model(name), vocabulary_size=10_000).parameters()
        )
        for name in LANGUAGE_MODELS
    }
    assert 24.0e6 < sizes["merity2018"] < 24.3e6
    assert 19.7e6 < sizes["zaremba2014-medium"] < 19.9e6


def test_the_unknown_piece_is_that_of_every_vocabulary() -> None:
    """Models know no text, so the id is written down twice."""
    assert UNKNOWN == UNK
    model = build(NETWORKS["lstm"]).eval()
    beyond, unknown = torch.full((1, 2), V + 5), torch.full((1, 2), UNK)
    pair = [model.read(ids, model.start(1))[0].hidden for ids in (beyond, unknown)]
    torch.testing.assert_close(*pair)


@pytest.mark.parametrize("name", ["lstm", "narrow top", "transformer", "ssru"])
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    """Along one random direction through all weights at once."""
    model = build(NETWORKS[name], tie=False).eval()
    words = tokens()

    def loss() -> Tensor:
        read, _ = model.read(words[:, :-1], model.start(N))
        return model.losses(read.hidden.flatten(0, 1), words[:, 1:].flatten()).sum()

    parameters = list(model.parameters())
    numerical, analytical = slopes_in_a_direction(loss, parameters, step=1e-5)
    assert numerical == pytest.approx(analytical, rel=1e-5)


@pytest.mark.parametrize("output", ["full", "sampled", "adaptive"])
@pytest.mark.parametrize("name", sorted(set(NETWORKS) - {"ngram"}))
@torch.no_grad()
def test_probabilities_sum_to_one(name: str, output: str) -> None:
    settings = {"kind": output, **({"cutoffs": [5]} if output == "adaptive" else {})}
    model = build(NETWORKS[name], tie=False, output=settings).eval()
    read, _ = model.read(tokens(), model.start(N))
    total = model.log_probs(read.hidden).exp().sum(dim=-1)
    torch.testing.assert_close(total, torch.ones(N, T).double(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", sorted(set(NETWORKS) - {"ngram"}))
def test_every_parameter_learns(name: str) -> None:
    model, words = build(NETWORKS[name], tie=False).train(), tokens()
    read, _ = model.read(words[:, :-1], model.start(N))
    model.losses(read.hidden.flatten(0, 1), words[:, 1:].flatten()).sum().backward()
    idle = {
        name
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and (parameter.grad is None or not parameter.grad.any())
    }
    assert not idle
