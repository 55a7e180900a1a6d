"""Gradients of every layer and of its hand-written functions against finite differences, in training mode."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from tests.laws.cover import name, pairwise
from tests.laws.slopes import Case, Shape, check, forward, unchecked
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError

from calque import layers
from calque.layers.adaptive import AdaptiveOutput, AdaptiveOutputConfig
from calque.layers.attention import Attention, AttentionConfig, PositionPredictor, masked_softmax
from calque.layers.attention_scores import Score, build_score
from calque.layers.connections import Connection
from calque.layers.convolution import GatedConvolution, NormalisedLinear, normalised
from calque.layers.copying import CopyGate
from calque.layers.crf import LinearChainCRF
from calque.layers.dropout import Dropout
from calque.layers.feed_forward import build_feed_forward
from calque.layers.int8 import Float64Linear
from calque.layers.int8_linear import Int8Linear
from calque.layers.key_value_memory import KeyValueMemory
from calque.layers.log_mel import LogMel, Normalise
from calque.layers.maxout import Maxout
from calque.layers.mixers import SSRU, AverageAttention, RecurrentMixer, recur
from calque.layers.multihead import Chunk, MultiHead, RelativeMultiHead
from calque.layers.negatives import NegativesOutput, NegativesOutputConfig
from calque.layers.normalisation import build_norm
from calque.layers.observers import AttentionLayer, StateLayer
from calque.layers.output import FullOutput, OutputLayer
from calque.layers.packed import PackedLinear
from calque.layers.padded import PaddedLinear
from calque.layers.pooling import AttentionPooling
from calque.layers.positions import LearnedPositions, Sinusoids, rotate, sinusoids
from calque.layers.recurrent import Gates, Recurrence, state_parts
from calque.layers.reinforce import Draws, MovingBaseline, reinforced
from calque.layers.sampled import SampledOutput, SampledOutputConfig
from calque.layers.stack import RecurrentStack, StackConfig, split_layers
from calque.layers.time_attention import TimeAttention
from calque.layers.transformer import BlockShape, DecoderBlock, Dropouts, EncoderBlock, Residual
from calque.tensors import at_last, reverse_within, running_sum, select_rows

ROWS, SIZE, WIDTH, HEADS, WORDS, DROPOUT = 2, 3, 4, 2, 5, 0.3
WHOLE = (ROWS, SIZE, WIDTH)
LENGTHS = torch.tensor([SIZE, 2])
MASK = torch.arange(SIZE) < LENGTHS[:, None]
CELLS = ["rnn", "rnn-relu", "lstm", "gru", "gru-original"]
CONNECTIONS = ["none", "residual", "dense", "highway"]
WITHOUT = {
    RecurrentMixer,  # abstract, as are the next four
    OutputLayer,
    Score,
    AttentionLayer,
    StateLayer,
    MovingBaseline,  # updated from rewards, not by gradients
    Sinusoids,  # no weights, and integer inputs
    Int8Linear,  # products of integers have no gradients
    Gates,  # products for decoding
    Float64Linear,  # replaces a linear layer beside them
    PackedLinear,  # nn.Linear where gradients are needed, as is the next
    PaddedLinear,
    LogMel,  # of integer samples, without weights
    Normalise,  # of features without gradients; its statistics are not trained
}


# --- Single layers, element by element ---


def recurrence(cell: str, *, layer_norm: bool) -> Case:
    """All positions at once; step by step with dropout and different lengths; and with inputs in two parts."""
    keep = torch.tensor([[2.0, 0, 2], [0, 2, 2]], dtype=torch.float64)

    def call(layer: Recurrence, inputs: Tensor, *state: Tensor) -> Any:
        in_parts = layer.step(layer.project(inputs[:, 0, :1]) + layer.rest(1)(inputs[:, 0, 1:]), state)
        return layer(inputs, state), layer.unrolled(inputs, state, keep=keep, lengths=LENGTHS), in_parts

    build = partial(Recurrence, cell, input_width=2, width=3, layer_norm=layer_norm)
    return Case(build, call, [(ROWS, SIZE, 2), *[(ROWS, 3)] * state_parts(cell)])


def score(kind: str) -> Case:
    def call(layer: Score, queries: Tensor, memory: Tensor, coverage: Tensor) -> Tensor:
        return layer(queries, layer.keys(memory), coverage)

    build = partial(build_score, kind, query_width=WIDTH, memory_width=WIDTH, width=3, longest=2, covered=True)
    return Case(build, call, [(ROWS, 2, WIDTH), WHOLE, (ROWS, 2, SIZE)])


def attention(options: dict[str, Any]) -> Case:
    """For two hypotheses per sentence, with auxiliary losses and the log-probability of sampled positions."""
    sizes = {"additive": {"alignment": 3}, "location": {"longest": 2}}.get(options["score"], {})
    window = {} if options["reach"] == "global" else {"window": 1}
    config = AttentionConfig(**options, **sizes, **window)

    def call(layer: Attention, queries: Tensor, values: Tensor) -> Any:
        context = layer.prepare(values, MASK)
        twice = torch.arange(ROWS).repeat_interleave(2)
        return layer(queries, select_rows(layer.start(context), twice), context)

    build = partial(Attention, config, query_width=WIDTH, memory_width=3)
    return Case(build, call, [(2 * ROWS, 2, WIDTH), (ROWS, SIZE, 3)])


def heads(kind: Callable[..., MultiHead], *, key_value_heads: int | None = None, turn: Tensor | None = None) -> Case:
    """Self-attention of a chunk alone and after another, attention over a masked memory, and its weights."""
    causal = torch.ones(ROWS, 1, SIZE, 2 * SIZE, dtype=torch.bool).tril(SIZE)

    def call(layer: MultiHead, inputs: Tensor, memory: Tensor) -> Any:
        first, past = layer.read(memory, layer.start(ROWS, like=memory), chunk(turn=turn))
        second, _ = layer.read(inputs, past, chunk(turn=turn, mask=causal))
        keys_values, source_mask = layer.remember(memory), MASK[:, None, None]
        return (
            first,
            second,
            layer(inputs, keys_values, source_mask),
            layer.weights(layer.queries(inputs), keys_values.keys, source_mask),
        )

    build = partial(kind, WIDTH, heads=HEADS, dropout=DROPOUT, key_value_heads=key_value_heads)
    return Case(build, call, [WHOLE, WHOLE])


def chunk(*, turn: Tensor | None = None, mask: Tensor | None = None) -> Chunk:
    past = 0 if mask is None else mask.shape[-1] - SIZE
    return Chunk(2 + torch.arange(SIZE).expand(ROWS, -1), mask, turn, past)


def recurrent_mixer(build: Callable[[], RecurrentMixer]) -> Case:
    return Case(build, lambda layer, inputs, carried: layer.read(inputs, carried, chunk()), [WHOLE, (ROWS, WIDTH)])


def feed_forward(activation: str) -> nn.Module:
    return build_feed_forward(activation, width=WIDTH, inner=3, dropout=DROPOUT)


def output(kind: Callable[..., OutputLayer], *, smoothing: float = 0.0) -> Case:
    def build() -> OutputLayer:
        layer = kind(vocabulary_size=WORDS, width=WIDTH)
        layer.learn_frequencies(torch.tensor([0, 9, 1, 30, 2]))
        return layer

    def call(layer: OutputLayer, hidden: Tensor) -> Any:
        targets = torch.arange(WORDS)
        total = layer.total_loss(hidden[:3], targets[:3], smoothing=smoothing)
        return layer.loss(hidden, targets, smoothing=smoothing), layer.log_probs(hidden[:2]), total

    return Case(build, call, [(WORDS, WIDTH)])


def shape(**options: Any) -> BlockShape:
    return BlockShape(WIDTH, HEADS, inner=3, dropouts=Dropouts(DROPOUT, DROPOUT, DROPOUT), **options)


def around(place: str) -> Case:
    def call(layer: Residual, stream: Tensor, factor: Tensor) -> Tensor:
        return layer.leave(stream, layer.enter(stream) * factor)

    return Case(lambda: Residual(shape(place=place)), call, [WHOLE, WHOLE])


def positions(layer: LearnedPositions, inputs: Tensor) -> Tensor:
    return inputs * layer(torch.arange(SIZE), size=SIZE, like=inputs)


def chain(layer: LinearChainCRF, scores: Tensor) -> Any:
    """All that has a gradient, of sentences of different lengths, one of them without words."""
    lengths, labels = torch.tensor([SIZE, 0, 2]), torch.tensor([[4, 0, 2], [0, 0, 0], [1, 3, 0]])
    paths = layer.viterbi(scores, lengths)
    return layer.loss(scores, labels, lengths), layer.marginals(scores, lengths), paths.scores


ATTENTIONS = pairwise(
    {
        "score": ["general", "additive", "location"],
        "reach": ["global", "local-m", "local-p"],
        "choice": ["soft", "hard"],
        "gated": [False, True],
        "coverage": [False, True],
    }
)
plain, relative = partial(MultiHead, memory_width=WIDTH), partial(RelativeMultiHead, reach=1)
turn = sinusoids(SIZE, width=WIDTH // HEADS).expand(ROWS, -1, -1)


def negatives(loss: str) -> Case:
    """Sampled negatives, some of which are avoided, and the scores of all items."""

    def call(layer: NegativesOutput, hidden: Tensor) -> Any:
        targets = torch.tensor([[1, 2, 3], [4, 1, 2]])
        return layer.sampled_losses(hidden, targets, avoided=targets[:, :2]), layer.log_probs(hidden)

    config = NegativesOutputConfig(loss=loss, negatives=3)
    return Case(partial(NegativesOutput, config, vocabulary_size=WORDS, width=WIDTH, first=1), call, [WHOLE])


def memory_of_pairs() -> Case:
    """Written twice, the second time with an empty slot, and read."""

    def call(layer: KeyValueMemory, keys: Tensor, values: Tensor, queries: Tensor) -> Tensor:
        slots = layer.write(layer.start(ROWS, value_width=3, like=keys), keys, values)
        return layer(layer.write(slots, keys * 2, values - 1, mask=MASK), queries)

    return Case(partial(KeyValueMemory, WIDTH, address_width=3), call, [WHOLE, (ROWS, SIZE, 3), (ROWS, 2, WIDTH)])


def attention_by_time() -> Case:
    buckets = torch.tensor([[[0, 1, 2], [2, 0, 1], [1, 2, 0]]]).expand(ROWS, -1, -1)
    build = partial(TimeAttention, WIDTH, heads=HEADS, buckets=3, dropout=DROPOUT)
    return Case(build, lambda layer, inputs: layer(inputs, buckets), [WHOLE])


SINGLE = {
    "pooling": Case(partial(AttentionPooling, WIDTH), lambda layer, values: layer(values, MASK), [WHOLE]),
    "binary negatives": negatives("binary"),
    "pairwise negatives": negatives("pairwise"),
    "key-value memory": memory_of_pairs(),
    "attention by time": attention_by_time(),
    **{cell: recurrence(cell, layer_norm=False) for cell in CELLS},
    **{f"{cell}, normalised": recurrence(cell, layer_norm=True) for cell in CELLS},
    **{
        f"connection {kind}": forward(
            partial(Connection, kind, layer=0 if kind == "dense" else 1, layers=2, width=WIDTH), WHOLE, WHOLE
        )
        for kind in CONNECTIONS
    },
    **{f"score {kind}": score(kind) for kind in ("dot", "scaled_dot", "general", "concat", "additive", "location")},
    **{f"attention {name(options)}": attention(options) for options in ATTENTIONS},
    "position predictor": forward(lambda: PositionPredictor(WIDTH), WHOLE),
    "copy gate": forward(lambda: CopyGate(context=3, state=WIDTH, inputs=2), (2, 2, 3), (2, 2, WIDTH), (2, 2, 2)),
    "maxout": forward(lambda: Maxout(WIDTH + 2, units=3), WHOLE, (ROWS, SIZE, 2)),
    "normalised linear": forward(lambda: NormalisedLinear(WIDTH, outputs=3), WHOLE),
    **{
        f"convolution of {kernel}": forward(partial(GatedConvolution, 3, kernel=kernel), (ROWS, kernel + 2, 3))
        for kernel in (1, 2, 3)
    },
    **{f"norm {kind}": forward(partial(build_norm, kind, width=WIDTH), WHOLE) for kind in ("layer", "rms")},
    **{f"feed-forward {kind}": forward(partial(feed_forward, kind), WHOLE) for kind in ("relu", "gelu", "swiglu")},
    "learned positions": Case(lambda: LearnedPositions(WIDTH, maximum=2), positions, [WHOLE]),
    "heads": heads(plain),
    "heads, grouped": heads(plain, key_value_heads=1),
    "heads, rotary": heads(plain, turn=turn),
    "heads, relative": heads(relative),
    "heads, relative and grouped": heads(relative, key_value_heads=1),
    "ssru": recurrent_mixer(lambda: SSRU(WIDTH)),
    "average attention": recurrent_mixer(lambda: AverageAttention(WIDTH, feed_forward=feed_forward("relu"))),
    **{f"{place}-norm": around(place) for place in ("pre", "post")},
    "dropout": forward(lambda: Dropout(DROPOUT), WHOLE),
    "full output": output(FullOutput, smoothing=0.1),
    "sampled output": output(partial(SampledOutput, SampledOutputConfig(samples=4))),
    "linear-chain CRF": Case(lambda: LinearChainCRF(WORDS), chain, [(3, SIZE, WORDS)]),
    "adaptive output": output(partial(AdaptiveOutput, AdaptiveOutputConfig(cutoffs=(1, 3), shrink=2.0))),
}


@pytest.mark.parametrize("case", SINGLE)
def test_of_a_layer(case: str) -> None:
    check(SINGLE[case])


# --- Functions, element by element ---


def function(call: Callable[..., Any], *shapes: Shape) -> Case:
    return Case(nn.Module, lambda _layer, *inputs: call(*inputs), shapes)


def reinforced_loss(chosen: Tensor) -> Tensor:
    losses, baseline = torch.tensor([[1.0, 3, 2], [4, 1, 0]], dtype=torch.float64), torch.tensor(-2.0)
    return reinforced(chosen, losses=losses, counts=MASK, baseline=baseline, draws=Draws(0.5, 0.9))


FUNCTIONS = {
    "recur": function(lambda decay, inputs, start: recur(decay, inputs, start=start), WHOLE, WHOLE, (ROWS, WIDTH)),
    "rotate": function(rotate, (ROWS, HEADS, SIZE, WIDTH), WHOLE),
    "normalised": function(lambda direction, size: normalised(direction, magnitude=size), (3, 2, 2), (3,)),
    "masked softmax": function(lambda scores: masked_softmax(scores, MASK[:, None]), (ROWS, 2, SIZE)),
    "running sum": function(partial(running_sum, dim=1), (2, 5, 2)),
    "reversed": function(partial(reverse_within, lengths=LENGTHS), WHOLE),
    "last": function(partial(at_last, lengths=LENGTHS), WHOLE),
    "reinforced": function(reinforced_loss, (ROWS, SIZE)),
}


@pytest.mark.parametrize("case", FUNCTIONS)
def test_of_a_function(case: str) -> None:
    check(FUNCTIONS[case])


def test_of_a_running_sum_in_a_fixed_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    check(FUNCTIONS["running sum"])


# --- Composed layers, along one direction per tensor ---


def stack(options: dict[str, Any]) -> Case:
    """All positions at once, and step by step with inputs in two parts; with dropout and noise."""

    def call(layer: RecurrentStack, inputs: Tensor, *parts: Tensor) -> Any:
        state, outputs = layer.start(parts), []
        levels, rest, weights = split_layers(state.parts), layer.entering(state, start=2), layer.weights(state)
        for entered, word in zip(layer.enter(inputs[..., :2], state).unbind(1), inputs.unbind(1), strict=True):
            gates = entered + rest(word[:, 2:])
            output, levels = layer.step(gates, levels, inputs=word, masks=state.masks, weights=weights)
            outputs.append(output)
        return layer.leave(torch.stack(outputs, dim=1), state), levels, layer(inputs, state)

    config = StackConfig(layers=2, width=WIDTH, dropout=DROPOUT, noise=0.1, **options)
    states = [(ROWS, 2, WIDTH)] * state_parts(config.cell)
    return Case(lambda: RecurrentStack(config, input_width=5), call, [(ROWS, SIZE, 5), *states])


def encoder_block(**options: Any) -> Case:
    def call(layer: EncoderBlock, stream: Tensor) -> Tensor:
        return layer(stream, MASK[:, None, None], turn=None if "reach" in options else turn)

    return Case(lambda: EncoderBlock(shape(**options)), call, [WHOLE])


def decoder_block(mixer: str, **options: Any) -> Case:
    def call(layer: DecoderBlock, stream: Tensor, memory: Tensor) -> Any:
        read, after = layer.read(stream, layer.self_attention.start(ROWS, like=stream), chunk())
        cross = layer.cross_attend(
            read, layer.cross_attention.remember(memory), MASK[:, None, None], slots=None, attention=True
        )
        return layer.feed(cross.stream), cross, after

    return Case(lambda: DecoderBlock(shape(**options), memory_width=3, mixer=mixer), call, [WHOLE, (ROWS, SIZE, 3)])


STACKS = pairwise(
    {
        "cell": CELLS,
        "connection": CONNECTIONS,
        "layer_norm": [False, True],
        "variational": [False, True],
        "weight_dropout": [0.0, DROPOUT],
    }
)
COMPOSED = {
    **{f"stack {name(options)}": stack(options) for options in STACKS},
    "encoder block": encoder_block(),
    "encoder block, post-norm": encoder_block(place="post", normalisation="rms", activation="swiglu", reach=1),
    "decoder block": decoder_block("attention", key_value_heads=1),
    "decoder block, ssru": decoder_block("ssru", normalisation="rms"),
    "decoder block, average": decoder_block("average", place="post", activation="gelu"),
}


@pytest.mark.parametrize("case", COMPOSED)
def test_of_layers_together(case: str) -> None:
    check(COMPOSED[case], fast=True)


def test_every_layer_has_its_gradients_checked() -> None:
    assert unchecked(layers, cases=[*SINGLE.values(), *COMPOSED.values()], without=WITHOUT) == set()


class Stopping(nn.Linear):
    """A layer with a deliberately wrong gradient."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) * inputs.detach()


@pytest.mark.parametrize("fast", [False, True])
def test_a_wrong_gradient_is_found(fast: bool) -> None:
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        check(forward(lambda: Stopping(WIDTH, WIDTH), WHOLE), fast=fast)


def test_an_unused_weight_is_found() -> None:
    with pytest.raises(AssertionError, match="'bias'"):
        check(Case(lambda: nn.Linear(WIDTH, WIDTH), lambda layer, inputs: inputs @ layer.weight, [WHOLE]))


def test_a_layer_without_a_case_is_found() -> None:
    cases = [case for label, case in SINGLE.items() if label != "ssru"]
    assert unchecked(layers, cases=[*cases, *COMPOSED.values()], without=WITHOUT) == {"SSRU"}
