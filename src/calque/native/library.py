"""Compiles and loads `kernels.c`."""

import ctypes
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import torch

from calque.folders.cache import private_cache

SOURCE = Path(__file__).with_name("kernels.c")
SWITCH = "CALQUE_NATIVE"  # an environment variable: 0 turns the kernels off
OPTIONS = ("-O3", "-march=native", "-std=gnu11", "-fPIC", "-shared", "-fno-math-errno", "-ffp-contract=off")
SECONDS = 60  # that compiling may take
UNUSED = 30 * 86400  # seconds after which a library is removed

_P, _N, _I, _F = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_float
_SIGNATURES: dict[str, tuple[list[type], type | None]] = {
    "panel": ([], _I),
    "input_levels": ([], _I),
    "pack_float": ([_P, _N, _N, _P], None),
    "pack_int8": ([_P, _N, _N, _P, _P], None),
    "linear_float": ([_P, _N, _N, _N, _P, _N, _P, _P, _N, _I, _P, _N, _I], None),
    "linear_int8": ([_P, _N, _N, _N, _P, _P, _P, _N, _P, _P, _N, _I, _P, _N, _I], _I),
    "attend_steps": ([_P, _N, _N, _P, _P, _N, _N, _N, _N, _F, _P, _I], _I),
    "attend_source": ([_P, _N, _N, _P, _P, _P, _P, _N, _N, _N, _N, _N, _F, _P, _P, _P, _I], _I),
    "best_words": ([_P, _N, _N, _N, _N, _N, _N, _P, _P, _P, _I], _I),
    "lstm_cell": ([_P, _N, _P, _N, _P, _N, _N, _N, _P, _P, _I], None),
    "gru_cell": ([_P, _N, _P, _N, _P, _N, _N, _N, _P, _I], None),
    "recurrent_layer": ([_P, _P, _N, _N, _P, _P, _P, _I], _I),
}


class Compiled(NamedTuple):
    """The outcome of compiling the kernels: the library, or the reason why there is none."""

    library: ctypes.CDLL | None
    reason: str

    def __str__(self) -> str:
        return self.reason


_outcome: Compiled | None = None
_lock = threading.Lock()


def compiled() -> Compiled:
    """The compiled kernels; they are compiled once per machine and kept in the user's cache folder."""
    global _outcome
    if _outcome is None:
        with _lock:
            if _outcome is None:
                _outcome = compile_kernels()
    return _outcome


def compile_kernels(environment: Mapping[str, str] = os.environ) -> Compiled:
    """Compiles the kernels, or loads them from the cache folder if they were compiled before.

    Loading a library runs its code, so the folder has mode 0700 and must belong to the user. Without such a folder,
    without a C compiler or on an unsupported system there is no library, and torch computes everything.
    """
    if environment.get(SWITCH) == "0":
        return Compiled(None, f"off, because {SWITCH}=0")
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return Compiled(None, f"not available for {platform.system()} on {platform.machine()}")
    if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        return Compiled(None, "not available: the processor has no AVX2")
    compiler = next(filter(None, map(shutil.which, (environment.get("CC", ""), "cc", "gcc", "clang"))), None)
    if compiler is None:
        return Compiled(None, "not compiled: no C compiler was found (apt install gcc)")
    folder = private_cache("native", environment=environment)
    if folder is None:
        return Compiled(None, "not compiled: there is no cache folder that only you can write to")
    try:
        version = _output([compiler, "--version"]).partition("\n")[0]
        threads = _openmp(version)
        library = build(folder, [compiler, *OPTIONS, *threads], version=version)
    except subprocess.TimeoutExpired:
        return Compiled(None, f"not compiled: {compiler} took more than {SECONDS} seconds")
    except subprocess.CalledProcessError as error:
        problem = error.stderr.strip().partition("\n")[0] or f"exit code {error.returncode}"
        return Compiled(None, f"not compiled: {compiler} failed: {problem}")
    except (OSError, AttributeError) as error:  # the latter: a library without one of the functions
        return Compiled(None, f"compiled, but the library cannot be used: {error}")
    if library.input_levels() != (127 if torch.cpu._is_vnni_supported() else 63):
        return Compiled(None, f"not used: {version} does not know the processor's 8-bit instructions")
    return Compiled(library, f"compiled with {version}{'' if threads else ', for one thread'}")


def build(folder: Path, command: Sequence[str], *, version: str) -> ctypes.CDLL:
    """The kernels that `command` compiles, loaded from the folder if they were compiled before.

    The file's name contains a digest of its content, so that an incomplete or modified file is detected and compiled
    again. Several processes may call this at the same time.
    """
    key = _digest("\0".join((SOURCE.read_text(encoding="utf-8"), *command, version, _features(), torch.__version__)))
    for path in folder.glob(f"kernels-{key}-*.so"):
        if _is_sound(path):
            os.utime(path)  # used today
            return load(path)
        path.unlink(missing_ok=True)
    _remove_old(folder)
    with tempfile.TemporaryDirectory(dir=folder, prefix="tmp-") as place:
        made = Path(place) / "kernels.so"
        compiler, *options = command
        libraries = [option for option in options if option.startswith("/")]
        flags = [option for option in options if not option.startswith("/")]
        _output([compiler, *flags, str(SOURCE), "-o", str(made), *libraries, "-lm"])
        with made.open("rb+") as file:
            content = file.read()
            os.fsync(file.fileno())
        made.chmod(0o600)
        library = load(made)  # before it is kept: not every file that a compiler writes can be loaded
        made.replace(folder / f"kernels-{key}-{_digest(content)}.so")
    return library


def load(path: Path) -> ctypes.CDLL:
    """The library in a file, with the argument and result types of its functions declared."""
    library = ctypes.CDLL(str(path))
    for name, (arguments, result) in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    return library


def _is_sound(path: Path) -> bool:
    """Whether a library file is the user's, only the user can write to it, and its name contains its digest."""
    try:
        found = path.lstat()
        is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
        return is_own and path.stem.endswith(f"-{_digest(path.read_bytes())}")
    except FileNotFoundError:  # another process has just removed it
        return False


def _remove_old(folder: Path) -> None:
    """Removes libraries that no process has loaded for a month, and folders left behind by interrupted compilations."""
    for pattern, age in (("kernels-*.so", UNUSED), ("tmp-*", 3600)):
        for path in folder.glob(pattern):
            with suppress(FileNotFoundError):  # another process has just removed it
                if path.stat().st_mtime < time.time() - age:
                    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()


def _openmp(version: str) -> list[str]:
    """The compiler options that link torch's own OpenMP library: two such libraries would slow each other down.

    Empty if torch has no libgomp or the compiler is clang, which uses another library; kernels then use one thread.
    """
    root = Path(torch.__file__).parent
    libraries = [*root.glob("lib/libgomp*.so*"), *root.parent.glob("torch.libs/libgomp*.so*")]
    return ["-fopenmp", str(libraries[0])] if libraries and "clang" not in version else []


def _features() -> str:
    """The processor's instruction-set extensions: the line `flags` of /proc/cpuinfo."""
    return next((line for line in _cpuinfo() if line.startswith("flags")), "")


def _cpuinfo() -> Iterator[str]:
    yield from Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()


def _digest(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:16]


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=True,
        timeout=SECONDS,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "LC_ALL": "C"},
    )
    return done.stdout
