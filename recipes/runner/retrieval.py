"""The nearest text by tf-idf: the answer of a baseline without a network."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np


class TfIdf:
    """An index of texts; similarity is the cosine of their tf-idf vectors, (1 + log tf) · log(N / df).

    >>> TfIdf(["a red car", "a blue house"]).nearest("the blue car house")
    1
    """

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(text.lower().split()) for text in texts]
        frequency = Counter(word for words in counts for word in words)
        self.idf = {word: math.log((1 + len(texts)) / found) for word, found in frequency.items()}
        postings: dict[str, tuple[list[int], list[float]]] = {word: ([], []) for word in frequency}
        for place, words in enumerate(counts):
            weights = {word: (1 + math.log(count)) * self.idf[word] for word, count in words.items()}
            norm = math.sqrt(sum(weight * weight for weight in weights.values())) or 1.0
            for word, weight in weights.items():
                postings[word][0].append(place)
                postings[word][1].append(weight / norm)
        self.postings = {word: (np.array(places), np.array(weights)) for word, (places, weights) in postings.items()}
        self.size = len(texts)

    def similarities(self, text: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """The similarity of every indexed text to `text`, not divided by the norm of `text`.

        Similarities are rounded to 9 digits, so that equal ones are equal on every machine.
        """
        scores = np.zeros(self.size)
        for word, count in Counter(text.lower().split()).items():
            if word in self.postings:
                places, weights = self.postings[word]
                scores[places] += (1 + math.log(count)) * self.idf[word] * weights
        return scores.round(9)

    def nearest(self, text: str) -> int:
        """The index of the most similar text; ties go to the first."""
        return int(self.similarities(text).argmax())
