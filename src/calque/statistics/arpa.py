r"""ARPA files: back-off n-gram models as text, as SRILM, KenLM and other tools read and write them.

    \data\
    ngram 1=4
    ngram 2=2

    \1-grams:
    -99	<s>	-0.30103
    -0.60206	the	-0.30103
    ...
    \2-grams:
    -0.30103	<s> the
    ...
    \end\

Each line has log₁₀ p of an n-gram's last word, its words, and log₁₀ of its back-off weight, which may be left out if it
is 0. Numbers are written as the shortest decimals that single precision reads back unchanged.
"""

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from calque.data.lines import describe, file_lines
from calque.errors import DataError
from calque.statistics.ngram_counts import Integers
from calque.statistics.ngram_tables import NEVER, NgramTables
from calque.text import BOS, EOS, PAD, PIECES, UNK
from calque.text.cleaning import ESCAPE

Progress = Callable[[str, int, int], None]
"""Called with a phase, the amount done and the total."""

LINE = 1 << 16  # bytes
HIGHEST = 20  # the highest order that is read
LARGEST = 99.0  # log₁₀ of the largest back-off weight that is read
ABOVE_ONE = 1e-4  # how far rounding may lift log₁₀ p above 0
BLOCK = 1 << 15  # lines written together


class ArpaModel(NamedTuple):
    """The contents of an ARPA file."""

    pieces: tuple[str, ...]
    tables: NgramTables
    remarks: list[str]

    @property
    def is_running(self) -> bool:
        """Whether the model describes running text: some n-grams begin with an end mark, and none with a begin mark."""
        if self.tables.order == 1:
            return False
        first = np.unique(self.tables.keys[1] // self.tables.vocabulary_size)
        return EOS in first and BOS not in first


def written_form(piece: str) -> str:
    """A piece as written in ARPA files: white space, which would separate words, is replaced by its code point."""
    return re.sub(r"\s", lambda match: f"<U+{ord(match[0]):04X}>", piece)


def arpa_lines(tables: NgramTables, pieces: Sequence[str], *, progress: Progress | None = None) -> Iterator[str]:
    """The text of an ARPA file, in blocks of lines; the padding piece is left out."""
    words = [written_form(piece) for piece in pieces]
    if len(set(words)) < len(words):
        twice = next(word for place, word in enumerate(words) if word in words[:place])
        raise DataError(
            f"no ARPA file can be written: two different pieces of the vocabulary would both appear as {twice}"
        )
    sizes = [tables.sizes[0] - 1, *tables.sizes[1:]]  # without padding
    yield "\\data\\\n" + "".join(f"ngram {order}={size}\n" for order, size in enumerate(sizes, start=1))
    ngrams = words
    for level in range(tables.order):
        yield f"\n\\{level + 1}-grams:\n"
        if level:
            prefixes, last = np.divmod(tables.keys[level], tables.vocabulary_size)
            pairs = zip(prefixes.tolist(), last.tolist(), strict=True)
            ngrams = [f"{ngrams[prefix]} {words[word]}" for prefix, word in pairs]
        backoffs = tables.backoffs[level] if level < len(tables.backoffs) else np.zeros(len(ngrams))
        for start in range(0, len(ngrams), BLOCK):
            part = slice(start, start + BLOCK)
            yield _block(ngrams[part], _shortest(tables.log_probs[level][part]), _shortest(backoffs[part]), start=start)
            if progress is not None:
                progress(f"writing {level + 1}-grams", min(start + BLOCK, len(ngrams)), len(ngrams))
    yield "\n\\end\\\n"


def _block(ngrams: Sequence[str], log_probs: Sequence[str], backoffs: Sequence[str], *, start: int) -> str:
    lines = [
        f"{log_prob}\t{ngram}\n" if backoff in ("0.0", "-0.0") else f"{log_prob}\t{ngram}\t{backoff}\n"
        for ngram, log_prob, backoff in zip(ngrams, log_probs, backoffs, strict=True)
    ]
    return "".join(lines[1:] if start == PAD and ngrams[0] == PIECES[PAD] else lines)


def _shortest(numbers: np.ndarray) -> list[str]:
    """The numbers in single precision, each as the shortest decimal that is read back unchanged."""
    return numbers.astype(np.float32).astype(str).tolist()  # type: ignore[no-any-return]


def read_arpa(path: Path, *, pieces: Sequence[str] | None = None, progress: Progress | None = None) -> ArpaModel:
    """The model in an ARPA file, plain or compressed; a DataError names the line that is wrong.

    The vocabulary is `pieces`, or else the file's words. Pieces that are not in the file share the probability of its
    <unk>, as they are unknown to the tool that wrote it.
    """
    return _ArpaReader(path, pieces=pieces, progress=progress).read()


class _Section(NamedTuple):
    """The n-grams of one order in an ARPA file, in the sequence of its lines."""

    words: "array[int]"  # flat
    log_probs: "array[float]"
    backoffs: "array[float]"
    lines: "array[int]"  # their numbers

    @classmethod
    def empty(cls) -> "_Section":
        return cls(array("q"), array("d"), array("d"), array("q"))


class _ArpaReader:
    def __init__(self, path: Path, *, pieces: Sequence[str] | None, progress: Progress | None) -> None:
        self.path, self.progress = path, progress
        self.pieces = list(PIECES if pieces is None else pieces)
        self.is_open = pieces is None  # words of the file become pieces
        self.ids = {written_form(piece).encode(): id for id, piece in enumerate(self.pieces) if id != PAD}
        self.ids |= {b"<UNK>": self.ids.get(b"<UNK>", UNK)}
        self.number = 0
        self.line = b""

    def fail(self, message: str, *, line: int | None = None) -> NoReturn:
        raise DataError(f"{self.path}: line {self.number if line is None else line}: {message}")

    def read(self) -> ArpaModel:
        lines = self._lines()
        sizes = self._header(lines)
        remarks: list[str] = []
        tables = NgramTables(0, [], [], [])
        for order, size in enumerate(sizes, start=1):
            expected = f"\\{order}-grams:".encode()
            if self.line != expected:
                self.fail(f"expected {expected.decode()}, found {self._shown()}")
            section = self._section(lines, order=order, size=size, is_last=order == len(sizes))
            tables = self._words(section) if order == 1 else self._ngrams(tables, section, order=order)
        if self.line != b"\\end\\":
            self.fail(f"expected \\end\\ after the n-grams, found {self._shown()}")
        total = float((10.0 ** tables.log_probs[0][tables.log_probs[0] > NEVER]).sum())
        if abs(total - 1) > 0.01:
            remarks.append(f"the probabilities of single words sum to {total:.3f}, not to 1")
        return ArpaModel(tuple(self.pieces), tables._replace(backoffs=tables.backoffs[: tables.order - 1]), remarks)

    def _lines(self) -> Iterator[bytes]:
        """Yields each line that is not blank, and b"" at the end of the file; `self.line` is the line yielded last."""
        for number, raw in enumerate(file_lines(self.path, limit=LINE), start=1):
            self.number = number
            if len(raw) > LINE:
                self.fail(f"the line is longer than {LINE:,} bytes; this is not an ARPA file")
            self.line = raw.strip()
            if self.line:
                yield self.line
        self.line = b""
        yield b""

    def _shown(self) -> str:
        return repr(self.line[:60].decode(errors="replace")) if self.line else "the end of the file"

    def _header(self, lines: Iterator[bytes]) -> list[int]:
        """The number of n-grams of each order in the header, from order 1 on; reads up to the line after the header."""
        for line in lines:
            if line == b"\\data\\":
                break
        else:
            raise DataError(f"{self.path}: found no line \\data\\; this is not an ARPA file")
        sizes: list[int] = []
        for line in lines:
            found = re.fullmatch(rb"ngram\s+(\d{1,3})\s*=\s*(\d{1,15})", line)
            if found is None:
                break
            if int(found[1]) != len(sizes) + 1:
                self.fail(f"expected the number of {len(sizes) + 1}-grams, found that of {int(found[1])}-grams")
            sizes.append(int(found[2]))
        if not sizes:
            self.fail(f"expected ngram 1=NUMBER, found {self._shown()}")
        if len(sizes) > HIGHEST:
            self.fail(f"found n-grams of order {len(sizes)}; orders above {HIGHEST} are not supported")
        return sizes

    def _section(self, lines: Iterator[bytes], *, order: int, size: int, is_last: bool) -> _Section:
        section, ids = _Section.empty(), self.ids
        most = order + 1 if is_last else order + 2
        for line in lines:
            if line.startswith(b"\\") and (line == b"\\end\\" or line.endswith(b"-grams:")):
                break
            if not line:
                self.fail("the file ends within the n-grams; expected \\end\\")
            fields = line.split()
            if not order < len(fields) <= most:
                weight = "" if is_last else " and perhaps a back-off weight"
                self.fail(f"expected a number, {order} words{weight}, found {len(fields)} fields")
            if order == 1 and self.is_open:
                self._add_word(fields[1])
            try:
                section.words.extend([ids[word] for word in fields[1 : order + 1]])
            except KeyError as error:
                word = error.args[0].decode(errors="replace")
                where = "the vocabulary" if order == 1 else "the 1-grams"
                self.fail(f"the word {word!r} is not in {where}")
            section.log_probs.append(self._log_prob(fields[0]))
            section.backoffs.append(self._backoff(fields[-1]) if len(fields) == order + 2 else 0.0)
            section.lines.append(self.number)
            if self.progress is not None and len(section.lines) % BLOCK == 0:
                self.progress(f"reading {order}-grams", len(section.lines), size)
        if len(section.lines) != size:
            self.fail(f"{len(section.lines):,} {order}-grams end here, but the header announces {size:,}")
        return section

    def _add_word(self, raw: bytes) -> None:
        """Adds a word of the file to the vocabulary if it is new; a literal <pad> counts as an ordinary word."""
        if raw in self.ids:
            return
        try:
            word = raw.decode()
        except UnicodeDecodeError as error:
            self.fail(describe(self.number, error.start + 1, raw).partition(": ")[2])
        self.ids[raw] = len(self.pieces)
        self.pieces.append(ESCAPE + word if word == PIECES[PAD] else word)

    def _number(self, field: bytes) -> float:
        try:
            number = float(field)
        except ValueError:
            number = np.nan
        if np.isnan(number) or b"_" in field:
            self.fail(f"expected a logarithm, found {field.decode(errors='replace')!r}")
        return number

    def _log_prob(self, field: bytes) -> float:
        number = self._number(field)
        if number > ABOVE_ONE:
            self.fail(f"log p is {number:g}, but the logarithm of a probability is at most 0")
        return max(NEVER, min(0.0, number))

    def _backoff(self, field: bytes) -> float:
        number = self._number(field)
        if number > LARGEST:
            self.fail(f"the logarithm of a back-off weight is {number:g}; values above {LARGEST:g} are not supported")
        return max(NEVER, number)

    def _words(self, section: _Section) -> NgramTables:
        """The table of unigrams, with a row for every piece of the vocabulary, even if it is not in `section`."""
        words = _integers(section.words)
        self._refuse_repeated(words, section)
        if EOS not in words:
            self.fail("the 1-grams have no </s>, so lines would have no end")
        size = len(self.pieces)
        log_probs, backoffs = np.full(size, NEVER), np.zeros(size)
        log_probs[words], backoffs[words] = section.log_probs, section.backoffs
        missing = np.ones(size, dtype=np.bool_)
        missing[[*words.tolist(), PAD, BOS]] = False
        if missing.any() and UNK in words:
            missing[UNK] = True
            log_probs[missing] = max(NEVER, log_probs[UNK] - float(np.log10(missing.sum())))
        log_probs[[PAD, BOS]] = NEVER
        return NgramTables(size, [np.arange(size)], [log_probs], [backoffs])

    def _ngrams(self, tables: NgramTables, section: _Section, *, order: int) -> NgramTables:
        """The `tables` of all lower orders, followed by that of `order`, whose n-grams are in `section`."""
        words = _integers(section.words).reshape(-1, order)
        prefixes = tables.find(words[:, :-1])
        if (prefixes < 0).any():
            place = int(np.argmax(prefixes < 0))
            ngram = " ".join(self.pieces[word] for word in words[place, :-1].tolist())
            self.fail(f"the n-gram begins with {ngram!r}, which has no line of its own", line=section.lines[place])
        keys = prefixes * tables.vocabulary_size + words[:, -1]
        self._refuse_repeated(keys, section)
        ascending = np.argsort(keys, kind="stable")
        return NgramTables(
            tables.vocabulary_size,
            [*tables.keys, keys[ascending]],
            [*tables.log_probs, np.array(section.log_probs)[ascending]],
            [*tables.backoffs, np.array(section.backoffs)[ascending]],
        )

    def _refuse_repeated(self, keys: Integers, section: _Section) -> None:
        ascending = np.argsort(keys, kind="stable")
        repeated = ascending[1:][np.diff(keys[ascending]) == 0]
        if len(repeated):
            self.fail("this n-gram is also on an earlier line", line=section.lines[int(repeated.min())])


def _integers(values: "array[int]") -> Integers:
    return np.array(values, dtype=np.int64)
