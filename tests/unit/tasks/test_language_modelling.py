"""Language modelling: batches of lines and of running text, their loss, and the carried state."""

import numpy as np
import pytest
import torch

from calque.config import check
from calque.data.batching import WHOLE, BatchConfig
from calque.data.store import Store, pack, store_in_memory
from calque.models.language_model import LanguageModel, LanguageModelConfig
from calque.objectives.language_model import lines_loss, running_loss
from calque.tasks.language_modelling import LanguageModelling, LanguageModellingConfig
from calque.text import BOS, EOS, PAD

V = 9
LINES = [[4, 5, 6], [7], [8, 4], [5, 5, 5, 6], [6, 7]]
LSTM = {"kind": "recurrent", "layers": 2, "width": 6, "embedding": 6, "dropout": 0.0}
TRANSFORMER = {"kind": "transformer", "layers": 1, "width": 8, "heads": 2, "feed_forward": 12, "dropout": 0.0}


def model(network: dict[str, object]) -> LanguageModel:
    torch.manual_seed(1)
    config = check(LanguageModelConfig, {"network": network}, origin="test")
    return LanguageModel(config, vocabulary_size=V).double().eval().requires_grad_(False)


def lines() -> Store:
    return store_in_memory({"text": pack(LINES)})


def running(repeat: int = 4) -> Store:
    return store_in_memory({"text": pack([[*line, EOS] for line in LINES] * repeat)})


def log_prob(network: LanguageModel, line: list[int]) -> float:
    """Token by token, from the begin mark."""
    total, state, before = 0.0, network.start(1), BOS
    for token in (*line, EOS):
        read, state = network.read(torch.tensor([[before]]), state)
        total += float(network.log_probs(read.hidden)[0, 0, token])
        before = token
    return total


@pytest.mark.parametrize("network", [LSTM, TRANSFORMER], ids=["lstm", "transformer"])
def test_the_loss_of_lines_is_the_sum_over_single_lines(network: dict[str, object]) -> None:
    built, task, store = model(network), LanguageModelling(LanguageModellingConfig()), lines()
    expected = -sum(log_prob(built, line) for line in LINES)
    total, weight = 0.0, 0.0
    for planned in task.order(store, config=BatchConfig(tokens=9), seed=1).batches(0):
        batch = task.collate(store, planned, epoch=0, shard=WHOLE)
        total += float(task.loss(built, batch, step=1).objective)
        weight += batch.weight
    assert weight == sum(len(line) + 1 for line in LINES)
    assert total == pytest.approx(expected, abs=1e-9)
    loss = lines_loss(built, store, batch=BatchConfig(tokens=7))
    assert (loss.nats, loss.tokens) == (pytest.approx(expected, abs=1e-9), weight)


def test_a_line_is_shifted_between_its_marks() -> None:
    task, store = LanguageModelling(LanguageModellingConfig()), lines()
    (planned,) = task.order(store, config=BatchConfig(tokens=99), seed=0).batches(0)
    batch = task.collate(store, planned, epoch=0, shard=WHOLE)
    for row, index in enumerate(planned.indices):
        line = LINES[index]
        assert batch.inputs[row].tolist()[: len(line) + 1] == [BOS, *line]
        assert batch.outputs[row].tolist()[: len(line) + 1] == [*line, EOS]
        assert set(batch.outputs[row].tolist()[len(line) + 1 :]) <= {PAD}
    assert batch.positions == sum(part.positions for part in batch.split(3))
    assert batch.weight == sum(part.weight for part in batch.split(3))


def test_running_text_carries_its_state() -> None:
    """The losses of an epoch's batches are those of each stream read at once."""
    built, store = model(LSTM), running()
    task = LanguageModelling(LanguageModellingConfig(reading="running", bptt=5))
    total, carry, outputs = 0.0, None, []
    for planned in task.order(store, config=BatchConfig(tokens=10), seed=1).batches(0):
        batch = task.collate(store, planned, epoch=0, shard=WHOLE)
        loss = task.loss(built, batch, step=1, carry=carry)
        total, carry = total + float(loss.objective), loss.carry
        outputs.append(batch.outputs)
    streams = torch.cat(outputs, dim=1)
    text = store["text"].values.astype(np.int64)
    size = streams.shape[1]
    expected = 0.0
    for row in range(2):
        stream = torch.from_numpy(text[row * size : (row + 1) * size + 1])
        assert stream[1:].tolist() == streams[row].tolist()
        read, _ = built.read(stream[None, :-1], built.start(1))
        expected -= float(built.log_probs(read.hidden).gather(2, stream[None, 1:, None]).sum())
    assert total == pytest.approx(expected, abs=1e-9)
    first = task.collate(
        store, next(task.order(store, config=BatchConfig(tokens=10), seed=1).batches(1)), epoch=1, shard=WHOLE
    )
    fresh, carried = (float(task.loss(built, first, step=1, carry=state).objective) for state in (None, carry))
    assert first.begins and fresh == carried  # an epoch starts with a new state


@pytest.mark.parametrize("rows", [1, 3])
def test_the_loss_of_running_text(rows: int) -> None:
    built, text = model(LSTM), running()["text"].values
    loss = running_loss(built, text, rows=rows, steps=4)
    assert loss.tokens == len(text)
    tokens = torch.from_numpy(np.concatenate([[EOS], text]).astype(np.int64))[None]
    read, _ = built.read(tokens[:, :-1], built.start(1))
    exact = -float(built.log_probs(read.hidden).gather(2, tokens[:, 1:, None]).sum())
    if rows == 1:
        assert loss.nats == pytest.approx(exact, abs=1e-9)
    else:
        assert loss.nats == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize(("context", "stride"), [(4, 1), (5, 3), (6, 6), (500, 9)])
def test_a_transformer_sees_a_stated_context(context: int, stride: int) -> None:
    """Every token is predicted once, in the first window that contains it."""
    built, text = model(TRANSFORMER), running(1)["text"].values.astype(np.int64)
    loss = running_loss(built, text, rows=2, context=context, stride=stride)
    assert loss.tokens == len(text)
    tokens = np.concatenate([[EOS], text])
    expected, done = 0.0, 0
    ends = [*range(min(context, len(text)), len(text), stride), len(text)]
    for end in dict.fromkeys(ends):
        start = max(0, end - context)
        window = torch.from_numpy(tokens[start : end + 1])[None]
        read, _ = built.read(window[:, :-1], built.start(1))
        log_probs = built.log_probs(read.hidden).gather(2, window[:, 1:, None])[0, :, 0]
        expected -= float(log_probs[done - start :].sum())
        done = end
    assert loss.nats == pytest.approx(expected, abs=1e-9)


def test_penalties_of_the_states_count_in_the_objective_and_not_in_the_loss() -> None:
    """α‖h‖² / D + β‖hₜ − hₜ₋₁‖² / D of every token that is no padding (Merity et al. 2017), written out."""
    alpha, beta = 2.0, 3.0
    network = model({**LSTM, "layers": 1, "activation_penalty": alpha, "temporal_penalty": beta}).train()
    task, store = LanguageModelling(LanguageModellingConfig()), lines()
    (planned,) = task.order(store, config=BatchConfig(tokens=99), seed=0).batches(0)
    batch = task.collate(store, planned, epoch=0, shard=WHOLE)
    expected = 0.0
    for row, length in enumerate(batch.lengths.tolist()):
        state, before = network.start(1), torch.zeros(6).double()
        for token in batch.inputs[row, :length]:
            read, state = network.read(token.view(1, 1), state)
            hidden = read.hidden[0, 0]
            expected += float(alpha * hidden.square().mean() + beta * (hidden - before).square().mean())
            before = hidden
    loss = task.loss(network, batch, step=1)
    assert float(loss.objective - loss.parts["loss"]) == pytest.approx(expected, abs=1e-9)
