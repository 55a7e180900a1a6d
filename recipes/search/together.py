"""One beam search for many ways to rank: what lives on in a beam does not depend on how finished hypotheses are ranked.

So the settings of a recipe that differ in their score alone share their search: each gets what it would have got in a
search of its own (stopping = "exact"), and all together cost as much as the one that goes on longest.

Letters: B sentences still going, K beams, V vocabulary, S source, R rankings.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from calque.engine import MARKS, Translator, pad_source
from calque.engine.ensemble import Decoding, start_decoding
from calque.search.beam import BestK, Extended, Goal, Live, beam_search
from calque.search.decode import limits_of, scoring_of
from calque.search.scoring import Score, SentenceLengths
from calque.search.settings import SearchConfig
from calque.search.step import Step

Tokens = tuple[int, ...]


class Together:
    """Grows hypotheses as plain beam search does, and keeps for each sentence the best by every score.

    It is the Expansion of a beam search and its Score: a sentence is over when it is over for every score. Hypotheses
    that reach their maximum length are the search's own matter; `best` has none for a sentence where nothing ended.
    """

    def __init__(self, beams: int, scores: Sequence[Score]) -> None:
        self.best_k, self.scores = BestK(beams), scores
        self.best: list[dict[int, Tokens]] = [{} for _ in scores]

    @property
    def needs_coverage(self) -> bool:
        return any(score.needs_coverage for score in self.scores)

    def start(self, sentences: Tensor) -> Tensor:
        """[B], which of the first sentences each row is."""
        self.values = torch.full((len(self.scores), len(sentences)), -torch.inf)  # [R,B], as the search began
        return torch.arange(len(sentences))

    def extend(self, live: Live, log_probs: Tensor, memory: Tensor, *, end: int) -> tuple[Extended, Tensor]:
        grown, _ = self.best_k.extend(live, log_probs, None, end=end)
        self.rows, self.ended = memory, grown.ended
        return grown, memory

    def missing_phrase(self, memory: Tensor) -> None:
        return None

    def finished(self, log_probs: Tensor, *, length: int, covered: Tensor | None, lengths: SentenceLengths) -> Tensor:
        if log_probs is self.ended.log_probs:  # and not hypotheses that are closed at their maximum length
            for number, score in enumerate(self.scores):
                values = score.finished(log_probs, length=length, covered=covered, lengths=lengths)
                ordered = values.sort(dim=1, descending=True, stable=True)  # equal ones as the search has them
                best, places = ordered.values[:, 0], ordered.indices[:, 0]
                for row in (best > self.values[number, self.rows]).nonzero().squeeze(1).tolist():
                    sentence = int(self.rows[row])
                    self.values[number, sentence] = best[row]
                    self.best[number][sentence] = tuple(self.ended.tokens[row, places[row]].tolist()[:-1])
        return log_probs

    def bound(self, log_probs: Tensor, *, length: int, lengths: SentenceLengths) -> Tensor:
        bounds = torch.stack([score.bound(log_probs, length=length, lengths=lengths) for score in self.scores])
        goes_on = (bounds > self.values[:, self.rows]).any(dim=0)
        return torch.where(goes_on, torch.inf, -torch.inf)


def search_together(
    decoding: Decoding, source_lengths: Tensor, *, searches: Sequence[SearchConfig]
) -> list[list[Tokens]]:
    """What each of the searches, which differ in their score alone, says of each sentence."""
    first = searches[0]
    together = Together(first.beam, [scoring_of(each) for each in searches])
    found = beam_search(
        *decoding,
        expansion=together,
        goal=Goal(together),
        limits=limits_of(source_lengths, search=first),
        marks=MARKS,
        source_lengths=source_lengths,
    )
    return [[best.get(sentence, answers[0].tokens) for sentence, answers in enumerate(found)] for best in together.best]


@torch.inference_mode()
def translate_together(
    translator: Translator, sources: Sequence[str], *, searches: Mapping[str, SearchConfig]
) -> dict[str, list[str]]:
    """The translations of all sources by each of the searches."""
    results: dict[str, list[str]] = {name: [""] * len(sources) for name in searches}
    attention = any(each.coverage > 0 for each in searches.values())
    for places, decoding, lengths in batches(
        translator, sources, search=next(iter(searches.values())), attention=attention
    ):
        found = search_together(decoding, lengths, searches=list(searches.values()))
        for name, rows in zip(searches, found, strict=True):
            for place, tokens in zip(places, rows, strict=True):
                results[name][place] = translator.tokenizers.target.decode(tokens)
    return results


def batches(
    translator: Translator, sources: Sequence[str], *, search: SearchConfig, attention: bool = False
) -> Iterator[tuple[list[int], Decoding, Tensor]]:
    """Places of sources, longest first, with a step that begins there and the lengths of the sources."""
    encoded = translator.tokenizers.source.encode_many(sources)
    order = sorted(range(len(encoded)), key=lambda place: (-len(encoded[place]), place))
    while order:
        count = max(1, search.batch_tokens // (len(encoded[order[0]]) + 1))
        places, order = order[:count], order[count:]
        source = pad_source([encoded[place] for place in places])
        yield (
            places,
            start_decoding(translator.model, source, ensemble=translator.ensemble, search=search, attention=attention),
            source.lengths,
        )


def counted(step: Step) -> tuple[Step, Callable[[], tuple[int, int]]]:
    """The step, and what tells how often it was called and for how many hypotheses in all."""
    calls = rows = 0

    def counting(tokens: Tensor, state: object, context: object) -> object:
        nonlocal calls, rows
        calls, rows = calls + 1, rows + len(tokens)
        return step(tokens, state, context)

    return counting, lambda: (calls, rows)  # type: ignore[return-value]
