"""The public names: exactly these, each importable, and nothing heavy until one is used."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import environment, toy_corpus, toy_values

import calque

PUBLIC = {
    "CalqueError",
    "Candidate",
    "ConfigError",
    "DataError",
    "DeadlineError",
    "Engine",
    "Experiment",
    "FolderError",
    "Interrupted",
    "Request",
    "RequestError",
    "Run",
    "SearchConfig",
    "TextError",
    "TrainingError",
    "Translation",
    "Translator",
    "UserError",
    "OwnTask",
    "TextGenerator",
    "__version__",
    "load",
    "resume",
    "train",
}


def test_the_public_names_are_these() -> None:
    assert set(calque.__all__) == PUBLIC
    assert len(calque.__all__) == len(PUBLIC)
    assert set(dir(calque)) == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_each_name_is_there(name: str) -> None:
    assert getattr(calque, name) is not None


def test_there_is_no_other_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'translate'"):
        _ = calque.translate
    with pytest.raises(ImportError):
        from calque import nothing  # noqa: F401


def test_errors_are_one_tree_with_exit_codes_in_mind() -> None:
    for error in (calque.ConfigError, calque.DataError, calque.TextError, calque.FolderError):
        assert issubclass(error, calque.UserError)
    for error in (calque.UserError, calque.TrainingError, calque.Interrupted):
        assert issubclass(error, calque.CalqueError)
        assert error is calque.UserError or not issubclass(error, calque.UserError)


@pytest.mark.usefixtures("unplotted")
def test_train_and_load_from_python(tmp_path: Path) -> None:
    values = toy_values(toy_corpus(tmp_path / "corpus"), "plain", "training.steps=2")
    run = calque.train(values, run=tmp_path / "run", quiet=True)
    assert isinstance(run, calque.Run)
    assert isinstance(run.config, calque.Experiment)
    translator = calque.load(run.folder)
    assert isinstance(translator, calque.Translator)
    assert isinstance(translator.translate("a b"), str)
    assert [type(one) for one in translator.translate(["a b", ""])] == [str, str]
    assert calque.resume(run.folder, quiet=True).summary.step == 2


RUN = "import sys; sys.argv = {}; from calque.commands.main import app; app(standalone_mode=False)"


@pytest.mark.parametrize(
    "code",
    [
        "import calque; calque.__version__; calque.UserError; dir(calque)",
        RUN.format(["calque", "--help"]),
        RUN.format(["calque", "translate", "--help"]),
        RUN.format(["calque", "--version"]),
    ],
)
def test_importing_and_help_load_nothing_heavy(code: str) -> None:
    heavy = "{'torch', 'numpy', 'sacrebleu', 'sentencepiece', 'safetensors', 'matplotlib'} & set(sys.modules)"
    program = f"{code}\nimport sys\nprint('LOADED', sorted({heavy}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment())
    assert done.stdout.splitlines()[-1] == "LOADED []", done.stderr


def test_the_api_reference_is_what_the_docstrings_say() -> None:
    root = Path(__file__).parents[2]
    checked = subprocess.run(
        [sys.executable, root / "scripts" / "reference", "--check"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("name", [name for name in calque.__all__ if name != "__version__"])
def test_public_names_have_a_docstring_and_classes_and_functions_an_example(name: str) -> None:
    value = getattr(calque, name)
    assert value.__doc__
    is_error = inspect.isclass(value) and issubclass(value, Exception)
    assert is_error or ">>>" in value.__doc__ or "    calque." in value.__doc__, name
