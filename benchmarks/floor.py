"""The floor of a figure: operations that cannot be avoided ÷ what the chip does per second in such products.

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
    """The most that products allow: `amount` units (tokens, sentences) take `flops` operations."""

    flops: float
    amount: float
    peaks: dict[str, float]  # operations per second, by type

    def speed(self, precision: str = "float32") -> float:
        """Units per second."""
        return self.peaks[precision] * self.amount / self.flops

    def share(self, speed: float, *, precision: str = "float32") -> str:
        """The part of the floor that a speed reaches, such as 57%."""
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
    """The floor of `amount` units of some work, whose products have `rows` rows; measured in a process of its own."""
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
    """[model] of a model folder's config.toml and the number of target pieces; None where there is no such file."""
    if not path.exists():
        return None
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    vocabulary = values.get("vocabularies", {}).get("target")
    return (values["model"], vocabulary) if "model" in values and vocabulary else None
