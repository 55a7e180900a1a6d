"""From hypotheses to what is told of them: text, confidence, oddities, and how they came about. Letter: S source."""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from torch import Tensor

from calque.engine.forced_decoding import Answer, Reading
from calque.engine.types import Candidate, Detail, OutputOptions
from calque.evaluation.alignment import align, words_of
from calque.evaluation.confidence import Confidence
from calque.evaluation.degeneration import oddities
from calque.evaluation.minimum_bayes_risk import minimum_bayes_risk
from calque.search.forbidden_words import Forbidden
from calque.search.settings import SearchConfig
from calque.search.step import Hypothesis
from calque.text import UNK, NumberedText, Tokenizer, Tokenizers

Read = Callable[[Sequence[Sequence[int]], Sequence[Sequence[Answer]]], list[list[Reading]]]
"""Answers to each of some sources, read again by who gave them."""


class Postprocessor(NamedTuple):
    """What hypotheses are told with."""

    read: Read
    tokenizers: Tokenizers
    forbidden: Forbidden | None
    confidence: Confidence | None
    own: Read | None = None  # by the translation model alone, where search had more than its log-probabilities

    def candidates(
        self,
        sources: Sequence[NumberedText],
        found: Sequence[list[Hypothesis]],
        *,
        search: SearchConfig,
        nbest: int,
        options: OutputOptions,
    ) -> list[list[Candidate]]:
        """Those of each source, at least one, with what was asked for about them."""
        answers = [[Answer(each.tokens, each.cut) for each in hypotheses] for hypotheses in found]
        ids = [source.ids for source in sources]
        readings: list[list[Reading]] | None = None
        if options.detail or options.replace_unknown is not None:
            readings = self.read(ids, answers)
        alone = self.own(ids, answers) if self.own is not None and self.confidence is not None else None
        results = []
        for place, (source, hypotheses) in enumerate(zip(sources, found, strict=True)):
            candidates = []
            for number, each in enumerate(hypotheses):
                candidate = self._candidate(
                    each, source, readings[place][number] if readings else None, options=options
                )
                sure = self._sure(each, alone[place][number] if alone else None)
                candidates.append(candidate._replace(confidence=sure))
            results.append(_chosen(candidates, search=search, nbest=nbest))
        return results

    def _sure(self, hypothesis: Hypothesis, alone: Reading | None) -> float | None:
        """The chrF that can be expected, by what the translation model alone makes of it; None where nobody knows."""
        if self.confidence is None or hypothesis.log_prob == -inf:
            return None
        size = len(hypothesis.tokens) + (not hypothesis.cut)
        return self.confidence((hypothesis.log_prob if alone is None else sum(alone.log_probs)) / max(size, 1))

    def _candidate(
        self, hypothesis: Hypothesis, source: NumberedText, reading: Reading | None, *, options: OutputOptions
    ) -> Candidate:
        pieces = pieces_of(self.tokenizers.target, hypothesis.tokens, source.unknown)
        if options.replace_unknown is not None and reading is not None and reading.attention is not None:
            pieces = self._replaced(pieces, hypothesis, source, reading.attention, options.replace_unknown)
        text = self._text(pieces)
        detail = self._detail(pieces, source, reading) if options.detail and reading is not None else None
        odd = oddities(source.ids, hypothesis.tokens)
        size = len(hypothesis.tokens) + (not hypothesis.cut)
        _, score, log_prob, is_cut, missing_phrase = hypothesis
        return Candidate(
            text, score, log_prob, is_cut, size, oddities=odd, detail=detail, missing_phrase=missing_phrase
        )

    def _text(self, pieces: list[str]) -> str:
        return " ".join(self.tokenizers.target.detokenise(pieces).split("\n"))

    def _detail(self, pieces: list[str], source: NumberedText, reading: Reading) -> Detail:
        """Pieces, what each cost, and where the model looked for it."""
        theirs = pieces_of(self.tokenizers.source, source.ids, source.unknown)
        links, looked = None, reading.attention
        if looked is not None:
            source_words = words_of([self.tokenizers.source.starts_word(piece) for piece in theirs])
            target_words = words_of([self.tokenizers.target.starts_word(piece) for piece in pieces])
            links = align(looked, source_words=source_words, target_words=target_words)
        return Detail(theirs, pieces, reading.log_probs, None if looked is None else looked.tolist(), links)

    def _replaced(
        self,
        pieces: list[str],
        hypothesis: Hypothesis,
        source: NumberedText,
        looked: Tensor,
        dictionary: Mapping[str, str],
    ) -> list[str]:
        """The pieces with unknown ones replaced by the source piece looked at most, or by its entry in a dictionary.

        What would make a forbidden word stays unknown.
        """
        theirs = self.tokenizers.source.tokenise(source.text) if source.text else []
        replaced = list(pieces)
        for place, token in enumerate(hypothesis.tokens):
            if token == UNK and theirs:
                word = theirs[int(looked[place, : len(theirs)].argmax())]
                before, replaced[place] = replaced[place], dictionary.get(word, word)
                text = self.tokenizers.target.normalised(self._text(replaced))
                if self.forbidden is not None and self.forbidden.words.found_in(text):
                    replaced[place] = before
        return replaced


def pieces_of(tokenizer: Tokenizer, ids: Sequence[int], unknown: Sequence[str]) -> list[str]:
    """The pieces of ids; numbers behind the vocabulary are the unknown ones."""
    size = len(tokenizer.vocabulary)
    return [tokenizer.vocabulary.piece(id) if id < size else unknown[id - size] for id in ids]


def _chosen(candidates: list[Candidate], *, search: SearchConfig, nbest: int) -> list[Candidate]:
    """The candidates to give: by minimum Bayes risk, scored with their utility, where that was asked for."""
    if search.method != "risk":
        return candidates
    ranked = minimum_bayes_risk([each.text for each in candidates], utility=search.utility)
    best = {candidates[each.place].text: each for each in reversed(ranked)}  # each text once, by its first place
    order = sorted(best.values(), key=lambda each: (-each.utility, each.place))[:nbest]
    return [candidates[each.place]._replace(score=each.utility) for each in order]
