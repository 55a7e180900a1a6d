"""Tokenizers of another run, taken as they are."""

from pathlib import Path

import pytest

from calque.data.corpora import DataConfig, FilesConfig
from calque.data.fingerprint import fingerprint
from calque.errors import TextError
from calque.text import GivenConfig, Tokenizers, WordsConfig, WordsTokenizer, save_tokenizers, train_tokenizers

WORDS = WordsTokenizer.train(WordsConfig(), lines=["a b c"])


@pytest.mark.parametrize("inside", ["model/tokenizer", "tokenizer", "."])
def test_they_are_found_in_runs_models_and_stores(inside: str, tmp_path: Path) -> None:
    save_tokenizers(Tokenizers(WORDS, WORDS), tmp_path / inside)
    given = GivenConfig(path=tmp_path)
    found = train_tokenizers(given, source=lambda: iter([]), target=lambda: iter([]), pairs=0)
    assert found.joint
    assert given.joint
    assert found.target.to_bytes() == WORDS.to_bytes()


def test_a_folder_without_them_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TextError, match=r"text\.path: .*no tokenizer here"):
        GivenConfig(path=tmp_path).load()


def test_a_store_knows_them_by_what_they_are(tmp_path: Path) -> None:
    """Moved they are the same, changed they are not."""
    corpus = tmp_path / "corpus"
    corpus.write_text("a\n", encoding="utf-8")
    data = DataConfig(train=(FilesConfig(source=corpus, target=corpus),))
    other = WordsTokenizer.train(WordsConfig(), lines=["x y"])
    for name, tokenizer in (("one", WORDS), ("two", WORDS), ("three", other)):
        save_tokenizers(Tokenizers(tokenizer, tokenizer), tmp_path / name)
    one, two, three = (fingerprint(data, text=GivenConfig(path=tmp_path / name)) for name in ("one", "two", "three"))
    assert one == two
    assert one != three
