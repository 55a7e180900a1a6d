"""What every translation guarantees, tested on untrained models, which produce arbitrary text."""

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.conftest import FAMILIES

from calque import Request, SearchConfig
from calque.engine import Translator
from calque.engine.engine import budget_of
from calque.engine.ensemble import start_decoding
from calque.errors import ConfigError, TextError
from calque.models.model import Model, ModelConfig, Sizes
from calque.objectives.decoding_step import MARKS, pad_source
from calque.search.decode import Rules, decode, limits_of
from calque.search.settings import batch_positions
from calque.search.step import NO_ANSWER, Hypothesis
from calque.text import UNK, Tokenizer, Tokenizers
from calque.text.bytes import BytesTokenizer
from calque.text.characters import CharactersConfig, CharactersTokenizer
from calque.text.sentencepiece import SentencePieceConfig, SentencePieceTokenizer
from calque.text.tokens import TokensConfig, TokensTokenizer
from calque.text.words import WordsConfig, WordsTokenizer

LINES = ["a cat sat in the tree", "the house is a zip away", "cats and trees run", "evil, ran the cat"] * 30
TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "bpe": lambda: SentencePieceTokenizer.train(SentencePieceConfig(vocabulary_size=300), lines=LINES),
    "tokens": lambda: TokensTokenizer.train(TokensConfig(), lines=LINES),
    "words": lambda: WordsTokenizer.train(WordsConfig(), lines=LINES),
    "characters": lambda: CharactersTokenizer.train(CharactersConfig(), lines=LINES),
    "bytes": BytesTokenizer,
}


def garbage(
    tokenizer: Tokenizer, *, family: str = "luong", seed: int = 1, copies: bool = False, **search: Any
) -> Translator:
    """A model with random weights, large enough that it prefers some tokens to others."""
    torch.manual_seed(seed)
    decoder = {**FAMILIES[family]["decoder"], **({"copies": True} if copies else {})}
    config = ModelConfig.model_validate({**FAMILIES[family], "decoder": decoder})
    size = len(tokenizer.vocabulary)
    model = Model(config, sizes=Sizes(size, size, True)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)
    return Translator(model, Tokenizers(tokenizer, tokenizer), config=config, search=SearchConfig(**search))


def has(text: str, phrase: str) -> bool:
    """As a reader sees it: as whole words."""
    return re.search(rf"(?<![^\W_]){re.escape(phrase)}(?![^\W_])", text) is not None


# --- Phrases ---


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_a_required_phrase_occurs_as_whole_words(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]()
    complete = 0
    for seed in range(4):
        translator = garbage(tokenizer, seed=seed, beam=4, maximum=40)
        requests = [
            Request("the cat", required=("tree",)),
            Request("a house", prefix="the house", required=("zip", "run")),
            Request("a cat", prefix="ca" if kind in ("characters", "bytes") else "cat", required=("tree",)),
        ]
        for request, translation in zip(requests, translator.stream(requests), strict=True):
            best = translation.candidates[0]
            assert best.text.startswith(request.prefix)
            is_complete = all(has(best.text, phrase) for phrase in request.required)
            assert is_complete or best.missing_phrase, best
            complete += is_complete
    assert complete == 12, "the maximum length leaves room for all phrases"


@pytest.mark.parametrize(("kind", "unknown"), [("words", "zebra"), ("characters", "ß")])
@pytest.mark.parametrize("copies", [False, True])
def test_a_phrase_outside_the_vocabulary_is_rejected_by_name(kind: str, unknown: str, copies: bool) -> None:
    translator = garbage(TOKENIZERS[kind](), copies=copies, beam=2)
    where = "neither in the model's vocabulary nor in the source" if copies else "not in the model's vocabulary"
    for request in (Request("a cat", required=("the cat", f"the {unknown}")), Request("a cat", prefix=unknown)):
        with pytest.raises(TextError, match=rf"is required but '{unknown}' is {where}.*'a cat'"):
            list(translator.stream([Request("the house"), request]))


def test_source_words_can_be_copied() -> None:
    translator = garbage(TOKENIZERS["words"](), copies=True, beam=4, maximum=12)
    request = Request("the zebra sat", prefix="a zebra", required=("the zebra",))
    (translation,) = translator.stream([request])
    assert translation.text.startswith("a zebra")
    assert has(translation.text, "the zebra")


def test_search_itself_rejects_groups_with_phrases() -> None:
    with pytest.raises(ConfigError, match=r"cannot be combined with search\.groups = 2"):
        decoded(garbage(TOKENIZERS["words"]()), ["a cat"], rules=Rules(required=[[[5]]]), beam=4, groups=2)
    with pytest.raises(ConfigError, match=r"cannot be combined with search\.method = 'sample'"):
        decoded(garbage(TOKENIZERS["words"]()), ["a cat"], rules=Rules(required=[[[5]]]), method="sample")


# --- Forbidden words ---


@pytest.mark.parametrize("method", ["beam", "greedy", "sample"])
@pytest.mark.parametrize("kind", TOKENIZERS)
def test_no_forbidden_word_occurs_even_if_no_token_may_follow(kind: str, method: str) -> None:
    """Few tokens are left by `no_repeat`, so that many hypotheses come to where nothing may follow."""
    tokenizer = TOKENIZERS[kind]()
    ways = {"beam": {"beam": 3}, "greedy": {"beam": 1, "length_penalty": 0.0}, "sample": {"method": "sample"}}
    words = ("evil", "a", "cat", "the")
    for seed in range(3):
        translator = garbage(tokenizer, seed=seed, no_repeat=1, maximum=60, minimum=30, **ways[method])
        nbest = 8 if method == "sample" else 1
        requests = [Request(text, forbidden=words) for text in ("a cat", "evil")]
        for translation in translator.stream(requests, nbest=nbest):
            assert translation.candidates
            assert not any(has(candidate.text, word) for candidate in translation.candidates for word in words)


def test_a_replacement_of_an_unknown_word_is_never_forbidden() -> None:
    translator = garbage(TOKENIZERS["words"](), beam=2, maximum=8)
    with torch.no_grad():
        bias = next(value for name, value in translator.model.output.named_parameters() if name.endswith("bias"))
        bias[UNK] += 20.0  # it says nothing else
    dictionary = {"zebra": "evil", "gnu": "cat"}

    def texts(forbidden: Sequence[str]) -> list[str]:
        lines = ["zebra gnu", "zebra", "yak evil"]
        requests = [Request(line, forbidden=tuple(forbidden), replace_unknown=dictionary) for line in lines]
        return [translation.text for translation in translator.stream(requests)]

    assert any(has(text, "evil") for text in texts([]))
    assert not any(has(text, "evil") for text in texts(["evil"]))
    assert any(has(text, "cat") or has(text, "yak") for text in texts(["evil"])), "other words are replaced"


# --- Where no token may follow ---


def decoded(
    translator: Translator, lines: Sequence[str], *, rules: Rules, nbest: int = 1, **search: Any
) -> list[list[Hypothesis]]:
    config = SearchConfig(**search)
    source = pad_source(translator.tokenizers.source.encode_many(lines))
    decoding = start_decoding(translator.model, source, ensemble=translator.ensemble, search=config, attention=False)
    streams, lengths = torch.arange(len(lines)), source.lengths
    with torch.inference_mode():
        return decode(
            *decoding,
            source_lengths=lengths,
            limits=limits_of(lengths, search=config),
            search=config,
            marks=MARKS,
            rules=rules,
            nbest=nbest,
            streams=streams,
        )


def test_every_search_has_no_answer_if_constraints_contradict_each_other() -> None:
    translator = garbage(TOKENIZERS["words"]())
    ids = translator.tokenizers.target.encode("the the the the")
    for way in ({"beam": 1, "length_penalty": 0.0}, {"beam": 1}, {"beam": 3}, {"method": "sample"}):
        hypotheses = decoded(translator, ["a cat", "a cat"], rules=Rules(prefixes=[ids, []]), no_repeat=2, **way)
        assert hypotheses[0] == [NO_ANSWER]
        assert hypotheses[1] != [NO_ANSWER]


def test_a_line_with_contradictory_constraints_does_not_depend_on_its_neighbours() -> None:
    """Alone it is searched greedily; beside a required phrase the whole batch is not."""
    translator = garbage(TOKENIZERS["words"](), beam=1, length_penalty=0.0, no_repeat=2)
    stuck, constrained = Request("a cat", prefix="the the the the"), Request("a cat", required=("tree",))
    (alone,) = translator.stream([stuck])
    together, _ = translator.stream([stuck, constrained])
    assert alone == together
    assert (alone.text, alone.candidates[0].cut, alone.candidates[0].confidence) == ("", True, None)


# --- Answers and their lengths ---


def test_diverse_candidates_are_distinct_even_if_cut() -> None:
    translator = garbage(TOKENIZERS["words"](), beam=6, groups=3, diversity=0.5, maximum=3)
    for translation in translator.stream(["a cat", "the house", "trees run"], nbest=6):
        texts = [(candidate.text, candidate.cut) for candidate in translation.candidates]
        assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("way", [{"beam": 5}, {"beam": 1, "length_penalty": 0.0}, {"method": "sample"}])
def test_a_fixed_length_is_met(way: dict[str, Any]) -> None:
    tokenizer = TOKENIZERS["words"]()
    for size in (1, 3, 7):
        translator = garbage(tokenizer, minimum=size, maximum=size, **way)
        for line in translator.stream(["a cat", "the house is a zip away"]):
            best = line.candidates[0]
            assert (best.pieces, best.cut) == (size + 1, False), "with its end"


def test_a_translation_may_end_at_the_maximum_length() -> None:
    """The maximum counts pieces, without the end."""
    translator = garbage(TOKENIZERS["words"](), beam=50, maximum=2)
    (translation,) = translator.stream(["a cat"], nbest=50)
    assert {candidate.pieces for candidate in translation.candidates if not candidate.cut} == {1, 2, 3}
    assert all(candidate.pieces == 2 for candidate in translation.candidates if candidate.cut)


def test_a_minimum_over_the_maximum_is_refused() -> None:
    translator = garbage(TOKENIZERS["words"](), minimum_ratio=1.5, maximum=3)
    assert len(list(translator.stream(["a cat"]))) == 1
    with pytest.raises(TextError, match=r"of 6 pieces must have at least 9 .*but at most 3 .*'a cat sat in the tree'"):
        list(translator.stream(["a cat", "a cat sat in the tree"]))
    with pytest.raises(ValueError, match=r"minimum_ratio 2.0 is more than maximum_ratio 1.0"):
        SearchConfig(minimum_ratio=2.0, maximum_ratio=1.0)


@pytest.mark.parametrize("hundredths", [1, 7, 10, 14, 29, 30, 57, 70, 110, 115])
def test_ratios_are_exact(hundredths: int) -> None:
    """As integers say it: ⌈n·r⌉ and ⌊n·r⌋."""
    search = SearchConfig(minimum_ratio=hundredths / 100, maximum_ratio=hundredths / 100, maximum_extra=1)
    lengths = torch.arange(2, 513)
    maximum, minimum = limits_of(lengths, search=search)
    for pieces, most, least in zip((lengths - 1).tolist(), maximum.tolist(), minimum.tolist(), strict=True):
        assert least - 1 == -(-pieces * hundredths // 100)
        assert most - 1 == pieces * hundredths // 100 + 1


# --- Batches ---


def test_batches_are_smaller_on_a_cpu_unless_their_size_is_set() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert (batch_positions(SearchConfig(), device=cpu), batch_positions(SearchConfig(), device=gpu)) == (2000, 4000)
    assert {batch_positions(SearchConfig(batch_tokens=70), device=device) for device in (cpu, gpu)} == {70}


def test_wider_beams_have_smaller_batches_and_the_same_translations() -> None:
    cpu = torch.device("cpu")
    assert [
        budget_of(SearchConfig(beam=beam, batch_tokens=4000), device=cpu, nbest=1) for beam in (1, 5, 10, 40, 1000)
    ] == [
        4000,
        4000,
        2000,
        500,
        20,
    ]
    assert budget_of(SearchConfig(method="sample", batch_tokens=4000), device=cpu, nbest=20) == 1000
    assert budget_of(SearchConfig(method="risk", batch_tokens=4000, samples=50), device=cpu, nbest=1) == 400
    translator = garbage(TOKENIZERS["words"](), beam=20, maximum=8)
    small, large = [
        list(translator.stream(LINES[:12], search=translator.search.model_copy(update=change))) for change in TOKENS
    ]
    assert [translation.text for translation in small] == [translation.text for translation in large]


TOKENS = ({"batch_tokens": 20}, {"batch_tokens": 4000})


@pytest.mark.parametrize("family", ["bahdanau", "convolutional", "transformer"])
def test_no_batch_changes_a_translation_of_real_text(family: str) -> None:
    """P15 on 200 lines that people wrote, of many lengths and marks: early pages of this project."""
    lines = (Path(__file__).parent / "written_lines.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 200
    tokenizer = SentencePieceTokenizer.train(SentencePieceConfig(vocabulary_size=600), lines=lines)
    translator = garbage(tokenizer, family=family, beam=3, maximum=8, source_limit=40)
    translator.model.double()
    alone = [next(iter(translator.stream([line]))) for line in lines]
    for order in (range(200), random.Random(1).sample(range(200), 200)):
        for place, translation in zip(order, translator.stream([lines[place] for place in order]), strict=True):
            assert translation.text == alone[place].text
            score = alone[place].candidates[0].score
            assert translation.candidates[0].score == pytest.approx(
                score, rel=1e-8
            )  # the encoder's values are in the hundreds
    assert len({translation.text for translation in alone}) > 100


# --- Blank lines ---


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("copies", [False, True])
def test_white_space_is_scored_as_an_empty_line(kind: str, copies: bool) -> None:
    """Spaces around a word are text, as in training."""
    translator = garbage(TOKENIZERS[kind](), copies=copies)
    blanks = ["", " ", "   ", "\t", " \u3000\u2028", " " * 100_000]
    for sources, targets in ((["a cat"] * 6, blanks), (blanks, ["a cat"] * 6), (blanks, blanks)):
        empty, *blank_scores = translator.score(sources, targets)
        assert all((scored.pieces, scored.cut) == (empty.pieces, False) for scored in blank_scores)
        assert all(scored.log_probs == pytest.approx(empty.log_probs, abs=1e-5) for scored in blank_scores)
        losses = [translator.loss([source], [target]) for source, target in zip(sources, targets, strict=True)]
        assert losses == pytest.approx([losses[0]] * 6, abs=1e-5)
    (empty,) = translator.score(["a cat"], ["  "])
    assert (empty.pieces, len(empty.log_probs)) == ([], 1)
    (around,) = translator.score(["a cat"], [" a cat "])
    assert around.pieces == translator.tokenizers.target.tokenise(" a cat ")
