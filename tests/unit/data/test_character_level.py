"""Pairs of single words are recognised as character-level, and nothing that looks like text is."""

import gzip
import random
from pathlib import Path

import pytest
from tests.conftest import toy_corpus
from tests.spelled import Pairs, inflections, pronunciations, write_pairs

from calque.data.character_level import READ, recognise, sample_pairs, side_kind
from calque.data.corpora import DataConfig
from calque_phrasebook import phrasebook

WORDS = ("the", "a", "man", "dog", "house", "river", "green", "small", "runs", "sees", "under", "with", "and", "two")


def sentences(count: int, *, longest: int, seed: int = 5) -> list[str]:
    """Lines of real words and of rare ones."""
    generator = random.Random(seed)
    rare = [source for source, _ in pronunciations(400, seed=seed)]
    return [" ".join(generator.choices([*WORDS, *rare], k=generator.randint(2, longest))) for _ in range(count)]


def reverse(pairs: Pairs) -> Pairs:
    return [(target, source) for source, target in pairs]


def spaced_features() -> Pairs:
    return [(source.replace(";", " "), target) for source, target in inflections(300)]


def names_in_katakana() -> Pairs:
    generator = random.Random(3)
    syllables = {"ka": "カ", "ri": "リ", "mo": "モ", "to": "ト", "sa": "サ", "ne": "ネ", "hu": "フ", "ya": "ヤ"}
    rows = [generator.choices(list(syllables), k=generator.randint(2, 5)) for _ in range(300)]
    return [("".join(row), "".join(map(syllables.__getitem__, row))) for row in rows]


CHARACTERS, MIXED = ("characters", "characters"), ("characters", "tokens")
SPELLED: dict[str, tuple[Pairs, tuple[str, str]]] = {
    "inflection": (inflections(200), CHARACTERS),
    "analysis": (reverse(inflections(200)), CHARACTERS),
    "features between spaces": (spaced_features(), CHARACTERS),
    "lemmas alone": ([(target, source.split()[0]) for source, target in inflections(200)], CHARACTERS),
    "pronunciation": (pronunciations(300), MIXED),
    "spelling": (reverse(pronunciations(300)), MIXED[::-1]),
    "transliteration": (names_in_katakana(), CHARACTERS),
    "numbers": ([(str(number), f"{number:b}") for number in range(300)], CHARACTERS),
    "words and labels": ([(word, "long" if len(word) > 7 else "short") for word, _ in pronunciations(300)], CHARACTERS),
}


@pytest.mark.parametrize("name", SPELLED)
def test_character_level_pairs_are_recognised(name: str) -> None:
    pairs, units = SPELLED[name]
    level = recognise(pairs)
    assert level is not None
    assert (level.source, level.target) == units


def test_the_evidence_names_both_sides() -> None:
    level = recognise(pronunciations(300))
    assert level is not None
    assert level.evidence.startswith("sources are single words (median ")
    assert level.evidence.endswith("targets sequences of 24 symbols")


def phrases(source: str, target: str) -> Pairs:
    return [(pair.source, pair.target) for pair in phrasebook(source=source, target=target, pairs=500).train]  # type: ignore[arg-type]


TEXTS: dict[str, Pairs] = {
    "sentences": list(zip(sentences(400, longest=12), sentences(400, longest=12, seed=6), strict=True)),
    "short sentences": list(zip(sentences(400, longest=3), sentences(400, longest=3, seed=6), strict=True)),
    "sentences and words": list(zip(sentences(300, longest=8), [pair[0] for pair in pronunciations(300)], strict=True)),
    "words and sentences": list(zip([pair[0] for pair in pronunciations(300)], sentences(300, longest=8), strict=True)),
    "Chinese and English": phrases("zh", "en"),
    "English and Chinese": phrases("en", "zh"),
    "German and Chinese": phrases("de", "zh"),
    "sequences of symbols": [(target, target) for _, target in pronunciations(300)],
    "sentences and labels": [(line, "yes" if "dog" in line else "no") for line in sentences(300, longest=8)],
    "long words": [("ab" * 60 + word, word) for word, _ in pronunciations(300)],
    "too few pairs": inflections(90),
    "one pair many times": inflections(1) * 500,
    "nothing": [],
}


@pytest.mark.parametrize("name", TEXTS)
def test_other_pairs_are_not(name: str) -> None:
    assert recognise(TEXTS[name]) is None


def test_one_line_in_ten_may_differ() -> None:
    pairs = inflections(300)
    few, many = (
        pairs[count:] + list(zip(sentences(count, longest=5), sentences(count, longest=5), strict=True))
        for count in (20, 60)
    )
    assert recognise(few) is not None
    assert recognise(many) is None
    assert side_kind([target for _, target in few]) == "word"
    assert side_kind([target for _, target in many]) == "text"


def test_toy_corpora_of_letters_are_not_character_level(tmp_path: Path) -> None:
    corpus = toy_corpus(tmp_path, pairs=600)
    data = DataConfig.model_validate({"train": [{"kind": "files", **corpus}]})
    assert len(sample_pairs(data)) == 600
    assert recognise(sample_pairs(data)) is None


def test_the_sample_is_spread_over_all_corpora(tmp_path: Path) -> None:
    """Also where the shortest lines come first, as in some collections of sentences."""
    first = write_pairs(tmp_path / "first", [("ja", "yes")] * 15_000)
    path = tmp_path / "pairs.tsv.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(f"{line}\t{line}\n" for line in sentences(15_000, longest=9))
    data = DataConfig.model_validate({"train": [{"kind": "files", **first}, {"kind": "tsv", "path": path}]})
    pairs = sample_pairs(data)
    assert 10_000 <= len(pairs) < 20_000 < 30_000 < READ
    assert sum(source == "ja" for source, _ in pairs) == pytest.approx(len(pairs) / 2, rel=0.01)


def test_text_without_pairs_has_no_sample(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a\nb\n", encoding="utf-8")
    data = DataConfig.model_validate({"train": [{"kind": "text", "path": tmp_path / "text"}]})
    assert sample_pairs(data) == []
