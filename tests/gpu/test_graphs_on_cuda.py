"""Search by CUDA graphs finds what the clear search finds, and its kernels compute what their plain versions do."""

import copy
import itertools
import os

import pytest
import torch
from torch import Tensor

from calque.engine.ensemble import start_with_graphs
from calque.layers.best_words import best_words
from calque.layers.row_attention import attend_cached, attend_shared
from calque.layers.row_linear import Rows, linear_rows, linear_sum
from calque.objectives.decoding_step import decoding_step
from calque.search import graphs
from calque.search.beam import BestK, Goal, beam_search
from calque.search.fixed_beam import Eager, FixedStep, FixedSteps, fixed_beam_search
from calque.search.graphs import Graphs
from calque.search.scoring import Scoring
from calque.search.step import Best, Hypothesis, Limits, StepOutput
from calque.tensors import Padded, Slots, best_candidates
from tests.laws import laws
from tests.laws.models import BEAMS, MODELS, build, loud, source

DEVICE = os.environ.get("CALQUE_TEST_DEVICE", "cuda")
if DEVICE == "cuda" and not torch.cuda.is_available():
    pytest.skip("there is no GPU on this machine", allow_module_level=True)
RUNNER = Graphs if DEVICE == "cuda" else Eager


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("heads", "groups", "width"), [(8, 8, 64), (4, 2, 32), (3, 1, 20)])
def test_attention_of_one_token(heads: int, groups: int, width: int, dtype: torch.dtype, seed: int) -> None:
    """Over a cache with an index of ancestors, and over sources that 5 hypotheses share."""
    generator = torch.Generator().manual_seed(seed)
    queries = torch.randn(35, heads, width, generator=generator)
    new, sources = torch.randn(2, 35, groups, width, generator=generator), torch.randn(2, 7, groups, 41, width)
    caches = torch.randn(2, 35, groups, 70, width, generator=generator)
    ancestors = torch.randint(0, 35, (35, 70), generator=generator, dtype=torch.int32)
    lengths = torch.randint(1, 42, (7,), generator=generator)
    tolerance = 3e-6 if dtype == torch.float32 else 1.5e-2
    for place in (0, 1, 31, 32, 69):
        position = torch.full((35,), place)
        exact = [part.to(dtype).double() for part in (queries, new, caches, sources)]
        given = [part.to(DEVICE, dtype) for part in (queries, new, caches, sources)]
        index, index_on_device = ancestors.clone(), ancestors.to(DEVICE)
        expected = attend_cached(exact[0], tuple(exact[1]), tuple(exact[2]), ancestors=index, position=position)
        actual = attend_cached(
            given[0], tuple(given[1]), tuple(given[2]), ancestors=index_on_device, position=position.to(DEVICE)
        )
        torch.testing.assert_close(actual.cpu().double(), expected, rtol=tolerance, atol=tolerance)
        assert torch.equal(index_on_device.cpu(), index)
        assert torch.equal(given[2].cpu().double(), exact[2])  # the cache, in place
    expected = attend_shared(exact[0], *exact[3], lengths=lengths)
    actual = attend_shared(given[0], *given[3], lengths=lengths.to(DEVICE))
    torch.testing.assert_close(actual.cpu().double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("rows", "width", "size"), [(1, 512, 1536), (5, 2048, 512), (16, 1024, 4096), (3, 600, 40), (130, 520, 72)]
)
def test_linear_layers_of_one_token_per_row(rows: int, width: int, size: int, dtype: torch.dtype, seed: int) -> None:
    """With normalised inputs and a normalised residual stream, and without; few rows, and more than one tile."""
    torch.manual_seed(seed)
    norm, residual_norm = (torch.nn.LayerNorm(each).double() for each in (width, size))
    for parameter in (*norm.parameters(), *residual_norm.parameters()):
        torch.nn.init.normal_(parameter)
        parameter.data = parameter.data.to(dtype).double()
    weight, bias = torch.randn(size, width) / width**0.5, torch.randn(size)
    values, residual = torch.randn(rows, width), torch.randn(rows, size)
    exact = [part.to(dtype).double() for part in (values, weight, bias, residual)]
    given = [part.to(DEVICE, dtype) for part in (values, weight, bias, residual)]
    own = [copy.deepcopy(layer).to(DEVICE, dtype) for layer in (norm, residual_norm)]
    tolerance = 1e-4 if dtype == torch.float32 else 3e-2

    def compare(actual: Tensor, expected: Tensor) -> None:
        torch.testing.assert_close(actual.cpu().double(), expected, rtol=tolerance, atol=tolerance)

    with torch.no_grad():
        for relu, is_normalised in itertools.product((False, True), (False, True)):
            expected = linear_rows(Rows(exact[0], norm if is_normalised else None), *exact[1:3], relu=relu)
            compare(linear_rows(Rows(given[0], own[0] if is_normalised else None), *given[1:3], relu=relu), expected)
        for is_normalised in (False, True):
            added = Rows(exact[3], residual_norm if is_normalised else None)
            wanted = linear_sum(*exact[:3], added=added, norm=residual_norm)
            added = Rows(given[3], own[1] if is_normalised else None)
            found = linear_sum(*given[:3], added=added, norm=own[1])
            compare(found.values, wanted.values)
            compare(found.normalised(), wanted.normalised())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("words", [70, 2048, 32_004])
def test_best_words(words: int, dtype: torch.dtype, seed: int) -> None:
    """With bfloat16 many words have equal logits: the lower one comes first."""
    generator = torch.Generator().manual_seed(seed)
    logits = (5 * torch.randn(19, words, generator=generator)).to(dtype)
    best = best_words(logits.to(DEVICE), count=13, end=2)
    wide = logits.float()
    log_probs = wide.log_softmax(dim=-1)
    _, indices = best_candidates(wide, count=13)
    assert torch.equal(best.words.cpu(), indices)
    torch.testing.assert_close(best.log_probs.cpu(), log_probs.gather(1, indices), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(best.ends.cpu(), log_probs[:, 2], rtol=1e-5, atol=1e-5)


class Table:
    """Log-probabilities of the next token given the last one: a table [B,V,V] per sentence, with equal values."""

    def __init__(self, tables: Tensor) -> None:
        self.tables = tables

    def __call__(self, tokens: Tensor, state: Tensor, context: Tensor, /) -> tuple[StepOutput, Tensor]:
        sentences = torch.arange(len(tokens), device=tokens.device) // (len(tokens) // len(context))
        return StepOutput(self.tables[context[sentences], tokens]), state

    def best(
        self, tokens: Tensor, state: Tensor, context: Tensor, *, slots: Slots | None, count: int, end: int
    ) -> tuple[Best, Tensor]:
        log_probs = self(tokens, state, context)[0].log_probs
        return Best(*best_candidates(log_probs, count=count), log_probs[:, end]), state

    def fixed(self, state: Tensor, *, size: int) -> Tensor:
        return state


@pytest.mark.parametrize("beams", [1, 2, 5, 8])
def test_search_on_tables(beams: int, seed: int) -> None:
    """The kernel of beam search against the clear search on a CPU, with every term of the score and all limits."""
    generator = torch.Generator().manual_seed(seed)
    tables = torch.randint(0, 60, (40, 30, 30), generator=generator).float().div(8).log_softmax(dim=-1)
    maximum = torch.randint(2, 24, (40,), generator=generator)
    limits = Limits(maximum, torch.randint(0, 12, (40,), generator=generator).clamp(max=maximum))
    lengths, context, state = torch.randint(1, 9, (40,), generator=generator), torch.arange(40), torch.zeros(40, 1)
    scores = (Scoring(), Scoring(0.6), Scoring(1.0, normalisation="plain"), Scoring(0.6, gamma=0.3, reward=0.2))
    for score, nbest, stop_after in itertools.product(scores, (1, beams), (None, beams)):
        goal = Goal(score, nbest, stop_after)
        arguments = {"limits": limits, "source_lengths": lengths, "marks": laws.MARKS, "goal": goal}
        expected = beam_search(Table(tables), state, context, expansion=BestK(beams), **arguments)
        on_device = {"limits": Limits(*(part.to(DEVICE) for part in limits)), "source_lengths": lengths.to(DEVICE)}
        actual = fixed_beam_search(
            Table(tables.to(DEVICE)),
            state.to(DEVICE),
            context.to(DEVICE),
            beams=beams,
            fixed=FixedSteps(RUNNER(), 40, 12),
            **(arguments | on_device),
        )
        same_or_tied(actual, expected)


def same_or_tied(actual: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    """The same hypotheses in the same order, except where scores differ by rounding alone."""
    for hypotheses, others in zip(actual, expected, strict=True):
        assert [round(item.score, 3) for item in hypotheses] == pytest.approx(
            [round(item.score, 3) for item in others], abs=2e-3
        )
        is_clear = len(others) < 2 or min(a.score - b.score for a, b in itertools.pairwise(others)) > 1e-4
        if is_clear and len(others) > 1:
            assert [item.tokens for item in hypotheses[:-1]] == [item.tokens for item in others[:-1]]


def test_best_candidates_on_a_gpu_are_those_of_a_cpu(seed: int) -> None:
    """Few different values, of which some are −∞, 0 and −0."""
    generator = torch.Generator().manual_seed(seed)
    pool = torch.tensor([-torch.inf, -2.5, -0.0, 0.0, 1e-3, 7.0])
    scores = pool[torch.randint(0, 6, (50, 40), generator=generator)]
    expected = best_candidates(scores, count=9)
    for actual, known in zip(best_candidates(scores.to(DEVICE), count=9), expected, strict=True):
        assert torch.equal(actual.cpu(), known)


@pytest.mark.parametrize("copies", [1, 7])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_graphs_find_what_the_clear_search_finds(name: str, copies: int) -> None:
    """In float32, every model: twice, since the second search replays; and no step waits for the device.

    With 7 copies of the sentences, there are more than 16 hypotheses until most sentences are done.
    """
    model = loud(build(name)).float().to(DEVICE)
    step = decoding_step(model)
    batch = source()
    batch = Padded(batch.values.repeat(copies, 1), batch.lengths.repeat(copies))
    context = model.prepare(Padded(batch.values.to(DEVICE), batch.lengths))
    state = model.start(context)
    if not isinstance(step, FixedStep) or step.fixed(state, size=1) is None:
        return
    limits = Limits(*(part.repeat(copies).to(DEVICE) for part in laws.limits()))
    lengths, runner = batch.lengths.to(DEVICE), RUNNER()
    for beams, alpha in ((BEAMS, 0.7), (1, 0.0)):
        arguments = {"limits": limits, "marks": laws.MARKS, "source_lengths": lengths, "goal": Goal(Scoring(alpha))}
        expected = beam_search(step, state, context, expansion=BestK(beams), **arguments)
        fixed = FixedSteps(runner, len(lengths), 8)
        for _ in range(2):
            actual = fixed_beam_search(step, state, context, beams=beams, fixed=fixed, **arguments)
            laws.same(actual, expected, tolerance=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["transformer-pre", "transformer-post", "luong-general-feeding"])
@torch.no_grad()
def test_searches_of_different_shapes_share_their_graphs(
    name: str, dtype: torch.dtype, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Encoding, start and steps, with batches that shrink and grow; only three graphs are kept, so most are evicted.

    The same kernels run eagerly give the same results, bit for bit.
    """
    monkeypatch.setattr(graphs, "KEPT", 3)
    model = loud(build(name)).to(DEVICE, dtype)
    generator, kept, eager = torch.Generator().manual_seed(seed), RUNNER(), Eager()
    for sentences, longest in ((2, 5), (6, 9), (2, 5), (1, 3), (6, 9), (12, 30), (2, 5)):
        lengths = torch.randint(1, 8, (sentences,), generator=generator)
        values = torch.randint(4, 9, (sentences, 8), generator=generator)
        maximum = torch.randint(2, longest + 1, (sentences,), generator=generator)
        found = []
        for runner in (kept, eager):
            decoding = start_with_graphs(model, Padded(values, lengths), graphs=runner)
            results = fixed_beam_search(
                *decoding,
                beams=2,
                goal=Goal(Scoring(0.6)),
                limits=Limits(maximum.to(DEVICE), torch.ones_like(maximum).to(DEVICE)),
                marks=laws.MARKS,
                source_lengths=lengths.to(DEVICE),
                fixed=FixedSteps(runner, sentences, 8),
            )
            found.append(results)
        assert found[0] == found[1]
