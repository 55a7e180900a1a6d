"""Subwords by the sentencepiece library: byte-pair encoding or a unigram model, with byte fallback."""

import io
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Literal, Self

import numpy as np
import sentencepiece
from pydantic import Field

from calque.config import Config
from calque.errors import TextError
from calque.text.bytes import BYTE_PIECES, piece_bytes, pieces_text
from calque.text.cleaning import Escape
from calque.text.tokenizer import Tokenizer, is_normalised, normalise
from calque.text.vocabulary import BOS, EOS, PAD, PIECES, UNK, Vocabulary
from calque.text.word_table import FlatIds, WordTable, flat_ids

SPACE = "▁"
# The library writes a space as ▁ and skips every training line that contains ▅.
_ESCAPE = Escape(SPACE + "▅")
_BASE = (*PIECES, *BYTE_PIECES)
_LONGEST_LINE = 4096  # characters
_CHARACTERS_PER_PIECE = 200
_MULTITHREADED = 512  # texts from which encoding uses all cores
_TOGETHER = 4096  # lines that are looked at in one call
_WORD = re.compile(f"{SPACE}[^{SPACE}]*|[^{SPACE}]+")


class SentencePieceConfig(Config):
    kind: Literal["sentencepiece"] = "sentencepiece"

    algorithm: Literal["bpe", "unigram"] = "bpe"
    """Byte-pair encoding (Sennrich et al. 2016) or a unigram language model (Kudo 2018)."""

    vocabulary_size: int = Field(default=8000, gt=len(_BASE))
    """The maximum number of pieces. A small corpus gets fewer: 260 special pieces and bytes, its characters, and one
    further piece per 200 characters of text."""

    joint: bool = True
    """Use one vocabulary for both sides."""

    character_coverage: float = Field(default=0.9999, gt=0, le=1)
    """The share of the text whose characters become pieces; the rarest characters are spelled in bytes."""

    sample: int = Field(default=100_000, ge=100)
    """The tokenizer is trained on at most this many lines, spread evenly over the corpus."""


class SentencePieceTokenizer(Tokenizer):
    """Subwords with byte fallback: lossless for every text, in pieces and in ids."""

    kind = "sentencepiece"
    is_closed = True
    suffix = "model"

    def __init__(self, model: bytes) -> None:
        self._processor = _processor(model)
        self.vocabulary = Vocabulary(self._processor.id_to_piece(list(range(len(self._processor)))))
        if self.vocabulary.pieces[: len(_BASE)] != _BASE:
            raise TextError(
                "this is not a sentencepiece model trained by Calque: its first pieces must be the special pieces "
                "and the 256 bytes"
            )
        self._characters = frozenset("".join(self.vocabulary.pieces[len(_BASE) :])) - {SPACE} | {" "}
        self.algorithm: Literal["bpe", "unigram"] = "unigram" if _supports_nbest(self._processor) else "bpe"

    @classmethod
    def train(cls, config: SentencePieceConfig, *, lines: Iterable[str], share: float = 1.0) -> Self:
        """A tokenizer trained on lines that are a fraction `share` of a corpus. Equal lines give equal model files."""
        model = io.BytesIO()
        prepared = _prepared(lines)
        size = min(config.vocabulary_size, supported_size(prepared, share=share))
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(prepared),
                model_writer=model,
                model_type=config.algorithm,
                vocab_size=size,
                hard_vocab_limit=False,
                character_coverage=config.character_coverage,
                pad_id=PAD,
                bos_id=BOS,
                eos_id=EOS,
                unk_id=UNK,
                byte_fallback=True,
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                add_dummy_prefix=True,
                max_sentence_length=2 * 4 * _LONGEST_LINE,
                num_threads=1,  # the sums of the unigram model depend on it, and the model file records it
                minloglevel=2,
            )
        except RuntimeError as error:
            raise TextError(_explain(str(error), size=size)) from None
        return cls(model.getvalue())

    def tokenise(self, text: str) -> list[str]:
        pieces: list[str] = self._processor.encode(_escaped(text), out_type=str)
        return pieces

    def detokenise(self, pieces: Sequence[str]) -> str:
        return _ESCAPE.undo(pieces_text(piece.replace(SPACE, " ") for piece in pieces).removeprefix(" "))

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._processor.encode(_escaped(text))
        return ids

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        threads = -1 if len(texts) >= _MULTITHREADED else 1
        ids: list[list[int]] = self._processor.encode(_escaped_all(texts), num_threads=threads)
        return ids

    def encode_flat(self, texts: Sequence[str]) -> FlatIds:
        """The ids of all texts. With byte-pair encoding, texts are encoded word by word (calque/text/word_table.py).

        The result equals that of `encode_many`. Unigram models always use `encode_many`: they add up scores over a
        whole text, and rounding decides between equally probable segmentations, so words cannot be encoded alone.
        """
        if self.algorithm == "unigram" or self._crosses_spaces:
            return flat_ids(self.encode_many(texts))
        return self._words(_escaped_all(texts))

    @cached_property
    def _crosses_spaces(self) -> bool:
        """Whether a learnt piece has a space after its first character, so that words cannot be encoded separately."""
        return any(SPACE in piece[1:] for piece in self.vocabulary.pieces[len(_BASE) :])

    @cached_property
    def _words(self) -> WordTable:
        return WordTable(self._encode_words)

    def _encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """The ids of each word together with the space before it; for an empty word, those of the space alone."""
        threads = -1 if len(words) >= _MULTITHREADED else 1
        ids: list[list[int]] = self._processor.encode(words, num_threads=threads)
        if "" in words:
            spaces = self._processor.encode(" ")  # this one, and the one before it
            ids[words.index("")] = spaces[: len(spaces) // 2]
        return ids

    def scores(self) -> dict[str, float]:
        """The score of each learnt piece: the negated rank of its merge (BPE), or its log-probability (unigram)."""
        ids = range(len(_BASE), len(self.vocabulary))
        return dict(zip(self.vocabulary.pieces[len(_BASE) :], map(self._processor.get_score, ids), strict=True))

    def nbest(self, text: str, *, count: int) -> list[tuple[list[int], float]]:
        """The `count` most probable segmentations of a text under a unigram model: ids and log-probability.

        Characters that no piece covers are common to all segmentations and do not count towards the probability.
        """
        segmentations: list[list[int]] = self._processor.nbest_encode(_escaped(text), nbest_size=count)
        return [(ids, sum(map(self._weights.__getitem__, ids))) for ids in segmentations]

    @cached_property
    def _weights(self) -> list[float]:
        """The score of each id in the sentencepiece model; 0 for special pieces and bytes."""
        return [0.0] * len(_BASE) + list(self.scores().values())

    def encode_with(self, text: str, *, segment: Callable[[str], Sequence[str]]) -> list[int]:
        """The ids of the text, with each word and its leading space split into pieces and characters by `segment`.

        No learnt piece crosses a space, so words can be segmented independently.
        """
        if not text:
            return []
        words = _WORD.findall(SPACE + _escaped(text).replace(" ", SPACE))
        return [id for word in words for piece in segment(word) for id in self._ids(piece)]

    def _ids(self, piece: str) -> list[int]:
        """The id of `piece` if it was learnt, otherwise the ids of its UTF-8 bytes (byte fallback)."""
        id = self.vocabulary.id(piece)
        return [id] if id >= len(_BASE) else [len(PIECES) + byte for byte in piece.encode()]

    def surface(self, piece: str) -> bytes:
        return piece_bytes(_ESCAPE.undo(piece.replace(SPACE, " ")))

    def represents(self, character: str) -> bool:
        return self._characters.issuperset(_ESCAPE.apply(character))

    def to_bytes(self) -> bytes:
        model: bytes = self._processor.serialized_model_proto()
        return model

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return cls(data)


def supported_size(lines: Sequence[str], *, share: float) -> int:
    """The largest vocabulary size that a corpus supports, given lines that are a fraction `share` of the corpus.

    Further pieces would occur so rarely that their embeddings could not be learnt.
    """
    characters = sum(map(len, lines)) / share
    return len(_BASE) + _count_characters(lines) + int(characters / _CHARACTERS_PER_PIECE) + 1


def _count_characters(lines: Sequence[str]) -> int:
    """The number of distinct characters in the lines."""
    seen = np.zeros(sys.maxunicode + 1, dtype=bool)
    for start in range(0, len(lines), _TOGETHER):
        joined = "".join(lines[start : start + _TOGETHER])
        seen[np.frombuffer(joined.encode("utf-32-le"), dtype="<u4")] = True
    return int(seen.sum())


def _processor(model: bytes) -> sentencepiece.SentencePieceProcessor:
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
        processor.id_to_piece(list(range(len(processor))))  # decodes every piece
    except (RuntimeError, UnicodeDecodeError) as error:  # a piece, or a message about it, may not be UTF-8
        raise TextError(f"this is not a sentencepiece model: {error}") from None
    return processor


def _supports_nbest(processor: sentencepiece.SentencePieceProcessor) -> bool:
    """Whether the model lists alternative segmentations, which only a unigram model does."""
    try:
        processor.nbest_encode("a", nbest_size=1)
    except RuntimeError:
        return False
    return True


def _escaped(text: str) -> str:
    return _ESCAPE.apply(normalise(text))


def _escaped_all(texts: Sequence[str]) -> list[str]:
    """The texts, normalised and escaped, as the list that sentencepiece needs; fast if no text has to be changed."""
    joined = "\n".join(texts)  # no character of one text combines with one of the next across a line break
    return list(texts if is_normalised(joined) and not _ESCAPE.is_needed(joined) else map(_escaped, texts))


def _prepared(lines: Iterable[str]) -> list[str]:
    cut = [line[:_LONGEST_LINE] for line in lines if line]
    blocks = (cut[start : start + _TOGETHER] for start in range(0, len(cut), _TOGETHER))
    return [line for block in blocks for line in _escaped_all(block)]


def _explain(problem: str, *, size: int) -> str:
    if needed := re.search(r"required_chars\. \d+ vs (\d+)", problem):
        return (
            f"a vocabulary of {size} pieces is too small: the characters of the corpus, the 256 bytes and the "
            f"special pieces need {needed[1]}; raise vocabulary_size above that, or lower character_coverage"
        )
    if "sentences_.empty()" in problem:
        return "there is nothing to learn subwords from: every line is empty"
    return f"sentencepiece cannot be trained on this corpus: {problem}"
