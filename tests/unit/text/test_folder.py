import hashlib
import io
import json
import pickle

import pytest
import sentencepiece

from calque.errors import TextError
from calque.text import (
    BytesConfig,
    CharactersConfig,
    SentencePieceConfig,
    Tokenizers,
    TokensConfig,
    WordsConfig,
    load_tokenizer,
    load_tokenizers,
    save_columns,
    save_tokenizers,
    train_tokenizers,
)

LINES = ["the cat sat\u2028", "<unk> <s>", "größer, \x85 \u2581 als ␛", "a\tb\r", "你好 👩‍👩‍👧"]
CONFIGS = [
    SentencePieceConfig(),
    SentencePieceConfig(algorithm="unigram", joint=False),
    TokensConfig(),
    TokensConfig(joint=True, vocabulary_size=9),
    WordsConfig(),
    WordsConfig(joint=True),
    CharactersConfig(),
    BytesConfig(),
]


def learn(config) -> Tokenizers:
    return train_tokenizers(config, source=lambda: iter(LINES), target=lambda: iter(LINES[1:]), pairs=len(LINES))


def files(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=CONFIGS, ids=repr)
def saved(request, tmp_path):
    tokenizers = learn(request.param)
    save_tokenizers(tokenizers, tmp_path / "a" / "folder")
    return tokenizers, tmp_path / "a" / "folder"


def test_what_was_saved_is_loaded(saved):
    tokenizers, folder = saved
    loaded = load_tokenizers(folder)
    assert loaded.joint == tokenizers.joint
    for before, after in zip(tokenizers, loaded, strict=True):
        assert type(after) is type(before)
        assert after.vocabulary == before.vocabulary
        assert after.to_bytes() == before.to_bytes()
        assert after.encode_many(LINES) == before.encode_many(LINES)


def test_saving_again_gives_the_same_bytes(saved, tmp_path):
    _, folder = saved
    save_tokenizers(load_tokenizers(folder), tmp_path / "again")
    assert files(folder) == files(tmp_path / "again")
    assert all((folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes() for name in files(folder))


def test_the_names_of_the_files(tmp_path):
    for config, names in [
        (SentencePieceConfig(), ["joint.model"]),
        (SentencePieceConfig(joint=False), ["source.model", "target.model"]),
        (TokensConfig(joint=True), ["joint.vocabulary"]),
        (WordsConfig(), ["source.vocabulary", "target.vocabulary"]),
    ]:
        folder = tmp_path / f"{config.kind}-{config.joint}"
        save_tokenizers(learn(config), folder)
        assert files(folder) == [*names, "tokenizer.json"]


def test_every_missing_file_is_named(saved):
    _, folder = saved
    for name in files(folder):
        content = (folder / name).read_bytes()
        (folder / name).unlink()
        with pytest.raises(TextError, match=name):
            load_tokenizers(folder)
        (folder / name).write_bytes(content)


def test_every_damaged_file_is_named(saved):
    _, folder = saved
    for name in files(folder):
        content = (folder / name).read_bytes()
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        for damaged in (b"", content[:middle], flipped, content + b"\n\n{"):
            (folder / name).write_bytes(damaged)
            with pytest.raises(TextError, match=r"tokenizer\.json" if name == "tokenizer.json" else name):
                load_tokenizers(folder)
        (folder / name).write_bytes(content)
    load_tokenizers(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "telepathy"},
        {"joint": False},
        {"files": {}},
        {"files": {"../joint.model": "0"}},
        {"files": {"joint.model": 7}},
        {"more": 1},
    ],
    ids=str,
)
def test_a_wrong_description_is_refused(tmp_path, change):
    save_tokenizers(learn(SentencePieceConfig()), tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(TextError, match=r"tokenizer\.json: damaged"):
        load_tokenizers(tmp_path)


@pytest.mark.parametrize("content", ["[]", "null", "7", "{}", "[" * 100_000, '"format"'])
def test_what_is_no_description_is_refused(tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(TextError, match=r"tokenizer\.json: damaged"):
        load_tokenizers(tmp_path)


def test_another_format_is_refused_with_both_numbers(tmp_path):
    (tmp_path / "tokenizer.json").write_text('{"format": 3, "new": "things"}')
    with pytest.raises(TextError, match=r"tokenizer\.json: format 3, but this version of Calque reads formats 1 to 2"):
        load_tokenizers(tmp_path)


def test_columns_may_have_tokenizers_of_their_own_kind(tmp_path):
    mixed = Tokenizers(learn(WordsConfig()).source, learn(BytesConfig()).target)
    save_tokenizers(mixed, tmp_path / "new")
    loaded = load_tokenizers(tmp_path / "new")
    assert (loaded.source.kind, loaded.target.kind, loaded.joint) == ("words", "bytes", False)
    assert loaded.source.to_bytes() == mixed.source.to_bytes()


def test_columns_have_names(tmp_path):
    words = learn(WordsConfig()).source
    save_columns({"text": words}, tmp_path)
    assert load_tokenizer(tmp_path, column="text").to_bytes() == words.to_bytes()
    with pytest.raises(TextError, match="found tokenizers for text; expected source and target"):
        load_tokenizers(tmp_path)
    with pytest.raises(TextError, match="found tokenizers for text, but none for labels"):
        load_tokenizer(tmp_path, column="labels")


def test_the_earlier_format_is_read(tmp_path):
    """Format 1 knew source and target of one kind."""
    words = learn(WordsConfig()).source
    (tmp_path / "joint.vocabulary").write_bytes(words.to_bytes())
    digest = hashlib.sha256(words.to_bytes()).hexdigest()
    values = {"format": 1, "kind": "words", "joint": True, "files": {"joint.vocabulary": digest}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    loaded = load_tokenizers(tmp_path)
    assert loaded.joint and loaded.source.to_bytes() == words.to_bytes()
    assert load_tokenizer(tmp_path, column="text").to_bytes() == words.to_bytes()


def test_tokenizers_travel_to_other_processes():
    for config in CONFIGS:
        tokenizer = learn(config).source
        assert pickle.loads(pickle.dumps(tokenizer)).encode_many(LINES) == tokenizer.encode_many(LINES)


def test_a_sentencepiece_model_of_another_maker_is_named(tmp_path):
    """The special pieces are there, but not the bytes."""
    save_tokenizers(learn(SentencePieceConfig()), tmp_path)
    model, lines = io.BytesIO(), iter(["a b c d", "b c d e"] * 9)
    marks = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines, model_writer=model, vocab_size=12, hard_vocab_limit=False, minloglevel=9, **marks
    )
    (tmp_path / "joint.model").write_bytes(model.getvalue())
    described = json.loads((tmp_path / "tokenizer.json").read_text())
    digest = hashlib.sha256(model.getvalue()).hexdigest()
    described["files"] = dict.fromkeys(described["files"], digest)
    (tmp_path / "tokenizer.json").write_text(json.dumps(described))
    with pytest.raises(TextError, match=r"joint\.model: this is not a sentencepiece model trained by Calque"):
        load_tokenizers(tmp_path)
