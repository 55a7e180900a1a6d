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
def test_a_tiny_corpus_gives_what_it_carries(algorithm):
    learnt = learn(TINY, algorithm=algorithm)
    assert 260 + len(set("".join(TINY)) - {" "}) < len(learnt.vocabulary) < 400
    assert set("thecasdogrößlw") <= set(learnt.vocabulary.pieces)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("size", [300, 500])
def test_the_size_is_reached_where_the_corpus_carries_it(algorithm, size):
    lines = many_lines(words=500, length=600)
    assert len(learn(lines, algorithm=algorithm, vocabulary_size=size).vocabulary) == size


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_corpus_carries_a_piece_for_every_200_characters(algorithm):
    lines = many_lines(words=500, length=600)
    characters, known = sum(map(len, lines)), len(set("".join(lines)))
    size = len(learn(lines, algorithm=algorithm).vocabulary)
    assert abs(size - (260 + known + characters / 200)) < 5
    half = SentencePieceTokenizer.train(SentencePieceConfig(algorithm=algorithm), lines=lines, share=0.5)
    assert abs(len(half.vocabulary) - size - characters / 200) < 5  # the lines stand for twice as many


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_largest_size_is_the_one_the_library_names(algorithm):
    largest = len(learn(TINY, algorithm=algorithm).vocabulary)
    same = learn(TINY, algorithm=algorithm, vocabulary_size=largest)
    assert len(same.vocabulary) == largest
    assert same.vocabulary == learn(TINY, algorithm=algorithm).vocabulary


def test_too_small_a_size_says_how_many_pieces_are_needed():
    with pytest.raises(TextError, match=r"265 pieces is too small: .* are 27\d; raise vocabulary_size") as caught:
        learn(TINY, vocabulary_size=265)
    assert "trainer_interface" not in str(caught.value)
    with pytest.raises(ValidationError):
        SentencePieceConfig(vocabulary_size=260)


def test_an_empty_corpus_is_refused():
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
def test_learning_is_quiet_and_leaves_no_files(algorithm, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    learn([*TINY, "x" * 100_000, "▅ \0"], algorithm=algorithm)
    with pytest.raises(TextError):
        learn([], algorithm=algorithm)
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def test_long_lines_are_cut_and_not_dropped():
    learnt = learn(["ab " * 2000, "é" * 10_000, "👩" * 10_000])
    assert {"é", "👩", "▁ab"} <= set(learnt.vocabulary.pieces)


def test_lines_with_marks_of_the_library_are_not_dropped():
    learnt = learn(["▅ schön", "▁ größer"])
    assert {"ö", "ß"} <= set(learnt.vocabulary.pieces)
    assert not learnt.unknown_characters("▅▁ schön")


def test_a_word_is_the_same_piece_first_and_later():
    learnt = learn(["the cat the cat"] * 400)
    assert learnt.tokenise("the cat the cat") == ["▁the", "▁cat"] * 2


def test_rare_characters_are_spelled_in_bytes_and_reported():
    learnt = learn(["the cat sat on the mat " * 200, "ŋ"], character_coverage=0.999)
    assert learnt.unknown_characters("a ŋ cat ŋ") == {"ŋ": 2}
    assert learnt.tokenise("ŋ")[-2:] == ["<0xC5>", "<0x8B>"]
    assert not learn(["cat", "ŋ"], character_coverage=1.0).unknown_characters("ŋ")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_encoding_many_on_all_cores_equals_encoding_each(algorithm):
    lines = many_lines(words=300, length=700)
    learnt = learn(lines, algorithm=algorithm, vocabulary_size=500)
    assert learnt.encode_many(lines) == [learnt.encode(line) for line in lines]
    assert learnt.encode_many([]) == []


def test_special_pieces_in_the_corpus_are_text():
    learnt = learn(["<s> a <0x41> </s>", "<pad><unk>"] * 50)
    assert learnt.vocabulary.pieces.count("<s>") == 1
    assert learnt.decode(learnt.encode("<s> <0x41>")) == "<s> <0x41>"


MODEL = learn(TINY).to_bytes()


@given(st.binary(max_size=50) | st.integers(0, len(MODEL) - 1).map(lambda end: MODEL[:end]))
@settings(max_examples=60, deadline=None)
def test_what_is_no_model_is_refused(data):
    try:
        learnt = SentencePieceTokenizer.from_bytes(data)
    except TextError:
        return
    assert learnt.vocabulary.pieces[:4] == ("<pad>", "<s>", "</s>", "<unk>")


def test_another_library_user_s_model_is_refused():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TINY), model_writer=model, hard_vocab_limit=False, model_type="bpe", minloglevel=2
    )
    with pytest.raises(TextError, match="begins with"):
        SentencePieceTokenizer.from_bytes(model.getvalue())
