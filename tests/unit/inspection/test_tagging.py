"""Views of tagged sentences: paths and marginals against enumeration, saliency against finite differences."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
import torch
from tests.unit.engine.test_tagger import FORMS, LABELS
from torch import Tensor

from calque.config import check
from calque.engine import Sentence, Tagger
from calque.engine.tagger import tagger_sizes
from calque.errors import TextError
from calque.inspection.label_paths import PathScores, best_paths
from calque.inspection.tagging import TaggingView, inspect_tagging
from calque.models.tagger import TaggerConfig, TaggerModel
from calque.tasks.tagging import TaggingConfig
from calque.tensors import Padded
from calque.text import FormsConfig, learn_vocabularies

ENCODERS = {
    "recurrent": {"kind": "recurrent", "layers": 1, "width": 6, "embedding": 5},
    "transformer": {"kind": "transformer", "layers": 2, "width": 8, "heads": 2, "feed_forward": 12},
}
WORDS = ["the", "unseen", "dog", "sees"]


def build(head: str = "crf", *, encoder: str = "recurrent", scheme: str = "corpus", seed: int = 0) -> Tagger:
    """A tagger in float64 with random weights, which reads words, their characters and a column."""
    vocabularies = learn_vocabularies(
        FormsConfig(scheme=scheme), forms=FORMS, labels=LABELS, columns={"pos": LABELS}, characters=True
    )
    characters = {"kind": "recurrent", "embedding": 3, "width": 4}
    values = {"head": head, "encoder": ENCODERS[encoder], "characters": characters, "column_width": 2}
    config = check(TaggerConfig, values, origin="test")
    torch.manual_seed(seed)
    model = TaggerModel(config, sizes=tagger_sizes(vocabularies, inputs=["pos"])).double().eval()
    for parameter in model.parameters():
        torch.nn.init.uniform_(parameter, -1, 1)
    task = TaggingConfig(labels="chunk", inputs=("pos",))
    return Tagger(model.requires_grad_(False), vocabularies, config=config, task=task)


def sentence() -> Sentence:
    return Sentence(WORDS, {"pos": ["O", "B-NP", "I-NP", "O"]})


class Labelled(NamedTuple):
    """A label sequence, its score and whether it is well formed."""

    labels: tuple[int, ...]
    score: float
    is_allowed: bool


def every_path(view: TaggingView) -> list[Labelled]:
    """All label sequences of a sentence, scored term by term."""
    paths = []
    for labels in itertools.product(range(len(view.labels)), repeat=len(view.words)):
        score = sum(float(view.emissions[word, label]) for word, label in enumerate(labels))
        is_allowed = True
        if view.transitions is not None:
            weights, start, end, allowed = view.transitions
            pairs = list(itertools.pairwise(labels))
            score += float(start[labels[0]] + end[labels[-1]]) + sum(float(weights[pair]) for pair in pairs)
            is_allowed = bool(allowed.start[labels[0]] and allowed.end[labels[-1]])
            is_allowed = is_allowed and all(bool(allowed.transitions[pair]) for pair in pairs)
        paths.append(Labelled(labels, score, is_allowed))
    return paths


@pytest.mark.parametrize("head", ["crf", "softmax"])
@pytest.mark.parametrize("scheme", ["corpus", "iobes"])
@pytest.mark.parametrize("seed", range(3))
def test_paths_and_marginals_are_those_of_enumeration(head: str, scheme: str, seed: int) -> None:
    view = inspect_tagging(build(head, scheme=scheme, seed=seed), sentence(), saliency=False)
    paths = every_path(view)
    scores = torch.tensor([path.score for path in paths], dtype=torch.float64)
    total = float(scores.logsumexp(dim=0))
    best, second = sorted((path for path in paths if path.is_allowed), key=lambda path: -path.score)[:2]
    assert view.runner_up is not None
    for path, expected in ((view.best, best), (view.runner_up, second)):
        assert path.labels == [view.labels[label] for label in expected.labels]
        assert path.score == pytest.approx(expected.score, abs=1e-9)
        assert path.log_prob == pytest.approx(expected.score - total, abs=1e-9)
    for word, label in itertools.product(range(len(WORDS)), range(len(view.labels))):
        share = sum(
            float(score)
            for path, score in zip(paths, (scores - total).exp(), strict=True)
            if path.labels[word] == label
        )
        assert float(view.marginals[word, label]) == pytest.approx(share, abs=1e-9)


@pytest.mark.parametrize("head", ["crf", "softmax"])
@pytest.mark.parametrize("scheme", ["corpus", "iobes"])
def test_the_view_shows_what_the_tagger_answers(head: str, scheme: str) -> None:
    tagger = build(head, scheme=scheme)
    view, tagged = inspect_tagging(tagger, sentence()), tagger.tag(sentence(), marginals=True)
    assert (view.words, view.predicted) == (tagged.words, tagged.labels)
    assert view.columns == {"pos": ["O", "B-NP", "I-NP", "O"]}
    assert view.unknown == [1]
    shares = [tagger.vocabularies.label_shares(row) for row in view.marginals.tolist()]
    assert tagged.marginals is not None
    for row, expected in zip(shares, tagged.marginals, strict=True):
        assert row == pytest.approx(expected)
    assert [
        index for index in range(len(WORDS)) if view.best.labels[index] != view.runner_up.labels[index]
    ] == view.changes


@pytest.mark.parametrize("count", [1, 2, 7, 200])
@pytest.mark.parametrize("words", [1, 2, 4])
def test_the_best_paths_are_the_first_of_all_paths(count: int, words: int) -> None:
    torch.manual_seed(words)
    emissions, transitions = torch.randn(words, 3), torch.randn(3, 3)
    transitions[0, 2] = -torch.inf
    scores = PathScores(transitions, torch.randn(3), torch.randn(3))
    totals = {}
    for labels in itertools.product(range(3), repeat=words):
        steps = sum(float(transitions[pair]) for pair in itertools.pairwise(labels))
        ends = float(scores.start[labels[0]] + scores.end[labels[-1]])
        totals[labels] = steps + ends + sum(float(row[label]) for row, label in zip(emissions, labels, strict=True))
    possible = [labels for labels in sorted(totals, key=lambda labels: -totals[labels]) if totals[labels] > -torch.inf]
    paths = best_paths(emissions, scores, count=count)
    assert [tuple(path.labels) for path in paths] == possible[:count]
    assert [path.score for path in paths] == pytest.approx([totals[labels] for labels in possible[:count]], abs=1e-5)


@contextmanager
def changed(tagger: Tagger, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """A context in which the vectors of the words are changed."""
    inputs = tagger.model.encoder.inputs
    assert inputs is not None

    def hook(_module: object, _arguments: object, output: Padded) -> Padded:
        return output._replace(values=change(output.values))

    handle = inputs.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def log_marginals(tagger: Tagger, labels: list[str]) -> Tensor:
    """[T], of the given labels."""
    source = tagger.source(sentence())
    marginals = tagger.model.marginals(tagger.model(source), source.lengths)[0]
    names = list(tagger.vocabularies.labels)
    return torch.stack([marginals[word, names.index(label)] for word, label in enumerate(labels)]).log()


@pytest.mark.parametrize("head", ["crf", "softmax"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_saliency_is_the_slope_along_each_word(head: str, encoder: str) -> None:
    tagger = build(head, encoder=encoder)
    view, step = inspect_tagging(tagger, sentence(), saliency=True), 1e-6
    slopes, integrated = view.saliency
    assert slopes.method == "gradient × input" and integrated.method == "integrated gradients"
    for word in range(len(WORDS)):
        scale = torch.zeros(len(WORDS), 1, dtype=torch.float64)
        scale[word] = step
        with changed(tagger, lambda values, scale=scale: values * (1 + scale)):
            above = log_marginals(tagger, view.best.labels)
        with changed(tagger, lambda values, scale=scale: values * (1 - scale)):
            below = log_marginals(tagger, view.best.labels)
        torch.testing.assert_close(slopes.weights[:, word], (above - below) / (2 * step), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("head", ["crf", "softmax"])
def test_integrated_gradients_sum_to_the_difference_from_zero_vectors(head: str) -> None:
    tagger = build(head)
    for parameter in tagger.model.parameters():
        parameter.mul_(0.3)  # smooth enough for the midpoint rule
    view = inspect_tagging(tagger, sentence())
    with changed(tagger, torch.zeros_like):
        nothing = log_marginals(tagger, view.best.labels)
    difference = log_marginals(tagger, view.best.labels) - nothing
    torch.testing.assert_close(view.saliency[1].weights.sum(dim=1), difference, rtol=2e-3, atol=2e-4)


def test_attention_is_shown_where_there_is_any_and_saliency_elsewhere() -> None:
    recurrent, transformer = (inspect_tagging(build(encoder=name), sentence()) for name in ENCODERS)
    assert (recurrent.maps, len(recurrent.saliency)) == ([], 2)
    assert ([item.kind for item in transformer.maps], transformer.saliency) == (["encoder", "encoder"], [])
    for item in transformer.maps:
        assert item.weights.shape == (2, len(WORDS), len(WORDS))
        torch.testing.assert_close(item.weights.sum(dim=2), torch.ones(2, len(WORDS), dtype=torch.float64))


def test_one_word_and_no_word() -> None:
    tagger = build()
    view = inspect_tagging(tagger, Sentence(["dog"], {"pos": ["O"]}))
    assert len(view.predicted) == 1 and view.saliency[0].weights.shape == (1, 1)
    with pytest.raises(TextError, match="no words"):
        inspect_tagging(tagger, "  ")
    with pytest.raises(TextError, match="column 'pos'"):
        inspect_tagging(tagger, "the dog")
