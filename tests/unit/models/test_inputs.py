"""Inputs of encoders: frames that are stacked, words of several parts, and characters; each against a plain loop."""

import pytest
import torch
from torch.testing import assert_close

from calque.layers.embedding import UNKNOWN
from calque.models.characters import (
    ConvolutionalCharacters,
    ConvolutionalCharactersConfig,
    RecurrentCharacters,
    RecurrentCharactersConfig,
)
from calque.models.convolutional import ConvolutionalEncoderConfig
from calque.models.inputs import FrameInputs, WordInputs, Words
from calque.models.model import build_encoder
from calque.models.recurrent import RecurrentEncoderConfig
from calque.models.transformer import TransformerEncoderConfig
from calque.tensors import Padded

FEATURES, STACKED, WIDTH = 5, 3, 8
LENGTHS = torch.tensor([7, 6, 1])


def frames(seed: int = 0) -> Padded:
    generator = torch.Generator().manual_seed(seed)
    return Padded(torch.randn(3, 7, FEATURES, generator=generator, dtype=torch.float64), LENGTHS)


def disturbed(source: Padded) -> Padded:
    other = frames(seed=1)
    return Padded(source.values.where(source.mask[..., None], other.values), source.lengths)


def test_frames_are_stacked_as_a_loop_does_it() -> None:
    inputs = FrameInputs(FEATURES, stacked=STACKED, width=WIDTH).double()
    source = frames()
    vectors = inputs(source)
    assert vectors.lengths.tolist() == [3, 2, 1] and vectors.lengths.device.type == "cpu"
    for row, length in enumerate(LENGTHS.tolist()):
        for group in range(-(-length // STACKED)):
            parts = [source.values[row, at] if at < length else torch.zeros(FEATURES).double() for at in
                     range(group * STACKED, (group + 1) * STACKED)]  # fmt: skip
            assert_close(vectors.values[row, group], inputs.linear(torch.cat(parts)))


@pytest.mark.parametrize(
    "config",
    [
        RecurrentEncoderConfig(layers=1, width=6),
        TransformerEncoderConfig(layers=1, width=8, heads=2, feed_forward=16),
        ConvolutionalEncoderConfig(layers=2, width=6, embedding=5, kernel=3),
    ],
    ids=lambda config: config.kind,
)
@torch.no_grad()
def test_an_encoder_of_frames_obeys_the_laws_of_padding_and_rows(config) -> None:
    torch.manual_seed(0)
    encoder = build_encoder(config, inputs=FrameInputs(FEATURES, stacked=STACKED, width=WIDTH)).double().eval()
    source = frames()
    memory, other = encoder(source), encoder(disturbed(source))
    assert memory.tokens is None and memory.mask.sum(dim=1).tolist() == [3, 2, 1]
    assert_close(memory.values[memory.mask], other.values[memory.mask], rtol=0, atol=1e-9)
    alone = encoder(Padded(source.values[1:2, :6], LENGTHS[1:2]))
    assert_close(alone.values[0, :2], memory.values[1, :2], rtol=0, atol=1e-9)
    assert encoder.shape.width == memory.values.shape[2] and encoder.shape.inputs == memory.inputs.shape[2]


def words() -> Words:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(4, 20, (2, 5), generator=generator)
    characters = torch.randint(4, 9, (2, 5, 6), generator=generator)
    return Words(ids, torch.tensor([5, 3]), characters, torch.tensor([[1, 2, 3, 4, 6], [6, 5, 1, 0, 0]]), (ids % 7,))


@pytest.mark.parametrize(
    "characters",
    [
        RecurrentCharacters(RecurrentCharactersConfig(embedding=3, width=4), vocabulary_size=9),
        ConvolutionalCharacters(ConvolutionalCharactersConfig(embedding=3, width=4), vocabulary_size=9),
    ],
    ids=["recurrent", "convolutional"],
)
def test_a_word_is_its_parts_side_by_side(characters) -> None:
    inputs = WordInputs(20, width=3, characters=characters, columns={"pos": 7}, column_width=2).double().eval()
    source = words()
    vectors = inputs(source)
    assert vectors.values.shape == (2, 5, inputs.width) and inputs.width == 3 + 4 + 2
    for row, length in enumerate([5, 3]):
        for at in range(length):
            size = int(source.word_lengths[row, at])
            spelled = characters(Padded(source.characters[row : row + 1, at, :size], torch.tensor([size])))
            parts = [inputs.words.weight[source.words[row, at]], spelled[0]]
            parts.append(inputs.columns[0].weight[source.columns[0][row, at]])
            assert_close(vectors.values[row, at], torch.cat(parts))


def test_words_are_read_as_unknown_in_training_only_and_as_often_as_said() -> None:
    torch.manual_seed(0)
    inputs = WordInputs(20, width=3, word_dropout=0.3)
    source = Words(torch.randint(4, 20, (100, 100)), torch.full((100,), 100))
    unknown = inputs.words.weight[UNKNOWN]
    share = (inputs(source).values == unknown).all(dim=-1).double().mean()
    assert abs(float(share) - 0.3) < 0.02
    assert not (inputs.eval()(source).values == unknown).all(dim=-1).any()


def test_filters_are_a_plain_convolution_over_the_word_with_zeros_around_it() -> None:
    torch.manual_seed(0)
    encoder = ConvolutionalCharacters(ConvolutionalCharactersConfig(embedding=3, width=5), vocabulary_size=9).double()
    spelled = Padded(torch.randint(0, 9, (2, 4)), torch.tensor([4, 2]))
    result = encoder.eval()(spelled)
    for row, length in enumerate([4, 2]):
        zero = torch.zeros(3).double()
        vectors = [zero, *encoder.embedding.weight[spelled.values[row, :length]], zero]
        windows = [torch.stack(vectors[at : at + 3], dim=1) for at in range(length)]
        filtered = [
            (encoder.convolution.weight * window).sum(dim=(1, 2)) + encoder.convolution.bias for window in windows
        ]
        assert_close(result[row], torch.stack(filtered).amax(dim=0))
