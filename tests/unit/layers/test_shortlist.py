"""The output layer over lists of words: what masking all words gives, and the same whatever else is in the batch."""

from typing import Any

import pytest
import torch
from torch import Tensor

from calque.layers.int8 import quantise
from calque.layers.output import FullOutput
from calque.layers.packed import pack
from calque.layers.shortlist import ListedOutput, WordLists, _of_rows, masked_log_probs
from calque.tensors import Slots, best_candidates

SENTENCES, BEAMS, WIDTH, WORDS, END = 3, 4, 65, 127, 2
SHARED, SAMPLE = torch.tensor([1, 2, 5, 8, 13, 40, 90]), torch.tensor([3, 11, 77, 120, 126])
OWN = torch.tensor([[0, 11, 50, 99], [4, 77, -1, -1], [-1, -1, -1, -1]])  # 11 and 77 are in the sample, too
LISTS = WordLists(SHARED, SAMPLE, OWN)
KINDS = {"float64": None, "float32": None, "packed": pack, "int8": quantise}


def layer(kind: str, seed: int) -> tuple[FullOutput, Tensor]:
    """An output layer, and hidden vectors [N,D]."""
    torch.manual_seed(seed)
    output = FullOutput(WORDS, width=WIDTH)
    torch.nn.init.normal_(output.bias)
    torch.nn.init.normal_(output.weight, std=0.4)
    dtype = torch.float64 if kind == "float64" else torch.float32
    output = output.to(dtype)
    if change := KINDS[kind]:
        change(output)
        assert output.product is not None
    return output, torch.randn(SENTENCES * BEAMS, WIDTH, dtype=dtype)


def tolerance(kind: str) -> dict[str, float]:
    return {"rtol": 0, "atol": 1e-12 if kind == "float64" else 2e-5}


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_log_probs_are_those_of_all_words_masked(kind: str, seed: int) -> None:
    output, hidden = layer(kind, seed)
    listed = ListedOutput(output, LISTS)
    actual = listed.log_probs(hidden, listed.own(OWN))
    expected = masked_log_probs(output, hidden, LISTS)
    torch.testing.assert_close(actual, expected, **tolerance(kind))
    of_first = actual[:BEAMS].isfinite().all(dim=0).nonzero().squeeze(1)
    assert of_first.tolist() == sorted([*SHARED.tolist(), 0, 11, 50, 99])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("places", [None, [1, 3, 4, 8, 9, 10], [0, 2, 11], [7]])
@torch.inference_mode()
def test_the_best_words_are_the_best_of_the_list(kind: str, places: list[int] | None, seed: int) -> None:
    output, hidden = layer(kind, seed)
    listed = ListedOutput(output, LISTS)
    rows = torch.arange(len(hidden)) if places is None else torch.tensor(places)
    slots = None if places is None else Slots(rows, BEAMS)
    best = listed.best(hidden[rows], listed.own(OWN), slots=slots, count=9, end=END)
    expected = masked_log_probs(output, hidden, LISTS)[rows]
    values, words = best_candidates(expected, count=9)
    torch.testing.assert_close(best.log_probs, values, **tolerance(kind))
    torch.testing.assert_close(best.ends, expected[:, END], **tolerance(kind))
    possible = values.isfinite()  # the third sentence has fewer than 9 words
    assert torch.equal(best.words[possible], words[possible])


@torch.inference_mode()
def test_8_bit_products_have_the_bits_of_all_words(seed: int) -> None:
    """Sums of levels are exact in float32, so own words have the same logits as in the product of all words."""
    output, hidden = layer("int8", seed)
    listed = ListedOutput(output, LISTS)
    own = listed.own(OWN)
    sentences = torch.arange(SENTENCES).repeat_interleave(BEAMS)
    logits = listed._own_logits(hidden, own, _of_rows(own, rows=len(hidden), slots=None), slots=None)
    expected = output.logits(hidden).gather(1, OWN.clamp(min=0)[sentences]).masked_fill(OWN[sentences] < 0, -torch.inf)
    assert torch.equal(logits[:, : OWN.shape[1]], expected)
    assert (logits[:, OWN.shape[1] :] == -torch.inf).all()


@pytest.mark.parametrize("kind", ["packed", "int8"])
@pytest.mark.parametrize("beams", [1, 2, 5])
@torch.inference_mode()
def test_own_logits_have_the_same_bits_whatever_the_neighbours(kind: str, beams: int, seed: int) -> None:
    """Other sentences change the number of products and the padding of lists, but no bit of the result."""
    output, _ = layer(kind, seed)
    own = torch.full((40, 90), -1)
    for row, size in enumerate(torch.randint(0, 90, (40,)).tolist()):
        own[row, :size] = torch.randperm(WORDS)[:size].sort().values
    hidden = torch.randn(40 * beams, WIDTH)

    def logits(sentences: Tensor) -> Tensor:
        width = int((own[sentences] >= 0).sum(dim=1).max())
        listed = ListedOutput(output, LISTS._replace(own=own[sentences, :width]))
        rows = (sentences[:, None] * beams + torch.arange(beams)).flatten()
        words = listed.own(own[sentences, :width])
        return listed._own_logits(hidden[rows], words, _of_rows(words, rows=len(rows), slots=None), slots=None)

    together = logits(torch.arange(40))
    for sentence in range(40):
        alone = logits(torch.tensor([sentence]))
        assert alone.shape[1] <= together.shape[1]
        rows = slice(sentence * beams, (sentence + 1) * beams)
        assert torch.equal(together[rows, : alone.shape[1]], alone)
        assert (together[rows, alone.shape[1] :] == -torch.inf).all()


@pytest.mark.parametrize(
    "lists",
    [
        LISTS._replace(own=torch.zeros(3, 0, dtype=torch.long)),
        LISTS._replace(sample=torch.zeros(0, dtype=torch.long)),
        LISTS._replace(sample=torch.tensor([0])),  # in the first list, and the only one to represent the rest
        WordLists(torch.arange(WORDS), torch.zeros(0, dtype=torch.long), torch.zeros(3, 0, dtype=torch.long)),
    ],
    ids=["no own words", "no sample", "sample in the list", "all words"],
)
@torch.inference_mode()
def test_lists_of_every_shape(lists: WordLists, seed: int) -> None:
    output, hidden = layer("float64", seed)
    listed = ListedOutput(output, lists)
    own: Any = listed.own(lists.own)
    actual = listed.log_probs(hidden, own)
    torch.testing.assert_close(actual, masked_log_probs(output, hidden, lists), rtol=0, atol=1e-12)
    best = listed.best(hidden, own, slots=None, count=3, end=END)
    torch.testing.assert_close(best.log_probs, actual.topk(3).values, rtol=0, atol=1e-12)
    if len(lists.shared) == WORDS:
        torch.testing.assert_close(actual, output.log_probs(hidden), rtol=0, atol=1e-12)


@torch.inference_mode()
def test_a_sample_stands_for_the_words_outside_the_list(seed: int) -> None:
    """If all words are equally likely, the sample makes up exactly for those that are left out."""
    output, hidden = layer("float64", seed)
    torch.nn.init.zeros_(output.bias)
    torch.nn.init.zeros_(output.weight)
    listed = ListedOutput(output, LISTS)
    log_probs = listed.log_probs(hidden, listed.own(OWN))
    finite = log_probs[log_probs.isfinite()]
    torch.testing.assert_close(finite.exp(), torch.full_like(finite, 1 / WORDS))
