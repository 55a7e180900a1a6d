"""The heads of taggers: losses and probabilities of labels, against sums written out for each word."""

import pytest
import torch
from torch import Tensor

from calque.models.tagger import CrfHead, SoftmaxHead, build_head

WIDTH, LABELS = 4, 3
LENGTHS = torch.tensor([4, 1, 0])


def hidden() -> Tensor:
    return torch.randn(3, 4, WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def labels() -> Tensor:
    return torch.randint(0, LABELS, (3, 4), generator=torch.Generator().manual_seed(1))


def head_of(name: str) -> SoftmaxHead | CrfHead:
    torch.manual_seed(2)
    return build_head(name, width=WIDTH, labels=LABELS).double()  # type: ignore[arg-type]


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("training", [False, True])
@torch.no_grad()
def test_the_softmax_loss_is_a_sum_over_words_and_smoothed_in_training_only(training: bool, smoothing: float) -> None:
    head = head_of("softmax").train(training)
    assert isinstance(head, SoftmaxHead)
    scores, gold = head.scores(hidden()), labels()
    losses = head.losses(scores, gold, LENGTHS, smoothing=smoothing)
    share = smoothing if training else 0.0
    for row, length in enumerate(LENGTHS.tolist()):
        expected = 0.0
        for at in range(length):
            logs = scores[row, at] - scores[row, at].exp().sum().log()
            expected -= float((1 - share) * logs[gold[row, at]] + share * logs.mean())
        assert float(losses[row]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["softmax", "crf"])
def test_log_marginals_are_the_logs_of_the_marginals(name: str) -> None:
    head = head_of(name)
    scores = head.scores(hidden())
    shares, logs = head.marginals(scores, LENGTHS), head.log_marginals(scores, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        torch.testing.assert_close(logs[row, :length].exp(), shares[row, :length], rtol=0, atol=1e-12)
        torch.testing.assert_close(shares[row, :length].sum(dim=-1), torch.ones(length, dtype=torch.float64))
        assert not logs[row, length:].any() and not shares[row, length:].any()
