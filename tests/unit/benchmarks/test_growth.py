"""Exponents of growth, against series whose growth is known, and the points of random models."""

import math
from pathlib import Path

import pytest
from benchmarks import growth
from benchmarks.growth import Point, Setting, exponent, grouped, growth_of, measure_here, operations_of


@pytest.mark.parametrize("power", [-0.5, 0.0, 1.0, 2.0])
def test_an_exponent_is_that_of_the_power_law(power: float) -> None:
    sizes = [8, 16, 64, 1024]
    assert exponent(sizes, [3.5 * size**power for size in sizes]) == pytest.approx(power)


def test_one_point_has_no_exponent() -> None:
    assert math.isnan(exponent([8], [1.0]))


def test_the_end_of_a_series_shows_what_a_constant_hides() -> None:
    points = [Point("length", "decode", size, 100 + size**2, 1000) for size in (1, 10, 100, 1000)]
    found = growth_of(points)
    assert found.seconds < 1.5
    assert found.last_seconds == pytest.approx(2, abs=0.01)
    assert found.peak == found.last_peak == 0
    assert found.operations is None and "arithmetic" not in found.described()


def test_points_are_grouped_by_axis_and_task_and_sorted() -> None:
    points = [Point("beam", "decode", size, 1.0, 1) for size in (4, 1, 2)] + [Point("length", "train", 8, 1.0, 1)]
    groups = grouped(points)
    assert list(groups) == [("beam", "decode"), ("length", "train")]
    assert [point.size for point in groups["beam", "decode"]] == [1, 2, 4]


@pytest.mark.parametrize("task", ["train", "decode"])
def test_random_models_are_measured(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "TOKENS", 16)
    values = measure_here(Setting(task, length=4, beam=2, vocabulary=50))  # type: ignore[arg-type]
    assert 0 < values["seconds"] < 100
    assert values["peak"] > 1e7
    assert values["operations"] > 0


def test_the_exponent_of_the_arithmetic_is_reported() -> None:
    points = [Point("length", "decode", size, size, 1, size**1.5) for size in (1, 10, 100)]
    assert growth_of(points).operations == pytest.approx(1.5)
    assert "arithmetic n^1.50 (n^1.50 at the end)" in growth_of(points).described()


def test_arithmetic_grows_with_beam_and_vocabulary_no_faster_than_linearly_and_with_length_up_to_its_square() -> None:
    def last(axis: growth.AxisName, task: growth.TaskName, *sizes: int) -> float:
        points = [Point(axis, task, size, 1.0, 1, operations_of(Setting(task, **{axis: size}))) for size in sizes]
        exponent = growth_of(points).last_operations
        assert exponent is not None
        return exponent

    assert last("beam", "decode", 32, 64) == pytest.approx(1, abs=0.05)
    assert last("vocabulary", "train", 10**6, 2 * 10**6) == pytest.approx(1, abs=0.05)
    assert 1 < last("length", "train", 32, 64) < last("length", "train", 4096, 8192) < 2


def test_a_figure_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    points = [Point("beam", "decode", size, size * 0.1, 10**8) for size in (1, 2, 4)]
    growth.draw(points, path=tmp_path / "growth.png")
    assert (tmp_path / "growth.png").stat().st_size > 10_000


def test_a_missing_folder_is_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert growth.main(["--axes", "beam", "--figure", "no/where.png"]) == 2
    assert "--figure no/where.png: no such folder" in capsys.readouterr().err
