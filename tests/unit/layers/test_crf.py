"""The CRF against all label sequences written out; padding, rows and precision; which sequences BIO allows.

Letters: B sentences, T words, Y labels.
"""

import math
from itertools import pairwise, product

import pytest
import torch
from tests.laws.models import loud
from torch import Tensor
from torch.nn import functional as F

from calque.layers.crf import Allowed, LinearChainCRF, allowed_transitions

T, Y = 5, 3
LENGTHS = torch.tensor([5, 0, 2, 1])
B = len(LENGTHS)
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def crf(labels: int = Y, *, seed: int = 0) -> LinearChainCRF:
    return loud(LinearChainCRF(labels), seed=seed)


def random_scores(*, labels: int = Y, rows: int = B, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(rows, T, labels, dtype=torch.float64, generator=generator)


def random_labels(*, seed: int = 2) -> Tensor:
    return torch.randint(Y, (B, T), generator=torch.Generator().manual_seed(seed))


def sequences(layer: LinearChainCRF, scores: Tensor) -> dict[tuple[int, ...], float]:
    """Every label sequence of a sentence [T,Y] with its score, added up one term after the other."""
    transitions, start, end = layer.transitions.tolist(), layer.start.tolist(), layer.end.tolist()
    totals = {}
    for labels in product(range(scores.shape[1]), repeat=len(scores)):
        total = sum(scores[place, label].item() for place, label in enumerate(labels))
        total += sum(transitions[before][after] for before, after in pairwise(labels))
        totals[labels] = total + start[labels[0]] + end[labels[-1]] if labels else 0.0
    return totals


def of_rows(layer: LinearChainCRF, scores: Tensor) -> list[dict[tuple[int, ...], float]]:
    return [sequences(layer, row[:length]) for row, length in zip(scores, LENGTHS.tolist(), strict=True)]


def log_sum(values) -> float:
    values = list(values)
    return max(values) + math.log(math.fsum(math.exp(value - max(values)) for value in values))


# Against all label sequences


def test_the_partition_is_the_sum_over_all_sequences() -> None:
    layer, scores = crf(), random_scores()
    expected = [log_sum(totals.values()) for totals in of_rows(layer, scores)]
    torch.testing.assert_close(
        layer.log_partition(scores, LENGTHS), torch.tensor(expected, dtype=torch.float64), **CLOSE
    )
    assert expected[1] == 0


def test_a_sequence_has_the_score_of_its_parts() -> None:
    layer, scores, labels = crf(), random_scores(), random_labels()
    rows = zip(of_rows(layer, scores), labels.tolist(), LENGTHS.tolist(), strict=True)
    expected = torch.tensor([totals[tuple(row[:length])] for totals, row, length in rows], dtype=torch.float64)
    torch.testing.assert_close(layer.path_score(scores, labels, LENGTHS), expected, **CLOSE)


def test_probabilities_of_all_sequences_add_up_to_one() -> None:
    layer, scores = crf(), random_scores(rows=1)
    labels = torch.tensor(list(product(range(Y), repeat=T)))
    losses = layer.loss(scores.expand(len(labels), -1, -1), labels, torch.full((len(labels),), T))
    assert losses.min() > 0
    assert (-losses).exp().sum().item() == pytest.approx(1.0, abs=1e-9)


def test_marginals_are_the_summed_probabilities_of_sequences() -> None:
    layer, scores = crf(), random_scores()
    expected = torch.zeros(B, T, Y, dtype=torch.float64)
    for row, totals in enumerate(of_rows(layer, scores)):
        partition = log_sum(totals.values())
        for labels, total in totals.items():
            for place, label in enumerate(labels):
                expected[row, place, label] += math.exp(total - partition)
    torch.testing.assert_close(layer.marginals(scores, LENGTHS), expected, **CLOSE)


def test_marginals_are_the_slope_of_the_partition() -> None:
    layer, scores = crf(), random_scores().requires_grad_()
    slope = torch.autograd.grad(layer.log_partition(scores, LENGTHS).sum(), scores)[0]
    torch.testing.assert_close(layer.marginals(scores, LENGTHS), slope, **CLOSE)


@pytest.mark.parametrize("trial", range(8))
def test_viterbi_finds_the_best_sequence(trial: int, seed: int) -> None:
    layer, scores = crf(seed=seed + trial), random_scores(seed=seed - trial)
    paths = layer.viterbi(scores, LENGTHS)
    for row, totals in enumerate(of_rows(layer, scores)):
        best = max(totals, key=totals.__getitem__)
        assert tuple(paths.labels[row, : LENGTHS[row]].tolist()) == best
        assert paths.scores[row].item() == pytest.approx(totals[best], abs=1e-9)
    torch.testing.assert_close(layer.path_score(scores, paths.labels, LENGTHS), paths.scores, **CLOSE)


def is_allowed(labels: tuple[int, ...], allowed: Allowed) -> bool:
    steps = all(allowed.transitions[step] for step in pairwise(labels))
    return not labels or bool(steps and allowed.start[labels[0]] and allowed.end[labels[-1]])


@pytest.mark.parametrize("trial", range(8))
def test_viterbi_finds_the_best_of_the_allowed_sequences(trial: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed + trial)
    allowed = Allowed(*(torch.rand(size, generator=generator) < 0.6 for size in ((Y, Y), Y, Y)))
    layer, scores = crf(seed=seed - trial), random_scores(seed=seed + trial)
    paths = layer.viterbi(scores, LENGTHS, allowed=allowed)
    for row, totals in enumerate(of_rows(layer, scores)):
        best = max((labels for labels in totals if is_allowed(labels, allowed)), key=totals.__getitem__, default=None)
        expected = -math.inf if best is None else totals[best]
        assert paths.scores[row].item() == pytest.approx(expected, abs=1e-9)
        if best is not None:
            assert tuple(paths.labels[row, : LENGTHS[row]].tolist()) == best


def test_viterbi_gives_equal_scores_to_the_lower_label() -> None:
    paths = LinearChainCRF(Y).viterbi(torch.zeros(2, T, Y), torch.tensor([T, 2]))
    assert not paths.labels.any()
    assert not paths.scores.any()


def test_without_transitions_words_are_labelled_independently() -> None:
    layer, scores, labels = LinearChainCRF(Y).double(), random_scores(), random_labels()
    losses = F.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="none").view(B, T)
    mask = torch.arange(T) < LENGTHS[:, None]
    torch.testing.assert_close(layer.loss(scores, labels, LENGTHS), (losses * mask).sum(dim=1), **CLOSE)
    torch.testing.assert_close(layer.marginals(scores, LENGTHS), scores.softmax(-1) * mask[..., None], **CLOSE)


# Padding, rows, precision, devices


def everything(layer: LinearChainCRF, scores: Tensor, labels: Tensor, lengths: Tensor) -> list[Tensor]:
    """All that the layer computes, rows first."""
    paths = layer.viterbi(scores, lengths)
    return [
        layer.log_partition(scores, lengths),
        layer.path_score(scores, labels, lengths),
        layer.loss(scores, labels, lengths),
        layer.marginals(scores, lengths),
        *paths,
    ]


@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf, 1e30])
def test_padding_changes_nothing(garbage: float) -> None:
    layer, scores, labels = crf(), random_scores(), random_labels()
    expected = everything(layer, scores, labels, LENGTHS)
    is_padding = torch.arange(T) >= LENGTHS[:, None]
    spoilt = scores.masked_fill(is_padding[..., None], garbage).requires_grad_()
    values = everything(layer, spoilt, labels.masked_fill(is_padding, -100), LENGTHS)
    for value, other in zip(values, expected, strict=True):
        assert torch.equal(value, other)
    layer.loss(spoilt, labels.masked_fill(is_padding, 10**9), LENGTHS).sum().backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in layer.parameters())
    assert spoilt.grad is not None
    assert spoilt.grad.isfinite().all()
    assert not spoilt.grad[is_padding].any()
    assert spoilt.grad[~is_padding].all()


def test_rows_do_not_depend_on_each_other() -> None:
    layer, scores, labels = crf(), random_scores(), random_labels()
    together = everything(layer, scores, labels, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = everything(layer, scores[row : row + 1, :length], labels[row : row + 1, :length], LENGTHS[row, None])
        for value, other in zip(alone, together, strict=True):
            cut = other[row : row + 1, :length] if other.dim() > 1 else other[row : row + 1]
            torch.testing.assert_close(value, cut, **CLOSE)


@pytest.mark.parametrize(("rows", "words"), [(2, 0), (0, 3), (0, 0), (2, 3)])
def test_batches_without_words(rows: int, words: int) -> None:
    layer, scores = crf(), torch.full((rows, words, Y), math.nan, dtype=torch.float64, requires_grad=True)
    labels, lengths = torch.full((rows, words), -1), torch.zeros(rows, dtype=torch.long)
    values = everything(layer, scores, labels, lengths)
    shapes = [(rows,)] * 3 + [(rows, words, Y), (rows, words), (rows,)]
    assert [tuple(value.shape) for value in values] == shapes
    assert not any(value.any() for value in values)
    layer.loss(scores, labels, lengths).sum().backward()
    assert not any(weight.grad.any() for weight in (*layer.parameters(), scores) if weight.grad is not None)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 1e-4)])
@pytest.mark.parametrize("weights", [torch.float32, torch.bfloat16])
def test_short_numbers_are_added_up_in_float32(dtype: torch.dtype, tolerance: float, weights: torch.dtype) -> None:
    """They are rounded before, so that all that differs is what the layer adds."""
    labels, scores = random_labels(), random_scores().to(dtype)
    layer = crf().to(weights)
    expected = everything(crf().to(weights).double(), scores.double(), labels, LENGTHS)
    for value, other in zip(everything(layer, scores, labels, LENGTHS), expected, strict=True):
        assert value.dtype in (torch.float32, torch.long)
        torch.testing.assert_close(value.to(other.dtype), other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("size", [1e3, 1e6, 1e30])
def test_large_scores_stay_finite(size: float) -> None:
    scores = (size * random_scores()).float().requires_grad_()
    layer = crf().float()
    layer.loss(scores, random_labels(), LENGTHS).sum().backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    best = layer.viterbi(scores, LENGTHS)
    torch.testing.assert_close(layer.log_partition(scores, LENGTHS), best.scores, rtol=1e-3, atol=2.0)
    torch.testing.assert_close(layer.marginals(scores, LENGTHS).sum(-1), (torch.arange(T) < LENGTHS[:, None]).float())


def test_a_constant_more_for_every_label_of_a_word_changes_no_loss() -> None:
    layer, scores, labels = crf(), random_scores(), random_labels()
    raised = scores + 1e5 * torch.arange(T, dtype=torch.float64)[:, None]
    expected = layer.loss(scores, labels, LENGTHS)
    torch.testing.assert_close(layer.loss(raised, labels, LENGTHS), expected, rtol=0, atol=1e-8)


def test_no_value_is_read_by_the_host() -> None:
    """Tensors on the meta device have none: whatever asks for a value fails. Lengths and `allowed` are on the CPU."""
    layer = LinearChainCRF(Y).to("meta")
    scores = torch.empty(B, T, Y, device="meta", requires_grad=True)
    labels = torch.empty(B, T, dtype=torch.long, device="meta")
    values = everything(layer, scores, labels, LENGTHS)
    values += layer.viterbi(scores, LENGTHS, allowed=allowed_transitions(["O", "B-X", "I-X"]))
    assert all(value.device.type == "meta" for value in values)
    layer.loss(scores, labels, LENGTHS).sum().backward()
    assert scores.grad is not None


# Which sequences are well formed


def well_formed(types: str, *, closed: bool, size: int) -> set[tuple[str, ...]]:
    """All sequences of `size` labels, put together from words outside and whole spans."""
    wholes: set[tuple[str, ...]] = {()}
    complete = set()
    while wholes:
        beginning = wholes.pop()
        room = size - len(beginning)
        if not room:
            complete.add(beginning)
            continue
        wholes.add((*beginning, "O"))
        for kind, length in product(types, range(1, room + 1)):
            if not closed:
                span = (f"B-{kind}", *[f"I-{kind}"] * (length - 1))
            elif length == 1:
                span = (f"S-{kind}",)
            else:
                span = (f"B-{kind}", *[f"I-{kind}"] * (length - 2), f"E-{kind}")
            wholes.add(beginning + span)
    return complete


BIO = ["I-X", "O", "B-Y", "B-X", "I-Y"]
IOBES = ["O", "E-X", "B-X", "S-X", "I-X", "S-Y", "B-Y", "E-Y", "I-Y"]


@pytest.mark.parametrize(("names", "closed"), [(BIO, False), (IOBES, True)])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_allowed_are_the_well_formed_sequences(names: list[str], closed: bool, size: int) -> None:
    allowed = allowed_transitions(names)
    sequences_allowed = {
        tuple(names[label] for label in labels)
        for labels in product(range(len(names)), repeat=size)
        if is_allowed(labels, allowed)
    }
    assert sequences_allowed == well_formed("XY", closed=closed, size=size)


def test_viterbi_gives_well_formed_sequences_whatever_the_scores() -> None:
    for names, closed in ((BIO, False), (IOBES, True)):
        layer, scores = crf(len(names)), 9 * random_scores(labels=len(names), rows=50)
        best = layer.viterbi(scores, torch.full((50,), T), allowed=allowed_transitions(names)).labels.tolist()
        assert {tuple(names[label] for label in labels) for labels in best} <= well_formed("XY", closed=closed, size=T)


def test_types_are_all_that_stands_behind_the_first_hyphen() -> None:
    allowed = allowed_transitions(["B-a-b", "I-a-b", "B-a", "I-a", "B-", "I-"])
    expected = [[other == kind or other % 2 == 0 for other in range(6)] for kind in (1, 1, 3, 3, 5, 5)]
    assert allowed.transitions.tolist() == expected


def test_labels_without_types_are_well_formed_too() -> None:
    allowed = allowed_transitions(["O", "B", "I"])
    assert allowed.transitions.tolist() == [[True, True, False], [True, True, True], [True, True, True]]
    assert allowed.start.tolist() == [True, True, False]


def test_labels_without_a_prefix_are_free() -> None:
    names = ["PUNCT", "B-X", "I-X", "X-Y"]
    allowed = allowed_transitions(names)
    forbidden = {
        (names[before], names[after])
        for before, after in product(range(4), repeat=2)
        if not allowed.transitions[before, after]
    }
    assert forbidden == {("PUNCT", "I-X"), ("X-Y", "I-X")}
    assert allowed.start.tolist() == [True, True, False, True]
    assert allowed.end.all()


def test_a_type_that_is_incomplete_frees_its_own_labels_alone() -> None:
    names = ["O", "B-NP", "I-NP", "B-VP", "I-VP", "I-LST"]
    allowed, complete = allowed_transitions(names), allowed_transitions(names[:-1])
    assert torch.equal(allowed.transitions[:-1, :-1], complete.transitions)
    assert allowed.transitions[:, -1].all() and allowed.start[-1] and not allowed.start[2]
    assert not allowed.transitions[-1, 2], "I-NP still needs its own span before it"


@pytest.mark.parametrize(
    "names",
    [
        ["NOUN", "VERB", "ADJ"],
        ["O"],
        ["I-PER", "O", "B-LOC", "I-LOC"],  # IOB1: a span of its own may begin with I
        ["O", "B-X", "S-X"],  # a span that could never end
        ["O", "E-X", "S-X"],  # a span that could never begin
        ["N", "V", "I"],  # I as a tag of its own
        ["A", "B", "E", "I", "S", "SP"],  # parts of speech of an Italian treebank
    ],
)
def test_names_of_no_scheme_allow_everything(names: list[str]) -> None:
    allowed = allowed_transitions(names)
    assert [tuple(part.shape) for part in allowed] == [(len(names),) * 2, (len(names),), (len(names),)]
    assert all(part.all() and part.dtype == torch.bool for part in allowed)
