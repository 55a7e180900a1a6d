"""An automaton for forbidden words, which computes the tokens that may not follow a text. Letter: V vocabulary."""

import codecs
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from calque.text.scripts import is_unspaced

INSIDE, APART = "\0", "\x01"  # placeholders for any letter, and for any non-letter, before a suffix
BROKEN = "\ufffd"  # what invalid UTF-8 decodes to


class Suffix(NamedTuple):
    """The last characters of a text, and the bytes of an incomplete UTF-8 character after them."""

    text: str = ""
    pending: bytes = b""


class Ban(NamedTuple):
    """The set of tokens that may not come next."""

    tokens: tuple[int, ...] = ()
    boundaries: bool = False  # also all special tokens, and all tokens that begin with a word boundary


NO_BAN = Ban()


class ForbiddenAutomaton:
    """Finds the tokens that would complete a forbidden word.

    A forbidden word must not occur between word boundaries: the ends of the text, and characters other than letters and
    digits. A word in a script without spaces (Chinese, Japanese, Thai) needs no boundaries: it must not occur anywhere.
    Any other word is complete, and forbidden, only once a boundary follows; until then it may become a longer word.
    `surfaces` [V] holds the UTF-8 bytes that each token adds to the text; special tokens add nothing.
    Invalid UTF-8 decodes to U+FFFD, which is a boundary.
    """

    def __init__(self, words: Sequence[str], *, surfaces: Sequence[bytes]) -> None:
        self.words = tuple(dict.fromkeys(word for word in words if word))
        self.bounded = {word: not any(map(is_unspaced, word)) for word in self.words}
        self.prefixes = {True: {""}, False: {""}}  # prefixes of words with and without boundaries
        for word in self.words:
            self.prefixes[self.bounded[word]].update(word[: length + 1] for length in range(len(word)))
        self.longest = max(map(len, self.words), default=0)
        self.surfaces = surfaces
        self.decoded = [decode_bytes(b"", surface) for surface in surfaces]
        self.boundaries = [
            not surface or _starts_with_boundary(decoded.text)
            for surface, decoded in zip(surfaces, self.decoded, strict=True)
        ]
        self.all_start_words = all(self.boundaries)  # no token can extend a word
        self.continuations = [token for token, surface in enumerate(surfaces) if _is_continuation(surface)]
        with_inner_boundary = [
            token for token, decoded in enumerate(self.decoded) if any(map(_is_boundary, decoded.text[1:]))
        ]
        all_tokens = range(len(surfaces))
        self.candidates = {word: with_inner_boundary if self.bounded[word] else all_tokens for word in self.words}
        self.containing = {
            word: [token for token in self.candidates[word] if word in self.decoded[token].text] for word in self.words
        }
        self.after = lru_cache(maxsize=1 << 14)(self._after)
        self.after_last = lru_cache(maxsize=1 << 12)(self._after_last)

    @cached_property
    def closing(self) -> dict[str, list[int]]:
        """For each forbidden word, the tokens that can complete it when the text ends right after them."""
        by_suffix: dict[str, list[str]] = {}  # the words with each suffix
        for word in self.words:
            for place in range(len(word)):
                by_suffix.setdefault(word[place:], []).append(word)
        closing: dict[str, list[int]] = {word: [] for word in self.words}
        for token, decoded in enumerate(self.decoded):
            text = close(decoded)
            ends = {text[place:] for place in range(1, len(text))} & closing.keys()
            for word in {*by_suffix.get(text, ()), *ends}:
                closing[word].append(token)
        return closing

    @cached_property
    def ends(self) -> list[int]:
        """The tokens that, at the end of a text, end the word before them: they start with a word boundary."""
        return [
            token
            for token, decoded in enumerate(self.decoded)
            if self.boundaries[token] or _starts_with_boundary(close(decoded))
        ]

    def suffix(self, before: Suffix, surface: bytes) -> Suffix:
        """The shortest suffix of the text with `surface` appended that determines which tokens may follow.

        Law: `after` and `after_last` return the same for the suffix and for the whole text. The suffix starts at
        the first place where an unfinished forbidden word could start. Unless it is the whole text, a placeholder says
        whether a letter or a boundary precedes it.
        """
        added = decode_bytes(before.pending, surface)
        text = before.text + added.text
        starts = range(max(0, len(text) - self.longest), len(text))
        start = next((index for index in starts if self._can_start(text, index)), len(text))
        if start == 0:
            return Suffix(text, added.pending)
        return Suffix((APART if _is_word_start(text, start) else INSIDE) + text[start:], added.pending)

    def may_copy(self, before: Suffix, surface: bytes) -> bool:
        """Whether a copied word may follow: it must neither complete a forbidden word nor be one itself."""
        is_forbidden = surface.decode(errors="replace").strip() in self.bounded
        return not is_forbidden and not self._completes(before, surface, self.words)

    def found_in(self, text: str) -> str | None:
        """A forbidden word that occurs in a complete text, or None."""
        for word in self.words:
            is_last = self.bounded[word] and _ends_with_word(text, word)
            if is_last or self._is_complete(text, word, since=0):
                return word
        return None

    def _after(self, before: Suffix) -> Ban:
        """The tokens that may not follow a text that ends in `before`: they would complete a forbidden word."""
        started = [word for word in self.words if _is_partial(before.text, word)]
        is_complete = any(self.bounded[word] and _ends_with_word(before.text, word) for word in started)
        if before.pending:
            return self._after_partial_character(before, is_complete=is_complete)
        tokens = {token for word in started for token in self._completing(before, word, self.candidates[word])}
        for word in self.words:
            tokens.update(self._completing(before, word, self.containing[word]))
            if self.all_start_words and self.bounded[word]:
                tokens.update(self._spelling(before, word, self.closing[word]))
        return _ban(tokens, boundaries=is_complete)

    def _after_partial_character(self, before: Suffix, *, is_complete: bool) -> Ban:
        """`_after` for a text that ends inside a character: a word boundary if the next token does not continue it."""
        continuations = {
            token for token in self.continuations if self._completes(before, self.surfaces[token], self.words)
        }
        broken = self.after(self.suffix(Suffix(before.text + BROKEN), b""))
        others = range(len(self.surfaces)) if is_complete else broken.tokens
        return _ban({*others}.difference(self.continuations) | continuations)

    def _after_last(self, before: Suffix) -> Ban:
        """The tokens that may not come last in a text, after `before`: its end completes a word as a boundary does."""
        ban = self.after(before)
        tokens = set(ban.tokens)
        if ban.boundaries:
            tokens.update(self.ends)
        for word in self.words:
            candidates = range(len(self.surfaces)) if before.pending else self.closing[word]
            tokens.update(self._spelling(before, word, candidates))
        return _ban(tokens, boundaries=ban.boundaries)

    def _completes(self, before: Suffix, surface: bytes, words: Sequence[str]) -> bool:
        """Whether one of `words` becomes complete when the bytes `surface` are appended to the text `before`."""
        text = before.text + decode_bytes(before.pending, surface).text
        return any(self._is_complete(text, word, since=len(before.text)) for word in words)

    def _completing(self, before: Suffix, word: str, tokens: Sequence[int]) -> Iterator[int]:
        return (token for token in tokens if self._completes(before, self.surfaces[token], (word,)))

    def _spelling(self, before: Suffix, word: str, tokens: Sequence[int]) -> Iterator[int]:
        """Yields those of `tokens` that would add `word` to the text if the text ended right after the token."""
        for token in tokens:
            added = decode_bytes(before.pending, self.surfaces[token])
            text = close(Suffix(before.text + added.text, added.pending))
            is_present = _ends_with_word(text, word) if self.bounded[word] else text.endswith(word)
            if is_present or self._is_complete(text, word, since=len(before.text)):
                yield token

    def _can_start(self, text: str, place: int) -> bool:
        """Whether text[place:] begins a forbidden word, and starts at a word boundary if that word needs one."""
        rest = text[place:]
        return rest in self.prefixes[False] or (rest in self.prefixes[True] and _is_word_start(text, place))

    def _is_complete(self, text: str, word: str, *, since: int) -> bool:
        """Whether the text contains an occurrence of the word that became complete at index `since` or later.

        It becomes complete with the boundary after it or, in a script without spaces, with its last character.
        """
        place = text.find(word, max(0, since - len(word)))
        while place != -1:
            after = place + len(word)
            if not self.bounded[word]:
                if after > since:
                    return True
            elif since <= after < len(text) and _is_word_start(text, place) and _is_boundary(text[after]):
                return True
            place = text.find(word, place + 1)
        return False


def decode_bytes(pending: bytes, surface: bytes) -> Suffix:
    """The characters in the pending bytes followed by `surface`, and the bytes of an incomplete last character."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(pending + surface)
    return Suffix(text, decoder.getstate()[0])


def close(suffix: Suffix) -> str:
    """The end of a text as a string, if the text is complete: an unfinished last character becomes U+FFFD."""
    return suffix.text + (BROKEN if suffix.pending else "")


def _ban(tokens: Sequence[int] | set[int], *, boundaries: bool = False) -> Ban:
    return Ban(tuple(sorted(tokens)), boundaries) if tokens or boundaries else NO_BAN


def _is_partial(text: str, word: str) -> bool:
    """Whether the text ends with the word or a non-empty prefix of it."""
    return any(text.endswith(word[: length + 1]) for length in range(len(word)))


def _ends_with_word(text: str, word: str) -> bool:
    return text.endswith(word) and _is_word_start(text, len(text) - len(word))


def _is_word_start(text: str, place: int) -> bool:
    """Whether a word can start at text[place]: at the start of the text, or after anything but a letter or digit."""
    return place == 0 or not (text[place - 1].isalnum() or text[place - 1] == INSIDE)


def _is_continuation(surface: bytes) -> bool:
    """Whether `surface`, the bytes of a token, starts with a UTF-8 continuation byte."""
    return 0x80 <= surface[0] < 0xC0 if surface else False


def _starts_with_boundary(text: str) -> bool:
    return _is_boundary(text[:1])


def _is_boundary(character: str) -> bool:
    return bool(character) and not character.isalnum()
