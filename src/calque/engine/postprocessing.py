"""Turns hypotheses of search into candidates: text, confidence, signs of degeneration, details. S: source length."""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from torch import Tensor

from calque.engine.forced_decoding import TargetTokens, TokenScores
from calque.engine.preparation import Settings
from calque.engine.types import Candidate, Detail
from calque.evaluation.alignment import align, words_of
from calque.evaluation.confidence import Confidence
from calque.evaluation.degeneration import oddities
from calque.evaluation.minimum_bayes_risk import minimum_bayes_risk
from calque.search.forbidden_words import Forbidden
from calque.search.settings import SearchConfig
from calque.search.step import Hypothesis
from calque.text import UNK, NumberedText, Tokenizer, Tokenizers

ForcedDecoder = Callable[[Sequence[Sequence[int]], Sequence[Sequence[TargetTokens]]], list[list[TokenScores]]]
"""Scores the given translations of each source, token by token."""


class Postprocessor(NamedTuple):
    """Turns the hypotheses of search (token ids and scores) into candidates (text, confidence, details)."""

    force_decode: ForcedDecoder  # with the models that searched
    tokenizers: Tokenizers
    forbidden: Forbidden | None
    confidence: Confidence | None
    force_decode_alone: ForcedDecoder | None = None  # with the translation model alone, if a language model took part

    def candidates(
        self,
        sources: Sequence[NumberedText],
        hypotheses: Sequence[list[Hypothesis]],
        *,
        settings: Settings,
    ) -> list[list[Candidate]]:
        """The candidates for each source, given its hypotheses; they have details if the settings request these."""
        targets = [[TargetTokens(hypothesis.tokens, hypothesis.cut) for hypothesis in beam] for beam in hypotheses]
        ids = [source.ids for source in sources]
        scores: list[list[TokenScores]] | None = None
        if settings.detail or settings.replace_unknown is not None:
            scores = self.force_decode(ids, targets)
        scores_alone: list[list[TokenScores]] | None = None
        if self.force_decode_alone is not None and self.confidence is not None:
            scores_alone = self.force_decode_alone(ids, targets)
        results = []
        for place, (source, beam) in enumerate(zip(sources, hypotheses, strict=True)):
            candidates = []
            for rank, hypothesis in enumerate(beam):
                candidate = self._candidate(
                    hypothesis, source, scores[place][rank] if scores else None, settings=settings
                )
                confidence = self._confidence(hypothesis, scores_alone[place][rank] if scores_alone else None)
                candidates.append(candidate._replace(confidence=confidence))
            results.append(_rank_by_risk(candidates, search=settings.search, nbest=settings.nbest))
        return results

    def _confidence(self, hypothesis: Hypothesis, scores_alone: TokenScores | None) -> float | None:
        """The expected chrF of a hypothesis, given its log-probability per piece under the translation model alone.

        None if the model has no confidence estimate, or if the log-probability is -inf.
        """
        if self.confidence is None or hypothesis.log_prob == -inf:
            return None
        size = len(hypothesis.tokens) + (not hypothesis.cut)
        log_prob = hypothesis.log_prob if scores_alone is None else sum(scores_alone.log_probs)
        return self.confidence(log_prob / max(size, 1))

    def _candidate(
        self, hypothesis: Hypothesis, source: NumberedText, scores: TokenScores | None, *, settings: Settings
    ) -> Candidate:
        pieces = pieces_of(self.tokenizers.target, hypothesis.tokens, source.unknown)
        if settings.replace_unknown is not None and scores is not None and scores.attention is not None:
            pieces = self._replace_unknown(pieces, hypothesis, source, scores.attention, settings.replace_unknown)
        text = self._text(pieces)
        detail = self._detail(pieces, hypothesis, source, scores) if settings.detail and scores is not None else None
        signs = oddities(source.ids, hypothesis.tokens)
        size = len(hypothesis.tokens) + (not hypothesis.cut)
        _, score, log_prob, is_cut, missing_phrase = hypothesis
        return Candidate(
            text, score, log_prob, is_cut, size, oddities=signs, detail=detail, missing_phrase=missing_phrase
        )

    def _text(self, pieces: list[str]) -> str:
        return " ".join(self.tokenizers.target.detokenise(pieces).split("\n"))

    def _detail(self, pieces: list[str], hypothesis: Hypothesis, source: NumberedText, scores: TokenScores) -> Detail:
        """The source and target pieces of a hypothesis, with log-probabilities, attention and word alignment."""
        source_pieces = pieces_of(self.tokenizers.source, source.ids, source.unknown)
        alignment, attention = None, scores.attention
        if attention is not None:
            source_words = words_of([self.tokenizers.source.starts_word(piece) for piece in source_pieces])
            target_words = words_of([self.tokenizers.target.starts_word(piece) for piece in pieces])
            alignment = align(attention, source_words=source_words, target_words=target_words)
        rows = None if attention is None else attention.tolist()
        return Detail(source_pieces, pieces, scores.log_probs, rows, alignment, hypothesis.tokens)

    def _replace_unknown(
        self,
        pieces: list[str],
        hypothesis: Hypothesis,
        source: NumberedText,
        attention: Tensor,
        dictionary: Mapping[str, str],
    ) -> list[str]:
        """Replaces each unknown piece by the source piece it attends to most, or by that piece's `dictionary` entry.

        A replacement that would form a forbidden word is not made.
        """
        source_pieces = self.tokenizers.source.tokenise(source.text) if source.text else []
        replaced = list(pieces)
        for place, token in enumerate(hypothesis.tokens):
            if token == UNK and source_pieces:
                word = source_pieces[int(attention[place, : len(source_pieces)].argmax())]
                before, replaced[place] = replaced[place], dictionary.get(word, word)
                text = self.tokenizers.target.normalised(self._text(replaced))
                if self.forbidden is not None and self.forbidden.found_in(text):
                    replaced[place] = before
        return replaced


def pieces_of(tokenizer: Tokenizer, ids: Sequence[int], unknown: Sequence[str]) -> list[str]:
    """The pieces with these ids; ids beyond the vocabulary stand for the `unknown` words."""
    size = len(tokenizer.vocabulary)
    return [tokenizer.vocabulary.piece(id) if id < size else unknown[id - size] for id in ids]


def _rank_by_risk(candidates: list[Candidate], *, search: SearchConfig, nbest: int) -> list[Candidate]:
    """With search.method "risk", the `nbest` distinct candidates of minimum Bayes risk; otherwise, all candidates."""
    if search.method != "risk":
        return candidates
    ranked = minimum_bayes_risk([candidate.text for candidate in candidates], utility=search.utility)
    distinct = {candidates[item.place].text: item for item in reversed(ranked)}  # the first place of each text
    best = sorted(distinct.values(), key=lambda item: (-item.utility, item.place))[:nbest]
    return [candidates[item.place]._replace(score=item.utility) for item in best]
