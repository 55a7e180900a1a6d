"""Word alignments from attention."""

import torch

from calque.evaluation.alignment import align, pharaoh, words_of


def test_pieces_belong_to_the_most_recently_started_word() -> None:
    assert words_of([True, False, True, False, False, True]) == [0, 0, 1, 1, 1, 2]
    assert words_of([False, False, True]) == [0, 0, 1]
    assert words_of([]) == []


def test_a_target_word_is_linked_by_the_summed_attention_of_its_pieces() -> None:
    attention = torch.tensor(
        [
            [0.1, 0.2, 0.6, 0.1],  # first word
            [0.3, 0.3, 0.3, 0.1],  # second word: 0.3 + 0.0 on the first source word, 0.3 + 0.9 on the second
            [0.0, 0.0, 0.9, 0.1],
            [0.0, 0.0, 0.0, 1.0],  # the end
        ]
    )
    links = align(attention, source_words=[0, 1, 1], target_words=[0, 1, 1])
    assert links == [(1, 0), (1, 1)]


def test_attention_to_the_end_mark_gives_no_link() -> None:
    attention = torch.tensor([[0.0, 0.0, 1.0], [0.2, 0.1, 0.7]])
    assert align(attention, source_words=[0, 1], target_words=[0, 1]) == [(0, 1)]


def test_pharaoh() -> None:
    assert pharaoh([(2, 0), (0, 1), (0, 2)]) == "0-1 0-2 2-0"
    assert pharaoh([]) == ""
