"""The table of systems before the networks."""

from recipes.lineage.statistical import ENTRIES, page

from calque.models.systems import STATISTICAL


def test_every_entry_is_a_system_and_has_a_row() -> None:
    assert {entry.system for entry in ENTRIES.values()} == set(STATISTICAL)
    result = {"bleu_lowercased": 35.086, "bleu": 34.7, "chrf": 63.2, "train_seconds": 54.6, "translate_seconds": 20.0}
    rows = page([{"name": name, "sentences": 1000, "megabytes": 83.1, **result} for name in ENTRIES]).splitlines()
    assert len(rows) == 2 + len(ENTRIES)
    assert rows[2] == "| dictionary | word for word | **35.09** | 34.70 | 63.20 | 55 | 50 | 83.1 |"
