"""A command that is given another kind of model names the command, or the options, for that kind."""

from collections.abc import Callable
from pathlib import Path

import pytest

from calque.engine import load_sentence_encoder, load_tagger, load_text_generator, load_translator
from calque.errors import FolderError
from tests.conftest import Answer, without_plots
from tests.promises.subjects import SUBJECTS

Command = Callable[..., Answer]

KINDS = {
    "translation": ("a translation model", "translate {run}", "evaluate {run} --source FILE --reference FILE"),
    "language model of lines": ("a language model", "generate {run}", "evaluate {run} --text FILE"),
    "tagging": ("a tagger", "tag {run}", "evaluate {run} --conll FILE"),
    "embedding": ("a sentence encoder", "embed {run}", "evaluate {run} --source FILE --target FILE"),
}
LOADERS = dict(zip(KINDS, (load_translator, load_text_generator, load_tagger, load_sentence_encoder), strict=True))
EVALUATIONS = dict(
    zip(KINDS, (["--source", "--reference"], ["--text"], ["--conll"], ["--source", "--target"]), strict=True)
)
PAIRS = [(given, needed) for given in KINDS for needed in KINDS if given != needed]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each kind; do not change them."""
    folder = tmp_path_factory.mktemp("kinds")
    with without_plots():
        return {
            name: SUBJECTS[name].train(folder / name.split()[0], "training.steps=2", "training.validate_every=2").folder
            for name in KINDS
        }


@pytest.mark.parametrize(("given", "needed"), PAIRS)
def test_a_model_of_another_kind_is_rejected_with_its_command(
    runs: dict[str, Path], given: str, needed: str, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "file").write_text("a b\n", encoding="utf-8")
    run, (name, usage, evaluation) = runs[given], KINDS[given]
    with pytest.raises(FolderError) as refused:
        LOADERS[needed](run, device="cpu")
    assert f"{run} is {name} and cannot" in str(refused.value)
    assert f"`calque {usage.format(run=run)}" in str(refused.value)
    if needed == "embedding":  # every model has sentence vectors
        return
    options = [part for option in EVALUATIONS[needed] for part in (option, tmp_path / "file")]
    answer = command("evaluate", run, *options)
    assert answer.code == 2 and f"is {name} and cannot be evaluated with {EVALUATIONS[needed][0]}" in answer.err
    assert f"`calque {evaluation.format(run=run)}` evaluates it" in answer.err


def test_commands_reject_models_of_another_kind(runs: dict[str, Path], command: Command) -> None:
    translator, language, tagger, _ = runs.values()
    for arguments, message in (
        (["tag", language], f"is a language model and cannot label words; `calque generate {language}`"),
        (["tag", translator], f"is a translation model and cannot label words; `calque translate {translator}`"),
        (["generate", tagger], f"is a tagger and cannot generate text; `calque tag {tagger}`"),
        (["translate", tagger], f"is a tagger and cannot translate; `calque tag {tagger}`"),
        (["translate", translator, "--language", tagger], f"--language: {tagger} is a tagger, not a language model"),
        (["score", tagger, "--target", __file__], f"`calque evaluate {tagger} --conll FILE`"),
    ):
        answer = command(*arguments, stdin=b"a\n")
        assert answer.code == 2 and message in answer.err, answer.err
