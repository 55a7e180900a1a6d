"""The lists of variants and their reports: every list is sound, choices look at val alone, tests are sacreBLEU's."""

import json
from pathlib import Path

import pytest
from recipes.distillation import report as distillation
from recipes.distillation import speed
from recipes.finetuning import run as finetuning
from recipes.multi30k import report as search
from recipes.objectives import report as objectives
from recipes.runner import distilling, pages, plan, results, scoring, significance, variants
from sacrebleu.metrics.bleu import BLEU

import calque

FOLDER = Path(__file__).parents[3] / "recipes"
LISTS = sorted(path for path in FOLDER.rglob("*.toml") if "[rows." in path.read_text(encoding="utf-8"))

TOGETHER = [path for path in LISTS if path.stem != "gradient_flow"]  # which has an output folder of its own


def plan_of(out: Path, *paths: Path, rows: list[str] | None = None) -> plan.Plan:
    lists = variants.read_lists(paths or TOGETHER, rows=rows)
    return plan.Plan(lists, Path("corpus"), out, (1, 2, 3), "cpu", ("training.threads=1",))


def write_result(out: Path, name: str, seed: int, bleu: float) -> None:
    """What scoring leaves of a run."""
    folder = out / f"{name}-{seed}"
    folder.mkdir(parents=True)
    scores = {"setting": [5, 1.4], "bleu_lowercased": bleu}
    result = {"name": name, "seed": seed, "parameters": 9, "training_seconds": 7.0, "scores": scores, "tried": [scores]}
    (folder / "result.json").write_text(json.dumps(result))


def write_tuned(out: Path, row: str, values: dict[float, float]) -> None:
    """What scoring leaves of every seed and every length penalty."""
    (out / "tuned").mkdir(exist_ok=True)
    tried = [{"setting": [5, penalty], "bleu_lowercased": bleu} for penalty, bleu in values.items()]
    for seed in (1, 2, 3):
        (out / "tuned" / f"{row}-{seed}.json").write_text(json.dumps({"tried": tried}))


def write_test(out: Path, row: str, run: str, lines: list[str], references: list[str], *, seed: int = 1) -> None:
    """What scoring leaves of the test set."""
    (out / "tested").mkdir(exist_ok=True)
    scores = {"setting": [5, 1.4], **scoring.scores(lines, references)}
    result = {"name": row, "seed": seed, "run": f"{run}-{seed}", "parameters": 9, "scores": scores, "tried": [scores]}
    (out / "tested" / f"{row}-{seed}.json").write_text(json.dumps(result))
    (out / "tested" / f"{row}-{seed}.de").write_text("".join(f"{line}\n" for line in lines))


def test_there_are_lists() -> None:
    together = {"objectives.toml", "recurrent.toml", "search.toml", "distillation.toml"}
    assert {path.name for path in TOGETHER} == together
    assert {path.name for path in LISTS} == together | {"gradient_flow.toml"}


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_every_variant_is_a_config_that_calque_takes(path: Path, tmp_path: Path) -> None:
    plan_for_lists = plan_of(tmp_path, path)
    for name, variant in plan_for_lists.lists.variants.items():
        experiment = plan.experiment_of(variant, plan_for_lists, origin=name)
        assert experiment.training.threads == 1


def test_settings_of_a_list_are_for_its_own_variants_which_may_say_otherwise(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("")
    variant = "[variants.{name}]\nwhy = ''\nconfig = 'a.toml'\n"
    (tmp_path / "inner.toml").write_text(
        f"settings = ['seed=1']\n{variant.format(name='inner')}settings = ['seed=2']\n"
    )
    (tmp_path / "outer.toml").write_text(
        f"include = ['inner.toml']\nsettings = ['x=3']\n{variant.format(name='outer')}"
    )
    read_variants = variants.read_lists([tmp_path / "outer.toml"]).variants
    assert (read_variants["inner"].settings, read_variants["outer"].settings) == (("seed=1", "seed=2"), ("x=3",))


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_jobs_can_all_be_begun(path: Path, tmp_path: Path) -> None:
    jobs = plan.jobs_of(plan_of(tmp_path, path))
    done: set[str] = set()
    while left := [job for job in jobs if job.label not in done]:
        ready = [job.label for job in left if set(job.needs) <= done]
        assert ready, f"they wait for each other: {[job.label for job in left]}"
        done |= set(ready)


def test_the_winner_on_val_gets_all_seeds_and_nobody_else(tmp_path: Path) -> None:
    plan_for_lists = plan_of(tmp_path, FOLDER / "objectives/objectives.toml", rows=["scheduled-sampling"])
    jobs = {job.label: job for job in plan.jobs_of(plan_for_lists)}
    write_result(tmp_path, "sampling-half", 1, 39.5)
    assert jobs["sampling-half-2"].is_wanted() is None
    write_result(tmp_path, "sampling-little", 1, 39.4)
    wanted_labels = {label for label, job in jobs.items() if job.is_wanted()}
    assert wanted_labels == {
        *("sampling-half-1", "sampling-little-1", "sampling-half-2", "sampling-half-3"),
        *(f"scheduled-sampling-{seed}.{stage}" for seed in (1, 2, 3) for stage in ("tune", "test")),
    }
    write_tuned(tmp_path, "scheduled-sampling", {1.0: 39.0, 1.2: 39.6, 1.4: 39.5})
    command = jobs["scheduled-sampling-2.test"].stages[0].command()
    assert str(tmp_path / "sampling-half-2") in command and "corpus/test_2016_flickr.en.gz" in command
    assert command[command.index("--setting") + 1] == "5,1.2"


def test_only_tests_read_the_test_set(tmp_path: Path) -> None:
    plan_for_lists = plan_of(tmp_path)
    for name in plan_for_lists.lists.variants:
        write_result(tmp_path, name, 1, 40.0)
    for row in plan_for_lists.lists.rows:
        write_tuned(tmp_path, row, {1.4: 40.0})
    for job in plan.jobs_of(plan_for_lists):
        reads = any("test_2016" in word for stage in job.stages for word in stage.command())
        assert reads == job.label.endswith(".test")


def test_settings_are_chosen_by_the_mean_of_seeds() -> None:
    row = variants.Row(candidates=("a",), label="", beams=(10, 5), length_penalties=(1.4, 1.0))
    settings = variants.search_settings(row)
    assert len(settings) == 4
    values = ((40.0, 39.0, 40.5, 40.2), (40.1, 41.0, 39.7, 40.2))
    tried = [
        [{"setting": list(setting), "bleu_lowercased": value} for setting, value in zip(settings, seed, strict=True)]
        for seed in values
    ]
    assert variants.best_setting(tried) == variants.SearchSetting(5, 1.0)
    assert [variants.SearchSetting.parse(str(setting)) for setting in settings] == settings
    assert variants.SearchSetting.parse(str(variants.SearchSetting(1, None))) == variants.SearchSetting(1, None)


def test_a_student_reads_both_corpora_in_its_teachers_pieces(tmp_path: Path) -> None:
    plan_for_lists = plan_of(tmp_path, FOLDER / "distillation/distillation.toml")
    command = plan.train_arguments("student", 2, plan_for_lists)
    (data,) = (word for word in command if word.startswith("data.train="))
    assert "corpus/train.de.gz" in data and str(tmp_path / "distilled/distilled/train.de") in data
    assert f"text={{kind = 'given', path = '{tmp_path / 'plain-1'}'}}" in command
    labels = {job.label: job for job in plan.jobs_of(plan_for_lists)}
    assert labels["student-2"].needs == ("distilled",)
    assert labels["distilled.part-3"].needs == ("plain-1", "plain-2", "plain-3")
    assert "ensemble-1.test" in labels and "ensemble-2.test" not in labels
    write_tuned(tmp_path, "ensemble", {1.4: 40.0})
    for label in ("ensemble-1.tune", "ensemble-1.test"):
        command = labels[label].stages[0].command()
        assert command[-3:] == ["--with", str(tmp_path / "plain-2"), str(tmp_path / "plain-3")]
    assert "ensemble-2.tune" not in labels


def test_a_second_phase_begins_with_the_run_of_its_seed(tmp_path: Path) -> None:
    plan_for_lists = plan_of(tmp_path, FOLDER / "objectives/objectives.toml")
    assert f"training.warm_start={tmp_path / 'plain-3'}" in plan.train_arguments("risk", 3, plan_for_lists)
    assert "plain-3" in next(job for job in plan.jobs_of(plan_for_lists) if job.label == "continued-3").needs


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('[rows.a]\nlabel = "a"\ncandidates = ["b"]\n', "candidates of rows.a: b"),
        ('[variants.a]\nwhy = ""\nconfig = "x"\ncorpus = "made"\n', "corpus of variants.a: made"),
        ('[variants.a]\nwhy = ""\nconfig = "x"\nwarm_start = "b"\n', "warm_start of variants.a: b"),
        ('[corpora.a]\nteacher = "b"\n', "teacher of corpora.a: b"),
    ],
)
def test_names_that_are_not_there_are_refused(text: str, match: str, tmp_path: Path) -> None:
    (tmp_path / "list.toml").write_text(text)
    with pytest.raises(ValueError, match=match):
        variants.read_lists([tmp_path / "list.toml"])


def test_parts_are_all_there_is() -> None:
    lines = list(range(29_001))
    assert [line for number in range(4) for line in lines[distilling.part_of(29_001, parts=4, number=number)]] == lines


def test_the_translation_most_like_the_reference_is_kept() -> None:
    candidates = distilling.read_nbest(["1\t-0.1\ta cat sat", "1\t-0.2\tthe cat sat down", "2\t-0.5\ta\tb"])
    assert candidates == {1: ["a cat sat", "the cat sat down"], 2: ["a\tb"]}
    metric = BLEU(effective_order=True)
    assert distilling.select(candidates[1], "the cat sat down", by="bleu", metric=metric) == "the cat sat down"
    assert distilling.select(candidates[1], "the cat sat down", by="score", metric=metric) == "a cat sat"


REFERENCES = [f"a man number {number} walks over the long street with his dog" for number in range(40)]
WORSE, BAD = (
    [line.replace("walks over", "went on") if number % 2 == rest else line for number, line in enumerate(REFERENCES)]
    for rest in (0, 1)
)


@pytest.fixture
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer draws than sacreBLEU's own number: the tests are the same, their p-values coarser."""
    monkeypatch.setattr(significance, "SAMPLES", {"bs": 200, "ar": 400})


@pytest.mark.usefixtures("few_samples")
def test_paired_tests_tell_a_difference_from_none() -> None:
    assert significance.paired_test(WORSE, REFERENCES, REFERENCES, kind="bs")["bleu"] < 0.01
    assert significance.paired_test(WORSE, REFERENCES, REFERENCES, kind="ar")["bleu"] < 0.01
    assert significance.paired_test(WORSE, BAD, REFERENCES, kind="bs")["bleu"] > 0.1
    assert significance.paired_test(WORSE, BAD, REFERENCES, kind="ar")["bleu"] > 0.1


@pytest.mark.usefixtures("few_samples")
def test_the_table_of_objectives(tmp_path: Path) -> None:
    rows = variants.read_lists([FOLDER / "objectives/objectives.toml"]).rows
    for seed in (1, 2):
        write_result(tmp_path, "plain", seed, 39.0)
        write_result(tmp_path, "rdrop5", seed, 40.0 + seed)
        write_test(tmp_path, "cross-entropy", "plain", WORSE, REFERENCES, seed=seed)
        write_test(tmp_path, "r-drop", "rdrop5", REFERENCES, REFERENCES, seed=seed)
        (tmp_path / f"rdrop5-{seed}/metrics.jsonl").write_text(
            f'{{"kind":"valid","step":9,"bleu":1.0}}\n{{"kind":"valid","step":9,"bleu":{38 + seed},"averaged":2}}\n'
        )
    write_result(tmp_path, "rdrop2", 1, 40.5)
    collected = json.loads(json.dumps(objectives.collect(tmp_path, REFERENCES, rows)))
    assert list(collected) == ["cross-entropy", "r-drop"]
    text = objectives.page(collected)
    assert "| R-Drop | `rdrop5` | 1.4 | 41.50 | 39.50 | **100.00 (100.00 to 100.00)** | 100.00 | 1.000 | 7 |" in text
    assert "| R-Drop against cross-entropy | +" in text and "**better**" in text
    assert "- R-Drop: `rdrop5` 41.00, `rdrop2` 40.50" in text
    longer = [results.Tested(seed, {}, [f"{line} a b c" for line in REFERENCES]) for seed in (1, 2)]
    assert objectives.length_ratio(longer, REFERENCES) == pytest.approx(15 / 12)
    objectives.draw(tmp_path / "figure.png", collected)
    assert (tmp_path / "figure.png").stat().st_size > 5000


def test_a_verdict_needs_both_tests_and_every_seed() -> None:
    def verdict(differences: list[float], *p: float) -> str:
        together = {kind: {"bleu": bleu} for kind, bleu in zip(("bs", "ar"), p, strict=True)}
        return str(significance.verdict({"differences": differences, "together": together}))

    assert verdict([0.5, 0.2], 0.01, 0.01) == "**better**"
    assert verdict([-0.5, -0.2], 0.01, 0.01) == "**worse**"
    assert (
        verdict([0.5, -0.2], 0.01, 0.01)
        == verdict([0.5, 0.2], 0.01, 0.06)
        == verdict([0.0], 0.0, 0.0)
        == "no clear difference"
    )


def test_the_tables_of_the_search(tmp_path: Path) -> None:
    lists = variants.read_lists([FOLDER / "multi30k/search.toml"])
    for name, bleu in (("rdrop5", 41.0), ("rdrop5-drop2", 41.5)):
        write_result(tmp_path, name, 1, bleu)
    write_test(tmp_path, "best", "rdrop5-drop2", WORSE, REFERENCES)
    (tmp_path / "tuned").mkdir()
    tried = [{"setting": [10, 1.4], "bleu_lowercased": 41.6}, {"setting": [5, 1.4], "bleu_lowercased": 41.4}]
    (tmp_path / "tuned/best-1.json").write_text(json.dumps({"tried": tried}))
    text = search.page(json.loads(json.dumps(search.collect(tmp_path, lists))))
    assert text.index("**`rdrop5-drop2`**") < text.index("| `rdrop5` |") < text.index("not trained")
    assert "| 10 | 1.4 | 41.60 |" in text
    assert search.collect(tmp_path / "nothing", lists) == {}


def test_the_best_config_is_what_the_search_has_chosen(tmp_path: Path) -> None:
    published = json.loads((FOLDER / "multi30k/results.json").read_bytes())
    plan_for_lists = plan_of(tmp_path, FOLDER / "multi30k/search.toml")
    chosen = plan_for_lists.lists.variants[published["chosen"]]
    beam, penalty = published["tested"][0]["setting"]
    translating = (f"search.beam={beam}", f"search.length_penalty={penalty}")
    by_list = plan.experiment_of(
        chosen.model_copy(update={"settings": (*chosen.settings, *translating)}), plan_for_lists
    )
    assert plan.experiment_of(variants.Variant(why="", config=FOLDER / "multi30k/best.toml"), plan_for_lists) == by_list


def test_val_is_told_as_the_test_set_was_translated(tmp_path: Path) -> None:
    write_test(tmp_path, "row", "run", WORSE, REFERENCES)
    tested = results.read_tested(tmp_path, "row")
    alone, together = (variants.Row(label="", candidates=("run",), ensemble=ensemble) for ensemble in (False, True))
    assert results.validation_bleu(tmp_path, "row", alone, tested) == []
    write_result(tmp_path, "run", 1, 40.0)
    assert results.validation_bleu(tmp_path, "row", alone, tested) == [40.0]
    assert results.validation_bleu(tmp_path, "row", together, tested) == []
    write_tuned(tmp_path, "row", {1.0: 42.0, 1.4: 41.0})
    for row in (alone, together):
        assert results.validation_bleu(tmp_path, "row", row, tested) == [41.0]
    assert results.length_penalty(tested) == "1.4"


def test_the_table_of_distillation(tmp_path: Path) -> None:
    rows = variants.read_lists([FOLDER / "distillation/distillation.toml"]).rows
    for row, run, lines in (
        ("teacher", "plain", REFERENCES),
        ("ensemble", "plain", REFERENCES),
        ("student", "student", WORSE),
    ):
        write_test(tmp_path, row, run, lines, REFERENCES)
    for name in ("plain", "student"):
        write_result(tmp_path, name, 1, 40.0)
        (tmp_path / f"{name}-1.log").touch()
    ways = [{"device": "cpu", "beam": 1, "at_once": True}, {"device": "cuda", "beam": 5, "at_once": False}]
    speeds = {
        name: [{**way, "sentences": value, "tokens": 10 * value} for way in ways]
        for name, value in (("teacher", 50.0), ("student", 120.0))
    }
    content = {"speeds": speeds, "machines": {"cpu": "one CPU thread, torch 2", "cuda": "a GPU, torch 3"}}
    (tmp_path / "speeds.json").write_text(json.dumps(content))
    text = distillation.page(distillation.collect(tmp_path, rows))
    assert "| one CPU thread, greedy, all at once | 50 (500) | 120 (1,200) | 2.4 |" in text
    assert "Measured on one CPU thread, torch 2; a GPU, torch 3." in text
    assert "BLEU below teacher, each alone" in text and "| teacher, all three together | 9 | 1 | 1.4 |" in text
    assert "by length penalty" not in text
    write_tuned(tmp_path, "student", {1.0: 41.0, 1.4: 40.0})
    assert "- student: 1.0: 41.00, 1.4: 40.00" in distillation.page(distillation.collect(tmp_path, rows))


def test_speeds_are_of_sentences_and_pieces(trained: Path) -> None:
    translator = calque.load(trained, device="cpu")
    for at_once in (True, False):
        measured = speed.measure(translator, ["a b c", "d e"], condition=speed.Condition("cpu", 1, at_once))
        assert measured["tokens"] > measured["sentences"] > 0
    assert speed.medians([{"a": 1.0}, {"a": 9.0}, {"a": 2.0}]) == {"a": 2.0}


def test_pages_keep_what_is_around_their_marks() -> None:
    text = "before <!-- search -->\nold\n<!-- /search --> after"
    assert pages.fill(text, "new\n", name="search") == "before <!-- search -->\n\nnew\n\n<!-- /search --> after"
    with pytest.raises(ValueError, match="no place"):
        pages.fill(text, "new")


def test_other_breaks_are_text(tmp_path: Path) -> None:
    (tmp_path / "tested").mkdir()
    lines = ["a\u2028b", "c\x85", ""]
    write_test(tmp_path, "row", "run", lines, ["a", "b", "c"])
    (tested,) = results.read_tested(tmp_path, "row")
    assert tested.translations == lines


def test_every_page_has_its_place() -> None:
    places = {"objectives": "results", "distillation": "results", "finetuning": "results", "multi30k": "search"}
    for recipe, name in places.items():
        text = (FOLDER / recipe / "README.md").read_text(encoding="utf-8")
        assert "NEW" in pages.fill(text, "NEW", name=name)


def test_ways_to_adapt_differ_in_what_they_say(tmp_path: Path) -> None:
    paths = finetuning.Paths(tmp_path / "corpus", tmp_path)
    settings = {
        adaptation.name: finetuning.adaptation_settings(adaptation, paths) for adaptation in finetuning.ADAPTATIONS
    }
    assert not any("warm_start" in setting for setting in settings["scratch"])
    assert f"training.warm_start={paths.general}" in settings["kept"]
    assert any(str(paths.general) in setting for setting in settings["kept"] if setting.startswith("text="))
    assert any(str(paths.pieces) in setting for setting in settings["extended"] if setting.startswith("text="))
    mixed = finetuning.corpora(paths, finetuning.ADAPTATIONS[-1])
    assert "weight = 0.2" in mixed and "phrasebook" in mixed and "train.de.gz" in mixed
    scores = {
        name: {"captions": 20.0 - place, "phrasebook": 10.0, "new": 5.0, "steps": 9.0}
        for place, name in enumerate(("general", "kept"))
    }
    text = finetuning.scores_table(scores, {"general": "g", "kept": "k"}, note="n")
    assert "| `kept` | k | 5 | 9 | 10.0 | 19.0 | 1.0 |" in text
