"""Required and forbidden phrases beside unknown words, against an enumeration of all translations and their texts."""

import itertools
import re
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from calque import Request
from calque.engine.constraints import constraint_ids, forbidden_words, rules_of
from calque.search.decode import Rules, decode, limits_of
from calque.search.settings import SearchConfig
from calque.search.step import Marks, StepOutput
from calque.text import BOS, EOS, PAD, PIECES, UNK, NumberedText, Tokenizer, Vocabulary
from calque.text.characters import CharactersTokenizer
from calque.text.tokens import TokensTokenizer
from calque.text.words import WordsTokenizer

SOURCE = NumberedText([UNK], (), "x")
MARKS = Marks(start=BOS, end=EOS, never=(PAD, BOS))


def tokenizer_of(kind: type[Tokenizer], *pieces: str) -> Tokenizer:
    return kind(Vocabulary([*PIECES, *pieces]))


def rules_for(tokenizer: Tokenizer, *, required: tuple[str, ...] = (), forbidden: tuple[str, ...] = ()) -> Rules:
    rule = forbidden_words(forbidden, target=tokenizer)
    request = Request("x", required=required)
    constraints = constraint_ids(request, SOURCE, target=tokenizer, copies=False, forbidden=rule)
    return rules_of([constraints], target=tokenizer, forbidden=rule)


def all_texts(tokenizer: Tokenizer, *, longest: int) -> Iterator[tuple[int, ...]]:
    ids = [UNK, *range(len(PIECES), len(tokenizer.vocabulary))]
    return itertools.chain.from_iterable(itertools.product(ids, repeat=size) for size in range(longest + 1))


def has_word(text: str, word: str) -> bool:
    """Whether the word occurs with neither a letter nor a digit on either side."""
    return re.search(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", text) is not None


def searched(tokenizer: Tokenizer, rules: Rules, *, longest: int) -> list[tuple[int, ...]]:
    """What a beam search finds that is wide enough for every translation and every extension of one."""
    size = len(tokenizer.vocabulary)
    table = torch.rand(size, size, generator=torch.Generator().manual_seed(size)).log_softmax(-1)

    def step(tokens: Tensor, state: Tensor, _context: Tensor) -> tuple[StepOutput, Tensor]:
        return StepOutput(table[tokens], None), state

    beam = 1000 if longest > 4 else 400
    search = SearchConfig(beam=beam, maximum=longest, maximum_extra=longest, length_penalty=0)
    lengths = torch.tensor([2])
    (hypotheses,) = decode(
        step,
        torch.zeros(1, 1),
        torch.zeros(1, 1),
        source_lengths=lengths,
        limits=limits_of(lengths, search=search),
        search=search,
        marks=MARKS,
        rules=rules,
        nbest=beam,
    )
    return sorted(hypothesis.tokens for hypothesis in hypotheses if not hypothesis.cut and hypothesis.log_prob > -1e9)


WORDS = tokenizer_of(WordsTokenizer, "a", "b")
PUNCTUATED = tokenizer_of(WordsTokenizer, "a", "￭,", "￭-￭")
HYPHENED = tokenizer_of(WordsTokenizer, "a", "￭-")  # joined on one side
JOINED = tokenizer_of(WordsTokenizer, "a", "￭-￭")
TOKENS = tokenizer_of(TokensTokenizer, "a", "b")
CHARACTERS = tokenizer_of(CharactersTokenizer, "a", "b", " ")
REQUIRED = [
    (WORDS, 5, ("a",)),
    (WORDS, 4, ("a", "b")),
    (WORDS, 4, ("a b", "a")),
    (PUNCTUATED, 3, ("a",)),
    (JOINED, 4, ("a-a",)),
    (TOKENS, 4, ("b", "b")),
    (CHARACTERS, 3, ("ab",)),
]
FORBIDDEN = [
    (WORDS, 5, ("a",)),
    (WORDS, 4, ("a b",)),
    (WORDS, 4, ("a b", "b a a")),
    (WORDS, 4, ("<unk>",)),
    (PUNCTUATED, 3, ("a, a", "a a")),
    (PUNCTUATED, 3, ("a-a",)),
    (PUNCTUATED, 3, ("a-a", "a,")),
    (JOINED, 4, ("a-a a", "-a")),
    (HYPHENED, 4, ("a-a",)),
    (TOKENS, 4, ("b b",)),
    (CHARACTERS, 3, ("a",)),
    (CHARACTERS, 3, ("ab", "b a")),
]


@pytest.mark.parametrize(("tokenizer", "longest", "phrases"), REQUIRED)
def test_every_translation_with_the_required_phrases_is_found(
    tokenizer: Tokenizer, longest: int, phrases: tuple[str, ...]
) -> None:
    """Phrases do not overlap, so that each is found in the text that is left when those before it are taken out."""

    def holds(text: str, rest: tuple[str, ...]) -> bool:
        if not rest:
            return True
        places = [found.start() for found in re.finditer(f"(?={re.escape(rest[0])})", text)]
        return any(
            has_word(text[max(0, place - 1) : place + len(rest[0]) + 1], rest[0])
            and holds(f"{text[:place]}\n{text[place + len(rest[0]) :]}", rest[1:])
            for place in places
        )

    rules = rules_for(tokenizer, required=phrases)
    expected = [ids for ids in all_texts(tokenizer, longest=longest) if holds(tokenizer.decode(ids), phrases)]
    found = searched(tokenizer, rules, longest=longest)
    assert any(UNK in ids for ids in expected)
    assert [tokenizer.decode(ids) for ids in found] == [tokenizer.decode(ids) for ids in sorted(expected)]


@pytest.mark.parametrize(("tokenizer", "longest", "words"), FORBIDDEN)
def test_every_translation_without_the_forbidden_words_is_found(
    tokenizer: Tokenizer, longest: int, words: tuple[str, ...]
) -> None:
    rules = rules_for(tokenizer, forbidden=words)
    texts = {ids: tokenizer.decode(ids) for ids in all_texts(tokenizer, longest=longest)}
    expected = [ids for ids, text in texts.items() if not any(has_word(text, word) for word in words)]
    found = searched(tokenizer, rules, longest=longest)
    assert [texts[ids] for ids in found] == [texts[ids] for ids in sorted(expected)]


def test_every_translation_is_found_with_both() -> None:
    rules = rules_for(WORDS, required=("a",), forbidden=("b a",))
    texts = {ids: WORDS.decode(ids) for ids in all_texts(WORDS, longest=5)}
    expected = [ids for ids, text in texts.items() if has_word(text, "a") and not has_word(text, "b a")]
    assert searched(WORDS, rules, longest=5) == sorted(expected)
