"""What a recogniser computes for a recording: features, CTC posteriors, attention, alignment, terms of scores.

Letters: F frames, M bands, S positions of the encoder, U tokens, V vocabulary, L labels that are shown.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from calque.engine.engine import lock_of
from calque.engine.recogniser import Recogniser, TimedWord
from calque.engine.sound_parts import TimedToken
from calque.engine.speech_decoding import Decoded, SpeechDecoder
from calque.engine.text_generator import TextGenerator
from calque.errors import DataError
from calque.inspection.document import Weights, as_lists, model_summary, rounded, step_values
from calque.inspection.next_tokens import Alternative, TargetStep, likeliest, next_token_steps
from calque.layers.ctc import BLANK, ctc_losses, force_align
from calque.layers.log_mel import mel_filters, transform_size
from calque.models.recogniser import Heard
from calque.search.ctc_scoring import prefix_log_prob
from calque.search.settings import SearchConfig
from calque.tensors import Padded
from calque.text import BOS, EOS, PIECES

BLANK_NAME = "(blank)"
LABELS = 32  # whose posteriors are shown, at most
NOTABLE = 0.05  # a label with this probability at some position is shown
RIVALS = 3


class SpokenToken(NamedTuple):
    """A token of a transcript, and the positions of the encoder that it is aligned with."""

    piece: str
    first: int  # position
    end: int  # after the last position
    peak: float | None  # the highest probability of CTC on its positions; None without CTC
    rivals: list[Alternative]  # the likeliest other labels of CTC there; a blank is one


class SpeechCandidate(NamedTuple):
    """A transcript, found or given, and its log-probability under CTC, the decoder and the language model."""

    text: str
    score: float  # candidates are ranked by it
    ctc: float | None  # log P over all alignments
    decoder: float | None  # log P of the attention decoder, end included unless the transcript was cut
    language: float | None  # log P of the language model, end included unless the transcript was cut
    cut: bool = False
    """Whether the transcript was cut at the maximum length. CTC then counts all texts that begin with it."""


class RecordingView(NamedTuple):
    """What a recogniser computed for one recording."""

    audio: str
    seconds: float
    rate: int
    frame: float  # seconds from frame to frame
    position: float  # seconds per position of the encoder
    text: str  # the best transcript, or the one that was given
    is_given: bool
    features: Tensor  # [F,M], log-mel before normalisation
    frequencies: list[float]  # [M], the centre of each band in Hz
    tokens: list[SpokenToken]  # of the text
    words: list[TimedWord]
    candidates: list[SpeechCandidate]  # best first; the given text, if there is one, before them
    weights: dict[str, float]  # of the parts in the score: "ctc", "decoder", "language"
    labels: list[str]  # whose posteriors are kept, the blank first
    posteriors: Tensor | None  # [S,L], of CTC
    attention: Tensor | None  # [U+1,S], of the decoder: each token and the end; [U,S] if the text was cut
    steps: list[TargetStep]  # of the decoder, end included unless the text was cut; none with CTC alone
    vocabulary: int = 0  # labels of CTC, with those whose posteriors are not kept

    @property
    def best(self) -> SpeechCandidate:
        return self.candidates[0]


@torch.inference_mode()
def inspect_recording(
    recogniser: Recogniser,
    audio: Path,
    *,
    search: SearchConfig | None = None,
    language: TextGenerator | None = None,
    target: str | None = None,
) -> RecordingView:
    """Transcribes a recording and returns what the recogniser computed on the way.

    If `target` is given, that text is inspected instead of the best transcript.

    >>> view = inspect_recording(calque.load("runs/digits"), Path("call.wav"))
    >>> [(word.word, word.start, word.end) for word in view.words]
    [('four', 0.12, 0.4), ('two', 0.52, 0.76)]
    """
    search = search or recogniser.search
    settings = recogniser.settings(search=search, nbest=search.beam, timestamps=True, language=language)
    samples, rate = recogniser.samples(audio), recogniser.task.rate
    seconds = len(samples) / rate
    if seconds > recogniser.task.longest:
        raise DataError(
            f"{audio} lasts {seconds:.1f} s, but at most {recogniser.task.longest:g} s (task.longest) can be "
            "inspected; save a part of it as a separate file"
        )
    model, decoder = recogniser.model, SpeechDecoder(recogniser.model, settings)
    padded = Padded(torch.from_numpy(samples)[None], torch.tensor([len(samples)])).to(recogniser.device)
    with lock_of(model), model.evaluating():
        heard: Heard = model(padded)
        (found,) = decoder.results(heard)
        given = None if target is None else recogniser.tokenizer.encode(target)
        scores = {(tuple(item.tokens), item.cut): item.score for item in found.candidates}
        texts = list(dict.fromkeys([*([] if given is None else [(tuple(given), False)]), *scores]))
        tokens, is_cut = texts[0]
        aligned = Decoded([found.candidates[0]._replace(tokens=tokens)], found.log_probs, found.memory, found.length)
        timed = aligned.timed(decoder, best=0)
        log_probs = None if model.ctc is None else model.ctc_log_probs(heard)[0].double().cpu()
        parts = [
            _parts(recogniser, heard, text, cut=cut, log_probs=log_probs, language=language) for text, cut in texts
        ]
        attention, steps = _spelling(recogniser, decoder, heard, tokens, cut=is_cut)
        features = model.inputs.log_mel(padded).values[0].double().cpu()
    candidates = [
        SpeechCandidate(recogniser.tokenizer.decode(text), scores.get((text, cut), float("nan")), *part, cut)
        for (text, cut), part in zip(texts, parts, strict=True)
    ]
    labels = _labels(log_probs, tokens) if log_probs is not None else []
    return RecordingView(
        str(audio),
        seconds,
        rate,
        recogniser.task.hop / rate,
        recogniser.stride / rate,
        recogniser.tokenizer.decode(tokens),
        given is not None,
        features,
        _frequencies(rate, features.shape[1]),
        [_token(recogniser, token, log_probs) for token in timed],
        recogniser.words(timed),
        candidates,
        _part_weights(recogniser, search, language),
        [_name(recogniser, label) for label in labels],
        None if log_probs is None else log_probs[:, labels].exp(),
        attention,
        steps,
        0 if log_probs is None else log_probs.shape[1],
    )


def _part_weights(recogniser: Recogniser, search: SearchConfig, language: TextGenerator | None) -> dict[str, float]:
    weight = recogniser.model.ctc_weight
    weights = {"ctc": weight, "decoder": 1 - weight}
    return {name: share for name, share in weights.items() if share} | (
        {} if language is None else {"language": search.language_weight}
    )


def _parts(
    recogniser: Recogniser,
    heard: Heard,
    tokens: Sequence[int],
    *,
    cut: bool,
    log_probs: Tensor | None,
    language: TextGenerator | None,
) -> tuple[float | None, float | None, float | None]:
    """The log-probability of a text under CTC, the decoder and the language model; None for each that is not used.

    `log_probs` [S,V] are CTC's, for S encoder positions and V labels. If the text was `cut` at the maximum length, its
    end is not scored; for CTC, this gives the probability that a text begins with these tokens.
    """
    targets = torch.tensor([*tokens, *([] if cut else [EOS])])[:, None]  # [U,1]
    ctc = decoder = prior = None
    if log_probs is not None:
        ctc = prefix_log_prob(log_probs, tokens, blank=BLANK) if cut else _ctc_log_prob(log_probs, tokens)
    if recogniser.model.speller is not None:
        values = _decoder_log_probs(recogniser, heard, tokens)
        decoder = float(values[: len(targets)].gather(1, targets).sum())
    if language is not None:
        inputs = torch.tensor([[language.start, *tokens]], device=recogniser.device)
        read, _ = language.model.read(inputs, language.model.start(1))
        values = language.model.log_probs(read.hidden[0]).double().cpu()
        prior = float(values[: len(targets)].gather(1, targets).sum())
    return ctc, decoder, prior


def _ctc_log_prob(log_probs: Tensor, tokens: Sequence[int]) -> float:
    """log P of a text under CTC, over all alignments; −∞ if `log_probs` [S,V] has too few positions S for the text."""
    if force_align(log_probs, list(tokens)) is None:
        return -math.inf
    sizes = [torch.tensor([length]) for length in (len(log_probs), len(tokens))]
    return -float(ctc_losses(log_probs[None], torch.tensor([[*tokens, EOS]]), *sizes))


def _decoder_log_probs(recogniser: Recogniser, heard: Heard, tokens: Sequence[int]) -> Tensor:
    """The attention decoder's log-probabilities [U+1,V] over the vocabulary, for U tokens and the end mark."""
    speller = recogniser.model.speller
    assert speller is not None
    context = speller.attend(heard.memory)
    inputs = torch.tensor([[BOS, *tokens]], device=recogniser.device)
    output, _ = speller.read(inputs, speller.start(context), context)
    return speller.log_probs(output, context)[0].double().cpu()


def _spelling(
    recogniser: Recogniser, decoder: SpeechDecoder, heard: Heard, tokens: Sequence[int], *, cut: bool
) -> tuple[Tensor | None, list[TargetStep]]:
    """The decoder's attention to the recording, and the probability of each token; None and [] without a decoder.

    For U tokens and the end mark, the attention is [U+1,S] over S encoder positions; a `cut` text has no end mark.
    """
    if recogniser.model.speller is None:
        return None, []
    targets = [*tokens, *([] if cut else [EOS])]
    attention = decoder.attention(heard.memory, tokens)[: len(targets), : int(heard.lengths[0])].double().cpu()
    log_probs = _decoder_log_probs(recogniser, heard, tokens)[: len(targets)]
    return attention, next_token_steps(log_probs, targets, piece=lambda id: _name(recogniser, id))


def _token(recogniser: Recogniser, token: TimedToken, log_probs: Tensor | None) -> SpokenToken:
    name = _name(recogniser, token.token)
    if log_probs is None:
        return SpokenToken(name, token.first, token.end, None, [])
    own = log_probs[token.first : max(token.end, token.first + 1), token.token]
    place = token.first + int(own.argmax())
    others = log_probs[place].clone()
    others[token.token] = -torch.inf
    rivals = likeliest(others, count=RIVALS, piece=lambda id: _name(recogniser, id))
    return SpokenToken(name, token.first, token.end, float(own.max().exp()), rivals)


def _labels(log_probs: Tensor, tokens: Sequence[int]) -> list[int]:
    """The labels to show: the blank, the text's tokens in their order, and others that are likely at some position."""
    highest = log_probs.exp().max(dim=0).values
    likely = [label for label in highest.argsort(descending=True).tolist() if highest[label] >= NOTABLE]
    return list(dict.fromkeys([BLANK, *tokens, *likely]))[:LABELS]


def _name(recogniser: Recogniser, id: int) -> str:
    if id == BLANK:
        return BLANK_NAME
    return PIECES[id] if id == EOS else recogniser.tokenizer.vocabulary.piece(id)


def _frequencies(rate: int, bands: int) -> list[float]:
    """The frequency in Hz at which the filter of each mel band has its peak."""
    places: list[int] = mel_filters(rate, bands).argmax(axis=1).tolist()
    return [place * rate / transform_size(rate) for place in places]


def recording_values(view: RecordingView, *, weights: Weights = as_lists) -> dict[str, Any]:
    """An inspected recording as JSON values:

    {"source": {"text": path, "seconds", "rate", "frame", "position"}, "target": {"text", "given", "cut"},
     "log_prob", "words": [{"word", "start", "end"}…],                 // start and end in seconds
     "tokens": [{"piece", "start", "end", "peak", "rivals": [{"piece", "log_prob"}…]}…],
     "candidates": [{"text", "score", "ctc", "decoder", "language", "cut"}…], "weights": {part: weight},
     "features": {"values": W, "low", "high", "frequencies"},          // frames × bands, log-mel
     "ctc": null | {"labels": […], "total", "posteriors": W},          // positions × labels, of which there are `total`
     "attention": null | {"rows": [piece…], "weights": W}, "steps": […]}  // tokens and the end × positions

    W is a matrix as `weights` converts it. For the web page, features are scaled so that `low` becomes 0 and `high` 1.
    """
    low, high = float(view.features.min()), float(view.features.max())
    is_page = weights is not as_lists
    scaled = (view.features - low) / max(high - low, 1e-9) if is_page else view.features
    return {
        "source": {
            "text": view.audio,
            "seconds": rounded(view.seconds),
            "rate": view.rate,
            "frame": view.frame,
            "position": view.position,
        },
        "target": {"text": view.text, "given": view.is_given, "cut": view.best.cut},
        "log_prob": _log_prob(view),
        "words": [word._asdict() for word in view.words],
        "tokens": [
            {
                "piece": token.piece,
                "start": rounded(token.first * view.position),
                "end": rounded(token.end * view.position),
                "peak": None if token.peak is None else rounded(token.peak),
                "rivals": [{"piece": item.piece, "log_prob": rounded(item.log_prob)} for item in token.rivals],
            }
            for token in view.tokens
        ],
        "candidates": [
            {
                "text": item.text,
                **{
                    name: None if value is None else rounded(value)
                    for name, value in item._asdict().items()
                    if name not in ("text", "cut")
                },
                "cut": item.cut,
            }
            for item in view.candidates
        ],
        "weights": view.weights,
        "features": {
            "values": weights(scaled),
            "low": rounded(low),
            "high": rounded(high),
            "frequencies": rounded(view.frequencies),
        },
        "ctc": None
        if view.posteriors is None
        else {"labels": view.labels, "total": view.vocabulary, "posteriors": weights(view.posteriors)},
        "attention": None
        if view.attention is None
        else {"rows": [step.piece for step in view.steps], "weights": weights(view.attention)},
        "steps": [step_values(step) for step in view.steps],
    }


def _log_prob(view: RecordingView) -> float | None:
    return rounded(log_prob(view.best, view.weights))  # type: ignore[no-any-return]


def log_prob(candidate: SpeechCandidate, weights: dict[str, float]) -> float:
    """The log-probability of a transcript: the weighted sum of those of CTC, decoder and language model."""
    return float(sum(weight * getattr(candidate, name) for name, weight in weights.items()))


def recogniser_summary(recogniser: Recogniser, *, name: str) -> dict[str, Any]:
    """The entry "model" of an inspection's JSON for a recogniser: `model_summary` and the kind of its head."""
    return model_summary(recogniser, name=name) | {"head": recogniser.config.head}
