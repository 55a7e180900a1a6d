"""Source trees of Calque: this one, another folder, or a git revision; each is run by its public command line."""

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.errors import BenchmarkError, ContenderError
from benchmarks.processes import Usage, run_measured

REPOSITORY = Path(__file__).resolve().parents[1]
HERE = "here"  # the name of this working tree
PACKAGE = Path("src", "calque")
HIDDEN = Path(__file__).resolve().with_name("hidden")  # stands in for packages that contenders should not find
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class SourceTree(NamedTuple):
    """A folder that holds src/calque, under the name it has in tables."""

    name: str
    root: Path
    revision: str  # of git, where there is one

    def calque(self, *arguments: str | Path, folder: Path, threads: int, log: Path | None = None) -> Usage:
        """Runs `calque ARGUMENTS` with these sources in `folder`, and returns its cost."""
        command = [sys.executable, "-m", "calque", *arguments]
        try:
            return run_measured(command, environment=self.environment(threads=threads), folder=folder, log=log)
        except ContenderError as error:
            raise ContenderError(f"{self.name}: {error}") from error

    def environment(self, *, threads: int) -> dict[str, str]:
        """Environment variables that set these sources and the number of threads, and hide matplotlib.

        Bytecode is kept, as it is for an installed package, even where the caller's environment says otherwise.
        """
        sources = os.pathsep.join(map(str, (self.root / "src", HIDDEN)))
        bytecode = {"PYTHONDONTWRITEBYTECODE": ""}
        return {**os.environ, **bytecode, "PYTHONPATH": sources, **dict.fromkeys(THREAD_VARIABLES, str(threads))}


def this_tree() -> SourceTree:
    """The working tree that this benchmark belongs to."""
    return SourceTree(HERE, REPOSITORY, _described(REPOSITORY))


def open_tree(name: str, *, folder: Path, repository: Path) -> SourceTree:
    """The tree that `--against` names: a folder that holds src/calque, or else a revision, extracted into `folder`."""
    root = Path(name).expanduser().resolve()
    if (root / PACKAGE).is_dir():
        return SourceTree(name, root, _described(root))
    commit = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", repository=repository)
    if commit is None:
        raise BenchmarkError(
            f"--against {name}: neither a folder that holds {PACKAGE} nor a git revision of {repository}"
        )
    revision = commit.decode().strip()
    archive = _git("archive", "--format=tar", revision, str(PACKAGE), repository=repository)
    if archive is None:
        raise BenchmarkError(f"--against {name}: revision {revision[:7]} of {repository} has no {PACKAGE}")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return SourceTree(name, folder, revision[:7])


def open_trees(names: list[str], *, folder: Path) -> list[SourceTree]:
    """This tree, followed by those that `--against` names."""
    repeated = sorted({name for name in names if names.count(name) > 1 or name == HERE})
    if repeated:
        raise BenchmarkError(
            f"--against {repeated[0]}: another contender already has this name; every contender needs its own"
        )
    trees = [this_tree()]
    for number, name in enumerate(names, start=1):
        place = folder / f"tree-{number}"
        place.mkdir(parents=True)
        trees.append(open_tree(name, folder=place, repository=REPOSITORY))
    for tree in trees:
        check_imports(tree)
    return trees


def described_trees(trees: list[SourceTree]) -> str:
    """The name and the git revision of every tree."""
    return ", ".join(f"{tree.name} is {tree.revision or 'not in git'}" for tree in trees)


def check_imports(tree: SourceTree) -> None:
    """Raises a ContenderError unless Python finds `calque` in this tree and not in an installed copy."""
    show = "import calque; print(calque.__file__)"
    command = [sys.executable, "-c", show]
    ended = subprocess.run(command, env=tree.environment(threads=1), cwd=tree.root, capture_output=True, text=True)
    if ended.returncode:
        raise ContenderError(f"{tree.name}: `import calque` failed\n{ended.stderr}")
    imported = Path(ended.stdout.strip()).resolve()
    if not imported.is_relative_to(tree.root.resolve()):
        raise ContenderError(f"{tree.name}: `import calque` imports {imported}, not the sources in {tree.root}")


def _described(root: Path) -> str:
    """The commit, followed by "-dirty" if files have been changed; empty outside a git repository."""
    described = _git("describe", "--always", "--dirty", "--abbrev=7", "--exclude=*", repository=root)
    return "" if described is None else described.decode().strip()


def _git(*arguments: str, repository: Path) -> bytes | None:
    """The output of git; None if it fails or is not installed."""
    try:
        ended = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True)
    except FileNotFoundError:
        return None
    return ended.stdout if ended.returncode == 0 else None
