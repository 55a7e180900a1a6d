"""Decodes encoded recordings with CTC, with an attention decoder, or with both.

Letters: B recordings, S positions, V vocabulary, U tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from calque.engine.sound_parts import TimedToken
from calque.engine.text_generator import TextGenerator
from calque.layers.ctc import BLANK, force_align
from calque.layers.output import wide
from calque.models.interfaces import Memory
from calque.models.recogniser import Heard, RecogniserModel, Speller
from calque.objectives.decoding_step import MARKS, decoding_step, language_step
from calque.search.ctc_prefix import CtcHypothesis, Prior, best_path, prefix_beam_search
from calque.search.ctc_scoring import joint_step, start_joint
from calque.search.decode import Rules, decode, limits_of_pieces, piece_limits
from calque.search.ensemble import fused
from calque.search.settings import SearchConfig
from calque.tensors import select_rows
from calque.text import BOS, EOS, UNK


class SpeechSearch(NamedTuple):
    """The settings with which recordings are decoded."""

    search: SearchConfig
    nbest: int = 1
    timestamps: bool = False
    language: TextGenerator | None = None


@dataclass(frozen=True)
class Decoded:
    """The candidates for one recording or part, at least one, and the data from which their times are computed."""

    candidates: list[CtcHypothesis]
    log_probs: Tensor | None = None  # [S,V], of CTC
    memory: Memory | None = None  # of one row, if there is no CTC
    length: int = 0  # positions
    tokens: tuple[TimedToken, ...] | None = None  # if they are known already

    @classmethod
    def joined(cls, tokens: Sequence[TimedToken], *, score: float) -> "Decoded":
        """The result for a recording that was decoded in parts."""
        found = CtcHypothesis(tuple(token.token for token in tokens), score, score)
        return cls([found], tokens=tuple(tokens))

    def timed(self, decoder: "SpeechDecoder", *, best: int) -> list[TimedToken]:
        """The tokens, with their positions, of the candidate with index `best`."""
        if self.tokens is not None:
            return list(self.tokens)
        tokens = list(self.candidates[best].tokens)
        spans = None if self.log_probs is None else force_align(self.log_probs, tokens)
        if spans is None and self.memory is not None:
            spans = decoder.attention_spans(self.memory, tokens, length=self.length)
        if spans is None:  # a text that CTC cannot align
            spans = [
                (self.length * at // len(tokens), self.length * (at + 1) // len(tokens)) for at in range(len(tokens))
            ]
        return [TimedToken(token, *span) for token, span in zip(tokens, spans, strict=True)]


class SpeechDecoder:
    """Decodes encoded recordings; the model must be in evaluation mode."""

    def __init__(self, model: RecogniserModel, settings: SpeechSearch) -> None:
        self.model = model
        self.settings = settings

    def decode(self, heard: Heard) -> list[list[CtcHypothesis]]:
        """The candidates of each recording, best first."""
        return [result.candidates for result in self.results(heard)]

    def results(self, heard: Heard) -> list[Decoded]:
        """The candidates of each recording, with the data from which their times are computed."""
        log_probs = None if self.model.ctc is None else self.model.ctc_log_probs(heard)
        lengths: list[int] = heard.lengths.tolist()
        if self.model.speller is None:
            assert log_probs is not None
            return [self.decode_ctc(row[:length]) for row, length in zip(log_probs, lengths, strict=True)]
        found = self._spell(self.model.speller, heard, log_probs)
        results = []
        for place, (candidates, length) in enumerate(zip(found, lengths, strict=True)):
            memory = select_rows(heard.memory, torch.tensor([place], device=heard.memory.values.device))
            own = None if log_probs is None else log_probs[place, :length]
            results.append(Decoded(candidates, own, memory, length))
        return results

    def decode_ctc(self, log_probs: Tensor) -> Decoded:
        """The candidates of one recording by CTC alone, given log-probabilities [S,V]."""
        search, language = self.settings.search, self.settings.language
        log_probs = log_probs.clone()
        log_probs[:, [BOS, EOS]] = -torch.inf  # which no text contains
        if search.beam == 1 and language is None:
            return Decoded([best_path(log_probs, blank=BLANK)], log_probs, length=len(log_probs))
        candidates = prefix_beam_search(
            log_probs,
            beam=search.beam,
            blank=BLANK,
            nbest=self.settings.nbest,
            prior=None if language is None else _prior(language, search),
            reward=search.reward,
        )
        return Decoded(candidates, log_probs, length=len(log_probs))

    def _spell(self, speller: Speller, heard: Heard, log_probs: Tensor | None) -> list[list[CtcHypothesis]]:
        """The candidates found by beam search with the attention decoder, and with CTC if its `log_probs` are given."""
        search, language = self.settings.search, self.settings.language
        context: Any = speller.attend(heard.memory)
        step, state = decoding_step(speller, attention=search.coverage > 0), speller.start(context)
        lengths = heard.lengths.to(heard.memory.values.device)
        if log_probs is not None:
            step = joint_step(step, weight=self.model.ctc_weight, marks=MARKS, blank=BLANK)
            state, context = start_joint(state, context, log_probs, lengths, blank=BLANK)
        if language is not None and search.language_weight:
            steps = [step, language_step(language.model, start=language.start)]
            step = fused(steps, weights=[1.0, search.language_weight], unknown=UNK)
            state, context = (state, language.model.start(len(lengths))), (context, ())
        limits = [piece_limits(length, search=search, longest=length + 1) for length in heard.lengths.tolist()]
        found = decode(
            step,
            state,
            context,
            source_lengths=lengths,
            limits=limits_of_pieces(limits, device=lengths.device),
            search=search,
            marks=MARKS,
            rules=Rules(),
            nbest=self.settings.nbest,
        )
        return [
            [CtcHypothesis(item.tokens, item.score, item.log_prob, cut=item.cut) for item in n_best] for n_best in found
        ]

    def attention_spans(self, memory: Memory, tokens: Sequence[int], *, length: int) -> list[tuple[int, int]]:
        """The positions of each token, from its attention peak to the peak of the next token."""
        assert self.model.speller is not None
        if not tokens:
            return []
        weights = self.attention(memory, tokens)[: len(tokens), :length]
        peaks = weights.argmax(dim=1).cummax(dim=0).values.tolist()
        ends = [max(peak + 1, after) for peak, after in zip(peaks, [*peaks[1:], length], strict=True)]
        return list(zip(peaks, ends, strict=True))

    def attention(self, memory: Memory, tokens: Sequence[int]) -> Tensor:
        """The attention weights [U+1,S] of each token and the end; a Transformer's are means over layers and heads."""
        speller = self.model.speller
        assert speller is not None
        context = speller.attend(memory)
        inputs = torch.tensor([[BOS, *tokens]], device=memory.values.device)
        output, _ = speller.read(inputs, speller.start(context), context, attention=True)
        assert output.attention is not None
        return wide(output.attention[0])


def _prior(language: TextGenerator, search: SearchConfig) -> Prior:
    return Prior(
        language_step(language.model, start=language.start),
        language.model.start(1),
        start=BOS,
        end=EOS,
        weight=search.language_weight,
    )
