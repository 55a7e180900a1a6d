"""What the promises of estimation are tested on: a small experiment of every model that is counted, not trained."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from calque.config import override, to_values
from calque.models.systems import system_model
from tests.histories import recommendation_values
from tests.integration.test_statistical_translation import write_corpus
from tests.tagged import write_conllu

Values = dict[str, Any]


class Estimated(NamedTuple):
    """A model that is estimated."""

    values: Callable[[Path], Values]
    """The experiment, its corpora written into that folder."""
    files: tuple[str, ...]
    """Of these corpora, one line or block of lines per row: the same rows in another order are the same corpus."""
    separator: str = "\n"
    """Between rows."""
    sums: bool = False
    """Whether the tables are sums of fractions, which depend on their order in the last digits."""

    def experiment(self, folder: Path, *changes: str) -> Values:
        folder.mkdir(exist_ok=True, parents=True)
        return override(self.values(folder), list(changes))


def _ngrams(folder: Path) -> Values:
    generator = random.Random(1)
    for name, count in (("train", 120), ("valid", 15)):
        lines = [" ".join(generator.choices("abcdefg", k=generator.randint(3, 12))) for _ in range(count)]
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return {
        "task": {"kind": "language-modelling"},
        "data": {role: [{"kind": "text", "path": str(folder / role)}] for role in ("train", "valid")},
        "text": {"kind": "tokens"},
        "model": {"network": {"kind": "ngram", "order": 3}},
        "training": {"threads": 1},
    }


def _hidden_markov(folder: Path) -> Values:
    corpora = {
        role: [{"kind": "conllu", "path": str(write_conllu(folder / role, sentences=count, seed=seed))}]
        for seed, (role, count) in enumerate((("train", 80), ("valid", 15)))
    }
    return {"model": {"kind": "hidden-markov"}, "data": corpora, "training": {"threads": 1}}


def _popularity(folder: Path) -> Values:
    values = recommendation_values(folder, users=60)
    return {
        "task": values["task"],
        "data": values["data"],
        "model": {"network": {"kind": "popularity"}},
        "training": {"threads": 1},
    }


def _phrases(system: str) -> Callable[[Path], Values]:
    def values(folder: Path) -> Values:
        sides = [write_corpus(folder, "train", pairs=80, seed=1), write_corpus(folder, "valid", pairs=10, seed=2)]
        corpora = [{"kind": "files", "source": str(source), "target": str(target)} for source, target in sides]
        model = to_values(system_model(system))
        if system == "koehn2003":
            model["tuning"] = {"iterations": 2, "nbest": 10, "restarts": 0, "sentences": 8}
        return {
            "model": model,
            "data": {"train": corpora[:1], "valid": corpora[1:]},
            "training": {"threads": 1},
        }

    return values


ESTIMATED: Mapping[str, Estimated] = {
    "n-grams": Estimated(_ngrams, ("train",)),
    "hidden Markov tagger": Estimated(_hidden_markov, ("train",), separator="\n\n"),
    "popularity": Estimated(_popularity, ("users.txt",)),
    "dictionary": Estimated(_phrases("dictionary"), ("train.en", "train.es"), sums=True),
    "noisy channel of words": Estimated(_phrases("brown1993"), ("train.en", "train.es"), sums=True),
    "phrases": Estimated(_phrases("koehn2003"), ("train.en", "train.es"), sums=True),
}
