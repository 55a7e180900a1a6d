"""The command `calque doctor`, which shows versions, devices and missing packages."""

import importlib.metadata
import os
import platform
from typing import Annotated

import typer

from calque import __version__

CORE = ("torch", "numpy", "sentencepiece", "safetensors", "sacrebleu", "pydantic", "typer", "rich")
EXTRAS = {
    "plots": ("matplotlib",),
    "tensorboard": ("tensorboard",),
    "zstd": ("zstandard",),
    "speech": ("soundfile",),
    "images": ("pillow",),
    "summaries": ("rouge-score",),
}


def doctor(
    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="Also measure training speed with different numbers of CPU threads, and print which is fastest.",
        ),
    ] = False,
) -> None:
    """Show versions, devices, threads and missing packages. The exit code is 1 if a core package is missing.

    With --tune, a small Transformer is trained for a few seconds with each number of CPU threads. Run it while the
    machine is as busy as it will be during training: if other processes run, fewer threads are often faster.

    Examples:

        calque doctor

        calque doctor --tune
    """
    typer.echo(f"calque {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    missing = [name for name in CORE if _version(name) is None]
    for name in CORE:
        typer.echo(f"  {name:15} {_version(name) or f'MISSING: pip install {name}'}")
    typer.echo("extras:")
    for extra, names in EXTRAS.items():
        absent = [name for name in names if _version(name) is None]
        state = f"missing: pip install {' '.join(absent)}" if absent else "installed"
        typer.echo(f"  {extra:15} {state}")
    if "torch" not in missing:
        _show_devices()
    if tune and not missing:
        _show_speeds()
    raise typer.Exit(code=1 if missing else 0)


def _show_devices() -> None:
    import torch

    from calque.native.library import compiled

    typer.echo("devices:")
    features = torch.backends.cpu.get_cpu_capability()
    typer.echo(f"  cpu             {os.cpu_count()} cores, {torch.get_num_threads()} threads, {features}")
    typer.echo(f"  CPU kernels     {compiled()}")
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(number)
            typer.echo(f"  cuda:{number}          {properties.name}, {properties.total_memory / 2**30:.0f} GiB")
    else:
        typer.echo("  cuda            none")
    typer.echo(f"  mps             {'available' if torch.backends.mps.is_available() else 'none'}")


def _show_speeds() -> None:
    from calque.training.thread_tuning import SECONDS, best_count, measure_threads, thread_counts, usable_cores

    counts = thread_counts(usable_cores())
    typer.echo(f"training a small Transformer, {SECONDS:g} s per number of threads:")
    speeds = measure_threads(counts, seconds=SECONDS)
    best = best_count(speeds)
    for count, speed in speeds.items():
        typer.echo(f"  {count:3} thread{'s' if count > 1 else ' '}     {speed:,.0f} target tokens per second")
    typer.echo(f"fastest with: calque train ... training.threads={best}")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
