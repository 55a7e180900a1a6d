"""n-gram models over the commands: trained, evaluated, fused, inspected, compared, exported and imported."""

import bz2
import gzip
import json
import lzma
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import calque
from calque.engine import Channel, TextGenerator, Translator
from calque.engine.ngram_models import ngram_queries
from calque.experiment import train
from calque.text import BOS, EOS, PAD
from tests.conftest import Answer, learning, still_and, toy_corpus, toy_values, without_plots
from tests.unit.statistics.plain_kneser_ney import PlainKneserNey

Command = Callable[..., Answer]
pytestmark = pytest.mark.usefixtures("unplotted")

ORDER = 3


def sentences(count: int, *, seed: int) -> list[str]:
    """Lines of a small grammar with words of very different frequency."""
    generator = random.Random(seed)
    nouns, verbs = [f"n{number}" for number in range(12)], ["sees", "likes", "eats"]
    return [
        f"the {generator.choice(nouns[: generator.randint(1, 12)])} {generator.choice(verbs)} "
        f"{generator.choice(['a', 'the'])} {generator.choice(nouns[: generator.randint(1, 12)])}"
        for _ in range(count)
    ]


def write(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("ngrams")
    return {
        name: write(folder / name, sentences(count, seed=seed))
        for seed, (name, count) in enumerate((("train", 200), ("valid", 20), ("test", 30)))
    }


@pytest.fixture(scope="module")
def runs(files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A trigram model of each reading."""
    folder, folders = tmp_path_factory.mktemp("runs"), {}
    for reading in ("lines", "running"):
        values = {
            "task": {"kind": "language-modelling", "reading": reading},
            "data": {role: [{"kind": "text", "path": str(files[role])}] for role in ("train", "valid")},
            "text": {"kind": "tokens"},
            "model": {"network": {"kind": "ngram", "order": ORDER}},
        }
        with without_plots():
            folders[reading] = train(values, run=folder / reading, quiet=True).folder
    return folders


def test_the_command_estimates_a_model(files: dict[str, Path], tmp_path: Path, command: Command) -> None:
    corpora = ["--text", files["train"], "--valid-text", files["valid"]]
    settings = ["text.kind=tokens", "model.network.order=3", "model.network.prune=[0,1]"]
    for name in ("one", "two"):
        answer = command("train", "--system", "kneser-ney", *corpora, *settings, "--run", tmp_path / name)
        assert answer.code == 0, answer.err
    assert "counting 3-grams" in answer.err and "2-grams; discounts" in answer.err
    assert "done: model estimated from the counts of the corpus: " in answer.err and "steps" not in answer.err
    answer = command("train", "--system", "kneser-ney", *corpora, *settings, "--scale", 0.5, "--run", tmp_path / "x")
    assert answer.code == 2 and "scale 0.5 has no effect on kneser-ney" in answer.err, answer.err
    weights = [(tmp_path / name / "model" / "weights.safetensors").read_bytes() for name in ("one", "two")]
    assert weights[0] == weights[1]
    answer = command("train", "--resume", tmp_path / "one")
    assert answer.code == 0 and "finished" in answer.err
    assert "done" in command("runs", tmp_path).out
    answer = command("average", tmp_path / "one")
    assert answer.code == 2 and "0 checkpoints" in answer.err


@pytest.mark.parametrize("reading", ["lines", "running"])
def test_perplexity_is_that_of_the_plain_equations(
    reading: str, files: dict[str, Path], runs: dict[str, Path], command: Command
) -> None:
    generator = calque.load(runs[reading])
    assert isinstance(generator, TextGenerator)
    lines, test = (
        [generator.tokenizer.encode(line) for line in files[name].read_text(encoding="utf-8").splitlines()]
        for name in ("train", "test")
    )
    if reading == "lines":
        training, tested = ([[BOS, *line, EOS] for line in part] for part in (lines, test))
    else:
        training, tested = ([[EOS, *(token for line in part for token in (*line, EOS))]] for part in (lines, test))
    words = set(range(len(generator.tokenizer.vocabulary))) - {PAD, BOS}
    plain = PlainKneserNey(training, order=ORDER, words=words)
    nats = [-math.log(plain.p(line[end], tuple(line[:end]))) for line in tested for end in range(1, len(line))]
    answer = command("evaluate", runs[reading], "--text", files["test"])
    assert answer.code == 0, answer.err
    assert f"{math.exp(sum(nats) / len(nats)):.3f}" in answer.out.splitlines()[0]
    scored = command("score", runs[reading], "--target", files["test"])
    assert scored.code == 0, scored.err
    first = float(scored.out.splitlines()[0].split("\t")[0])
    start = [BOS] if reading == "lines" else [EOS]
    whole = [*start, *test[0], EOS]
    expected = sum(math.log(plain.p(whole[end], tuple(whole[:end]))) for end in range(1, len(whole)))
    assert first == pytest.approx(expected, abs=1e-3)
    queries = ngram_queries(generator)
    assert sum(queries.score_all([*test[0], EOS])) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float64", "int8"])
def test_text_is_generated(precision: str, runs: dict[str, Path], command: Command) -> None:
    more = ["--precision", precision, "--maximum", 12]
    sampled = [command("generate", runs["lines"], "--prompt", "the", "seed=2", *more) for _ in range(2)]
    assert sampled[0].code == 0 and sampled[0].out.startswith("the n"), sampled[0].err
    assert sampled[0] == sampled[1]
    best = command("generate", runs["lines"], "--prompt", "the n0", "--beam", 4, "minimum=1", *more)
    assert best.code == 0 and best.out.split()[2] in ("sees", "likes", "eats"), best.err


@pytest.fixture(scope="module")
def translators(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A translator, a reverse one of the same pieces, and an n-gram model of its target."""
    folder = tmp_path_factory.mktemp("fused")
    corpus = toy_corpus(folder / "corpus", pairs=300)
    settings = [*learning(steps=15, rate=0.01), *still_and(width=16), "text.joint=true"]
    turned = {"source": corpus["target"], "target": corpus["source"]}
    with without_plots():
        forward = train(toy_values(corpus, "luong", *settings), run=folder / "forward", quiet=True).folder
        backward = train(toy_values(turned, "luong", *settings), run=folder / "backward", quiet=True).folder
        language = train(
            {
                "task": {"kind": "language-modelling"},
                "data": {"train": [{"kind": "text", "path": str(corpus["target"])}]},
                "text": {"kind": "given", "path": str(forward)},
                "model": {"network": {"kind": "ngram", "order": 3}},
            },
            run=folder / "language",
            quiet=True,
        ).folder
    return {"forward": forward, "backward": backward, "language": language}


def test_it_is_fused_with_a_translator(translators: dict[str, Path], tmp_path: Path, command: Command) -> None:
    """The score is the sum of both models' log-probabilities of the same translation, by their weights."""
    source = write(tmp_path / "source", ["a b c", "d e f g"])
    options = ["--input", source, "--language", translators["language"], "language_weight=0.5"]
    answer = command("translate", translators["forward"], *options)
    assert answer.code == 0 and len(answer.out.splitlines()) == 2, answer.err
    forward, language = calque.load(translators["forward"]), calque.load(translators["language"])
    assert isinstance(forward, Translator) and isinstance(language, TextGenerator)
    search = forward.search.model_copy(update={"language_weight": 0.5, "length_penalty": 0.0, "beam": 3})
    (fused,) = forward.with_ensemble(language=language).stream(["a b c"], search=search)
    best = fused.candidates[0]
    (own,), (prior,) = forward.score(["a b c"], [best.text]), language.score([best.text])
    assert best.log_prob == pytest.approx(own.log_prob + 0.5 * prior.log_prob, abs=1e-3)


def test_it_is_the_prior_of_a_noisy_channel(translators: dict[str, Path], tmp_path: Path, command: Command) -> None:
    source = write(tmp_path / "source", ["a b c"])
    options = ["--reverse", translators["backward"], "--language", translators["language"]]
    answer = command("translate", translators["forward"], "--input", source, *options)
    assert answer.code == 0 and answer.out.strip(), answer.err
    forward, backward, language = (calque.load(translators[name]) for name in ("forward", "backward", "language"))
    assert isinstance(forward, Translator) and isinstance(backward, Translator) and isinstance(language, TextGenerator)
    search = forward.search.model_copy(update={"channel_weight": 0.7, "prior_weight": 0.3})
    listed = list(forward.stream(["a b c"], search=search, nbest=3))
    (again,) = Channel(backward, language=language).rerank(listed, ["a b c"], searches=[search])
    for candidate in again.candidates:
        (back,), (prior,) = backward.score([candidate.text], ["a b c"]), language.score([candidate.text])
        expected = candidate.log_prob + 0.7 * back.log_prob + 0.3 * prior.log_prob
        assert candidate.score == pytest.approx(expected, abs=1e-4)


def test_it_is_inspected(runs: dict[str, Path], files: dict[str, Path], tmp_path: Path, command: Command) -> None:
    answer = command("inspect", runs["lines"], "the n0 sees sees", "--format", "json")
    assert answer.code == 0, answer.err
    (found,) = json.loads(answer.out)["sentences"][0]["saliency"]
    assert found["method"] == "matched n-gram"
    rows = [sum(row) for row in found["weights"]]
    assert rows[:3] == [1, 2, 2] and rows[3] == 0, "no n-gram ends in sees sees"
    shown = command("inspect", runs["lines"], "the n0 sees")
    assert shown.code == 0 and "history of the matched n-gram" in shown.out and " 1.00" not in shown.out
    assert any(line.rstrip().endswith("the n0") for line in shown.out.splitlines()), "in the order of the text"
    refused = command("inspect", runs["lines"], "--gradients", "--target", files["test"])
    assert refused.code == 2 and "neither layers nor gradients" in refused.err, refused
    assert command("inspect", runs["lines"], "the n0 sees", "--output", tmp_path / "a.html").code == 0


def test_models_are_compared(runs: dict[str, Path], files: dict[str, Path], command: Command) -> None:
    answer = command("compare", runs["lines"], runs["running"], "--text", files["test"])
    assert answer.code == 0 and "perplexity" in answer.out, answer.err


@pytest.mark.parametrize("reading", ["lines", "running"])
def test_arpa_files_are_exported_and_imported(
    reading: str, runs: dict[str, Path], files: dict[str, Path], tmp_path: Path, command: Command
) -> None:
    arpa = tmp_path / "model.arpa"
    answer = command("ngram", "export", runs[reading], "--output", arpa)
    assert answer.code == 0, answer.err
    header = [line.split("=")[1] for line in arpa.read_text(encoding="utf-8").splitlines() if line.startswith("ngram ")]
    counts = ", ".join(f"{int(size):,} {order}-grams" for order, size in enumerate(header, start=1))
    assert f"wrote {counts}\n" in answer.err
    assert command("ngram", "export", runs[reading]).out == arpa.read_text(encoding="utf-8")
    for suffix, decompress in ((".gz", gzip.decompress), (".xz", lzma.decompress), (".bz2", bz2.decompress)):
        packed = tmp_path / f"packed.arpa{suffix}"
        assert command("ngram", "export", runs[reading], "--output", packed).code == 0
        assert decompress(packed.read_bytes()) == arpa.read_bytes()
    answer = command("ngram", "export", runs[reading], "--output", tmp_path / "packed.zst")
    assert answer.code == 2 and "use a name that ends in .gz, .xz or .bz2" in answer.err
    expected = command("evaluate", runs[reading], "--text", files["test"]).out
    for name, more in (("own", []), ("like", ["--like", runs[reading]])):
        answer = command("ngram", "import", arpa, tmp_path / name, *more)
        assert answer.code == 0 and answer.out == f"{tmp_path / name}\n", answer.err
        assert f"read {counts}\n" in answer.err
        assert command("evaluate", tmp_path / name, "--text", files["test"]).out == expected
    assert command("ngram", "export", tmp_path / "like").out == arpa.read_text(encoding="utf-8")


def test_unknown_words_of_a_prompt_are_named(runs: dict[str, Path], tmp_path: Path, command: Command) -> None:
    answer = command("generate", runs["lines"], "--prompt", "the zebra sees zebra", "--maximum", 2)
    assert answer.code == 0 and answer.err.count("zebra") == 1, answer.err
    assert "prompt 1: these parts are not in the model's vocabulary and are read as <unk>: 'zebra'" in answer.err
    assert command("generate", runs["lines"], "--prompt", "the n1", "--maximum", 2).err == ""
    (tmp_path / "empty").write_text("")
    answer = command("score", runs["lines"], "--target", tmp_path / "empty")
    assert (
        answer.code == 2
        and "has no lines, so there is nothing to score" in answer.err
        and "perplexity" not in answer.err
    )


@pytest.mark.parametrize(("word", "warns"), [("▁the", True), ("the", False)])
def test_an_arpa_file_of_pieces_needs_their_tokenizer(word: str, warns: bool, tmp_path: Path, command: Command) -> None:
    lines = ["\\data\\", "ngram 1=4", "", "\\1-grams:", "-1\t<unk>", "-1\t</s>", "-99\t<s>", f"-0.1\t{word}", "\\end\\"]
    answer = command("ngram", "import", write(tmp_path / "pieces.arpa", lines), tmp_path / "model")
    assert answer.code == 0 and ("use --like MODEL" in answer.err) == warns, answer.err


def test_mistakes(runs: dict[str, Path], translators: dict[str, Path], tmp_path: Path, command: Command) -> None:
    broken = write(tmp_path / "broken.arpa", ["\\data\\", "ngram 1=1", "", "\\1-grams:", "x\ta"])
    strange = tmp_path / "strange.arpa"
    command("ngram", "export", runs["lines"], "--output", strange)
    text = write(tmp_path / "text", ["a b"] * 60)
    corpora = ["--system", "kneser-ney", "--text", text, "text.kind=tokens"]
    for arguments, message in (
        (["ngram", "import", broken, tmp_path / "new"], "broken.arpa: line 5: expected a logarithm, found 'x'"),
        (["ngram", "import", tmp_path / "none", tmp_path / "new"], "none: No such file"),
        (["ngram", "import", strange, runs["lines"]], "already exists"),
        (["ngram", "import", strange, tmp_path / "new", "--reading", "x"], "--reading: 'x' is not one of"),
        (["ngram", "import", strange, tmp_path / "new", "--like", tmp_path], "--like: "),
        (["ngram", "import", strange, tmp_path / "new", "--like", translators["forward"]], "is not in the vocabulary"),
        (["ngram", "export", translators["forward"]], "is a translation model"),
        (["ngram", "export", runs["lines"], "--output", tmp_path], "is a folder"),
        (["quantise", runs["lines"], tmp_path / "small"], "8 bits would save nothing"),
        (["train", *corpora, "training.steps=10"], "training.steps: no effect on this model"),
        (["train", *corpora, "training.batch.tokens=auto"], 'training.batch.tokens = "auto" has no effect: this model'),
        (["train", *corpora, "training.label_smoothing=0.2"], "label_smoothing has no effect on n-gram models"),
        (["embed", runs["lines"], "--input", text], "an n-gram model has no vectors"),
        (["train", *corpora, "model.network.prune=[2,1]"], "thresholds at least as high"),
        (["train", *corpora, "model.output.kind=sampled"], "has no effect with network.kind = 'ngram'"),
    ):
        answer = command(*arguments)
        assert answer.code == 2 and message in answer.err, (arguments, answer)
    assert not (tmp_path / "new").exists()


def test_a_written_config_trains(files: dict[str, Path], tmp_path: Path, command: Command) -> None:
    config = tmp_path / "a.toml"
    assert command("init", config, "--text", files["train"], "--system", "kneser-ney", "text.kind=tokens").code == 0
    answer = command("train", "--config", config, "--run", tmp_path / "run")
    assert answer.code == 0 and "5-grams; discounts" in answer.err, answer.err


def test_weights_of_corpora_are_refused(files: dict[str, Path], tmp_path: Path, command: Command) -> None:
    config = tmp_path / "a.toml"
    corpus = f'data.train=[{{kind="text", path="{files["train"]}", weight=2.0}}]'
    assert command("init", config, "--text", files["train"], "--system", "language", "text.kind=tokens").code == 0
    answer = command("train", "--config", config, "--system", "kneser-ney", corpus)
    assert answer.code == 2 and "counts every line once, so weight must be 1" in answer.err, answer


def test_other_language_models_have_no_ngrams(tmp_path: Path, files: dict[str, Path], command: Command) -> None:
    settings = ["text.kind=tokens", "training.steps=1", "training.validate_every=1", "training.checkpoint_every=1"]
    run = tmp_path / "run"
    answer = command("train", "--scale", 0.05, "--text", files["train"], *settings, "--run", run)
    assert answer.code == 0, answer.err
    answer = command("ngram", "export", run)
    assert answer.code == 2 and "has a transformer network, not n-grams" in answer.err, answer
