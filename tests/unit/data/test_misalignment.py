"""Shifts: found where lines were moved, never where lengths say little or the nature of a corpus looks like one."""

from math import log, pi

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calque.data import misalignment as module
from calque.data.corpora import FilesConfig, TsvConfig
from calque.data.misalignment import LineLengths, Shift, by_line, find_shifts

CORPUS = FilesConfig(source="a.en", target="a.de")


def corpus(lines: int, *, seed: int = 0, noise: float = 0.2):
    """[lines,2], targets about as long as their sources; the more noise the less."""
    generator = np.random.default_rng(seed)
    source = generator.normal(3.5, 0.5, lines)
    target = source + 0.1 + generator.normal(0, noise, lines)
    return np.maximum(1, np.exp(np.stack([source, target], axis=1))).astype(np.uint16)


def moved(lengths, *, by: int, start: int, stop: int, seed: int = 0):
    """The target of lines `start` to `stop` moved by some lines: as many are lost as come in."""
    target, count = lengths[:, 1], abs(by)
    extra = np.random.default_rng(seed).choice(target, count)
    middle = [extra, target[start : stop - count]] if by > 0 else [target[start + count : stop], extra]
    return np.stack([lengths[:, 0], np.concatenate([target[:start], *middle, target[stop:]])], axis=1)


@settings(max_examples=40, deadline=None)
@given(
    by=st.integers(-5, 5).filter(bool),
    start=st.integers(300, 1700),
    size=st.integers(400, 900),
    seed=st.integers(0, 99),
)
def test_a_shift_is_found_and_placed(by, start, size, seed):
    (found,) = find_shifts(moved(corpus(3000, seed=seed), by=by, start=start, stop=start + size, seed=seed))
    assert found.by == by
    assert found.is_proven
    assert abs(found.first - 1 - start) <= 40
    assert abs(found.last - start - size) <= 40


def test_places_are_exact_where_lengths_are():
    lengths = corpus(2000, noise=0)
    for by in (-1, 1):
        (found,) = find_shifts(moved(lengths, by=by, start=700, stop=1500))
        assert found.by == by
        assert found.first - 701 in (0, 1), "a line that was lost fits nowhere"
        assert found.last - 1500 in (0, -1)


def test_lengths_that_are_like_their_neighbours_tell_too_little():
    """Lines of nearly the same length stand together, as in chapters: a line more or less is hardly seen in them."""
    generator = np.random.default_rng(0)
    smooth = np.convolve(generator.normal(size=6005), np.ones(6), "valid") / 6**0.5
    target = smooth + generator.normal(0, 0.2, len(smooth))
    lengths = np.round(60 * np.exp(0.4 * np.stack([smooth, target], axis=1))).astype(np.uint16)
    assert find_shifts(moved(lengths, by=1, start=2000, stop=4000)) == []


def test_several_shifts_are_told_apart():
    lengths = moved(corpus(6000), by=1, start=1000, stop=2000)
    lengths = moved(lengths, by=-2, start=3000, stop=4000)
    assert [shift.by for shift in find_shifts(lengths)] == [1, -2]
    chained = corpus(4000)
    target = np.concatenate([chained[:1000, 1], chained[1001:2500, 1], chained[2501:, 1], chained[:2, 1]])
    found = find_shifts(np.stack([chained[:, 0], target], axis=1))
    assert [(shift.by, round(shift.first, -2), round(shift.last, -2)) for shift in found] == [
        (-1, 1000, 2500),
        (-2, 2500, 4000),
    ]


def test_where_nothing_fits_as_it_stands_nothing_is_proven():
    lengths = corpus(2000)
    assert find_shifts(moved(lengths, by=-1, start=0, stop=2000)) == [Shift(1, 2000, -1, is_proven=False)]


def natural(kind: str, lines: int, seed: int):
    """Corpora with nothing wrong, whatever their lengths look like."""
    generator = np.random.default_rng(seed)
    sound = corpus(lines, seed=seed, noise=float(generator.choice([0.0, 0.1, 0.3, 1.0])))
    other = generator.permutation(sound)
    match kind:
        case "aligned":
            return sound
        case "sorted":
            return sound[np.argsort(sound[:, seed % 2], kind="stable")]
        case "sorted apart":
            return np.sort(sound, axis=0)
        case "unrelated":
            return np.stack([sound[:, 0], other[:, 1]], axis=1)
        case "a third unrelated":
            third = (np.arange(lines) // max(1, lines // 3) == 1)[:, None]
            return np.where(third, np.stack([sound[:, 0], other[:, 1]], axis=1), sound)
        case "words":
            return generator.integers(2, 6, (lines, 2)).astype(np.uint16)
        case "all the same":
            return np.full((lines, 2), 7, dtype=np.uint16)
        case "repeated":
            return np.repeat(sound, 3, axis=0)
        case "filtered":
            return sound * (generator.random(lines) < 0.6)[:, None].astype(np.uint16)
        case "every second line empty":
            return sound * (np.arange(lines) % 2)[:, None].astype(np.uint16)
        case "both directions":
            return np.stack([sound, 2 * sound[:, ::-1]], axis=1).reshape(-1, 2)
        case "answers":
            return np.stack([sound[:-1, 0], sound[1:, 0]], axis=1)
        case "translations, then answers":
            return np.concatenate([sound, np.stack([sound[:-1, 0], sound[1:, 0]], axis=1)])
        case "answers to two lines":
            return np.stack([sound[:-2, 0] + sound[1:-1, 0], sound[2:, 0]], axis=1)
        case "copies":
            return sound[:, [0, 0]]
        case _:
            steps = np.cumsum(generator.normal(0, 0.2, (lines, 2)), axis=0)
            drifting = np.exp(np.clip(3.5 + steps - steps.mean(axis=0), 0, 8)).astype(np.uint16)
            return np.concatenate([sound, drifting])


NATURAL = (
    "aligned",
    "sorted",
    "sorted apart",
    "unrelated",
    "a third unrelated",
    "words",
    "all the same",
    "repeated",
    "filtered",
    "every second line empty",
    "both directions",
    "answers",
    "translations, then answers",
    "answers to two lines",
    "copies",
    "drifting",
)


@pytest.mark.parametrize("kind", NATURAL)
@settings(max_examples=25, deadline=None)
@given(lines=st.sampled_from([3, 50, 300, 1024, 1030, 2500]), seed=st.integers(0, 10_000))
def test_nothing_is_found_where_nothing_is_wrong(kind, lines, seed):
    assert find_shifts(natural(kind, lines, seed)) == []


@given(st.lists(st.tuples(st.integers(0, 65_535), st.integers(0, 65_535)), max_size=60))
def test_any_few_lines_give_nothing(rows):
    assert find_shifts(np.array(rows, dtype=np.uint16).reshape(-1, 2)) == []


def test_lines_without_a_pair_do_not_hide_a_shift():
    lengths = moved(corpus(3000), by=1, start=1000, stop=2000)
    lengths[np.random.default_rng(1).random(3000) < 0.2] = 0
    (found,) = find_shifts(lengths)
    assert (found.by, found.is_proven) == (1, True)


def test_what_is_found_does_not_depend_on_the_chunks(monkeypatch):
    lengths = moved(corpus(5000, noise=0.4), by=2, start=1000, stop=4000)
    expected = find_shifts(lengths)
    monkeypatch.setattr(module, "_CHUNK", 4 * module._CELL)
    assert find_shifts(lengths) == expected != []


def test_a_contrast_is_the_log_ratio_of_two_gaussian_pairs():
    lengths = corpus(200)
    lines = module._Lines(lengths, tuple(module._normal_scores(lengths, side=side) for side in (0, 1)))
    lines.correlation = 0.6

    def log_density(a: float, b: float) -> float:
        inverse = np.linalg.inv(covariance := np.array([[1, 0.6], [0.6, 1]]))
        return -0.5 * np.array([a, b]) @ inverse @ np.array([a, b]) - log(2 * pi) - 0.5 * log(np.linalg.det(covariance))

    source, targets = lines.scores(0, 200)
    found = lines.contrasts(0, 200)
    for line in range(20, 60):
        for by in (-3, 1, 10):
            a, b = float(source[line]), float(targets[line, by + module._REACH])
            assert b == pytest.approx(float(targets[line + by, module._REACH]))
            aligned = float(targets[line, module._REACH])
            alone = -0.5 * (b**2 - aligned**2)  # how likely the targets are by themselves
            ratio = log_density(a, b) - log_density(a, aligned) - alone
            assert found[line, by + module._REACH] == pytest.approx(np.clip(ratio, -4, 4), abs=1e-4)


class Said(module._Lines):
    """Lines that say what a test wants."""

    def __init__(self, contrasts) -> None:
        self._said = contrasts

    def __len__(self) -> int:
        return len(self._said)

    def contrasts(self, start, stop):
        return self._said[start:stop]


@given(st.integers(0, 1000), st.integers(1, 12))
def test_the_path_is_the_best_of_all(seed, cells):
    generator = np.random.default_rng(seed)
    cell, states = module._CELL, 2 * module._REACH + 1
    said = generator.normal(0, 3, (cell * cells, states))
    said[:, module._REACH] = 0
    best = [(0.0 if state == module._REACH else -module._PRICE) for state in range(states)]
    for place in range(cells):
        sums = said[place * cell : (place + 1) * cell].sum(axis=0)
        came = [max(best[old] - module._PRICE * (old != new) for old in range(states)) for new in range(states)]
        best = [came[state] + sums[state] for state in range(states)]
    path = module._path(Said(said))
    total = sum(said[each.start : each.stop, each.by + module._REACH].sum() for each in path)
    changes = sum(one.by != other.by for one, other in zip([module._Stretch(0, 0, 0), *path[:-1]], path, strict=True))
    assert (path[0].start, path[-1].stop) == (0, cell * cells)
    assert total - module._PRICE * changes == pytest.approx(max(best))


def test_what_is_found_is_said_with_the_lines():
    lengths = LineLengths()
    for part in np.array_split(moved(corpus(3000), by=-2, start=1000, stop=3000), 7):
        lengths.add(part)
    (problem,), none = lengths.doubts(CORPUS, shifted="fail")
    assert not none
    lines = problem.splitlines()
    assert lines[0] == "a.en + a.de: source and target do not line up, by the lengths of their lines:"
    assert lines[1].startswith("  from about line 1,0")
    assert lines[1].endswith(" to the end targets come 2 lines too early: source line n fits target line n - 2")
    assert "data.shifted=warn" in lines[2]
    none, (warning,) = lengths.doubts(CORPUS, shifted="warn")
    assert not none
    assert warning.splitlines()[:2] == lines[:2]
    assert "data.shifted" not in warning


def test_what_is_not_proven_is_never_refused():
    lengths = LineLengths()
    lengths.add(moved(corpus(3000), by=1, start=0, stop=3000))
    none, (warning,) = lengths.doubts(TsvConfig(path="a.tsv"), shifted="fail")
    assert not none
    assert "from line 1 to the end targets come 1 line too late" in warning
    assert "no lines fit as they stand" in warning


def test_no_lines_no_doubts():
    assert LineLengths().doubts(CORPUS, shifted="fail") == ([], [])


def test_lengths_stand_at_their_lines():
    found = by_line(np.array([3, 70_000]), target=np.array([4, 5]), lines=np.array([11, 13]), first=10, count=5)
    assert found.tolist() == [[0, 0], [3, 4], [0, 0], [65_535, 5], [0, 0]]
