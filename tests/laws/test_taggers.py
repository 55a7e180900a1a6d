"""The laws of tagging, over one list of all taggers: padding, rows, batches, and what probabilities must be."""

import pytest
import torch
from torch.testing import assert_close

from calque.models.tagger import TaggerModel
from calque.tensors import length_mask
from tests.laws.slopes import slopes_in_a_direction
from tests.laws.taggers import ESTIMATED, SENTENCES, SIZES, TAGGERS, WORDS, build, select, source

NAMES = sorted([*TAGGERS, *ESTIMATED])


@pytest.fixture(params=NAMES)
def model(request: pytest.FixtureRequest) -> TaggerModel:
    return build(request.param)


@torch.no_grad()
def test_padding_affects_nothing(model: TaggerModel) -> None:
    words, other = source(), source(seed=1)
    mask = length_mask(words.lengths, size=WORDS)
    assert words.characters is not None and other.characters is not None
    assert words.word_lengths is not None and other.word_lengths is not None
    is_character = length_mask(words.word_lengths.flatten(), size=words.characters.shape[2]).view_as(words.characters)
    disturbed = other._replace(
        words=words.words.where(mask, other.words),
        lengths=words.lengths,
        characters=words.characters.where(mask[..., None] & is_character, other.characters),
        word_lengths=words.word_lengths.where(mask, other.word_lengths),
        columns=tuple(own.where(mask, its) for own, its in zip(words.columns, other.columns, strict=True)),
    )
    scores, others = model(words), model(disturbed)
    assert_close(scores[mask], others[mask], rtol=0, atol=1e-9)
    labels = torch.randint(0, SIZES.labels, mask.shape)
    elsewhere = labels.where(mask, (labels + 1) % SIZES.labels)
    assert_close(
        model.losses(scores, labels, words.lengths), model.losses(others, elsewhere, words.lengths), rtol=0, atol=1e-9
    )
    assert torch.equal(model.best(scores, words.lengths), model.best(others, words.lengths))
    assert_close(model.marginals(scores, words.lengths), model.marginals(others, words.lengths), rtol=0, atol=1e-9)


@torch.no_grad()
def test_rows_are_read_alike_in_any_order_and_company(model: TaggerModel) -> None:
    words = source()
    whole = model(words)
    for rows, size in (([2, 0, 1, 2], None), ([1, 2], 4), ([2], 2)):
        part = model(select(words, rows, size=size))
        for place, row in enumerate(rows):
            length = int(words.lengths[row])
            assert_close(part[place, :length], whole[row, :length], rtol=0, atol=1e-9)


@torch.no_grad()
def test_a_row_without_words_weighs_nothing_and_spoils_nothing(model: TaggerModel) -> None:
    words = source()
    emptied = words._replace(lengths=torch.tensor([WORDS, 0, 2]))
    scores, labels = model(emptied), torch.zeros(SENTENCES, WORDS, dtype=torch.long)
    losses = model.losses(scores, labels, emptied.lengths)
    assert losses[1] == 0 and losses.isfinite().all()
    assert_close(losses[[0, 2]], model.losses(model(words), labels, words.lengths)[[0, 2]], rtol=0, atol=1e-9)


@torch.no_grad()
def test_marginals_are_probabilities(model: TaggerModel) -> None:
    words = source()
    shares = model.marginals(model(words), words.lengths)
    mask = length_mask(words.lengths, size=WORDS)
    assert_close(shares.sum(dim=-1), mask.double(), rtol=0, atol=1e-9)


@torch.no_grad()
def test_the_loss_is_that_of_probabilities_over_all_label_sequences(model: TaggerModel) -> None:
    words = select(source(), [2], size=2)
    scores = model(words)
    pairs = torch.cartesian_prod(torch.arange(SIZES.labels), torch.arange(SIZES.labels))
    losses = model.losses(scores.expand(len(pairs), -1, -1), pairs, words.lengths.expand(len(pairs)))
    assert_close((-losses).exp().sum(), torch.ones(()).double(), rtol=0, atol=1e-9)
    assert torch.equal(model.best(scores, words.lengths)[0], pairs[losses.argmin()])


@pytest.mark.parametrize("model", sorted(TAGGERS), indirect=True)
def test_every_parameter_learns(model: TaggerModel) -> None:
    model.train()
    words = source()
    labels = torch.randint(0, SIZES.labels, (SENTENCES, WORDS))
    model.losses(model(words), labels, words.lengths).sum().backward()
    idle = {name for name, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.any()}
    assert not idle


@pytest.mark.parametrize("model", sorted(TAGGERS), indirect=True)
def test_gradients_are_those_of_finite_differences(model: TaggerModel) -> None:
    """Along one random direction through all weights at once."""
    words = source()
    labels = torch.randint(0, SIZES.labels, (SENTENCES, WORDS), generator=torch.Generator().manual_seed(2))
    parameters = [value for value in model.parameters() if value.requires_grad]

    def loss() -> torch.Tensor:
        return model.losses(model(words), labels, words.lengths).sum()

    numerical, analytical = slopes_in_a_direction(loss, parameters, step=1e-6)
    assert numerical == pytest.approx(analytical, rel=1e-4)
