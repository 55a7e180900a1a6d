"""Compiles and loads `kernels.c`."""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch

from calque.folders.cache import private_cache

SOURCE = Path(__file__).with_name("kernels.c")
SWITCH = "CALQUE_NATIVE"  # an environment variable: 0 turns the kernels off
OPTIONS = ("-O3", "-march=native", "-std=gnu11", "-fPIC", "-shared", "-fno-math-errno", "-ffp-contract=off")
SECONDS = 120  # that compiling may take

_P, _N, _I, _F = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_float
_SIGNATURES: dict[str, tuple[list[type], type | None]] = {
    "panel": ([], _I),
    "input_levels": ([], _I),
    "pack_float": ([_P, _N, _N, _P], None),
    "pack_int8": ([_P, _N, _N, _P, _P], None),
    "linear_float": ([_P, _N, _N, _N, _P, _N, _P, _P, _N, _I, _P, _N, _I], None),
    "linear_int8": ([_P, _N, _N, _N, _P, _P, _P, _N, _P, _P, _N, _I, _P, _N, _I], _I),
    "attend_steps": ([_P, _N, _N, _P, _P, _P, _N, _N, _N, _N, _F, _P, _I], _I),
    "attend_source": ([_P, _N, _N, _P, _P, _P, _P, _N, _N, _N, _N, _N, _F, _P, _P, _P, _I], _I),
    "best_words": ([_P, _N, _N, _N, _N, _N, _N, _P, _P, _P, _I], _N),
    "lstm_cell": ([_P, _N, _P, _N, _P, _N, _N, _N, _P, _P, _I], None),
    "gru_cell": ([_P, _N, _P, _N, _P, _N, _N, _N, _P, _I], None),
}


class Compiled(NamedTuple):
    """The outcome of compiling the kernels: the library, or the reason why there is none."""

    library: ctypes.CDLL | None
    reason: str

    def __str__(self) -> str:
        return self.reason


@cache
def compiled() -> Compiled:
    """The compiled kernels, which are compiled once per machine and kept in the user's cache folder."""
    return compile_kernels()


def compile_kernels(environment: Mapping[str, str] = os.environ) -> Compiled:
    """Compiles the kernels, or loads them from the cache folder if they were compiled before.

    A library is a program, so the folder has mode 0700 and must belong to the user. Without one, without a C compiler
    or on another processor there is no library, and torch computes everything.
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
        path = folder / f"kernels-{_key(version)}.so"
        if not path.exists():
            _compile(compiler, version, path)
        return Compiled(_load(path), f"compiled with {version}")
    except (OSError, subprocess.SubprocessError) as error:
        detail = getattr(error, "stderr", None) or str(error)
        return Compiled(None, f"not compiled: {compiler} failed: {detail.strip().partition(chr(10))[0]}")


def _compile(compiler: str, version: str, path: Path) -> None:
    """Compiles the kernels to `path`; another process that does the same at the same time does no harm."""
    partial = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    threads = _openmp() if "clang" not in version else []
    try:
        _output([compiler, *OPTIONS, *threads, str(SOURCE), "-o", str(partial), *threads[1:], "-lm"])
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _openmp() -> list[str]:
    """The compiler options for threads: they link the OpenMP library that torch has loaded.

    Two OpenMP libraries in one process slow each other down (decision 33).
    """
    root = Path(torch.__file__).parent
    libraries = [*root.glob("lib/libgomp*.so*"), *root.parent.glob("torch.libs/libgomp*.so*")]
    return ["-fopenmp", str(libraries[0])] if libraries else []


def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    for name, (arguments, result) in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    return library


def _key(version: str) -> str:
    """A name for what the library depends on: source, options, compiler, processor and torch."""
    features = next((line for line in _cpuinfo() if line.startswith("flags")), "")
    parts = (SOURCE.read_text(encoding="utf-8"), *OPTIONS, version, features, torch.__version__)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _cpuinfo() -> list[str]:
    return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()


def _output(command: list[str]) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=SECONDS, stdin=subprocess.DEVNULL
    )
    return done.stdout
