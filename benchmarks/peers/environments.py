"""The virtual environments that `benchmarks/peers/install` creates, and how a program is run in one of them."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from benchmarks.errors import BenchmarkError, ContenderError
from benchmarks.processes import Usage, run_measured
from benchmarks.source_trees import THREAD_VARIABLES

PeerName = Literal["ctranslate2", "opennmt-py", "eole", "transformers"]
TITLES: dict[PeerName, str] = {
    "ctranslate2": "CTranslate2",
    "opennmt-py": "OpenNMT-py",
    "eole": "Eole",
    "transformers": "transformers",
}
PACKAGES: dict[PeerName, str] = {
    "ctranslate2": "ctranslate2",
    "opennmt-py": "OpenNMT-py",
    "eole": "eole",
    "transformers": "transformers",
}
SCRIPTS = Path(__file__).resolve().parent


class Environment(NamedTuple):
    """One peer's virtual environment."""

    peer: PeerName
    folder: Path
    version: str

    @property
    def title(self) -> str:
        return TITLES[self.peer]

    def run(self, *command: str | Path, folder: Path, threads: int, log: Path | None = None) -> Usage:
        """Runs `python COMMAND` of this environment in `folder` and returns its cost."""
        environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads))}
        environment.pop("PYTHONPATH", None)
        environment["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"  # OpenNMT-py's checkpoints are pickled objects
        try:
            return run_measured([self.python, *command], environment=environment, folder=folder, log=log)
        except ContenderError as error:
            raise ContenderError(f"{self.title}: {error}") from error

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"


def open_environments(folder: Path, names: Sequence[PeerName]) -> list[Environment]:
    """The environments of these peers; raises a BenchmarkError that names those missing and how to install them."""
    root = folder.expanduser().absolute()
    missing = [name for name in names if not (root / name / "bin" / "python").exists()]
    if missing:
        raise BenchmarkError(
            f"--peers {folder}: it has no environment for {', '.join(missing)}; "
            f"install it with: benchmarks/peers/install --into {folder} {' '.join(missing)}"
        )
    return [Environment(name, root / name, _version(root / name, PACKAGES[name])) for name in names]


def described_peers(environments: Sequence[Environment]) -> str:
    """Every peer with its version."""
    return ", ".join(f"{environment.title} {environment.version}" for environment in environments)


def _version(folder: Path, package: str) -> str:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    ended = subprocess.run([folder / "bin" / "python", "-c", code], capture_output=True, text=True)
    if ended.returncode:
        raise ContenderError(f"{folder}: {package} is not installed there; remove the folder and install it again")
    return ended.stdout.strip()
