"""Changes a run's settings when it is resumed: which settings may change, and why the others may not."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from calque.config import Config, Values, check, flat, override, read_toml, values_to_toml
from calque.errors import ConfigError, shell_path
from calque.training.lock import run_lock
from calque.training.runs import CONFIG, write_atomically

C = TypeVar("C", bound=Config)

_STATE = "the checkpoints depend on it"
FIXED = {
    "seed": "the order of the data depends on it",
    "task": "the model was built for it",
    "data": "the data of the run is already prepared",
    "text": "the data of the run is already prepared",
    "model": "the weights depend on it",
    "training.objective": _STATE,
    "training.optimiser.kind": _STATE,
    "training.precision": _STATE,
    "training.arithmetic": _STATE,
    "training.warm_start": "the run already has weights of its own",
}
"""The settings and sections that cannot change once a run has started, with the reason."""


def change_settings(
    folder: Path, assignments: Sequence[str], *, of: type[C], refuse_unbuildable: Callable[[C], None]
) -> None:
    """Changes settings of a run in its config.toml; all are checked before any is written.

    A change that the state of the run does not allow raises a ConfigError, which lists the settings that may change.
    """
    with run_lock(folder):
        path = folder / CONFIG
        before = read_toml(path)
        after = override(before, assignments, of=of)
        _refuse_fixed(folder, before=before, after=after, of=of)
        refuse_unbuildable(_checked(after, before=before, of=of))
        if after != before:
            write_atomically(path, values_to_toml(after))


def changeable(of: type[Config]) -> list[str]:
    """The keys that may change when a run is resumed; `SECTION.*` stands for a section's keys except fixed ones."""
    return list(_changeable(of, prefix="", depth=2))


def _changeable(config: type[BaseModel], *, prefix: str, depth: int) -> Iterator[str]:
    for name, field in config.model_fields.items():
        key = f"{prefix}{name}"
        if key in FIXED:
            continue
        is_section = isinstance(field.default, Config)
        if is_section and depth > 1 and any(fixed.startswith(f"{key}.") for fixed in FIXED):
            yield from _changeable(type(field.default), prefix=f"{key}.", depth=depth - 1)
        else:
            yield f"{key}.*" if is_section else key


def _checked(after: Values, *, before: Values, of: type[C]) -> C:
    """The config `after` a change, checked; settings without effect are rejected, unless `before` had some already."""
    try:
        check(of, before, origin=CONFIG)
        is_strict = True
    except ConfigError:
        is_strict = False
    return check(of, after, origin="changed settings", written=not is_strict)


def _refuse_fixed(folder: Path, *, before: Values, after: Values, of: type[Config]) -> None:
    old, new = dict(flat(before)), dict(flat(after))
    changed = [key for key in [*new, *(key for key in old if key not in new)] if old.get(key) != new.get(key)]
    problems = [f"{key}: {reason}" for key in changed if (reason := _reason(key, old.get(key), new.get(key)))]
    if not problems:
        return
    listed = "".join(f"\n  {problem}" for problem in problems)
    raise ConfigError(
        f"{folder}: these settings cannot be changed when a run is resumed:{listed}\n"
        f"all fixed settings: {', '.join(_fixed_keys(of))}\n"
        f"settings that can be changed: {', '.join(changeable(of))}\n"
        f"to change a fixed setting, start a new run, e.g. with training.warm_start={shell_path(folder)}"
    )


def _fixed_keys(of: type[Config]) -> list[str]:
    return [key for key in FIXED if key.partition(".")[0] in of.model_fields]


def _reason(key: str, before: Any, after: Any) -> str | None:
    """The reason why a setting cannot change from one value to another; None if it can."""
    if key in ("training.ema", "training.averaged_sgd") and bool(before) != bool(after):
        return "averaging can be adjusted, but not turned on or off, because the checkpoints depend on it"
    sections = key.replace("[", ".").split(".")
    names = (".".join(sections[:count]) for count in range(1, len(sections) + 1))
    return next((FIXED[name] for name in names if name in FIXED), None)
