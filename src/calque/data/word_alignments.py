"""Word alignments of a corpus: read from a Pharaoh file, validated, and stored as links between pieces.

A line contains the links of a pair, as in `0-0 1-2 2-1`, with the source word first. Words are separated by white space
and counted from 0.
"""

import re
from collections.abc import Sequence

import numpy as np

from calque.data.corpora import Corpus, paths, text_columns
from calque.data.rows import Row
from calque.data.store import Array, Column
from calque.text import Tokenizers
from calque.text.word_index import words_of_pieces

LINKS = "links"  # the column of a store that holds them

_LINK = re.compile(rb"(\d{1,9})-(\d{1,9})")

Link = tuple[int, int]
"""The indices of a source word and of a target word."""


def parse_links(line: bytes, *, source: int, target: int) -> list[Link]:
    """The links of a line, given the number of words on each side. Raises a ValueError if a link is invalid."""
    links = []
    for token in line.split():
        match = _LINK.fullmatch(token)
        if not match:
            raise ValueError(
                f"{token[:40].decode(errors='replace')!r} is not a link; expected source-target, as in 0-0"
            )
        link = int(match[1]), int(match[2])
        for side, word, count in (("source", link[0], source), ("target", link[1], target)):
            if word >= count:
                raise ValueError(
                    f"{match[0].decode()} links {side} word {word} (counted from 0), but there are {count} {side} words"
                )
        links.append(link)
    return links


def link_problems(corpus: Corpus, rows: Sequence[Row]) -> list[str]:
    """File, line and description of every invalid link in a block's rows."""
    problems = []
    for row in rows if LINKS in text_columns(corpus) else ():
        try:
            links_of(row.texts)
        except ValueError as error:
            problems.append(f"{paths(corpus)['alignments']}: line {row.line}: {error}")
    return problems


def links_of(texts: Sequence[str]) -> list[Link]:
    """The word links of a pair, parsed from its three texts: source, target, and links such as `0-0 1-2`."""
    source, target, links = texts
    return parse_links(links.encode(), source=len(source.split()), target=len(target.split()))


def piece_links(texts: Sequence[str], *, tokenizers: Tokenizers) -> list[int]:
    """The links between all pieces of linked words, as a flat list of alternating source and target piece indices."""
    positions: list[dict[int, list[int]]] = []
    for tokenizer, text in zip(tokenizers, texts, strict=False):
        by_word: dict[int, list[int]] = {}
        for position, word in enumerate(words_of_pieces(tokenizer, text)):
            by_word.setdefault(word, []).append(position)
        positions.append(by_word)
    sources, targets = positions
    linked = {
        (source_piece, target_piece)
        for source, target in links_of(texts)
        for source_piece in sources.get(source, ())
        for target_piece in targets.get(target, ())
    }
    return [position for link in sorted(linked) for position in link]


def guide(links: Column, indices: Array, *, size: tuple[int, int, int]) -> Array:
    """[B,T,S], for each target piece the uniform distribution over its linked source pieces; zeros if it has none."""
    shares = np.zeros(size, dtype=np.float32)
    for row, index in enumerate(indices):
        pairs = links.row(int(index)).astype(np.int64).reshape(-1, 2)
        shares[row, pairs[:, 1], pairs[:, 0]] = 1
    shares /= np.maximum(shares.sum(axis=2, keepdims=True), 1)
    return shares
