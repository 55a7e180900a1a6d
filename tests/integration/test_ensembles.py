"""Several models: ensembles, a language model at each step, and a noisy channel, over the commands."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import calque
from calque.engine import Candidate, Channel, Request, Translation
from calque.evaluation.confidence import Confidence
from calque.experiment import train
from tests.conftest import Answer, learning, still_and, toy_corpus, toy_values, without_plots


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two translators and a reverse one with one vocabulary, a language model of their target, and others."""
    folder = tmp_path_factory.mktemp("ensembles")
    corpus = toy_corpus(folder / "corpus", pairs=400)
    turned = {"source": corpus["target"], "target": corpus["source"]}
    alone = {"source": corpus["target"], "target": corpus["target"]}
    strange = toy_corpus(folder / "strange", pairs=100, letters="uvwxyz")
    settings = [*learning(steps=60, rate=0.01), *still_and(width=16), "text.joint=true"]
    folders = {}
    with without_plots():
        for name, files, family, more in (
            ("one", corpus, "luong", ["seed=1"]),
            ("two", corpus, "transformer", ["seed=2"]),
            ("reverse", turned, "luong", []),
            ("stranger", strange, "luong", []),
        ):
            folders[name] = train(toy_values(files, family, *settings, *more), run=folder / name, quiet=True).folder
        for name, vocabulary in (("language", "one"), ("strange language", "stranger")):
            values = toy_values(alone, "plain", *learning(steps=60, rate=0.01), "training.metric=auto")
            values["data"] = {"train": [{"kind": "text", "path": str(alone["target"])}]}
            values["text"] = {"kind": "given", "path": str(folders[vocabulary])}
            values["model"] = {"network": {"kind": "recurrent", "layers": 1, "width": 16, "embedding": 12}}
            values["task"] = {"kind": "language-modelling"}
            folders[name] = train(values, run=folder / name, quiet=True).folder
    return folders


LINES = ["a b c", "h g f e", "", "b b a"]


def test_an_ensemble_of_different_architectures(runs: dict[str, Path]) -> None:
    one, two = calque.load(runs["one"]), calque.load(runs["two"])
    both = one.with_ensemble([two])
    translations = both.translate(LINES)
    assert len(translations) == len(LINES)
    assert one.with_ensemble([one]).translate(LINES) == one.translate(LINES), "an ensemble with itself changes nothing"
    assert translations == two.with_ensemble([one]).translate(LINES), "the order does not matter"
    geometric = one.search.model_copy(update={"ensemble": "log-probabilities"})
    assert len(list(both.stream(LINES, search=geometric))) == len(LINES)


def test_models_of_other_vocabularies_are_rejected(runs: dict[str, Path]) -> None:
    one, stranger = calque.load(runs["one"]), calque.load(runs["stranger"])
    with pytest.raises(calque.FolderError, match="pieces of a model of the ensemble differ from those"):
        one.with_ensemble([stranger])
    with pytest.raises(calque.FolderError, match="pieces of the language model differ from those"):
        one.with_ensemble(language=calque.load(runs["strange language"]))
    half = calque.Translator(
        one.model,
        one.tokenizers._replace(source=stranger.tokenizers.source),
        config=one.config,
        search=one.search,
    )
    with pytest.raises(calque.FolderError, match="pieces of a model of the ensemble differ from those"):
        one.with_ensemble([half])


def test_a_language_model_counts_by_its_weight(runs: dict[str, Path]) -> None:
    one, language = calque.load(runs["one"]), calque.load(runs["language"])
    fused = one.with_ensemble(language=language)
    nothing = one.search.model_copy(update={"language_weight": 0.0})
    assert [translation.text for translation in fused.stream(LINES, search=nothing)] == one.translate(LINES)
    search = one.search.model_copy(update={"language_weight": 0.5, "length_penalty": 0.0, "beam": 3})
    (translation,) = fused.stream(["a b c"], search=search)
    best = translation.candidates[0]
    (own,), (prior,) = one.score(["a b c"], [best.text]), language.score([best.text])
    assert best.log_prob == pytest.approx(own.log_prob + 0.5 * prior.log_prob, abs=1e-3)


def test_a_language_model_of_running_text_starts_after_a_line_end(runs: dict[str, Path]) -> None:
    """It has never read a begin mark: search adds what `score`, which starts with a line end, gives."""
    one, two, lines = (calque.load(runs[name]) for name in ("one", "two", "language"))
    task = lines.task.model_copy(update={"reading": "running"})
    running = calque.TextGenerator(lines.model, lines.tokenizer, config=lines.config, task=task, search=lines.search)
    assert running.start != lines.start
    search = one.search.model_copy(update={"language_weight": 0.5, "length_penalty": 0.0, "beam": 3})
    for language in (running, lines):
        fused = one.with_ensemble(language=language)
        (translation,) = fused.stream(["a b c"], search=search)
        best = translation.candidates[0]
        (own,), (prior,) = one.score(["a b c"], [best.text]), language.score([best.text])
        assert best.log_prob == pytest.approx(own.log_prob + 0.5 * prior.log_prob, abs=1e-3)
        assert fused.with_ensemble([two]).ensemble.language_start == language.start, "a later member changes nothing"


@pytest.mark.parametrize("mean", ["probabilities", "log-probabilities"])
def test_pieces_are_scored_by_all_models_together(runs: dict[str, Path], mean: str) -> None:
    """Scoring agrees with search, and the log-probabilities of pieces with the whole's."""
    one, two, language = (calque.load(runs[name]) for name in ("one", "two", "language"))
    for joined in (one.with_ensemble([two]), one.with_ensemble([two], language=language)):
        joined.search = one.search.model_copy(update={"ensemble": mean, "language_weight": 0.4})
        requests = [Request(line, nbest=2, detail=True) for line in LINES]
        for line, translation in zip(LINES, joined.stream(requests), strict=True):
            for candidate in translation.candidates if line else []:
                assert candidate.detail is not None
                assert sum(candidate.detail.log_probs) == pytest.approx(candidate.log_prob, abs=1e-4)
                assert candidate.detail.attention is not None
                (scored,) = joined.score([line], [candidate.text])
                if not candidate.cut:
                    assert scored.log_prob == pytest.approx(candidate.log_prob, abs=1e-4)


def test_a_language_model_prefers_what_it_has_seen(runs: dict[str, Path]) -> None:
    language = calque.load(runs["language"])
    likely, unlikely = language.score(["a b c d", "a a a a a a a a a a a a a a a a"])
    assert likely.log_prob > unlikely.log_prob
    assert isinstance(language, calque.TextGenerator)


def test_the_channel_ranks_by_its_formula(runs: dict[str, Path]) -> None:
    one, reverse, language = (calque.load(runs[name]) for name in ("one", "reverse", "language"))
    search = one.search.model_copy(update={"beam": 4, "channel_weight": 0.7, "prior_weight": 0.3})
    sources = ["a b c", "", "c d e f"]
    listed = list(one.stream(sources, search=search, nbest=4))
    again = list(Channel(reverse, language=language).rerank(listed, sources, searches=[search] * len(sources)))
    for source, translation, before in zip(sources, again, listed, strict=True):
        order = [(candidate.cut, -candidate.score) for candidate in translation.candidates]
        assert order == sorted(order)
        assert {candidate.text for candidate in translation.candidates} == {
            candidate.text for candidate in before.candidates
        }
        for candidate in translation.candidates if source else []:
            (back,), (prior,) = reverse.score([candidate.text], [source]), language.score([candidate.text])
            assert candidate.score == pytest.approx(
                candidate.log_prob + 0.7 * back.log_prob + 0.3 * prior.log_prob, abs=1e-4
            )


def test_the_empty_candidate_is_scored_like_any_other(runs: dict[str, Path]) -> None:
    one, reverse, language = (calque.load(runs[name]) for name in ("one", "reverse", "language"))
    search = one.search.model_copy(update={"channel_weight": 1.0, "prior_weight": 0.5})
    listed = [Translation([Candidate("g f e d c", -4.0, -4.0, cut=False), Candidate("", -5.0, -5.0, cut=False)])]
    (again,) = Channel(reverse, language=language).rerank(listed, ["c d e f g"], searches=[search])
    for candidate in again.candidates:
        (back,), (prior,) = reverse.score([candidate.text], ["c d e f g"]), language.score([candidate.text])
        expected = candidate.log_prob + back.log_prob + 0.5 * prior.log_prob
        assert candidate.score == pytest.approx(expected, abs=1e-4)
        assert back.log_prob < -1


def test_the_channel_ranks_cut_and_incomplete_candidates_last(runs: dict[str, Path]) -> None:
    one, reverse = calque.load(runs["one"]), calque.load(runs["reverse"])
    search = one.search.model_copy(update={"beam": 8, "channel_weight": 3.0, "maximum": 4})
    requests = [Request("a b c d e"), Request("d a e g", required=("h", "e")), Request("c d", required=("a b c d",))]
    sources = [request.text for request in requests]
    listed = list(one.stream(requests, search=search, nbest=8))
    again = list(Channel(reverse).rerank(listed, sources, searches=[search] * len(sources)))
    changed = 0
    for before, after in zip(listed, again, strict=True):
        marks = [(candidate.cut, candidate.missing_phrase) for candidate in after.candidates]
        assert marks == sorted(marks)
        changed += [candidate.score for candidate in after.candidates] != sorted(
            (candidate.score for candidate in after.candidates), reverse=True
        )
        assert sorted(candidate.text for candidate in before.candidates) == sorted(
            candidate.text for candidate in after.candidates
        )
    assert changed, "by score alone some would have ranked first"


def test_members_of_an_ensemble_stay(runs: dict[str, Path]) -> None:
    one, two, language = (calque.load(runs[name]) for name in ("one", "two", "language"))
    at_once, chained = (
        one.with_ensemble([two], language=language),
        one.with_ensemble([two]).with_ensemble(language=language),
    )
    assert chained.ensemble == at_once.ensemble == one.with_ensemble(language=language).with_ensemble([two]).ensemble
    assert [translation.candidates[0].score for translation in chained.stream(LINES)] == [
        translation.candidates[0].score for translation in at_once.stream(LINES)
    ]
    with pytest.raises(calque.ConfigError, match="this translator already has a language model"):
        at_once.with_ensemble(language=language)
    with pytest.raises(calque.ConfigError, match="name all members at once"):
        one.with_ensemble([two.with_ensemble([one])])


def test_the_loss_is_that_of_all_models_together(runs: dict[str, Path]) -> None:
    one, two, language = (calque.load(runs[name]) for name in ("one", "two", "language"))
    sources, targets = ["a b c", "d e"], ["c b a", "e d e"]
    for joined in (one.with_ensemble([two]), one.with_ensemble([two], language=language)):
        scored = list(joined.score(sources, targets))
        total, pieces = sum(pair.log_prob for pair in scored), sum(len(pair.log_probs) for pair in scored)
        assert joined.loss(sources, targets) == pytest.approx(-total / pieces, rel=1e-6)
        assert abs(joined.loss(sources, targets) - one.loss(sources, targets)) > 1e-3
    assert one.with_ensemble([one]).loss(sources, targets) == pytest.approx(one.loss(sources, targets), rel=1e-5)


def test_confidence_uses_the_models_own_probabilities(runs: dict[str, Path]) -> None:
    """A language model changes the translations and their scores, but not the model's own probabilities."""
    one, two, language = (calque.load(runs[name]) for name in ("one", "two", "language"))
    one.confidence = Confidence(((-20.0, 0.0), (0.0, 1.0)))
    search = one.search.model_copy(update={"language_weight": 1.0})
    translations = list(one.with_ensemble(language=language).stream(LINES, search=search, nbest=2))
    for line, translation in zip(LINES, translations, strict=True):
        for candidate in translation.candidates if line else []:
            (own,) = one.score([line], [candidate.text])
            mean = own.log_prob / len(own.log_probs)
            assert candidate.cut or candidate.confidence == pytest.approx(1 + mean / 20, abs=1e-4)
            assert candidate.log_prob < own.log_prob - 0.1
    assert one.with_ensemble([two]).with_ensemble(language=language).confidence is None


@pytest.mark.parametrize("method", ["sample", "risk"])
def test_samples_have_no_confidence(runs: dict[str, Path], method: str) -> None:
    """Confidence is calibrated on the most probable translations, not on samples."""
    one = calque.load(runs["one"])
    one.confidence = Confidence(((-20.0, 0.0), (0.0, 1.0)))
    search = one.search.model_copy(update={"method": method, "samples": 4})
    (translation,) = one.stream(["a b c"], search=search)
    assert translation.candidates[0].confidence is None
    assert next(iter(one.stream(["a b c"]))).candidates[0].confidence is not None


def test_the_commands(runs: dict[str, Path], command, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    for options in (
        ["--ensemble", runs["two"]],
        ["--language", runs["language"], "language_weight=0.3"],
        ["--reverse", runs["reverse"], "--language", runs["language"], "channel_weight=1.0"],
    ):
        answer: Answer = command("translate", runs["one"], "--input", source, *options)
        assert answer.code == 0, answer.err
        assert len(answer.out.splitlines()) == len(LINES)
        assert answer.out.splitlines()[2] == ""
    assert command("translate", runs["one"], "--input", source, "--ensemble", runs["stranger"]).code == 2


def test_the_channel_ranks_the_parts_of_a_long_line(runs: dict[str, Path], command, tmp_path: Path) -> None:
    """The parts fit the reverse model; the line joins the best translation of each part."""
    parts = ["a b c", "h g f", "b b a", "c d e", "d d d", "a g e"]
    files = {"whole": [" ".join(parts[:3]), " ".join(parts[3:])], "parts": parts}
    for name, lines in files.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    options = ["source_limit=3", "beam=6", "--long", "split"]

    def translate(name: str, *more: object) -> list[str]:
        answer: Answer = command("translate", runs["one"], "--input", tmp_path / name, *options, *more)
        assert answer.code == 0, answer.err
        return answer.out.splitlines()

    channel = ["channel_weight=5.0", "--reverse", runs["reverse"]]
    ranked = translate("parts", *channel)
    assert ranked != translate("parts")
    assert translate("whole", *channel) == [" ".join(ranked[:3]), " ".join(ranked[3:])]


@pytest.fixture(scope="module")
def shouting(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model that has learnt to write letters in upper case, and one that writes them in lower case."""
    folder = tmp_path_factory.mktemp("shouting")
    corpus = toy_corpus(folder / "corpus", pairs=600, change=lambda words: [word.upper() for word in words])
    turned = {"source": corpus["target"], "target": corpus["source"]}
    settings = [*learning(steps=300, rate=0.01), *still_and(width=32)]
    folders = {}
    with without_plots():
        for name, files in (("forth", corpus), ("back", turned)):
            folders[name] = train(toy_values(files, "luong", *settings), run=folder / name, quiet=True).folder
    return folders


WRONG_DIRECTION = "--reverse: this model seems to translate in the same direction as the first one"


TALK = "".join(f"{' '.join(random.Random(number).choices('abcdefgh', k=5))}\n" for number in range(40)).encode()


@pytest.mark.parametrize("reverse", ["forth", "back"])
@pytest.mark.parametrize("format", ["text", "jsonl"])
def test_a_reverse_model_of_the_same_direction_is_reported(
    shouting: dict[str, Path], command: Callable[..., Answer], reverse: str, format: str
) -> None:
    options = ("--reverse", shouting[reverse], "--format", format)
    answer = command("translate", shouting["forth"], *options, stdin=TALK)
    assert answer.code == 0, answer.err
    assert len(answer.out.splitlines()) == 40
    assert answer.err.count(WRONG_DIRECTION) == (reverse == "forth")


def test_a_model_of_both_directions_is_not_reported(trained: Path, command: Callable[..., Answer]) -> None:
    """The trained model copies, so it is its own reverse."""
    answer = command("translate", trained, "--reverse", trained, stdin=TALK)
    assert (answer.code, WRONG_DIRECTION in answer.err) == (0, False)


def test_a_language_model_is_trained_from_text_alone(command, tmp_path: Path) -> None:
    corpus = toy_corpus(tmp_path, pairs=120)
    options = ["--system", "language", "--scale", 0.05, "training.steps=6", "training.threads=1"]
    answer = command("train", "--text", corpus["target"], "--run", tmp_path / "run", *options)
    assert answer.code == 0, answer.err
    assert isinstance(calque.load(tmp_path / "run"), calque.TextGenerator)
    assert f"next: calque generate {tmp_path / 'run'}" in answer.err
    assert "# A language model" in (tmp_path / "run" / "model" / "README.md").read_text(encoding="utf-8")
    wrong = command("train", "--text", corpus["target"], "--source", corpus["source"], "--target", corpus["target"])
    assert wrong.code == 2


def test_a_language_model_scores_text_and_translates_nothing(
    runs: dict[str, Path], command: Callable[..., Answer], tmp_path: Path
) -> None:
    text = tmp_path / "text"
    text.write_text("a b c\nh g f e\n", encoding="utf-8")
    lm = runs["language"]
    scored = command("score", lm, "--target", text)
    assert scored.code == 0, scored.err
    expected = [scored_text.log_prob for scored_text in calque.load(lm).score(["a b c", "h g f e"])]
    assert [float(line.split("\t")[0]) for line in scored.out.splitlines()] == pytest.approx(expected, abs=1e-4)
    assert "2 lines" in scored.err
    for arguments in (
        ("translate", lm, "--input", text),
        ("translate", runs["one"], "--ensemble", lm, "--input", text),
        ("translate", runs["one"], "--reverse", lm, "--input", text),
        ("evaluate", lm, "--source", text, "--reference", text),
        ("score", lm, "--source", text, "--target", text),
    ):
        answer = command(*arguments)
        assert (answer.code, answer.out) == (2, ""), arguments
        assert "is a language model" in answer.err
    answer = command("score", runs["one"], "--target", text)
    assert (answer.code, answer.out) == (2, "")
    assert "--source is missing" in answer.err


def test_text_is_for_language_models_and_pairs_are_not(tmp_path: Path, command: Callable[..., Answer]) -> None:
    corpus = toy_corpus(tmp_path / "corpus")
    sides = ["--source", corpus["source"], "--target", corpus["target"]]
    for arguments in ([*sides, "--system", "language"], ["--text", corpus["target"], "--system", "tiny"]):
        answer = command("train", *arguments, "--run", tmp_path / "run")
        assert (answer.code, answer.out) == (2, "")
        assert "a language model" in answer.err
        assert not (tmp_path / "run").exists()
