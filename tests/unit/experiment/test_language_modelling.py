"""Runs of language models: they learn, resume exactly with the carried state, and generate text."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.conftest import Answer

import calque
from calque.commands.generate import _BEAM, _why_idle
from calque.config import check
from calque.data.batching import BatchConfig
from calque.data.prepare import open_prepared, prepare
from calque.engine import TextGenerator, save_language_model
from calque.errors import ConfigError
from calque.experiment import Experiment, assembly_of
from calque.experiment.language_modelling import LanguageModelJudge
from calque.search.settings import SearchConfig
from calque.tasks.interfaces import StoppedError
from calque.text import EOS, load_tokenizer
from calque.training.journal import read_journal

pytestmark = pytest.mark.usefixtures("unplotted")

LSTM = {"kind": "recurrent", "layers": 2, "width": 12, "embedding": 10, "dropout": 0.2, "variational": True}
AWD = {**LSTM, "weight_dropout": 0.3, "type_dropout": 0.1, "activation_penalty": 1.0, "temporal_penalty": 1.0}
TRANSFORMER = {"kind": "transformer", "layers": 1, "width": 12, "heads": 2, "feed_forward": 16}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines that count upwards: each word determines the next."""
    generator = random.Random(1)
    words = [f"w{number}" for number in range(7)]
    path = tmp_path_factory.mktemp("text") / "text"
    starts = [(generator.randrange(7), generator.randint(3, 25)) for _ in range(300)]
    lines = [" ".join(words[(start + offset) % 7] for offset in range(size)) for start, size in starts]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def values(text: Path, network: dict[str, Any], *, reading: str, **training: Any) -> dict[str, Any]:
    return {
        "seed": 2,
        "task": {"kind": "language-modelling", "reading": reading, "bptt": 6},
        "data": {"train": [{"kind": "text", "path": str(text)}], "validation": {"minimum": 10}},
        "text": {"kind": "tokens"},
        "model": {"network": network},
        "training": {
            "steps": 20,
            "validate_every": 10,
            "checkpoint_every": 5,
            "log_every": 5,
            "keep": 9,
            "threads": 1,
            "device": "cpu",
            "batch": {"tokens": 48},
            "schedule": {"warmup": 5},
            "label_smoothing": 0.0,
            **training,
        },
    }


@pytest.mark.parametrize(
    ("network", "reading", "training"),
    [
        (LSTM, "running", {}),
        (AWD, "running", {"averaged_sgd": 1, "optimiser": {"kind": "sgd", "learning_rate": 5.0}}),
        (LSTM, "lines", {"ema": 0.9}),
        (TRANSFORMER, "running", {"accumulate": 2}),
        (TRANSFORMER, "lines", {"average": 2}),
    ],
    ids=["lstm running", "awd", "lstm lines", "transformer running", "transformer lines"],
)
def test_a_resumed_run_ends_with_the_same_bytes(
    text: Path, tmp_path: Path, network: dict[str, Any], reading: str, training: dict[str, Any]
) -> None:
    uninterrupted = calque.train(
        values(text, network, reading=reading, **training), run=tmp_path / "whole", quiet=True
    ).folder
    half = tmp_path / "half"
    shutil.copytree(uninterrupted, half)
    for step in (15, 20):
        shutil.rmtree(half / "checkpoints" / f"step-{step}")
    calque.resume(half, quiet=True)
    ends = [load_file(run / "checkpoints" / "step-20" / "weights.safetensors") for run in (uninterrupted, half)]
    assert all(torch.equal(value, ends[1][name]) for name, value in ends[0].items())
    models = [load_file(run / "model" / "weights.safetensors") for run in (uninterrupted, half)]
    assert all(torch.equal(value, models[1][name]) for name, value in models[0].items())
    assert (uninterrupted / "metrics.jsonl").read_bytes() == (half / "metrics.jsonl").read_bytes()
    assert (uninterrupted / "samples.txt").read_bytes() == (half / "samples.txt").read_bytes()
    carries = (half / "checkpoints" / "step-20" / "carry.safetensors").exists()
    assert carries == (reading == "running" and network["kind"] == "recurrent")


def test_the_state_of_running_text_matters(text: Path, tmp_path: Path) -> None:
    """The checkpoint holds a state that is not zero, without which a resumed run would have other weights."""
    uninterrupted = calque.train(values(text, LSTM, reading="running"), run=tmp_path / "whole", quiet=True).folder
    carry = load_file(uninterrupted / "checkpoints" / "step-10" / "carry.safetensors")
    assert len(carry) == 3 and all(state.abs().sum() > 0 for state in carry.values())


def test_another_length_of_back_propagation_starts_a_new_epoch(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a batch would continue in the text can no longer be told."""
    run = calque.train(values(text, LSTM, reading="running"), run=tmp_path / "run", quiet=True).folder
    for step in (10, 15, 20):
        shutil.rmtree(run / "checkpoints" / f"step-{step}")
    config = (run / "config.toml").read_text()
    assert "bptt = 6\n" in config
    (run / "config.toml").write_text(config.replace("bptt = 6\n", "bptt = 9\n"))
    calque.resume(run)
    assert (
        "settings that the batches depend on have changed, so the rest of epoch 1 is skipped" in capsys.readouterr().err
    )


@pytest.fixture(scope="module")
def trained(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    steps = dict.fromkeys(("steps", "validate_every", "checkpoint_every"), 400)
    training = {**steps, "batch": {"tokens": 200}, "optimiser": {"learning_rate": 0.03}}
    experiment = values(text, {**LSTM, "dropout": 0.0}, reading="lines", **training)
    return calque.train(experiment, run=folder, quiet=True).folder


def test_it_learns_the_order_of_words(trained: Path) -> None:
    generator = calque.load(trained)
    assert isinstance(generator, TextGenerator)
    valid = [line for line in read_journal(trained / "metrics.jsonl") if line["kind"] == "valid"]
    assert valid[-1]["perplexity"] < 2.5  # the end of a line is the only surprise
    assert generator.generate("w3", maximum=3, search=SearchConfig(beam=1, length_penalty=0)).startswith("w3 w4 w5")


def test_a_score_is_the_log_probability_of_search(trained: Path) -> None:
    generator = calque.load(trained)
    (candidate, *_) = generator.candidates(["w2"], maximum=12, search=SearchConfig(beam=4), nbest=2)[0]
    (scored,) = generator.score([candidate.text])
    assert not candidate.cut
    assert scored.log_prob == pytest.approx(candidate.log_prob, abs=1e-4)
    alone = [next(iter(generator.score([line]))).log_prob for line in ("w1 w2", "w5", "w0 w1 w2 w3")]
    together = [scored.log_prob for scored in generator.score(["w1 w2", "w5", "w0 w1 w2 w3"])]
    assert together == pytest.approx(alone, abs=1e-4)
    perplexity = generator.perplexity(["w1 w2", "w5"])
    assert (perplexity.tokens, perplexity.words, perplexity.bytes) == (5, 5, 9)
    assert perplexity.nats == pytest.approx(-sum(alone[:2]), abs=1e-4)


def test_streamed_pieces_are_those_of_the_whole_text(trained: Path) -> None:
    generator = calque.load(trained)
    greedy = SearchConfig(beam=1, length_penalty=0)
    sampling = SearchConfig(method="sample", temperature=1.5, seed=4)
    for search in (greedy, sampling):
        text = generator.candidates(["w1"], maximum=9, search=search, first=3)[0][0].text
        pieces = list(generator.stream("w1", maximum=9, search=search, number=3))
        assert "".join(pieces) == text and len(pieces) > 2
    texts = {generator.generate("", search=sampling.model_copy(update={"seed": seed})) for seed in range(5)}
    assert len(texts) > 1


def test_commands(trained: Path, text: Path, command: Any) -> None:
    written: Answer = command("generate", trained, "--prompt", "w3", "--maximum", 3, "--beam", 1, "length_penalty=0")
    assert written.code == 0 and written.out.startswith("w3 w4 w5")
    stopped = command("generate", trained, "--prompt", "w3", "--stop", "w5", "--beam", 1, "length_penalty=0")
    assert stopped.out == "w3 w4 \n"
    lines = command("generate", trained, "--nbest", 2, "--beam", 2, "--format", "jsonl", stdin=b"w1\nw2\n").out
    assert [json.loads(line)["prompt"] for line in lines.splitlines()] == ["w1", "w1", "w2", "w2"]
    assert len(command("generate", trained, "--maximum", 3).out.splitlines()) == 1, "without a prompt, one text"
    evaluated = json.loads(command("evaluate", trained, "--text", text, "--json").out)
    assert 1 < evaluated["perplexity_word"] == evaluated["perplexity_piece"] < 2.5
    scores = command("score", trained, "--target", text)
    assert len(scores.out.splitlines()) == 300 and "perplexity" in scores.err


@pytest.mark.parametrize(
    "settings",
    [
        ["minimum=6"],
        ["no_repeat=1", "seed=3"],
        ["no_repeat=2", "minimum=5", "temperature=2"],
        ["no_repeat=1", "minimum=9", "temperature=2"],
        ["--beam", 1, "length_penalty=0", "minimum=6"],
        ["search.beam=3", "no_repeat=3"],
    ],
    ids=str,
)
def test_the_format_does_not_change_the_text(trained: Path, command: Any, settings: list[str]) -> None:
    options = ["--maximum", 9, *settings]
    texts = command("generate", trained, *options, stdin=b"w1\nw2 w3\n")
    objects = command("generate", trained, *options, "--format", "jsonl", stdin=b"w1\nw2 w3\n")
    assert texts.code == objects.code == 0, texts.err
    assert texts.out.splitlines() == [json.loads(line)["text"] for line in objects.out.splitlines()]


def test_a_beam_is_a_beam_however_it_is_given(trained: Path, tmp_path: Path, command: Any) -> None:
    expected = command("generate", trained, "--prompt", "w3", "--beam", 3).out
    assert command("generate", trained, "--prompt", "w3", "search.beam=3").out == expected
    assert command("generate", trained, "--prompt", "w3", "beam = 3").out == expected
    sampling, generator = tmp_path / "sampling", calque.load(trained)
    generator.search = SearchConfig(method="sample", temperature=5.0)
    save_language_model(sampling, generator, card="")
    assert command("generate", sampling, "--prompt", "w3", "--beam", 3).out == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["coverage=0.2", "--beam", 3], "coverage=0.2 has no effect: it is not supported for language models"),
        (["temperature=0.5", "--beam", 3], "temperature=0.5 has no effect: it is used only in sampling"),
        (["search.temperature=0.5", "search.beam=3"], "temperature=0.5 has no effect: it is used only in sampling"),
        (["length_penalty=1"], "length_penalty=1.0 has no effect: it is used only in beam search"),
        (["method=risk"], "'risk' is not supported for language models"),
        (["method=sample", "--beam", 3], "--beam 3 has no effect"),
        (["diversity=0.7", "--beam", 4], "diversity=0.7 has no effect: it is used only with groups=2"),
        (["patience=3", "--beam", 4], "patience=3.0 has no effect: it is used only with stopping=patience"),
        (["maximum=9"], "maximum=9 has no effect: use --maximum N"),
        (["minimum=9", "--maximum", 8], "search.minimum = 9 is more than the maximum of 8 pieces"),
        (["--nbest", 5, "--beam", 3], "nbest is 5 and beam is 3"),
        (["source_limit=9", "utility=bleu"], "utility=bleu has no effect: it is not supported for language models"),
    ],
    ids=str,
)
def test_settings_without_effect_are_rejected(trained: Path, command: Any, settings: list[Any], message: str) -> None:
    answer = command("generate", trained, "--prompt", "w1", *settings)
    assert (answer.code, answer.out) == (2, "") and message in answer.err


def test_every_search_setting_is_used_or_named_as_idle() -> None:
    sampled, searched = (
        {key for key in SearchConfig.model_fields if not _why_idle(key, search)}
        for search in (SearchConfig(method="sample"), SearchConfig(groups=5, stopping="patience"))
    )
    assert sampled == {"method", "temperature", "top_k", "top_p", "min_p", "seed", "minimum", "no_repeat"}
    assert searched == {"method", "minimum", "no_repeat", *_BEAM}


def test_mistakes_are_reported(trained: Path, text: Path, tmp_path: Path, command: Any) -> None:
    assert "language model" in command("translate", trained, stdin=b"w1\n").err
    assert "--source" in command("score", trained, "--source", text, "--target", text).err
    assert "empty string" in command("generate", trained, "--stop", "", "--prompt", "w1").err
    wrong = command("train", "--text", text, "--system", "tiny", "--run", tmp_path / "a")
    assert wrong.code == 2 and "--text is for a language model" in wrong.err
    pairs = command("train", "--source", text, "--target", text, "--system", "language", "--run", tmp_path / "b")
    assert pairs.code == 2 and "a language model reads no source" in pairs.err
    metric = command("train", "--text", text, "--run", tmp_path / "c", "training.metric=bleu")
    assert metric.code == 2 and "'bleu' is not one of loss, perplexity, word_perplexity" in metric.err
    objective = command("train", "--text", text, "--run", tmp_path / "d", "training.objective.method.kind=r-drop")
    assert objective.code == 2 and "training.objective is not supported for language models" in objective.err


@pytest.mark.parametrize("network", [LSTM, TRANSFORMER], ids=["lstm", "transformer"])
@pytest.mark.parametrize("reading", ["lines", "running"])
def test_the_judgement_does_not_depend_on_the_parts(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: dict[str, Any], reading: str
) -> None:
    """After running out of memory a validation reads less at a time, and gives the same loss."""
    settings = dict.fromkeys(("steps", "validate_every", "checkpoint_every"), 1)
    task = values(text, network, reading=reading, **settings)
    task["task"].update(context=12, stride=5)
    task["data"]["store"] = str(tmp_path / "store")
    run = calque.train(task, run=tmp_path / "run", quiet=True).folder
    generator, prepared = calque.load(run), open_prepared(tmp_path / "store")
    generator.model.double()
    judge = LanguageModelJudge(generator, prepared.valid, words=9, batch=BatchConfig(tokens=200))
    sizes: list[int] = []
    read = generator.model.read

    def recorded(tokens: torch.Tensor, state: Any) -> Any:
        sizes.append(tokens.numel())
        return read(tokens, state)

    monkeypatch.setattr(generator.model, "read", recorded)
    monkeypatch.setattr(judge, "_samples", list)
    losses, largest = [], []
    for parts in (1, 2, 4, 64):
        sizes.clear()
        losses.append(judge(generator.model, parts=parts, stop=lambda: False).values["loss"])
        largest.append(max(sizes))
    assert losses[1:] == pytest.approx(losses[:1] * 3, abs=1e-9)
    assert largest[0] > largest[-1]


def test_language_models_of_an_earlier_version_are_refused() -> None:
    folder = Path(__file__).parents[2] / "formats" / "pairs_only" / "models" / "language-model" / "model"
    with pytest.raises(calque.FolderError, match="a language model of an earlier version"):
        calque.load(folder)


@pytest.mark.parametrize("reading", ["lines", "running"])
def test_a_stop_ends_the_judgement(text: Path, tmp_path: Path, reading: str) -> None:
    experiment = check(Experiment, values(text, LSTM, reading=reading), origin="test")
    assembly = assembly_of(experiment)
    prepared = prepare(experiment.data, preparation=assembly.preparation, folder=tmp_path / "store")
    model = assembly.build(prepared)
    judge = assembly.judge(model, prepared, ranks=1)
    calls: list[bool] = []

    def stop() -> bool:
        calls.append(len(calls) == 1)
        return calls[-1]

    with pytest.raises(StoppedError):
        judge(model, parts=4, stop=stop)
    assert calls == [False, True]  # asked before each batch, and the second one is not read


@pytest.mark.parametrize("reading", ["lines", "running"])
def test_an_adaptive_softmax_knows_the_frequencies_of_the_text(text: Path, tmp_path: Path, reading: str) -> None:
    """Running text has no ends of sentences that a decoder would predict."""
    config = values(text, LSTM, reading=reading, precision="float64")
    config["model"]["tie"] = False
    config["model"]["output"] = {"kind": "adaptive", "cutoffs": [2, 5], "shrink": 2.0}
    experiment = check(Experiment, config, origin="test")
    assembly = assembly_of(experiment)
    prepared = prepare(experiment.data, preparation=assembly.preparation, folder=tmp_path / "store")
    model = assembly.build(prepared)
    column = prepared.train["text"]
    counts = [0] * len(load_tokenizer(prepared.vocabularies, column="text").vocabulary)
    for row in range(len(prepared.train)):
        for piece in (*column.row(row).tolist(), *([EOS] if reading == "lines" else [])):
            counts[piece] += 1
    parameters = dict(model.named_parameters())
    order = sorted(range(len(counts)), key=lambda piece: (-counts[piece], piece))
    assert parameters["output.ranks"].argsort().tolist() == order
    assert {value.dtype for value in parameters.values() if value.is_floating_point()} == {torch.float64}


def test_a_language_model_is_not_warm_started(text: Path, tmp_path: Path) -> None:
    config = values(text, LSTM, reading="lines", warm_start=str(tmp_path))
    with pytest.raises(ConfigError, match=r"training\.warm_start is not supported for language models"):
        calque.train(config, run=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
