"""n-gram models as language models: the tables' probabilities, in any batch, in any chunk, from any file."""

import numpy as np
import pytest
import torch
from tests.unit.statistics.test_kneser_ney import SIZE, estimate, marked, random_lines
from torch import Tensor

from calque.config import check
from calque.engine.ngram_models import ngram_model
from calque.errors import ConfigError, FolderError
from calque.folders.weights import give_weights_to, load_weights_into, weights_of
from calque.models.language_model import LanguageModel, LanguageModelConfig
from calque.models.ngram import NgramLanguageConfig, NgramOutput
from calque.statistics.ngram_tables import NgramQueries, NgramTables
from calque.tensors import select_rows, weightless
from calque.text import BOS, PAD, UNK


def config(order: int) -> LanguageModelConfig:
    return LanguageModelConfig(network=NgramLanguageConfig(order=order))


def tables(order: int, *, prune: tuple[int, ...] = ()) -> NgramTables:
    return estimate(marked(random_lines(order)), order=order, prune=prune).tables


def rows(*, seed: int = 1, size: int = 6) -> Tensor:
    """Lines of the corpus and random ones, each after a begin mark."""
    drawn = np.random.default_rng(seed).integers(2, SIZE, size=(3, size)).tolist()
    lines = [line[:size] for line in random_lines(3) if len(line) >= size][:3]
    return torch.tensor([[BOS, *line] for line in lines + drawn])


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("prune", [(), (0, 1)], ids=str)
def test_probabilities_are_those_of_the_tables_and_sum_to_one(order: int, prune: tuple[int, ...]) -> None:
    found = tables(order, prune=prune)
    model, queries = ngram_model(found, config=config(order)).double().eval(), NgramQueries(found, begin=BOS)
    words = rows()
    read, _ = model.read(words, model.start(len(words)))
    log_probs = model.log_probs(read.hidden)
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(words.shape).double(), rtol=0, atol=1e-6)
    losses = model.losses(read.hidden[:, :-1].flatten(0, 1), words[:, 1:].flatten()).view(len(words), -1)
    chosen = log_probs[:, :-1].gather(2, words[:, 1:, None]).squeeze(2)
    assert torch.equal(-losses, chosen), "the same additions in the same order"
    for row, line in zip(log_probs.tolist(), words.tolist(), strict=True):
        for end, values in enumerate(row, start=1):
            expected = [queries.log_prob(tuple(line[:end]), word) for word in range(SIZE)]
            np.testing.assert_allclose(values, expected, rtol=1e-6)


def test_a_batch_a_chunk_and_a_choice_of_rows_change_nothing() -> None:
    model = ngram_model(tables(4), config=config(4)).eval()
    words = rows()
    whole = model.log_probs(model.read(words, model.start(len(words)))[0].hidden)
    first, state = model.read(words[:, :3], model.start(len(words)))
    chosen = torch.tensor([2, 0, 2])
    second, _ = model.read(words[chosen, 3:], select_rows(state, chosen))
    assert torch.equal(model.log_probs(first.hidden), whole[:, :3])
    assert torch.equal(model.log_probs(second.hidden), whole[chosen, 3:])
    alone = model.log_probs(model.read(words[1:2], model.start(1))[0].hidden)
    assert torch.equal(alone, whole[1:2])


def test_ignored_targets_cost_nothing() -> None:
    model = ngram_model(tables(3), config=config(3)).eval()
    words = rows()
    read, _ = model.read(words, model.start(len(words)))
    losses = model.losses(read.hidden.flatten(0, 1), torch.full((words.numel(),), PAD), ignored=PAD)
    assert not losses.any()


def test_words_outside_the_vocabulary_are_unknown() -> None:
    model = ngram_model(tables(3), config=config(3)).eval()
    beyond, unknown = (model.read(torch.tensor([[BOS, word, 5]]), model.start(1))[0] for word in (SIZE + 9, UNK))
    assert torch.equal(beyond.hidden, unknown.hidden)


def test_the_longest_ngram_that_was_found() -> None:
    lines = [[4, 5, 6, 7], [8, 5, 6, 4]]
    model = ngram_model(estimate(marked(lines), order=4).tables, config=config(4))
    assert isinstance(model.output, NgramOutput)
    read, _ = model.read(torch.tensor([[BOS, 4, 5, 6, 8]]), model.start(1))
    assert model.output.matched(read.hidden[0], torch.tensor([4, 5, 6, 4, 9])).tolist() == [2, 3, 4, 3, 1]


def test_half_precision_keeps_the_tables() -> None:
    model = ngram_model(tables(3), config=config(3))
    half = ngram_model(tables(3), config=config(3)).to(torch.bfloat16)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), half.parameters(), strict=True))
    assert {parameter.dtype for parameter in model.double().parameters()} == {torch.float64, torch.int64}


def copies(weights: dict[str, Tensor]) -> list[LanguageModel]:
    """A model loaded in each of the two ways."""
    with weightless():
        given = LanguageModel(config(3), vocabulary_size=SIZE)
    give_weights_to(given, weights, origin="file")
    loaded = LanguageModel(config(3), vocabulary_size=SIZE)
    load_weights_into(loaded, weights, origin="file")
    return [given, loaded]


def test_a_file_sets_the_sizes_of_the_tables() -> None:
    model = ngram_model(tables(3), config=config(3))
    for other in copies(weights_of(model)):
        assert weights_of(other).keys() == weights_of(model).keys()
        words = rows()
        expected, found = (
            loaded.log_probs(loaded.read(words, loaded.start(len(words)))[0].hidden) for loaded in (model, other)
        )
        assert torch.equal(found, expected)


def damage(weights: dict[str, Tensor], how: str) -> str:
    """Damages one of the tables; returns what the message says."""
    match how:
        case "order":
            weights["output.keys.2"] = weights["output.keys.2"].flip(0)
            return "output.keys.2: (not in ascending order|an n-gram continues)"
        case "repeated":
            weights["output.keys.3"][1] = weights["output.keys.3"][0]
            return "not in ascending order"
        case "beyond":
            weights["output.keys.3"][-1] = 1 << 60
            return "continues one that does not exist"
        case "length":
            weights["output.log10_probs.3"] = weights["output.log10_probs.3"][:-1]
            return "n-grams, but"
        case "backoffs":
            weights["output.log10_backoffs.2"] = weights["output.log10_backoffs.2"][:-1]
            return "log10_backoffs.2 has"
        case "positive":
            weights["output.log10_probs.2"][0] = 0.5
            return "a probability above 1"
        case "words":
            weights["output.log10_probs.1"] = weights["output.log10_probs.1"][:-1]
            return r"log10_probs.1 has shape \(12,\), expected \(13,\)"
        case _:
            weights["output.keys.2"] = weights["output.keys.2"][:, None]
            return "keys.2 has shape"


@pytest.mark.parametrize("how", ["order", "repeated", "beyond", "length", "backoffs", "positive", "words", "matrix"])
def test_damaged_tables_are_refused(how: str) -> None:
    weights = {name: tensor.clone() for name, tensor in weights_of(ngram_model(tables(3), config=config(3))).items()}
    with pytest.raises(FolderError, match=damage(weights, how)):
        copies(weights)


def test_settings_that_do_not_fit_are_refused() -> None:
    for network, message in [({"prune": [1, 0]}, "thresholds at least as high"), ({"order": 0}, "order")]:
        with pytest.raises(ConfigError, match=message):
            check(LanguageModelConfig, {"network": {"kind": "ngram", **network}}, origin="test")
    for option in ({"spread": 0.1}, {"output": {"kind": "sampled"}}):
        with pytest.raises(ConfigError, match=r"(used only|no effect) with network"):
            check(LanguageModelConfig, {"network": {"kind": "ngram"}, **option}, origin="test")


def test_tables_on_disk_are_found_by_name() -> None:
    """The names are part of the format of model folders."""
    names = set(weights_of(ngram_model(tables(3), config=config(3))))
    assert names == {
        *(f"output.keys.{level}" for level in (2, 3)),
        *(f"output.log10_probs.{level}" for level in (1, 2, 3)),
        *(f"output.log10_backoffs.{level}" for level in (1, 2)),
    }
