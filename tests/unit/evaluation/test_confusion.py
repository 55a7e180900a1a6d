"""Accuracy and confusions against counts by hand and seqeval; no text of the picture overlaps another."""

import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from seqeval.metrics import accuracy_score

from calque.errors import DataError
from calque.evaluation.confusion import confusion_table, count_confusions, draw_confusion, token_accuracy

GOLD = [["N", "V", "N"], [], ["D", "N", "N"]]
PREDICTED = [["N", "N", "N"], [], ["D", "V", "V"]]
COUNTS = {("N", "N"): 2, ("V", "N"): 1, ("D", "D"): 1, ("N", "V"): 2}


def test_pairs_are_counted_gold_first() -> None:
    assert count_confusions(PREDICTED, gold=GOLD) == COUNTS


def test_accuracy_is_seqevals(seed: int) -> None:
    generator = random.Random(seed)
    for _ in range(200):
        sizes = [generator.randint(1, 9) for _ in range(generator.randint(1, 5))]
        gold, predicted = ([generator.choices("NVDX", k=size) for size in sizes] for _ in range(2))
        expected = accuracy_score(gold, predicted)
        assert token_accuracy(count_confusions(predicted, gold=gold)) == pytest.approx(expected, abs=1e-12)


def test_what_does_not_line_up_or_is_empty_is_rejected() -> None:
    with pytest.raises(DataError, match="1 predicted sentences but 3 gold ones"):
        count_confusions([["N"]], gold=GOLD)
    with pytest.raises(DataError, match="sentence 1: 2 predicted labels but 3 gold ones"):
        count_confusions([["N", "V"], [], ["D", "N", "N"]], gold=GOLD)
    for function in (token_accuracy, lambda counts: confusion_table(counts, most=3)):
        with pytest.raises(DataError, match="there are no words"):
            function({})


def test_the_table_has_the_most_frequent_gold_label_first() -> None:
    names, table = confusion_table(COUNTS, most=3)
    assert names == ["N", "D", "V"]
    assert table.tolist() == [[2, 0, 2], [0, 1, 0], [1, 0, 0]]


def test_the_table_has_the_labels_in_the_order_that_is_given() -> None:
    names, table = confusion_table(COUNTS, labels=["V", "never seen", "N"], most=3)
    assert names == ["V", "N", "D"]
    assert table.tolist() == [[0, 1, 0], [2, 2, 0], [0, 0, 1]]


def test_the_rarest_labels_share_a_row_and_a_column(seed: int) -> None:
    generator = random.Random(seed)
    pairs = [
        (f"L{min(generator.randrange(30), generator.randrange(30))}", f"L{generator.randrange(35)}")
        for _ in range(2000)
    ]
    counts = Counter(pairs)
    for labels in ((), sorted({gold for gold, _ in counts})):
        names, table = confusion_table(counts, labels=labels, most=7)
        assert len(names) == 7
        assert names[-1] == f"{len({label for pair in counts for label in pair}) - 6} others"
        assert table.sum() == 2000
        for (row, gold), (column, predicted) in (
            (one, two) for one in enumerate(names[:-1]) for two in enumerate(names[:-1])
        ):
            assert table[row, column] == counts[gold, predicted]
        frequency = Counter(gold for gold, _ in pairs)
        rarest_shown = min(frequency[name] for name in names[:-1])
        assert all(frequency[name] <= rarest_shown for name in frequency.keys() - set(names))


# The picture


def confused(count: int, *, name: str) -> Counter[tuple[str, str]]:
    """Every label taken for up to 17 others: counts of up to eight digits."""
    generator = random.Random(count)
    names = [name.format(number) for number in range(count)]
    return Counter(
        {
            (gold, predicted): int(10 ** generator.uniform(0, 8))
            for gold in names
            for predicted in {gold, *generator.sample(names, min(count, 17))}
        }
    )


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The figures that are saved."""
    figure = pytest.importorskip("matplotlib.figure")
    saved: list[Any] = []
    save = figure.Figure.savefig

    def keep(self: Any, *arguments: Any, **options: Any) -> None:
        saved.append(self)
        save(self, *arguments, **options)

    monkeypatch.setattr(figure.Figure, "savefig", keep)
    yield saved


def boxes(figure: Any) -> tuple[list[str], np.ndarray]:
    """All visible text of a figure, and left, bottom, right and top of each in pixels."""
    text = pytest.importorskip("matplotlib.text")
    texts = [part for part in figure.findobj(text.Text) if part.get_visible() and part.get_text()]
    extents = [part.get_window_extent(figure.canvas.get_renderer()).extents for part in texts]
    return [part.get_text() for part in texts], np.array(extents)


def overlapping(edges: np.ndarray) -> np.ndarray:
    """Pairs of boxes that share a pixel or more."""
    left, bottom, right, top = (edges[:, None, side] - edges[None, :, (side + 2) % 4] for side in range(4))
    return np.argwhere(np.triu((left < 0) & (bottom < 0) & (right > 0) & (top > 0), k=1))


LONG = "Case=Nom|Gender=Fem|Number=Sing|Person={}|Tense=Past"


@pytest.mark.parametrize(("count", "name"), [(1, "{}"), (2, "{}"), (17, "B-{}"), (17, LONG), (45, LONG), (130, "{}")])
def test_no_text_overlaps_and_counts_stay_in_their_cells(
    figures: list[Any], tmp_path: Path, count: int, name: str
) -> None:
    assert draw_confusion(tmp_path / "confusion.png", confused(count, name=name))
    assert (tmp_path / "confusion.png").read_bytes().startswith(b"\x89PNG")
    texts, edges = boxes(figures[0])
    assert [(texts[one], texts[two]) for one, two in overlapping(edges)] == []
    width, height = figures[0].canvas.get_width_height()
    assert edges.min() >= 0 and edges[:, [0, 2]].max() <= width and edges[:, [1, 3]].max() <= height
    axes = figures[0].axes[0]
    rows = min(count, 60)
    cells = [part for part in axes.texts if part.get_text()]
    assert len(cells) == rows**2 or count > 17
    size = axes.get_window_extent().width / rows
    assert max(part.get_window_extent().width for part in cells) <= 0.95 * size


def test_names_are_no_formulas(figures: list[Any], tmp_path: Path) -> None:
    counts = {("$a$", "PRP$"): 3, ("PRP$", "$^$"): 2}
    assert draw_confusion(tmp_path / "confusion.svg", counts)
    assert {"$a$", "PRP$", "$^$"} <= {label.get_text() for label in figures[0].axes[0].get_xticklabels()}
    assert "<svg" in (tmp_path / "confusion.svg").read_text(encoding="utf-8")


def test_counts_are_written_in_few_characters(figures: list[Any], tmp_path: Path) -> None:
    written = {
        7: "7",
        9999: "9999",
        99_999: "99999",
        100_000: "100k",
        999_499: "999k",
        999_500: "1.0M",
        12_345_678: "12M",
    }
    assert draw_confusion(tmp_path / "confusion.png", {(f"{count}", "a"): count for count in written})
    assert {part.get_text() for part in figures[0].axes[0].texts} == set(written.values())


def test_colours_show_shares_of_a_row(figures: list[Any], tmp_path: Path) -> None:
    assert draw_confusion(tmp_path / "confusion.png", COUNTS)
    shares = figures[0].axes[0].images[0].get_array().tolist()
    assert shares == [[1 / 2, 0, 1 / 2], [0, 1, 0], [1, 0, 0]]


def test_without_matplotlib_nothing_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    assert not draw_confusion(tmp_path / "confusion.png", COUNTS)
    assert list(tmp_path.iterdir()) == []
