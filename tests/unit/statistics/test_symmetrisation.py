"""Symmetrisation against Koehn's pseudo-code, written down as it stands, on random alignments."""

from random import Random

import pytest

from calque.statistics.symmetrisation import SYMMETRISATIONS, Link, symmetrise

NEIGHBOURING = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]


def pseudo_code(forward: set[Link], backward: set[Link], *, sources: int, targets: int, final: bool) -> set[Link]:
    """GROW-DIAG-FINAL-AND over a matrix; e is a target word, f a source word."""
    union = [[(f, e) in forward | backward for f in range(sources)] for e in range(targets)]
    matrix = [[(f, e) in forward & backward for f in range(sources)] for e in range(targets)]

    def is_aligned_target(e: int) -> bool:
        return any(matrix[e])

    def is_aligned_source(f: int) -> bool:
        return any(row[f] for row in matrix)

    added = True
    while added:
        added = False
        for e in range(targets):
            for f in range(sources):
                if matrix[e][f]:
                    for step_e, step_f in NEIGHBOURING:
                        e_new, f_new = e + step_e, f + step_f
                        if not (0 <= e_new < targets and 0 <= f_new < sources):
                            continue
                        if not (is_aligned_target(e_new) and is_aligned_source(f_new)) and union[e_new][f_new]:
                            matrix[e_new][f_new] = added = True
    for directed in (forward, backward) if final else ():
        for e in range(targets):
            for f in range(sources):
                if not is_aligned_target(e) and not is_aligned_source(f) and (f, e) in directed:
                    matrix[e][f] = True
    return {(f, e) for e in range(targets) for f in range(sources) if matrix[e][f]}


def random_alignments(random: Random) -> tuple[set[Link], set[Link], int, int]:
    sources, targets = random.randint(1, 7), random.randint(1, 7)
    forward = {(random.randrange(sources), e) for e in range(targets) if random.random() < 0.8}
    backward = {(f, random.randrange(targets)) for f in range(sources) if random.random() < 0.8}
    return forward, backward, sources, targets


def test_growing_is_as_in_the_pseudo_code(seed: int) -> None:
    random = Random(seed)
    differ = 0
    for _ in range(1000):
        forward, backward, sources, targets = random_alignments(random)
        grown = symmetrise(forward, backward, method="grow-diag")
        final = symmetrise(forward, backward, method="grow-diag-final-and")
        assert grown == pseudo_code(forward, backward, sources=sources, targets=targets, final=False)
        assert final == pseudo_code(forward, backward, sources=sources, targets=targets, final=True)
        assert forward & backward <= grown <= final <= forward | backward
        differ += forward & backward != grown != final != forward | backward
    assert differ > 50


def test_the_other_methods() -> None:
    forward, backward = {(0, 0), (1, 1)}, {(0, 0), (2, 1)}
    assert symmetrise(forward, backward, method="forward") == forward
    assert symmetrise(forward, backward, method="backward") == backward
    assert symmetrise(forward, backward, method="intersection") == {(0, 0)}
    assert symmetrise(forward, backward, method="union") == {(0, 0), (1, 1), (2, 1)}


@pytest.mark.parametrize("method", SYMMETRISATIONS)
def test_two_equal_alignments_stay_as_they_are(method: str) -> None:
    links = {(0, 1), (1, 0), (3, 3)}
    assert symmetrise(links, links, method=method) == links  # type: ignore[arg-type]
    assert symmetrise(set(), set(), method=method) == set()  # type: ignore[arg-type]
