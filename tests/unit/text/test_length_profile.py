"""Target limits by source length, against the definition in plain Python."""

import math
import random

import numpy as np
import pytest

from calque.text.length_profile import LengthProfile, TargetLimit, target_limits


@pytest.mark.parametrize("pairs", [1, 7, 3000])
def test_limits_allow_all_but_one_in_a_thousand_targets_and_grow_with_the_source(pairs: int, seed: int) -> None:
    generator = random.Random(seed)
    source = [generator.randint(1, 90) for _ in range(pairs)]
    target = [max(0, round(length * generator.lognormvariate(0, 0.4))) for length in source]
    limits = target_limits(np.array(source, dtype=np.uint32), np.array(target, dtype=np.uint32))
    bounds = [limit.source for limit in limits]
    assert bounds == sorted(set(bounds)) and bounds[-1] >= max(source)
    longest = 0
    for shorter, limit in zip([0, *bounds], limits, strict=False):
        targets = sorted(t for s, t in zip(source, target, strict=True) if shorter < s <= limit.source)
        if not targets:
            continue
        longest = max(longest, targets[math.ceil(0.999 * len(targets)) - 1])
        assert limit.target == math.ceil(1.25 * longest) + 5


def test_a_limit_is_that_of_the_next_longer_bin_and_grows_in_proportion_beyond_the_last() -> None:
    profile = LengthProfile(9, 1, (TargetLimit(2, 7), TargetLimit(8, 15)))
    assert [profile.longest_target(pieces) for pieces in (1, 2, 3, 8, 9, 16)] == [7, 7, 15, 15, 17, 30]
    assert LengthProfile(9, 1).longest_target(4) is None


def test_bins_without_pairs_have_the_limit_of_longer_sources() -> None:
    limits = target_limits(np.array([1, 40]), np.array([2, 50]))
    assert LengthProfile(1, 1, limits).longest_target(20) == math.ceil(1.25 * 50) + 5
