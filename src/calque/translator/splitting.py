"""Lines that are too long for a model, in parts: translated one by one and put together again."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from calque.search.settings import SearchConfig
from calque.text.scripts import is_unspaced
from calque.text.splitting import split_long
from calque.text.tokenizer import Tokenizer
from calque.translator.answers import Candidate, Request, Translation


class Split(NamedTuple):
    """Requests that each fit, and how many of them each line became."""

    requests: list[Request]
    counts: list[int]

    def joined(self, translations: Iterator[Translation]) -> Iterator[Translation]:
        """One translation a line again."""
        for count in self.counts:
            yield join(list(islice(translations, count)))


def split_requests(requests: Sequence[Request], *, tokenizer: Tokenizer, search: SearchConfig) -> Split:
    """The requests with each that has more pieces than the model reads in parts; a prefix is the first part's."""
    found: list[Request] = []
    counts: list[int] = []
    for request in requests:
        parts = split_long(request.text, fits=lambda text: len(tokenizer.encode(text)) <= search.source_limit)
        parts = parts or [request.text]
        found += [request._replace(text=part, prefix=request.prefix if not at else "") for at, part in enumerate(parts)]
        counts.append(len(parts))
    return Split(found, counts)


def join(parts: Sequence[Translation]) -> Translation:
    """The best translations of a line's parts as one; scores and log-probabilities are summed."""
    if len(parts) == 1:
        return parts[0]
    best = [part.candidates[0] for part in parts]
    text = best[0].text
    for each in best[1:]:
        text += ("" if text and is_unspaced(text[-1]) else " ") + each.text
    known = [each.confidence for each in best if each.confidence is not None]
    odd = tuple(dict.fromkeys(sign for each in best for sign in each.oddities))
    whole = Candidate(
        text,
        sum(each.score for each in best),
        sum(each.log_prob for each in best),
        any(each.cut for each in best),
        sum(each.pieces for each in best),
        min(known) if known else None,
        odd,
    )
    return Translation([whole], any(part.source_cut for part in parts))
