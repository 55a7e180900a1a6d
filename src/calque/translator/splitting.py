"""Lines that are too long for a model, in parts: translated one by one and put together again."""

from bisect import bisect_right
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
    """The requests with each that has more pieces than the model reads in parts.

    A prefix is the first part's; a required phrase is of the part in which its words begin, once.
    """
    found: list[Request] = []
    counts: list[int] = []
    for request in requests:
        parts = split_long(request.text, fits=lambda text: len(tokenizer.encode(text)) <= search.source_limit)
        own = _shared_out(request, parts or [request.text])
        found += own
        counts.append(len(own))
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


def _shared_out(request: Request, parts: Sequence[str]) -> list[Request]:
    """A request for each of the parts, which stand in the request's text one behind the other."""
    begins: list[int] = []
    end = 0
    for part in parts:
        begins.append(request.text.index(part, end))
        end = begins[-1] + len(part)
    places = request.places or (0,) * len(request.required)
    homes = [max(bisect_right(begins, place) - 1, 0) for place in places]
    return [
        Request(
            part,
            request.prefix if not at else "",
            tuple(phrase for phrase, home in zip(request.required, homes, strict=True) if home == at),
        )
        for at, part in enumerate(parts)
    ]
