"""The laws of captioning, over one list of all captioners: rows, chunks, padding, positions, slopes."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from calque.data.batching import Planned
from calque.data.buckets import Size
from calque.data.caption_batch import CaptionBatch, collate_captions
from calque.data.store import Rows, pack, store_in_memory
from calque.models.captioner import CaptionerModel
from calque.tasks.captioning import Captioning, CaptioningConfig
from calque.tensors import Padded, select_rows
from tests.laws.captioners import CAPTIONERS, SIZE, TOKENS, VOCABULARY, build, captions, images
from tests.laws.slopes import slopes_in_a_direction

NAMES = sorted(CAPTIONERS)
CAPTIONS = ([5, 6, 7], [8, 9, 4, 10, 5])


@pytest.fixture(params=NAMES)
def model(request: pytest.FixtureRequest) -> CaptionerModel:
    return build(request.param)


def batch(*, rows: int = 2, width: int = 6) -> CaptionBatch:
    """Two captioned images, in a batch that may be wider and longer than they need."""
    store = store_in_memory(
        {
            "image": Rows(images().values.numpy().reshape(-1, SIZE, 3), np.full(2, SIZE, dtype=np.uint32)),
            "caption": pack(CAPTIONS),
            "caption_lengths": pack([[len(ids)] for ids in CAPTIONS]),
        }
    )
    return collate_captions(store, Planned(np.arange(2), Size(rows, (9, width))), turn=0)


def test_the_memory_has_a_position_per_cell(model: CaptionerModel) -> None:
    memory = model.encode(images())
    assert memory.values.shape[:2] == (2, 9) and memory.mask.all() and memory.tokens is None
    assert memory.values.shape[2] == model.encoder.shape.width
    assert len(memory.final) == model.encoder.shape.parts


@torch.no_grad()
def test_an_image_is_read_alike_in_any_order_and_company(model: CaptionerModel) -> None:
    source, target = images(3), captions(3)
    whole = model(source, target, attention=model.decoder.attends)
    for rows in ([2, 0, 1, 2], [1]):
        part = model(Padded(source.values[rows], source.lengths[rows]), target[rows], attention=model.decoder.attends)
        assert_close(part.hidden, whole.hidden[rows], rtol=0, atol=1e-9)
        if whole.attention is not None:
            assert_close(part.attention, whole.attention[rows], rtol=0, atol=1e-9)


@torch.no_grad()
def test_a_caption_is_read_alike_in_chunks_and_by_several_hypotheses(model: CaptionerModel) -> None:
    source, target = images(), captions()
    whole = model(source, target).hidden
    context = model.prepare(source)
    twice = torch.tensor([0, 0, 1, 1])
    state, parts = select_rows(model.start(context), twice), []
    for tokens in (target[twice, :2], target[twice, 2:]):
        output, state = model.read(tokens, state, context)
        parts.append(output.hidden)
    assert_close(torch.cat(parts, dim=1), whole[twice], rtol=0, atol=1e-9)


@torch.no_grad()
def test_padding_of_captions_and_rows_that_fill_a_shape_affect_nothing(model: CaptionerModel) -> None:
    task = Captioning(CaptioningConfig(size=SIZE), positions=9)
    plain = task.loss(model, batch(), step=0)
    padded = batch(rows=4, width=9)
    assert padded.weight == batch().weight
    disturbed = padded._replace(
        target_input=padded.target_input.where(padded.target_output != 0, 7).index_fill(1, torch.tensor([0]), 1)
    )
    for wider in (padded, disturbed):
        loss = task.loss(model, wider, step=0)
        assert_close(loss.objective, plain.objective, rtol=0, atol=1e-9)
        assert_close(loss.parts["loss"], plain.parts["loss"], rtol=0, atol=1e-9)


@torch.no_grad()
def test_the_loss_of_a_batch_is_that_of_its_rows(model: CaptionerModel) -> None:
    model.doubly_stochastic = 0.5 if model.decoder.attends else 0.0
    task = Captioning(CaptioningConfig(size=SIZE), positions=9)
    whole = task.loss(model, batch(), step=0).objective
    parts = [task.loss(model, part, step=0).objective for part in batch().split(2)]
    assert_close(sum(parts), whole, rtol=0, atol=1e-9)


@torch.no_grad()
def test_where_something_lies_in_an_image_matters(model: CaptionerModel) -> None:
    source, target = images(), captions()
    turned = source._replace(values=source.values.flip(2))
    assert (model(source, target).hidden - model(turned, target).hidden).abs().max() > 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_learns(name: str) -> None:
    """With its own initial weights: larger ones saturate a grid without normalisation."""
    torch.manual_seed(0)
    model = CaptionerModel(CAPTIONERS[name], vocabulary_size=VOCABULARY).double().train()
    task = Captioning(CaptioningConfig(size=SIZE), positions=9)
    task.loss(model, batch(), step=0).objective.backward()
    idle = {
        name
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and (parameter.grad is None or not parameter.grad.any())
    }
    assert not idle


def test_gradients_are_those_of_finite_differences(model: CaptionerModel) -> None:
    """Along one random direction through all weights at once, in evaluation mode."""
    if model.decoder.draws is not None:
        pytest.skip("the most likely position has no slope")
    model.doubly_stochastic = 0.3 if model.decoder.attends else 0.0
    task = Captioning(CaptioningConfig(size=SIZE), positions=9)
    parameters = [value for value in model.parameters() if value.requires_grad]

    def loss() -> torch.Tensor:
        return task.loss(model, batch(), step=0).objective

    numerical, analytical = slopes_in_a_direction(loss, parameters, step=1e-7)
    assert numerical == pytest.approx(analytical, rel=1e-3)


def test_sizes_are_coprime() -> None:
    assert len({SIZE, TOKENS, VOCABULARY}) == 3


@torch.no_grad()
def test_probabilities_sum_to_one(model: CaptionerModel) -> None:
    context = model.prepare(images())
    output, _ = model.read(captions(), model.start(context), context)
    total = model.log_probs(output, context).exp().sum(dim=-1)
    assert_close(total, torch.ones_like(total), rtol=0, atol=1e-9)
