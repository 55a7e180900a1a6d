"""The metrics of a run for TensorBoard, in RUN/tensorboard, if training.tensorboard is set."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from calque.errors import ConfigError

FOLDER = "tensorboard"
NOT_SCALARS = ("kind", "step", "best", "averaged")


class TensorBoard:
    """Passes the values in metrics.jsonl on to TensorBoard, named KIND/NAME; does nothing if the folder is None."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._writer: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def begin(self, *, step: int) -> None:
        """Opens the folder; TensorBoard then ignores values written earlier for steps after `step`."""
        if self._folder is None:
            return
        refuse_without_tensorboard()
        from torch.utils.tensorboard.writer import SummaryWriter

        self._writer = SummaryWriter(str(self._folder / FOLDER), purge_step=step + 1)

    def add(self, line: Mapping[str, Any]) -> None:
        """Writes a line of metrics.jsonl."""
        if self._writer is None:
            return
        kind = "averaged" if "averaged" in line else line["kind"]
        for name, value in line.items():
            if name not in NOT_SCALARS:
                self._writer.add_scalar(f"{kind}/{name}", value, line["step"])
        self._writer.flush()


def refuse_without_tensorboard() -> None:
    """Raises a ConfigError if TensorBoard is not installed."""
    try:
        import torch.utils.tensorboard.writer  # noqa: F401
    except ImportError:
        raise ConfigError(
            "training.tensorboard = true needs TensorBoard: pip install tensorboard, or set it to false"
        ) from None
