"""Tokenizers reused from another run."""

from pathlib import Path

import pytest

from calque.data.corpora import DataConfig, FilesConfig
from calque.data.fingerprint import fingerprint, text_settings
from calque.errors import TextError
from calque.text import GivenConfig, Tokenizers, WordsConfig, WordsTokenizer, save_tokenizers, train_tokenizers

WORDS = WordsTokenizer.train(WordsConfig(), lines=["a b c"])


@pytest.mark.parametrize("inside", ["model/tokenizer", "tokenizer", "."])
def test_they_are_found_in_runs_models_and_stores(inside: str, tmp_path: Path) -> None:
    save_tokenizers(Tokenizers(WORDS, WORDS), tmp_path / inside)
    config = GivenConfig(path=tmp_path)
    tokenizers = train_tokenizers(config, source=lambda: iter([]), target=lambda: iter([]), pairs=0)
    assert tokenizers.joint
    assert config.joint
    assert tokenizers.target.to_bytes() == WORDS.to_bytes()


def test_a_folder_without_tokenizers_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(TextError, match=r"text\.path: .*no tokenizer found"):
        GivenConfig(path=tmp_path).load()


def test_a_store_identifies_tokenizers_by_content(tmp_path: Path) -> None:
    """Moving them changes nothing; changing them does."""
    corpus = tmp_path / "corpus"
    corpus.write_text("a\n", encoding="utf-8")
    data = DataConfig(train=(FilesConfig(source=corpus, target=corpus),))
    other = WordsTokenizer.train(WordsConfig(), lines=["x y"])
    for name, tokenizer in (("one", WORDS), ("two", WORDS), ("three", other)):
        save_tokenizers(Tokenizers(tokenizer, tokenizer), tmp_path / name)
    one, two, three = (
        fingerprint(data, settings=text_settings(GivenConfig(path=tmp_path / name))) for name in ("one", "two", "three")
    )
    assert one == two
    assert one != three
