"""The kinds of corpora on a command line agree with the tasks and systems that exist."""

from itertools import permutations
from pathlib import Path

import pytest

from calque.commands.corpus_files import CorpusFiles, HeldOutFiles
from calque.commands.corpus_kinds import KINDS, PLACEHOLDERS, READS, CorpusKind
from calque.commands.table_options import Tables
from calque.errors import ConfigError
from calque.experiment.settings import DEFAULT_SYSTEMS, MODELS, TASKS
from calque.models.systems import SYSTEMS

FILES = [Path("file")]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.option)
def test_the_systems_of_a_kind_are_those_of_its_task(kind: CorpusKind) -> None:
    assert kind.systems == tuple(name for name, system in SYSTEMS.items() if TASKS[system.model.kind] == kind.task)
    assert kind.systems[0] == DEFAULT_SYSTEMS[kind.task]


def test_every_task_has_a_placeholder_and_a_message() -> None:
    assert PLACEHOLDERS.keys() == READS.keys() == MODELS.keys()


def test_the_options_of_two_tasks_cannot_be_combined() -> None:
    for first, second in permutations((kind.option for kind in KINDS), 2):
        with pytest.raises(ConfigError, match="cannot be combined with"):
            CorpusFiles(**{first: FILES, second: FILES}).check()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.option)
def test_held_out_pairs_of_another_task_are_named(kind: CorpusKind) -> None:
    """They would be replaced by the held-out files of the task."""
    for pairs, option in (
        ({"source": FILES, "target": FILES}, "--valid-source"),
        ({"target": FILES}, "--valid-target"),
        ({"tables": Tables(csv=FILES)}, "--valid-csv"),
    ):
        for own in ({}, {kind.option: FILES}):
            files = CorpusFiles(**{kind.option: FILES}, valid=HeldOutFiles(**pairs, **own))
            for read in (files.check, files.corpora):
                with pytest.raises(
                    ConfigError, match=f"--{kind.option} is for .* with {option}, which is for translation"
                ):
                    read()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.option)
def test_corpora_of_another_task_are_rejected_with_what_to_give(kind: CorpusKind) -> None:
    for task in MODELS:
        values = {"task": {"kind": task}}
        if task == kind.task:
            CorpusFiles(**{kind.option: FILES}).refuse_other_task(values)
            continue
        with pytest.raises(ConfigError) as found:
            CorpusFiles(**{kind.option: FILES}).refuse_other_task(values)
        assert READS[task] in str(found.value) and f"--{kind.option} is for" in str(found.value)
        with pytest.raises(ConfigError, match=f"--source: .*--{kind.option}"):
            CorpusFiles(source=FILES).refuse_other_task({"task": {"kind": kind.task}})
