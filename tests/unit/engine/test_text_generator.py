"""Text generators: prompts, scores and search settings, against decoding token by token."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from calque.config import check
from calque.data.batching import BatchConfig
from calque.data.corpora import DataConfig, TextFileConfig
from calque.data.prepare import prepare
from calque.data.text_preparation import TextPreparation
from calque.engine import TextGenerator
from calque.engine import prompt as prompt_module
from calque.engine.prompt import PromptState, prompted
from calque.engine.text_generator import _stream_of
from calque.errors import ConfigError, TextError
from calque.experiment.language_modelling import LanguageModelJudge
from calque.models.language_model import LanguageModel, LanguageModelConfig
from calque.objectives.decoding_step import MARKS, language_step
from calque.search.decode import Rules, decode, limits_of
from calque.search.settings import SearchConfig
from calque.search.step import Hypothesis
from calque.tasks.language_modelling import LanguageModellingConfig
from calque.text import (
    EOS,
    CharactersConfig,
    CharactersTokenizer,
    Tokenizer,
    TokensConfig,
    TokensTokenizer,
    load_tokenizer,
)

NETWORKS: dict[str, dict[str, Any]] = {
    "lstm": {"kind": "recurrent", "layers": 2, "width": 6, "embedding": 6, "dropout": 0.0},
    "transformer": {"kind": "transformer", "layers": 1, "width": 8, "heads": 2, "feed_forward": 12, "dropout": 0.0},
}
WORDS = [f"w{number}" for number in range(7)]
GREEDY = SearchConfig(beam=1, length_penalty=0)
SAMPLING = SearchConfig(method="sample", temperature=1.5, seed=4)
BEAM = SearchConfig(beam=3)


def build(
    network: str = "lstm",
    *,
    reading: str = "lines",
    search: SearchConfig = BEAM,
    tokenizer: Tokenizer | None = None,
    **options: Any,
) -> TextGenerator:
    """A model with random weights, wide enough that its texts vary."""
    torch.manual_seed(3)
    config = check(LanguageModelConfig, {"network": NETWORKS[network], **options}, origin="test")
    tokenizer = tokenizer or TokensTokenizer.train(TokensConfig(), lines=[" ".join(WORDS)])
    model = LanguageModel(config, vocabulary_size=len(tokenizer.vocabulary)).double().eval()
    for parameter in model.parameters():
        if parameter.requires_grad:  # not the ranks of words
            torch.nn.init.uniform_(parameter, -1, 1)
    model.requires_grad_(False)
    task = check(LanguageModellingConfig, {"reading": reading}, origin="test")
    return TextGenerator(model, tokenizer, config=config, task=task, search=search)


def token_by_token(
    generator: TextGenerator, prompt: str, *, maximum: int, search: SearchConfig, nbest: int
) -> list[Hypothesis]:
    """The prompt as a constraint on search, each token read and projected by itself."""
    ids = generator.tokenizer.encode(prompt)
    lengths = {"maximum": len(ids) + maximum, "maximum_extra": len(ids) + maximum}
    limited = search.model_copy(update={**lengths, "minimum": len(ids) + search.minimum})
    return decode(
        language_step(generator.model, start=generator.start),
        generator.model.start(1),
        (),
        source_lengths=torch.ones(1, dtype=torch.long),
        limits=limits_of(torch.ones(1, dtype=torch.long), search=limited),
        search=limited,
        marks=MARKS,
        rules=Rules(prefixes=[ids] if ids else ()),
        nbest=nbest,
        streams=_stream_of(search, 0),
    )[0][:nbest]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("reading", ["lines", "running"])
@pytest.mark.parametrize("prompt", ["", "w3", "w1 w2 w1 w4 w6"])
@pytest.mark.parametrize(
    "search",
    [GREEDY, SAMPLING, BEAM, BEAM.model_copy(update={"no_repeat": 2}), SAMPLING.model_copy(update={"no_repeat": 2})],
    ids=["greedy", "sampling", "beam", "beam without repetition", "sampling without repetition"],
)
def test_a_prompt_read_at_once_is_a_prompt_read_token_by_token(
    network: str, reading: str, prompt: str, search: SearchConfig
) -> None:
    generator = build(network, reading=reading)
    nbest = 1 if search.is_greedy else 3
    (candidates,) = generator.candidates([prompt], maximum=6, search=search, nbest=nbest)
    expected = token_by_token(generator, prompt, maximum=6, search=search, nbest=nbest)
    assert [candidate.text for candidate in candidates] == [
        generator.tokenizer.decode(hypothesis.tokens) for hypothesis in expected
    ]
    for candidate, hypothesis in zip(candidates, expected, strict=True):
        assert candidate.log_prob == pytest.approx(hypothesis.log_prob, abs=1e-9)
        assert candidate.score == pytest.approx(hypothesis.score, abs=1e-9)
        assert candidate.cut == hypothesis.cut


def test_a_prompt_may_repeat_what_is_not_generated_again() -> None:
    generator, search = build(), SAMPLING.model_copy(update={"no_repeat": 1})
    for number in range(5):
        (candidate,) = generator.candidates(["w1 w1 w1"], maximum=9, search=search, first=number)[0]
        words = candidate.text.split()
        assert words[:3] == ["w1"] * 3 and "w1" not in words[3:] and len(set(words)) == len(words) - 2


class Recorder:
    """A function that notes the sizes of its first argument."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.shapes = function, list[tuple[int, ...]]()

    def __call__(self, values: Tensor, *rest: Any) -> Any:
        self.shapes.append(tuple(values.shape))
        return self.function(values, *rest)


@pytest.mark.parametrize("network", NETWORKS)
def test_a_prompt_is_read_once_and_projected_where_needed(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = build(network)
    read, log_probs = Recorder(generator.model.read), Recorder(generator.model.log_probs)
    monkeypatch.setattr(generator.model, "read", read)
    monkeypatch.setattr(generator.model, "log_probs", log_probs)
    prompt, search = " ".join(WORDS), GREEDY
    (candidate,) = generator.candidates([prompt], maximum=4, search=search)[0]
    generated = len(candidate.text.split()) - len(WORDS)
    assert read.shapes == [(1, len(WORDS)), *[(1, 1)] * (generated + 1)]
    assert len(log_probs.shapes) == generated + 1
    read.shapes.clear()
    log_probs.shapes.clear()
    text = "".join(generator.stream(prompt, maximum=4, search=search))
    assert text == candidate.text
    assert read.shapes[0] == (1, len(WORDS)) and set(read.shapes[1:]) == {(1, 1)}
    assert len(log_probs.shapes) == len(read.shapes) - 1


def test_a_prompted_step_gives_the_prompt_first() -> None:
    """Rows are independent, and the step behind it is asked only after the prompt."""

    def unreachable(*_: Any) -> Any:
        raise AssertionError("the prompt has not ended")

    state = PromptState((), torch.tensor([[4, 5], [6, 4]]), torch.tensor([[-1.0, -2.0], [-3.0, -4.0]]))
    step = prompted(unreachable, vocabulary_size=8)
    output, state = step(torch.tensor([1, 1]), state, ())
    assert output.log_probs.isfinite().nonzero().tolist() == [[0, 4], [1, 6]]
    assert output.log_probs[[0, 1], [4, 6]].tolist() == [-1, -3]
    _, state = step(torch.tensor([4, 6]), state, ())
    with pytest.raises(AssertionError, match="not ended"):
        step(torch.tensor([5, 4]), state, ())


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("search", [GREEDY, SAMPLING], ids=["greedy", "sampling"])
@pytest.mark.parametrize("rules", [{"minimum": 6}, {"no_repeat": 1}, {"no_repeat": 2, "minimum": 4}, {"minimum": 8}])
def test_streamed_text_follows_the_rules_of_search(network: str, search: SearchConfig, rules: dict[str, int]) -> None:
    """The same text as the whole search, at least as long as its minimum, without repetition."""
    generator, search = build(network), search.model_copy(update=rules)
    for number, prompt in enumerate(["", "w1 w2", "w1 w2 w1"]):
        (candidate,) = generator.candidates([prompt], maximum=8, search=search, first=number)[0]
        streamed = "".join(generator.stream(prompt, maximum=8, search=search, number=number))
        assert streamed == candidate.text
        words = streamed.split()
        given = len(prompt.split())
        assert search.minimum <= len(words) - given <= 8
        for end in range(given + 1, len(words) + 1):
            if size := search.no_repeat:
                earlier = [words[at : at + size] for at in range(end - size)]
                assert words[end - size : end] not in earlier


def test_the_minimum_is_counted_after_the_prompt() -> None:
    generator = build()
    texts = [
        generator.generate("w1 w2", maximum=7, search=BEAM.model_copy(update={"minimum": size})) for size in (0, 7)
    ]
    assert [len(text.split()) - 2 for text in texts][1] == 7 > len(texts[0].split()) - 2


@pytest.mark.parametrize(
    ("settings", "nbest", "message"),
    [
        ({"method": "risk"}, 1, "search.method = 'risk' is not supported for language models"),
        ({"coverage": 0.2}, 1, "search.coverage = 0.2 needs attention over a source"),
        ({"minimum": 9}, 1, "search.minimum = 9 is more than the maximum of 8 pieces"),
        ({"beam": 3}, 5, "nbest is 5 and beam is 3"),
    ],
)
def test_what_generation_cannot_follow_is_rejected(settings: dict[str, Any], nbest: int, message: str) -> None:
    generator, search = build(), SearchConfig(**settings)
    with pytest.raises(ConfigError, match=message):
        generator.candidates(["w1"], maximum=8, search=search, nbest=nbest)
    if nbest == 1:
        with pytest.raises(ConfigError, match=message):
            list(generator.stream("w1", maximum=8, search=search))


def test_a_stream_ends_where_nothing_is_allowed() -> None:
    """More pieces are required than there are: the search discards the text, the stream ends."""
    generator, search = build(), SAMPLING.model_copy(update={"no_repeat": 1, "minimum": 20})
    assert generator.candidates([""], maximum=20, search=search)[0][0].text == ""
    assert (
        len("".join(generator.stream("", maximum=20, search=search)).split()) == len(WORDS) + 1
    )  # the unknown piece is one


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(
    "output", [{"kind": "full"}, {"kind": "adaptive", "cutoffs": [4, 7], "shrink": 2.0}], ids=["full", "adaptive"]
)
def test_scores_are_those_of_single_tokens_in_bounded_batches(
    network: str, output: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches hold at most the given number of padded positions, a longer text alone; no [B,T,V] is computed."""
    generator = build(network, output=output, tie=False)
    texts = [
        " ".join(WORDS[(start + step) % 7] for step in range(size)) for start, size in enumerate((9, 1, 40, 3, 0, 9))
    ]
    expected = []
    for text in texts:
        total, state, before = 0.0, generator.model.start(1), generator.start
        for token in (*generator.tokenizer.encode(text), EOS):
            read, state = generator.model.read(torch.tensor([[before]]), state)
            total, before = total + float(generator.model.log_probs(read.hidden)[0, 0, token]), token
        expected.append(total)
    recorder = Recorder(generator.model.read)
    monkeypatch.setattr(generator.model, "read", recorder)
    monkeypatch.setattr(generator.model, "log_probs", None)
    scores = list(generator.score(texts, batch_tokens=20))
    assert [scored.log_prob for scored in scores] == pytest.approx(expected, abs=1e-9)
    assert [len(scored.log_probs) for scored in scores] == [len(text.split()) + 1 for text in texts]
    assert [scored.pieces for scored in scores] == [text.split() for text in texts]
    assert sorted(recorder.shapes) == [(1, 41), (2, 10), (3, 4)]
    monkeypatch.setattr(prompt_module, "POSITIONS", 3)
    assert [scored.log_prob for scored in generator.score(texts)] == pytest.approx(expected, abs=1e-9)
    assert list(generator.score([])) == []


@pytest.mark.parametrize("reading", ["lines", "running"])
@pytest.mark.parametrize("kind", [TokensTokenizer, CharactersTokenizer], ids=["tokens", "characters"])
def test_blank_lines_are_left_out_as_in_training(
    reading: str, kind: type[TokensTokenizer] | type[CharactersTokenizer], tmp_path: Path
) -> None:
    """The perplexity of a text is the judge's of the same text, which preparation has stripped of blank lines."""
    lines = ["w1 w2", "", " \t", "w3", "\u3000", "w5 w6 w0", ""]
    text = tmp_path / "text"
    text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    config = {TokensTokenizer: TokensConfig(), CharactersTokenizer: CharactersConfig()}[kind]
    corpus = TextFileConfig(path=text)
    prepared = prepare(
        DataConfig(train=(corpus,), valid=(corpus,)),
        preparation=TextPreparation(config, running=reading == "running"),
        folder=tmp_path / "store",
    )
    generator = build(reading=reading, tokenizer=load_tokenizer(prepared.vocabularies, column="text"))
    result = generator.perplexity(lines)
    assert result == generator.perplexity(["w1 w2", "w3", "w5 w6 w0"])
    assert result.tokens == len(prepared.valid["text"].values) + (3 if reading == "lines" else 0)
    words = sum(len(line.split()) + 1 for (line,) in prepared.valid_text)
    judge = LanguageModelJudge(generator, prepared.valid, words=words, batch=BatchConfig(tokens=64))
    judgement = judge(generator.model, parts=1, stop=lambda: False)
    assert (result.words, result.bytes) == (words, 18)
    if reading == "lines":  # running text is validated in several parts
        assert judgement.values["loss"] == pytest.approx(result.nats / result.tokens, abs=1e-9)
    for blank in ([], ["", " "]):
        with pytest.raises(TextError, match="every line of the text is blank"):
            generator.perplexity(blank)
