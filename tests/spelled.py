"""Corpora of single words, generated: inflected forms with their features, and words with their phonemes."""

import random
from pathlib import Path

Pairs = list[tuple[str, str]]

_ONSETS = ("b", "br", "d", "f", "fl", "g", "gr", "h", "k", "kl", "l", "m", "n", "r", "s", "schl", "st", "t", "w", "z")
_VOWELS = ("a", "e", "i", "o", "u", "ei", "au", "ie")
_CODAS = ("b", "ch", "g", "l", "lf", "m", "n", "nd", "r", "rt", "st", "t")
_ENDINGS = {
    "V;PRS;1;SG": "e",
    "V;PRS;3;SG": "t",
    "V;PRS;3;PL": "en",
    "V;PST;1;SG": "te",
    "V;PST;2;SG": "test",
    "V;PST;3;PL": "ten",
    "V;PTCP;PST": "ge-t",
}
_PHONEMES = {"sch": "SH", "ch": "CH", "ei": "AY", "au": "AW", "ie": "IY", "z": "TS", "w": "V", "st": "S T"}


def inflections(count: int, *, seed: int = 0) -> Pairs:
    """Pairs such as ("gralben V;PST;3;PL", "gralbten")."""
    generator, rows = random.Random(seed), []
    for _ in range(count):
        stem, features = _stem(generator), generator.choice(list(_ENDINGS))
        before, dash, after = _ENDINGS[features].partition("-")
        rows.append((f"{stem}en {features}", f"{before}{stem}{after}" if dash else stem + _ENDINGS[features]))
    return rows


def pronunciations(count: int, *, seed: int = 0) -> Pairs:
    """Pairs such as ("SCHLEIT", "SH L AY T")."""
    generator = random.Random(seed)
    words = [_stem(generator) + generator.choice(("", "en", "er")) for _ in range(count)]
    return [(word.upper(), _phonemes(word)) for word in words]


def write_pairs(folder: Path, rows: Pairs) -> dict[str, Path]:
    """`folder`/source and target."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"source": folder / "source", "target": folder / "target"}
    for index, path in enumerate(files.values()):
        path.write_text("".join(f"{row[index]}\n" for row in rows), encoding="utf-8")
    return files


def _stem(generator: random.Random) -> str:
    syllables = [generator.choice(_ONSETS) + generator.choice(_VOWELS) for _ in range(generator.randint(1, 2))]
    return "".join(syllables) + generator.choice(_CODAS)


def _phonemes(word: str) -> str:
    symbols, rest = [], word
    while rest:
        size = next(size for size in (3, 2, 1) if rest[:size] in _PHONEMES or size == 1)
        symbols.append(_PHONEMES.get(rest[:size], rest[:size].upper()))
        rest = rest[size:]
    return " ".join(symbols)
