"""`calque doctor`."""

import importlib.metadata
import os
import platform

import typer

from calque import __version__

CORE = ("torch", "numpy", "sentencepiece", "safetensors", "sacrebleu", "pydantic", "typer", "rich")
EXTRAS = {"plots": ("matplotlib",), "tensorboard": ("tensorboard",), "zstd": ("zstandard",)}


def doctor() -> None:
    """Show versions, devices, threads and missing packages. Exit code 1 if a core package is missing.

    Example:

        calque doctor
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
    raise typer.Exit(code=1 if missing else 0)


def _show_devices() -> None:
    import torch

    typer.echo("devices:")
    features = torch.backends.cpu.get_cpu_capability()
    typer.echo(f"  cpu             {os.cpu_count()} cores, {torch.get_num_threads()} threads, {features}")
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(number)
            typer.echo(f"  cuda:{number}          {properties.name}, {properties.total_memory / 2**30:.0f} GiB")
    else:
        typer.echo("  cuda            none")
    typer.echo(f"  mps             {'available' if torch.backends.mps.is_available() else 'none'}")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
