"""Chains of labels against the enumeration of all label sequences, and against the linear-chain CRF."""

from itertools import pairwise, product

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from calque.layers.crf import Allowed, LinearChainCRF
from calque.layers.label_chain import ChainScores, LabelChain

LABELS, WORDS, LENGTHS = 3, 5, (5, 1, 2, 0, 4)
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def chain(*, second: bool, kinds: int = 2, seed: int = 0) -> LabelChain:
    """Random scores; what follows a sentence's end is random too."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    before, histories = (kinds, 1 + LABELS) if second else (1, 1)
    transitions = ChainScores(
        random(kinds, LABELS),
        random(before, kinds, kinds, histories, LABELS, LABELS),
        random(before, kinds, histories, LABELS),
    )
    rows = len(LENGTHS)
    words = torch.randint(0, kinds, (rows, WORDS), generator=generator)
    return LabelChain(random(rows, WORDS, LABELS), words, torch.tensor(LENGTHS), transitions)


def score(chain: LabelChain, row: int, labels: tuple[int, ...]) -> float:
    """The score of a label sequence, as the class says it."""
    start, steps, ends = chain.transitions
    kinds, second = chain.kinds[row].tolist(), len(steps) > 1
    total = float(start[kinds[0], labels[0]])
    for t, label in enumerate(labels):
        total += float(chain.emissions[row, t, label])
        history = labels[t - 2] + 1 if second and t > 1 else 0
        earlier = kinds[t - 2] if second and t > 1 else 0
        if t:
            total += float(steps[earlier, kinds[t - 1], kinds[t], history, labels[t - 1], label])
    last = len(labels) - 1
    history = labels[last - 1] + 1 if second and last else 0
    earlier = kinds[last - 1] if second and last else 0
    return total + float(ends[earlier, kinds[last], history, labels[last]])


@pytest.mark.parametrize("second", [False, True])
def test_sums_marginals_and_best_sequences_equal_enumeration(second: bool, seed: int) -> None:
    labels = chain(second=second, seed=seed)
    partition, marginals, best = labels.log_partition(), labels.log_marginals(), labels.viterbi()
    for row, length in enumerate(LENGTHS):
        if not length:
            assert partition[row] == best.scores[row] == 0
            assert not best.labels[row].any() and not marginals[row].any()
            continue
        scores = {path: score(labels, row, path) for path in product(range(LABELS), repeat=length)}
        total = torch.tensor(list(scores.values()), dtype=torch.float64).logsumexp(0)
        assert_close(partition[row], total, **CLOSE)
        shares = torch.zeros(WORDS, LABELS, dtype=torch.float64)
        for path, value in scores.items():
            for word, label in enumerate(path):
                shares[word, label] += (value - total).exp()
        assert_close(marginals[row, :length].exp(), shares[:length], **CLOSE)
        assert not marginals[row, length:].any()
        winner = max(scores, key=lambda path: scores[path])
        assert best.labels[row].tolist() == [*winner, *[0] * (WORDS - length)]
        assert float(best.scores[row]) == pytest.approx(scores[winner])


@pytest.mark.parametrize("second", [False, True])
def test_only_allowed_sequences_are_found(second: bool, seed: int) -> None:
    labels = chain(second=second, seed=seed)
    allowed = Allowed(torch.rand(LABELS, LABELS) < 0.6, torch.tensor([True, False, True]), torch.tensor([1, 1, 0]) > 0)
    best = labels.viterbi(allowed=allowed)
    for row, length in enumerate(LENGTHS):
        scores = {
            path: score(labels, row, path)
            for path in product(range(LABELS), repeat=length)
            if length
            and allowed.start[path[0]]
            and allowed.end[path[-1]]
            and all(allowed.transitions[pair] for pair in pairwise(path))
        }
        if scores:
            winner = max(scores, key=lambda path: scores[path])
            assert best.labels[row, :length].tolist() == list(winner)
        elif length:
            assert best.scores[row] == -torch.inf


def test_the_first_order_is_a_linear_chain_crf(seed: int) -> None:
    crf = LinearChainCRF(LABELS).double()
    labels = chain(second=False, kinds=1, seed=seed)
    start, steps, ends = labels.transitions
    with torch.no_grad():
        crf.start.copy_(start[0])
        crf.transitions.copy_(steps[0, 0, 0, 0])
        crf.end.copy_(ends[0, 0, 0])
        assert_close(labels.log_partition(), crf.log_partition(labels.emissions, labels.lengths), **CLOSE)
        assert_close(labels.log_marginals(), crf.log_marginals(labels.emissions, labels.lengths), **CLOSE)
        ours, theirs = labels.viterbi(), crf.viterbi(labels.emissions, labels.lengths)
    assert torch.equal(ours.labels, theirs.labels)
    assert_close(ours.scores, theirs.scores, **CLOSE)
