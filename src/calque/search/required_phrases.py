"""Phrases that must appear: dynamic beam allocation (Post and Vilar 2018; batched after Hu et al. 2019).

Letters: B sentences, K beams, V vocabulary, P phrases a sentence, L longest phrase, C candidates, Z = P·L + 1 states,
F falls.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from calque.search.beam import Extended, Live, along, best_candidates
from calque.search.phrase_matching import Edges, all_said, can_share

NONE = -1  # where there is no phrase, or no token


class Progress(NamedTuple):
    """How far hypotheses are with their phrases."""

    met: Tensor  # [B,C,P]
    active: Tensor  # [B,C], the phrase that is being said, or none
    said: Tensor  # [B,C], how many tokens of it
    complete: Tensor  # [B,C], whether the last token completed a phrase
    open: Tensor  # [B,C], whether whatever comes next begins a word, because of the last token


class Phrases(NamedTuple):
    """What the sentences still going must say, and how far they are."""

    tokens: Tensor  # [B,P,L], padded with none
    lengths: Tensor  # [B,P], 0 where there is no phrase
    falls: Tensor  # [B,Z,F], the states that a token may go on from, see `falls_of`
    follows: Tensor  # [B,V], tokens that may come after one of them: they begin apart
    opens: Tensor  # [B,V+1], tokens after which everything begins apart, behind them all that are not known
    free: Tensor  # [B,P], phrases that begin apart wherever they stand
    shares: Tensor  # [B], sentences whose phrases can have tokens in common
    sentence: Tensor  # [B], which of the batch's
    progress: Progress  # of the live hypotheses


class Required:
    """Beams are shared out among hypotheses that have said as much of their phrases, so that none crowds out another.

    Candidates are the best of all, the best of each hypothesis, and each with the next token of a phrase or its end;
    where no missing phrase may begin, with the best token after which one may. Those with as many phrase tokens said
    stand in one bank, or in two if some wait for such a token; the K places go to the best of each bank in turn,
    fullest bank first. So with room for it everything is said, and no hypothesis ends before.

    `follows` [V] or [B,V] is true for tokens that may come after a phrase, those that do not go on with its last word;
    `opens`, as large, for tokens after which a phrase may begin whatever its first token is. Elsewhere it begins only
    if that token is one that may follow. Tokens that they do not know are whole words.
    """

    def __init__(
        self, beams: int, phrases: Sequence[Sequence[Sequence[int]]], *, follows: Tensor, opens: Tensor
    ) -> None:
        self.beams, self.phrases = beams, phrases
        self.follows, self.opens = (part.expand(len(phrases), -1) for part in (follows, opens))
        self.edges = [Edges(*map(_looked_up, rows)) for rows in zip(self.follows.cpu(), self.opens.cpu(), strict=True)]
        self.shares = torch.tensor([can_share(row) for row in phrases])
        self.can_share = bool(self.shares.any())
        count = max([1, *map(len, phrases)])
        longest = max((len(phrase) for row in phrases for phrase in row), default=1)
        self.tokens = torch.full((len(phrases), count, longest), NONE)
        self.lengths = torch.zeros(len(phrases), count, dtype=torch.long)
        for sentence, row in enumerate(phrases):
            for place, phrase in enumerate(row):
                self.tokens[sentence, place, : len(phrase)] = torch.tensor(phrase)
                self.lengths[sentence, place] = len(phrase)
        self.free = torch.tensor(
            [
                [edges.begins(phrase[0]) for phrase in row] + [True] * (count - len(row))
                for row, edges in zip(phrases, self.edges, strict=True)
            ]
        )
        self.can_wait = not bool(self.free.all())
        both = zip(phrases, self.edges, strict=True)
        rows = [falls_of(row, longest=longest, count=count, edges=edges) for row, edges in both]
        widest = max(1, *(len(falls) for row in rows for falls in row))
        self.falls = torch.tensor([[[*falls, *[NONE] * (widest - len(falls))] for falls in row] for row in rows])

    def start(self, sentences: Tensor) -> Phrases:
        opens = torch.nn.functional.pad(self.opens, (0, 1), value=True)
        parts = (self.tokens, self.lengths, self.falls, self.follows, opens, self.free, self.shares)
        tokens, lengths, falls, follows, opens, free, shares = (part.to(sentences.device) for part in parts)
        none = torch.full_like(lengths[:, :1], NONE)
        no = torch.zeros_like(none).bool()
        progress = Progress((lengths == 0)[:, None], none, torch.zeros_like(none), no, ~no)
        number = torch.arange(len(lengths), device=sentences.device)
        return Phrases(tokens, lengths, falls, follows, opens, free, shares, number, progress)

    def extend(self, live: Live, log_probs: Tensor, memory: Phrases, *, end: int) -> tuple[Extended, Phrases]:
        vocabulary = log_probs.shape[-1]
        totals = _allowed(live.log_probs[..., None] + log_probs, memory, end=end)
        values, places = self._candidates(totals, memory, end=end)
        parents, tokens = places // vocabulary, places % vocabulary
        progress = advance(_of(memory.progress, parents), tokens, memory)
        said = (progress.met * memory.lengths[:, None]).sum(dim=-1) + progress.said
        bank = 2 * said + ~_waits(progress, memory)
        is_end = tokens == end
        place = _place_in_bank(bank, values)
        banks = 2 * int(memory.lengths.sum(dim=1).max()) + 2
        turn = torch.where(is_end | (values == -torch.inf), values.shape[1], place) * banks + (banks - 1 - bank)
        chosen = turn.sort(dim=1, stable=True).indices[:, : self.beams].sort(dim=1).values  # best first again
        ending = is_end & (place < self.beams)
        ends = (~ending).long().sort(dim=1, stable=True).indices[:, : self.beams]
        grown = torch.cat([along(live.tokens, parents), tokens[..., None]], dim=2)
        covered = None if live.covered is None else along(live.covered, parents)
        after = _live(values.masked_fill(is_end, -torch.inf), grown, covered, chosen)
        ended = _live(values.masked_fill(~ending, -torch.inf), grown, covered, ends)
        progress = _of(progress, chosen)
        if self.can_share:
            progress = self._counted_otherwise(progress, after, memory)
        memory = memory._replace(progress=progress)
        return Extended(after, parents.gather(1, chosen), ended), memory

    def missing_phrase(self, memory: Phrases) -> Tensor:
        return ~memory.progress.met.all(dim=-1)

    def _counted_otherwise(self, progress: Progress, live: Live, memory: Phrases) -> Progress:
        """The progress, complete for what has said all phrases where tokens are counted for others than it counted.

        Matching left to right, "3 1 3" has "3" and lacks "3 1"; counted otherwise it has both.
        """
        lacks = ~progress.met.all(dim=-1) & memory.shares[:, None] & (live.log_probs > -torch.inf)
        met, complete = progress.met.clone(), progress.complete.clone()
        for row, beam in lacks.nonzero().tolist():
            number = int(memory.sentence[row])
            if all_said(live.tokens[row, beam].tolist(), self.phrases[number], edges=self.edges[number]):
                met[row, beam] = complete[row, beam] = True
        over = met.all(dim=-1)
        active, said = progress.active.masked_fill(over, NONE), progress.said.masked_fill(over, 0)
        return Progress(met, active, said, complete, progress.open)

    def _candidates(self, totals: Tensor, memory: Phrases, *, end: int) -> tuple[Tensor, Tensor]:
        """[B,C] values and places in [K·V], best first."""
        beams, vocabulary = totals.shape[1:]
        wanted, flat = _next_tokens(memory), totals.flatten(1)
        ends = torch.full_like(wanted[..., :1], end)  # which only those that have said everything may come to
        own = torch.cat([totals.argmax(dim=-1, keepdim=True), wanted, ends], dim=-1)
        if self.can_wait:
            known = torch.arange(vocabulary, device=totals.device).clamp(max=memory.opens.shape[1] - 1)
            gaps = totals.masked_fill(~memory.opens[:, None, known], -torch.inf).argmax(dim=-1)
            gaps = gaps.masked_fill(~_waits(memory.progress, memory), NONE)
            own = torch.cat([own, gaps[..., None]], dim=-1)
        rows = torch.arange(beams, device=totals.device)[:, None] * vocabulary
        _, best = best_candidates(flat, count=2 * self.beams)
        places = torch.cat([best, (own.clamp(min=0) + rows).flatten(1)], dim=1)
        is_token = torch.cat([torch.ones_like(best, dtype=torch.bool), (own != NONE).flatten(1)], dim=1)
        return _once(flat, places, is_token=is_token)


def falls_of(phrases: Sequence[Sequence[int]], *, longest: int, count: int, edges: Edges) -> list[list[int]]:
    """For each state, the states that the next token may go on from, longest first (Aho and Corasick 1975).

    State p·L + s is: the first s tokens of phrase p were just said; the last one, P·L, is that no phrase has begun.
    The last r tokens of what was said may be the first r of a phrase q too, if a word begins there: after "a a" of
    "a a b" a third "a" leaves two said, not none.
    """
    nothing = [place * longest for place in range(len(phrases))]
    table: list[list[int]] = [[] for _ in range(count * longest)] + [nothing]
    for number, phrase in enumerate(phrases):
        for said in range(1, len(phrase)):
            table[number * longest + said] = [
                place * longest + size
                for size in range(said, -1, -1)
                for place, other in enumerate(phrases)
                if size < len(other) and list(other[:size]) == list(phrase[said - size : said])
                if size == said or edges.between(phrase[said - size - 1], other[0])
            ]
    return table


def advance(progress: Progress, tokens: Tensor, phrases: Phrases) -> Progress:
    """The progress after one more token [B,C] each.

    Active is the phrase not yet met of which most was just said, the first of such phrases; phrases do not overlap, and
    begin where a word does.
    """
    count, longest = phrases.tokens.shape[1:]
    state = torch.where(progress.active == NONE, count * longest, progress.active * longest + progress.said)
    falls = along(phrases.falls, state)  # [B,C,F]
    safe = falls.clamp(min=0)
    wanted = phrases.tokens.flatten(1).gather(1, safe.flatten(1)).view_as(falls)
    fits = (falls != NONE) & (wanted == tokens[..., None]) & ~progress.met.gather(2, safe // longest)
    free = phrases.free.gather(1, (safe // longest).flatten(1)).view_as(falls)
    fits = fits & (progress.open[..., None] | free | (safe % longest > 0))
    first = safe.gather(2, fits.long().argmax(dim=-1, keepdim=True)).squeeze(2)
    active, said = first // longest, first % longest + 1
    complete = fits.any(dim=-1) & (said == phrases.lengths.gather(1, active))
    numbers = torch.arange(count, device=tokens.device)
    met = progress.met | (complete[..., None] & (numbers == active[..., None]))
    begun = fits.any(dim=-1) & ~complete
    opened = phrases.opens.gather(1, tokens.clamp(max=phrases.opens.shape[1] - 1))
    return Progress(met, torch.where(begun, active, NONE), torch.where(begun, said, 0), complete, opened)


def _allowed(totals: Tensor, phrases: Phrases, *, end: int) -> Tensor:
    """`totals` [B,K,V], overwritten: −∞ for an end before the last phrase, and where a phrase's word would go on."""
    size = min(phrases.follows.shape[1], totals.shape[-1])  # what is not known is a whole word
    sentence, beam = phrases.progress.complete.nonzero(as_tuple=True)
    if len(sentence):
        after = totals[sentence, beam]
        after[:, :size].masked_fill_(~phrases.follows[sentence, :size], -torch.inf)
        totals[sentence, beam] = after
    totals[..., end].masked_fill_(~phrases.progress.met.all(dim=-1), -torch.inf)
    return totals


def _once(values: Tensor, places: Tensor, *, is_token: Tensor) -> tuple[Tensor, Tensor]:
    """Values [B,C] at places of [B,K·V], best first; a place that stands twice, or is none, is impossible.

    Equal values go to the lower place.
    """
    places, order = torch.where(is_token, places, values.shape[1]).sort(dim=1)
    again = torch.nn.functional.pad(places[:, 1:] == places[:, :-1], (1, 0))
    places = places.clamp(max=values.shape[1] - 1)
    found = values.gather(1, places).masked_fill(again | ~is_token.gather(1, order), -torch.inf)
    ordered = found.sort(dim=1, descending=True, stable=True)
    return ordered.values, places.gather(1, ordered.indices)


def _waits(progress: Progress, phrases: Phrases) -> Tensor:
    """[B,C], whether hypotheses have something to say and nothing of it may begin where they are."""
    missing = ~progress.met
    may_begin = (missing & phrases.free[:, None]).any(dim=-1) | progress.open | (progress.active != NONE)
    return missing.any(dim=-1) & ~may_begin


def _next_tokens(phrases: Phrases) -> Tensor:
    """[B,K,P+1], the tokens that would bring hypotheses on: of the active phrase, and the first of each not yet met.

    The first only where a word may begin.
    """
    progress, longest = phrases.progress, phrases.tokens.shape[2]
    place = progress.active.clamp(min=0) * longest + progress.said.clamp(max=longest - 1)
    now = phrases.tokens.flatten(1).gather(1, place).masked_fill(progress.active == NONE, NONE)
    shut = progress.met | ~(progress.open[..., None] | phrases.free[:, None])
    firsts = phrases.tokens[:, None, :, 0].expand_as(progress.met).masked_fill(shut, NONE)
    return torch.cat([now[..., None], firsts], dim=-1)


def _place_in_bank(bank: Tensor, values: Tensor) -> Tensor:
    """[B,C], how many candidates of the same bank stand before each; impossible ones do not count."""
    same = (bank[:, :, None] == bank[:, None]) & (values > -torch.inf)[:, None]
    before = torch.ones(bank.shape[1], bank.shape[1], dtype=torch.bool, device=bank.device).tril(-1)
    return (same & before).sum(dim=-1)


def _of(progress: Progress, places: Tensor) -> Progress:
    return Progress(*(along(part, places) for part in progress))


def _live(values: Tensor, tokens: Tensor, covered: Tensor | None, places: Tensor) -> Live:
    return Live(values.gather(1, places), along(tokens, places), None if covered is None else along(covered, places))


def _looked_up(row: Tensor) -> Callable[[int], bool]:
    return lambda token: bool(row[token]) if token < len(row) else True
