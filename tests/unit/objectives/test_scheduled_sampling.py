"""Scheduled sampling: with reference words it is teacher forcing, without them free-running decoding."""

import math

import pytest
import torch
from tests.conftest import FAMILIES
from tests.unit.objectives.objects import PAIRS, SHAPES, SIZE, gradients, make_batch, make_model, translation_loss

from calque.data.buckets import Size
from calque.models.model import Context
from calque.objectives.cross_entropy import loss_of
from calque.objectives.scheduled_sampling import (
    ExponentialConfig,
    InverseSigmoidConfig,
    LinearConfig,
    ScheduledSamplingConfig,
    _in_two_passes,
    _word_by_word,
    draw_gold,
    gold_probability,
    read_mixed,
)
from calque.text import BOS, PAD

COPIED = [([8, 5, 9], [9, 4, 8]), ([4, 9, 8], [8, 9]), ([8], [8, 8, 4, 8])]  # words outside the vocabulary
SERIAL = [family for family in FAMILIES if family not in ("convolutional", "transformer")]
ATTENDING = [family for family in FAMILIES if family != "plain"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_with_reference_words_only_it_is_teacher_forcing(family: str, shape) -> None:
    model, batch = make_model(family), make_batch(shape)
    gold = torch.ones_like(batch.target_input, dtype=torch.bool)
    expected = translation_loss(model, batch, smoothing=0.1)
    slopes = gradients(model, expected.objective)
    ways = [_word_by_word] if family in SERIAL else [_in_two_passes, _word_by_word]
    for read in ways:
        output = read(model, batch, gold, "sample", False)
        loss = loss_of(model, output, batch, smoothing=0.1)
        assert loss.objective.item() == pytest.approx(expected.objective.item(), abs=1e-9)
        assert loss.cross_entropy.item() == pytest.approx(expected.cross_entropy.item(), abs=1e-9)
        mixed_slopes = gradients(model, loss.objective)
        assert mixed_slopes.keys() == slopes.keys()
        assert all(torch.allclose(mixed_slopes[name], slopes[name], rtol=0, atol=1e-9) for name in slopes)
    direct = read_mixed(model, batch, gold=gold, choice="sample")
    assert torch.allclose(direct.hidden, model(batch.source, batch.target_input).hidden, rtol=0, atol=1e-9)


def free_running(model, source, targets) -> torch.Tensor:
    """The cross-entropy of targets [T] if the decoder reads its own most likely words, computed plainly."""
    context = model.decoder.prepare(model.encoder(source))
    state, token, total = model.decoder.start(context), BOS, torch.zeros((), dtype=torch.float64)
    for target in targets:
        output, state = model.decoder(torch.tensor([[token]]), state, context)
        log_probs = model.output.log_probs(output.hidden)[0, 0]
        total = total - log_probs[target]
        token = max((id for id in range(len(log_probs)) if id not in (PAD, BOS)), key=lambda id: log_probs[id].item())
    return total


@pytest.mark.parametrize("family", SERIAL)
def test_without_reference_words_recurrent_decoders_run_free(family: str) -> None:
    model, batch = make_model(family), make_batch()
    gold = draw_gold(batch, probability=0.0)
    loss = loss_of(model, read_mixed(model, batch, gold=gold, choice="best"), batch, smoothing=0.0).objective
    parts = []
    for row, length in enumerate(batch.target_lengths.tolist()):
        size = int(batch.source.lengths[row])
        source = batch.source._replace(
            values=batch.source.values[row : row + 1, :size], lengths=batch.source.lengths[row : row + 1]
        )
        parts.append(free_running(model, source, batch.target_output[row, :length].tolist()))
    assert loss.item() == pytest.approx(torch.stack(parts).sum().item(), abs=1e-9)
    assert loss.item() != pytest.approx(translation_loss(model, batch, smoothing=0.0).objective.item(), abs=1e-3)
    slopes, expected = gradients(model, loss), gradients(model, torch.stack(parts).sum())
    assert all(torch.allclose(slopes[name], expected[name], rtol=0, atol=1e-9) for name in expected)


@pytest.mark.parametrize(
    ("family", "copies"), [("convolutional", False), ("transformer", False), ("transformer", True)]
)
def test_the_second_pass_reads_predictions_of_the_first(family: str, copies: bool) -> None:
    """Copied words too, each from its own sentence."""
    model = make_model(family, *(["decoder.copies=true"] if copies else []))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if copies and name.endswith("dense.bias"):
                parameter.fill_(-9.0)  # nearly every word is copied
    batch = make_batch(pairs=COPIED if copies else PAIRS)
    torch.manual_seed(5)
    gold = draw_gold(batch, probability=0.4)
    context = Context(None, batch.source.values if copies else None)
    log_probs = model.log_probs(model(batch.source, batch.target_input), context)
    log_probs[..., [PAD, BOS]] = -torch.inf
    mixed = batch.target_input.clone()
    for row, position in (~gold).nonzero().tolist():
        mixed[row, position] = int(log_probs[row, position - 1].argmax())
    assert not torch.equal(mixed, batch.target_input)
    assert (mixed >= SIZE).any() == copies
    expected = loss_of(model, model(batch.source, mixed), batch, smoothing=0.1).objective
    loss = loss_of(model, read_mixed(model, batch, gold=gold, choice="best"), batch, smoothing=0.1).objective
    assert loss.item() == pytest.approx(expected.item(), abs=1e-9)
    slopes, expected_slopes = gradients(model, loss), gradients(model, expected)  # the first pass has none
    assert all(torch.allclose(slopes[name], slope, rtol=0, atol=1e-9) for name, slope in expected_slopes.items())


@pytest.mark.parametrize("family", ["luong", "transformer"])
def test_sampled_words_follow_the_models_distribution(family: str) -> None:
    model = make_model(family)
    batch = make_batch(Size(200, (3, 3)), pairs=[([4, 5], [6, 7])] * 200)
    gold = torch.ones_like(batch.target_input, dtype=torch.bool)
    gold[:, 1] = False
    probs = model.output.log_probs(model(batch.source, batch.target_input).hidden)[0, 0].exp()
    probs[[PAD, BOS]] = 0
    read: list[int] = []
    model.read = _spied(model.read, read)  # type: ignore[method-assign]
    torch.manual_seed(0)
    for _ in range(10):
        read_mixed(model, batch, gold=gold, choice="sample")
    counts = torch.bincount(torch.tensor(read), minlength=len(probs)).double()
    expected = probs / probs.sum() * len(read)
    assert len(read) == 2000
    assert ((counts - expected).abs() < 4 * expected.clamp(min=1).sqrt() + 1).all()


def _spied(function, read: list[int]):
    """Records the second tokens that the last pass over a batch reads."""

    def call(tokens, state, context, **options):
        if tokens.shape[1] == 1:
            call.count += 1
            if call.count % 3 == 2:
                read.extend(tokens[:, 0].tolist())
        else:
            call.count += 1
            if call.count % 2 == 0:
                read.extend(tokens[:, 1].tolist())
        return function(tokens, state, context, **options)

    call.count = 0
    return call


@pytest.mark.parametrize("family", ATTENDING)
def test_attention_is_that_of_the_words_read(family: str) -> None:
    model, batch = make_model(family), make_batch()
    torch.manual_seed(0)
    gold = draw_gold(batch, probability=0.5)
    read = model.read
    tokens: list[torch.Tensor] = []

    def recorded(inputs, *arguments, **options):
        tokens.append(inputs)
        return read(inputs, *arguments, **options)

    model.read = recorded  # type: ignore[method-assign]
    output = read_mixed(model, batch, gold=gold, choice="best", attention=True)
    model.read = read  # type: ignore[method-assign]
    mixed = torch.cat(tokens, dim=1) if family in SERIAL else tokens[-1]
    assert not torch.equal(mixed, batch.target_input)
    expected = model(batch.source, mixed, attention=True).attention
    assert torch.allclose(output.attention, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("family", ["luong", "transformer"])
def test_models_that_copy_may_read_words_outside_the_vocabulary(family: str) -> None:
    model = make_model(family, "decoder.copies=true")
    batch = make_batch(SHAPES[0], pairs=[([8, 5, 9], [9, 4, 8]), ([4], [4, 4])])
    gold = draw_gold(batch, probability=0.0)
    loss = loss_of(model, read_mixed(model, batch, gold=gold, choice="sample"), batch, smoothing=0.1)
    assert loss.objective.isfinite()


def test_hard_attention_learns_from_its_samples() -> None:
    model = make_model("luong", "decoder.attention.choice=hard").train()
    batch = make_batch()
    output = read_mixed(model, batch, gold=draw_gold(batch, probability=0.0), choice="best")
    assert output.chosen is not None
    assert output.chosen.shape == batch.target_input.shape
    loss = loss_of(model, output, batch, smoothing=0.0)
    assert any(slope.abs().sum() > 0 for slope in gradients(model, loss.objective).values())


def test_padding_and_begin_marks_are_kept(seed: int) -> None:
    torch.manual_seed(seed)
    batch = make_batch(SHAPES[1])
    gold = draw_gold(batch, probability=0.0)
    lengths = batch.target_lengths.tolist()
    assert (~gold).sum(dim=1).tolist() == [max(0, length - 1) for length in lengths]
    assert gold[:, 0].all()


def test_schedules_are_those_of_the_paper() -> None:
    def at(step: int, decay, minimum: float = 0.0) -> float:
        return gold_probability(ScheduledSamplingConfig(decay=decay, minimum=minimum), step=step)

    sigmoid, exponential, linear = InverseSigmoidConfig(k=100), ExponentialConfig(k=0.99), LinearConfig(k=0.9, c=0.001)
    assert at(0, sigmoid) == pytest.approx(100 / 101)
    assert at(round(100 * math.log(100)), sigmoid) == pytest.approx(0.5, abs=1e-2)
    assert at(10**9, sigmoid) == pytest.approx(0.0)
    assert at(50, exponential) == pytest.approx(0.99**50)
    assert at(400, linear) == pytest.approx(0.5)
    assert at(10**6, linear, minimum=0.25) == 0.25
    assert at(10**6, exponential, minimum=0.25) == 0.25
    for decay in (sigmoid, exponential, linear):
        values = [at(step, decay) for step in range(0, 900, 30)]
        assert values == sorted(values, reverse=True)
