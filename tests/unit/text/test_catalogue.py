"""The catalogue: saved and loaded, items named like special pieces, damaged files."""

from pathlib import Path

import pytest

from calque.errors import TextError
from calque.text import PIECES, UNK
from calque.text.catalogue import FIRST_ITEM, Catalogue, learn_catalogue
from calque.text.cleaning import ESCAPE

ITEMS = [["b", "a", "b"], ["<pad>", f"{ESCAPE}<pad>", "a"], ["c"]]


def test_items_are_sorted_by_frequency_and_come_back(tmp_path: Path) -> None:
    catalogue = learn_catalogue(ITEMS, trained=[["b", "a"], ["a"]], behaviours=[["view"], ["<s>"]])
    assert catalogue.names(range(FIRST_ITEM, len(catalogue.items)))[:2] == ["a", "b"]
    assert len(PIECES) == FIRST_ITEM and catalogue.counts[FIRST_ITEM:] == (2, 1, 0, 0, 0)
    for item in ("a", "<pad>", f"{ESCAPE}<pad>"):
        assert catalogue.names(catalogue.item_ids([item])) == [item]
    assert catalogue.item_ids(["new", "<unk>"]) == [UNK, UNK] and not catalogue.is_known("new")
    catalogue.save(tmp_path / "new")
    assert Catalogue.load(tmp_path / "new") == catalogue


@pytest.mark.parametrize(
    "content", ["[1, 2]", "{}", "nonsense", "[0,0,0,0,1,-2,3]", "[0,0,0,0,1,1.5,3]", "[0,0,0,0,1,true,3]"]
)
def test_damaged_counts_are_named(tmp_path: Path, content: str) -> None:
    learn_catalogue([["a", "b", "c"]], trained=[["a"]], behaviours=None).save(tmp_path)
    (tmp_path / "counts.json").write_text(content)
    with pytest.raises(TextError, match=r"counts\.json: damaged: expected 7 counts"):
        Catalogue.load(tmp_path)
