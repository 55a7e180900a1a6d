"""Results of runs: collected from their folders, or from compact files saved by --keep.
Such a file is named after its corpus, `results/multi30k.jsonl`, and has one line per run: the part of its result.json
that the report needs.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from recipes.lineage.corpus import CorpusKind
from recipes.lineage.entries import ENTRIES
from recipes.runner.files import read_json, read_jsonl
from recipes.runner.variants import RESULT

SETTINGS = "settings.json"  # beside the runs: the settings they share, including the corpus
CORPORA: tuple[str, ...] = get_args(CorpusKind)

Result = Mapping[str, Any]  # the result.json of a run
Results = Mapping[str, Mapping[int, Result]]  # by entry and seed

KEPT = (
    *("name", "seed", "bleu_lowercased", "bleu", "chrf", "signatures", "lengths", "longer", "parameters"),
    *("steps", "learning_rate", "validations", "search", "data", "calque", "torch", "device"),
)
KEPT_OF_SEARCH = ("beam", "length_penalty")


def collect(paths: Sequence[Path]) -> dict[CorpusKind, Results]:
    """The results in folders of runs and in saved files, by corpus; entries in table order, then unknown names."""
    collected: dict[CorpusKind, dict[str, dict[int, Result]]] = {}
    seen: dict[tuple[str, str, int], str] = {}
    for path in paths:
        corpus = corpus_of(path)
        for place, result in _read(path):
            key = corpus, result["name"], result["seed"]
            if key in seen:
                raise ValueError(f"{place} and {seen[key]} hold the same entry and seed; leave out one of them")
            seen[key] = place
            known = collected.setdefault(corpus, {entry.name: {} for entry in ENTRIES})
            known.setdefault(result["name"], {})[result["seed"]] = result
    return {
        corpus: {name: dict(sorted(seeds.items())) for name, seeds in entries.items() if seeds}
        for corpus, entries in sorted(collected.items(), key=lambda item: CORPORA.index(item[0]))
    }


def corpus_of(path: Path) -> CorpusKind:
    """The corpus of a path: a folder of runs states it in its settings, a saved file in its name."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder")
    if path.is_dir() and not (path / SETTINGS).is_file():
        raise ValueError(f"{path}: not a folder of runs, as {SETTINGS} is missing")
    kind = read_json(path / SETTINGS)["corpus_kind"] if path.is_dir() else path.stem
    if kind not in CORPORA:
        raise ValueError(f"{path}: {kind} is not a corpus of this recipe; they are {', '.join(CORPORA)}")
    return cast(CorpusKind, kind)


def keep(folder: Path, results: Mapping[CorpusKind, Results]) -> list[Path]:
    """Saves one file per corpus, which `collect` reads back; raises a ValueError if saved runs would be lost."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for corpus, entries in results.items():
        paths.append(folder / f"{corpus}.jsonl")
        kept = [(row["name"], row["seed"]) for _, row in _read(paths[-1])] if paths[-1].is_file() else []
        if lost := [f"{name}-{seed}" for name, seed in kept if seed not in entries.get(name, {})]:
            raise ValueError(
                f"{paths[-1]} has {len(lost)} runs that the new results lack ({', '.join(lost[:3])}, …): save the new "
                "results in another folder, or remove that file"
            )
        rows = [_compact(result) for seeds in entries.values() for result in seeds.values()]
        lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
        paths[-1].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


def _read(path: Path) -> Iterator[tuple[str, Result]]:
    """Every result of a folder or a file, with its location."""
    if path.is_dir():
        for result in sorted(path.glob(f"*/{RESULT}")):
            yield str(result), read_json(result)
    else:
        for number, row in enumerate(read_jsonl(path), start=1):
            yield f"{path}:{number}", row


def _compact(result: Result) -> dict[str, Any]:
    """The part of a result that the report needs, rounded to more digits than the report shows."""
    kept = {key: result[key] for key in KEPT if key in result}
    kept["search"] = {key: result["search"][key] for key in KEPT_OF_SEARCH if key in result["search"]}
    rounded: dict[str, Any] = _rounded(kept)
    return rounded


def _rounded(value: Any) -> Any:
    match value:
        case dict():
            return {key: _rounded(part) for key, part in value.items()}
        case float():
            return round(value, 6)
        case _:
            return value
