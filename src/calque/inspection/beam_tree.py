"""The beam tree: every candidate that search compared for one sentence, and what became of it."""

import math
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, Literal, NamedTuple

from calque.search.observers import SearchStep
from calque.search.scoring import Scoring
from calque.search.step import Live

Tokens = tuple[int, ...]

Fate = Literal["kept", "ended", "dropped"]
Reason = Literal["rank", "bound", "group", "penalty", "bank", "end-rank", "end-group", "duplicate"]
"""Why a candidate was dropped, K being the beam and K' the beams per group of diverse beam search:

- rank: K candidates that do not end are at least as probable.
- bound: none of its continuations can beat the n-th best hypothesis that has ended.
- group: fewer than K candidates are at least as probable, but K' of its own group are.
- penalty: fewer than K' candidates of its group are at least as probable; less probable ones were preferred because
  an earlier group has chosen its token, which is penalised.
- bank: fewer than K candidates are at least as probable, but its bank (the hypotheses that have matched as many tokens
  of required phrases) has only a part of the beam.
- end-rank: it ends, and K candidates are at least as probable.
- end-group: it ends, and K' candidates of its group are at least as probable.
- duplicate: another group has ended with the same tokens.
"""
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
    group: int | None = None  # of diverse beam search, from 1
    penalty: float = 0.0  # on its token, which earlier groups have chosen
    matched: int | None = None  # tokens of required phrases that it has matched, if phrases are required

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
        """The ids of the candidates that lead to these tokens, one per token, as far as search kept them.

        `tokens` includes the end mark if the hypothesis ended.
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
        """The length of the shortest prefix of these tokens that search did not keep; None if it kept all prefixes."""
        kept = len(self.path(tokens))
        return None if kept == len(tokens) else kept + 1

    def after(self, tokens: int) -> "BeamTree":
        """The tree without its first `tokens` steps, which read a prompt. Lengths count from the end of the prompt."""
        prompt = {candidate.id for step in self.steps[:tokens] for candidate in step.candidates}
        steps = []
        for step in self.steps[tokens:]:
            candidates = [item._replace(parent=ROOT) if item.parent in prompt else item for item in step.candidates]
            steps.append(step._replace(length=step.length - tokens, candidates=candidates))
        return self._replace(steps=steps)


class BeamRecorder:
    """An observer that records the search for one sentence, which must be the only one in its batch.

    `groups` and `diversity` are the settings of diverse beam search.
    """

    def __init__(
        self,
        scoring: Scoring,
        *,
        nbest: int,
        end: int,
        stops_exactly: bool = True,
        groups: int = 1,
        diversity: float = 0.0,
    ) -> None:
        self.scoring, self.nbest, self.end, self.stops_exactly = scoring, nbest, end, stops_exactly
        self.groups, self.diversity = groups, diversity
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
        width = step.live.log_probs.shape[1]
        ended = self._ended(step)
        slots = {
            (self._group(slot, size=width), tokens): slot
            for slot, (log_prob, tokens) in enumerate(_rows(step.live))
            if log_prob > -math.inf
        }
        ended_anywhere = {tokens for _, tokens in ended}
        live: list[tuple[int, Tokens]] = [(ROOT, ())] * width
        candidates, all_tokens, continuing = [], [], 0
        for place, log_prob, parent, token, part in self._compared(step):
            parent_id, beginning = self._live[parent]
            tokens = (*beginning, token)
            key = part.get("group"), tokens
            candidate = TreeCandidate(next(self._ids), parent_id, token, log_prob, "dropped", "rank", **part)
            if key in ended:
                candidate = candidate.ended(ended[key])
            elif token == self.end:
                is_duplicate = tokens in ended_anywhere and place < width // self.groups
                candidate = candidate._replace(reason="duplicate" if is_duplicate else "end-rank")
            elif key in slots:
                live[slots[key]] = candidate.id, tokens
                candidate = candidate._replace(fate="kept", reason=None)
            elif self.groups == 1 and candidate.matched is None and continuing < width:
                candidate = candidate._replace(reason="bound")
            continuing += token != self.end
            candidates.append(candidate)
            all_tokens.append(tokens)
        self._live = live
        self._finish_step(step, self._with_reasons(candidates, all_tokens, width=width))

    def _group(self, place: int, *, size: int) -> int | None:
        """The beam group (from 1) of slot `place`, where the groups share `size` slots equally; None for one group."""
        return 1 + place * self.groups // size if self.groups > 1 else None

    def _compared(self, step: SearchStep) -> Iterator[tuple[int, float, int, int, dict[str, Any]]]:
        """Yields, for each possible candidate, its place in the beam group, log-probability, parent, token and more."""
        log_probs, parents, tokens = step.candidates
        size = log_probs.shape[1]
        banks = [None] * size if step.matched is None else step.matched[0].tolist()
        last = [tokens[-1] if log_prob > -math.inf else None for log_prob, tokens in _rows(step.live)]
        rows = zip(log_probs[0].tolist(), parents[0].tolist(), tokens[0].tolist(), banks, strict=True)
        for place, (log_prob, parent, token, bank) in enumerate(rows):
            if log_prob == -math.inf:
                continue
            part: dict[str, Any] = {"matched": bank}
            if (group := self._group(place, size=size)) is not None:
                earlier = last[: (group - 1) * len(last) // self.groups]
                part |= {"group": group, "penalty": self.diversity * earlier.count(token)}
            yield place % (size // self.groups), log_prob, parent, token, part

    def _with_reasons(
        self, candidates: list[TreeCandidate], tokens: Sequence[Tokens], *, width: int
    ) -> list[TreeCandidate]:
        """The candidates of a step, with a more precise `reason` for those dropped although their rank sufficed.

        If fewer than `width` (the beam) candidates are at least as probable as a dropped one, its reason becomes
        `group`, `penalty` or `end-group` (diverse beam search) or `bank` (required phrases); see `Reason`.
        """
        if self.groups == 1 and all(candidate.matched is None for candidate in candidates):
            return candidates
        compared = list(zip(candidates, tokens, strict=True))

        def reason(dropped: TreeCandidate, own: Tokens) -> Reason | None:
            if dropped.reason not in ("rank", "end-rank"):
                return dropped.reason
            is_end = dropped.token == self.end
            rivals = [
                (other, other_tokens)
                for other, other_tokens in compared
                if other.log_prob >= dropped.log_prob and other_tokens != own and (is_end or other.token != self.end)
            ]
            if len({other_tokens for _, other_tokens in rivals}) >= width:
                return dropped.reason
            if self.groups == 1:
                return "bank"
            if is_end:
                return "end-group"
            in_group = sum(other.group == dropped.group for other, _ in rivals)
            return "group" if in_group >= width // self.groups else "penalty"

        return [candidate._replace(reason=reason(candidate, own)) for candidate, own in compared]

    def _ended(self, step: SearchStep) -> dict[tuple[int | None, Tokens], ScoreParts]:
        """The scores of the hypotheses that end at this step, by their beam group and tokens."""
        rows = _rows(step.ended)
        scores = [ScoreParts(log_prob) for log_prob, _ in rows]
        if step.lengths is not None:
            covered = step.ended.covered
            terms = self.scoring.terms(step.ended.log_probs, length=step.length, covered=covered, lengths=step.lengths)
            columns = (terms.length, terms.coverage, terms.end)
            parts = zip(*([0.0] * len(rows) if part is None else part[0].tolist() for part in columns), strict=True)
            scores = [ScoreParts(length, coverage, end, float(terms.reward)) for length, coverage, end in parts]
        return {
            (self._group(slot, size=len(rows)), tokens): score
            for slot, ((log_prob, tokens), score) in enumerate(zip(rows, scores, strict=True))
            if log_prob > -math.inf
        }

    def _finish_step(self, step: SearchStep, candidates: list[TreeCandidate]) -> None:
        self._ended_scores += [candidate.score.total for candidate in candidates if candidate.score is not None]
        best = sorted(self._ended_scores, reverse=True)[self.nbest - 1 : self.nbest]
        bound = None
        continues = [item for item in candidates if item.fate == "kept" or item.reason == "bound"]
        if step.lengths is not None:
            highest = step.live.log_probs.new_tensor([max((item.log_prob for item in continues), default=-math.inf)])
            bound = float(self.scoring.bound(highest, length=step.length, lengths=step.lengths)[0])
        self.steps.append(TreeStep(step.length, candidates, _finite(bound), best[0] if best else None))
        if step.lengths is not None and step.length >= int(step.lengths.maximum[0]):
            self._stop = "maximum"
        elif not continues:
            self._stop = "exhausted"
        else:
            self._stop = "bound" if self.stops_exactly else "count"


def _rows(live: Live) -> list[tuple[float, Tokens]]:
    """The log-probability and the tokens of each hypothesis for the first sentence of the batch."""
    return [
        (log_prob, tuple(tokens))
        for log_prob, tokens in zip(live.log_probs[0].tolist(), live.tokens[0].tolist(), strict=True)
    ]


def _finite(value: float | None) -> float | None:
    """The value, or None if it is not finite, as JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None
