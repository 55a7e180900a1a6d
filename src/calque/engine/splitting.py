"""Splits long lines before translation, and joins the translations of their parts."""

from bisect import bisect_right
from collections.abc import Sequence

from calque.engine.types import Candidate, Detail, Request, Translation
from calque.evaluation.alignment import words_of
from calque.text import EOS, PIECES, Tokenizer, Tokenizers
from calque.text.length_profile import LengthProfile
from calque.text.scripts import is_unspaced
from calque.text.splitting import sentences_in, split_long


def split_request(
    request: Request, *, tokenizer: Tokenizer, limit: int, length_profile: LengthProfile | None = None
) -> list[Request]:
    """Splits a request into several if its text is longer than `limit` pieces or than the model's usual source lines.

    `length_profile` holds the usual length of source lines, measured on held-out data; sentences stay whole up to twice
    that length. The first part gets the prefix, and each required phrase goes to the part in which the source words it
    translates begin.
    """
    sentence_limit, joined_limit = (
        (limit, limit)
        if length_profile is None
        else (min(2 * length_profile.pieces, limit), min(length_profile.pieces, limit))
    )

    def fits(text: str) -> bool:
        return len(tokenizer.encode(text)) <= sentence_limit

    def joins(text: str) -> bool:
        return (length_profile is None or sentences_in(text) <= length_profile.sentences) and len(
            tokenizer.encode(text)
        ) <= joined_limit

    texts = split_long(request.text, fits=fits, joins=joins)
    return _distribute(request, texts or [request.text])


def join(parts: Sequence[Translation], *, tokenizers: Tokenizers) -> Translation:
    """The best translations of a line's parts, joined into one translation; scores and log-probabilities are summed."""
    if len(parts) == 1:
        return parts[0]
    best = [part.candidates[0] for part in parts]
    text = ""
    for candidate in best:
        text += ("" if not text or not candidate.text or is_unspaced(text[-1]) else " ") + candidate.text
    confidences = [candidate.confidence for candidate in best if candidate.confidence is not None]
    signs = tuple(dict.fromkeys(sign for candidate in best for sign in candidate.oddities))
    details = [candidate.detail for candidate in best if candidate.detail is not None]
    whole = Candidate(
        text,
        sum(candidate.score for candidate in best),
        sum(candidate.log_prob for candidate in best),
        any(candidate.cut for candidate in best),
        sum(candidate.pieces for candidate in best),
        min(confidences) if confidences else None,
        signs,
        _join_details(details, cut=[candidate.cut for candidate in best], tokenizers=tokenizers) if details else None,
        missing_phrase=any(candidate.missing_phrase for candidate in best),
        shortlisted=any(candidate.shortlisted for candidate in best)
        and all(candidate.shortlisted for candidate in best if candidate.pieces),
    )
    return Translation([whole], any(part.source_cut for part in parts))


def _join_details(details: Sequence[Detail], *, cut: Sequence[bool], tokenizers: Tokenizers) -> Detail:
    """Joins the details of a text's parts, separated by EOS; attention from one part to the source of another is 0."""
    last = len(details) - 1
    source: list[str] = []
    pieces: list[str] = []
    ids: list[int] = []
    attention: list[list[float]] = []
    alignment: list[tuple[int, int]] = []
    source_words, target_words = 0, 0
    width = sum(len(detail.source) + 1 for detail in details)
    for place, detail in enumerate(details):
        before = len(source)
        attention += [_pad_row(row, before=before, width=width) for row in detail.attention or ()]
        alignment += [(source_words + i, target_words + j) for i, j in detail.alignment or ()]
        source_words += _count_words(detail.source, tokenizer=tokenizers.source)
        target_words += _count_words(detail.pieces, tokenizer=tokenizers.target)
        source += [*detail.source, *([PIECES[EOS]] if place < last else [])]
        ends = [EOS] if place < last and not cut[place] else []
        pieces += [*detail.pieces, *(PIECES[end] for end in ends)]
        ids += [*detail.ids, *ends]
    log_probs = [log_prob for detail in details for log_prob in detail.log_probs]
    attends = all(detail.attention is not None for detail in details)
    return Detail(source, pieces, log_probs, attention if attends else None, alignment if attends else None, tuple(ids))


def _count_words(pieces: Sequence[str], *, tokenizer: Tokenizer) -> int:
    return max(words_of([tokenizer.starts_word(piece) for piece in pieces]), default=-1) + 1


def _pad_row(row: Sequence[float], *, before: int, width: int) -> list[float]:
    return [*[0.0] * before, *row, *[0.0] * (width - before - len(row))]


def _distribute(request: Request, parts: Sequence[str]) -> list[Request]:
    """Splits a request into one per part of its text; a required phrase goes to the part that has its source words."""
    starts: list[int] = []
    end = 0
    for part in parts:
        starts.append(request.text.index(part, end))
        end = starts[-1] + len(part)
    places = request.places or (0,) * len(request.required)
    phrase_parts = [max(bisect_right(starts, place) - 1, 0) for place in places]
    return [
        request._replace(
            text=part,
            prefix=request.prefix if not number else "",
            required=tuple(
                phrase for phrase, home in zip(request.required, phrase_parts, strict=True) if home == number
            ),
            places=(),
        )
        for number, part in enumerate(parts)
    ]
