"""Every law over every model, in float64 to 1e-9, and once in float32 to 1e-4."""

import pytest
import torch

from tests.laws.laws import LAWS
from tests.laws.models import MODELS, build


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_law(name: str, law: str) -> None:
    LAWS[law](build(name), tolerance=1e-9)


@pytest.mark.parametrize("law", ["chunk", "padding", "row", "sharing", "compaction"])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_law_in_float32(name: str, law: str) -> None:
    LAWS[law](build(name, dtype=torch.float32), tolerance=1e-4)
