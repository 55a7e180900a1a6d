"""Every kind of model is inspected and compared, and messages and help name all that there is."""

from pathlib import Path
from typing import get_args

import pytest

from calque.commands import inspect as inspect_command
from calque.commands.compare_task import TaskComparison
from calque.commands.compare_tasks import TASKS as COMPARED
from calque.commands.compare_tasks import task_of
from calque.commands.corpus_files import CorpusFiles
from calque.commands.inspect_tasks import TASKS as INSPECTED
from calque.commands.inspect_tasks import refuse_options
from calque.commands.loading import EVALUATION_OPTIONS
from calque.engine import Loaded
from calque.errors import ConfigError
from calque.models import systems


def test_every_kind_of_model_can_be_inspected() -> None:
    assert set(INSPECTED) == set(get_args(Loaded)) == set(EVALUATION_OPTIONS)
    assert len({task.task for task in INSPECTED.values()}) == len(INSPECTED)


def test_the_help_names_every_picture() -> None:
    pictures = {name for task in INSPECTED.values() for name in task.pictures}
    assert set(inspect_command.PICTURES) == pictures
    assert len(inspect_command.PICTURES) == len(pictures)


def test_models_that_read_files_say_which_option_names_them() -> None:
    for task in INSPECTED.values():
        assert (task.reads == "text") == (not task.advice)
        assert task.reads == "text" or task.reads in task.advice


def test_every_kind_of_model_can_be_compared_and_the_message_says_how() -> None:
    options = {option for words in EVALUATION_OPTIONS.values() for option in words.split() if option.startswith("--")}
    with pytest.raises(ConfigError) as refused:
        task_of({})
    for option in options:
        assert option in str(refused.value)
    assert len({task.option for task in COMPARED}) == len({task.task for task in COMPARED}) == len(COMPARED)
    for task in COMPARED:
        files = {option: Path("x") for option in (task.option, *(["--source"] if "--source" in task.usage else []))}
        assert task_of(files) is task


def test_a_refused_option_names_all_models_that_support_it() -> None:
    for task in INSPECTED.values():
        for option in {option for other in INSPECTED.values() for option in other.options} - task.options:
            with pytest.raises(ConfigError, match=f"{option}: supported for .* only, but") as refused:
                refuse_options(task, [option])
            for other in INSPECTED.values():
                assert (f"{other.models}" in str(refused.value)) == (option in other.options)
        refuse_options(task, sorted(task.options))


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("text", systems.LANGUAGE_MODELS),
        ("conll", systems.TAGGERS),
        ("sequences", systems.RECOMMENDERS),
        ("audio", systems.RECOGNISERS),
        ("images", systems.CAPTIONERS),
    ],
)
def test_corpora_of_another_task_name_all_systems_that_read_them(option: str, named: dict[str, systems.System]) -> None:
    files = CorpusFiles(**{option: [Path("x")]})
    with pytest.raises(ConfigError, match=f"--{option} is for a ") as refused:
        files.refuse_other_task({"task": {"kind": "translation"}})
    assert all(name in str(refused.value) for name in named)


@pytest.mark.parametrize("second", [task.option for task in COMPARED[2:]])
def test_files_of_two_tasks_are_refused(second: str) -> None:
    with pytest.raises(ConfigError, match=f"--reference and {second} belong to different tasks"):
        task_of({"--source": Path("a"), "--reference": Path("b"), second: Path("c")})
    with pytest.raises(ConfigError, match=f"--source and {second} belong to different tasks"):
        task_of({"--source": Path("a"), second: Path("c")})


@pytest.mark.parametrize("task", COMPARED, ids=lambda task: task.task)
@pytest.mark.parametrize(
    "options",
    [("--beam", "2"), ("--metric", "bleu"), ("--metric", ""), ("--sentences", "3"), ("--no-training-data",)],
    ids="=".join,
)
def test_options_of_compare_without_effect_are_refused(task: TaskComparison, options, tmp_path: Path, command) -> None:
    file = tmp_path / "test"
    file.write_text("a\n")
    pair = ("--source", file) if "--source" in task.usage else ()
    answer = command("compare", f"a={file}", f"b={file}", task.option, file, *pair, *options)
    assert (f"{options[0]}: not supported for the task {task.task}" in answer.err) == (options[0] not in task.takes)
    expected = {"--beam": task.searches, "--metric": task.task in ("translation", "captioning")}
    assert expected.get(options[0], options[0] in task.takes) == (options[0] in task.takes)
