"""Corpora to a prepared store: looked over first, then tokenizers learnt, then every pair cut into pieces.

The store's folder holds `tokenizer/`, `train/` and `valid/` (ids), `valid.jsonl` (text), `store.json` (which rows came
from which corpus, what was left out) and the manifest, which says what all was made from. The store is opened again
when nothing changed, and refused with what changed otherwise.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calque.data.corpora import DataConfig
from calque.data.fingerprint import FORMAT, corpus_files, differences, digest, fingerprint
from calque.data.holdout import Hashes, Holdout
from calque.data.misalignment import LineLengths
from calque.data.numericalise import ROLES, Encoded, Role, encoder, scanner, tasks, training_texts
from calque.data.pairs import Tally, refuse
from calque.data.process_map import ordered_map, workers_for
from calque.data.store import Span, Store, StoreWriter, open_store
from calque.errors import DataError
from calque.folders import MANIFEST, verify_folder, write_folder
from calque.text import TextConfig, Tokenizers, load_tokenizers, save_tokenizers, train_tokenizers

Progress = Callable[[str, int, int], None]
"""What is being done, how much of it is done, and of how much (0: not known)."""

KIND = "store"

_KEPT = 10  # problems


@dataclass(frozen=True, slots=True)
class Prepared:
    """A store with all that was learnt to make it."""

    folder: Path
    tokenizers: Tokenizers
    train: Store
    valid: Store
    train_tally: Tally
    valid_tally: Tally
    fingerprint: dict[str, str]
    warnings: tuple[str, ...] = ()
    """What was doubtful about the corpora, and was to be taken as it is."""

    @property
    def digest(self) -> str:
        """The fingerprint as one SHA-256."""
        return digest(self.fingerprint)

    @property
    def valid_text(self) -> list[tuple[str, str]]:
        """Source and target of every validation pair, in the order of `valid`; read from disk."""
        with (self.folder / "valid.jsonl").open(encoding="utf-8", newline="\n") as file:
            return [(source, target) for source, target in map(json.loads, file)]


def prepare(
    data: DataConfig,
    *,
    text: TextConfig,
    folder: Path,
    workers: int | None = None,
    progress: Progress | None = None,
    begun: bool = False,
) -> Prepared:
    """The store of the corpora, in `folder`: opened if it is there, made if not. Its bytes do not depend on `workers`.

    A store made from something else is refused with what changed, and with what can be done: where a run has `begun`
    with it, not much.
    """
    now = fingerprint(data, text=text)
    if not (folder / MANIFEST).exists():
        count = workers_for(corpus_files(data).values(), asked=workers)
        fill = partial(_fill, data=data, text=text, workers=count, progress=progress or _quiet)
        write_folder(folder, kind=KIND, format=FORMAT, fill=fill, details={"fingerprint": now})
    prepared = open_prepared(folder)
    if changes := differences(prepared.fingerprint, now=now, files=corpus_files(data)):
        listed = "\n".join(f"  {change}" for change in changes)
        raise DataError(
            f"{folder}: this store was made from something else:\n{listed}\n"
            "  restore that, "
            + ("or begin another run" if begun else "or give data.store another folder, or remove this one")
        )
    return prepared


def open_prepared(folder: Path) -> Prepared:
    """The store in `folder`, after a look at every file's SHA-256."""
    manifest = verify_folder(folder, kind=KIND, formats=[FORMAT])
    made = json.loads((folder / "store.json").read_bytes())
    train, valid = (open_store(folder / role, spans=[Span(*span) for span in made[role]["spans"]]) for role in ROLES)
    return Prepared(
        folder=folder,
        tokenizers=load_tokenizers(folder / "tokenizer"),
        train=train,
        valid=valid,
        train_tally=Tally(**made["train"]["tally"]),
        valid_tally=Tally(**made["valid"]["tally"]),
        fingerprint=manifest.details["fingerprint"],
        warnings=tuple(made.get("warnings", ())),
    )


class _Scan(NamedTuple):
    """What a first look at all corpora found."""

    lines: int
    pairs: int  # to learn from
    held_out: Hashes
    warnings: list[str]


def _fill(folder: Path, *, data: DataConfig, text: TextConfig, workers: int, progress: Progress) -> None:
    """Writes all parts of a store."""
    states = _states(data)
    scan = _scan(data, workers=workers, progress=progress)
    progress("learning the vocabulary", 0, 0)
    source, target = (partial(training_texts, data, side=side, held_out=scan.held_out) for side in (0, 1))
    tokenizers = train_tokenizers(text, source=source, target=target, pairs=scan.pairs)
    save_tokenizers(tokenizers, folder / "tokenizer")
    make = partial(encoder, data, tokenizers=folder / "tokenizer", held_out=scan.held_out)
    encoded = ordered_map(make, items=tasks(data), workers=workers)
    made = _write(
        encoded,
        data=data,
        tokenizers=tokenizers,
        folder=folder,
        report=lambda done: progress("encoding", done, scan.lines),
    )
    if _states(data) != states:
        raise DataError("a corpus file was changed while it was being read; prepare again")
    for role in ROLES:
        if not made[role]["spans"][-1][1]:
            raise DataError(f"data.{role}: no pair is left; {_left_out(Tally(**made[role]['tally']))}")
    made["warnings"] = scan.warnings
    (folder / "store.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


def _scan(data: DataConfig, *, workers: int, progress: Progress) -> _Scan:
    """Counts, and which sources to hold out; bad text and files that do not line up end here."""
    holdout = Holdout(data.validation)
    problems: list[str] = []
    lengths: dict[tuple[Role, int], LineLengths] = defaultdict(LineLengths)
    lines = pairs = found = 0
    for scanned in ordered_map(partial(scanner, data), items=tasks(data), workers=workers):
        lines += scanned.tally.lines
        found += len(scanned.problems)
        problems += scanned.problems[: _KEPT - len(problems)]
        pairs += scanned.pairs * (scanned.role == "train")
        holdout.add(scanned.sources)
        lengths[scanned.role, scanned.corpus].add(scanned.lengths)
        progress("reading", lines, 0)
    doubts = [each.doubts(getattr(data, role)[place], shifted=data.shifted) for (role, place), each in lengths.items()]
    shifted = [problem for each in doubts for problem in each.problems]
    refuse([*shifted, *problems], more=found - len(problems))
    warnings = [warning for each in doubts for warning in each.warnings]
    if not pairs:
        raise DataError(f"data.train: {lines:,} lines, and not one pair with text on both sides")
    if data.valid:
        return _Scan(lines, pairs, held_out=np.zeros(0, dtype=np.uint64), warnings=warnings)
    held_out, count = holdout.chosen()
    return _Scan(lines, pairs - count, held_out, warnings)


def _write(
    blocks: Iterable[Encoded],
    *,
    data: DataConfig,
    tokenizers: Tokenizers,
    folder: Path,
    report: Callable[[int], None],
) -> dict[str, Any]:
    """Writes ids and validation text; where each corpus ends, and the tallies."""
    beyond = 0 if tokenizers.source.is_closed or not tokenizers.joint else data.maximum_length  # numbered words
    sizes = len(tokenizers.source.vocabulary) + beyond, len(tokenizers.target.vocabulary) + beyond
    longest = data.maximum_length
    train = StoreWriter(folder / "train", sizes=sizes, longest=longest, linked=data.aligned)
    valid = StoreWriter(folder / "valid", sizes=sizes, longest=longest)
    rows = [0] * len(data.train)
    tallies = dict.fromkeys(ROLES, Tally())
    with train, valid, (folder / "valid.jsonl").open("w", encoding="utf-8", newline="\n") as texts:
        for block in blocks:
            train.append(block.train[0], target=block.train[1], links=block.links)
            valid.append(block.valid[0], target=block.valid[1])
            texts.writelines(json.dumps(pair, ensure_ascii=False) + "\n" for pair in block.text)
            tallies[block.role] += block.tally
            if block.role == "train":
                rows[block.corpus] += len(block.train[0].lengths)
            report(sum(tally.lines for tally in tallies.values()))
    ends = list(accumulate(rows))
    spans = [(end - count, end, corpus.weight) for end, count, corpus in zip(ends, rows, data.train, strict=True)]
    return {
        "train": {"spans": spans, "tally": asdict(tallies["train"])},
        "valid": {"spans": [(0, valid.rows, 1.0)], "tally": asdict(tallies["valid"])},
    }


def _left_out(tally: Tally) -> str:
    return f"of {tally.lines:,} lines {tally.empty:,} empty, {tally.long:,} too long, {tally.invalid:,} not UTF-8"


def _states(data: DataConfig) -> list[tuple[int, int]]:
    return [(path.stat().st_size, path.stat().st_mtime_ns) for path in corpus_files(data).values()]


def _quiet(what: str, done: int, total: int) -> None:
    """No progress is shown."""
