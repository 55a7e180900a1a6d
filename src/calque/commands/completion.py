"""Shell completion of the names of systems (predefined models) and of settings.

Names are read from the source files: importing the classes would import torch, which is too slow for a completion.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SECTIONS = {
    "training": ("training/settings.py", "TrainingConfig"),
    "training.batch": ("data/batching.py", "BatchConfig"),
    "training.optimiser": ("training/optimisers.py", "OptimiserConfig"),
    "training.schedule": ("training/schedules.py", "ScheduleConfig"),
    "search": ("search/settings.py", "SearchConfig"),
}
"""The sections of a config whose keys are completed, with the files and classes that declare them."""

SYSTEM_FILES = ("translation_systems", "text_systems", "recommender_systems", "signal_systems")
"""The modules of calque.models that define named systems, in the order in which `calque systems` lists them."""


def system_names(incomplete: str = "") -> list[str]:
    """The names of systems (predefined models), such as `tiny`, that begin with `incomplete`."""
    sources = "".join(_source(f"models/{file}.py") for file in SYSTEM_FILES)
    names = re.findall(r'^    "([\w-]+)": System\(', sources, re.MULTILINE)
    return [name for name in names if name.startswith(incomplete)]


def config_keys(incomplete: str = "") -> list[str]:
    """The settings of a config, such as `training.steps=`, that begin with `incomplete`."""
    keys = ["seed", *(f"{section}.{name}" for section in SECTIONS for name in _fields(section))]
    return [f"{key}=" for key in keys if key.startswith(incomplete)]


def search_keys(incomplete: str = "") -> list[str]:
    """The search settings, such as `temperature=`, that begin with `incomplete`."""
    return [f"{name}=" for name in _fields("search") if name.startswith(incomplete)]


def _fields(section: str) -> Iterator[str]:
    """Yields the keys of a config section whose values are not sections themselves."""
    file, class_name = SECTIONS[section]
    classes = (node for node in ast.parse(_source(file)).body if isinstance(node, ast.ClassDef))
    for node in next((node.body for node in classes if node.name == class_name), []):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)) if not _is_section(node.annotation):
                yield name


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, ast.Name) and annotation.id.endswith("Config")


def _source(file: str) -> str:
    try:
        return (Path(__file__).parents[1] / file).read_text(encoding="utf-8")
    except OSError:  # installed without sources
        return ""
