"""Lists of variants: what to train, which variants compete, and which one wins on the validation set.

A list is a TOML file. `variants` are settings on top of a config; `rows` are the rows of the final table, each with
candidate variants: all candidates are trained with the first seed, the best on validation with all seeds, and only that
one is ever tested. `corpora` are distilled corpora, which trained variants write.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from calque.config import Config, check, read_toml
from recipes.runner.files import read_json

RESULT = "result.json"  # of a run: its scores on the validation set


class Variant(Config):
    """A variant: a config with some settings changed."""

    why: str
    """Why this variant may be better."""
    config: Path
    """The config that the variant changes; a relative path starts at the list's folder."""
    system: str | None = None
    """A named system that replaces the config's model."""
    scale: float = 1.0
    """Scale of the named system."""
    settings: tuple[str, ...] = ()
    """KEY=VALUE, as for `calque train`."""
    corpus: str | None = None
    """A distilled corpus, which is added to the original pairs; the teacher's tokenizer is used."""
    warm_start: str | None = None
    """The variant whose run of the same seed provides the initial weights."""
    seeds: Literal["first", "all"] = "first"
    """`all` trains all seeds before the selection, which saves time if this variant is likely to be selected."""
    cost: float = 1.0
    """The duration of training, relative to plain cross-entropy."""


class DistilledCorpus(Config):
    """The training sources with translations by all seeds of a variant, as an ensemble."""

    teacher: str
    """The variant whose runs of all seeds form the ensemble."""
    beam: int = 5
    nbest: int = 5
    """Number of translations to select from."""
    select: Literal["bleu", "score"] = "bleu"
    """By sentence BLEU against the reference (Kim and Rush 2016, §3.3), or by the model's score (§3.2)."""
    parts: int = Field(default=4, ge=1)
    """Number of processes that share the work."""


class Row(Config):
    """A row of a table, with the variants that compete for it."""

    candidates: tuple[str, ...] = Field(min_length=1)
    """The variants that compete."""
    label: str
    """The row's name in the table."""
    baselines: tuple[str, ...] = ()
    """The rows that this row is compared with."""
    ensemble: bool = False
    """Whether the runs of all seeds translate as an ensemble."""
    beams: tuple[int, ...] = (5,)
    length_penalties: tuple[float, ...] = ()
    """Length penalties to try on validation with each of the beams; if there are none, the config's own is used."""


class ListConfig(Config):
    """The contents of a list file: variants, rows and distilled corpora."""

    settings: tuple[str, ...] = ()
    """KEY=VALUE for all variants of this list; a variant's own settings take precedence."""
    include: tuple[Path, ...] = ()
    """Lists whose variants and corpora can be named here; their rows are ignored."""
    variants: dict[str, Variant] = Field(default={})
    corpora: dict[str, DistilledCorpus] = Field(default={})
    rows: dict[str, Row] = Field(default={})


class Lists(NamedTuple):
    """The contents of several list files together."""

    variants: dict[str, Variant]
    corpora: dict[str, DistilledCorpus]
    rows: dict[str, Row]


class SearchSetting(NamedTuple):
    """Beam size and length penalty with which a trained run translates."""

    beam: int
    length_penalty: float | None  # None: the run's own

    def __str__(self) -> str:
        """Beam and length penalty as text: `5,1.4`, or `5,-` for the config's own penalty."""
        return f"{self.beam},{'-' if self.length_penalty is None else self.length_penalty}"

    @classmethod
    def parse(cls, text: str) -> "SearchSetting":
        """Parses what `str` returns, such as `5,1.4`."""
        beam, penalty = text.split(",")
        return cls(int(beam), None if penalty == "-" else float(penalty))


def read_lists(paths: Iterable[Path], *, rows: Sequence[str] | None = None) -> Lists:
    """Reads lists, and the lists that they include; raises a ValueError for names that are unknown or defined twice."""
    lists = Lists({}, {}, {})
    for path in paths:
        _read(path, lists, with_rows=True)
    if rows is not None:
        _refuse_unknown(rows, lists.rows, what="rows")
        lists = lists._replace(rows={name: lists.rows[name] for name in rows})
    for name, row in lists.rows.items():
        _refuse_unknown(row.candidates, lists.variants, what=f"candidates of rows.{name}")
    for name, variant in lists.variants.items():
        _refuse_unknown([variant.corpus] if variant.corpus else [], lists.corpora, what=f"corpus of variants.{name}")
        start = [variant.warm_start] if variant.warm_start else []
        _refuse_unknown(start, lists.variants, what=f"warm_start of variants.{name}")
    for name, corpus in lists.corpora.items():
        _refuse_unknown([corpus.teacher], lists.variants, what=f"teacher of corpora.{name}")
    return lists


def winner(row: Row, *, out: Path, seed: int) -> str | None:
    """The candidate with the highest lowercased validation BLEU for this seed; ties go to the earlier one.

    None until all candidates are scored.
    """
    if len(row.candidates) == 1:
        return row.candidates[0]
    if not all((out / f"{name}-{seed}" / RESULT).is_file() for name in row.candidates):
        return None
    return max(row.candidates, key=lambda name: read_result(out, name, seed)["scores"]["bleu_lowercased"])


def search_settings(row: Row) -> list[SearchSetting]:
    """All search settings that a row tries."""
    return [SearchSetting(beam, penalty) for beam in row.beams for penalty in row.length_penalties or (None,)]


def best_setting(tried: Sequence[Sequence[Mapping[str, Any]]]) -> SearchSetting:
    """The setting with the highest mean BLEU over seeds; ties go to the earlier one.

    `tried` has the scores of every seed, settings in the same order.
    """
    means = [sum(score["bleu_lowercased"] for score in scores) / len(scores) for scores in zip(*tried, strict=True)]
    return SearchSetting(*tried[0][max(range(len(means)), key=means.__getitem__)]["setting"])


def read_result(out: Path, name: str, seed: int) -> dict[str, Any]:
    """The validation scores of a run."""
    return dict(read_json(out / f"{name}-{seed}" / RESULT))


def _read(path: Path, lists: Lists, *, with_rows: bool) -> None:
    parsed = check(ListConfig, read_toml(path), origin=str(path))
    for included in parsed.include:
        _read(path.parent / included, lists, with_rows=False)
    variants = {
        name: variant.model_copy(
            update={
                "config": (path.parent / variant.config).resolve(),
                "settings": (*parsed.settings, *variant.settings),
            }
        )
        for name, variant in parsed.variants.items()
    }
    _add(lists.variants, variants, path)
    _add(lists.corpora, parsed.corpora, path)
    if with_rows:
        _add(lists.rows, parsed.rows, path)


def _add(known: dict[str, Any], more: Mapping[str, Any], path: Path) -> None:
    conflicts = [name for name in more if name in known and known[name] != more[name]]
    if conflicts:
        raise ValueError(f"{path}: {', '.join(conflicts)}: defined differently in another list")
    known.update(more)


def _refuse_unknown(names: Iterable[str], known: Mapping[str, Any], *, what: str) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"{what}: {', '.join(unknown)}: not in the lists; they define {', '.join(known)}")
