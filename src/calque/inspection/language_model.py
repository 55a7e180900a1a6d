"""What a language model computes for a text: piece probabilities, attention, saliency, continuations.

Letters: T pieces with the end mark, V vocabulary, E width.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from calque.engine.engine import lock_of
from calque.engine.text_generator import TextGenerator, TextPerplexity
from calque.errors import TextError
from calque.evaluation.alignment import words_of
from calque.inspection.attention_maps import AttentionMap, AttentionRecorder
from calque.inspection.beam_tree import BeamRecorder
from calque.inspection.beam_view import BeamView, Found, beam_view, search_with_beams
from calque.inspection.next_tokens import Alternative, TargetStep, likeliest, next_token_steps
from calque.inspection.saliency import ONE, attributions, midpoints
from calque.inspection.translation import Saliency
from calque.layers.observers import observe_attention
from calque.models.ngram import NgramNetwork, NgramOutput
from calque.search.settings import SearchConfig
from calque.text import EOS, PIECES

NEXT = 10
"""How many of the most likely next pieces after a text are listed."""
LONGEST = 512
"""The maximum number of pieces of an inspected text; attention and saliency grow with its square."""
POSITIONS = 256  # that pass through the output layer together
MATCHED = "matched n-gram"
"""The name of the method that n-gram models have instead of saliency."""
CONTINUATION = 20  # pieces of a continuation, at most


class Continuation(NamedTuple):
    """The continuation of a text by search or sampling."""

    text: str  # with the text that it continues
    pieces: list[str]  # of the continuation alone, with the end mark unless it was truncated
    is_cut: bool
    log_prob: float  # of the whole text, as search counts it
    score: float
    steps: list[TargetStep]
    beam: BeamView | None  # of beam search; its lengths count the continuation alone, its scores the whole text


class TextView(NamedTuple):
    """What a language model computed for one text.

    The model reads `inputs[i]` and predicts `pieces[i]`; attention and saliency have a row per prediction and a column
    per input, and are zero above the diagonal.
    """

    text: str
    inputs: list[str]  # the start mark, then the pieces
    pieces: list[str]  # with the end mark
    words: list[int]  # the word of each piece, the end mark left out
    steps: list[TargetStep]
    perplexity: TextPerplexity
    next: list[Alternative]  # the likeliest pieces after the text
    maps: list[AttentionMap]
    saliency: list[Saliency]
    continuation: Continuation | None

    @property
    def log_prob(self) -> float:
        """The log-probability of the whole text, end mark included."""
        return sum(step.log_prob for step in self.steps)


def inspect_text(
    generator: TextGenerator,
    text: str,
    *,
    saliency: bool | None = None,
    search: SearchConfig | None = None,
    maximum: int = CONTINUATION,
) -> TextView:
    """Reads a text with a language model, and returns all that the model computed for it.

    By default, `saliency` is computed only if the model has no attention; for an n-gram model, which has no gradients,
    it marks the longest matching n-gram. If `search` is given, the text is also continued by at most `maximum`
    pieces, and the view contains the beam tree.

    >>> view = inspect_text(calque.load("runs/english"), "The weather is")
    >>> [(item.piece, item.log_prob) for item in view.next[:2]]
    [('▁good', -1.21), ('▁bad', -1.87)]
    """
    ids = generator.prompt_ids(text)
    if len(ids) > LONGEST:
        raise TextError(f"the text has {len(ids)} pieces, but at most {LONGEST} can be inspected; pass a part of it")
    with lock_of(generator.model):
        steps, following, maps = _read(generator, ids)
        wants_saliency = not maps if saliency is None else saliency
        contributions = _contributions(generator, ids) if wants_saliency else []
        continuation = None if search is None else _continue(generator, text, search=search, maximum=maximum)
    names = [generator.tokenizer.vocabulary.piece(id) for id in ids]
    nats = -sum(step.log_prob for step in steps)
    return TextView(
        text,
        [PIECES[generator.start], *names],
        [*names, PIECES[EOS]],
        words_of([generator.tokenizer.starts_word(piece) for piece in names]),
        steps,
        TextPerplexity(nats, len(steps), len(text.split()) + 1, len(text.encode()) + 1),
        following,
        maps,
        contributions,
        continuation,
    )


@torch.inference_mode()
def _read(
    generator: TextGenerator, ids: Sequence[int]
) -> tuple[list[TargetStep], list[Alternative], list[AttentionMap]]:
    """The probability of each piece of `ids` and of the end mark, the most likely next pieces, and attention maps."""
    model, recorder = generator.model, AttentionRecorder()
    inputs = torch.tensor([[generator.start, *ids]], device=generator.device)
    with observe_attention(model, recorder):
        read, _ = model.read(inputs, model.start(1))
    outputs, steps, log_probs = [*ids, EOS], [], torch.empty(0, 0)
    for start in range(0, len(outputs), POSITIONS):
        part = slice(start, start + POSITIONS)
        log_probs = model.log_probs(read.hidden[0, part]).cpu()
        steps += next_token_steps(log_probs, outputs[part], piece=generator.tokenizer.vocabulary.piece)
    following = likeliest(log_probs[-1], count=NEXT, piece=generator.tokenizer.vocabulary.piece)
    return steps, following, recorder.maps()


def _contributions(generator: TextGenerator, ids: Sequence[int]) -> list[Saliency]:
    """How much each input contributes to predicting each piece: saliency; for n-gram models, 1 if used, 0 if not."""
    network = generator.model.network
    return _matched_ngrams(generator, ids) if isinstance(network, NgramNetwork) else _saliency(generator, ids)


@torch.inference_mode()
def _matched_ngrams(generator: TextGenerator, ids: Sequence[int]) -> list[Saliency]:
    """For each predicted piece, 1 for the inputs in the longest n-gram of the model that ends with it; 0 for others."""
    model, output = generator.model, generator.model.output
    assert isinstance(output, NgramOutput)
    inputs = torch.tensor([[generator.start, *ids]], device=generator.device)
    read, _ = model.read(inputs, model.start(1))
    lengths = output.matched(read.hidden[0], inputs.new_tensor([*ids, EOS])).cpu()
    distances = torch.arange(len(lengths))[:, None] - torch.arange(len(lengths))
    return [Saliency(MATCHED, ((distances >= 0) & (distances < lengths[:, None] - 1)).double())]


def _saliency(generator: TextGenerator, ids: Sequence[int]) -> list[Saliency]:
    """How much each input vector adds to each piece's log-probability: gradient × input and integrated gradients."""
    model = generator.model
    assert not isinstance(model.network, NgramNetwork)

    def predict(rows: int) -> Iterator[Tensor]:
        inputs = torch.tensor([[generator.start, *ids]] * rows, device=generator.device)
        read, _ = model.read(inputs, model.start(rows))
        for place, token in enumerate([*ids, EOS]):
            yield -model.losses(read.hidden[:, place], inputs.new_full((rows,), token))

    embedding = model.network.embedding
    return [
        Saliency("gradient × input", attributions(embedding, predict, scales=ONE)),
        Saliency("integrated gradients", attributions(embedding, predict, scales=midpoints())),
    ]


def _continue(generator: TextGenerator, text: str, *, search: SearchConfig, maximum: int) -> Continuation:
    """The continuation of the text that search finds, with its beam tree if the method is beam search."""
    prompt = generator.prompt_ids(text)
    decode = generator.tokenizer.decode

    def run(settings: SearchConfig, recorder: BeamRecorder | None) -> Found:
        (best,) = generator.hypotheses(text, maximum=maximum, search=settings, observer=recorder)
        ids = [*best.tokens[len(prompt) :], *([] if best.cut else [EOS])]
        return Found(ids, decode(best.tokens), best.cut, best.log_prob, best.score)

    def names(ids: Sequence[int]) -> list[str]:
        return [generator.tokenizer.vocabulary.piece(id) for id in ids]

    searches = search_with_beams(search, run, prompt=len(prompt)) if search.method == "beam" else []
    found = searches[0].found if searches else run(search, None)
    if found.log_prob == -torch.inf:
        raise TextError("search.no_repeat rules out every continuation of this text; set it to 0 or to a larger number")
    tokens = [*prompt, *(found.ids if found.is_cut else found.ids[:-1])]
    steps = _read(generator, tokens)[0][len(prompt) : len(prompt) + len(found.ids)]
    beam = beam_view(searches, nbest=1, pieces=names, text=lambda ids: decode([*prompt, *ids])) if searches else None
    pieces = [step.piece for step in steps]
    return Continuation(found.text, pieces, found.is_cut, found.log_prob, found.score, steps, beam)
