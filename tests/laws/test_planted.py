"""Planted bugs: each breaks the laws that should detect it, and the laws hold again without it.

A bug that is the same in training and decoding is self-consistent: only the paper's equations detect it.
"""

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from calque.layers import attention, copying, multihead, recurrent
from calque.layers import transformer as transformer_layers
from calque.layers.mixers import AverageAttention
from calque.layers.multihead import MultiHead
from calque.layers.positions import sinusoids
from calque.layers.recurrent import Recurrence
from calque.models import convolutional, interfaces, transformer
from calque.models.convolutional import ConvolutionalDecoder, ConvolutionalState
from calque.models.luong import LuongDecoder, LuongState
from calque.models.transformer import Embedding, TransformerDecoder, TransformerState
from calque.search import beam
from calque.tensors import select_rows
from tests.laws.laws import LAWS, first_rows
from tests.laws.models import build

Plant = Callable[[pytest.MonkeyPatch], None]


class Bug(NamedTuple):
    plant: Plant
    model: str  # of the list
    laws: set[str]  # that it breaks


def replace(owner: object, name: str, wrap: Callable[[Callable], Callable]) -> Plant:
    """Replaces a function by `wrap(function)`."""
    return lambda patch: patch.setattr(owner, name, wrap(getattr(owner, name)))


def both(*plants: Plant) -> Plant:
    return lambda patch: [plant(patch) for plant in plants] and None


# A missing reorder


def beams_stay(real):
    """Search does not reorder states by parent hypothesis."""

    def extend(live, log_probs, **options):
        extended = real(live, log_probs, **options)
        index = torch.arange(extended.parents.shape[1]).clamp(max=log_probs.shape[1] - 1)
        return extended._replace(parents=index.expand_as(extended.parents))

    return extend


def stays(kind: type, *parts: str) -> Plant:
    """A state's `select` does not reorder these parts, unless the number of rows changes."""

    def select(tree, rows: Tensor):
        chosen = {
            part: getattr(tree, part)
            if part in parts and first_rows(getattr(tree, part)) == len(rows)
            else select_rows(getattr(tree, part), rows)
            for part in tree._fields
        }
        return type(tree)(**chosen)

    return lambda patch: patch.setattr(kind, "select", select, raising=False)


# Input feeding that never feeds


def never_feeds(real):
    """The attentional vector contributes to the gates as if it were zero."""
    return lambda self, start: lambda inputs: real(self, start)(0 * inputs)


def forgets_feed(real):
    """Each chunk starts with a zero feed."""

    def forward(self, tokens, state, context, **options):
        return real(self, tokens, state._replace(feed=torch.zeros_like(state.feed)), context, **options)

    return forward


# Tiled memory


def folds_beam_major(real):
    """[N,T,D] rows treated as K·B instead of B·K."""

    def fold(rows, *, sentences, slots=None):
        return real(rows.unflatten(0, (-1, sentences)).transpose(0, 1).flatten(0, 1), sentences=sentences, slots=slots)

    return fold


def unfolds_beam_major(real):
    def unfold(queries, *, rows, slots=None):
        unfolded = real(queries, rows=rows, slots=slots)
        return unfolded.unflatten(0, (queries.shape[0], -1)).transpose(0, 1).flatten(0, 1)

    return unfold


def beam_major(*modules) -> Plant:
    folds = [replace(module, "fold", folds_beam_major) for module in modules]
    return reduce(both, [*folds, *(replace(module, "unfold", unfolds_beam_major) for module in modules)])


def tiles(real):
    """The context repeated for the beams as 0 1 2 0 1 2 instead of 0 0 1 1 2 2."""

    def forward(self, tokens, state, context, **options):
        sentences = first_rows(context)
        tiled = select_rows(context, torch.arange(sentences).repeat(tokens.shape[0] // sentences))
        return real(self, tokens, state, tiled, **options)

    return forward


# An off-by-one position


def counts_from_one(real):
    return lambda self, tokens, places, *, size: real(self, tokens, places + 1, size=size + 1)


def counts_one_short(real):
    """The last token of a chunk is not counted."""

    def forward(*inputs, **options):
        output, state = real(*inputs, **options)
        return output, state._replace(position=state.position - 1)

    return forward


def counts_the_room(real):
    """A row's position is the size of its cache, not the number of tokens it has read."""

    def forward(self, tokens, state, context, **options):
        position = torch.full_like(state.position, state.past[0].keys.shape[2])
        return real(self, tokens, state._replace(position=position), context, **options)

    return forward


def turns_keys_from_the_chunks_start(real):
    """Rotary keys use their position in the chunk, not in the text."""

    def remember(self, memory, *, turn=None):
        local = None if turn is None else sinusoids(memory.shape[1], width=turn.shape[2]).expand_as(turn)
        return real(self, memory, turn=local)

    return remember


def divides_by_the_room(real):
    """The average is over as many tokens as the longest row has read."""

    def read(self, inputs, carried, chunk):
        longest = chunk.places.amax(dim=0, keepdim=True).expand_as(chunk.places)
        return real(self, inputs, carried, chunk._replace(places=longest))

    return read


# A mask on the wrong side


def looks_at_padding(real):
    return lambda scores, mask: real(scores, mask.flip(-1))


def counts_from_the_end(real):
    return lambda lengths, *, size: real(lengths, size=size).flip(1)


def looks_ahead(real):
    """The tokens of a chunk see later tokens instead of earlier ones."""

    def self_mask(position, *, past, size):
        mask = real(position, past=past, size=size)
        return torch.cat([mask[..., :past], mask[..., past:].transpose(2, 3)], dim=3)

    return self_mask


def keeps_the_front(real):
    """The padding of a shorter prefix is assumed to be after its tokens instead of before them."""

    def self_mask(position, *, past, size):
        mask = real(position, past=past, size=size)
        return torch.cat([mask[..., :past].flip(3), mask[..., past:]], dim=3)

    return self_mask


def flips(real):  # noqa: ARG001 - replaced altogether
    """The backward encoder starts in the padding."""
    return lambda values, lengths: values.flip(1)  # noqa: ARG005


# What a convolution must and must not see


def tails_are(change: Callable[[Tensor], Tensor]) -> Plant:
    """The inputs that each chunk keeps for the next convolutions are changed."""

    def wrap(real):
        def forward(*inputs, **options):
            output, state = real(*inputs, **options)
            return output, state._replace(tails=tuple(change(tail) for tail in state.tails))

        return forward

    return replace(ConvolutionalDecoder, "forward", wrap)


def short(tail: Tensor) -> Tensor:
    """The oldest input is lost: a tail of k − 2."""
    return torch.cat([torch.zeros_like(tail[:, :1]), tail[:, 1:]], dim=1)


def shifted(tail: Tensor) -> Tensor:
    """The newest input is lost, and the others are shifted by one position."""
    return torch.cat([torch.zeros_like(tail[:, :1]), tail[:, :-1]], dim=1)


def reads_padding(real):  # noqa: ARG001 - replaced altogether
    return lambda values, mask: values  # noqa: ARG005


def scales_by_padded_length(real):
    """c is multiplied by √S instead of √m."""

    def prepare(self, memory):
        context = real(self, memory)
        ratio = memory.mask.shape[1] / memory.mask.sum(dim=1).to(context.values.dtype)
        return context._replace(values=context.values * ratio.sqrt()[:, None, None])

    return prepare


# Copied words that are not probabilities


def loses_half(real):
    """Half of the copy probability is lost."""
    return lambda attention, tokens, *, size: real(attention, tokens, size=size) / 2


# A stateful module, which the interfaces forbid


def keeps_state(real):
    """A decoder that continues from its previous state, whatever state it is given."""

    def forward(self, tokens, state, context, **options):
        previous = vars(self).get("kept")
        output, after = real(
            self, tokens, previous if previous and len(previous.feed) == len(tokens) else state, context, **options
        )
        vars(self)["kept"] = after
        return output, after

    return forward


TILED = {"sharing", "row", "compaction", "search", "batch"}
UNMASKED = {"padding", "fidelity", "batch"}
BUGS: dict[str, Bug] = {
    "reorder: search": Bug(replace(beam, "extend", beams_stay), "lstm", {"search"}),
    "reorder: feed": Bug(stays(LuongState, "feed"), "luong-general-feeding", {"row", "search"}),
    "reorder: cache": Bug(stays(TransformerState, "past"), "transformer-pre", {"row", "search"}),
    "reorder: tail": Bug(stays(ConvolutionalState, "tails"), "conv", {"row", "search"}),
    "reorder: carried": Bug(stays(TransformerState, "carried"), "transformer-ssru", {"row", "search"}),
    "feeding: never": Bug(replace(Recurrence, "rest", never_feeds), "luong-general-feeding", {"fidelity"}),
    "feeding: lost between chunks": Bug(
        replace(LuongDecoder, "forward", forgets_feed), "luong-dot-feeding", {"chunk", "search"}
    ),
    "tiled: Luong beam-major": Bug(beam_major(attention), "luong-concat", TILED),
    "tiled: Bahdanau beam-major": Bug(beam_major(attention), "bahdanau", TILED),
    "tiled: Transformer beam-major": Bug(beam_major(transformer_layers, multihead), "transformer-post", TILED),
    "tiled: convolutional beam-major": Bug(beam_major(convolutional), "conv", TILED),
    "tiled: Luong repeat": Bug(replace(LuongDecoder, "forward", tiles), "luong-general", TILED),
    "tiled: Transformer repeat": Bug(replace(TransformerDecoder, "forward", tiles), "transformer-tied", TILED),
    "position: from one": Bug(replace(Embedding, "forward", counts_from_one), "transformer-post", {"fidelity"}),
    "position: one short": Bug(
        replace(TransformerDecoder, "forward", counts_one_short), "transformer-pre", {"chunk", "search"}
    ),
    "position: convolutional one short": Bug(
        replace(ConvolutionalDecoder, "forward", counts_one_short), "conv-kernel-1", {"chunk", "search"}
    ),
    "position: of the room": Bug(
        replace(TransformerDecoder, "forward", counts_the_room), "transformer-post", {"prefixes"}
    ),
    "mask: Luong": Bug(replace(attention, "masked_softmax", looks_at_padding), "luong-general-feeding", UNMASKED),
    "mask: Bahdanau": Bug(replace(attention, "masked_softmax", looks_at_padding), "bahdanau-lstm", UNMASKED),
    "position: of the chunk": Bug(
        replace(MultiHead, "remember", turns_keys_from_the_chunks_start), "transformer-rotary", {"chunk", "search"}
    ),
    "position: average of the room": Bug(
        replace(AverageAttention, "read", divides_by_the_room), "transformer-average", {"prefixes"}
    ),
    "mask: lengths": Bug(replace(interfaces, "length_mask", counts_from_the_end), "transformer-pre", UNMASKED),
    "mask: causal": Bug(replace(transformer, "self_mask", looks_ahead), "transformer-pre", {"chunk"}),
    "mask: prefix": Bug(replace(transformer, "self_mask", keeps_the_front), "transformer-post", {"prefixes"}),
    "mask: reversal": Bug(replace(recurrent, "reverse_within", flips), "luong-dot", UNMASKED),
    "convolution: tail one short": Bug(tails_are(short), "conv", {"chunk", "search"}),
    "convolution: tail shifted": Bug(tails_are(shifted), "conv-kernel-5-beyond-its-positions", {"chunk", "search"}),
    "convolution: padding read": Bug(replace(convolutional, "zero_padding", reads_padding), "conv", UNMASKED),
    "convolution: padding read at the top": Bug(
        replace(convolutional, "zero_padding", reads_padding), "conv-encoder-lstm-decoder", UNMASKED
    ),
    "convolution: scaled by padded length": Bug(
        replace(ConvolutionalDecoder, "prepare", scales_by_padded_length), "conv", UNMASKED
    ),
    "copies: half of them": Bug(
        replace(copying, "copy_probs", loses_half), "bahdanau concat global soft coverage copies", {"probabilities"}
    ),
    "state in a module": Bug(
        replace(LuongDecoder, "forward", keeps_state), "luong-concat-feeding", {"chunk", "self_ensemble"}
    ),
}
ONE_LAW_SEES = [
    *("feeding: never", "position: from one", "position: of the room", "position: average of the room", "mask: prefix")
]


@torch.no_grad()
def broken_laws(model) -> set[str]:
    """The laws that a model violates."""

    def is_broken(law) -> bool:
        try:
            law(model, tolerance=1e-9)
        except AssertionError:
            return True
        return False

    return {name for name, law in LAWS.items() if is_broken(law)}


@pytest.mark.parametrize("name", BUGS)
def test_planted_bug_breaks_its_laws(name: str) -> None:
    bug = BUGS[name]
    model = build(bug.model)
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        broken = broken_laws(model)
    assert bug.laws <= broken
    assert name not in ONE_LAW_SEES or broken == bug.laws
    assert broken_laws(model) == set(), "the laws do not hold again without the bug"


def test_every_law_is_broken_by_some_bug() -> None:
    assert set().union(*(bug.laws for bug in BUGS.values())) == set(LAWS)
