"""The rule of forbidden words: which tokens may not come after a text. Letter: V vocabulary."""

import codecs
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from calque.text.scripts import is_unspaced

INSIDE, APART = "\0", "\x01"  # stand for a letter, and for anything else, where it does not matter which
BROKEN = "\ufffd"  # what bytes read as that are no character


class Ending(NamedTuple):
    """The end of a text: its characters, and the bytes of one that is not whole yet."""

    text: str = ""
    pending: bytes = b""


class Ban(NamedTuple):
    """Tokens that may not come next."""

    tokens: tuple[int, ...] = ()
    boundaries: bool = False  # and no token that ends a word, see `Words.boundaries`


NO_BAN = Ban()


class Words:
    """Words that must not stand between boundaries: the text's ends, and whatever is no letter and no digit.

    In a word of a script without spaces (Chinese, Japanese, Thai) there are none: it must not stand anywhere. A word is
    over, and forbidden, when its boundary is there: what goes on is a longer word. `surfaces` [V] is what each token
    adds to the text, in UTF-8; marks add nothing. Bytes that are no UTF-8 read as U+FFFD, which is a boundary.
    """

    def __init__(self, words: Sequence[str], *, surfaces: Sequence[bytes]) -> None:
        self.words = tuple(dict.fromkeys(word for word in words if word))
        self.bounded = {word: not any(map(is_unspaced, word)) for word in self.words}
        self.truncate = {True: {""}, False: {""}}  # of words with and without boundaries
        for word in self.words:
            self.truncate[self.bounded[word]].update(word[: size + 1] for size in range(len(word)))
        self.longest = max(map(len, self.words), default=0)
        self.surfaces = surfaces
        self.read = [added(b"", surface) for surface in surfaces]
        self.boundaries = [not each or _begins_apart(read.text) for each, read in zip(surfaces, self.read, strict=True)]
        self.are_whole = all(self.boundaries)  # every token is a word of its own: it cannot go on to a longer one
        self.going_on = [token for token, surface in enumerate(surfaces) if _goes_on(surface)]
        inner = [token for token, read in enumerate(self.read) if any(map(_is_boundary, read.text[1:]))]
        everything = range(len(surfaces))
        self.candidates = {word: inner if self.bounded[word] else everything for word in self.words}
        self.holding = {
            word: [token for token in self.candidates[word] if word in self.read[token].text] for word in self.words
        }
        self.after = lru_cache(maxsize=1 << 14)(self._after)
        self.after_at_last = lru_cache(maxsize=1 << 12)(self._after_at_last)

    @cached_property
    def closing(self) -> dict[str, list[int]]:
        """For each word the tokens that may be its end, if the text ends there."""
        having: dict[str, list[str]] = {}  # words with each end
        for word in self.words:
            for place in range(len(word)):
                having.setdefault(word[place:], []).append(word)
        found: dict[str, list[int]] = {word: [] for word in self.words}
        for token, read in enumerate(self.read):
            text = closed(read)
            ends = {text[place:] for place in range(1, len(text))} & found.keys()
            for word in {*having.get(text, ()), *ends}:
                found[word].append(token)
        return found

    @cached_property
    def ends(self) -> list[int]:
        """Tokens that end a word, if the text ends behind them."""
        return [token for token, read in enumerate(self.read) if self.boundaries[token] or _begins_apart(closed(read))]

    def ending(self, before: Ending, surface: bytes) -> Ending:
        """As much of the end of a text that goes on as tells what may follow it.

        Law: `after` and `after_at_last` of it are those of the whole text. It begins where the first word could that is
        not over yet; what stands before that is a letter or none, or the text's beginning.
        """
        grown = added(before.pending, surface)
        text = before.text + grown.text
        places = range(max(0, len(text) - self.longest), len(text))
        begin = next((place for place in places if self._may_begin(text, place)), len(text))
        if begin == 0:
            return Ending(text, grown.pending)
        return Ending((APART if _is_apart(text, begin) else INSIDE) + text[begin:], grown.pending)

    def may_copy(self, before: Ending, surface: bytes) -> bool:
        """Whether a copied word may follow: it completes no forbidden one and is none, as copies are whole words."""
        is_forbidden = surface.decode(errors="replace").strip() in self.bounded
        return not is_forbidden and not self._completed(before, surface, self.words)

    def found_in(self, text: str) -> str | None:
        """A word that stands in a whole text; None for none."""
        for word in self.words:
            is_last = self.bounded[word] and _stands_at_the_end(text, word)
            if is_last or self._is_over(text, word, since=0):
                return word
        return None

    def _after(self, before: Ending) -> Ban:
        """The tokens that may not come after a text."""
        begun = [word for word in self.words if _has_begun(before.text, word)]
        is_said = any(self.bounded[word] and _stands_at_the_end(before.text, word) for word in begun)
        if before.pending:
            return self._after_half(before, is_said=is_said)
        tokens = {token for word in begun for token in self._completing(before, word, self.candidates[word])}
        for word in self.words:
            tokens.update(self._completing(before, word, self.holding[word]))
            if self.are_whole and self.bounded[word]:
                tokens.update(self._spelling(before, word, self.closing[word]))
        return _ban(tokens, boundaries=is_said)

    def _after_half(self, before: Ending, *, is_said: bool) -> Ban:
        """The same where a character is not whole: one byte goes on with it, or it is none, and a boundary."""
        going_on = {token for token in self.going_on if self._completed(before, self.surfaces[token], self.words)}
        broken = self.after(self.ending(Ending(before.text + BROKEN), b""))
        others = range(len(self.surfaces)) if is_said else broken.tokens
        return _ban({*others}.difference(self.going_on) | going_on)

    def _after_at_last(self, before: Ending) -> Ban:
        """The same where the text is cut after the token: a word that stands there then is a word too."""
        found = self.after(before)
        tokens = set(found.tokens)
        if found.boundaries:
            tokens.update(self.ends)
        for word in self.words:
            looked_at = range(len(self.surfaces)) if before.pending else self.closing[word]
            tokens.update(self._spelling(before, word, looked_at))
        return _ban(tokens, boundaries=found.boundaries)

    def _completed(self, before: Ending, surface: bytes, words: Sequence[str]) -> bool:
        """Whether one of the words is over with the token that adds this surface, and was not before."""
        text = before.text + added(before.pending, surface).text
        return any(self._is_over(text, word, since=len(before.text)) for word in words)

    def _completing(self, before: Ending, word: str, tokens: Sequence[int]) -> Iterator[int]:
        return (token for token in tokens if self._completed(before, self.surfaces[token], (word,)))

    def _spelling(self, before: Ending, word: str, tokens: Sequence[int]) -> Iterator[int]:
        """Those of the tokens after which the text, if it ended there, would have the word."""
        for token in tokens:
            grown = added(before.pending, self.surfaces[token])
            text = closed(Ending(before.text + grown.text, grown.pending))
            is_said = _stands_at_the_end(text, word) if self.bounded[word] else text.endswith(word)
            if is_said or self._is_over(text, word, since=len(before.text)):
                yield token

    def _may_begin(self, text: str, place: int) -> bool:
        """Whether a word that is not over may stand at a place of the text, and reach its end."""
        rest = text[place:]
        return rest in self.truncate[False] or (rest in self.truncate[True] and _is_apart(text, place))

    def _is_over(self, text: str, word: str, *, since: int) -> bool:
        """Whether the word stands in the text, its boundary, or its end where it has none, behind `since`."""
        place = text.find(word, max(0, since - len(word)))
        while place != -1:
            after = place + len(word)
            if not self.bounded[word]:
                if after > since:
                    return True
            elif since <= after < len(text) and _is_apart(text, place) and _is_boundary(text[after]):
                return True
            place = text.find(word, place + 1)
        return False


def added(pending: bytes, surface: bytes) -> Ending:
    """The characters that bytes make with those that were pending, and what is pending behind them."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(pending + surface)
    return Ending(text, decoder.getstate()[0])


def closed(ending: Ending) -> str:
    """The text if it ends here."""
    return ending.text + (BROKEN if ending.pending else "")


def _ban(tokens: Sequence[int] | set[int], *, boundaries: bool = False) -> Ban:
    return Ban(tuple(sorted(tokens)), boundaries) if tokens or boundaries else NO_BAN


def _has_begun(text: str, word: str) -> bool:
    return any(text.endswith(word[: size + 1]) for size in range(len(word)))


def _stands_at_the_end(text: str, word: str) -> bool:
    return text.endswith(word) and _is_apart(text, len(text) - len(word))


def _is_apart(text: str, place: int) -> bool:
    """Whether what stands before a place of the text is its beginning or no letter."""
    return place == 0 or not (text[place - 1].isalnum() or text[place - 1] == INSIDE)


def _goes_on(surface: bytes) -> bool:
    """Whether it can go on with a character that is not whole."""
    return 0x80 <= surface[0] < 0xC0 if surface else False


def _begins_apart(text: str) -> bool:
    return _is_boundary(text[:1])


def _is_boundary(character: str) -> bool:
    return bool(character) and not character.isalnum()
