"""Phrases that must appear: dynamic beam allocation (Post and Vilar 2018; batched after Hu et al. 2019).

Letters: B sentences, K beams, V vocabulary, P phrases a sentence, L longest phrase, C candidates, Z = P·L + 1 states,
F falls.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from calque.search.beam import Extended, Live, best_candidates

NONE = -1  # where there is no phrase, or no token


class Progress(NamedTuple):
    """How far hypotheses are with their phrases."""

    met: Tensor  # [B,C,P]
    active: Tensor  # [B,C], the phrase that is being said, or none
    said: Tensor  # [B,C], how many tokens of it
    complete: Tensor  # [B,C], whether the last token completed a phrase


class Phrases(NamedTuple):
    """What the sentences still going must say, and how far they are."""

    tokens: Tensor  # [B,P,L], padded with none
    lengths: Tensor  # [B,P], 0 where there is no phrase
    falls: Tensor  # [B,Z,F], the states that a token may go on from, see `falls_of`
    follows: Tensor  # [B,V], tokens that may come after one of them
    progress: Progress  # of the live hypotheses


class Required:
    """Beams are shared out among hypotheses that have said as much of their phrases, so that none crowds out another.

    Candidates are the best of all, the best of each hypothesis, and each with the next token of a phrase or its end.
    Those with as many phrase tokens said stand in one bank; the K places go to the best of each bank in turn, fullest
    bank first. No hypothesis ends before it has said everything. `follows` [V] or [B,V] is true for tokens that may
    come after a phrase: those that do not go on with its last word.
    """

    def __init__(self, beams: int, phrases: Sequence[Sequence[Sequence[int]]], *, follows: Tensor) -> None:
        self.beams = beams
        self.follows = follows.expand(len(phrases), -1)
        count = max([1, *map(len, phrases)])
        longest = max((len(phrase) for row in phrases for phrase in row), default=1)
        self.tokens = torch.full((len(phrases), count, longest), NONE)
        self.lengths = torch.zeros(len(phrases), count, dtype=torch.long)
        for sentence, row in enumerate(phrases):
            for place, phrase in enumerate(row):
                self.tokens[sentence, place, : len(phrase)] = torch.tensor(phrase)
                self.lengths[sentence, place] = len(phrase)
        rows = [falls_of(row, longest=longest, count=count) for row in phrases]
        widest = max(1, *(len(falls) for row in rows for falls in row))
        self.falls = torch.tensor([[[*falls, *[NONE] * (widest - len(falls))] for falls in row] for row in rows])

    def start(self, sentences: Tensor) -> Phrases:
        parts = (self.tokens, self.lengths, self.falls, self.follows)
        tokens, lengths, falls, follows = (part.to(sentences.device) for part in parts)
        none = torch.full_like(lengths[:, :1], NONE)
        progress = Progress((lengths == 0)[:, None], none, torch.zeros_like(none), torch.zeros_like(none).bool())
        return Phrases(tokens, lengths, falls, follows, progress)

    def extend(self, live: Live, log_probs: Tensor, memory: Phrases, *, end: int) -> tuple[Extended, Phrases]:
        vocabulary = log_probs.shape[-1]
        totals = _allowed(live.log_probs[..., None] + log_probs, memory, end=end)
        values, places = self._candidates(totals, memory, end=end)
        parents, tokens = places // vocabulary, places % vocabulary
        progress = advance(_of(memory.progress, parents), tokens, memory)
        bank = (progress.met * memory.lengths[:, None]).sum(dim=-1) + progress.said
        is_end = tokens == end
        place = _place_in_bank(bank, values)
        banks = int(memory.lengths.sum(dim=1).max()) + 1
        turn = torch.where(is_end | (values == -torch.inf), values.shape[1], place) * banks + (banks - 1 - bank)
        chosen = turn.sort(dim=1, stable=True).indices[:, : self.beams].sort(dim=1).values  # best first again
        ending = is_end & (place < self.beams)
        ends = (~ending).long().sort(dim=1, stable=True).indices[:, : self.beams]
        grown = torch.cat([_along(live.tokens, parents), tokens[..., None]], dim=2)
        covered = None if live.covered is None else _along(live.covered, parents)
        after = _live(values.masked_fill(is_end, -torch.inf), grown, covered, chosen)
        ended = _live(values.masked_fill(~ending, -torch.inf), grown, covered, ends)
        memory = memory._replace(progress=_of(progress, chosen))
        return Extended(after, parents.gather(1, chosen), ended), memory

    def lacking(self, memory: Phrases) -> Tensor:
        return ~memory.progress.met.all(dim=-1)

    def _candidates(self, totals: Tensor, memory: Phrases, *, end: int) -> tuple[Tensor, Tensor]:
        """[B,C] values and places in [K·V], best first."""
        beams, vocabulary = totals.shape[1:]
        wanted, flat = _next_tokens(memory), totals.flatten(1)
        ends = torch.full_like(wanted[..., :1], end)  # which only those that have said everything may come to
        own = torch.cat([totals.argmax(dim=-1, keepdim=True), wanted, ends], dim=-1)
        rows = torch.arange(beams, device=totals.device)[:, None] * vocabulary
        _, best = best_candidates(flat, count=2 * self.beams)
        places = torch.cat([best, (own.clamp(min=0) + rows).flatten(1)], dim=1)
        is_token = torch.cat([torch.ones_like(best, dtype=torch.bool), (own != NONE).flatten(1)], dim=1)
        return _once(flat, places, is_token=is_token)


def falls_of(phrases: Sequence[Sequence[int]], *, longest: int, count: int) -> list[list[int]]:
    """For each state, the states that the next token may go on from, longest first (Aho and Corasick 1975).

    State p·L + s is: the first s tokens of phrase p were just said; the last one, P·L, is that no phrase has begun.
    The last r tokens of what was said may be the first r of a phrase q too: after "a a" of "a a b" a third "a" leaves
    two said, not none.
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
            ]
    return table


def advance(progress: Progress, tokens: Tensor, phrases: Phrases) -> Progress:
    """The progress after one more token [B,C] each.

    Active is the phrase not yet met of which most was just said, the first of such phrases; phrases do not overlap.
    """
    count, longest = phrases.tokens.shape[1:]
    state = torch.where(progress.active == NONE, count * longest, progress.active * longest + progress.said)
    falls = _along(phrases.falls, state)  # [B,C,F]
    safe = falls.clamp(min=0)
    wanted = phrases.tokens.flatten(1).gather(1, safe.flatten(1)).view_as(falls)
    fits = (falls != NONE) & (wanted == tokens[..., None]) & ~progress.met.gather(2, safe // longest)
    first = safe.gather(2, fits.long().argmax(dim=-1, keepdim=True)).squeeze(2)
    active, said = first // longest, first % longest + 1
    complete = fits.any(dim=-1) & (said == phrases.lengths.gather(1, active))
    numbers = torch.arange(count, device=tokens.device)
    met = progress.met | (complete[..., None] & (numbers == active[..., None]))
    begun = fits.any(dim=-1) & ~complete
    return Progress(met, torch.where(begun, active, NONE), torch.where(begun, said, 0), complete)


def _allowed(totals: Tensor, phrases: Phrases, *, end: int) -> Tensor:
    """`totals` [B,K,V], overwritten: −∞ for an end before the last phrase, and where a phrase's word would go on."""
    size = phrases.follows.shape[1]  # words behind it are copied: they are whole
    sentence, beam = phrases.progress.complete.nonzero(as_tuple=True)
    if len(sentence):
        after = totals[sentence, beam]
        after[:, :size].masked_fill_(~phrases.follows[sentence], -torch.inf)
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


def _next_tokens(phrases: Phrases) -> Tensor:
    """[B,K,P+1], the tokens that would bring hypotheses on: of the active phrase, and the first of each not yet met."""
    progress, longest = phrases.progress, phrases.tokens.shape[2]
    place = progress.active.clamp(min=0) * longest + progress.said.clamp(max=longest - 1)
    now = phrases.tokens.flatten(1).gather(1, place).masked_fill(progress.active == NONE, NONE)
    firsts = phrases.tokens[:, None, :, 0].expand_as(progress.met).masked_fill(progress.met, NONE)
    return torch.cat([now[..., None], firsts], dim=-1)


def _place_in_bank(bank: Tensor, values: Tensor) -> Tensor:
    """[B,C], how many candidates of the same bank stand before each; impossible ones do not count."""
    same = (bank[:, :, None] == bank[:, None]) & (values > -torch.inf)[:, None]
    before = torch.ones(bank.shape[1], bank.shape[1], dtype=torch.bool, device=bank.device).tril(-1)
    return (same & before).sum(dim=-1)


def _of(progress: Progress, places: Tensor) -> Progress:
    return Progress(*(_along(part, places) for part in progress))


def _live(values: Tensor, tokens: Tensor, covered: Tensor | None, places: Tensor) -> Live:
    return Live(values.gather(1, places), _along(tokens, places), None if covered is None else _along(covered, places))


def _along(values: Tensor, places: Tensor) -> Tensor:
    """Values [B,C] or [B,C,X] at places [B,P] of their second dimension."""
    index = places if values.dim() == 2 else places[..., None].expand(-1, -1, values.shape[2])
    return values.gather(1, index)
