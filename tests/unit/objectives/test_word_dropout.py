"""Word dropout: unknown words in the inputs at the configured rate; marks and outputs do not change."""

import pytest
import torch
from tests.unit.objectives.objects import SHAPES, make_batch

from calque.data.buckets import Size
from calque.objectives.word_dropout import WordDropoutConfig, drop_words
from calque.text import UNK


@pytest.mark.parametrize(("source", "target"), [(0.3, 0.0), (0.0, 0.3), (0.6, 0.2)])
def test_words_become_unknown_at_the_configured_rate(source: float, target: float) -> None:
    batch = make_batch(Size(100, (41, 31)), pairs=[([4] * 40, [5] * 30)] * 100)
    torch.manual_seed(0)
    dropped = drop_words(batch, WordDropoutConfig(source=source, target=target))
    for values, before, rate, words in (
        (dropped.source.values, batch.source.values, source, 4000),
        (dropped.target_input, batch.target_input, target, 3000),
    ):
        count = (values == UNK).sum().item()
        assert abs(count - rate * words) <= 4 * (rate * (1 - rate) * words) ** 0.5
        assert torch.equal(values[values != UNK], before[values != UNK])
    assert dropped.target_output is batch.target_output
    assert dropped.source.lengths is batch.source.lengths


def test_marks_and_padding_are_kept() -> None:
    batch = make_batch(SHAPES[1])
    torch.manual_seed(0)
    dropped = drop_words(batch, WordDropoutConfig(source=0.999, target=0.999))
    for values, before in ((dropped.source.values, batch.source.values), (dropped.target_input, batch.target_input)):
        is_word = before > UNK
        assert torch.equal(values[~is_word], before[~is_word])
        assert (values[is_word] == UNK).float().mean() > 0.8


def test_dropped_words_depend_only_on_the_generator() -> None:
    batch, config = make_batch(), WordDropoutConfig(source=0.5, target=0.5)
    batches = []
    for seed in (7, 7, 8):
        torch.manual_seed(seed)
        batches.append(drop_words(batch, config))
    assert torch.equal(batches[0].source.values, batches[1].source.values)
    assert torch.equal(batches[0].target_input, batches[1].target_input)
    assert not torch.equal(batches[0].source.values, batches[2].source.values)
