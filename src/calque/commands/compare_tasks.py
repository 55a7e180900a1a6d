"""The tasks that `calque compare` supports."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from calque.commands.compare_images import CAPTIONING
from calque.commands.compare_language_models import LANGUAGE_MODELLING
from calque.commands.compare_recognisers import RECOGNITION
from calque.commands.compare_recommenders import RECOMMENDATION
from calque.commands.compare_retrieval import EMBEDDING
from calque.commands.compare_taggers import TAGGING
from calque.commands.compare_task import Document, TaskComparison
from calque.commands.compare_translations import TRANSLATION
from calque.errors import ConfigError

TASKS = (TRANSLATION, EMBEDDING, LANGUAGE_MODELLING, TAGGING, RECOMMENDATION, CAPTIONING, RECOGNITION)


def task_of(files: Mapping[str, Path]) -> TaskComparison:
    """The task whose files are given; raises a ConfigError unless the files of exactly one task are complete."""
    if "--target" in files and "--source" not in files:
        raise ConfigError(
            "--target needs --source too: line n of the target file is the translation of line n of the source file"
        )
    is_pair = "--source" in files and "--target" not in files
    chosen = [task for task in TASKS if task.option in files or (task is TRANSLATION and is_pair)]
    if len(chosen) > 1:
        pair = ("--reference", "--source")  # of which one is enough to choose translation
        names = [
            next(name for name in pair if name in files) if task is TRANSLATION else task.option for task in chosen
        ]
        given = " and ".join(names)
        raise ConfigError(f"{given} belong to different tasks; give only one of them")
    if not chosen:
        usages = [task.usage for task in TASKS]
        raise ConfigError(f"no test set was given; give {', '.join(usages[:-1])}, or {usages[-1]}")
    if chosen[0].option not in files:
        raise ConfigError("--reference is missing; name the file with the reference translations of the test set")
    return chosen[0]


def table_lines(document: Document) -> Iterator[str]:
    """Yields the lines of all tables of a comparison, each table under its title."""
    (task,) = (task for task in TASKS if task.task == document["task"])
    for number, (title, lines) in enumerate(task.tables(document)):
        yield from ([""] if number else [])
        yield title
        yield from lines
