"""The words and n-grams of sentences, as BLEU counts them."""

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence

from sacrebleu.metrics.bleu import BLEU

from calque.evaluation.metrics import Splitting, choose_splitting

Words = Sequence[str]
Ngram = tuple[str, ...]
LONGEST = 4  # n-grams that BLEU counts


class WordSplitter:
    """Splits text into words with the tokenization that BLEU uses for the references."""

    def __init__(self, references: Sequence[str], *, splitting: Splitting = "auto") -> None:
        self.name = choose_splitting(references) if splitting == "auto" else splitting
        self._tokenize = BLEU(tokenize=self.name, force=True).tokenizer

    def __call__(self, text: str) -> list[str]:
        """The words of a text, in NFC."""
        tokenised: str = self._tokenize(unicodedata.normalize("NFC", text).rstrip())
        return tokenised.split()

    def spaced(self, text: str) -> list[str]:
        """The words of a text, each with the white space before it, so that they concatenate to the text.

        Words that the tokenization has changed (it decodes &amp; and the like) are preceded by one space.
        """
        rest, spaced = unicodedata.normalize("NFC", text), []
        for word in self(text):
            place = rest.find(word)
            is_intact = place >= 0 and not rest[:place].strip()
            spaced.append(rest[: place + len(word)] if is_intact else f" {word}")
            rest = rest[place + len(word) :] if place >= 0 else rest
        return spaced


def ngrams(words: Words, *, longest: int = LONGEST) -> Iterator[Ngram]:
    """All n-grams of 1 to `longest` words, the shortest first."""
    for size in range(1, longest + 1):
        for start in range(len(words) - size + 1):
            yield tuple(words[start : start + size])


def ngram_counts(words: Words, *, longest: int = LONGEST) -> Counter[Ngram]:
    """The number of occurrences of each n-gram."""
    return Counter(ngrams(words, longest=longest))
