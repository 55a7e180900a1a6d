"""The floor of some work, a lower bound on its time: unavoidable operations ÷ the chip's peak rate for such products.

A speed of 60 % of the floor means that a perfect implementation with these product kernels would take 60 % of the time.
"""

import json
import os
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.errors import ContenderError
from benchmarks.operations import Operations
from benchmarks.source_trees import REPOSITORY, THREAD_VARIABLES

PRECISIONS = ("float32", "bfloat16", "int8")


class Floor(NamedTuple):
    """The highest speed that matrix products allow: `amount` units (tokens, sentences) take `flops` operations."""

    flops: float
    amount: float
    peaks: dict[str, float]  # operations per second, by type

    def speed(self, precision: str = "float32") -> float:
        """The highest possible speed, in units per second."""
        return self.peaks[precision] * self.amount / self.flops

    def share(self, speed: float, *, precision: str = "float32") -> str:
        """A speed as a share of the highest possible speed, such as 57%."""
        return f"{speed / self.speed(precision):.0%}"

    def described(self, unit: str, per: str) -> str:
        """Operations, peaks and floors in one line."""
        peaks = ", ".join(f"{name} {self.peaks[name] / 1e9:,.0f}" for name in PRECISIONS)
        floors = ", ".join(f"{name} {self.speed(name):,.0f}" for name in PRECISIONS)
        return (
            f"{self.flops / self.amount / 1e6:,.1f} MFLOP per {unit}; peak of these products in GFLOP/s: {peaks}; "
            f"floor in {unit}s / {per}: {floors}"
        )


def measure_floor(operations: Operations, *, amount: float, rows: int, threads: int) -> Floor:
    """The floor of `amount` units of work whose products have `rows` rows; a new process measures the chip's peak."""
    products = Counter[tuple[int, int]]()
    for product in operations.products:
        products[product.inner, product.columns] += product.rows  # type: ignore[assignment]
    command = [sys.executable, "-m", "benchmarks.peak", "--rows", str(rows), "--threads", str(threads)]
    command += ["--products", *(f"{inner}x{columns}" for inner, columns in products)]
    command += ["--shares", *(f"{share:.6g}" for share in products.values())]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), **dict.fromkeys(THREAD_VARIABLES, str(threads))}
    ended = subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True)
    if ended.returncode:
        raise ContenderError(f"benchmarks.peak failed\n{ended.stderr}")
    return Floor(operations.flops, amount, json.loads(ended.stdout))


def read_model_config(path: Path) -> tuple[Mapping[str, Any], int] | None:
    """The [model] table of a model folder's config.toml, and the number of target pieces; None without that file."""
    if not path.exists():
        return None
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    vocabulary = values.get("vocabularies", {}).get("target")
    return (values["model"], vocabulary) if "model" in values and vocabulary else None
