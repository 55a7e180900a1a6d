"""What the fault tests share: the warm process, each family's scene, and the figures they leave."""

from collections.abc import Callable, Iterator
from functools import cache

import pytest

from tests.faults.runs import Scene, Warm, make_scene

Figure = Callable[..., None]


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    """`warm("train", "--resume", run, fault=...)` runs a command in a fork."""
    with Warm() as process:
        yield process


@pytest.fixture(scope="session")
def scene(warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Scene]:
    """The scene of a family, made once; copy it before use."""

    @cache
    def make(family: str) -> Scene:
        return make_scene(warm, tmp_path_factory.mktemp(family), family)

    return make


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Figure:
    """`figure(what, family, tried=..., held=...)`: counted in the table that pytest prints at its end."""

    def record(what: str, family: str, *, tried: int, held: int) -> None:
        record_property("fault", [what, family, tried, held])

    return record
