"""Memory that is kept between steps: seen in the page faults of a process that allocates the same block again."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from calque.memory import configures_malloc, keep_memory

needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc has these settings")

ALLOCATE = """
import resource, sys, torch
from calque.memory import keep_memory, release_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def resident():
    return int(open("/proc/self/statm").read().split()[1])

if "keep" in sys.argv:
    assert keep_memory()
for number in range(20):  # the first ten find a place for the block
    if number == 10:
        before = faults()
    torch.ones(16 << 20)  # 64 MiB
after, kept = faults(), resident()
release_memory()
print(after - before, kept - resident())
"""


def _faults(*arguments: str) -> tuple[int, int]:
    """The page faults of allocating 64 MiB ten times, and the pages that `release_memory` returned afterwards."""
    command = [sys.executable, "-c", ALLOCATE, *arguments]
    faults, released = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return int(faults), int(released)


@needs_glibc
def test_freed_memory_is_used_again_and_can_be_returned() -> None:
    faults, released = _faults("keep")
    assert faults < 1000  # 64 MiB have 16,384 pages
    assert released > 10_000


@needs_glibc
def test_without_it_every_block_is_returned_and_cleared_again() -> None:
    faults, _ = _faults()  # the reason for `keep_memory`; huge pages have fewer, larger faults
    assert faults > 1000 or _has_huge_pages()


def _has_huge_pages() -> bool:
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return setting.exists() and "[always]" in setting.read_text(encoding="ascii")


@pytest.mark.parametrize(
    "environment",
    [
        {"MALLOC_TRIM_THRESHOLD_": "1000"},
        {"MALLOC_MMAP_THRESHOLD_": "1000"},
        {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=128"},
    ],
    ids=lambda environment: next(iter(environment)),
)
def test_settings_of_the_environment_win(environment: dict[str, str]) -> None:
    assert configures_malloc(environment)
    assert not keep_memory(environment=environment)


def test_other_settings_of_the_environment_do_not_matter() -> None:
    assert not configures_malloc({"GLIBC_TUNABLES": "glibc.cpu.x86_ibt=off", "MALLOC_ARENA_MAX": "2"})


def test_without_glibc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert not keep_memory()
