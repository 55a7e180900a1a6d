"""Joint decoding: every complete text scores (1 − λ) log P_att + λ log P_ctc, and beam search finds the best one."""

from itertools import pairwise, product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from calque.layers.ctc import deterministic_ctc_losses
from calque.search.ctc_prefix import collapse
from calque.search.ctc_scoring import joint_step, start_joint
from calque.search.decode import Rules, decode, limits_of_pieces
from calque.search.settings import SearchConfig
from calque.search.step import Marks, StepOutput
from calque.tensors import select_rows

MARKS, BLANK = Marks(start=1, end=2, never=(0, 1)), 0
SYMBOLS, POSITIONS, ROWS, WEIGHT = 5, 6, 3, 0.4
LENGTHS = torch.tensor([6, 4, 5])


def ctc() -> Tensor:
    values = torch.randn(ROWS, POSITIONS, SYMBOLS, generator=torch.Generator().manual_seed(2)).double()
    return values.log_softmax(dim=-1)


def attention_step(tokens: Tensor, state: tuple[Tensor], context: tuple[Tensor]) -> tuple[StepOutput, tuple[Tensor]]:
    """A decoder of the last two tokens and of its own recording."""
    table = torch.randn(ROWS, SYMBOLS, SYMBOLS, SYMBOLS, generator=torch.Generator().manual_seed(4)).double()
    rows = context[0].repeat_interleave(len(tokens) // len(context[0]))
    return StepOutput(table.log_softmax(-1)[rows, state[0], tokens]), (tokens,)


def started() -> tuple[Any, Any]:
    state = (torch.full((ROWS,), MARKS.start),)
    return start_joint(state, (torch.arange(ROWS),), ctc(), LENGTHS, blank=BLANK)


def attention_log_prob(row: int, text: tuple[int, ...]) -> float:
    state, token, total = (torch.tensor([MARKS.start]),), MARKS.start, 0.0
    for following in (*text, MARKS.end):
        output, state = attention_step(torch.tensor([token]), state, (torch.tensor([row]),))
        total += float(output.log_probs[0, following])
        token = following
    return total


def joint_log_prob(row: int, text: tuple[int, ...]) -> float:
    tokens = torch.tensor([[*text, 3]])
    length = LENGTHS[row : row + 1]
    loss = deterministic_ctc_losses(ctc()[row : row + 1], tokens, length, torch.tensor([len(text)]))
    fits = len(text) + sum(a == b for a, b in pairwise(text)) <= int(length)
    total = -float(loss) if fits else -torch.inf
    return (1 - WEIGHT) * attention_log_prob(row, text) + WEIGHT * total


@pytest.mark.parametrize("text", [(), (3,), (4, 4), (3, 4, 3), (3, 3, 4)])
def test_the_steps_of_a_text_add_up_to_both_models(text) -> None:
    step = joint_step(attention_step, weight=WEIGHT, marks=MARKS, blank=BLANK)
    state, context = started()
    totals, token = torch.zeros(ROWS).double(), MARKS.start
    for following in (*text, MARKS.end):
        output, state = step(torch.full((ROWS,), token), state, context)
        totals += output.log_probs[:, following]
        token = following
    for row in range(ROWS):
        assert float(totals[row]) == pytest.approx(joint_log_prob(row, text), abs=1e-9)


def test_beam_search_finds_the_best_text_of_each_recording() -> None:
    state, context = started()
    search = SearchConfig(beam=60, length_penalty=0.0)
    found = decode(
        joint_step(attention_step, weight=WEIGHT, marks=MARKS, blank=BLANK),
        state,
        context,
        source_lengths=LENGTHS,
        limits=limits_of_pieces([(0, 3)] * ROWS, device=torch.device("cpu")),
        search=search,
        marks=MARKS,
        rules=Rules(),
        nbest=1,
    )
    texts = [text for length in range(4) for text in product((3, 4), repeat=length)]
    for row, (best,) in enumerate(found):
        expected = max(texts, key=lambda text: joint_log_prob(row, text))
        assert best.tokens == expected
        assert best.log_prob == pytest.approx(joint_log_prob(row, expected), abs=1e-9)


class Largest(TorchDispatchMode):
    """Notes the size of the largest tensor that any operation makes; a view counts nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        if isinstance(made, Tensor) and not made._is_view():
            self.numbers = max(self.numbers, made.numel())
        return made


def test_no_tensor_of_a_step_is_larger_than_the_probabilities_of_the_recordings() -> None:
    """Beams share what CTC says of their recording: [B,S,V], never [N,S,V]."""
    beams, (state, context) = 7, started()
    rows = torch.arange(ROWS).repeat_interleave(beams)
    tokens = torch.full((ROWS * beams,), MARKS.start)
    step = joint_step(attention_step, weight=WEIGHT, marks=MARKS, blank=BLANK)
    _, state = step(tokens, select_rows(state, rows), context)
    with Largest() as largest:
        joint_step(lambda *_: (StepOutput(state.following), None), weight=WEIGHT, marks=MARKS, blank=BLANK)(
            torch.randint(3, SYMBOLS, (ROWS * beams,)), state, context
        )
    assert largest.numbers <= max(ctc().numel(), ROWS * beams * max(POSITIONS, SYMBOLS))
    assert largest.numbers < ROWS * beams * POSITIONS * SYMBOLS / 2


def test_the_score_of_a_prefix_is_that_of_all_texts_that_begin_with_it() -> None:
    """ψ(g c) = Σ P(text) over the texts that begin with g c, by enumeration of all paths; the end of a text is P(g)."""
    step = joint_step(attention_step, weight=WEIGHT, marks=MARKS, blank=BLANK)
    for text in ((), (3,), (4, 4), (3, 4, 4)):
        state, context = started()
        for token in (MARKS.start, *text):
            _, state = step(torch.full((ROWS,), token), state, context)
        for row, length in enumerate(LENGTHS.tolist()):
            values, sums = ctc()[row, :length], dict.fromkeys([*range(SYMBOLS), None], 0.0)
            for path in product(range(SYMBOLS), repeat=length):
                written = collapse(list(path), blank=BLANK)
                if written[: len(text)] == text:
                    following = written[len(text)] if len(written) > len(text) else None
                    sums[following] += float(values[range(length), path].sum().exp())
            for token in (1, 3, 4):
                found = float(state.following[row, token].exp())
                assert found == pytest.approx(sums[token], rel=1e-9, abs=1e-15)
            assert float(state.following[row, MARKS.end].exp()) == pytest.approx(sums[None], rel=1e-9, abs=1e-15)
