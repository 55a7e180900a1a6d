"""The device that a model runs on, and the precision that it computes in."""

import gc
import platform
from pathlib import Path
from typing import Literal, get_args

_is_collecting = gc.isenabled()
gc.disable()  # torch creates objects by the hundred thousand as it is imported, none of them garbage
try:
    import torch
finally:
    if _is_collecting:
        if gc.get_freeze_count() < 1000:  # a process that froze its objects keeps them so; Python itself freezes a few
            gc.freeze()
            gc.unfreeze()  # into the oldest generation at once, instead of two collections that search for garbage
        gc.enable()

from calque.errors import ConfigError  # noqa: E402

DeviceName = Literal["auto", "cpu", "cuda", "mps"]
PrecisionName = Literal["auto", "float32", "bfloat16", "float64", "int8"]
DEVICES: tuple[DeviceName, ...] = get_args(DeviceName)
PRECISIONS: tuple[PrecisionName, ...] = get_args(PrecisionName)
_OUT_OF_MEMORY = (  # whole messages of oneDNN and C++: "could not create a primitive descriptor" is another error
    "could not create a primitive",
    "could not execute a primitive",
    "std::bad_alloc",
)
_OUT_OF_MEMORY_PARTS = ("can't allocate memory", "not enough memory", "STATUS_ALLOC_FAILED")  # the last: cuBLAS, cuDNN


def choose_device(name: DeviceName) -> torch.device:
    """The device of this name; `auto` selects the best one available."""
    if (name == "cuda" and not torch.cuda.is_available()) or (name == "mps" and not torch.backends.mps.is_available()):
        raise ConfigError(f"device: {name} is not available on this machine or in this build of torch; use auto or cpu")
    best = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    device = torch.device(best if name == "auto" else name)
    if device.type == "cuda":  # cuDNN's attention builds a plan per shape, half a second each; other backends need none
        torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def choose_precision(name: PrecisionName, *, device: torch.device) -> torch.dtype:
    """The dtype of this name. Raises a ConfigError if the device does not support it.

    With int8, large products are computed in 8 bits (see `layers.int8`), and everything else in float32. With auto,
    everything is in float32. Probabilities are always normalised in at least float32.
    """
    if name == "int8" and device.type != "cpu":
        raise ConfigError(
            f"precision: int8 works only on CPUs, but the device is {device.type}; use bfloat16, or device cpu"
        )
    if name == "int8" and not multiplies_int8():
        raise ConfigError("precision: this build of torch has no 8-bit matrix products (oneDNN); use float32")
    if name == "float64" and device.type == "mps":
        raise ConfigError("precision: mps does not support float64; use float32, or device cpu")
    dtypes = {"bfloat16": torch.bfloat16, "float64": torch.float64}
    return dtypes.get(name, torch.float32)


def multiplies_int8() -> bool:
    """Whether torch has 8-bit matrix products for the CPU."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.onednn, "qlinear_pointwise")  # type: ignore[no-untyped-call]


def machine(device: str) -> str:
    """The hardware that numerical results depend on: the GPU's name, or the CPU's architecture and instruction set."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    return f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"


def multiplies_bfloat16() -> bool:
    """Whether the CPU has instructions for bfloat16 products. Without them, such products are many times slower."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    features = Path("/proc/cpuinfo")
    return " bf16" in features.read_text(encoding="utf-8", errors="replace") if features.exists() else False


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out. Most allocators report that as a plain RuntimeError."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    message = str(error)
    return message in _OUT_OF_MEMORY or any(part in message for part in _OUT_OF_MEMORY_PARTS)
