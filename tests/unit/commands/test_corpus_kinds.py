"""The kinds of corpora on a command line agree with the tasks and systems that exist."""

from itertools import permutations
from pathlib import Path

import pytest

from calque.commands.corpus_files import CorpusFiles
from calque.commands.corpus_kinds import KINDS, PLACEHOLDERS, READS, CorpusKind
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
