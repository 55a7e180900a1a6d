"""Which sources a contender runs, and what is said where there are none."""

from pathlib import Path

import pytest
from benchmarks import source_trees
from benchmarks.errors import BenchmarkError, ContenderError
from benchmarks.source_trees import HERE, SourceTree, check_imports, open_tree, open_trees
from tests.unit.benchmarks.stand_in import commit, write_stand_in


def test_a_folder_that_holds_sources_is_taken_as_it_is(tmp_path: Path) -> None:
    root = write_stand_in(tmp_path / "tree")
    tree = open_tree(str(root), folder=tmp_path / "nowhere", repository=tmp_path)
    assert tree.root == root
    assert tree.name == str(root)


def test_a_revision_is_extracted_as_it_was_committed(tmp_path: Path) -> None:
    repository = write_stand_in(tmp_path / "repository", mark="committed", git=True)
    main = repository / "src" / "calque" / "__main__.py"
    committed = main.read_text()
    main.write_text("changed since")
    tree = open_tree("HEAD", folder=tmp_path / "extracted", repository=repository)
    assert (tree.root / "src" / "calque" / "__main__.py").read_text() == committed
    assert not list((repository / ".git").glob("worktrees/*"))
    assert source_trees._described(repository) == f"{tree.revision}-dirty"


def test_a_revision_may_have_the_name_of_a_folder_without_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = write_stand_in(tmp_path / "repository", git=True)
    monkeypatch.chdir(tmp_path)
    Path("HEAD").mkdir()
    assert open_tree("HEAD", folder=tmp_path / "extracted", repository=repository).revision


@pytest.mark.parametrize("given", ["no-such-revision", "--help", "HEAD:src", ".."])
def test_what_is_neither_folder_nor_revision_is_rejected_with_both(tmp_path: Path, given: str) -> None:
    repository = write_stand_in(tmp_path / "repository", git=True)
    with pytest.raises(BenchmarkError, match="neither a folder that holds src/calque nor a git revision") as raised:
        open_tree(given, folder=tmp_path / "extracted", repository=repository)
    assert f"--against {given}: " in str(raised.value)
    assert str(repository) in str(raised.value)


def test_a_revision_without_sources_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "README").write_text("no sources")
    commit(tmp_path)
    with pytest.raises(BenchmarkError, match=r"revision [0-9a-f]{7} of .* has no src/calque"):
        open_tree("HEAD", folder=tmp_path / "extracted", repository=tmp_path)


@pytest.mark.parametrize("given", [[HERE], ["HEAD", "HEAD"]])
def test_two_contenders_cannot_have_one_name(tmp_path: Path, given: list[str]) -> None:
    with pytest.raises(BenchmarkError, match="another contender already has this name"):
        open_trees(given, folder=tmp_path)


def test_sources_that_python_does_not_find_are_an_error(tmp_path: Path) -> None:
    """An installed Calque must not run under the name of another tree."""
    check_imports(SourceTree("sound", write_stand_in(tmp_path / "sound"), ""))
    with pytest.raises(ContenderError, match="empty: `import calque`"):
        check_imports(SourceTree("empty", tmp_path, ""))
