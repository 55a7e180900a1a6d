"""Lines that are too long for a model, in parts: translated one by one and put together again."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from calque.engine.types import Candidate, Detail, Request, Translation
from calque.evaluation.alignment import words_of
from calque.search.settings import SearchConfig
from calque.text import EOS, PIECES, Tokenizer, Tokenizers
from calque.text.scripts import is_unspaced
from calque.text.splitting import LengthProfile, sentences_in, split_long


class Split(NamedTuple):
    """Requests that each fit, and how many of them each line became."""

    requests: list[Request]
    counts: list[int]

    def joined(self, translations: Iterator[Translation], *, tokenizers: Tokenizers) -> Iterator[Translation]:
        """One translation a line again."""
        for count in self.counts:
            yield join(list(islice(translations, count)), tokenizers=tokenizers)


def split_requests(
    requests: Sequence[Request],
    *,
    tokenizer: Tokenizer,
    search: SearchConfig,
    length_profile: LengthProfile | None = None,
) -> Split:
    """The requests, in parts where they are longer than the model reads or than the `usual` line it has learnt from.

    Sentences stay whole up to twice the usual length. A prefix is the first part's; a required phrase is of the part in
    which its words begin, once.
    """
    limit = search.source_limit
    whole, joined = (
        (limit, limit)
        if length_profile is None
        else (min(2 * length_profile.pieces, limit), min(length_profile.pieces, limit))
    )

    def fits(text: str) -> bool:
        return len(tokenizer.encode(text)) <= whole

    def joins(text: str) -> bool:
        return (length_profile is None or sentences_in(text) <= length_profile.sentences) and len(
            tokenizer.encode(text)
        ) <= joined

    found: list[Request] = []
    counts: list[int] = []
    for request in requests:
        parts = split_long(request.text, fits=fits, joins=joins)
        own = _shared_out(request, parts or [request.text])
        found += own
        counts.append(len(own))
    return Split(found, counts)


def join(parts: Sequence[Translation], *, tokenizers: Tokenizers) -> Translation:
    """The best translations of a line's parts as one; scores and log-probabilities are summed."""
    if len(parts) == 1:
        return parts[0]
    best = [part.candidates[0] for part in parts]
    text = ""
    for each in best:
        text += ("" if not text or not each.text or is_unspaced(text[-1]) else " ") + each.text
    known = [each.confidence for each in best if each.confidence is not None]
    odd = tuple(dict.fromkeys(sign for each in best for sign in each.oddities))
    details = [each.detail for each in best if each.detail is not None]
    whole = Candidate(
        text,
        sum(each.score for each in best),
        sum(each.log_prob for each in best),
        any(each.cut for each in best),
        sum(each.pieces for each in best),
        min(known) if known else None,
        odd,
        _detail(details, cut=[each.cut for each in best], tokenizers=tokenizers) if details else None,
        missing_phrase=any(each.missing_phrase for each in best),
    )
    return Translation([whole], any(part.source_cut for part in parts))


def _detail(details: Sequence[Detail], *, cut: Sequence[bool], tokenizers: Tokenizers) -> Detail:
    """Those of parts, one behind the other with end marks between them; each part looked at itself alone."""
    last = len(details) - 1
    source: list[str] = []
    pieces: list[str] = []
    rows: list[list[float]] = []
    links: list[tuple[int, int]] = []
    words = [0, 0]
    width = sum(len(each.source) + 1 for each in details)
    for place, each in enumerate(details):
        before = len(source)
        rows += [_widened(row, before=before, width=width) for row in each.attention or ()]
        links += [(words[0] + one, words[1] + other) for one, other in each.alignment or ()]
        for side, own in enumerate((each.source, each.pieces)):
            starts = [tokenizers[side].starts_word(piece) for piece in own]
            words[side] += max(words_of(starts), default=-1) + 1
        source += [*each.source, *([PIECES[EOS]] if place < last else [])]
        pieces += [*each.pieces, *([PIECES[EOS]] if place < last and not cut[place] else [])]
    log_probs = [value for each in details for value in each.log_probs]
    attends = all(each.attention is not None for each in details)
    return Detail(source, pieces, log_probs, rows if attends else None, links if attends else None)


def _widened(row: Sequence[float], *, before: int, width: int) -> list[float]:
    return [*[0.0] * before, *row, *[0.0] * (width - before - len(row))]


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
            part=at,
        )
        for at, part in enumerate(parts)
    ]
