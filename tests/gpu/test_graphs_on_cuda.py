"""Search by CUDA graphs finds what the clear search finds, and its kernels compute what their plain versions do."""

import os

import pytest
import torch

from calque.layers.best_words import best_words, clear_vocabulary_summary
from calque.layers.row_attention import clear_row_attention, row_attention
from calque.objectives.decoding_step import decoding_step
from calque.search.beam import BestK, Goal, beam_search
from calque.search.fixed_beam import FixedStep, fixed_beam_search, run_plainly
from calque.search.graphs import Graphs
from calque.search.scoring import Scoring
from calque.search.step import Limits
from calque.tensors import Padded, best_candidates
from tests.laws import laws
from tests.laws.models import BEAMS, MODELS, build, loud, source

DEVICE = os.environ.get("CALQUE_TEST_DEVICE", "cuda")
if DEVICE == "cuda" and not torch.cuda.is_available():
    pytest.skip("there is no GPU on this machine", allow_module_level=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("heads", "groups", "width"), [(8, 8, 64), (4, 2, 32), (3, 1, 20)])
def test_attention_to_rows(heads: int, groups: int, width: int, dtype: torch.dtype, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    queries = torch.randn(37, heads, width, generator=generator)
    keys, values = torch.randn(2, 37, groups, 50, width, generator=generator)
    rows = torch.randint(0, 37, (37, 50), generator=generator, dtype=torch.int32)
    lengths = torch.randint(1, 51, (37,), generator=generator)
    for index in (rows, rows[:, 0].long()):
        parts = [part.to(DEVICE, dtype) for part in (queries, keys, values)]
        actual = row_attention(*parts, rows=index.to(DEVICE), lengths=lengths.to(DEVICE))
        exact = [part.cpu().double() for part in parts]
        expected = clear_row_attention(*exact, rows=index, lengths=lengths)
        tolerance = 2e-6 if dtype == torch.float32 else 1e-2
        torch.testing.assert_close(actual.cpu().double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("words", [70, 2048, 32_004])
def test_best_words(words: int, dtype: torch.dtype, seed: int) -> None:
    """With bfloat16 many words have equal logits: the lower one comes first."""
    generator = torch.Generator().manual_seed(seed)
    logits = (5 * torch.randn(19, words, generator=generator)).to(dtype)
    best = best_words(logits.to(DEVICE), count=13, end=2)
    wide = logits.float()
    values, indices = best_candidates(wide, count=13)
    assert torch.equal(best.words.cpu(), indices)
    normaliser, _ = clear_vocabulary_summary(logits)
    torch.testing.assert_close(best.log_probs.cpu(), values - normaliser[:, None], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(best.ends.cpu(), wide[:, 2] - normaliser, rtol=1e-5, atol=1e-5)


def test_best_candidates_on_a_gpu_are_those_of_a_cpu(seed: int) -> None:
    """Few different values, of which some are −∞, 0 and −0."""
    generator = torch.Generator().manual_seed(seed)
    pool = torch.tensor([-torch.inf, -2.5, -0.0, 0.0, 1e-3, 7.0])
    scores = pool[torch.randint(0, 6, (50, 40), generator=generator)]
    expected = best_candidates(scores, count=9)
    for actual, known in zip(best_candidates(scores.to(DEVICE), count=9), expected, strict=True):
        assert torch.equal(actual.cpu(), known)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_graphs_find_what_the_clear_search_finds(name: str) -> None:
    """In float32, every model: twice, since the second search replays; and no step waits for the device."""
    model = loud(build(name)).float().to(DEVICE)
    step = decoding_step(model)
    batch = source()
    context = model.prepare(Padded(batch.values.to(DEVICE), batch.lengths))
    state = model.start(context)
    if not isinstance(step, FixedStep) or step.fixed(state, size=1) is None:
        return
    limits = Limits(*(part.to(DEVICE) for part in laws.limits()))
    lengths, graphs = batch.lengths.to(DEVICE), Graphs()
    for beams, alpha in ((BEAMS, 0.7), (1, 0.0)):
        arguments = {"limits": limits, "marks": laws.MARKS, "source_lengths": lengths, "goal": Goal(Scoring(alpha))}
        expected = beam_search(step, state, context, expansion=BestK(beams), **arguments)
        run = graphs.run if DEVICE == "cuda" else run_plainly
        for _ in range(2):
            actual = fixed_beam_search(step, state, context, beams=beams, run=run, **arguments)
            laws.same(actual, expected, tolerance=1e-4)
