"""Word alignments of a corpus: read from a Pharaoh file, checked, and kept as links between pieces.

A line holds a pair's links as `0-0 1-2 2-1`, source word first, words counted from 0 between white space.
"""

import re
from collections.abc import Sequence

import numpy as np

from calque.data.corpora import Block, Corpus
from calque.data.pairs import Pair
from calque.data.store import Array, Rows, Side, pack
from calque.text import Tokenizers
from calque.text.word_index import words_of_pieces

_LINK = re.compile(rb"(\d{1,9})-(\d{1,9})")

Link = tuple[int, int]
"""Source, target."""


def parse_links(line: bytes, *, source: int, target: int) -> list[Link]:
    """The links of a line between so many words; a ValueError says what is wrong with it."""
    links = []
    for token in line.split():
        found = _LINK.fullmatch(token)
        if not found:
            raise ValueError(f"{token[:40].decode(errors='replace')!r} is no link; expected source-target, as in 0-0")
        one, other = int(found[1]), int(found[2])
        for side, place, count in (("source", one, source), ("target", other, target)):
            if place >= count:
                raise ValueError(
                    f"{found[0].decode()} links {side} word {place}, but the {side} has {count} words, counted from 0"
                )
        links.append((one, other))
    return links


def link_problems(corpus: Corpus, block: Block, pairs: Sequence[Pair]) -> list[str]:
    """File, line and what is wrong with the alignments of a block's pairs."""
    problems = []
    for pair in pairs if corpus.alignments else ():
        try:
            _links_of(pair, block)
        except ValueError as error:
            problems.append(f"{corpus.alignments}: line {pair.line}: {error}")
    return problems


def piece_links(corpus: Corpus, block: Block, pairs: Sequence[Pair], *, tokenizers: Tokenizers) -> Rows:
    """The links of each pair between all pieces of linked words: source, target, source, target and so on."""
    return pack([_flat(pair, block, tokenizers) if corpus.alignments else () for pair in pairs])


def guide(links: Side, indices: Array, *, size: tuple[int, int, int]) -> Array:
    """[B,T,S], for each target piece the shares of the source pieces it is linked to; zeros where there are none."""
    shares = np.zeros(size, dtype=np.float32)
    for row, index in enumerate(indices):
        pairs = links.row(int(index)).astype(np.int64).reshape(-1, 2)
        shares[row, pairs[:, 1], pairs[:, 0]] = 1
    shares /= np.maximum(shares.sum(axis=2, keepdims=True), 1)
    return shares


def _links_of(pair: Pair, block: Block) -> list[Link]:
    line = block.alignments[pair.line - block.first]
    return parse_links(line, source=len(pair.source.split()), target=len(pair.target.split()))


def _flat(pair: Pair, block: Block, tokenizers: Tokenizers) -> list[int]:
    places: list[dict[int, list[int]]] = []
    for tokenizer, text in zip(tokenizers, (pair.source, pair.target), strict=True):
        by_word: dict[int, list[int]] = {}
        for place, word in enumerate(words_of_pieces(tokenizer, text)):
            by_word.setdefault(word, []).append(place)
        places.append(by_word)
    sources, targets = places
    linked = {
        (one, other)
        for source, target in _links_of(pair, block)
        for one in sources.get(source, ())
        for other in targets.get(target, ())
    }
    return [place for link in sorted(linked) for place in link]
