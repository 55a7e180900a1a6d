"""One beam search for several scores: the live hypotheses of a beam do not depend on the score of finished ones.

Settings that differ only in their score therefore share a search. Each gets the same result as in a search of its own
(stopping = "exact"), and all of them together cost as much as the search that stops last.

Letters: B unfinished sentences, K beams, V vocabulary, S source, R scores.
"""

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from calque.engine import MARKS, Translator, pad_source
from calque.engine.ensemble import Decoding, start_decoding
from calque.search.beam import BestK, Extended, Goal, beam_search
from calque.search.decode import limits_of, scoring_of
from calque.search.observers import SearchStep
from calque.search.scoring import Score, SentenceLengths
from calque.search.settings import SearchConfig, batch_positions
from calque.search.step import Live

Tokens = tuple[int, ...]


class SharedScores:
    """Extends hypotheses as standard beam search does, and keeps the best hypothesis of every sentence by every score.

    It is both Expansion and Score of a beam search: a sentence is finished when it is finished for every score.
    Hypotheses cut at the maximum length are returned by the search itself. `best` has no hypothesis for a sentence in
    which none ended.
    """

    prunes = False  # what cannot win by one score may win by another

    def __init__(self, beams: int, scores: Sequence[Score]) -> None:
        self.best_k, self.scores = BestK(beams), scores
        self.best: list[dict[int, Tokens]] = [{} for _ in scores]

    @property
    def needs_coverage(self) -> bool:
        return any(score.needs_coverage for score in self.scores)

    def start(self, sentences: Tensor) -> Tensor:
        """[B], the index of every row in the initial batch."""
        self.values = torch.full((len(self.scores), len(sentences)), -torch.inf)  # [R,B] of the initial batch
        return torch.arange(len(sentences))

    def extend(self, live: Live, log_probs: Tensor, memory: Tensor, *, end: int) -> tuple[Extended, Tensor]:
        extended, _ = self.best_k.extend(live, log_probs, None, end=end)
        self.rows, self.ended = memory, extended.ended
        return extended, memory

    def missing_phrase(self, memory: Tensor) -> None:
        return None

    def finished(self, log_probs: Tensor, *, length: int, covered: Tensor | None, lengths: SentenceLengths) -> Tensor:
        if log_probs is self.ended.log_probs:  # not those cut at the maximum length
            for number, score in enumerate(self.scores):
                values = score.finished(log_probs, length=length, covered=covered, lengths=lengths)
                ordered = values.sort(dim=1, descending=True, stable=True)  # ties in the order of the search
                best, places = ordered.values[:, 0], ordered.indices[:, 0]
                for row in (best > self.values[number, self.rows]).nonzero().squeeze(1).tolist():
                    sentence = int(self.rows[row])
                    self.values[number, sentence] = best[row]
                    self.best[number][sentence] = tuple(self.ended.tokens[row, places[row]].tolist()[:-1])
        return log_probs

    def bound(self, log_probs: Tensor, *, length: int, lengths: SentenceLengths) -> Tensor:
        bounds = torch.stack([score.bound(log_probs, length=length, lengths=lengths) for score in self.scores])
        continues = (bounds > self.values[:, self.rows]).any(dim=0)
        return torch.where(continues, torch.inf, -torch.inf)


def search_shared(
    decoding: Decoding, source_lengths: Tensor, *, searches: Sequence[SearchConfig]
) -> list[list[Tokens]]:
    """The best hypothesis of every sentence by every search; searches differ only in their score."""
    first = searches[0]
    shared = SharedScores(first.beam, [scoring_of(search) for search in searches])
    hypotheses = beam_search(
        *decoding,
        expansion=shared,
        goal=Goal(shared),
        limits=limits_of(source_lengths, search=first),
        marks=MARKS,
        source_lengths=source_lengths,
    )
    return [[best.get(sentence, cut[0].tokens) for sentence, cut in enumerate(hypotheses)] for best in shared.best]


@torch.inference_mode()
def translate_shared(
    translator: Translator, sources: Sequence[str], *, searches: Mapping[str, SearchConfig]
) -> dict[str, list[str]]:
    """The translations of all sources by every search."""
    results: dict[str, list[str]] = {name: [""] * len(sources) for name in searches}
    attention = any(search.coverage > 0 for search in searches.values())
    for places, decoding, lengths in batches(
        translator, sources, search=next(iter(searches.values())), attention=attention
    ):
        hypotheses = search_shared(decoding, lengths, searches=list(searches.values()))
        for name, rows in zip(searches, hypotheses, strict=True):
            for place, tokens in zip(places, rows, strict=True):
                results[name][place] = translator.tokenizers.target.decode(tokens)
    return results


def batches(
    translator: Translator, sources: Sequence[str], *, search: SearchConfig, attention: bool = False
) -> Iterator[tuple[list[int], Decoding, Tensor]]:
    """Indices of sources, longest first, with the start of their decoding and their lengths."""
    encoded = translator.tokenizers.source.encode_many(sources)
    order = sorted(range(len(encoded)), key=lambda place: (-len(encoded[place]), place))
    while order:
        count = max(1, batch_positions(search, device=translator.device) // (len(encoded[order[0]]) + 1))
        places, order = order[:count], order[count:]
        source = pad_source([encoded[place] for place in places])
        yield (
            places,
            start_decoding(translator.model, source, ensemble=translator.ensemble, search=search, attention=attention),
            source.lengths,
        )


class DecoderCost:
    """Observes a search and counts its decoder steps, and the hypotheses that these steps extended."""

    def __init__(self) -> None:
        self.steps = self.rows = 0

    def search_step(self, step: SearchStep) -> None:
        if step.length == 1:
            self.rows += len(step.sentence)
        self.steps += 1
        self.rows += int((~step.done).sum()) * step.live.log_probs.shape[1]
