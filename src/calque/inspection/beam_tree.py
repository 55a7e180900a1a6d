"""The beam tree: every candidate that search compared for one sentence, and what became of it."""

import math
from collections.abc import Sequence
from itertools import count
from typing import Literal, NamedTuple

from calque.search.observers import SearchStep
from calque.search.scoring import Scoring
from calque.search.step import Live

Tokens = tuple[int, ...]

Fate = Literal["kept", "ended", "dropped"]
Reason = Literal["rank", "end-rank", "duplicate"]
"""Why a candidate was dropped: K better ones continue; it ends, but is not among the K best; or another group of
diverse beam search has ended with the same tokens."""
Stop = Literal["bound", "count", "maximum", "exhausted"]
"""Why search stopped: no live hypothesis can still beat the n-th best that ended; enough hypotheses have ended; the
maximum length was reached; or no hypothesis was left to extend."""

ROOT = 0
"""The id of the empty hypothesis."""


class ScoreParts(NamedTuple):
    """The terms that add up to the score of a hypothesis."""

    length: float  # the log-probability, divided by the length penalty
    coverage: float = 0.0
    end: float = 0.0
    reward: float = 0.0

    @property
    def total(self) -> float:
        return self.length + self.coverage + self.end + self.reward


class TreeCandidate(NamedTuple):
    """A hypothesis extended by one token."""

    id: int
    parent: int  # the id of the hypothesis that it extends; ROOT for the first token
    token: int
    log_prob: float  # of the whole hypothesis
    fate: Fate
    reason: Reason | None = None  # if it was dropped
    score: ScoreParts | None = None  # if it ended

    def ended(self, score: ScoreParts) -> "TreeCandidate":
        """A copy of this candidate that is marked as ended, with its score."""
        return self._replace(fate="ended", reason=None, score=score)


class TreeStep(NamedTuple):
    """The candidates of one step, best first."""

    length: int  # of the candidates, in tokens
    candidates: list[TreeCandidate]
    bound: float | None  # the best score that a continuation could still reach
    best: float | None  # the n-th best score so far, n being the number of hypotheses that are returned


class BeamTree(NamedTuple):
    """All steps of the search for one sentence."""

    steps: list[TreeStep]
    stop: Stop
    scoring: Scoring

    def path(self, tokens: Sequence[int]) -> list[int]:
        """The ids of the candidates that lead to these tokens, as far as they were kept.

        `tokens` include the end mark of a hypothesis that ended.
        """
        paths: dict[int, list[int]] = {ROOT: []}  # groups of diverse beam search may hold the same tokens
        for step, token in zip(self.steps, tokens, strict=False):
            kept = (item for item in step.candidates if item.token == token and item.fate != "dropped")
            longer = {item.id: [*paths[item.parent], item.id] for item in kept if item.parent in paths}
            if not longer:
                break
            paths = longer
        return next(iter(paths.values()))

    def lost_at(self, tokens: Sequence[int]) -> int | None:
        """The length of the first prefix of these tokens that search did not keep; None if it kept them all."""
        kept = len(self.path(tokens))
        return None if kept == len(tokens) else kept + 1


class BeamRecorder:
    """An observer that records the search for one sentence, which must be alone in its batch."""

    def __init__(self, scoring: Scoring, *, nbest: int, end: int, stops_exactly: bool = True) -> None:
        self.scoring, self.nbest, self.end, self.stops_exactly = scoring, nbest, end, stops_exactly
        self.steps: list[TreeStep] = []
        self._live: list[tuple[int, Tokens]] = [(ROOT, ())]  # ids and tokens of the live hypotheses
        self._ids = count(ROOT + 1)
        self._ended_scores: list[float] = []
        self._stop: Stop = "bound"

    @property
    def tree(self) -> BeamTree:
        return BeamTree(self.steps, self._stop, self.scoring)

    def search_step(self, step: SearchStep) -> None:
        """Records a step; search calls this after every step."""
        ended = self._ended(step)
        slots: dict[Tokens, list[int]] = {}
        for slot, (log_prob, tokens) in enumerate(_rows(step.live)):
            if log_prob > -math.inf:
                slots.setdefault(tokens, []).append(slot)
        live: list[tuple[int, Tokens]] = [(ROOT, ())] * step.live.log_probs.shape[1]
        candidates = []
        for log_prob, parent, token in zip(*(part[0].tolist() for part in step.candidates), strict=True):
            if log_prob == -math.inf:
                continue
            parent_id, beginning = self._live[parent]
            tokens = (*beginning, token)
            candidate = TreeCandidate(next(self._ids), parent_id, token, log_prob, "dropped", "rank")
            if token == self.end and tokens in ended:
                score = ended[tokens].pop(0) if ended[tokens] else None
                candidate = candidate._replace(reason="duplicate") if score is None else candidate.ended(score)
            elif token == self.end:
                candidate = candidate._replace(reason="end-rank")
            elif slots.get(tokens):
                live[slots[tokens].pop(0)] = candidate.id, tokens
                candidate = candidate._replace(fate="kept", reason=None)
            candidates.append(candidate)
        self._live = live
        self._finish_step(step, candidates)

    def _ended(self, step: SearchStep) -> dict[Tokens, list[ScoreParts]]:
        """The scores of the hypotheses that end at this step, by their tokens."""
        ended: dict[Tokens, list[ScoreParts]] = {}
        rows = _rows(step.ended)
        scores = [ScoreParts(log_prob) for log_prob, _ in rows]
        if step.lengths is not None:
            covered = step.ended.covered
            terms = self.scoring.terms(step.ended.log_probs, length=step.length, covered=covered, lengths=step.lengths)
            columns = (terms.length, terms.coverage, terms.end)
            parts = zip(*([0.0] * len(rows) if part is None else part[0].tolist() for part in columns), strict=True)
            scores = [ScoreParts(length, coverage, end, terms.reward) for length, coverage, end in parts]
        for (log_prob, tokens), score in zip(rows, scores, strict=True):
            if log_prob > -math.inf:
                ended.setdefault(tokens, []).append(score)
        return ended

    def _finish_step(self, step: SearchStep, candidates: list[TreeCandidate]) -> None:
        self._ended_scores += [candidate.score.total for candidate in candidates if candidate.score is not None]
        best = sorted(self._ended_scores, reverse=True)[self.nbest - 1 : self.nbest]
        bound = None
        if step.lengths is not None:
            highest = step.live.log_probs.max(dim=1).values
            bound = float(self.scoring.bound(highest, length=step.length, lengths=step.lengths)[0])
        self.steps.append(TreeStep(step.length, candidates, _finite(bound), best[0] if best else None))
        if step.lengths is not None and step.length >= int(step.lengths.maximum[0]):
            self._stop = "maximum"
        elif all(candidate.fate != "kept" for candidate in candidates):
            self._stop = "exhausted"
        else:
            self._stop = "bound" if self.stops_exactly else "count"


def _rows(live: Live) -> list[tuple[float, Tokens]]:
    """The log-probability and the tokens of each hypothesis of the first sentence."""
    return [
        (log_prob, tuple(tokens))
        for log_prob, tokens in zip(live.log_probs[0].tolist(), live.tokens[0].tolist(), strict=True)
    ]


def _finite(value: float | None) -> float | None:
    """The value, or None if it is not finite, as JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None
