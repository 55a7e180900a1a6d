"""Results of runs: collected from their folders, or from the compact files that are kept of them.

A kept file is named after its corpus, `results/multi30k.jsonl`, and has a line a run: what the report needs of its
result.json, and no more.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from corpus import CorpusKind
from entries import ENTRIES
from score import RESULT

SETTINGS = "settings.json"  # beside the runs: what they share, their corpus among it
CORPORA: tuple[str, ...] = get_args(CorpusKind)

Result = Mapping[str, Any]  # what score.py wrote of a run
Results = Mapping[str, Mapping[int, Result]]  # by entry and seed

KEPT = (
    *("name", "seed", "bleu_lowercased", "bleu", "chrf", "signatures", "lengths", "longer", "parameters"),
    *("steps", "learning_rate", "validations", "search", "data", "calque", "torch", "device"),
)
KEPT_OF_SEARCH = ("beam", "length_penalty")


def collect(paths: Sequence[Path]) -> dict[CorpusKind, Results]:
    """What is in folders of runs and in kept files, by corpus; entries as listed, then names that are not known."""
    found: dict[CorpusKind, dict[str, dict[int, Result]]] = {}
    seen: dict[tuple[str, str, int], str] = {}
    for path in paths:
        corpus = corpus_of(path)
        for place, result in _read(path):
            key = corpus, result["name"], result["seed"]
            if key in seen:
                raise ValueError(f"{place} and {seen[key]} are of the same entry and seed: leave one out")
            seen[key] = place
            known = found.setdefault(corpus, {entry.name: {} for entry in ENTRIES})
            known.setdefault(result["name"], {})[result["seed"]] = result
    return {
        corpus: {name: dict(sorted(seeds.items())) for name, seeds in entries.items() if seeds}
        for corpus, entries in sorted(found.items(), key=lambda item: CORPORA.index(item[0]))
    }


def corpus_of(path: Path) -> CorpusKind:
    """A folder's settings tell it, and a kept file's name."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder")
    if path.is_dir() and not (path / SETTINGS).is_file():
        raise ValueError(f"{path}: no folder of runs, as {SETTINGS} is missing")
    kind = json.loads((path / SETTINGS).read_bytes())["corpus_kind"] if path.is_dir() else path.stem
    if kind not in CORPORA:
        raise ValueError(f"{path}: {kind} is no corpus of the line; they are {', '.join(CORPORA)}")
    return cast(CorpusKind, kind)


def keep(folder: Path, results: Mapping[CorpusKind, Results]) -> list[Path]:
    """Writes one file a corpus, which `collect` reads back; a ValueError where runs that were kept would be lost."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for corpus, entries in results.items():
        paths.append(folder / f"{corpus}.jsonl")
        kept = [(one["name"], one["seed"]) for _, one in _read(paths[-1])] if paths[-1].is_file() else []
        if lost := [f"{name}-{seed}" for name, seed in kept if seed not in entries.get(name, {})]:
            raise ValueError(
                f"{paths[-1]} has {len(lost)} runs that are not here ({', '.join(lost[:3])}, …): keep these in another "
                "folder, or remove that file"
            )
        rows = [_compact(one) for seeds in entries.values() for one in seeds.values()]
        lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
        paths[-1].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


def _read(path: Path) -> Iterator[tuple[str, Result]]:
    """Every result of a folder or a file, with where it stands."""
    if path.is_dir():
        for one in sorted(path.glob(f"*/{RESULT}")):
            yield str(one), json.loads(one.read_bytes())
    else:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            yield f"{path}:{number}", json.loads(line)


def _compact(result: Result) -> dict[str, Any]:
    """What the report needs; the digits left out lie beyond those it shows, so that it stays the same."""
    kept = {key: result[key] for key in KEPT if key in result}
    kept["search"] = {key: result["search"][key] for key in KEPT_OF_SEARCH if key in result["search"]}
    rounded: dict[str, Any] = _rounded(kept)
    return rounded


def _rounded(value: Any) -> Any:
    match value:
        case dict():
            return {key: _rounded(one) for key, one in value.items()}
        case float():
            return round(value, 6)
        case _:
            return value
