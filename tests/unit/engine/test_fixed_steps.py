"""Translation on tensors of fixed shape, as on a GPU, gives what the other searches give; here without graphs."""

from typing import Any

import pytest
import torch
from tests.unit.engine.test_promises import TOKENIZERS, garbage

from calque.engine import Request
from calque.engine.translator import Translator
from calque.errors import CalqueError
from calque.search.fixed_beam import Eager
from calque.search.settings import SearchConfig

LINES = ["the cat", "a cat sat on the mat and the dog too", "", "dog", "the the the the the the", "a b c"]
FAMILIES = ["bahdanau", "luong", "convolutional", "transformer"]


class WithoutGraphs(Eager):
    """Counts how often search is advanced."""

    def __init__(self) -> None:
        self.runs = 0
        self.shapes: set[Any] = set()

    def run(self, *arguments: Any) -> Any:
        self.runs += 1
        self.shapes.add(arguments[2].live.shape)
        return super().run(*arguments)


def on_fixed_shapes(translator: Translator) -> tuple[Translator, WithoutGraphs]:
    """The same translator, whose search runs on tensors of fixed shape."""
    other = Translator(translator.model, translator.tokenizers, config=translator.config, search=translator.search)
    graphs = WithoutGraphs()
    other.graphs = graphs
    return other, graphs


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "search",
    [
        {"beam": 1, "length_penalty": 0.0},
        {"beam": 4},
        {"beam": 3, "stopping": "first", "normalisation": "plain"},
        {"beam": 4, "minimum": 5, "reward": 0.3, "end_normalisation": 0.2},
        {"beam": 2, "minimum": 6, "maximum": 6},
    ],
)
def test_the_same_candidates(family: str, search: dict[str, Any]) -> None:
    translator = garbage(TOKENIZERS["words"](), family=family, **({"maximum": 12} | search))
    translator.model.double()
    fixed, graphs = on_fixed_shapes(translator)
    for nbest in {1, search["beam"]}:
        expected = list(translator.stream(LINES, nbest=nbest))
        actual = list(fixed.stream(LINES, nbest=nbest))
        for translation, other in zip(actual, expected, strict=True):
            assert [candidate.text for candidate in translation.candidates] == [
                candidate.text for candidate in other.candidates
            ]
            assert [candidate.score for candidate in translation.candidates] == pytest.approx(
                [candidate.score for candidate in other.candidates]
            )
    assert graphs.runs > 0
    assert all(shape[0] in (1, 2, 3, 4, 6, 8) for shape in graphs.shapes)  # usual sizes alone


def test_long_translations_need_more_room_and_finished_sentences_leave() -> None:
    """Sentences end at very different lengths, so that the batch shrinks, and the longest outgrow their tensors."""
    translator = garbage(TOKENIZERS["words"](), family="transformer", beam=3, maximum=70, maximum_ratio=40)
    translator.model.double()
    fixed, graphs = on_fixed_shapes(translator)
    lines = [" ".join(["the", "cat", "dog"][: 1 + number % 3]) for number in range(16)]
    requests = [
        Request(line, search=translator.search.model_copy(update={"minimum": 1 + 9 * (number % 8)}))
        for number, line in enumerate(lines)
    ]
    assert [item.text for item in fixed.stream(requests)] == [item.text for item in translator.stream(requests)]
    assert graphs.runs > 3


def test_constraints_samples_and_ensembles_take_other_ways() -> None:
    translator = garbage(TOKENIZERS["words"](), family="transformer", beam=3, maximum=8)
    fixed, graphs = on_fixed_shapes(translator)
    requests = [
        Request("the cat", prefix="a"),
        Request("the cat", required=("cat",)),
        Request("the cat", search=translator.search.model_copy(update={"method": "sample"})),
        Request("the cat", search=translator.search.model_copy(update={"coverage": 0.2})),
        Request("the cat", search=translator.search.model_copy(update={"no_repeat": 2})),
    ]
    assert [item.text for item in fixed.stream(requests)] == [item.text for item in translator.stream(requests)]
    with_two = fixed.with_ensemble([translator])
    assert [item.text for item in with_two.stream(["the cat"])]
    assert graphs.runs == 0


def test_a_late_request_ends_its_search_and_not_that_of_others() -> None:
    translator = garbage(TOKENIZERS["words"](), family="transformer", beam=2, maximum=400, minimum=400)
    fixed, graphs = on_fixed_shapes(translator)
    late, other = fixed.engine().answers([Request("the cat", timeout=0.05), Request("dog", search=SHORT)])
    assert isinstance(late, CalqueError) and "not answered within 0.05 seconds" in str(late)
    assert other == next(iter(translator.engine().answers([Request("dog", search=SHORT, line=1)])))
    assert graphs.runs < 100  # 400 tokens would take as many


SHORT = SearchConfig(beam=2, maximum=5)


@torch.no_grad()
def test_models_on_a_cpu_have_no_graphs() -> None:
    assert garbage(TOKENIZERS["words"]()).graphs is None
