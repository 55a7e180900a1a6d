"""BLEU and length by beam width, for several scores of finished hypotheses.

    python -m recipes.search.beams MODEL CORPUS OUT [--beams 1 2 4 8 16 32] [--limit N]

writes OUT/results.jsonl: a grid on `val` with beam 8 that selects the parameters of the settings `end` and `together`,
then one row per setting and beam on test_2016_flickr. Existing beams are kept.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from calque.engine import Translator
from calque.search.settings import SearchConfig
from recipes.runner.files import append_jsonl, read_jsonl
from recipes.search.common import TEST, VALID, Pairs, parse_arguments, provenance, read_pairs, score
from recipes.search.shared_search import translate_shared

RESULTS = "results.jsonl"
BEAMS = (1, 2, 4, 8, 16, 32)
GRID_BEAM = 8
LIMITS = {
    "maximum_ratio": 2.0,
    "maximum_extra": 10,
}  # in pieces: no reference is longer, and hypotheses without an end stop earlier
Parameters = dict[str, Any]

PLAIN = {"normalisation": "plain"}
GIVEN: dict[str, Parameters] = {  # fixed before anything was measured
    "none": {},
    "length": {"length_penalty": 1.0},
    "plain": {"length_penalty": 1.0, **PLAIN},
    "coverage": {"coverage": 0.2},
    "reward": {"reward": 0.3},
}
SETTINGS = ("none", "length", "plain", "coverage", "end", "reward", "together")


def grid() -> Iterator[tuple[str, Parameters]]:
    """All settings with the parameters tried on `val`."""
    yield "none", {}
    yield from (("length", {"length_penalty": value}) for value in (0.5, 1.0, 1.5, 2.0))
    yield from (("plain", {"length_penalty": value, **PLAIN}) for value in (0.5, 1.0))
    yield from (("coverage", {"coverage": value}) for value in (0.1, 0.2, 0.4))
    yield from (("end", {"end_normalisation": value}) for value in (0.25, 0.5, 1.0, 2.0))
    yield from (("reward", {"reward": value}) for value in (0.1, 0.2, 0.3, 0.5))
    names = ("length_penalty", "coverage", "end_normalisation")
    for values in product((1.0, 1.5), (0.1, 0.2), (0.25, 0.5, 1.0)):
        yield "together", dict(zip(names, values, strict=True))


def search_of(parameters: Parameters, *, beam: int) -> SearchConfig:
    """Search settings in which only these parameters of the score are set."""
    return SearchConfig(**{"length_penalty": 0.0, "beam": beam, **LIMITS, **parameters})


def select(rows: Sequence[Mapping[str, Any]]) -> dict[str, Parameters]:
    """The settings for the test set: the fixed ones, and the best of each grid by lowercased BLEU."""
    selected = dict(GIVEN)
    for name in SETTINGS:
        if name not in GIVEN:
            own = [row for row in rows if row["setting"] == name]
            selected[name] = max(own, key=lambda row: row["bleu_lowercased"])["parameters"]
    return {name: selected[name] for name in SETTINGS}


def measure(
    translator: Translator, pairs: Pairs, settings: Sequence[tuple[str, Parameters]], *, beam: int, part: str
) -> list[dict[str, Any]]:
    """Translates with all settings in a single search; returns one row per setting."""
    started = time.process_time()
    searches = {str(number): search_of(parameters, beam=beam) for number, (_, parameters) in enumerate(settings)}
    translations = translate_shared(translator, pairs.sources, searches=searches)
    seconds = time.process_time() - started
    return [
        {
            "part": part,
            "setting": name,
            "parameters": parameters,
            "beam": beam,
            "sentences": len(pairs.sources),
            **score(translations[str(number)], pairs.references),
            "shared_seconds": seconds,
            "made_with": provenance(),
        }
        for number, (name, parameters) in enumerate(settings)
    ]


def _rows_of(out: Path, *, part: str, beam: int, sentences: int) -> list[dict[str, Any]]:
    wanted = {"part": part, "beam": beam, "sentences": sentences}
    return [row for row in read_jsonl(out / RESULTS) if wanted.items() <= row.items()]


def _main() -> None:
    options = parse_arguments(__doc__, beams=BEAMS)
    valid, test = (read_pairs(options.corpus, name, limit=options.limit) for name in (VALID, TEST))

    def rows(pairs: Pairs, settings: Sequence[tuple[str, Parameters]], *, part: str, beam: int) -> list[dict[str, Any]]:
        measured = _rows_of(options.out, part=part, beam=beam, sentences=len(pairs.sources))
        if not measured:
            measured = measure(options.translator, pairs, settings, beam=beam, part=part)
            append_jsonl(options.out / RESULTS, measured)
        for row in measured:
            name = f"{row['setting']} {row['parameters']}" if part == VALID else row["setting"]
            print(f"{part} beam {beam:2}  {row['bleu_lowercased']:.2f}  {row['ratio']:.3f}  {name}", flush=True)
        return measured

    settings = select(rows(valid, list(grid()), part=VALID, beam=GRID_BEAM))
    for beam in options.beams:
        rows(test, list(settings.items()), part=TEST, beam=beam)


if __name__ == "__main__":
    _main()
