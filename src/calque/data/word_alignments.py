"""Word alignments of a corpus: read from a Pharaoh file, validated, and stored as links between pieces.

A line holds the links of a pair as `0-0 1-2 2-1`, source word first; words are separated by white space and counted
from 0.
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
"""(source, target)."""


def parse_links(line: bytes, *, source: int, target: int) -> list[Link]:
    """The links of a line, given the numbers of words on both sides; a ValueError describes an invalid link."""
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
                    f"{match[0].decode()} links {side} word {word}, but the {side} has {count} words, counted from 0"
                )
        links.append(link)
    return links


def link_problems(corpus: Corpus, block: Block, pairs: Sequence[Pair]) -> list[str]:
    """The problems with the alignments of a block's pairs, with file and line."""
    problems = []
    for pair in pairs if corpus.alignments else ():
        try:
            _links_of(pair, block)
        except ValueError as error:
            problems.append(f"{corpus.alignments}: line {pair.line}: {error}")
    return problems


def piece_links(corpus: Corpus, block: Block, pairs: Sequence[Pair], *, tokenizers: Tokenizers) -> Rows:
    """The links of each pair between all pieces of linked words, flattened: source, target, source, target, ..."""
    return pack([_flattened_links(pair, block, tokenizers) if corpus.alignments else () for pair in pairs])


def guide(links: Side, indices: Array, *, size: tuple[int, int, int]) -> Array:
    """[B,T,S], a uniform distribution over the source pieces linked to each target piece; zeros without links."""
    shares = np.zeros(size, dtype=np.float32)
    for row, index in enumerate(indices):
        pairs = links.row(int(index)).astype(np.int64).reshape(-1, 2)
        shares[row, pairs[:, 1], pairs[:, 0]] = 1
    shares /= np.maximum(shares.sum(axis=2, keepdims=True), 1)
    return shares


def _links_of(pair: Pair, block: Block) -> list[Link]:
    line = block.alignments[pair.line - block.first]
    return parse_links(line, source=len(pair.source.split()), target=len(pair.target.split()))


def _flattened_links(pair: Pair, block: Block, tokenizers: Tokenizers) -> list[int]:
    pieces_by_word: list[dict[int, list[int]]] = []
    for tokenizer, text in zip(tokenizers, (pair.source, pair.target), strict=True):
        pieces: dict[int, list[int]] = {}
        for piece, word in enumerate(words_of_pieces(tokenizer, text)):
            pieces.setdefault(word, []).append(piece)
        pieces_by_word.append(pieces)
    source_pieces, target_pieces = pieces_by_word
    links = {
        (source_piece, target_piece)
        for source_word, target_word in _links_of(pair, block)
        for source_piece in source_pieces.get(source_word, ())
        for target_piece in target_pieces.get(target_word, ())
    }
    return [piece for link in sorted(links) for piece in link]
