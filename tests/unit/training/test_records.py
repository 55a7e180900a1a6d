"""The samples that a run writes, and their size in a checkpoint."""

from pathlib import Path

from calque.training.records import Records


def test_samples_follow_their_step_with_empty_lines_between(tmp_path: Path) -> None:
    """As in files of earlier versions."""
    with Records(tmp_path) as records:
        records.add_samples(7, ["source       今天\ntranslation  to day\n", "source       b\ntranslation  d\n"])
        records.add_samples(9, [])
        records.add_samples(14, ["one\n"])
        size = records.sync().samples
    text = (tmp_path / "samples.txt").read_bytes()
    assert text.decode() == (
        "step 7\n\nsource       今天\ntranslation  to day\n\nsource       b\ntranslation  d\n\nstep 14\n\none\n\n"
    )
    assert size == len(text)


def test_a_rank_that_does_not_lead_writes_nothing(tmp_path: Path) -> None:
    with Records(tmp_path, writes=False) as records:
        records.add_samples(7, ["one\n"])
    assert list(tmp_path.iterdir()) == []
