"""Common but wrong options are answered with what to write instead, which exists."""

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from tests.conftest import Answer

from calque.commands.generate import _method, _refuse_idle_settings
from calque.commands.inputs import choice
from calque.commands.loading import ModelPaths, refuse_idle_settings, search_of
from calque.commands.main import app
from calque.commands.option_hints import HINTS, Hint, HintingCommand, _suggestion
from calque.commands.options import DEVICES, PRECISIONS
from calque.config import _paths, check, override
from calque.devices import DEVICES as TORCH_DEVICES
from calque.devices import PRECISIONS as TORCH_PRECISIONS
from calque.experiment import Experiment
from calque.search.settings import SearchConfig


def _commands(group: Any) -> Iterator[Any]:
    for child in getattr(group, "commands", {}).values():
        yield from _commands(child) if hasattr(child, "commands") else [child]


COMMANDS = list(_commands(typer.main.get_command(app)))
OPTIONS = {option for command in COMMANDS for parameter in command.params for option in parameter.opts}


def test_every_command_gives_hints() -> None:
    assert all(isinstance(command, HintingCommand) for command in COMMANDS)


@pytest.mark.parametrize("flag", HINTS)
def test_what_a_hint_names_exists(flag: str) -> None:
    hint = HINTS[flag]
    assert hint.options or hint.config or hint.search
    assert {option.partition(" ")[0] for option in hint.options} <= OPTIONS
    paths = set(_paths(Experiment))
    assert {key.partition("=")[0] for key in hint.config} <= paths
    assert {key.partition("=")[0] for key in hint.search} <= set(SearchConfig.model_fields)
    check(SearchConfig, override({}, [key for key in hint.search if "=" in key]), origin=flag)
    fixed = [key for key in hint.config if "=" in key]
    corpus = {"data": {"train": [{"kind": "files", "source": "a", "target": "b"}]}}
    check(Experiment, override(corpus, fixed), origin=flag)


def test_hints_name_no_option_that_every_command_has() -> None:
    """Such a hint would never be given."""
    for flag in HINTS:
        assert any(all(flag not in parameter.opts for parameter in command.params) for command in COMMANDS)


@pytest.mark.parametrize(
    ("line", "messages"),
    [
        ("train --steps 500", ["no such option: --steps; use training.steps=500"]),
        ("train --device cpu --source x", ["no such option: --device; use training.device=cpu"]),
        ("train --batch-size=64", ["use training.batch.tokens=VALUE (counts positions, not rows)"]),
        (
            "train --lr 1e-3 --seed 3",
            ["use training.optimiser.learning_rate=1e-3", "no such option: --seed; use seed=3"],
        ),
        ("train --epochs 3", ["use training.steps=VALUE (counts updates, not epochs"]),
        ("train --output runs/x", ["use --run runs/x"]),
        ("train --output 'my runs'", ["use --run 'my runs'"]),
        ("translate RUN --temperature 0.7", ["no such option: --temperature; use method=sample temperature=0.7"]),
        ("translate RUN --beam-size 3", ["use --beam 3"]),
        ("translate RUN --seed=4", ["use method=sample seed=4"]),
        ("generate RUN --seed=4", ["use seed=4"]),
        ("generate RUN --max-new-tokens 9", ["use --maximum 9"]),
        ("data check --vocab-size 100", ["use text.vocabulary_size=100"]),
        ("score RUN --src x", ["use --source x"]),
        ("quickstart --output there", ["use --out there"]),
    ],
)
def test_a_wrong_option_is_answered(line: str, messages: list[str], command: Callable[..., Answer]) -> None:
    answer = command(*shlex.split(line))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("calque: no such option: --")
    assert [message for message in messages if message not in answer.err] == []


@pytest.mark.parametrize(
    "line", ["train --nonsense", "score RUN --steps 3", "translate RUN --device", "tag RUN --beam 3"]
)
def test_other_mistakes_have_no_hint(line: str, command: Callable[..., Answer]) -> None:
    answer = command(*line.split())
    assert answer.code == 2
    assert "use " not in answer.err and "Traceback" not in answer.err
    assert re.match(r"calque: (no such option: --\w+|--device needs a value: )", answer.err)


@pytest.mark.parametrize(
    ("line", "with_gpu", "without"),
    [
        ("train --gpu", "use training.device=cuda", "this machine has no GPU"),
        ("train --device cuda:0", "use training.device=cuda", "this machine has no GPU"),
        ("train --device gpu", "use training.device=cuda", "this machine has no GPU"),
        ("translate RUN --gpu 0", "use --device cuda", "this machine has no GPU"),
        ("train --fp16", "use training.precision=float16", "use training.precision=bfloat16"),
    ],
)
def test_what_needs_a_gpu_is_suggested_only_where_there_is_one(
    line: str, with_gpu: str, without: str, command: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for has_gpu, message in ((True, with_gpu), (False, without)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda has_gpu=has_gpu: has_gpu)
        answer = command(*line.split())
        assert answer.code == 2
        assert message in answer.err
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert "device mps" in command("translate", "RUN", "--gpu").err


@pytest.mark.parametrize("name", ["translate", "evaluate", "generate"])
def test_suggested_search_settings_have_an_effect(name: str) -> None:
    """A hint must not suggest what the command would reject; the values given differ from all defaults."""
    command = next(command for command in COMMANDS if command.name == name)
    known = {option for parameter in command.params for option in parameter.opts}
    takes = {parameter.name for parameter in command.params}
    tried = 0
    for flag, hint in HINTS.items():
        if flag in known:
            continue
        value = {"--method": "sample"}.get(flag, "0.9" if flag.endswith(("-p", "temp", "temperature")) else "3")
        settings = _suggestion(hint._replace(note=""), known=known, takes=takes, value=value).split()
        if not settings or settings[0].startswith("-"):
            continue
        tried += 1
        given = [*(_method(settings, beam=None) if name == "generate" else []), *settings]
        search = search_of(SearchConfig(), given, beam=None, nbest=1, batch_tokens=None)
        if name == "generate":
            _refuse_idle_settings(settings, search=search, beam=None)
        else:
            refuse_idle_settings(
                settings, search=search, paths=ModelPaths(Path("RUN"), (), None, None, "cpu", "float32")
            )
    assert tried > 10


def test_the_value_of_an_option_may_look_like_another(command: Callable[..., Answer]) -> None:
    assert "no such run or model folder" in command("generate", "RUN", "--prompt", "--steps").err


def test_a_hint_needs_something_to_say() -> None:
    assert Hint() not in HINTS.values()


def test_devices_and_precisions_are_those_of_torch() -> None:
    assert (DEVICES, PRECISIONS) == (TORCH_DEVICES, TORCH_PRECISIONS)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_help_lists_the_choices_of_every_option_that_is_checked_against_some(command: Any) -> None:
    """A help text that names alternatives in words (`auto, cpu or mps`) has them as choices instead."""
    for parameter in command.params:
        listed = str(parameter.metavar or "")
        is_choice = parameter.name in ("device", "precision", "format", "invalid", "long", "of", "picture", "reading")
        is_choice |= command.name in ("phrasebook", "quickstart") and parameter.name in ("source", "target")
        is_choice |= parameter.name in ("pooling", "side", "nearest_side")
        is_choice |= command.name == "shortlist" and parameter.name == "alignment"
        is_choice |= command.name == "align" and parameter.name in ("model", "symmetrise")
        assert bool(re.fullmatch(r"\[[\w|-]+\]", listed)) == is_choice, parameter.name
        if is_choice and parameter.default is not None:
            assert choice(parameter.default, listed.strip("[]").split("|"), option=parameter.name)
