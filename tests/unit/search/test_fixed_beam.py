"""Beam search on tensors of fixed shape: its sizes. That it finds what the reference finds is a law."""

from calque.search.fixed_beam import STEPS, room_for, usual_size


def test_usual_sizes_are_few_and_waste_at_most_a_third() -> None:
    sizes = sorted({usual_size(number) for number in range(1, 1000)})
    assert sizes == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024]
    assert all(number <= usual_size(number) < 1.5 * number for number in range(2, 1000))


def test_there_is_room_for_one_and_a_half_times_the_source_but_not_beyond_the_maximum() -> None:
    assert room_for(20, longest=1000) == 48 + STEPS  # 34 tokens, the next usual size
    assert room_for(20, longest=7) == 8 + STEPS
    assert room_for(1, longest=1) >= 1 + STEPS
