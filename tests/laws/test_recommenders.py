"""The laws of recommendation, over one list of all recommenders: padding, rows, time's direction, probabilities."""

import pytest
import torch
from torch.testing import assert_close

from calque.layers import negatives
from calque.layers.negatives import NegativesOutput
from calque.models.recommender import FIRST_ITEM, PADDING, ItemHistory, RecommenderModel
from calque.tensors import length_mask
from tests.laws.recommenders import BEHAVIOURS, ITEMS, NETWORKS, RECOMMENDERS, USERS, VOCABULARY, build, select, source
from tests.laws.slopes import slopes_in_a_direction

MASK = length_mask(source().lengths, size=ITEMS)


@pytest.fixture(params=sorted(RECOMMENDERS))
def model(request: pytest.FixtureRequest) -> RecommenderModel:
    return build(request.param)


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> RecommenderModel:
    return build(request.param)


def disturbed(history: ItemHistory) -> ItemHistory:
    """The same histories, with other padding."""
    other = source(seed=1)
    items, times, asked, behaviours = (
        own.where(MASK, its)
        for own, its in zip(
            (history.items, history.times, history.asked, history.behaviours),
            (other.items, other.times, other.asked, other.behaviours),
            strict=True,
        )
        if own is not None and its is not None
    )
    return ItemHistory(items, history.lengths, times, asked, behaviours)


def targets() -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randint(FIRST_ITEM, VOCABULARY, (USERS, ITEMS), generator=generator).masked_fill(~MASK, PADDING)


@torch.no_grad()
def test_padding_affects_nothing(model: RecommenderModel) -> None:
    history = source()
    assert_close(model.scores(history), model.scores(disturbed(history)), rtol=0, atol=1e-9)
    if model.network is not None:
        hidden, other = model(history), model(disturbed(history))
        assert_close(hidden[MASK], other[MASK], rtol=0, atol=1e-9)
        losses = [model.total_loss(read, history, targets()) for read in (hidden, other)]
        assert_close(*losses, rtol=0, atol=1e-9)


@torch.no_grad()
def test_rows_are_read_alike_in_any_order_and_company(model: RecommenderModel) -> None:
    history = source()
    whole = model.scores(history)
    for rows, size in (([2, 0, 1, 2], None), ([1, 2], 4), ([2], 2)):
        assert_close(model.scores(select(history, rows, size=size)), whole[rows], rtol=0, atol=1e-9)


@torch.no_grad()
def test_a_prediction_depends_on_earlier_items_only(network: RecommenderModel) -> None:
    history, other = source(), source(seed=1)
    read = network(history)
    for count in (1, 4):
        is_past = torch.arange(ITEMS) < count
        parts = zip(history, other, strict=True)
        items, _, times, asked, behaviours = (
            own if own is None or own.dim() == 1 else own.where(is_past, its) for own, its in parts
        )
        changed = network(ItemHistory(items, history.lengths, times, asked, behaviours))
        assert_close(changed[:, :count], read[:, :count], rtol=0, atol=1e-9)
        assert (changed[:, count:] - read[:, count:]).abs().amax() > 1e-3


@torch.no_grad()
def test_scores_are_log_probabilities_of_items(model: RecommenderModel) -> None:
    scores = model.scores(source())
    assert (scores[:, :FIRST_ITEM] == -torch.inf).all()
    assert_close(scores.exp().sum(dim=1), torch.ones(USERS).double(), rtol=0, atol=1e-9)


@torch.no_grad()
def test_a_user_without_history_gets_popular_items(model: RecommenderModel) -> None:
    history = source()
    emptied = history._replace(lengths=torch.tensor([ITEMS, 0, 2]))
    scores = model.scores(emptied)
    assert_close(scores[[0, 2]], model.scores(history)[[0, 2]], rtol=0, atol=1e-9)
    shares = (model.counts + 1) / (model.counts[FIRST_ITEM:] + 1).sum()
    assert_close(scores[1, FIRST_ITEM:], shares[FIRST_ITEM:].log(), rtol=0, atol=1e-9)


@torch.no_grad()
def test_in_evaluation_the_loss_is_that_of_the_softmax(network: RecommenderModel) -> None:
    history = source()
    hidden = network(history)
    assert network.output is not None
    log_probs = network.output.logits(hidden).log_softmax(dim=-1)
    expected = -log_probs.gather(2, targets()[..., None]).squeeze(2)[MASK].sum()
    assert_close(network.total_loss(hidden, history, targets()), expected, rtol=1e-9, atol=0)


def test_every_parameter_learns(network: RecommenderModel) -> None:
    network.train()
    torch.manual_seed(0)
    history = source()
    for _ in range(20):  # sampled negatives may miss an item
        network.total_loss(network(history), history, targets()).backward()
    idle = {
        name
        for name, parameter in network.named_parameters()
        if parameter.requires_grad and (parameter.grad is None or not parameter.grad.any())
    }
    assert not idle


def test_gradients_are_those_of_finite_differences(network: RecommenderModel) -> None:
    """Along one random direction through all weights at once, with the same negatives each time."""
    history = source()
    if isinstance(network.output, NegativesOutput):
        network.output.train()
    network.training = isinstance(network.output, NegativesOutput)
    parameters = [value for value in network.parameters() if value.requires_grad]

    def loss() -> torch.Tensor:
        torch.manual_seed(5)
        return network.total_loss(network(history), history, targets())

    numerical, analytical = slopes_in_a_direction(loss, parameters, step=1e-6)
    assert numerical == pytest.approx(analytical, rel=1e-4)


@torch.no_grad()
def test_times_and_behaviours_matter_to_the_model_that_reads_them() -> None:
    history, model = source(), build("time-aware")
    assert history.asked is not None and history.behaviours is not None
    scores = model.scores(history)
    later = model.scores(history._replace(asked=history.asked + 1000))
    other = FIRST_ITEM + (history.behaviours - FIRST_ITEM + 1) % (BEHAVIOURS - FIRST_ITEM)
    changed = model.scores(history._replace(behaviours=other))
    assert (scores[:, FIRST_ITEM:] - later[:, FIRST_ITEM:]).abs().amin(dim=1).min() > 1e-6
    assert (scores[:, FIRST_ITEM:] - changed[:, FIRST_ITEM:]).abs().amin(dim=1).min() > 1e-6


@torch.no_grad()
def test_own_items_and_padding_are_never_negatives_nor_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss with one drawn negative per target is that of targets and of negatives outside the user's history."""
    network, history = build("transformer-binary").train(), source()
    assert isinstance(network.output, NegativesOutput) and network.output.config.negatives == 1
    targets_of = torch.cat([history.items[:, 1:], history.items[:, :1] * 0 + 9], dim=1).masked_fill(~MASK, PADDING)
    drawn = torch.randint(FIRST_ITEM, VOCABULARY, (USERS * ITEMS,), generator=torch.Generator().manual_seed(4))
    for row, length in enumerate(history.lengths.tolist()):
        drawn[row * ITEMS] = targets_of[row, length - 1]
    monkeypatch.setattr(negatives, "draw", lambda _proposal, *, count: drawn[:count])
    hidden = network(history)
    scores = network.output.logits(hidden)
    expected, avoided = 0.0, 0
    for row in range(USERS):
        own = {int(history.items[row, 0]), *targets_of[row].tolist()}
        for at in range(int(history.lengths[row])):
            negative = int(drawn[row * ITEMS + at])
            expected -= float(scores[row, at, targets_of[row, at]].sigmoid().log())
            avoided += negative in own
            if negative not in own:
                expected -= float((-scores[row, at, negative]).sigmoid().log())
    assert avoided, "a negative of the user's own was drawn"
    assert float(network.total_loss(hidden, history, targets_of)) == pytest.approx(expected, rel=1e-9)
