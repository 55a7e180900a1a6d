"""Views of texts: tables against the model's own scores, saliency against finite differences, trees against scores."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from tests.unit.engine import test_text_generator
from tests.unit.engine.test_text_generator import BEAM, GREEDY, SAMPLING, build
from torch import Tensor

from calque.engine import TextGenerator
from calque.errors import TextError
from calque.inspection.beam_tree import ROOT, BeamTree
from calque.inspection.language_model import LONGEST, NEXT, inspect_text
from calque.search.scoring import Scoring
from calque.search.settings import SearchConfig
from calque.text import BOS, EOS, PIECES, CharactersConfig, CharactersTokenizer

NETWORKS = ["lstm", "transformer"]
TEXT = "w3 w1 w1 w6"
END = PIECES[EOS]


def distributions(generator: TextGenerator, ids: list[int]) -> list[Tensor]:
    """The log-probabilities [V] before each token and after the last, read token by token."""
    state, rows = generator.model.start(1), []
    for token in [generator.start, *ids]:
        read, state = generator.model.read(torch.tensor([[token]]), state)
        rows.append(generator.model.log_probs(read.hidden)[0, 0])
    return rows


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("reading", ["lines", "running"])
@pytest.mark.parametrize("text", [TEXT, "w2", ""])
def test_the_table_has_the_models_own_scores(network: str, reading: str, text: str) -> None:
    generator = build(network, reading=reading)
    view, (scored,) = inspect_text(generator, text), generator.score([text])
    assert view.pieces == [*scored.pieces, END] == [step.piece for step in view.steps]
    assert view.inputs == [PIECES[EOS if reading == "running" else BOS], *scored.pieces]
    assert [step.log_prob for step in view.steps] == pytest.approx(scored.log_probs, abs=1e-9)
    assert view.log_prob == pytest.approx(scored.log_prob)
    assert view.perplexity.per_token == pytest.approx(math.exp(-scored.log_prob / len(scored.log_probs)))
    if text:
        assert view.perplexity == pytest.approx(generator.perplexity([text]))


@pytest.mark.parametrize("network", NETWORKS)
def test_ranks_entropies_and_runners_up_are_those_of_the_distribution(network: str) -> None:
    generator = build(network)
    view, ids = inspect_text(generator, TEXT), generator.tokenizer.encode(TEXT)
    rows = distributions(generator, ids)
    for step, row, token in zip(view.steps, rows, [*ids, EOS], strict=True):
        values = {generator.tokenizer.vocabulary.piece(id): value for id, value in enumerate(row.tolist())}
        order = sorted(values, key=lambda piece: -values[piece])
        assert order.index(generator.tokenizer.vocabulary.piece(token)) + 1 == step.rank
        assert step.entropy == pytest.approx(-sum(math.exp(value) * value for value in values.values()))
        others = [piece for piece in order if piece != step.piece][:5]
        assert [item.piece for item in step.runners_up] == others
        assert [item.log_prob for item in step.runners_up] == pytest.approx([values[piece] for piece in others])
    following = rows[-1].sort(descending=True)
    assert [item.log_prob for item in view.next] == pytest.approx(following.values[:NEXT].tolist())
    assert [item.piece for item in view.next] == [
        generator.tokenizer.vocabulary.piece(id) for id in following.indices[:NEXT].tolist()
    ]


def test_words_group_the_pieces() -> None:
    tokenizer = CharactersTokenizer.train(CharactersConfig(), lines=["ab cd"])
    view = inspect_text(build(tokenizer=tokenizer), "ab c")
    assert len(view.words) == len(view.pieces) - 1
    assert view.words[0] == 0 and view.words[-1] == 1


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "relative"])
def test_attention_sums_to_one_and_never_looks_ahead(positions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = {**test_text_generator.NETWORKS["transformer"], "layers": 2, "positions": positions}
    monkeypatch.setitem(test_text_generator.NETWORKS, "two layers", network)
    view = inspect_text(build("two layers"), TEXT)
    size = len(view.inputs)
    assert [(item.kind, item.layer) for item in view.maps] == [("decoder", 1), ("decoder", 2)]
    for item in view.maps:
        assert item.weights.shape == (2, size, size)
        torch.testing.assert_close(item.weights.sum(dim=2), torch.ones(2, size, dtype=torch.float64))
        assert torch.equal(item.weights.triu(diagonal=1), torch.zeros_like(item.weights))
    assert view.saliency == []


@contextmanager
def changed(generator: TextGenerator, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """A context in which the vectors that the network reads are changed."""
    embedding = generator.model.network.embedding
    handle = embedding.register_forward_hook(lambda _module, _inputs, output: change(output))
    try:
        yield
    finally:
        handle.remove()


def log_probs(generator: TextGenerator) -> Tensor:
    (scored,) = generator.score([TEXT])
    return torch.tensor(scored.log_probs, dtype=torch.float64)


@pytest.mark.parametrize("network", NETWORKS)
def test_saliency_is_the_slope_along_each_piece_and_never_looks_ahead(network: str) -> None:
    generator, step = build(network), 1e-6
    view = inspect_text(generator, TEXT, saliency=True)
    slopes, integrated = view.saliency
    size = len(view.inputs)
    for place in range(size):
        scale = torch.zeros(size, 1, dtype=torch.float64)
        scale[place] = step
        with changed(generator, lambda values, scale=scale: values * (1 + scale)):
            above = log_probs(generator)
        with changed(generator, lambda values, scale=scale: values * (1 - scale)):
            below = log_probs(generator)
        torch.testing.assert_close(slopes.weights[:, place], (above - below) / (2 * step), rtol=1e-5, atol=1e-7)
    for item in (slopes, integrated):
        assert torch.equal(item.weights.triu(diagonal=1), torch.zeros(size, size, dtype=torch.float64))


def test_integrated_gradients_sum_to_the_difference_from_zero_vectors() -> None:
    generator = build("lstm")
    for parameter in generator.model.parameters():
        parameter.mul_(0.3)  # smooth enough for the midpoint rule
    view = inspect_text(generator, TEXT)
    with changed(generator, torch.zeros_like):
        nothing = log_probs(generator)
    sums = view.saliency[1].weights.sum(dim=1)
    torch.testing.assert_close(sums, log_probs(generator) - nothing, rtol=2e-3, atol=2e-4)


def totals(generator: TextGenerator, prompt: str, tree: BeamTree) -> dict[int, float]:
    """The log-probability of every candidate, summed token by token over the prompt and the path to it."""
    prompt_ids = generator.prompt_ids(prompt)
    paths, values = {ROOT: prompt_ids}, {}
    for step in tree.steps:
        for candidate in step.candidates:
            paths[candidate.id] = ids = [*paths[candidate.parent], candidate.token]
            rows = distributions(generator, ids[:-1])
            values[candidate.id] = sum(float(row[id]) for row, id in zip(rows, ids, strict=True))
    return values


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("prompt", [TEXT, ""])
@pytest.mark.parametrize("search", [BEAM, SearchConfig(beam=4, no_repeat=2), SearchConfig(beam=4, groups=2)])
def test_the_beam_tree_is_that_of_the_continuation(network: str, prompt: str, search: SearchConfig) -> None:
    generator = build(network)
    continuation = inspect_text(generator, prompt, search=search, maximum=4).continuation
    ((candidate,),) = generator.candidates([prompt], search=search, maximum=4)
    assert continuation is not None and continuation.beam is not None
    assert (continuation.text, continuation.is_cut) == (candidate.text, candidate.cut)
    assert (continuation.log_prob, continuation.score) == (candidate.log_prob, candidate.score)
    beam = continuation.beam
    assert [step.length for step in beam.tree.steps] == list(range(1, len(beam.tree.steps) + 1))
    expected = totals(generator, prompt, beam.tree)
    candidates = {item.id: item for step in beam.tree.steps for item in step.candidates}
    assert {id: item.log_prob for id, item in candidates.items()} == pytest.approx(expected)
    assert [beam.pieces[candidates[id].token] for id in beam.answer] == continuation.pieces
    assert candidates[beam.answer[-1]].log_prob == pytest.approx(continuation.log_prob)
    before = sum(next(generator.score([prompt])).log_probs[:-1])
    assert before + sum(step.log_prob for step in continuation.steps) == pytest.approx(continuation.log_prob)
    assert [narrower.beam for narrower in beam.narrower] == list(range(1, search.beam))
    for narrower in beam.narrower:
        groups = search.groups if narrower.beam % search.groups == 0 else 1
        narrow = search.model_copy(update={"beam": narrower.beam, "groups": groups})
        assert narrower.text == generator.generate(prompt, search=narrow, maximum=4)
        assert narrower.finds == (narrower.text == continuation.text)


@pytest.mark.parametrize("search", [GREEDY, SAMPLING])
def test_a_greedy_or_sampled_continuation(search: SearchConfig) -> None:
    generator = build()
    continuation = inspect_text(generator, TEXT, search=search, maximum=5).continuation
    assert continuation is not None
    assert continuation.text == generator.generate(TEXT, search=search, maximum=5)
    assert (continuation.beam is None) == (search.method == "sample")
    assert len(continuation.steps) == len(continuation.pieces) <= 5 + (not continuation.is_cut)


def test_steps_of_the_prompt_are_left_out() -> None:
    generator = build()
    tree = BeamTree([], "bound", Scoring()).after(3)
    assert tree == BeamTree([], "bound", Scoring())
    with pytest.raises(TextError, match=f"at most {LONGEST}"):
        inspect_text(generator, "w1 " * (LONGEST + 1))
