"""Text for language models: lines of any length in running text, and which of them are held out."""

from pathlib import Path

import pytest

from calque.data import corpora
from calque.data.corpora import DataConfig, TextFileConfig, ValidationConfig
from calque.data.prepare import Prepared, prepare
from calque.data.text_preparation import PART, TextPreparation
from calque.errors import DataError
from calque.text import EOS, CharactersConfig, SentencePieceConfig, TextConfig, TokensConfig, load_tokenizer


def corpus(path: Path, lines: list[str]) -> TextFileConfig:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return TextFileConfig(path=path)


def make(data: DataConfig, folder: Path, *, text: TextConfig | None = None, running: bool = True) -> Prepared:
    preparation = TextPreparation(text or TokensConfig(), data.maximum_length, running)
    return prepare(data, preparation=preparation, folder=folder, workers=1)


def test_a_line_of_running_text_may_be_very_long(tmp_path: Path) -> None:
    """A row of 65,536 pieces and more keeps its length; with separate lines it is too long."""
    long = " ".join(f"w{number % 9}" for number in range(70_000))
    assert len(long) > 1 << 16
    data = DataConfig(
        train=(corpus(tmp_path / "train", ["w1 w2", long, "w3"]),), valid=(corpus(tmp_path / "valid", ["w1", long]),)
    )
    prepared = make(data, tmp_path / "running")
    assert prepared.train["text"].lengths.tolist() == [3, 70_001, 2]
    assert prepared.valid["text"].lengths.tolist() == [2, 70_001]
    assert (prepared.train_tally.long, len(prepared.train["text"].values)) == (0, 70_006)
    tokenizer = load_tokenizer(prepared.vocabularies, column="text")
    assert tokenizer.decode(prepared.train["text"].row(1)[:-1].tolist()) == long
    assert prepared.train["text"].row(1)[-1] == EOS
    lines = make(data, tmp_path / "lines", running=False)
    assert (lines.train["text"].lengths.tolist(), lines.train_tally.long) == ([2, 1], 1)


def test_subwords_are_learnt_from_all_of_a_long_line(tmp_path: Path) -> None:
    """Not from its beginning alone: what its end contains is one piece."""
    line = " ".join(["abc"] * 150_000 + ["xyzuv"] * 50_000)
    assert line.index("x") > 2 * PART
    data = DataConfig(train=(corpus(tmp_path / "train", [line]),), valid=(corpus(tmp_path / "valid", ["abc"]),))
    prepared = make(data, tmp_path / "store", text=SentencePieceConfig(vocabulary_size=280, sample=100))
    assert len(load_tokenizer(prepared.vocabularies, column="text").encode("xyzuv")) == 1
    spaceless = DataConfig(train=(corpus(tmp_path / "other", ["a" * PART + "b" * PART + "c"]),), valid=data.valid)
    characters = make(spaceless, tmp_path / "characters", text=CharactersConfig())
    assert load_tokenizer(characters.vocabularies, column="text").unknown_characters("abc") == {}


@pytest.mark.parametrize("running", [True, False])
def test_lines_over_the_limit_are_named_as_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: bool
) -> None:
    monkeypatch.setattr(corpora, "RUNNING_LIMIT", 100_000)
    limit = "100,000" if running else "65,536"
    data = DataConfig(train=(corpus(tmp_path / "train", ["a b " * 30_000] * 4),))
    with pytest.raises(DataError) as error:
        make(data, tmp_path / "store", running=running)
    assert str(error.value) == (
        "data.train: no rows are left; of 4 lines, 0 are empty, 4 too long, 0 not UTF-8; "
        f"a line may have at most {limit} bytes"
    )


@pytest.mark.parametrize(("lines", "validation", "size"), [(10, {}, 5), (300, {"share": 0.2, "minimum": 1}, 60)])
def test_the_end_of_running_text_is_held_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int, validation: dict[str, float], size: int
) -> None:
    """Both parts stay running text, also with blank and repeated lines, several corpora and small blocks."""
    text = [f"w{number % 4} w{number}" for number in range(lines)]
    text[-2] = text[0]
    half = lines - size // 2  # the end begins in the first corpus
    first, second = corpus(tmp_path / "a", [*text[:3], "", *text[3:half]]), corpus(tmp_path / "b", ["", *text[half:]])
    data = DataConfig(train=(first, second), validation=ValidationConfig.model_validate(validation))
    for blocks in (2048, 7):
        monkeypatch.setattr(corpora, "BLOCK_LINES", blocks)
        prepared = make(data, tmp_path / f"store {blocks}")
        assert [line for (line,) in prepared.valid_text] == text[-size:]
        assert (len(prepared.train), len(prepared.valid)) == (lines - size, size)
        tokenizer = load_tokenizer(prepared.vocabularies, column="text")
        rows = [prepared.train["text"].row(row)[:-1].tolist() for row in range(lines - size)]
        assert rows == [tokenizer.encode(line) for line in text[:-size]]
    scattered = make(data, tmp_path / "lines", running=False)
    assert [line for (line,) in scattered.valid_text] != text[-size:]
    assert prepared.fingerprint["data.validation.rows"] == "last"
    assert "data.validation.rows" not in scattered.fingerprint
