"""Keeps freed memory in the process between steps.

Every step of training or of search allocates and frees the same few hundred megabytes. By default, glibc returns large
blocks to the system as soon as they are freed, and the system clears each page again when the next step touches it.
That takes 14 to 19 % of the CPU time of training a small model (benchmarks/results).

The commands that train or decode call `keep_memory`. In a program of your own, call it once before a model is used:

>>> from calque.memory import keep_memory
>>> keep_memory()
True
"""

import ctypes
import os
import platform
from collections.abc import Mapping

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of mallopt, from malloc.h
_LARGEST = 2**31 - 1  # mallopt takes a C int
_LARGEST_BEFORE = 32 << 20  # half the maximum size of a heap, which earlier versions of glibc do not exceed


def keep_memory(*, environment: Mapping[str, str] = os.environ) -> bool:
    """Makes glibc reuse freed blocks instead of returning them to the system. Returns whether that succeeded.

    It does nothing, and returns False, without glibc or if the environment configures malloc itself. The setting holds
    for the rest of the process; `release_memory` returns free memory to the system once.
    """
    if platform.libc_ver()[0] != "glibc" or configures_malloc(environment):
        return False
    library = ctypes.CDLL(None)
    is_reusing = any(library.mallopt(_MMAP_THRESHOLD, size) for size in (_LARGEST, _LARGEST_BEFORE))
    return bool(is_reusing and library.mallopt(_TRIM_THRESHOLD, _LARGEST))


def release_memory() -> None:
    """Returns freed memory to the system. Does nothing without glibc."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


def configures_malloc(environment: Mapping[str, str]) -> bool:
    """Whether environment variables configure glibc's malloc; see mallopt(3)."""
    is_tuned = "glibc.malloc" in environment.get("GLIBC_TUNABLES", "")
    return is_tuned or any(name in environment for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"))
