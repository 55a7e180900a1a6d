"""What several tests of commands translate."""

from pathlib import Path

import pytest

LINES = ["a b c", "", "h g f e", "b b a", "c d e f g"]


@pytest.fixture
def sentences(tmp_path: Path) -> Path:
    """A file of LINES."""
    path = tmp_path / "input"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path
