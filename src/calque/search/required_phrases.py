"""Required phrases by dynamic beam allocation (Post and Vilar 2018; batched after Hu et al. 2019).

Letters: B sentences, K beams, V vocabulary, P phrases per sentence, L longest phrase, C candidates, Z = P·L + 1 states,
F failure states.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from calque.search.beam import Extended, gather_candidates
from calque.search.observers import Candidates
from calque.search.phrase_matching import WordBoundaries, all_present, can_share
from calque.search.step import Live
from calque.tensors import best_candidates

NONE = -1  # no phrase, or no token


class Progress(NamedTuple):
    """Which required phrases the hypotheses contain so far."""

    met: Tensor  # [B,C,P]
    active: Tensor  # [B,C], the phrase being matched, or NONE
    matched: Tensor  # [B,C], how many of its tokens are matched
    complete: Tensor  # [B,C], whether the last token completed a phrase
    open: Tensor  # [B,C], whether any token after the last one starts a word


class Phrases(NamedTuple):
    """The phrases required in the unfinished sentences, and the progress of their hypotheses."""

    tokens: Tensor  # [B,P,L], padded with NONE
    lengths: Tensor  # [B,P], 0 for padding
    failures: Tensor  # [B,Z,F], the states that the next token may continue, see `failure_states`
    follows: Tensor  # [B,V], tokens that may follow a phrase: they start a word
    opens: Tensor  # [B,V+1], tokens after which any token starts a word; the last entry is for unknown tokens
    free: Tensor  # [B,P], phrases whose first token always starts a word
    shares: Tensor  # [B], sentences whose phrases can overlap
    sentence: Tensor  # [B], index in the initial batch
    progress: Progress  # of the live hypotheses


class Required:
    """Beam search with required phrases: divides the beam among banks of hypotheses with equally many phrase tokens.

    The candidates are the best overall, the best extension of each hypothesis, and each hypothesis extended by the next
    token of a phrase or by the end mark. Where no missing phrase may start, the best token after which one may start is
    a candidate too. Candidates with the same number of matched phrase tokens form one bank; those after which no
    missing phrase may start form a second one. The K slots go to the best of each bank in turn, starting with the bank
    that has matched most. Thus no bank crowds out the others, all phrases appear if the length permits, and no
    hypothesis ends before they do.

    `follows` [V] or [B,V] marks tokens that may follow a phrase, i.e. do not continue its last word. `opens`, of the
    same shape, marks tokens after which a phrase may start whatever its first token is; elsewhere a phrase may start
    only if its first token is marked in `follows`. Tokens with ids beyond V, such as copied words, are whole words.
    """

    prunes = False

    def __init__(
        self, beams: int, phrases: Sequence[Sequence[Sequence[int]]], *, follows: Tensor, opens: Tensor
    ) -> None:
        self.beams, self.phrases = beams, phrases
        self.follows, self.opens = (part.expand(len(phrases), -1) for part in (follows, opens))
        self.boundaries = [
            WordBoundaries(*map(_lookup, rows)) for rows in zip(self.follows.cpu(), self.opens.cpu(), strict=True)
        ]
        self.shares = torch.tensor([can_share(row) for row in phrases])
        self.can_share = bool(self.shares.any())
        count = max([1, *map(len, phrases)])
        longest = max((len(phrase) for row in phrases for phrase in row), default=1)
        self.tokens = torch.full((len(phrases), count, longest), NONE)
        self.lengths = torch.zeros(len(phrases), count, dtype=torch.long)
        for sentence, row in enumerate(phrases):
            for number, phrase in enumerate(row):
                self.tokens[sentence, number, : len(phrase)] = torch.tensor(phrase)
                self.lengths[sentence, number] = len(phrase)
        self.free = torch.tensor(
            [
                [boundaries.begins(phrase[0]) for phrase in row] + [True] * (count - len(row))
                for row, boundaries in zip(phrases, self.boundaries, strict=True)
            ]
        )
        self.any_waiting = not bool(self.free.all())
        pairs = zip(phrases, self.boundaries, strict=True)
        rows = [failure_states(row, longest=longest, count=count, boundaries=boundaries) for row, boundaries in pairs]
        widest = max(1, *(len(failures) for row in rows for failures in row))
        self.failures = torch.tensor(
            [[[*failures, *[NONE] * (widest - len(failures))] for failures in row] for row in rows]
        )

    def start(self, sentences: Tensor) -> Phrases:
        opens = torch.nn.functional.pad(self.opens, (0, 1), value=True)
        parts = (self.tokens, self.lengths, self.failures, self.follows, opens, self.free, self.shares)
        tokens, lengths, failures, follows, opens, free, shares = (part.to(sentences.device) for part in parts)
        no_phrase = torch.full_like(lengths[:, :1], NONE)
        false = torch.zeros_like(no_phrase).bool()
        progress = Progress((lengths == 0)[:, None], no_phrase, torch.zeros_like(no_phrase), false, ~false)
        number = torch.arange(len(lengths), device=sentences.device)
        return Phrases(tokens, lengths, failures, follows, opens, free, shares, number, progress)

    def extend(self, live: Live, log_probs: Tensor, memory: Phrases, *, end: int) -> tuple[Extended, Phrases]:
        vocabulary = log_probs.shape[-1]
        totals = _forbid(live.log_probs[..., None] + log_probs, memory, end=end)
        values, indices = self._candidates(totals, memory, end=end)
        parents, tokens = indices // vocabulary, indices % vocabulary
        progress = advance(_gather_progress(memory.progress, parents), tokens, memory)
        matched = (progress.met * memory.lengths[:, None]).sum(dim=-1) + progress.matched
        bank = 2 * matched + ~_is_waiting(progress, memory)
        is_end = tokens == end
        rank = _rank_in_bank(bank, values)
        banks = 2 * int(memory.lengths.sum(dim=1).max()) + 2
        turn = torch.where(is_end | (values == -torch.inf), values.shape[1], rank) * banks + (banks - 1 - bank)
        chosen = turn.sort(dim=1, stable=True).indices[:, : self.beams].sort(dim=1).values  # best first again
        ending = is_end & (rank < self.beams)
        ends = (~ending).long().sort(dim=1, stable=True).indices[:, : self.beams]
        extended = torch.cat([gather_candidates(live.tokens, parents), tokens[..., None]], dim=2)
        covered = None if live.covered is None else gather_candidates(live.covered, parents)
        after = _gather_live(values.masked_fill(is_end, -torch.inf), extended, covered, chosen)
        ended = _gather_live(values.masked_fill(~ending, -torch.inf), extended, covered, ends)
        progress = _gather_progress(progress, chosen)
        if self.can_share:
            progress = self._rematch(progress, after, memory)  # the greedy match may not be the only one
        memory = memory._replace(progress=progress)
        candidates = Candidates(values, parents, tokens)
        return Extended(after, parents.gather(1, chosen), ended, candidates, matched), memory

    def missing_phrase(self, memory: Phrases) -> Tensor:
        return ~memory.progress.met.all(dim=-1)

    def _rematch(self, progress: Progress, live: Live, memory: Phrases) -> Progress:
        """The progress, corrected for hypotheses whose tokens can be assigned to required phrases in several ways.

        If "3" and "3 1" are required, greedy matching from left to right may find only "3" in "3 1 3"; another
        assignment finds both. If any assignment finds all phrases of a hypothesis, all of them are marked as met.
        """
        incomplete = ~progress.met.all(dim=-1) & memory.shares[:, None] & (live.log_probs > -torch.inf)
        met, complete = progress.met.clone(), progress.complete.clone()
        for row, beam in incomplete.nonzero().tolist():
            number = int(memory.sentence[row])
            if all_present(live.tokens[row, beam].tolist(), self.phrases[number], boundaries=self.boundaries[number]):
                met[row, beam] = complete[row, beam] = True
        all_met = met.all(dim=-1)
        active, matched = progress.active.masked_fill(all_met, NONE), progress.matched.masked_fill(all_met, 0)
        return Progress(met, active, matched, complete, progress.open)

    def _candidates(self, totals: Tensor, memory: Phrases, *, end: int) -> tuple[Tensor, Tensor]:
        """The candidates, best first: log-probabilities [B,C], and indices [B,C] into K beams times V tokens."""
        beams, vocabulary = totals.shape[1:]
        next_tokens, flat = _next_tokens(memory), totals.flatten(1)
        ends = torch.full_like(next_tokens[..., :1], end)  # −∞ unless all phrases are met
        tokens = torch.cat([totals.argmax(dim=-1, keepdim=True), next_tokens, ends], dim=-1)
        if self.any_waiting:
            columns = torch.arange(vocabulary, device=totals.device).clamp(max=memory.opens.shape[1] - 1)
            gap_tokens = totals.masked_fill(~memory.opens[:, None, columns], -torch.inf).argmax(dim=-1)
            gap_tokens = gap_tokens.masked_fill(~_is_waiting(memory.progress, memory), NONE)
            tokens = torch.cat([tokens, gap_tokens[..., None]], dim=-1)
        rows = torch.arange(beams, device=totals.device)[:, None] * vocabulary
        _, best = best_candidates(flat, count=2 * self.beams)
        indices = torch.cat([best, (tokens.clamp(min=0) + rows).flatten(1)], dim=1)
        is_token = torch.cat([torch.ones_like(best, dtype=torch.bool), (tokens != NONE).flatten(1)], dim=1)
        return _deduplicate(flat, indices, is_token=is_token)


def failure_states(
    phrases: Sequence[Sequence[int]], *, longest: int, count: int, boundaries: WordBoundaries
) -> list[list[int]]:
    """For each state, the states that the next token may continue, longest match first (Aho and Corasick 1975).

    In state p·L + s the last s tokens are the first s of phrase p; in the last state, P·L, no phrase has started. The
    last r of those tokens may also be the first r of a phrase q, if they start at a word boundary: after "a a" of
    "a a b", a third "a" leaves two tokens matched, not none.
    """
    nothing = [number * longest for number in range(len(phrases))]
    table: list[list[int]] = [[] for _ in range(count * longest)] + [nothing]
    for number, phrase in enumerate(phrases):
        for matched in range(1, len(phrase)):
            table[number * longest + matched] = [
                candidate_number * longest + size
                for size in range(matched, -1, -1)
                for candidate_number, candidate in enumerate(phrases)
                if size < len(candidate) and list(candidate[:size]) == list(phrase[matched - size : matched])
                if size == matched or boundaries.between(phrase[matched - size - 1], candidate[0])
            ]
    return table


def advance(progress: Progress, tokens: Tensor, phrases: Phrases) -> Progress:
    """The progress after one more token [B,C] per hypothesis.

    The active phrase is the first unmet phrase with the longest match; matches do not overlap and start at word
    boundaries.
    """
    count, longest = phrases.tokens.shape[1:]
    state = torch.where(progress.active == NONE, count * longest, progress.active * longest + progress.matched)
    failures = gather_candidates(phrases.failures, state)  # [B,C,F]
    states = failures.clamp(min=0)
    expected = phrases.tokens.flatten(1).gather(1, states.flatten(1)).view_as(failures)
    fits = (failures != NONE) & (expected == tokens[..., None]) & ~progress.met.gather(2, states // longest)
    free = phrases.free.gather(1, (states // longest).flatten(1)).view_as(failures)
    fits = fits & (progress.open[..., None] | free | (states % longest > 0))
    first = states.gather(2, fits.long().argmax(dim=-1, keepdim=True)).squeeze(2)
    active, matched = first // longest, first % longest + 1
    complete = fits.any(dim=-1) & (matched == phrases.lengths.gather(1, active))
    numbers = torch.arange(count, device=tokens.device)
    met = progress.met | (complete[..., None] & (numbers == active[..., None]))
    is_partial = fits.any(dim=-1) & ~complete
    is_open = phrases.opens.gather(1, tokens.clamp(max=phrases.opens.shape[1] - 1))
    return Progress(met, torch.where(is_partial, active, NONE), torch.where(is_partial, matched, 0), complete, is_open)


def _forbid(totals: Tensor, phrases: Phrases, *, end: int) -> Tensor:
    """Sets the scores of forbidden continuations in `totals` [B,K,V] to −∞, in place, and returns `totals`.

    These are the scores of the end mark until all required phrases have been generated and, right after a phrase, those
    of tokens that would extend its last word.
    """
    known = min(phrases.follows.shape[1], totals.shape[-1])  # tokens beyond are whole words
    sentence, beam = phrases.progress.complete.nonzero(as_tuple=True)
    if len(sentence):
        allowed = totals[sentence, beam]
        allowed[:, :known].masked_fill_(~phrases.follows[sentence, :known], -torch.inf)
        totals[sentence, beam] = allowed
    totals[..., end].masked_fill_(~phrases.progress.met.all(dim=-1), -torch.inf)
    return totals


def _deduplicate(values: Tensor, indices: Tensor, *, is_token: Tensor) -> tuple[Tensor, Tensor]:
    """Those of `values` [B,K·V] that `indices` [B,C] select, best first, and the indices in the same order.

    Repeated indices, and those where `is_token` [B,C] is false, get −∞. If values are equal, the lower index is first.
    """
    indices, order = torch.where(is_token, indices, values.shape[1]).sort(dim=1)
    is_duplicate = torch.nn.functional.pad(indices[:, 1:] == indices[:, :-1], (1, 0))
    indices = indices.clamp(max=values.shape[1] - 1)
    selected = values.gather(1, indices).masked_fill(is_duplicate | ~is_token.gather(1, order), -torch.inf)
    ordered = selected.sort(dim=1, descending=True, stable=True)
    return ordered.values, indices.gather(1, ordered.indices)


def _is_waiting(progress: Progress, phrases: Phrases) -> Tensor:
    """Whether a candidate [B,C] lacks required phrases, none of which has begun or may begin with the next token."""
    missing = ~progress.met
    may_begin = (missing & phrases.free[:, None]).any(dim=-1) | progress.open | (progress.active != NONE)
    return missing.any(dim=-1) & ~may_begin


def _next_tokens(phrases: Phrases) -> Tensor:
    """The tokens [B,K,1+P] that continue the phrase begun, and start each missing phrase if it may start; else −1."""
    progress, longest = phrases.progress, phrases.tokens.shape[2]
    index = progress.active.clamp(min=0) * longest + progress.matched.clamp(max=longest - 1)
    active_tokens = phrases.tokens.flatten(1).gather(1, index).masked_fill(progress.active == NONE, NONE)
    cannot_start = progress.met | ~(progress.open[..., None] | phrases.free[:, None])
    firsts = phrases.tokens[:, None, :, 0].expand_as(progress.met).masked_fill(cannot_start, NONE)
    return torch.cat([active_tokens[..., None], firsts], dim=-1)


def _rank_in_bank(bank: Tensor, values: Tensor) -> Tensor:
    """The rank, from 0, of each candidate [B,C] among the possible candidates with the same number in `bank`."""
    same = (bank[:, :, None] == bank[:, None]) & (values > -torch.inf)[:, None]
    precedes = torch.ones(bank.shape[1], bank.shape[1], dtype=torch.bool, device=bank.device).tril(-1)
    return (same & precedes).sum(dim=-1)


def _gather_progress(progress: Progress, indices: Tensor) -> Progress:
    return Progress(*(gather_candidates(part, indices) for part in progress))


def _gather_live(values: Tensor, tokens: Tensor, covered: Tensor | None, indices: Tensor) -> Live:
    return Live(
        values.gather(1, indices),
        gather_candidates(tokens, indices),
        None if covered is None else gather_candidates(covered, indices),
    )


def _lookup(row: Tensor) -> Callable[[int], bool]:
    return lambda token: bool(row[token]) if token < len(row) else True
