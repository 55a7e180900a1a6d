import io
import random

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from calque.errors import TextError
from calque.text import SentencePieceConfig, SentencePieceTokenizer

ALGORITHMS = ("bpe", "unigram")
TINY = ["the cat sat", "the dog sat", "a cat", "größer", "hello world"]


def learn(lines, **config):
    return SentencePieceTokenizer.train(SentencePieceConfig(**config), lines=lines)


def many_lines(*, words, length, seed=0):
    """Lines of made-up words whose frequencies fall like 1 / rank."""
    draw = random.Random(seed)
    lexicon = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(words)]
    weights = [1 / rank for rank in range(1, words + 1)]
    return [" ".join(draw.choices(lexicon, weights, k=12)) for _ in range(length)]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_tiny_corpus_gives_the_vocabulary_it_supports(algorithm):
    tokenizer = learn(TINY, algorithm=algorithm)
    assert 260 + len(set("".join(TINY)) - {" "}) < len(tokenizer.vocabulary) < 400
    assert set("thecasdogrößlw") <= set(tokenizer.vocabulary.pieces)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("size", [300, 500])
def test_the_size_is_reached_if_the_corpus_supports_it(algorithm, size):
    lines = many_lines(words=500, length=600)
    assert len(learn(lines, algorithm=algorithm, vocabulary_size=size).vocabulary) == size


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_corpus_supports_one_piece_per_200_characters(algorithm):
    lines = many_lines(words=500, length=600)
    characters, known = sum(map(len, lines)), len(set("".join(lines)))
    size = len(learn(lines, algorithm=algorithm).vocabulary)
    assert abs(size - (260 + known + characters / 200)) < 5
    half = SentencePieceTokenizer.train(SentencePieceConfig(algorithm=algorithm), lines=lines, share=0.5)
    assert abs(len(half.vocabulary) - size - characters / 200) < 5  # the lines represent twice as many


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_asking_for_the_supported_size_changes_nothing(algorithm):
    largest = len(learn(TINY, algorithm=algorithm).vocabulary)
    same = learn(TINY, algorithm=algorithm, vocabulary_size=largest)
    assert len(same.vocabulary) == largest
    assert same.vocabulary == learn(TINY, algorithm=algorithm).vocabulary


def test_too_small_a_size_is_rejected_with_the_number_needed():
    with pytest.raises(TextError, match=r"265 pieces is too small: .* need 27\d; raise vocabulary_size") as caught:
        learn(TINY, vocabulary_size=265)
    assert "trainer_interface" not in str(caught.value)
    with pytest.raises(ValidationError):
        SentencePieceConfig(vocabulary_size=260)


def test_an_empty_corpus_is_rejected():
    for lines in ([], ["", ""]):
        with pytest.raises(TextError, match="every line is empty"):
            learn(lines)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_same_lines_give_the_same_bytes(algorithm):
    lines = many_lines(words=300, length=400)
    first, second = (learn(lines, algorithm=algorithm, vocabulary_size=500).to_bytes() for _ in range(2))
    assert first == second
    assert first != learn(lines[1:], algorithm=algorithm, vocabulary_size=500).to_bytes()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_training_is_quiet_and_leaves_no_files(algorithm, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    learn([*TINY, "x" * 100_000, "▅ \0"], algorithm=algorithm)
    with pytest.raises(TextError):
        learn([], algorithm=algorithm)
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def test_long_lines_are_truncated_rather_than_dropped():
    tokenizer = learn(["ab " * 2000, "é" * 10_000, "👩" * 10_000])
    assert {"é", "👩", "▁ab"} <= set(tokenizer.vocabulary.pieces)


def test_lines_with_the_characters_reserved_by_the_library_are_not_dropped():
    tokenizer = learn(["▅ schön", "▁ größer"])
    assert {"ö", "ß"} <= set(tokenizer.vocabulary.pieces)
    assert not tokenizer.unknown_characters("▅▁ schön")


def test_a_word_is_the_same_piece_at_the_start_and_later():
    tokenizer = learn(["the cat the cat"] * 400)
    assert tokenizer.tokenise("the cat the cat") == ["▁the", "▁cat"] * 2


def test_rare_characters_are_spelled_in_bytes_and_reported():
    tokenizer = learn(["the cat sat on the mat " * 200, "ŋ"], character_coverage=0.999)
    assert tokenizer.unknown_characters("a ŋ cat ŋ") == {"ŋ": 2}
    assert tokenizer.tokenise("ŋ")[-2:] == ["<0xC5>", "<0x8B>"]
    assert not learn(["cat", "ŋ"], character_coverage=1.0).unknown_characters("ŋ")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_encoding_many_on_all_cores_equals_encoding_each(algorithm):
    lines = many_lines(words=300, length=700)
    tokenizer = learn(lines, algorithm=algorithm, vocabulary_size=500)
    assert tokenizer.encode_many(lines) == [tokenizer.encode(line) for line in lines]
    assert tokenizer.encode_many([]) == []
    assert tokenizer.encode_many(tuple(lines)) == tokenizer.encode_many(lines)


SHARED = {name: learn([*many_lines(words=100, length=200), *TINY], algorithm=name) for name in ALGORITHMS}
WORDS = [
    "the",
    "cat",
    "größer",
    "gro\u0308ßer",
    "ŋ",
    "中文",
    "",
    "\t",
    "\n",
    "a\nb",
    "\u0301",
    "<0x41>",
    "</s>",
    "▁x",
    "▅␛",
]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=6).map(" ".join), max_size=8))
def test_encoding_word_by_word_equals_encoding_each_text(algorithm, texts):
    """sentencepiece itself is the oracle; the tokenizer is shared, so most words come out of its table."""
    tokenizer = SHARED[algorithm]
    expected = [tokenizer.encode(text) for text in texts]
    values, lengths = tokenizer.encode_flat(texts)
    assert lengths.tolist() == [len(ids) for ids in expected]
    assert values.tolist() == [id for ids in expected for id in ids]
    assert tokenizer.encode_many(texts) == expected


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_lone_surrogate_is_refused_among_many_texts(algorithm):
    for use in (SHARED[algorithm].encode_flat, SHARED[algorithm].encode_many):
        with pytest.raises(TextError, match="surrogate"):
            use(["the cat", "a \ud800"])


def test_the_table_of_words_starts_afresh_when_it_is_full(monkeypatch):
    monkeypatch.setattr("calque.text.word_table._MOST", 20)
    tokenizer = learn(many_lines(words=300, length=700))
    for seed in range(8):
        lines = many_lines(words=300, length=5, seed=seed)
        values, _ = tokenizer.encode_flat(lines)
        assert values.tolist() == [id for line in lines for id in tokenizer.encode(line)]
        assert len(tokenizer._words._numbers) <= 20 + 5 * 12


def test_a_model_whose_pieces_cross_spaces_is_not_used_word_by_word():
    """Such a model is not of Calque's training; its pieces join words that the table would separate."""
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat on the mat"] * 50), model_writer=file, model_type="bpe", vocab_size=320,
        split_by_whitespace=False, hard_vocab_limit=False, pad_id=0, bos_id=1, eos_id=2, unk_id=3, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2,
    )  # fmt: skip
    tokenizer = SentencePieceTokenizer.from_bytes(file.getvalue())
    assert any("▁" in piece[1:] for piece in tokenizer.vocabulary.pieces)
    lines = ["the cat sat", "on the mat the cat"]
    assert tokenizer.encode_flat(lines).values.tolist() == [id for line in lines for id in tokenizer.encode(line)]


def test_special_pieces_in_the_corpus_are_text():
    tokenizer = learn(["<s> a <0x41> </s>", "<pad><unk>"] * 50)
    assert tokenizer.vocabulary.pieces.count("<s>") == 1
    assert tokenizer.decode(tokenizer.encode("<s> <0x41>")) == "<s> <0x41>"


MODEL = learn(TINY).to_bytes()


@given(st.binary(max_size=50) | st.integers(0, len(MODEL) - 1).map(lambda end: MODEL[:end]))
@settings(max_examples=60, deadline=None)
def test_invalid_models_are_rejected(data):
    try:
        tokenizer = SentencePieceTokenizer.from_bytes(data)
    except TextError:
        return
    assert tokenizer.vocabulary.pieces[:4] == ("<pad>", "<s>", "</s>", "<unk>")


def test_a_model_not_trained_by_calque_is_rejected():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TINY), model_writer=model, hard_vocab_limit=False, model_type="bpe", minloglevel=2
    )
    with pytest.raises(TextError, match="starts with"):
        SentencePieceTokenizer.from_bytes(model.getvalue())
