"""The laws of recognition, over one list of all recognisers: padding, rows, batches, gradients and texts."""

import pytest
import torch
from torch.testing import assert_close

from calque.data.speech_batch import SpeechBatch
from calque.engine.speech_decoding import SpeechDecoder, SpeechSearch
from calque.layers.spec_augment import SpecAugmentConfig
from calque.models.recogniser import RecogniserModel
from calque.search.settings import SearchConfig
from calque.tasks.recognition import recognition_loss
from calque.tensors import Padded, length_mask
from calque.text import PAD
from calque.training.capturing import hidden
from tests.laws.recognisers import RECOGNISERS, SAMPLES, SIZES, audio, build, targets
from tests.laws.slopes import slopes_in_a_direction

NAMES = sorted(RECOGNISERS)


@pytest.fixture(params=NAMES)
def model(request: pytest.FixtureRequest) -> RecogniserModel:
    return build(request.param)


def select(recordings: Padded, rows: list[int], *, size: int | None = None) -> Padded:
    """Some rows of recordings, cut to `size` samples."""
    return Padded(recordings.values[rows, :size], recordings.lengths[rows])


def losses(model: RecogniserModel, recordings: Padded, rows: list[int]) -> torch.Tensor:
    inputs, outputs, lengths = targets()
    found = model.losses(model(recordings), inputs[rows], outputs[rows], lengths[rows])
    return torch.stack([part for part in found if part is not None], dim=1)


@torch.no_grad()
def test_padding_affects_nothing(model: RecogniserModel) -> None:
    recordings, other = audio(), audio(seed=1)
    mask = length_mask(recordings.lengths, size=recordings.values.shape[1])
    disturbed = Padded(recordings.values.where(mask, other.values), recordings.lengths)
    rows = [0, 1, 2]
    assert_close(losses(model, recordings, rows), losses(model, disturbed, rows), rtol=0, atol=1e-9)
    heard, also = model(recordings), model(disturbed)
    inside = length_mask(heard.lengths, size=heard.memory.values.shape[1])
    assert_close(heard.memory.values[inside], also.memory.values[inside], rtol=0, atol=1e-9)


@torch.no_grad()
def test_rows_are_read_alike_in_any_order_and_company(model: RecogniserModel) -> None:
    recordings = audio()
    whole = losses(model, recordings, [0, 1, 2])
    for rows, size in (([2, 0, 1, 2], None), ([1, 2], SAMPLES[1]), ([2], SAMPLES[2])):
        part = losses(model, select(recordings, rows, size=size), rows)
        assert_close(part, whole[rows], rtol=0, atol=1e-9)


@torch.no_grad()
def test_lengths_are_known_on_the_host(model: RecogniserModel) -> None:
    heard = model(audio())
    assert heard.lengths.device.type == "cpu"
    assert torch.equal(heard.memory.mask.sum(dim=1), heard.lengths)
    silent = model(Padded(torch.zeros(1, 5, dtype=torch.int16), torch.tensor([0])))
    assert silent.lengths.tolist() == [1] and silent.memory.values.isfinite().all()


@torch.no_grad()
@pytest.mark.parametrize("beam", [1, 4])
def test_texts_do_not_depend_on_the_batch(model: RecogniserModel, beam) -> None:
    search = SearchConfig(beam=beam, length_penalty=0.0 if beam == 1 else 0.6, maximum=6)
    decoder = SpeechDecoder(model, SpeechSearch(search, nbest=min(2, beam)))
    recordings = audio()
    together = decoder.decode(model(recordings))
    for row, length in enumerate(SAMPLES):
        (alone,) = decoder.decode(model(select(recordings, [row], size=length)))
        assert [item.tokens for item in alone] == [item.tokens for item in together[row]]
        assert [item.score for item in alone] == pytest.approx([item.score for item in together[row]], abs=1e-6)


def test_every_parameter_learns(model: RecogniserModel) -> None:
    model.train()
    losses(model, audio(), [0, 1, 2]).sum().backward()
    idle = {name for name, value in model.named_parameters() if value.requires_grad and value.grad is None}
    assert not idle


def test_gradients_are_those_of_finite_differences(model: RecogniserModel) -> None:
    """Along one random direction through all weights at once."""
    parameters = [value for value in model.parameters() if value.requires_grad]
    recordings = audio()
    numerical, analytical = slopes_in_a_direction(
        lambda: losses(model, recordings, [0, 1, 2]).sum(), parameters, step=1e-6
    )
    assert numerical == pytest.approx(analytical, rel=1e-3)


@torch.no_grad()
def test_masks_are_for_training_only() -> None:
    config = RECOGNISERS["lstm-ctc-1"].model_copy(update={"augmentation": SpecAugmentConfig()})
    torch.manual_seed(0)
    inputs = RecogniserModel(config, sizes=SIZES).double().inputs
    recordings = audio()
    first, again = (inputs.eval()(recordings).values for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(inputs.train()(recordings).values, first)


@torch.no_grad()
def test_the_loss_weighs_both_heads_and_fillers_count_nothing() -> None:
    """λ CTC + (1 − λ) attention, of the rows with a text to predict; a row that fills a shape has none."""
    model, recordings = build("lstm-hybrid-luong"), audio()
    model.ctc_weight = 0.2
    inputs, outputs, lengths = targets()
    ctc, attention = model.losses(model(recordings), inputs, outputs, lengths)
    assert ctc is not None and attention is not None
    is_real = torch.tensor([True, False, True])
    outputs = outputs.masked_fill(~is_real[:, None], PAD)
    batch = SpeechBatch(recordings, inputs, outputs, (lengths + 1) * is_real, weight=6, shared_weight=6, hop=80)
    loss = recognition_loss(model, batch)
    expected = (0.2 * ctc + 0.8 * attention)[is_real].sum()
    assert_close(loss.objective, expected, rtol=0, atol=1e-9)
    assert_close(loss.parts["ctc"], ctc[is_real].sum(), rtol=0, atol=1e-9)
    assert_close(loss.parts["attention"], attention[is_real].sum(), rtol=0, atol=1e-9)


ON_THE_DEVICE = [name for name in NAMES if not name.startswith(("lstm", "gru"))]  # on a CPU, these pack rows


@torch.no_grad()
@pytest.mark.parametrize("name", ON_THE_DEVICE)
def test_lengths_on_the_device_are_enough_for_the_loss(name: str) -> None:
    """So that a pass can be captured as a CUDA graph, whose host knows no lengths and whose shapes are wide."""
    model, recordings = build(name), audio()
    inputs, outputs, lengths = targets()
    values = torch.nn.functional.pad(recordings.values, (0, 500), value=7)
    placed = Padded(values, hidden(recordings.lengths), recordings.lengths)
    heard = model(placed)
    captured = model.losses(heard, inputs, outputs, hidden(lengths))
    assert heard.memory.mask.shape[1] > model(recordings).memory.mask.shape[1]
    expected = model.losses(model(recordings), inputs, outputs, lengths)
    assert_close(captured, expected, rtol=0, atol=1e-9)


@torch.no_grad()
def test_probabilities_sum_to_one(model: RecogniserModel) -> None:
    """Those of CTC at every position, and those of the decoder after every token."""
    heard = model(audio())
    if model.ctc is not None:
        assert_close(model.ctc_log_probs(heard).exp().sum(dim=-1), torch.ones(heard.memory.mask.shape).double())
    if model.speller is not None:
        inputs, _, _ = targets()
        context = model.speller.attend(heard.memory)
        output, _ = model.speller.read(inputs, model.speller.start(context), context)
        total = model.speller.log_probs(output, context).exp().sum(dim=-1)
        assert_close(total, torch.ones_like(total), rtol=0, atol=1e-9)
