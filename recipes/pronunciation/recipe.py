"""Grapheme-to-phoneme conversion on CMUdict: error rates against all pronunciations of a word.

CORPORA/cmudict has train, valid and test as .tsv.gz. Each line has a word, a tab and its phonemes; a word with several
pronunciations has several lines.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from calque.evaluation.error_rates import error_rates
from recipes.runner.files import read_json, read_lines, write_json
from recipes.runner.pair_recipe import Baseline, Column, Pair, Recipe, Row, System, read_part, write_pairs

HERE = Path(__file__).resolve().parent
REFERENCES = "test.references.json"  # all pronunciations of each test word


def pronunciations(lines: Iterable[str]) -> dict[str, list[str]]:
    """The pronunciations of each word, in order."""
    words: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        word, _, phonemes = line.partition("\t")
        words[word].append(phonemes)
    return dict(words)


def split(
    train: Iterable[str], valid: Iterable[str], test: Iterable[str]
) -> tuple[dict[str, list[Pair]], list[list[str]]]:
    """The pairs of all parts, and the references of each test word.

    Training has every pronunciation of a word; validation and test have each word once. Validation words that are
    also in training, with another pronunciation, are left out.
    """
    known, held_out, tested = map(pronunciations, (train, valid, test))
    parts = {
        "train": [(word, phonemes) for word, choices in known.items() for phonemes in choices],
        "valid": [(word, choices[0]) for word, choices in held_out.items() if word not in known],
        "test": [(word, choices[0]) for word, choices in tested.items()],
    }
    return parts, list(tested.values())


def prepare(corpora: Path, data: Path) -> dict[str, int]:
    """Writes pairs and references; returns the numbers of words and of words with several references."""
    parts, references = split(
        *(read_lines(corpora / "cmudict" / f"{part}.tsv.gz") for part in ("train", "valid", "test"))
    )
    write_pairs(data / "all", parts)
    write_json(data / "all" / REFERENCES, references)
    several = sum(len(choices) > 1 for choices in references)
    return {**{part: len(pairs) for part, pairs in parts.items()}, "several_references": several}


def score(group: Path, outputs: Sequence[str]) -> Mapping[str, float]:
    """Phoneme error rate and word error rate, against the closest pronunciation."""
    references = [[choice.split() for choice in choices] for choices in read_json(group / REFERENCES)]
    rates = error_rates([output.split() for output in outputs], references)
    return {"per": rates.symbols, "wer": rates.sequences}


def most_frequent_phonemes(pairs: Iterable[Pair]) -> dict[str, str]:
    """Maps each letter to its most frequent phoneme, counted in words with as many phonemes as letters.

    Such words are aligned letter by letter. A letter that occurs in none of them is left out, as if it were silent.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for word, phonemes in pairs:
        symbols = phonemes.split()
        if len(symbols) == len(word):
            for letter, symbol in zip(word, symbols, strict=True):
                counts[letter][symbol] += 1
    return {letter: found.most_common(1)[0][0] for letter, found in counts.items()}


def letter_by_letter(group: Path) -> list[str]:
    """Pronounces every letter with its most frequent phoneme, whatever its neighbours."""
    phonemes = most_frequent_phonemes(read_part(group, "train"))
    return [" ".join(phonemes.get(letter, "") for letter in word).strip() for word, _ in read_part(group, "test")]


def longest_ending(group: Path) -> list[str]:
    """The pronunciation of the training word that shares the longest ending with the test word.

    Ties go to the word of the closest length, then to the shorter word, then to the first in alphabetical order.
    """
    endings: dict[str, dict[int, str]] = defaultdict(dict)  # pronunciations by ending and length of the word
    for word, phonemes in sorted(
        read_part(group, "train"), key=lambda pair: pair[0]
    ):  # pronunciations keep their order
        for start in range(len(word)):
            endings[word[start:]].setdefault(len(word), phonemes)

    def pronunciation(word: str) -> str:
        by_length = next((endings[word[start:]] for start in range(len(word)) if word[start:] in endings), {0: ""})
        return by_length[min(by_length, key=lambda length: (abs(length - len(word)), length))]

    return [pronunciation(word) for word, _ in read_part(group, "test")]


RECIPE = Recipe(
    name="pronunciation",
    module=__name__,
    prepare=prepare,
    score=score,
    systems=(
        System("lstm", HERE / "lstm.toml", cost=2.0),
        System("transformer", HERE / "transformer.toml", cost=2.0),
    ),
    rows=(
        Row("lstm", "LSTM with attention", "lstm"),
        Row("transformer", "Transformer", "transformer"),
    ),
    baselines=(
        Baseline("letters", "letter by letter", letter_by_letter),
        Baseline("ending", "training word with the longest common ending", longest_ending),
    ),
    columns=(Column("per", "PER"), Column("wer", "WER")),
)
