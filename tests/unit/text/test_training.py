import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calque.errors import TextError
from calque.text import (
    BytesConfig,
    CharactersConfig,
    ColumnsConfig,
    FormsConfig,
    GivenConfig,
    SentencePieceConfig,
    Tokenizers,
    TokensConfig,
    WordsConfig,
    save_tokenizers,
    train_tokenizer,
    train_tokenizers,
)
from calque.text.training import spread

SOURCE = ["der Hund", "die Katze sitzt", "ein Haus"]
TARGET = ["the dog", "the cat sits", "a house: x"]


def learn(config, *, source=SOURCE, target=TARGET) -> Tokenizers:
    return train_tokenizers(config, source=lambda: iter(source), target=lambda: iter(target), pairs=len(source))


@given(of=st.integers(1, 300), take=st.integers(1, 400))
def test_a_sample_is_spread_evenly(of, take):
    places = [int(line) for line in spread(map(str, range(of)), of=of, take=take)]
    assert len(places) == min(of, take)
    assert places[0] == 0
    gaps = {after - before for before, after in zip(places, [*places[1:], of], strict=True)}
    assert max(gaps) - min(gaps) <= 1


@pytest.mark.parametrize(
    "config", [SentencePieceConfig(), *(kind(joint=True) for kind in (TokensConfig, WordsConfig, CharactersConfig))]
)
def test_joint_is_one_object_that_knows_both_sides(config):
    tokenizers = learn(config)
    assert tokenizers.joint and tokenizers.source is tokenizers.target
    assert not tokenizers.source.unknown_characters("".join(SOURCE + TARGET))


@pytest.mark.parametrize(
    "config", [SentencePieceConfig(joint=False), TokensConfig(), WordsConfig(), CharactersConfig()]
)
def test_separate_sides_know_their_own(config):
    tokenizers = learn(config)
    assert not tokenizers.joint
    assert tokenizers.source.unknown_characters("K:") == {":": 1}
    assert tokenizers.target.unknown_characters("K:") == {"K": 1}


def test_bytes_are_always_joint():
    assert learn(BytesConfig(), source=[], target=[]).joint


@pytest.mark.parametrize(("joint", "lines"), [(True, 50), (False, 100)])
def test_learning_uses_no_more_than_the_sample(joint, lines, monkeypatch):
    seen = []

    def train(_, *, lines, share):
        seen.append(list(lines))
        assert share == pytest.approx(len(seen[-1]) / 1000 / (2 if joint else 1))

    monkeypatch.setattr("calque.text.training.SentencePieceTokenizer.train", train)
    source, target = ([f"{side} {place}" for place in range(1000)] for side in "st")
    learn(SentencePieceConfig(sample=100, joint=joint), source=source, target=target)
    assert [len(sample) for sample in seen] == ([100] if joint else [100, 100])
    assert sum(line.startswith("s") for sample in seen for line in sample) == lines
    assert seen[0][1] == f"s {1000 // lines}"


@pytest.mark.parametrize("config", [SentencePieceConfig(), TokensConfig(), WordsConfig(), CharactersConfig()])
def test_nothing_to_learn_from_is_refused(config):
    for lines in ([], ["", ""]):
        with pytest.raises(TextError, match="nothing to learn"):
            learn(config, source=lines, target=lines)


SCRIPT = """
import hashlib, sys
from calque.text import SentencePieceConfig, TokensConfig, WordsConfig, CharactersConfig, train_tokenizers
lines = [f"line {n} of the corpus, {n * 7919 % 101} änd more" for n in range(200)]
learnt = (TokensConfig(), WordsConfig(), CharactersConfig())
for config in (SentencePieceConfig(), SentencePieceConfig(algorithm="unigram"), *learnt):
    tokenizers = train_tokenizers(config, source=lambda: iter(lines), target=lambda: iter(lines), pairs=200)
    print(hashlib.sha256(tokenizers.source.to_bytes()).hexdigest())
print("torch" in sys.modules)
"""


def test_another_process_learns_the_same_bytes_and_never_loads_torch():
    runs = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        runs.append(done.stdout.split())
    assert runs[0] == runs[1]
    assert len(runs[0]) == 6 and runs[0][-1] == "False"


# One text, as of a language model


def learn_one(config, *, lines=TARGET):
    return train_tokenizer(config, lines=lambda: iter(lines), count=len(lines))


@pytest.mark.parametrize("config", [SentencePieceConfig(), TokensConfig(), WordsConfig(), CharactersConfig()])
def test_one_text_has_the_tokenizer_of_a_side_of_its_own(config):
    separate = config.model_copy(update={"joint": False})
    assert learn_one(config).to_bytes() == learn(separate).target.to_bytes()


def test_subwords_of_one_text_are_learnt_from_a_sample_of_it():
    lines = ["a b", "c d"] * 100
    tokenizer = learn_one(SentencePieceConfig(sample=100), lines=lines)
    assert {"a", "b"} < {*"".join(tokenizer.vocabulary.pieces[260:])}
    assert not {"c", "d"} & {*"".join(tokenizer.vocabulary.pieces[260:])}  # they are spelled as bytes


def test_bytes_need_no_text():
    assert learn_one(BytesConfig(), lines=[]).decode(learn_one(BytesConfig()).encode("é")) == "é"


def test_the_pieces_of_one_column_can_be_given(tmp_path):
    tokenizers = learn(WordsConfig())
    save_tokenizers(tokenizers, tmp_path)
    for column in ("source", "target"):
        config = GivenConfig(path=tmp_path)
        given = train_tokenizer(config, lines=lambda: iter([]), count=0, column=column)
        assert given.vocabulary == getattr(tokenizers, column).vocabulary


def test_text_settings_of_other_tasks_are_rejected():
    with pytest.raises(TextError, match=r'text\.kind = "forms" is for tagging'):
        learn(FormsConfig())
    with pytest.raises(TextError, match=r'text\.kind = "forms" is for tagging'):
        learn_one(FormsConfig())
    with pytest.raises(TextError, match=r'text\.kind = "columns" is for source and target'):
        learn_one(ColumnsConfig(source=WordsConfig(), target=WordsConfig()))
