"""The systems on the command line of `calque compare`: runs, model folders, or files with their output."""

import math
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from calque.commands.inputs import input_lines
from calque.errors import ConfigError, DataError, UserError

if TYPE_CHECKING:
    from calque.data.corpora import Corpus, DataConfig
    from calque.devices import DeviceName, PrecisionName
    from calque.engine import Loaded, PhraseTranslator, Translator
    from calque.engine.folder import AnyLoaded
    from calque.search.settings import SearchConfig

POINTS = 200  # of a training curve
SETTINGS = re.compile(r"(?P<system>.+?):(?P<settings>[a-z_.]+=[^:]*(?::[a-z_.]+=[^:]*)*)")


class Options(NamedTuple):
    """The options that the comparisons of all tasks share."""

    beam: int | None
    device: "DeviceName"
    precision: "PrecisionName"
    randomisation: int


class Argument(NamedTuple):
    """A system as it is given on the command line."""

    name: str
    path: Path
    group: str | None = None
    settings: tuple[str, ...] = ()  # of search, each KEY=VALUE

    @property
    def is_file(self) -> bool:
        """Whether the system is given as a file with its output, not as a run or model folder."""
        return not self.path.is_dir()

    @property
    def facts(self) -> dict[str, Any]:
        """The path of the system, its search settings, and its kind: a file of outputs (hypotheses), run or model."""
        kind = "hypotheses" if self.is_file else "run" if (self.path / "model").is_dir() else "model"
        return {"path": str(self.path), "kind": kind, "settings": list(self.settings)}

    @property
    def label(self) -> str:
        """The default name of the system: the last part of its path, and its search settings."""
        return ":".join([self.path.name, *self.settings]) if self.path.name else ""


def read_arguments(systems: Sequence[str], groups: Sequence[str]) -> list[Argument]:
    """Returns the systems in order, those of groups last; raises a ConfigError for names that are not unique.

    A system is written as PATH or NAME=PATH, and a group as NAME=PATH,PATH. Search settings may follow a path, as in
    PATH:beam=1. Without NAME, a system is named after the last part of its path and its settings, or after the whole
    path if that would not be unique.
    """
    arguments = [_argument(text) for text in systems]
    for text in groups:
        name, is_named, members = text.partition("=")
        if not is_named or not name or not members:
            raise ConfigError(f"--group {text!r}: expected NAME=PATH,PATH, e.g. --group base=runs/a1,runs/a2")
        if any(argument.group == name for argument in arguments):
            raise ConfigError(
                f"--group {name} is given twice; list all its runs in one option, e.g. --group base=runs/a1,runs/a2"
            )
        arguments += [_argument(member, named=False)._replace(group=name) for member in _members(members)]
    missing = [str(argument.path) for argument in arguments if not argument.path.exists()]
    if missing:
        raise DataError("\n".join(f"{path}: no such run, model folder or file" for path in missing))
    for argument in arguments:
        if argument.is_file and argument.settings:
            raise ConfigError(
                f"{argument.path} is a file with a system's output, to which search settings do not apply; leave out "
                f"{', '.join(argument.settings)}"
            )
    return _named(arguments)


def _argument(text: str, *, named: bool = True) -> Argument:
    """Parses [NAME=]PATH[:KEY=VALUE…], a system and its search settings; unless `named`, NAME= is part of the path."""
    if Path(text).exists():
        return Argument("", Path(text))
    if (match := SETTINGS.fullmatch(text)) is not None:
        searched = _argument(match["system"], named=named)
        if searched.path.exists():
            return searched._replace(settings=tuple(match["settings"].split(":")))
    name, is_named, path = text.partition("=")
    return Argument(name, Path(path)) if named and is_named and name and path else Argument("", Path(text))


def _members(text: str) -> list[str]:
    return [text] if Path(text).exists() else [member for member in text.split(",") if member]


def _named(arguments: Sequence[Argument]) -> list[Argument]:
    short = Counter(argument.label for argument in arguments if not argument.name)
    names = [
        argument.name
        or (argument.label if short[argument.label] == 1 else ":".join([str(argument.path), *argument.settings]))
        for argument in arguments
    ]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ConfigError(
            f"several systems are called {', '.join(map(repr, repeated))}; name them, e.g. base=runs/1 wide=runs/2"
        )
    groups = {argument.group for argument in arguments}
    if taken := [
        name for name, argument in zip(names, arguments, strict=True) if name in groups and not argument.group
    ]:
        raise ConfigError(
            f"{', '.join(map(repr, taken))}: both a group and a system have this name; rename one of them"
        )
    return [argument._replace(name=name) for name, argument in zip(names, arguments, strict=True)]


def read_lines(path: Path) -> list[str]:
    """The lines of a file; invalid UTF-8 is rejected."""
    return [line.text for line in input_lines(path, invalid="fail")]


def load(
    argument: Argument, kind: "type[AnyLoaded]", *, device: "DeviceName", precision: "PrecisionName"
) -> "AnyLoaded":
    """Loads a model of this kind; for any other kind, raises a ConfigError that names the options that compare it."""
    from calque.commands.loading import EVALUATION_OPTIONS
    from calque.engine import load as load_model
    from calque.engine import model_kind

    loaded = load_model(argument.path, device=device, precision=precision)
    if isinstance(loaded, kind):
        return loaded
    raise ConfigError(
        f"{argument.path} is {model_kind(loaded)}: {EVALUATION_OPTIONS[kind]} cannot be used for it; to compare such "
        f"models, use {EVALUATION_OPTIONS[type(loaded)]}"
    )


class Translated(NamedTuple):
    """The translations of a test set, and facts about the system, such as its size and speed."""

    texts: list[str]
    facts: dict[str, Any]


def translate(
    argument: Argument, sources: Sequence[str], *, beam: int | None, device: "DeviceName", precision: "PrecisionName"
) -> Translated:
    """The translations in a system's output file or, if the system is a model, its translations of the test set."""
    if argument.is_file:
        return Translated(read_lines(argument.path), argument.facts)
    from calque.commands.loading import search_of
    from calque.engine import Translator, is_statistical

    if is_statistical(argument.path):
        return _translate_statistically(argument, sources, beam=beam, device=device, precision=precision)
    translator = load(argument, Translator, device=device, precision=precision)
    settings = list(argument.settings)
    has_beam = any(setting.removeprefix("search.").startswith("beam=") for setting in settings)
    search = search_of(translator.search, settings, beam=None if has_beam else beam, nbest=1, batch_tokens=None)
    return _translated(argument, translator, sources, search=search)


def _translate_statistically(
    argument: Argument, sources: Sequence[str], *, beam: int | None, device: "DeviceName", precision: "PrecisionName"
) -> Translated:
    from calque.commands.statistical_models import load_statistical

    has_stack = any(setting.removeprefix("search.").startswith("stack=") for setting in argument.settings)
    stack = None if has_stack else beam
    translator = load_statistical(argument.path, argument.settings, beam=stack, device=device, precision=precision)
    return _translated(argument, translator, sources, search=translator.search)


def _translated(
    argument: Argument, translator: "Translator | PhraseTranslator", sources: Sequence[str], *, search: "SearchConfig"
) -> Translated:
    """Translates `sources`; returns the translations and facts about the model. Warns if long sources were cut."""
    from calque.commands.progress import counting

    texts, cut, started = [], 0, time.perf_counter()
    with counting(f"translating with {argument.name}", total=len(sources)) as advance:
        for translation in translator.stream(sources, search=search):
            texts.append(translation.text)
            cut += translation.source_cut
            advance(1)
    seconds = time.perf_counter() - started
    if cut:
        typer.echo(
            f"{argument.name}: {cut:,} sources are too long; only the first {search.source_limit} pieces of each were "
            "read",
            err=True,
        )
    words = sum(len(text.split()) for text in texts)
    facts = model_facts(argument, translator)
    return Translated(texts, facts | {"speed": speed(seconds, len(texts), words, device=str(translator.device))})


def speed(seconds: float, sentences: int, words: int, *, device: str) -> dict[str, Any]:
    """The time and speed with which a model processed the test set, and the device."""
    elapsed = max(seconds, 1e-9)
    return {
        "seconds": seconds,
        "sentences_per_second": sentences / elapsed,
        "words_per_second": words / elapsed,
        "device": device,
    }


def model_facts(argument: Argument, loaded: "Loaded") -> dict[str, Any]:
    """The architecture and size of a model and, if it belongs to a run, how it was trained."""
    from calque.engine import WEIGHTS, architecture
    from calque.layers.int8 import parameter_count

    folder = argument.path / "model" if (argument.path / "model").is_dir() else argument.path
    model = {
        "architecture": architecture(loaded),
        "parameters": parameter_count(loaded.model),
        "bytes": (folder / WEIGHTS).stat().st_size,
    }
    return {**argument.facts, "model": model, **run_facts(argument.path)}


def run_facts(run: Path) -> dict[str, Any]:
    """The training time and curves of a run; empty for a model folder and, with a warning, for damaged records."""
    from calque.training.journal import read_journal

    try:
        metrics = read_journal(run / "metrics.jsonl", counts=("step",))
        timing = read_journal(run / "timing.jsonl", counts=("step",))
    except UserError as error:
        typer.echo(f"{error}; the comparison does not show how this run was trained", err=True)
        return {}
    train = [line for line in metrics if line.get("kind") == "train"]
    valid = [line for line in metrics if line.get("kind") == "valid" and "averaged" not in line]
    if not train:
        return {}
    best = next((line["step"] for line in reversed(metrics) if line.get("best")), None)
    rates = [_number(line.get("tokens_per_second")) for line in timing]
    return {
        "run": {
            "steps": train[-1]["step"],
            "seconds": sum(_number(line.get("seconds")) or 0.0 for line in timing),
            "tokens_per_second": median([rate for rate in rates if rate] or [0.0]),
            "best_step": best,
        },
        "curves": {"train": _curve(_thinned(train), ["loss"]), "valid": _curve(valid, _measures(valid))},
    }


def _thinned(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    every = -(-len(lines) // POINTS)
    return list(lines[every - 1 :: every])


def _measures(lines: Sequence[dict[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for line in lines for name, value in line.items() if isinstance(value, float))
    return list(names)


def _curve(lines: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    curves = {name: [_number(line.get(name)) for line in lines] for name in names}
    return {"step": [line["step"] for line in lines], **curves}


def _number(value: Any) -> float | None:
    """The value as a float; None if it is not a finite number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None


def training_data(arguments: Sequence[Argument]) -> "tuple[DataConfig, str] | None":
    """The training data, with a description, of the first run that records its data and whose files still exist."""
    from calque.config import check, read_toml
    from calque.data.corpora import DataConfig, paths
    from calque.training.runs import section

    for argument in arguments:
        file = argument.path / "config.toml"
        if argument.is_file or not (argument.path / "model").is_dir() or not file.is_file():
            continue
        try:
            data = check(DataConfig, section(read_toml(file), "data", origin=file), origin=str(file), written=True)
        except UserError as error:
            typer.echo(f"{error}\n{argument.path}: the comparison does not use the training data of this run", err=True)
            continue
        files = [path for corpus in data.train for path in paths(corpus).values()]
        if missing := [str(path) for path in files if not path.is_file()]:
            typer.echo(
                f"{argument.path}: the comparison does not use the training data of this run, because these files are "
                f"missing: {', '.join(missing)}; name them with --train-source and --train-target, or --train-text",
                err=True,
            )
            continue
        return data, f"{', '.join(str(path) for path in files)} ({argument.name})"
    return None


def corpus_texts(corpora: "Sequence[Corpus]") -> Iterator[tuple[str, ...]]:
    """Yields the texts of each usable row of the corpora, one per column; lines that are not UTF-8 are left out."""
    from calque.data.corpora import RUNNING_LIMIT, read_blocks
    from calque.data.rows import parse

    for corpus in corpora:
        for block in read_blocks(corpus, limit=RUNNING_LIMIT):
            parsed = parse(block, corpus=corpus, invalid="skip", limit=RUNNING_LIMIT)
            yield from (row.texts for row in parsed.rows)
