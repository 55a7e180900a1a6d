"""Recipes on pairs of texts: what they prepare from a corpus, their baselines, and the table of results."""

import gzip
import json
import os
import random
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from recipes.code.python_lines import completed, hide_in_code, hide_strings, parses, show_strings, words
from recipes.code.recipe import RECIPE as CODE
from recipes.dialogue.recipe import RECIPE as DIALOGUE
from recipes.dialogue.recipe import context, exchanges
from recipes.parsing.geography import RECIPE as GEOGRAPHY
from recipes.parsing.geography import anonymised, joined, questions, spaced, substitute
from recipes.parsing.scan import RECIPE as SCAN
from recipes.parsing.scan import hold_out, parse
from recipes.pronunciation.recipe import RECIPE as PRONUNCIATION
from recipes.pronunciation.recipe import longest_ending, split
from recipes.runner.files import read_json, write_json
from recipes.runner.pair_jobs import jobs_of, main, prepare
from recipes.runner.pair_recipe import Options, collect, page, read_part, samples, write_pairs
from recipes.runner.retrieval import TfIdf
from recipes.summaries.recipe import LENGTH_PENALTIES, overlapping_words, pair
from recipes.summaries.recipe import RECIPE as SUMMARIES
from tests.conftest import environment

from calque.config import check, read_toml
from calque.evaluation.metrics import exact_match
from calque.experiment.settings import Experiment, with_kinds

ROOT = Path(__file__).parents[3]
RECIPES = {recipe.name: recipe for recipe in (SUMMARIES, DIALOGUE, GEOGRAPHY, SCAN, CODE, PRONUNCIATION)}
SCRIPTS = ("summaries", "dialogue", "parsing", "code", "pronunciation")


def write_gzip(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))


def geography_entry(table: str, values: list[str], *, parts: list[str]) -> dict[str, Any]:
    sentences = [
        {
            "question-split": part,
            "text": f"how many people live in {table} state_name0",
            "variables": {"state_name0": value},
        }
        for value, part in zip(values, parts, strict=True)
    ]
    return {"sql": [f'SELECT population FROM {table} WHERE state_name = "state_name0" ;'], "sentences": sentences}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few lines of every corpus, in its published format."""
    folder = tmp_path_factory.mktemp("corpora")
    for name, count in (("train", 40), ("dev", 6), ("test", 5)):
        emails = [
            {"body": f"Hi all,\nthe meeting {n} is on day {n}. Thanks for the report.", "subject": f"Meeting {n}"}
            for n in range(count)
        ]
        write_gzip(folder / "aeslc" / f"{name}.jsonl.gz", [json.dumps(email) for email in emails])
    turns = [f"question {n // 2} ?" if n % 2 == 0 else f"answer {n // 2 % 7} ." for n in range(1040)]
    write_gzip(folder / "dialog-zh-en" / "train.en.gz", turns)
    dialogues = [
        "question 1 ? __eou__ answer 1 . __eou__ a new thing happens . __eou__",
        "question 2 ? __eou__ some other thing happens . __eou__",
    ]
    write_gzip(folder / "dialogue" / "dev.en.txt.gz", dialogues)
    entries = [
        geography_entry(
            "state", ["ohio", "new york", "utah", "texas", "oz"], parts=["train"] * 2 + ["dev", "test", "test"]
        ),
        geography_entry("nowhere", ["ohio", "ohio"], parts=["train", "test"]),
    ]
    (folder / "geography").mkdir()
    (folder / "geography" / "geography.json.gz").write_bytes(gzip.compress(json.dumps(entries).encode()))
    with sqlite3.connect(folder / "base.sqlite") as connection:
        connection.execute("CREATE TABLE state (state_name text, population int)")
        states = [("ohio", 3), ("new york", 9), ("utah", 1), ("texas", 9)]
        connection.executemany("INSERT INTO state VALUES (?, ?)", states)
    connection.close()
    (folder / "geography" / "geography.sqlite.gz").write_bytes(gzip.compress((folder / "base.sqlite").read_bytes()))
    verbs = {"walk": "I_WALK", "run": "I_RUN", "look": "I_LOOK", "turn left": "I_TURN_LEFT"}
    lines = [
        f"IN: {verb} {mark} OUT: {action}{f' {action}' * n}"
        for verb, action in verbs.items()
        for n, mark in enumerate(("now", "twice", "thrice"))
    ]
    for file in ("simple", "length", "addprim_jump"):
        write_gzip(folder / "scan" / f"tasks_train_{file}.txt.gz", [*lines, *["IN: jump OUT: I_JUMP"] * 5])
        write_gzip(folder / "scan" / f"tasks_test_{file}.txt.gz", ["IN: jump twice OUT: I_JUMP I_JUMP", lines[0]])
    write_gzip(folder / "django" / "all.anno.gz", [f"  call function f{n % 50} with 'a {n}'." for n in range(17_004)])
    write_gzip(folder / "django" / "all.code.gz", [f"  f{n % 50} ( 'a {n}' )" for n in range(17_004)])
    write_gzip(folder / "cmudict" / "train.tsv.gz", ["AB\tAE B", "AB\tEY B", "BAB\tB AE B", "ABBA\tAE B AH"])
    write_gzip(folder / "cmudict" / "valid.tsv.gz", ["AB\tAH B", "BA\tB AH"])
    write_gzip(folder / "cmudict" / "test.tsv.gz", ["BAAB\tB AE B", "BAAB\tB EY B", "AA\tAE"])
    return folder


@pytest.mark.parametrize("name", RECIPES)
def test_a_corpus_is_prepared_and_baselines_are_scored(name: str, corpora: Path, tmp_path: Path) -> None:
    if name == "summaries":
        pytest.importorskip("rouge_score")
    recipe = RECIPES[name]
    prepare(recipe, corpora, tmp_path)
    results = collect(recipe, tmp_path)
    assert list(results) == [baseline.name for baseline in recipe.baselines]
    text = page(recipe, results)
    assert text.count("\n") == 1 + len(recipe.baselines) + len(recipe.rows)
    assert text.count("not measured yet") == len(recipe.rows)
    assert "*reference*" in samples(recipe, tmp_path, rows=list(results))
    for baseline in recipe.baselines:
        folder = tmp_path / "data" / baseline.group
        assert {part for part in ("train", "valid", "test") if read_part(folder, part)} == {"train", "valid", "test"}
        assert len(baseline.outputs(folder)) == len(read_part(folder, "test"))
    groups = {row.group for row in recipe.rows}
    assert {system.group for system in recipe.systems} == groups == {baseline.group for baseline in recipe.baselines}


@pytest.mark.parametrize("name", RECIPES)
def test_references_have_the_best_scores(name: str, corpora: Path, tmp_path: Path) -> None:
    """The references, scored as outputs are, are right; so `restore` undoes what preparation changed."""
    if name == "summaries":
        pytest.importorskip("rouge_score")
    recipe = RECIPES[name]
    recipe.prepare(corpora, tmp_path)
    best = {"summaries": "rouge1", "dialogue": "bleu", "geography": "denotation", "scan": "exact", "code": "exact"}
    for group in {row.group for row in recipe.rows}:
        targets = [target for _, target in read_part(tmp_path / group, "test")]
        scores = recipe.score(tmp_path / group, recipe.restore(tmp_path / group, targets))
        expected = {"per": 0.0, "wer": 0.0} if name == "pronunciation" else {best[name]: pytest.approx(100)}
        assert {metric: scores[metric] for metric in expected} == expected


@pytest.mark.parametrize("path", sorted(path for name in SCRIPTS for path in (ROOT / "recipes" / name).glob("*.toml")))
def test_configs_are_valid(path: Path, tmp_path: Path) -> None:
    corpus = {"kind": "files", "source": tmp_path / "a", "target": tmp_path / "b"}
    values = read_toml(path)
    values["data"] = {**values.get("data", {}), "train": [corpus]}
    config = check(Experiment, with_kinds(values), origin=str(path))
    assert config.training.steps % config.training.validate_every == 0, "the last step is validated"


@pytest.mark.parametrize("name", RECIPES)
def test_rows_name_their_systems(name: str, tmp_path: Path) -> None:
    recipe = RECIPES[name]
    jobs = jobs_of(recipe, tmp_path, Options((1, 2), "cpu", ()))
    labels = {job.label for job in jobs}
    assert len(labels) == len(jobs) == 2 * (len(recipe.systems) + len(recipe.rows))
    assert {need for job in jobs for need in job.needs} <= labels
    assert all(system.config.is_file() for system in recipe.systems)
    only = jobs_of(recipe, tmp_path, Options((1,), "cpu", (), (recipe.rows[0].name,)))
    assert len(only) == 2


def test_the_table_has_means_and_ranges(tmp_path: Path) -> None:
    for seed, value in ((1, 10.0), (2, 20.0), (10, 33.0)):
        write_json(tmp_path / "results" / f"lstm-simple-{seed}.json", {"scores": {"exact": value}})
    results = collect(SCAN, tmp_path)
    assert [entry["scores"]["exact"] for entry in results["lstm-simple"]] == [10, 20, 33]
    assert "| simple: LSTM | 21.0 (10.0 to 33.0) | 3 |" in page(SCAN, results)


def test_nearest_texts_share_rare_words() -> None:
    texts = ["the cat sat", "the dog ran", "the the the", "a bird"]
    index = TfIdf(texts)
    assert [index.nearest(text) for text in texts] == [0, 1, 2, 3]
    assert index.nearest("The dog and the cat and the dog") == 1
    assert index.nearest("nothing known") == 0


def test_texts_of_the_same_words_are_equally_near_whatever_their_order() -> None:
    words = [f"w{number}" for number in range(12)]
    others = [" ".join(words[:number]) for number in range(1, 12)]  # so that words differ in frequency
    permuted = [" ".join(random.Random(seed).sample(words, len(words))) for seed in range(200)]
    index = TfIdf([*others, *permuted])
    assert len(set(index.similarities("w3 w7 w11 w0").tolist()[len(others) :])) == 1
    assert index.nearest(permuted[150]) == len(others), "the first of equally near texts"


def test_email_is_lowercased_and_cut() -> None:
    body, subject = pair({"body": "Dear\tALL,\n" + "word " * 300, "subject": " Re: Plan\n"})
    assert subject == "re: plan" and body.startswith("dear all, word") and len(body.split()) == 200
    text = "nothing new. foxes chase other hares today. foxes chase hares. thank you."
    assert overlapping_words(text, 2) == "foxes chase" and overlapping_words(text, 9) == "foxes chase hares."


def test_contexts_have_up_to_three_turns() -> None:
    assert context(["a", "b", "c", "d"]) == "b ¶ c ¶ d"
    assert list(exchanges(["a", "b", "c", "d", "e"])) == [
        ("a", "b"), ("a ¶ b", "c"), ("a ¶ b ¶ c", "d"), ("b ¶ c ¶ d", "e")
    ]  # fmt: skip


def test_replies_that_occur_in_training_are_taken_out(corpora: Path, tmp_path: Path) -> None:
    counts = DIALOGUE.prepare(corpora, tmp_path)
    assert [reply for _, reply in read_part(tmp_path / "all", "test")] == [
        "a new thing happens .",
        "some other thing happens .",
    ]
    assert counts["test turns that occur in training"] == 3 and counts["replies taken out"] == 1


def test_variables_are_substituted_and_quotes_are_tokens() -> None:
    assert substitute("a state_name1 state_name10", {"state_name1": "x", "state_name10": "y"}) == "a x y"
    query = 'SELECT a FROM b WHERE c = "new york" AND d = "ohio" ;'
    assert spaced(query) == 'SELECT a FROM b WHERE c = " new york " AND d = " ohio " ;'
    assert joined(spaced(query)) == query
    entry = geography_entry("state", ["ohio"], parts=["dev"])
    (question,) = questions([entry])
    assert question.part == "valid" and question.text.endswith("state ohio") and '"ohio"' in question.queries[0]
    assert anonymised("ohio to new york and ohio", {"ohio": "state_name", "new york": "state_name"}) == (
        "state_name1 to state_name0 and state_name1",
        {"state_name0": "new york", "state_name1": "ohio"},
    )


def test_gold_queries_without_an_answer_are_excluded(corpora: Path, tmp_path: Path) -> None:
    counts = GEOGRAPHY.prepare(corpora, tmp_path)
    assert counts["excluded"] == {"returns nothing": 1, "fails": 1} and counts["test"] == 3
    gold = [entry["queries"][0] for entry in read_json(tmp_path / "all" / "test.gold.json")]
    assert GEOGRAPHY.score(tmp_path / "all", gold) == {"denotation": 100.0, "exact": 100.0, "failed": 0.0}
    other = 'SELECT population FROM state WHERE state_name = "new york"'  # the same answer by chance
    assert GEOGRAPHY.score(tmp_path / "all", [other] * 3) == {"denotation": 100.0, "exact": 0.0, "failed": 0.0}
    assert GEOGRAPHY.score(tmp_path / "all", ["DROP TABLE state"] * 3)["failed"] == 100


def test_commands_that_repeat_are_never_held_out() -> None:
    pairs = [parse(f"IN: {n} OUT: {n}") for n in range(100)] + [parse("IN: jump OUT: I_JUMP")] * 9
    kept, held_out = hold_out(pairs, share=0.2)
    assert len(held_out) == 20 and kept.count(("jump", "I_JUMP")) == 9 and not set(kept) & set(held_out)
    with pytest.raises(Exception, match="not a line of SCAN"):
        parse("jump OUT: I_JUMP")


def test_strings_are_hidden_and_shown() -> None:
    hidden = hide_strings("""call f with "it's" and 'no key', don't stop, 'no key'""")
    assert hidden.strings == ('"it\'s"', "'no key'")
    assert hidden.text == "call f with _str0_ and _str1_, don't stop, _str1_"
    code = "f ( \"it's\" , 'no key' , 'other' )"
    concealed = hide_in_code(code, hidden.strings)
    assert concealed == "f ( _str0_ , _str1_ , 'other' )" and show_strings(concealed, hidden.strings) == code
    assert words("from a.b_c import D, e") == "from a . b_c import D , e"


def test_lines_whose_quotes_differ_from_the_description_cannot_match(tmp_path: Path) -> None:
    """They are counted, and samples show them with the quotes of the code."""
    descriptions = ["call f with 'a b'.", 'call f with "a b".', "call f with 'a  b'."]
    codes = ["f ( 'a b' )"] * 3
    write_gzip(tmp_path / "django" / "all.anno.gz", [*["define f."] * 17_000, *descriptions])
    write_gzip(tmp_path / "django" / "all.code.gz", [*["def f ( ) :"] * 17_000, *codes])
    prepare(CODE, tmp_path, tmp_path / "out")
    group = tmp_path / "out" / "data" / "all"
    counts = read_json(tmp_path / "out" / "data" / "prepared.json")
    assert counts["test"] == 3 and counts["test lines that can match"] == 2
    best = CODE.restore(group, [target for _, target in read_part(group, "test")])
    assert CODE.score(group, best)["exact"] == pytest.approx(100 * 2 / 3)
    shown = samples(CODE, tmp_path / "out", rows=["nearest"])
    assert shown.count("*reference*: `f ( 'a b' )`") == 3


@pytest.mark.parametrize(
    "line",
    [
        "else :", "elif x :", "except ( A , B ) as e :", "finally :", "try :", "return x", "yield", "yield x , y",
        "break", "continue", "@ property", "def f ( self ) :", "class A ( B ) :", "with open ( x ) as y :", "pass",
        "for a , b in c :", "while True :", "x = yield y", "return lambda x : x", "raise", "del x [ 0 ]",
        "global a", "nonlocal a", "await x", "from a . b import c", "x = { 'a' : 1 , }", "if x : return y",
    ],
)  # fmt: skip
def test_fragments_of_python_are_completed(line: str) -> None:
    assert parses(line), completed(line)


@pytest.mark.parametrize("line", ["", "else", "x =", "if x", "return return", "f ( x", "except x", "'a", "\x00"])
def test_what_is_no_python_does_not_parse(line: str) -> None:
    assert not parses(line)


def test_every_pronunciation_is_a_reference() -> None:
    parts, references = split(["A\tx", "A\ty"], ["A\tz", "B\tz"], ["C\tx", "C\ty"])
    assert parts == {"train": [("A", "x"), ("A", "y")], "valid": [("B", "z")], "test": [("C", "x")]}
    assert references == [["x", "y"]]


def test_words_with_the_longest_common_ending_have_the_closest_length(tmp_path: Path) -> None:
    known = ["TION", "NATION", "RATION", "NOTION", "ABSTRACTION", "STATION", "ON"]
    words = ["LOTION", "DURATION", "VACATION", "DIFFRACTION", "ION", "XYZ", "ACTION", "BON"]
    train = [*((word, word.lower()) for word in known), ("NATION", "other")]
    write_pairs(tmp_path, {"train": train, "test": [(word, "") for word in words]})

    def ending(word: str, other: str) -> int:
        return next((n for n in range(len(other), 0, -1) if word.endswith(other[-n:])), 0)

    expected = [min(known, key=lambda k, w=word: (-ending(w, k), abs(len(k) - len(w)), len(k), k)) for word in words]
    found = longest_ending(tmp_path)
    assert found == ["" if word == "XYZ" else k.lower() for word, k in zip(words, expected, strict=True)]
    assert found[:3] == ["notion", "ration", "station"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_say_how_they_are_used(name: str) -> None:
    script = ROOT / "recipes" / name / "run"
    completed = subprocess.run([str(script), "--help"], capture_output=True, text=True, env=environment(), timeout=60)
    wrong = subprocess.run([str(script)], capture_output=True, text=True, env=environment(), timeout=60)
    assert (completed.returncode, wrong.returncode) == (0, 2)
    assert completed.stdout == wrong.stderr and f"recipes/{name}/run " in completed.stdout


def run_script(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    variables = {**environment(), "PYTHON": sys.executable}
    command = [str(ROOT / "recipes" / name / "run"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=variables, timeout=500)


TINY = (
    "--device", "cpu", "--seeds", "1", "--jobs", str(min(2, os.cpu_count() or 1)),
    *(f"training.{key}=3" for key in ("steps", "validate_every", "checkpoint_every")), "training.batch.tokens=400",
    "search.maximum=8", "search.beam=2", *(f"model.{side}.width=16" for side in ("encoder", "decoder")),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        pytest.param("parsing", ["copying"], marks=pytest.mark.slow),
        *(
            pytest.param(name, rows, marks=pytest.mark.full)
            for name, rows in (
                ("summaries", ["pointer"]),
                ("dialogue", ["mmi-1"]),
                ("code", ["transformer"]),
                ("pronunciation", ["transformer"]),
            )
        ),
    ],
)
def test_a_script_trains_decodes_and_scores(name: str, rows: list[str], corpora: Path, tmp_path: Path) -> None:
    if name == "summaries":
        pytest.importorskip("rouge_score")
    done = run_script(name, corpora, tmp_path, *TINY, "--rows", *rows)
    assert done.returncode == 0, done.stderr
    assert "| 1 |" in done.stdout and "all done" in done.stderr
    if name == "summaries":  # the length penalty is chosen on validation
        result = json.loads((tmp_path / name / "results" / "pointer-1.json").read_text(encoding="utf-8"))
        assert set(result["tried"]) == set(LENGTH_PENALTIES)
        assert result["search"] == [max(LENGTH_PENALTIES, key=lambda setting: result["tried"][setting])]
    again = run_script(name, corpora, tmp_path, *TINY, "--rows", *rows)
    assert again.returncode == 0 and again.stdout == done.stdout, again.stderr
    assert "0 running" not in again.stderr  # nothing was done twice


def test_other_settings_need_another_folder(corpora: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["recipes.pronunciation.recipe", str(corpora), str(tmp_path), "--jobs", "0"]
    assert main(arguments) == 0 and "letter by letter" in capsys.readouterr().out
    assert main([*arguments, "training.steps=3"]) == 2
    assert "was started with other settings" in capsys.readouterr().err
    write_json(tmp_path / "pronunciation" / "settings.json", {"settings": [], "searches": {"lstm": ["beam=9"]}})
    assert main(arguments) == 2 and "searches was" in capsys.readouterr().err


def test_a_missing_corpus_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes.code.recipe", str(tmp_path / "none"), str(tmp_path / "out"), "--jobs", "0"]) == 2
    assert "all.anno.gz" in capsys.readouterr().err


def test_exact_match_is_what_scan_reports(corpora: Path, tmp_path: Path) -> None:
    SCAN.prepare(corpora, tmp_path)
    targets = [target for _, target in read_part(tmp_path / "simple", "test")]
    outputs = [targets[0], "I_WALK I_WALK I_WALK"]
    assert SCAN.score(tmp_path / "simple", outputs)["exact"] == exact_match(outputs, targets).value == 50
