"""The same text on both sides of nearly all pairs is warned about, and is no reason to stop."""

from pathlib import Path

from calque.data.check import check
from calque.data.corpora import DataConfig, FilesConfig
from calque.data.identical_sides import identity_warnings
from calque.data.pair_preparation import PairPreparation
from calque.data.prepare import prepare
from calque.data.report import report_lines
from calque.data.tables import TsvConfig
from calque.text import WordsConfig

PREPARATION = PairPreparation(WordsConfig())
LINES = [f"{number} words" for number in range(100)]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def warnings(corpus: FilesConfig | TsvConfig, folder: Path) -> tuple[str, ...]:
    """The warnings of a corpus in training; a check must give the same."""
    data = DataConfig(train=(corpus,))
    prepared = prepare(data, preparation=PREPARATION, folder=folder).warnings
    report = check(data, preparation=PREPARATION)
    assert tuple(report.corpora[0].warnings) == prepared and not report.corpora[0].problems
    assert all(warning in "\n".join(report_lines(report)) for warning in prepared)
    return prepared


def test_a_file_given_twice_equal_files_and_a_column_given_twice_are_warned_about(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a", LINES), write(tmp_path / "b", LINES)
    (tmp_path / "link").symlink_to(source)
    (twice,) = warnings(FilesConfig(source=source, target=tmp_path / "link"), tmp_path / "1")
    assert f"{source} + {tmp_path / 'link'}: source and target are the same file: all 100 pairs" in twice
    (equal,) = warnings(FilesConfig(source=source, target=target), tmp_path / "2")
    assert f"{source} + {target}: source and target are identical: all 100 pairs have the same text" in equal
    table = write(tmp_path / "c", [f"{line}\t{line}!" for line in LINES])
    (column,) = warnings(TsvConfig(path=table, target_column=1), tmp_path / "3")
    assert column.startswith(f"{table}: source and target are identical")


def test_nearly_all_is_enough_and_half_is_not(tmp_path: Path) -> None:
    source = write(tmp_path / "a", LINES)
    nearly = write(tmp_path / "b", [f"{line}!" if number < 5 else line for number, line in enumerate(LINES)])
    (warning,) = warnings(FilesConfig(source=source, target=nearly), tmp_path / "1")
    assert "95 of 100 pairs have the same text on both sides" in warning
    half = write(tmp_path / "c", [f"{line}!" if number % 2 else line for number, line in enumerate(LINES)])
    assert warnings(FilesConfig(source=source, target=half), tmp_path / "2") == ()
    assert identity_warnings(FilesConfig(source=source, target=half), identical=0, rows=0) == []
