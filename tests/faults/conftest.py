"""What the fault tests share: the warm process, each family's scene, and the table of what held."""

from collections.abc import Callable, Iterator
from functools import cache

import pytest

from tests.faults import tracing
from tests.faults.runs import Scene, Warm, make_scene

Scenes = Callable[[str], Scene]
Tally = Callable[..., None]


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    """`warm("train", "--resume", run, fault=...)` runs a command in a fork."""
    with Warm() as process:
        yield process


@pytest.fixture(scope="session")
def scene(warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> Scenes:
    """The scene of a family, made once; copy it before use."""

    @cache
    def make(family: str) -> Scene:
        return make_scene(warm, tmp_path_factory.mktemp(family), family)

    return make


@pytest.fixture(scope="session")
def strace(tmp_path_factory: pytest.TempPathFactory) -> None:
    """For tests that inject faults below Python."""
    if not tracing.works(tmp_path_factory.mktemp("strace")):
        pytest.skip("strace is not here, or may not inject")


@pytest.fixture
def tally(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Tally:
    """`tally(what, family, tried=..., wrong=...)` counts faults in the table that pytest prints at its end.

    It fails where one of them did harm; `wrong` says which and what. What only a full run tries is counted apart, as a
    sample of it was tried too.
    """
    tier = " (full)" if request.node.get_closest_marker("full") else ""

    def settle(what: str, family: str, *, tried: int, wrong: list[str]) -> None:
        record_property("fault", [f"{what}{tier}", family, tried, max(0, tried - len(wrong))])
        assert tried > 0
        assert wrong == []

    return settle
