"""The model of training on many GPUs agrees with what was measured and with its limits."""

import itertools

import pytest
from benchmarks.scale import COUNTS, MODELS, Network, main, point, seconds, sent_bytes

NETWORK = Network(200e9, 50e9)


@pytest.mark.parametrize(("ranks", "measured"), [(2, 20.03e6), (4, 30.04e6)])
def test_bytes_are_those_that_were_counted_on_loopback(ranks: int, measured: float) -> None:
    """`python -m benchmarks.ranks` with 5 million parameters; benchmarks/README.md, 2026-11-15."""
    assert sent_bytes(ranks, 5e6) == pytest.approx(measured, rel=0.002)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_limits(model) -> None:
    points = [point(model, gpus, NETWORK) for gpus in COUNTS]
    assert points[0].replicated == points[0].sharded == 0 and points[0].speed == pytest.approx(model.speed)
    assert all(before.speed < after.speed for before, after in itertools.pairwise(points))
    assert all(each.speed <= each.gpus * model.speed for each in points)
    assert all(each.sharded_bytes < each.replicated_bytes for each in points[1:])
    assert all(each.sharded > each.replicated for each in points[1:])
    free = point(model, 1024, Network(1e30, 1e30))
    assert free.speed == pytest.approx(1024 * model.speed, rel=0.01)  # latency is left


def test_a_slow_network_counts_only_between_machines() -> None:
    slow = Network(200e9, 1e9)
    assert seconds(8, 1e9, slow) == seconds(8, 1e9, NETWORK) < seconds(16, 1e9, NETWORK) < seconds(16, 1e9, slow)


def test_rings_are_faster_for_much_data_and_trees_for_many_ranks() -> None:
    ring = 1e9 / 200e9 + 2 * 7 * 5e-6
    assert seconds(8, 1e9, NETWORK) == pytest.approx(ring)
    tree = 1e3 / (0.9 * 50e9) + 2 * 10 * 15e-6
    assert seconds(1024, 1e3, NETWORK) == pytest.approx(tree)
    assert seconds(1024, 1e3, NETWORK, calls=3) == pytest.approx(3 * tree, rel=0.01)


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    assert main(["--figure", str(tmp_path / "scale.png")]) == 0
    out = capsys.readouterr().out
    assert "a model, not a measurement" in out and "1,024" in out
    assert (tmp_path / "scale.png").stat().st_size > 10_000
    assert main(["--network", "0"]) == main(["--inside", "nan"]) == 2
