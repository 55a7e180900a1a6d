"""The line's recipe, without training: sizes, corpora, lengths, speed, commands, kept results, claims and figure."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from recipes.lineage import claims, corpus, entries, figure, lengths, omissions, rates, report, score
from recipes.lineage import plan as plans
from recipes.lineage import results as kept
from recipes.lineage import speed as speeds
from recipes.runner import scheduler
from recipes.runner.files import write_json
from tests.conftest import environment

FOLDER = Path(__file__).parents[3] / "recipes" / "lineage"
NAMES = [entry.name for entry in entries.ENTRIES]


@pytest.fixture
def plan(tmp_path: Path) -> Any:
    """What run.py makes of a command line with training.steps=7; its corpus is not there."""
    sides = [corpus.Side(language, *(tmp_path / f"{role}.{language}" for role in "abc")) for language in ("en", "de")]
    return plans.Plan(corpus.Corpus(*sides), tmp_path, 1.0, "cpu", ["training.steps=7"])


def result(
    name: str, seed: int, *, bleu: float, short: float = 30.0, long: float = 30.0, apart: float = 30.0
) -> dict[str, Any]:
    """What score.py would have written."""
    by_length = dict(zip(lengths.BUCKET_NAMES, (short, short, short, long, long), strict=True))
    return {
        "name": name,
        "seed": seed,
        "bleu_lowercased": bleu,
        "bleu": bleu - 0.5,
        "chrf": 60.0,
        "signatures": {"bleu_lowercased": "case:lc", "bleu": "case:mixed", "chrf": "nc:6"},
        "lengths": {
            bucket: {
                "sentences": 9,
                "bleu_lowercased": value,
                "joined": {"sentences": 9, "at_once": value, "apart": apart},
            }
            for bucket, value in by_length.items()
        },
        "longer": 2,
        "parameters": 8_000_000,
        "steps": 2500,
        "learning_rate": 0.002,
        "data": "0123456789abcdef",
        "search": {"beam": 5, "length_penalty": 1.0},
        "calque": "0.1.0",
        "torch": "2.11.0",
        "device": "a GPU",
    }


def results(**bleu: tuple[float, ...]) -> dict[str, dict[int, dict[str, Any]]]:
    """Results by entry and seed; names have underscores for hyphens."""
    return {
        name.replace("_", "-"): {
            seed: result(name.replace("_", "-"), seed, bleu=value) for seed, value in enumerate(values, start=1)
        }
        for name, values in bleu.items()
    }


def finding_of(measured: Any, *, claim: str) -> Any:
    return next(finding for finding in claims.findings(measured) if claim in finding.claim)


@pytest.mark.parametrize("entry", entries.ENTRIES, ids=lambda entry: entry.name)
def test_entries_are_of_one_size(entry: Any) -> None:
    model = entries.entry_model(entry)
    assert entries.parameters(model) == pytest.approx(entries.TARGET_PARAMETERS, rel=entries.TOLERANCE)
    assert model.encoder.dropout == model.decoder.dropout == entries.DROPOUT


def test_entries_have_names_of_their_own() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert set(figure.MAIN) <= {*NAMES, *figure.STATISTICAL}


@pytest.mark.parametrize("entry", entries.ENTRIES, ids=lambda entry: entry.name)
def test_every_entry_is_a_config_that_calque_takes(entry: Any, plan: Any) -> None:
    experiment = plans.experiment_of(entry, plan)
    assert experiment.model == entries.entry_model(entry)
    assert experiment.training.optimiser.learning_rate == entry.rate
    assert experiment.training.steps == 7


def test_neighbours_are_joined_once() -> None:
    lines = ["a b", "c", "d", "e", "f"]
    assert lengths.join_neighbours(lines, size=1, language="en") == lines
    assert lengths.join_neighbours(lines, size=2, language="en") == ["a b c", "d e"]
    assert lengths.join_neighbours(lines, size=3, language="zh") == ["a bcd"]
    assert lengths.join_neighbours(lines, size=6, language="en") == []


def test_what_is_translated_apart_is_joined_like_its_source() -> None:
    scored = {1: [("a", "A", "x"), ("b", "B", "y"), ("c", "C", "z")], 2: [("a b", "A B", "something else")]}
    assert score.translated_apart(scored, language="de") == [("a b", "A B", "x y")]
    assert score.translated_apart(scored, language="zh") == [("a b", "A B", "xy")]


def test_sources_and_references_stay_together() -> None:
    test = score.Pairs(["你好。", "再见。"], ["Hello .", "Bye ."])
    assert score.joined(test, size=2, languages=("zh", "en")) == (["你好。再见。"], ["Hello . Bye ."])


def test_every_length_up_to_the_longest_has_its_bucket() -> None:
    names = [lengths.bucket_of(size) for size in range(62)]
    assert names[0] is None and names[61] is None and None not in names[1:61]
    assert [names[size] for size in (1, 10, 11, 40, 41, 60)] == ["1-10", "1-10", "11-20", "31-40", "41-60", "41-60"]


def test_length_is_of_words_or_of_characters() -> None:
    assert lengths.length(" two  words ", language="en") == 2
    assert lengths.length("你好。 再见", language="zh") == 5


def test_scores_by_length_see_their_own_rows_only() -> None:
    rows = [("a", "right", "right"), ("a b", "right", "wrong"), ("a " * 15, "right", "right"), ("a " * 99, "x", "y")]
    equal = lengths.by_length(
        rows, language="en", score=lambda translations, references: sum(map(str.__eq__, translations, references))
    )
    assert equal == {"1-10": (2, 1), "11-20": (1, 1), "21-30": (0, None), "31-40": (0, None), "41-60": (0, None)}


def test_small_letters_beforehand_are_sacrebleus_option() -> None:
    from calque.evaluation.metrics import score_translations

    translations, references = ["The Cat sat on THE mat .", "a dog"], ["the cat Sat on the Mat .", "A dog !"]
    assert (
        score.lowercased_bleu(translations, references)
        == score_translations(translations, references).bleu_lowercased.value
    )


def test_what_is_left_out_and_said_again_is_counted() -> None:
    """Sentences of 20 words: two make 40, which is no long source, three make 60."""
    sources = [f"{letter} " * 19 + f"{letter}." for letter in "abcdef"]
    rows = omissions.long_sources(sources, sources, languages=("en", "de"))
    assert [(row.sentences, row.source) for row in rows] == [(3, " ".join(sources[:3])), (3, " ".join(sources[3:]))]
    translations = [" ".join(sources[:3]), " ".join([*sources[3:5], sources[3]])]
    assert omissions.count_omissions(rows, translations) == (1, 1, 1.0)


def test_speeds_of_several_lines_are_weighed_by_their_time() -> None:
    lines = [{"seconds": 10.0, "tokens_per_second": 100.0}, {"seconds": 1.0, "tokens_per_second": 1200.0}]
    assert speeds.tokens_per_second(lines) == 200.0


@pytest.mark.slow
def test_every_entry_is_timed_by_itself(tmp_path: Path) -> None:
    lines = [f"{'abcdefgh'[number % 8]} word {number % 50} and some more ." for number in range(90)]
    write_corpus(
        tmp_path,
        files={f"{part}.{side}": lines for part in ("train", "val", "test_2016_flickr") for side in ("en", "de")},
    )
    command = [sys.executable, "-m", "recipes.lineage.speed", tmp_path, tmp_path / "out", "text.vocabulary_size=300"]
    command += ["--names", "cho2014", "base", "--factor", "0.05", "--device", "cpu", "--to", tmp_path / "speed.json"]
    for expected in (0, 2):  # the second time OUT is there
        done = subprocess.run(
            [*map(str, command)], capture_output=True, text=True, env=environment(), cwd=FOLDER.parents[1], timeout=600
        )
        assert done.returncode == expected, done.stderr
    assert "Traceback" not in done.stderr
    speeds = json.loads((tmp_path / "speed.json").read_bytes())
    assert list(speeds) == ["cho2014", "base"] and min(speeds.values()) > 0


def write_corpus(folder: Path, *, files: dict[str, list[str]]) -> None:
    """Every NAME.LANGUAGE with its lines."""
    for name, lines in files.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))


def test_it_is_trained_on_single_and_on_joined_sentences() -> None:
    """Groups of 2, 3 and 4 in turn; the second has more than the longest bucket's words, and the last line no group."""
    english = ["a b", "c", "d", "e " * 60, "f", "g", "h", "i", "j", "k"]
    german = [line.upper() for line in english]
    lines = corpus.training_lines({"en": english, "de": german})
    assert lines == {"en": [*english, "a b c", "g h i j"], "de": [*german, "A B C", "G H I J"]}


def test_chinese_is_joined_without_a_space_and_measured_in_characters() -> None:
    lines = corpus.training_lines({"zh": ["你" * 30, "好" * 30, "再", "见", "吗"], "en": ["a", "b", "c", "d", "e"]})
    assert lines["zh"][5:] == ["你" * 30 + "好" * 30, "再见吗"]
    assert lines["en"][5:] == ["a b", "c d e"]


def test_every_line_is_in_one_group_at_most() -> None:
    groups = corpus.neighbours(1000)
    assert [place for group in groups for place in range(1000)[group]] == list(range(groups[-1].stop))
    assert groups[-1].stop > 1000 - max(lengths.JOINED)


def test_the_corpus_is_made_the_same_every_time(tmp_path: Path) -> None:
    lines = {name: [f"{name} {number}" for number in range(9)] for name in ("train", "val", "test_2016_flickr")}
    write_corpus(
        tmp_path, files={f"{name}.{language}": content for name, content in lines.items() for language in ("en", "de")}
    )
    source, target = corpus.derive_corpus(tmp_path, kind="multi30k", to=tmp_path / "made")
    assert corpus.read_lines(target.valid) == lines["val"]
    assert corpus.read_lines(target.test) == lines["test_2016_flickr"]
    before = source.train.read_bytes()
    assert before.decode().splitlines()[:10] == [*lines["train"], "train 0 train 1"]
    corpus.derive_corpus(tmp_path, kind="multi30k", to=tmp_path / "made")
    assert source.train.read_bytes() == before


def test_dialogues_give_their_own_test_set(tmp_path: Path) -> None:
    names = [f"{name}.{language}" for language in ("zh", "en") for name in ("train", "dev")]
    write_corpus(tmp_path, files={name: [f"{name} {number}" for number in range(2500)] for name in names})
    source, target = corpus.derive_corpus(tmp_path, kind="dialog", to=tmp_path / "out")
    assert (source.language, target.language) == ("zh", "en")
    valid, test = (corpus.read_lines(path) for path in (target.valid, target.test))
    assert (len(valid), valid[0], len(test), test[-1]) == (1000, "dev.en 0", 1000, "dev.en 2499")


def test_a_corpus_that_is_not_there_or_does_not_line_up_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"val\.de\.gz"):
        corpus.derive_corpus(tmp_path, kind="multi30k", to=tmp_path)
    write_corpus(tmp_path, files={"train.zh": ["a", "b"], "train.en": ["a"], "dev.zh": ["a"], "dev.en": ["a"]})
    with pytest.raises(ValueError, match="source and target of train"):
        corpus.derive_corpus(tmp_path, kind="dialog", to=tmp_path)


def test_a_run_begins_and_goes_on(tmp_path: Path, plan: Any) -> None:
    run = plans.runs_of(entries.ENTRIES, seeds=[3, 4], out=tmp_path)[4]
    assert run.label == "luong2015-3"
    begin = plans.train_command(run, plan)
    assert begin[-1] == "training.steps=7" and "seed=3" in begin and "--resume" not in begin
    run.folder.mkdir()
    (run.folder / "config.toml").touch()
    assert plans.train_command(run, plan)[-2:] == ["--resume", str(run.folder)]


def test_runs_go_seed_by_seed(tmp_path: Path) -> None:
    runs = plans.runs_of(entries.ENTRIES[:2], seeds=[2, 1], out=tmp_path)
    assert [run.label for run in runs] == ["cho2014-2", "sutskever2014-2", "cho2014-1", "sutskever2014-1"]


def test_the_slowest_may_start_first(tmp_path: Path) -> None:
    runs = plans.runs_of(entries.ENTRIES, seeds=[1, 2], out=tmp_path, order="cost")
    costs = [run.entry.cost for run in runs]
    assert costs == sorted(costs, reverse=True)
    assert {run.label for run in runs} == {
        run.label for run in plans.runs_of(entries.ENTRIES, seeds=[2, 1], out=tmp_path)
    }


def test_finished_runs_do_not_wait(tmp_path: Path, plan: Any) -> None:
    runs = plans.runs_of(entries.ENTRIES[:2], seeds=[1], out=tmp_path)
    runs[0].folder.mkdir()
    (runs[0].folder / "result.json").touch()
    jobs = scheduler.Scheduler([plans.job_of(run, plan) for run in runs], slots=1)
    assert jobs.finished == {"cho2014-1"}
    assert [job.label for job in jobs.waiting] == ["sutskever2014-1"]


def test_a_folder_keeps_its_settings(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    scheduler.refuse_other_settings(path, {"factor": 0.5})
    write_json(path, {"factor": 1.0})
    scheduler.refuse_other_settings(path, {"factor": 1.0})
    with pytest.raises(ValueError, match=r"factor was 1\.0, now 0\.5"):
        scheduler.refuse_other_settings(path, {"factor": 0.5})
    with pytest.raises(ValueError, match=r"joined was None, now \[2\]"):
        scheduler.refuse_other_settings(path, {"factor": 1.0, "joined": [2]})


def test_claims_need_more_than_the_seeds_spread() -> None:
    claim = "input feeding"
    clear = finding_of(results(luong2015=(34.0, 34.4), luong2015_unfed=(32.0, 32.2)), claim=claim)
    assert (clear.mean, *clear.values) == pytest.approx((2.1, 2.0, 2.2))
    assert clear.spread == pytest.approx(0.4) and clear.verdict == "shown"
    assert finding_of(results(luong2015=(34.0, 36.4), luong2015_unfed=(32.0, 34.2)), claim=claim).verdict == "not shown"
    assert finding_of(results(luong2015=(30.0, 30.1), luong2015_unfed=(32.0, 32.1)), claim=claim).verdict == "not shown"


def test_one_seed_shows_nothing_and_no_entry_is_said() -> None:
    assert finding_of(results(luong2015=(34.0,), luong2015_unfed=(1.0,)), claim="input feeding").verdict == "not shown"
    assert finding_of(results(luong2015=(34.0, 34.1)), claim="input feeding").verdict == "not measured"


def test_only_common_seeds_are_compared() -> None:
    measured = results(lstm8_residual=(30.0, 31.0, 99.0), lstm8_plain=(10.0, 11.0))
    assert finding_of(measured, claim="residual").values == pytest.approx((20.0, 20.0))


def long_sentences(**long: tuple[float, ...]) -> dict[str, dict[int, dict[str, Any]]]:
    """Systems that have 30 BLEU on short sentences and on long ones taken apart, and `long` on them at once."""
    return {
        name: {seed: result(name, seed, bleu=30.0, long=value) for seed, value in enumerate(values, start=1)}
        for name, values in long.items()
    }


def test_long_sentences() -> None:
    """Attention that keeps nine tenths of its BLEU is shown to; the fixed vector that loses two thirds is shown to."""
    measured = long_sentences(cho2014=(10.0, 11.0), bahdanau2015=(27.1, 29.0), luong2015=(20.0, 20.1))
    verdicts = {finding.claim: finding.verdict for finding in claims.findings(measured) if finding.letter == "b"}
    assert verdicts == {
        "cho2014 loses on long sentences": "shown",
        "sutskever2014 loses on long sentences": "not measured",
        "bahdanau2015 does not lose on long sentences": "shown",
        "luong2015 does not lose on long sentences": "not shown",
        "bahdanau2015 loses less than cho2014": "shown",
        "bahdanau2015 loses less than cho2014, of its BLEU on 1-10": "shown",
        "luong2015 loses less than sutskever2014": "not measured",
        "luong2015 loses less than sutskever2014, of its BLEU on 1-10": "not measured",
    }


def test_noise_does_not_make_systems_equal() -> None:
    """Seeds that keep 98 % and 50 % are far apart: with a bound made of their spread nothing would have been lost."""
    measured = long_sentences(bahdanau2015=(29.4, 15.0), cho2014=(29.0, 10.0))
    assert finding_of(measured, claim="bahdanau2015 does not lose").verdict == "not shown"
    assert finding_of(measured, claim="cho2014 loses").verdict == "not shown"


def test_shares_are_compared_and_not_points() -> None:
    """The better system loses more points, 12 of 60 against 10 of 12, and a smaller share."""
    measured = {
        name: {seed: result(name, seed, bleu=9.0, short=whole, apart=whole, long=long + seed) for seed in (1, 2)}
        for name, whole, long in (("cho2014", 12.0, 1.0), ("bahdanau2015", 60.0, 47.0))
    }
    for claim in ("bahdanau2015 loses less than cho2014", "bahdanau2015 loses less than cho2014, of its BLEU"):
        assert finding_of(measured, claim=claim).verdict == "shown"
    assert finding_of(measured, claim="cho2014 loses").values == pytest.approx((100 * 10 / 12, 100 * 9 / 12))


def test_loss_needs_something_to_lose() -> None:
    for nothing in (0.0, 0.9):
        assert claims.loss_at_length(result("mean", 1, bleu=0.0, apart=nothing)) is None


def test_the_table_has_means_and_ranges() -> None:
    rows = report.table(results(cho2014=(20.0, 21.0), base=(40.0,)), speeds={"cho2014": 51_234.0}).splitlines()
    assert len({row.count("|") for row in rows}) == 1
    assert rows[2].startswith(
        "| cho2014 | 8,000,000 | 0.002 | 2 | **20.50** (20.00 to 21.00) | 20.00 | 60.00 | 51,200 | 30.0 |"
    )
    assert rows[2].endswith("| 0 to 0 |") and "| 60.00 |  | 30.0 |" in rows[3]
    assert len(rows) == 4


def test_the_table_has_no_column_for_speeds_that_nobody_measured() -> None:
    rows = report.table(results(cho2014=(20.0, 21.0)), speeds={}).splitlines()
    assert "tokens/s" not in rows[0] and "| 60.00 | 30.0 |" in rows[2]
    assert len({row.count("|") for row in rows}) == 1


def write_run(folder: Path, run_result: dict[str, Any], *, corpus: str = "multi30k") -> None:
    """What run.py leaves of a finished run."""
    (folder / f"{run_result['name']}-{run_result['seed']}").mkdir(parents=True)
    write_json(folder / f"{run_result['name']}-{run_result['seed']}" / "result.json", run_result)
    write_json(folder / "settings.json", {"corpus_kind": corpus})


def test_results_are_collected_and_none_twice(tmp_path: Path) -> None:
    for folder, seed in (("one", 1), ("two", 2)):
        write_run(tmp_path / folder, result("base", seed, bleu=40.0))
    collected = kept.collect([tmp_path / "two", tmp_path / "one"])
    assert {name: list(seeds) for name, seeds in collected["multi30k"].items()} == {"base": [1, 2]}
    write_run(tmp_path / "three", result("base", 1, bleu=40.0))
    with pytest.raises(ValueError, match="same entry and seed"):
        kept.collect([tmp_path / "one", tmp_path / "three"])


def test_kept_results_give_the_same_report(tmp_path: Path) -> None:
    """Two corpora in two files; the same entry and seed of another corpus is another run."""
    for corpus_kind in ("dialog", "multi30k"):
        for seed in (1, 2):
            write_run(tmp_path / corpus_kind, result("luong2015", seed, bleu=100 / 3 + seed), corpus=corpus_kind)
    collected = kept.collect([tmp_path / "dialog", tmp_path / "multi30k"])
    assert list(collected) == ["multi30k", "dialog"]
    paths = kept.keep(tmp_path / "kept", collected)
    assert [path.name for path in paths] == ["multi30k.jsonl", "dialog.jsonl"]
    assert len(paths[0].read_text(encoding="utf-8").splitlines()) == 2
    again = kept.collect(paths)
    for corpus_kind, before in collected.items():
        reports = [report.report(corpus_kind, measured, speeds={}) for measured in (again[corpus_kind], before)]
        assert reports[0] == reports[1]


def test_kept_runs_are_not_lost(tmp_path: Path) -> None:
    many = {"multi30k": results(cho2014=(20.0, 21.0), base=(40.0,))}
    (path,) = kept.keep(tmp_path, many)
    kept.keep(tmp_path, many)  # the same again, and more
    before = path.read_bytes()
    with pytest.raises(ValueError, match="has 1 runs that the new results lack"):
        kept.keep(tmp_path, {"multi30k": results(cho2014=(20.0,), base=(40.0, 41.0))})
    assert path.read_bytes() == before


def test_what_is_no_folder_of_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a folder of runs"):
        kept.collect([tmp_path])
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        kept.collect([tmp_path / "nothing"])


def test_a_file_of_an_unknown_corpus_is_refused(tmp_path: Path) -> None:
    (tmp_path / "europarl.jsonl").touch()
    with pytest.raises(ValueError, match="europarl is not a corpus of this recipe; they are multi30k, dialog"):
        kept.collect([tmp_path / "europarl.jsonl"])


@pytest.mark.parametrize("path", sorted((FOLDER / "results").glob("*.jsonl")), ids=lambda path: path.stem)
def test_the_readme_shows_what_was_kept(path: Path) -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    ((corpus_kind, measured),) = kept.collect([path]).items()
    assert report.report(corpus_kind, measured, speeds=report.read_speeds([path])) in text
    assert (FOLDER / report.figure_name(corpus_kind)).is_file()


def test_speeds_are_those_of_the_results(tmp_path: Path) -> None:
    """Not what another machine made of the same entries."""
    (tmp_path / "results").mkdir()
    (tmp_path / "results/speed.json").write_text('{"base": 3.5}', encoding="utf-8")
    (tmp_path / "runs").mkdir()
    assert report.read_speeds([tmp_path / "results/multi30k.jsonl", tmp_path / "runs"]) == {"base": 3.5}
    assert report.read_speeds([tmp_path / "results"]) == {"base": 3.5}
    assert report.read_speeds([tmp_path / "runs"]) == {}


# --- Rates ---


def trained_at(out: Path, name: str, *, rate: float, bleus: list[float]) -> None:
    """A run of `run.py --rates`, as far as rates.py reads it."""
    folder = out / f"{name}-{rate:g}-3"
    folder.mkdir(parents=True)
    config = f"seed = 3\n[training]\nsteps = 9\n[training.optimiser]\nlearning_rate = {rate}\n"
    (folder / "config.toml").write_text(config, encoding="utf-8")
    lines = [{"kind": "train", "loss": 9.0}, *({"kind": "valid", "bleu": bleu} for bleu in bleus)]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    (folder / plans.TRAINED).touch()


def test_rates_are_compared_by_the_best_validation(tmp_path: Path) -> None:
    (tmp_path / kept.SETTINGS).write_text('{"corpus_kind": "dialog"}', encoding="utf-8")
    trained_at(tmp_path, "lstm8-plain", rate=0.002, bleus=[1.0, 7.25, 3.0])
    trained_at(tmp_path, "lstm8-plain", rate=0.016, bleus=[7.0])
    trained_at(tmp_path, "base", rate=0.0005, bleus=[2.0])
    (tmp_path / "base-0.0005-3" / plans.TRAINED).unlink()  # it is not at its end
    rows = rates.collect([tmp_path])
    assert {(row["name"], row["rate"], row["bleu"]) for row in rows} == {
        ("lstm8-plain", 0.002, 7.25),
        ("lstm8-plain", 0.016, 7.0),
    }
    assert rates.report(rows).splitlines() == [
        "Validation BLEU on dialog after 9 steps, seed 3:",
        "",
        "| entry | 0.002 | 0.016 |",
        "| --- | --- | --- |",
        "| lstm8-plain | **7.2** | 7.0 |",
    ]


def test_an_entry_at_a_rate_is_trained_with_it_and_not_tested(plan: Any) -> None:
    (run,) = plans.runs_of([entries.ENTRIES[0].at(0.5)], seeds=[3], out=plan.out)
    assert run.label == f"{NAMES[0]}-0.5-3"
    assert "training.optimiser.learning_rate=0.5" in plans.train_command(run, plan)
    assert [stage.name for stage in plans.job_of(run, plan._replace(compares_rates=True)).stages] == ["training"]
    assert len(plans.job_of(run, plan).stages) == 2


def test_every_entry_has_the_rate_that_the_readme_says_was_best() -> None:
    """The best mean over the corpora where a system was tried, of the rates tried on all of them."""
    rows = rates.collect([FOLDER / "rates.jsonl"])
    assert rates.report(rows) in (FOLDER / "README.md").read_text(encoding="utf-8")
    known = {entry.name: entry for entry in entries.ENTRIES}
    for name in {row["name"] for row in rows}:
        bleus_by_rate: dict[float, list[float]] = {}
        for row in rows:
            if row["name"] == name:
                bleus_by_rate.setdefault(row["rate"], []).append(row["bleu"])
        most = max(map(len, bleus_by_rate.values()))
        everywhere = {rate: sum(bleus) for rate, bleus in bleus_by_rate.items() if len(bleus) == most}
        assert known[name].rate == max(everywhere, key=everywhere.__getitem__)
    homes = {name: name.partition("-")[0] for name in known} | {"vaswani2017-big": "vaswani2017-base"}
    for entry in entries.ENTRIES:
        if not any(row["name"] == entry.name for row in rows):
            assert entry.rate == known[homes[entry.name]].rate, "a variant has the rate of its system"


@pytest.mark.parametrize("corpus_kind", ["multi30k", "dialog"])
def test_the_readme_has_a_place_for_results(corpus_kind: str) -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    once = report.fill(text, corpus=corpus_kind, results="new\n")
    assert "new" in once and report.fill(once, corpus=corpus_kind, results="new\n") == once
    with pytest.raises(ValueError, match="no place"):
        report.fill("nothing", corpus=corpus_kind, results="new")


@pytest.mark.parametrize("names", [NAMES, ["mean"]], ids=["all", "none of the main ones"])
def test_the_figure_is_drawn(tmp_path: Path, names: list[str]) -> None:
    figure.draw_figure(tmp_path / "line.png", results(**{name.replace("-", "_"): (30.0, 31.0) for name in names}))
    assert (tmp_path / "line.png").read_bytes().startswith(b"\x89PNG")


def test_names_at_the_ends_of_lines_do_not_touch() -> None:
    assert figure.spread_out([5.0, 1.0, 5.0], gap=1.0) == [4.5, 1.0, 5.5]
    assert figure.spread_out([3.0, 2.0, 1.0], gap=0.5) == [3.0, 2.0, 1.0]
    crowded = figure.spread_out([1.0, 1.1, 1.2, 2.9, 9.0], gap=1.0)
    assert crowded == pytest.approx([0.05, 1.05, 2.05, 3.05, 9.0])
