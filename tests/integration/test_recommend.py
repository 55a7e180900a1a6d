"""`calque recommend`, and `train`, `evaluate` and `data check` of a recommender: one line per user, mistakes named."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from calque.config import read_toml
from calque.experiment import train
from tests.conftest import Answer, without_plots
from tests.histories import TIME_AWARE, recommendation_values, write_records, write_sequences

Command = Callable[..., Answer]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A recommender of items, and one that reads times and behaviours; do not change them."""
    folder = tmp_path_factory.mktemp("recommend")
    with without_plots():
        items = train(recommendation_values(folder), run=folder / "items", quiet=True).folder
        timed = train(recommendation_values(folder, network=TIME_AWARE), run=folder / "timed", quiet=True).folder
    return {"items": items, "timed": timed}


def refused(answer: Answer, *expected: str) -> None:
    """One message that says all of `expected`, exit code 2, no traceback."""
    assert answer.code == 2 and "Traceback" not in answer.err, answer
    for text in expected:
        assert text in answer.err, answer.err


def test_every_user_gets_a_line(runs, tmp_path: Path, command: Command) -> None:
    path = write_sequences(tmp_path / "users.txt", users=20, seed=5)
    path.write_text(path.read_text() + "new\n\nstranger what is this\n")
    answer = command("recommend", runs["items"], "--input", path, "--top", 4)
    assert answer.code == 0, answer.err
    lines = [line.split("\t") for line in answer.out.splitlines()]
    given = [line.split() or [""] for line in path.read_text().splitlines()]
    assert [line[0] for line in lines] == [user for user, *_ in given]
    for (_, recommended), (_, *items) in zip(lines, given, strict=True):
        assert len(set(recommended.split())) == 4 and not set(recommended.split()) & set(items)
    assert lines[-1][1] == lines[-2][1] == lines[-3][1]  # users without known items get the most popular ones
    packed, output = tmp_path / "users.gz", tmp_path / "out.txt"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert command("recommend", runs["items"], "--input", packed, "--output", output, "--top", 4).code == 0
    assert output.read_text() == answer.out
    assert command("recommend", runs["items"], "--top", 4, stdin=path.read_bytes()).out == answer.out


def test_a_line_that_is_not_utf8_is_reported_and_the_others_answered(runs, command: Command) -> None:
    lines = b"u1 g0i0 g0i1\nu2 g\xff0\nu3 g0i2\n"
    alone = command("recommend", runs["items"], stdin=lines.splitlines(keepends=True)[2]).out
    answer = command("recommend", runs["items"], stdin=lines)
    refused(answer, "standard input: line 2: byte number 5 of the line is not UTF-8", "1 line could not be read")
    assert len(answer.out.splitlines()) == 3 and answer.out.endswith(f"\n\n{alone}")


def test_users_with_few_items_are_not_called_empty(tmp_path: Path, command: Command) -> None:
    path = write_sequences(tmp_path / "users.txt", users=60)
    path.write_text(path.read_text() + "".join(f"few{number} g0i0 g0i1 g0i2\n" for number in range(7)))
    answer = command("data", "check", "--sequences", path)
    assert answer.code == 0 and "left out: 7 with fewer than 2 items left to train on" in answer.err, answer.err
    path.write_text("a x y z\nb x y z\n")
    answer = command("data", "check", "--sequences", path)
    refused(answer, "of 2 lines, 2 have fewer than 2 items left to train on")


def test_json_has_scores_and_seen_items_on_request(runs, command: Command) -> None:
    line = b"u1 g0i0 g0i1 nowhere\nu2\n"
    known, new = map(json.loads, command("recommend", runs["items"], "--json", stdin=line).out.splitlines())
    assert (known["user"], known["cold"], known["unknown"]) == ("u1", False, 1) and new["cold"]
    scores = [item["score"] for item in known["items"]]
    assert scores == sorted(scores, reverse=True) and len(scores) == 10
    every = json.loads(
        command("recommend", runs["items"], "--json", "--include-seen", "--top", 1000, stdin=line).out.splitlines()[0]
    )
    assert {"g0i0", "g0i1"} < {item["item"] for item in every["items"]}
    assert not {"g0i0", "g0i1"} & {item["item"] for item in known["items"]}


def test_records_have_times_and_behaviours(runs, tmp_path: Path, command: Command) -> None:
    path = write_records(tmp_path / "users.jsonl", users=6, seed=5)
    answer = command("recommend", runs["timed"], "--input", path)
    assert answer.code == 0 and len(answer.out.splitlines()) == 6
    assert command("recommend", runs["timed"], "--records", stdin=path.read_bytes()).out == answer.out
    user = json.loads(path.read_text().splitlines()[0])
    asked = [json.dumps({**user, "now": user["times"][-1] + later}).encode() for later in (0, 10**7)]
    now, later = (
        json.loads(command("recommend", runs["timed"], "--records", "--json", stdin=line + b"\n").out) for line in asked
    )
    assert now["items"] != later["items"]


def test_a_bad_line_is_left_empty_and_its_neighbours_are_answered(runs, command: Command) -> None:
    good = {"user": "u", "items": ["g0i0"], "times": [1], "behaviours": ["view"]}
    bad = [
        ({**good, "times": [1, 2]}, "1 items, but 2 times"),
        ({**good, "times": []}, "1 items, but 0 times"),
        ({"user": "u", "items": ["g0i0"]}, "no key 'times'"),
        ({**good, "now": "soon"}, "expected a number of seconds"),
        ({**good, "now": 0}, "now (0) is earlier than the time of the last item in the history (1)"),
    ]
    lines = [json.dumps(record) for record in (good, *(record for record, _ in bad), good)]
    answer = command("recommend", runs["timed"], "--records", stdin="".join(f"{line}\n" for line in lines).encode())
    refused(answer, "5 lines could not be read", *(f"line {at}: " for at in range(2, 7)), *(text for _, text in bad))
    first, *middle, last = answer.out.splitlines()
    assert first == last != "" and middle == [""] * 5
    objects = command("recommend", runs["timed"], "--records", "--json", stdin=f"{lines[0]}\n[]\n".encode())
    assert objects.code == 2 and "error" in json.loads(objects.out.splitlines()[1])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"u1 \xff\n", "line 1: byte number 4 of the line is not UTF-8"),
        (gzip.compress(b"u1 a b c\n" * 99, mtime=0)[:-9], "damaged gzip"),
    ],
)
def test_files_that_cannot_be_read_are_named(runs, tmp_path: Path, command: Command, content, message) -> None:
    path = tmp_path / "users"
    path.write_bytes(content)
    refused(command("recommend", runs["items"], "--input", path), str(path), message)
    refused(command("evaluate", runs["items"], "--sequences", path), str(path))
    refused(command("data", "check", "--sequences", path))


def test_a_recommender_is_evaluated(runs, tmp_path: Path, command: Command) -> None:
    path = write_sequences(tmp_path / "users.txt", users=30, seed=5)
    path.write_text(path.read_text() + "stranger g0i0 nowhere\nrepeated g0i0 g0i1 g0i0\n")
    answer = command("evaluate", runs["items"], "--sequences", path)
    assert answer.code == 0, answer.err
    assert answer.out.startswith("HR@1 ") and "NDCG@10" in answer.out and "items of the history excluded" in answer.out
    assert "1 targets are not in the catalogue" in answer.err and "count as missed" in answer.err
    values = json.loads(command("evaluate", runs["items"], "--sequences", path, "--json", "--exclude-seen").out)
    lines = [line.split() for line in path.read_text().splitlines()]
    asked = "".join(" ".join(line[:-1]) + "\n" for line in lines).encode()
    recommended = command("recommend", runs["items"], stdin=asked).out.splitlines()
    hits = [line[-1] in answer.split() for line, answer in zip(lines, recommended, strict=True)]
    assert values["hr@10"]["value"] == pytest.approx(sum(hits) / len(lines))
    assert values["hr@10"]["low"] <= values["hr@10"]["value"] <= values["hr@10"]["high"]
    included = json.loads(command("evaluate", runs["items"], "--sequences", path, "--json", "--include-seen").out)
    assert not included["seen_excluded"] and included["seen_targets"] == values["seen_targets"] > 0


@pytest.mark.usefixtures("unplotted")
def test_a_recommender_is_trained_from_the_command_line(tmp_path: Path, command: Command) -> None:
    path = write_records(tmp_path / "users.jsonl", users=40)
    run, short = tmp_path / "run", ("training.steps=2", "training.threads=1", "training.device=cpu")
    answer = command("train", "--sequences", path, "--system", "zhou2018", "--scale", 0.25, "--run", run, *short)
    assert answer.code == 0 and "calque recommend" in answer.err, answer.err
    corpus = read_toml(run / "config.toml")["data"]["train"][0]
    assert corpus["kind"] == "sequence-records" and corpus["times_key"] == "times"
    popular = command("train", "--sequences", path, "--system", "popularity", "--run", tmp_path / "popular")
    assert popular.code == 0, popular.err
    listed = command("runs", tmp_path)
    assert listed.code == 0 and "popularity" in listed.out and "time-aware" in listed.out
    refused(
        command("train", "--sequences", path, "--system", "popularity", "training.steps=5", "--run", tmp_path / "x"),
        "training.steps: no effect on this model",
    )


def test_a_recommendation_is_inspected(runs, tmp_path: Path, command: Command) -> None:
    shown = command("inspect", runs["items"], "g0i0 g0i1 nowhere")
    assert shown.code == 0 and "influence" in shown.out and "1 items of the history are not" in shown.out, shown.err
    best = command("recommend", runs["items"], "--top", 1, stdin=b"u g0i0 g0i1 nowhere\n").out.split()[1]
    assert f"recommended  {best}\n" in shown.out
    for histories in (["brand=acme"], ["g0i0", "brand=acme"]):  # ids that look like settings
        found = json.loads(command("inspect", runs["items"], *histories, "--format", "json").out)["sentences"]
        assert len(found) == len(histories) and found[-1]["unknown"] == 1
    path = write_records(tmp_path / "users.jsonl", users=3, seed=5)
    several = command("inspect", runs["timed"], "--source", path, "--output", tmp_path / "shown.json")
    assert several.code == 0, several.err
    document = json.loads((tmp_path / "shown.json").read_text())
    assert document["task"] == "recommendation" and len(document["sentences"]) == 3
    page = command(
        "inspect", runs["items"], "g0i0 g0i1", "--with", runs["items"] / "model", "--output", tmp_path / "page.html"
    )
    assert page.code == 0 and (tmp_path / "page.html").stat().st_size > 50_000, page.err
    assert (
        document["sentences"][0]["attention"]["maps"] and "most popular" in command("inspect", runs["items"], "x").out
    )


def test_recommenders_are_compared(runs, tmp_path: Path, command: Command) -> None:
    path = write_records(tmp_path / "users.jsonl", users=12, seed=5)
    answer = command("compare", runs["items"], runs["timed"], "--sequences", path)
    assert answer.code == 0 and "NDCG@10 by length of the history" in answer.out, answer.err
    assert all(f"p of {name}" in answer.out for name in ("HR@1", "HR@10", "NDCG@10", "MRR"))
    document = json.loads(command("compare", runs["items"], runs["timed"], "--sequences", path, "--json").out)
    alone = json.loads(command("evaluate", runs["timed"], "--sequences", path, "--json").out)
    assert document["systems"][1]["scores"]["mrr"] == pytest.approx(alone["mrr"]["value"])
    page = command("compare", runs["items"], runs["timed"], "--sequences", path, "--output", tmp_path / "page.html")
    assert page.code == 0 and (tmp_path / "page.html").stat().st_size > 50_000, page.err
    refused(command("compare", runs["items"], path, "--sequences", path), "not a run or model folder")


@pytest.mark.usefixtures("unplotted")
def test_validation_files_are_used(tmp_path: Path, command: Command) -> None:
    train_path, valid_path = (
        write_sequences(tmp_path / name, users=users, seed=users) for name, users in (("a", 40), ("b", 9))
    )
    files = ("--sequences", train_path, "--valid-sequences", valid_path)
    answer = command("train", *files, "--system", "popularity", "--run", tmp_path / "r")
    assert answer.code == 0 and "40 users to train on, 9 to validate" in answer.err, answer.err
    assert "split: validation files" in answer.err


def test_check_reports_items_and_problems(tmp_path: Path, command: Command) -> None:
    path = write_sequences(tmp_path / "users.txt", users=30)
    test = write_sequences(tmp_path / "test.txt", users=5, seed=9)
    test.write_text(test.read_text() + "u77 nowhere\n")
    answer = command("data", "check", "--sequences", path, "--test-sequences", test)
    assert answer.code == 0 and "30 users" in answer.out and "items per user: " in answer.out, answer.err
    assert "items of test that are not in train: nowhere ×1" in answer.out
    path.write_text(path.read_text() + "u3 g0i0\nlonely\n")
    refused(command("data", "check", "--sequences", path), "training would reject")
    assert "line 31: the user 'u3' is already on line 4" in command("data", "check", "--sequences", path).out
    path.write_text(path.read_text() + "u5 g0i0\n" * 12)
    report = command("data", "check", "--sequences", path).out
    assert "line 33: the user 'u5' is already on line 6" in report and "… and 3 more" in report
    assert "line 32: the user 'lonely' has no items" in report
    timed = write_records(tmp_path / "users.jsonl", users=30)
    answer = command("data", "check", "--sequences", timed, "--config", _config(tmp_path))
    assert answer.code == 0 and "behaviours: 2 distinct values" in answer.out, answer.err


def _config(folder: Path) -> Path:
    config = folder / "config.toml"
    config.write_text('[task]\nkind = "recommendation"\n[model]\n[model.network]\nkind = "time-aware"\n')
    return config


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["train", "--sequences", "users", "--text", "users"],
            "--sequences is for a recommender and cannot be combined",
        ),
        (["train", "--sequences", "users", "--system", "tiny"], "--sequences is for a recommender (--system kang2018"),
        (["train", "--text", "users", "--system", "kang2018"], "give --sequences instead of text"),
        (["train", "--valid-sequences", "users"], "--valid-sequences needs --sequences"),
        (["train", "--sequences", "users", "text.kind=words"], "a recommender reads items, not text"),
        (
            ["train", "--sequences", "users", "training.compile=true"],
            "training.compile is not supported for recommenders",
        ),
        (
            ["train", "--sequences", "users", "--system", "zhou2018"],
            "contains user and items, but this task reads times",
        ),
        (["train", "--sequences", "nowhere"], "nowhere: No such file"),
        (
            ["train", "--sequences", "users", "training.metric=bleu"],
            "training.metric = 'bleu' is not one of loss, hr@1",
        ),
        (["evaluate", "RUN", "--sequences", "users", "--text", "users"], "cannot be combined"),
        (["evaluate", "RUN", "--include-seen", "--text", "users"], "need --sequences"),
        (["evaluate", "RUN", "--text", "users"], "`calque evaluate RUN --sequences FILE` evaluates it"),
        (["evaluate", "TIMED", "--sequences", "users"], "lacks times and behaviours"),
        (["translate", "RUN", "--input", "users"], "is a recommender and cannot translate; `calque recommend"),
        (["score", "RUN", "--target", "users"], "is a recommender and cannot score text"),
        (["inspect", "RUN", "g0i0", "--prefix", "a"], "for neural translation models only"),
        (["inspect", "RUN", "g0i0", "beam=3"], "beam=3: search settings have no effect on recommenders"),
        (["inspect", "RUN", "g0i0", "search.beam=3"], "search.beam=3: search settings have no effect"),
        (["inspect", "RUN", "beam=3"], "beam=3: search settings have no effect"),
        (["inspect", "RUN"], "nothing to inspect"),
        (["inspect", "RUN", "g0i0", "--saliency"], "--saliency: supported for neural translation models, language"),
        (["inspect", "RUN", "g0i0", "--target", "a"], "models, sentence encoders and speech recognisers only"),
        (["inspect", "RUN", "--gradients"], "is a recommender; gradient flow can be measured only for"),
        (["recommend", "RUN", "--top", "0"], "at least 1"),
    ],
)
def test_mistakes_are_named(runs, tmp_path: Path, command: Command, arguments, message, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_sequences(tmp_path / "users", users=20)
    names = {"RUN": str(runs["items"]), "TIMED": str(runs["timed"])}
    answer = command(*(names.get(argument, argument) for argument in arguments), stdin=b"")
    refused(answer, message.replace("RUN", str(runs["items"])))
