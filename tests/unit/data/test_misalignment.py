"""Shifts: found where lines were moved, never where lengths are uninformative or a sound corpus resembles a shift."""

from itertools import pairwise
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
    """[lines,2], targets about as long as their sources, up to noise."""
    generator = np.random.default_rng(seed)
    source = generator.normal(3.5, 0.5, lines)
    target = source + 0.1 + generator.normal(0, noise, lines)
    return np.maximum(1, np.exp(np.stack([source, target], axis=1))).astype(np.uint16)


def shifted(lengths, *, by: int, start: int, stop: int, seed: int = 0):
    """The targets of lines `start` to `stop` shifted by some lines: as many are lost as inserted."""
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
def test_a_shift_is_found_and_located(by, start, size, seed):
    (shift,) = find_shifts(shifted(corpus(3000, seed=seed), by=by, start=start, stop=start + size, seed=seed))
    assert shift.by == by
    assert shift.is_proven
    assert abs(shift.first - 1 - start) <= 40
    assert abs(shift.last - start - size) <= 40


def test_locations_are_exact_if_lengths_are():
    lengths = corpus(2000, noise=0)
    for by in (-1, 1):
        (shift,) = find_shifts(shifted(lengths, by=by, start=700, stop=1500))
        assert shift.by == by
        assert shift.first - 701 in (0, 1), "a lost line matches nothing"
        assert shift.last - 1500 in (0, -1)


def test_lengths_that_resemble_their_neighbours_are_not_enough():
    """Neighbouring lines have similar lengths, as in chapters, so a shift by one line hardly shows."""
    generator = np.random.default_rng(0)
    smooth = np.convolve(generator.normal(size=6005), np.ones(6), "valid") / 6**0.5
    target = smooth + generator.normal(0, 0.2, len(smooth))
    lengths = np.round(60 * np.exp(0.4 * np.stack([smooth, target], axis=1))).astype(np.uint16)
    assert find_shifts(shifted(lengths, by=1, start=2000, stop=4000)) == []


def test_several_shifts_are_distinguished():
    lengths = shifted(corpus(6000), by=1, start=1000, stop=2000)
    lengths = shifted(lengths, by=-2, start=3000, stop=4000)
    assert [shift.by for shift in find_shifts(lengths)] == [1, -2]
    chained = corpus(4000)
    target = np.concatenate([chained[:1000, 1], chained[1001:2500, 1], chained[2501:, 1], chained[:2, 1]])
    shifts = find_shifts(np.stack([chained[:, 0], target], axis=1))
    assert [(shift.by, round(shift.first, -2), round(shift.last, -2)) for shift in shifts] == [
        (-1, 1000, 2500),
        (-2, 2500, 4000),
    ]


def test_without_aligned_lines_no_shift_is_proven():
    lengths = corpus(2000)
    assert find_shifts(shifted(lengths, by=-1, start=0, stop=2000)) == [Shift(1, 2000, -1, is_proven=False)]


def natural(kind: str, lines: int, seed: int):
    """Sound corpora, whatever their lengths look like."""
    generator = np.random.default_rng(seed)
    sound = corpus(lines, seed=seed, noise=float(generator.choice([0.0, 0.1, 0.3, 1.0])))
    permuted = generator.permutation(sound)
    match kind:
        case "aligned":
            return sound
        case "sorted":
            return sound[np.argsort(sound[:, seed % 2], kind="stable")]
        case "sorted apart":
            return np.sort(sound, axis=0)
        case "unrelated":
            return np.stack([sound[:, 0], permuted[:, 1]], axis=1)
        case "a third unrelated":
            third = (np.arange(lines) // max(1, lines // 3) == 1)[:, None]
            return np.where(third, np.stack([sound[:, 0], permuted[:, 1]], axis=1), sound)
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
def test_no_shift_is_found_in_sound_corpora(kind, lines, seed):
    assert find_shifts(natural(kind, lines, seed)) == []


@given(st.lists(st.tuples(st.integers(0, 65_535), st.integers(0, 65_535)), max_size=60))
def test_few_lines_never_give_a_shift(rows):
    assert find_shifts(np.array(rows, dtype=np.uint16).reshape(-1, 2)) == []


def test_lines_without_a_pair_do_not_hide_a_shift():
    lengths = shifted(corpus(3000), by=1, start=1000, stop=2000)
    lengths[np.random.default_rng(1).random(3000) < 0.2] = 0
    (shift,) = find_shifts(lengths)
    assert (shift.by, shift.is_proven) == (1, True)


def test_shifts_do_not_depend_on_the_chunk_size(monkeypatch):
    lengths = shifted(corpus(5000, noise=0.4), by=2, start=1000, stop=4000)
    expected = find_shifts(lengths)
    monkeypatch.setattr(module, "_CHUNK", 4 * module._CELL)
    assert find_shifts(lengths) == expected != []


def test_a_contrast_is_the_log_likelihood_ratio_of_two_bivariate_gaussians():
    lengths = corpus(200)
    lines = module._Lines(lengths, tuple(module._z_scores(lengths, side=side) for side in (0, 1)))
    lines.correlation = 0.6

    def log_density(a: float, b: float) -> float:
        inverse = np.linalg.inv(covariance := np.array([[1, 0.6], [0.6, 1]]))
        return -0.5 * np.array([a, b]) @ inverse @ np.array([a, b]) - log(2 * pi) - 0.5 * log(np.linalg.det(covariance))

    source, targets = lines.scores(0, 200)
    contrasts = lines.contrasts(0, 200)
    for line in range(20, 60):
        for by in (-3, 1, 10):
            a, b = float(source[line]), float(targets[line, by + module._REACH])
            assert b == pytest.approx(float(targets[line + by, module._REACH]))
            aligned = float(targets[line, module._REACH])
            marginal = -0.5 * (b**2 - aligned**2)  # log ratio of the targets' marginal densities
            ratio = log_density(a, b) - log_density(a, aligned) - marginal
            assert contrasts[line, by + module._REACH] == pytest.approx(np.clip(ratio, -4, 4), abs=1e-4)


class FixedLines(module._Lines):
    """Lines with prescribed contrasts."""

    def __init__(self, contrasts) -> None:
        self._contrasts = contrasts

    def __len__(self) -> int:
        return len(self._contrasts)

    def contrasts(self, start, stop):
        return self._contrasts[start:stop]


@given(st.integers(0, 1000), st.integers(1, 12))
def test_the_path_is_optimal(seed, cells):
    generator = np.random.default_rng(seed)
    cell, states = module._CELL, 2 * module._REACH + 1
    contrasts = generator.normal(0, 3, (cell * cells, states))
    contrasts[:, module._REACH] = 0
    best = [(0.0 if state == module._REACH else -module._PRICE) for state in range(states)]
    for index in range(cells):
        sums = contrasts[index * cell : (index + 1) * cell].sum(axis=0)
        previous = [max(best[old] - module._PRICE * (old != new) for old in range(states)) for new in range(states)]
        best = [previous[state] + sums[state] for state in range(states)]
    path = module._path(FixedLines(contrasts))
    total = sum(contrasts[stretch.start : stretch.stop, stretch.by + module._REACH].sum() for stretch in path)
    changes = sum(before.by != after.by for before, after in pairwise([module._Stretch(0, 0, 0), *path]))
    assert (path[0].start, path[-1].stop) == (0, cell * cells)
    assert total - module._PRICE * changes == pytest.approx(max(best))


def test_shifts_are_reported_with_their_lines():
    lengths = LineLengths()
    for part in np.array_split(shifted(corpus(3000), by=-2, start=1000, stop=3000), 7):
        lengths.add(part)
    (problem,), none = lengths.doubts(CORPUS, shifted="fail")
    assert not none
    lines = problem.splitlines()
    assert lines[0] == "a.en + a.de: source and target are misaligned, judging by the lengths of their lines:"
    assert lines[1].startswith("  from about line 1,0")
    assert lines[1].endswith(" to the end targets come 2 lines too early: source line n matches target line n - 2")
    assert "data.shifted=warn" in lines[2]
    none, (warning,) = lengths.doubts(CORPUS, shifted="warn")
    assert not none
    assert warning.splitlines()[:2] == lines[:2]
    assert "data.shifted" not in warning


def test_an_unproven_shift_is_never_rejected():
    lengths = LineLengths()
    lengths.add(shifted(corpus(3000), by=1, start=0, stop=3000))
    none, (warning,) = lengths.doubts(TsvConfig(path="a.tsv"), shifted="fail")
    assert not none
    assert "from line 1 to the end targets come 1 line too late" in warning
    assert "no other lines are aligned" in warning


def test_an_empty_corpus_raises_no_doubts():
    assert LineLengths().doubts(CORPUS, shifted="fail") == ([], [])


def test_lengths_are_stored_by_line():
    lengths = by_line(np.array([3, 70_000]), target=np.array([4, 5]), lines=np.array([11, 13]), first=10, count=5)
    assert lengths.tolist() == [[0, 0], [3, 4], [0, 0], [65_535, 5], [0, 0]]
