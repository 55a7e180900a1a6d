"""Lists of variants: what is trained in how many ways, which of them compete, and who has won on the validation set.

A list is a TOML file. `variants` are settings laid over a config; `rows` are lines of a table in the end, each with the
variants that compete for it: all are trained with the first seed, the best on validation with all seeds, and only that
one is ever tested. `made` are corpora that trained variants write (distillation).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from calque.config import Config, check, read_toml

RESULT = "result.json"  # of a run: what judge.py wrote of the validation set


class Variant(Config):
    """One way to train."""

    why: str
    """What speaks for it."""
    config: Path
    """The config it lies over; beside the list where the path is relative."""
    system: str | None = None
    """A named system in place of the config's model."""
    scale: float = 1.0
    """How large."""
    settings: tuple[str, ...] = ()
    """KEY=VALUE, as for `calque train`."""
    corpus: str | None = None
    """A made corpus, which is added to the original pairs; its teacher's pieces are kept."""
    warm: str | None = None
    """The variant whose run of the same seed it begins with."""
    seeds: Literal["first", "all"] = "first"
    """all: does not wait for the choice; for what is likely to be chosen."""
    cost: float = 1.0
    """How long it takes, in trainings by plain cross-entropy."""


class Made(Config):
    """A corpus of the training sources and what the seeds of a variant, together, say of them."""

    teachers: str
    """The variant whose runs of all seeds translate as one."""
    beam: int = 5
    nbest: int = 5
    """Of so many translations one is kept."""
    pick: Literal["bleu", "score"] = "bleu"
    """The one most like the reference by sentence BLEU (Kim and Rush 2016, §3.3), or the model's own best (§3.2)."""
    parts: int = Field(default=4, ge=1)
    """Processes that share the work."""


class Row(Config):
    """A line of a table."""

    of: tuple[str, ...] = Field(min_length=1)
    """Its candidates."""
    told: str
    """How the table calls it."""
    against: tuple[str, ...] = ()
    """Rows that it is compared with."""
    together: bool = False
    """Whether its seeds translate as one, an ensemble."""
    beams: tuple[int, ...] = (5,)
    length_penalties: tuple[float, ...] = ()
    """What is tried in translating; without any, the config's own."""


class ListConfig(Config):
    """A list as it stands in its file."""

    settings: tuple[str, ...] = ()
    """KEY=VALUE for all variants of this list; each may say otherwise."""
    include: tuple[Path, ...] = ()
    """Lists whose variants and made corpora may be named here; their rows are not taken."""
    variants: dict[str, Variant] = Field(default={})
    made: dict[str, Made] = Field(default={})
    rows: dict[str, Row] = Field(default={})


class Lists(NamedTuple):
    """Everything several lists say."""

    variants: dict[str, Variant]
    made: dict[str, Made]
    rows: dict[str, Row]


class Setting(NamedTuple):
    """How a trained run translates."""

    beam: int
    length_penalty: float | None


def read_lists(paths: Iterable[Path], *, rows: Sequence[str] | None = None) -> Lists:
    """Lists with what they include; a ValueError for names that are not there or mean two things."""
    found = Lists({}, {}, {})
    for path in paths:
        _read(path, found, with_rows=True)
    if rows is not None:
        _refuse_unknown(rows, found.rows, what="rows")
        found = found._replace(rows={name: found.rows[name] for name in rows})
    for name, row in found.rows.items():
        _refuse_unknown(row.of, found.variants, what=f"variants of rows.{name}")
    for name, variant in found.variants.items():
        _refuse_unknown([variant.corpus] if variant.corpus else [], found.made, what=f"corpus of variants.{name}")
        _refuse_unknown([variant.warm] if variant.warm else [], found.variants, what=f"warm of variants.{name}")
    for name, made in found.made.items():
        _refuse_unknown([made.teachers], found.variants, what=f"teachers of made.{name}")
    return found


def chosen(row: Row, *, out: Path, seed: int) -> str | None:
    """The candidate with the highest lowercased BLEU on validation with that seed; the earlier one among equals.

    None as long as not all are judged.
    """
    if len(row.of) == 1:
        return row.of[0]
    if not all((out / f"{name}-{seed}" / RESULT).is_file() for name in row.of):
        return None
    return max(row.of, key=lambda name: result_of(out, name, seed)["scores"]["bleu_lowercased"])


def settings_of(row: Row) -> list[Setting]:
    """Every way to translate that a row tries."""
    return [Setting(beam, penalty) for beam in row.beams for penalty in row.length_penalties or (None,)]


def best_setting(tried: Sequence[Sequence[Mapping[str, Any]]]) -> Setting:
    """Of what each seed tried, in the same order, the one with the highest mean BLEU; the earlier one among equals."""
    means = [sum(one["bleu_lowercased"] for one in each) / len(each) for each in zip(*tried, strict=True)]
    return Setting(*tried[0][max(range(len(means)), key=means.__getitem__)]["setting"])


def result_of(out: Path, name: str, seed: int) -> dict[str, Any]:
    """What judge.py wrote of a run."""
    return dict(json.loads((out / f"{name}-{seed}" / RESULT).read_bytes()))


def _read(path: Path, found: Lists, *, with_rows: bool) -> None:
    parsed = check(ListConfig, read_toml(path), origin=str(path))
    for each in parsed.include:
        _read(path.parent / each, found, with_rows=False)
    placed = {
        name: variant.model_copy(
            update={
                "config": (path.parent / variant.config).resolve(),
                "settings": (*parsed.settings, *variant.settings),
            }
        )
        for name, variant in parsed.variants.items()
    }
    _add(found.variants, placed, path)
    _add(found.made, parsed.made, path)
    if with_rows:
        _add(found.rows, parsed.rows, path)


def _add(known: dict[str, Any], more: Mapping[str, Any], path: Path) -> None:
    twice = [name for name in more if name in known and known[name] != more[name]]
    if twice:
        raise ValueError(f"{path}: {', '.join(twice)}: another list means something else by the name")
    known.update(more)


def _refuse_unknown(names: Iterable[str], known: Mapping[str, Any], *, what: str) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"{what}: {', '.join(unknown)}: not in the lists; there are {', '.join(known)}")
