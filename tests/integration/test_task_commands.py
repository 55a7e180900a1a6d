"""`init`, `data check` and `data prepare` for language models and taggers: what they write can be trained with."""

from collections.abc import Callable
from pathlib import Path

import pytest

from calque.config import read_toml
from tests.conftest import Answer
from tests.tagged import write_columns, write_conllu

Command = Callable[..., Answer]

pytestmark = pytest.mark.usefixtures("unplotted")
SHORT = ["training.steps=2", "training.validate_every=2", "training.checkpoint_every=2"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("".join(f"a b c {number % 7}\n" for number in range(120)), encoding="utf-8")
    return path


@pytest.mark.parametrize("system", ["language", "merity2018"])
def test_a_config_of_a_language_model_trains(system: str, text: Path, tmp_path: Path, command: Command) -> None:
    file = tmp_path / "a.toml"
    arguments = ["--system", system, "--scale", 0.05, "text.kind=tokens"]
    assert command("init", file, "--text", text, *arguments).code == 0
    assert read_toml(file)["data"]["train"] == [{"kind": "text", "path": str(text), "weight": 1.0}]
    trained = command("train", "--config", file, "--run", tmp_path / "run", *SHORT)
    assert trained.code == 0, trained.err


def test_a_config_and_a_store_of_a_tagger_train(tmp_path: Path, command: Command) -> None:
    path, file, store = write_columns(tmp_path / "train.txt", sentences=120), tmp_path / "a.toml", tmp_path / "store"
    columns = ["--conll", path, "--columns", "form,pos,chunk", "--system", "ma2016"]
    assert command("init", file, *columns, "--scale", 0.1).code == 0
    values = read_toml(file)
    assert (values["task"]["labels"], values["data"]["train"][0]["columns"]) == ("chunk", ["form", "pos", "chunk"])
    prepared = command("data", "prepare", *columns, "--out", store)
    assert prepared.code == 0 and "sentences to train on" in prepared.err, prepared.err
    trained = command("train", "--config", file, f"data.store={store}", "--run", tmp_path / "run", *SHORT)
    assert trained.code == 0, trained.err
    assert not (tmp_path / "run" / "store").exists()


@pytest.mark.parametrize(
    ("system", "kind"), [("tiny", "files"), ("zaremba2014-medium", "text"), ("lample2016", "conllu")]
)
def test_a_config_without_files_names_a_corpus_of_its_task(
    system: str, kind: str, tmp_path: Path, command: Command
) -> None:
    assert command("init", tmp_path / "a.toml", "--system", system).code == 0
    assert [corpus["kind"] for corpus in read_toml(tmp_path / "a.toml")["data"]["train"]] == [kind]


def test_text_is_checked(text: Path, tmp_path: Path, command: Command) -> None:
    (tmp_path / "test").write_text("a b c 1\na ñ\n", encoding="utf-8")
    answer = command("data", "check", "--text", text, "--test-text", tmp_path / "test", "text.kind=tokens")
    assert answer.code == 0, answer.err
    assert "120 lines\n" in answer.out and "test in train: 1 of 2 lines\n" in answer.out
    assert "padding with exact shapes" in answer.out
    (tmp_path / "bad").write_bytes(b"a b\n\xff\n")
    answer = command("data", "check", "--text", tmp_path / "bad", "text.kind=tokens")
    assert answer.code == 2 and "bad: line 2, byte 1: 0xff is not UTF-8" in answer.out


def test_labelled_words_are_checked(tmp_path: Path, command: Command) -> None:
    train, test = (write_conllu(tmp_path / f"{name}.conllu", sentences=count) for name, count in (("a", 90), ("b", 20)))
    test.write_text(test.read_text().replace("\tN\t", "\tX\t"), encoding="utf-8")
    answer = command("data", "check", "--conll", train, "--test-conll", test)
    assert answer.code == 0, answer.err
    assert "90 sentences\n" in answer.out and "words per sentence: 2 to 9" in answer.out
    assert "upos: 5 distinct values" in answer.out and "upos of test that are not in train: X ×" in answer.out
    broken = tmp_path / "broken.conllu"
    broken.write_text("1\tdog\tN\n", encoding="utf-8")
    answer = command("data", "check", "--conll", broken)
    assert answer.code == 2 and "broken.conllu: line 1" in answer.out, answer


@pytest.mark.parametrize("name", ["a.conllu", "A.CONLLU", "a.ConLLU.GZ", "a.conllup"])
def test_conllu_is_recognised_by_its_name(name: str, tmp_path: Path, command: Command) -> None:
    path = write_conllu(tmp_path / name, sentences=90)
    answer = command("data", "check", "--conll", path)
    assert answer.code == 0 and "upos: 5 distinct values" in answer.out, answer.err


def test_the_test_set_of_a_column_file_may_be_conllu(tmp_path: Path, command: Command) -> None:
    train, test = write_columns(tmp_path / "a.txt", sentences=90), write_conllu(tmp_path / "b.conllu", sentences=9)
    files = ["--conll", train, "--columns", "form,upos,chunk", "--label", "upos", "--test-conll", test]
    answer = command("data", "check", *files)
    assert answer.code == 0 and "test in train" in answer.out, answer.err


def test_mistakes(text: Path, tmp_path: Path, command: Command) -> None:
    columns = write_columns(tmp_path / "train.txt", sentences=9)
    conllu = write_conllu(tmp_path / "TRAIN.CONLLU", sentences=9)
    named = ["--columns", "form,pos,chunk"]
    for arguments, message in (
        (
            ["data", "check"],
            "pass --source with --target, or one of --tsv, --csv, --jsonl, --text, --conll, --sequences, --audio,",
        ),
        (["data", "check", "--text", text, "--conll", columns], "--conll is for a tagger and cannot be combined"),
        (["data", "check", "--conll", columns], "has 3 columns; name them all with --columns"),
        (
            ["data", "check", "--conll", conllu, *named],
            f"whose columns have fixed names: {conllu}; leave the option out",
        ),
        (["train", "--conll", conllu, "--valid-conll", conllu, *named], "--columns has no effect on CoNLL-U"),
        (
            ["train", "--conll", conllu, "--valid-conll", columns],
            f"{columns} has 3 columns; name them all with --columns",
        ),
        (["evaluate", tmp_path, "--conll", conllu, *named], "--columns has no effect on CoNLL-U"),
        (["data", "check", "--text", tmp_path / "none"], "none: No such file"),
        (["data", "check", "--text", text, "--test-source", text, "--test-target", text], "this task reads text"),
        (["data", "check", "--text", text, "--columns", "a,b"], "--columns names the columns of --conll files"),
        (["data", "prepare", "--text", text, "--system", "tiny", "--out", tmp_path / "s"], "--text is for a language"),
        (["init", tmp_path / "b.toml", "--text", text, "--system", "tiny"], "--text is for a language model"),
        (["init", tmp_path / "b.toml", "--conll", text, "--system", "language"], "--conll is for a tagger"),
        (["init", tmp_path / "b.toml", "--conll", columns], f"{columns} has 3 columns; name them all with --columns"),
        (
            ["init", tmp_path / "b.toml", "--conll", tmp_path / "new.conllu", *named],
            "--columns has no effect on CoNLL-U",
        ),
        (["init", tmp_path / "b.toml", "--source", text], "--source and --target must be given together"),
    ):
        answer = command(*arguments)
        assert answer.code == 2 and message in answer.err, (arguments, answer)
    assert not (tmp_path / "b.toml").exists()
    assert command("init", tmp_path / "b.toml", "--conll", tmp_path / "new.txt").code == 0, "it may be written later"


@pytest.mark.parametrize(
    ("model", "option", "problem"),
    [
        ("tagger", "--conll", "give --conll instead of --source, --target or --text"),
        ("language-model", "--text", "--conll is for a tagger"),
    ],
)
def test_the_task_of_a_config_follows_from_its_model(
    model: str, option: str, problem: str, text: Path, tmp_path: Path, command: Command
) -> None:
    corpora = {"--conll": write_conllu(tmp_path / "train.conllu", sentences=120), "--text": text}
    file = tmp_path / "a.toml"
    file.write_text(f'[model]\nkind = "{model}"\n', encoding="utf-8")
    answer = command("data", "prepare", "--config", file, option, corpora[option], "--out", tmp_path / "store")
    assert answer.code == 0, answer.err
    (other,) = corpora.keys() - {option}
    answer = command("data", "prepare", "--config", file, other, corpora[other], "--out", tmp_path / "other")
    assert answer.code == 2 and problem in answer.err, answer.err


def test_init_with_a_task_that_does_not_exist_names_those_that_do(tmp_path: Path, command: Command) -> None:
    answer = command("init", tmp_path / "a.toml", "task.kind=parsing")
    assert answer.code == 2 and "translation" in answer.err and "tagging" in answer.err, answer.err
