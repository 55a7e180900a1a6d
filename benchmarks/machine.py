"""Describes the machine that figures were measured on: chip, vector instructions, cores, versions."""

import os
import platform
import re
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

CPU_INFO = Path("/proc/cpuinfo")
FEATURES = {  # what matrix products run on, and the flags of /proc/cpuinfo that tell it
    "AVX2": {"avx2"},
    "AVX-512": {"avx512f"},
    "VNNI": {"avx512_vnni", "avx_vnni"},
    "BF16": {"avx512_bf16", "amx_bf16"},
}


class Machine(NamedTuple):
    """The hardware and software versions of a measurement."""

    chip: str
    features: tuple[str, ...]  # of FEATURES
    cores: int
    load: float  # processes that wanted to run during the last minute, as the benchmark began
    python: str
    torch: str

    @property
    def slug(self) -> str:
        """The chip and its features as part of a file name."""
        words = re.findall(r"[a-z0-9]+", self.chip.lower())
        return "-".join([*words, *(feature.lower().replace("-", "") for feature in self.features)])

    def described(self) -> str:
        """The machine in one line."""
        features = ", ".join(f"{name} {'yes' if name in self.features else 'no'}" for name in FEATURES)
        return (
            f"{self.chip} ({features}), {self.cores} cores, load {self.load:.1f}; "
            f"Python {self.python}, torch {self.torch}"
        )


def this_machine() -> Machine:
    """The machine this process runs on."""
    text = CPU_INFO.read_text(encoding="utf-8") if CPU_INFO.exists() else ""
    chip, features = parse_cpu_info(text)
    return Machine(
        chip or platform.processor() or platform.machine(),
        features,
        os.cpu_count() or 1,
        os.getloadavg()[0],
        platform.python_version(),
        metadata.version("torch"),
    )


def parse_cpu_info(text: str) -> tuple[str, tuple[str, ...]]:
    """The chip's name and which of FEATURES it has, from the text of /proc/cpuinfo."""
    fields = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", text, flags=re.MULTILINE))
    flags = set(fields.get("flags", "").split())
    return fields.get("model name", "").strip(), tuple(name for name, any_of in FEATURES.items() if any_of & flags)
