"""The list of laws is complete: every task and kind of model, every law, and every test that it names exists."""

import importlib
from pathlib import Path

import pytest

from calque.experiment.settings import MODELS, TASKS
from calque.models.systems import SYSTEMS
from tests.laws.registry import LAWS, REGISTRY, Row, Without, as_table
from tests.promises import estimated, subjects, test_estimated, test_promises

TESTS = Path(__file__).parents[1]
DOCUMENT = TESTS.parent / "docs" / "concepts.md"


def test_every_kind_of_model_of_every_task_has_a_row() -> None:
    kinds = {(task, kind) for task, kinds in MODELS.items() for kind in kinds}
    assert {(row.task, row.kind.partition(":")[0]) for row in REGISTRY} == kinds
    assert len({(row.task, row.kind) for row in REGISTRY}) == len(REGISTRY)


def test_every_named_system_is_of_a_kind_with_a_row() -> None:
    """Models that are counted have rows of their own."""
    rows = {row.kind for row in REGISTRY}
    for name, system in SYSTEMS.items():
        network = getattr(getattr(system.model, "network", None), "kind", "")
        is_estimated = network in ("ngram", "popularity")
        assert (f"{system.model.kind}: {network}" if is_estimated else system.model.kind) in rows, name
        assert TASKS[system.model.kind] in MODELS


@pytest.mark.parametrize("row", REGISTRY, ids=lambda row: row.kind)
def test_every_law_has_a_test_or_a_reason(row: Row) -> None:
    assert set(row.proofs) == set(LAWS)
    for law, proof in row.proofs.items():
        if isinstance(proof, Without):
            assert proof.reason, law
            continue
        assert proof, law
        missing = [name for name in proof if not exists(name)]
        assert not missing, f"{row.kind}, {law}: no such test"


def exists(name: str) -> bool:
    """Whether there is such a test, or such a promise of such a task."""
    file, _, test = name.partition("::")
    match file:
        case "promises/test_promises.py":
            task, _, promise = test.rpartition("-")
            return task in subjects.SUBJECTS and promise in test_promises.PROMISES
        case "promises/test_estimated.py":
            model, _, promise = test.rpartition("-")
            return model in estimated.ESTIMATED and promise in test_estimated.PROMISES
    test, _, law = test.removesuffix("]").partition("[")
    module = importlib.import_module("tests." + file.removesuffix(".py").replace("/", "."))
    return callable(getattr(module, test, None)) and (not law or law in module.LAWS)


def test_a_test_that_does_not_exist_is_noticed() -> None:
    assert exists("laws/test_laws.py::test_law[padding]") and not exists("laws/test_laws.py::test_law[beauty]")
    assert not exists("laws/test_taggers.py::test_beauty") and not exists("promises/test_promises.py::tagging-beauty")


def test_every_subject_of_the_promises_is_in_the_list() -> None:
    named = {
        name.partition("::")[2].rpartition("-")[0]
        for row in REGISTRY
        for proof in row.proofs.values()
        if not isinstance(proof, Without)
        for name in proof
        if name.startswith("promises/")
    }
    assert set(subjects.SUBJECTS) - named == {"own task"}, "what a user brings has no models of ours"
    assert set(estimated.ESTIMATED) - named == {"dictionary", "noisy channel of words"}, "phrases stand for them"


def test_the_documentation_shows_the_list() -> None:
    assert as_table() in DOCUMENT.read_text(encoding="utf-8")
