"""From corpora to a prepared store: corpora are parsed, vocabularies learnt, and every row converted to ids.

The store's folder contains `tokenizer/`, `train/` and `valid/` (columns), `valid.jsonl` (text), `store.json` (the rows
of each corpus, counts of rows left out) and the manifest with the fingerprint. An existing store is reused if its
fingerprint matches; otherwise an error lists the differences.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calque.data.corpora import Corpus, DataConfig, paths, text_columns
from calque.data.fingerprint import corpus_files, differences, digest, fingerprint, refuse_unreadable
from calque.data.holdout import Hashes, Holdout
from calque.data.identical_sides import identity_warnings
from calque.data.misalignment import LineLengths
from calque.data.numericalise import (
    ROLES,
    Encoded,
    Preparation,
    Role,
    encoder,
    raw_blocks,
    scanner,
    splits_rows,
    training_texts,
)
from calque.data.problems import refuse
from calque.data.process_map import Processes, workers_for
from calque.data.rows import Tally
from calque.data.spool import read_spool
from calque.data.store import FORMAT, Span, Store, StoreWriter, open_store
from calque.errors import DataError, FolderError
from calque.folders import MANIFEST, Manifest, verify_folder, write_folder
from calque.folders.upgrades import STORE_LAYOUTS, upgrade_fingerprint
from calque.parsing import parse_json

Progress = Callable[[str, int, int], None]
"""Called with the current stage, the number of lines done, and their total (0 if unknown)."""

KIND = "store"

_REPORTED = 10  # problems
_EMPTY = {"users": "fewer than 2 items left to train on"}  # what rows without content have, by unit


@dataclass(frozen=True, slots=True)
class Prepared:
    """A store of prepared data: training and validation rows, counts of unusable rows, and the fingerprint."""

    folder: Path
    train: Store
    valid: Store
    train_tally: Tally
    valid_tally: Tally
    fingerprint: dict[str, str]
    warnings: tuple[str, ...] = ()
    """Suspicious findings in the corpora that were not reasons to reject them."""

    @property
    def digest(self) -> str:
        """The SHA-256 of the store's fingerprint."""
        return digest(self.fingerprint)

    @property
    def vocabularies(self) -> Path:
        """The folder of the tokenizers and label sets."""
        return self.folder / "tokenizer"

    def summary(self, *, unit: str) -> str:
        """A line that says how many rows there are, and how many training rows were left out for each reason."""
        unusable = "unusable" if unit in ("images", "recordings") else "not UTF-8"
        tally = self.train_tally
        empty = f"with {_EMPTY[unit]}" if unit in _EMPTY else "empty"
        reasons = {empty: tally.empty, "too long": tally.long, unusable: tally.invalid}
        listed = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)
        return f"data: {len(self.train):,} {unit} to train on, {len(self.valid):,} to validate" + (
            f"; left out: {listed}" if listed else ""
        )

    @property
    def valid_text(self) -> list[tuple[str, ...]]:
        """The texts of every validation row, in the order of `valid`, read from disk."""
        with (self.folder / "valid.jsonl").open(encoding="utf-8", newline="\n") as file:
            return [tuple(parse_json(line)) for line in file]


def prepare(
    data: DataConfig,
    *,
    preparation: Preparation,
    folder: Path,
    workers: int | None = None,
    progress: Progress | None = None,
    begun: bool = False,
) -> Prepared:
    """The prepared store of the corpora, written to `folder` unless it exists. Its bytes do not depend on `workers`.

    If an existing store has another fingerprint, a DataError lists the differences. `begun` says whether training has
    already begun; a run cannot continue with another store, so the error then advises beginning a new run.
    """
    refuse_missing_columns({"train": data.train, "valid": data.valid}, reads=preparation.reads)
    files = corpus_files(data)
    refuse_unreadable(files)
    if not (folder / MANIFEST).exists():
        count = workers_for(files.values(), requested=workers)
        with Processes(count) as processes:
            fill = partial(_fill, data=data, preparation=preparation, processes=processes, progress=progress or _quiet)
            write_folder(folder, kind=KIND, format=FORMAT, fill=fill)
        return open_prepared(folder)
    prepared = open_prepared(folder)
    now = fingerprint(data, settings=_settings(data, preparation))
    if changes := differences(prepared.fingerprint, now=now, files=files):
        listed = "\n".join(f"  {change}" for change in changes)
        raise DataError(
            f"{folder}: this store was prepared from other data or settings:\n{listed}\n"
            "  restore the earlier data and settings, "
            + ("or begin a new run" if begun else "or set data.store to another folder, or remove this one")
        )
    return prepared


def refuse_missing_columns(corpora: Mapping[str, Sequence[Corpus]], *, reads: tuple[str, ...]) -> None:
    """Raises a DataError that lists every corpus that lacks a column that the task reads."""
    problems = []
    for role, role_corpora in corpora.items():
        for number, corpus in enumerate(role_corpora, start=1):
            if missing := [name for name in reads if name not in text_columns(corpus)]:
                problems.append(
                    f"data.{role}[{number}]: a corpus of kind = {corpus.kind!r} contains "
                    f"{' and '.join(text_columns(corpus))}, but this task reads {' and '.join(missing)}"
                )
    if problems:
        raise DataError("\n".join(problems))


def open_prepared(folder: Path) -> Prepared:
    """The store in `folder`, after verifying the SHA-256 of every file."""
    manifest = verify_folder(folder, kind=KIND, formats=list(STORE_LAYOUTS))
    try:
        return _open_described(folder, manifest)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        path = folder / "store.json"
        raise FolderError(f"{path}: damaged ({error}); remove the store and prepare the data again") from None


def _open_described(folder: Path, manifest: Manifest) -> Prepared:
    """Opens the store in `folder`. A malformed store.json raises one of several errors, which the caller handles."""
    description = parse_json((folder / "store.json").read_bytes())
    train, valid = (
        open_store(folder / role, spans=[Span(*span) for span in description[role]["spans"]], format=manifest.format)
        for role in ROLES
    )
    return Prepared(
        folder=folder,
        train=train,
        valid=valid,
        train_tally=Tally(**description["train"]["tally"]),
        valid_tally=Tally(**description["valid"]["tally"]),
        fingerprint=upgrade_fingerprint(manifest.details["fingerprint"]),
        warnings=tuple(description.get("warnings", ())),
    )


class _Scan(NamedTuple):
    """The results of the first pass over the corpora: line and row counts, keys of rows to hold out, and warnings."""

    lines: int
    rows: int  # for training
    held_out: Hashes
    warnings: list[str]
    tallies: dict[Role, Tally]


def _fill(
    folder: Path,
    *,
    data: DataConfig,
    preparation: Preparation,
    processes: Processes,
    progress: Progress,
) -> dict[str, Any]:
    """Writes all files of a store but its manifest; returns the fingerprint of data and settings, for the manifest."""
    states = _states(data)
    spool = folder / "spool"
    digests = {key: hashlib.sha256() for key in corpus_files(data)}
    scan = _scan(data, preparation, spool=spool, digests=digests, processes=processes, progress=progress)
    progress("learning the vocabulary", 0, 0)
    preparation.learn(
        lambda column: training_texts(spool, column=preparation.reads.index(column), held_out=scan.held_out),
        rows=scan.rows,
        folder=folder / "tokenizer",
    )
    make = partial(encoder, preparation, folder=folder / "tokenizer", held_out=scan.held_out)
    encoded = processes.map(make, items=read_spool(spool))
    description = _write(
        encoded,
        data=data,
        preparation=preparation,
        folder=folder,
        tallies=scan.tallies,
        report=lambda done: progress("encoding", done, scan.lines),
    )
    spool.unlink()
    if _states(data) != states:
        raise DataError("a corpus file changed while it was being read; prepare the data again")
    for role in ROLES:
        if not description[role]["spans"][-1][1]:
            left_out = _left_out(Tally(**description[role]["tally"]), preparation)
            raise DataError(f"data.{role}: no rows are left; {left_out}")
    description["warnings"] = scan.warnings
    (folder / "store.json").write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
    hashes = {key: value.hexdigest() for key, value in digests.items()}
    return {"fingerprint": fingerprint(data, settings=_settings(data, preparation), hashes=hashes)}


def _scan(
    data: DataConfig,
    preparation: Preparation,
    *,
    spool: Path,
    digests: dict[str, Any],
    processes: Processes,
    progress: Progress,
) -> _Scan:
    """Reads all corpora: writes the cleaned rows to the file `spool`, counts them and selects the rows to hold out.

    Raises a DataError for unusable or misaligned text.
    """
    holdout = Holdout(data.validation, unit=preparation.unit, first=preparation.reads[0])
    problems: list[str] = []
    lengths: dict[tuple[Role, int], LineLengths] = defaultdict(LineLengths)
    identical: Counter[tuple[Role, int]] = Counter()
    usable: Counter[tuple[Role, int]] = Counter()
    tallies: dict[Role, Tally] = dict.fromkeys(ROLES, Tally())
    rows = problem_count = 0
    make = partial(scanner, data, preparation=preparation)
    with spool.open("wb") as file:
        blocks = raw_blocks(data, running=preparation.running, digests=digests)
        for scanned in processes.map(make, items=blocks):
            tallies[scanned.role] += scanned.tally
            problem_count += len(scanned.problems)
            problems += scanned.problems[: _REPORTED - len(problems)]
            rows += scanned.rows * (scanned.role == "train")
            holdout.add(scanned.keys)
            if preparation.lines_up:
                lengths[scanned.role, scanned.corpus].add(scanned.lengths)
                identical[scanned.role, scanned.corpus] += scanned.identical
                usable[scanned.role, scanned.corpus] += scanned.rows
            file.write(scanned.spooled)
            progress("reading", sum(tally.lines for tally in tallies.values()), 0)
    doubts = [
        line_lengths.doubts(getattr(data, role)[number], shifted=data.shifted)
        for (role, number), line_lengths in lengths.items()
    ]
    shifted = [problem for doubt in doubts for problem in doubt.problems]
    refuse([*shifted, *problems], more=problem_count - len(problems))
    warnings = [warning for doubt in doubts for warning in doubt.warnings]
    for (role, number), count in usable.items():
        corpus: Corpus = getattr(data, role)[number]
        warnings += identity_warnings(corpus, identical=identical[role, number], rows=count)
    lines = sum(tally.lines for tally in tallies.values())
    if not rows:
        raise DataError(_why_no_rows(tallies["train"], data=data, preparation=preparation))
    if data.valid or splits_rows(preparation):
        return _Scan(lines, rows, np.zeros(0, dtype=np.uint64), warnings, tallies)
    held_out, count = holdout.chosen()
    return _Scan(lines, rows - count, held_out, warnings, tallies)


def _write(
    blocks: Iterable[Encoded],
    *,
    data: DataConfig,
    preparation: Preparation,
    folder: Path,
    tallies: dict[Role, Tally],
    report: Callable[[int], None],
) -> dict[str, Any]:
    """Writes encoded rows and the validation text; returns the row range of each corpus and counts of unusable rows.

    If `data.invalid` is "fail", raises a DataError that lists the unusable rows; otherwise, they are left out.
    """
    train, valid = (
        StoreWriter(
            folder / role,
            columns=preparation.columns(folder / "tokenizer", training=role == "train"),
            longest=data.longest_row(running=preparation.running),
        )
        for role in ROLES
    )
    rows = [0] * len(data.train)
    done = 0
    left_out = {role: [0, 0, 0] for role in ROLES}
    problems: list[str] = []
    with train, valid, (folder / "valid.jsonl").open("w", encoding="utf-8", newline="\n") as texts:
        for block in blocks:
            train.append(block.train)
            valid.append(block.valid)
            texts.writelines(
                json.dumps(row[: len(preparation.reads)], ensure_ascii=False) + "\n" for row in block.texts
            )
            left_out[block.role][0] += block.empty
            left_out[block.role][1] += block.long
            left_out[block.role][2] += len(block.problems)
            problems += block.problems[: _REPORTED - len(problems)]
            if block.role == "train":
                rows[block.corpus] += block.train_rows
            done += block.lines
            report(done)
    if data.invalid == "fail":
        refuse(problems, more=sum(invalid for _, _, invalid in left_out.values()) - len(problems))
    ends = list(accumulate(rows))
    spans = [(end - count, end, corpus.weight) for end, count, corpus in zip(ends, rows, data.train, strict=True)]
    for role, (empty, long, invalid) in left_out.items():
        tallies[role] += Tally(empty=empty, long=long, invalid=invalid)
    return {
        "train": {"spans": spans, "tally": asdict(tallies["train"])},
        "valid": {"spans": [(0, valid.rows, 1.0)], "tally": asdict(tallies["valid"])},
    }


def _settings(data: DataConfig, preparation: Preparation) -> Mapping[str, str]:
    """The task's settings that affect the store, and an entry if the last rows of a continuous text are held out."""
    holds_out_end = preparation.running and not data.valid
    return {**preparation.settings, "data.validation.rows": "last"} if holds_out_end else preparation.settings


def _why_no_rows(tally: Tally, *, data: DataConfig, preparation: Preparation) -> str:
    if not tally.lines:
        files = [str(path) for corpus in data.train for path in paths(corpus).values()]
        return f"data.train: {' and '.join(files)}: the corpus has no lines"
    if preparation.unit not in _EMPTY and not tally.long and not tally.invalid:
        return f"data.train: none of the {tally.lines:,} lines has text in {' and '.join(preparation.reads)}"
    limit = data.line_limit(running=preparation.running)
    longest = f"; a line may have at most {limit:,} bytes" if tally.long else ""
    return f"data.train: no rows are left; {_left_out(tally, preparation)}{longest}"


def _left_out(tally: Tally, preparation: Preparation) -> str:
    unit, unusable = preparation.unit, _unusable(preparation)
    empty = f"have {_EMPTY[unit]}" if unit in _EMPTY else "are empty"
    counts = f"{tally.empty:,} {empty}, {tally.long:,} too long, {tally.invalid:,} {unusable}"
    return f"of {tally.lines:,} lines, {counts}"


def _unusable(preparation: Preparation) -> str:
    match preparation.unit:
        case "images":
            return "without a usable image"
        case "recordings":
            return "unusable"
        case _:
            return "not UTF-8"


def _states(data: DataConfig) -> list[tuple[int, int]]:
    return [(path.stat().st_size, path.stat().st_mtime_ns) for path in corpus_files(data).values()]


def _quiet(stage: str, done: int, total: int) -> None:
    """A progress callback that does nothing."""
