"""Search settings from a model's own and those of the command line; a beam that is not set follows from the others."""

from pathlib import Path

import pytest

from calque.commands.loading import ModelPaths, refuse_idle_settings, search_of
from calque.errors import ConfigError
from calque.search.settings import SearchConfig

OWN = SearchConfig(beam=5, length_penalty=0.3)


def search_with(*settings: str, beam: int | None = None, nbest: int = 1, own: SearchConfig = OWN) -> SearchConfig:
    return search_of(own, list(settings), beam=beam, nbest=nbest, batch_tokens=None)


@pytest.mark.parametrize(
    ("settings", "nbest", "beam"),
    [
        ([], 1, 5),
        ([], 8, 8),
        (["groups=2"], 1, 6),
        (["groups=2"], 3, 6),
        (["groups=4"], 9, 12),
        (["method=sample"], 1200, 5),
        (["method=risk"], 20, 5),
        (["beam=9", "groups=3"], 2, 9),
    ],
)
def test_a_beam_that_is_not_set_is_as_wide_as_needed(settings: list[str], nbest: int, beam: int) -> None:
    assert search_with(*settings, nbest=nbest).beam == beam


def test_a_beam_that_is_set_stays() -> None:
    assert search_with(beam=3).beam == 3
    assert search_with("beam=4").beam == 4
    with pytest.raises(ConfigError, match="the beam size is given twice"):
        search_with("beam=4", beam=3)
    assert search_with(beam=3, nbest=7).beam == 3, "the translator rejects it"
    with pytest.raises(ConfigError, match="beam 5 must be a multiple of groups 2"):
        search_with("groups=2", beam=5)


def test_a_beam_that_would_be_too_wide_is_attributed_to_nbest() -> None:
    with pytest.raises(ConfigError, match=r"--nbest and groups need a beam of 1200(.|\n)*less than or equal to 1000"):
        search_with(nbest=1200)


@pytest.mark.parametrize(("setting", "key"), [("groups=x", "groups"), ("groups=0", "groups"), ("method=x", "method")])
def test_a_problem_is_reported_under_its_key(setting: str, key: str) -> None:
    with pytest.raises(ConfigError, match=rf"{key}: "):
        search_with(setting)


def test_other_settings_are_the_models_own() -> None:
    assert search_with("coverage=0.2") == OWN.model_copy(update={"coverage": 0.2})
    assert search_with("search.coverage=0.2") == search_with("coverage=0.2"), "as in a config"
    with pytest.raises(ConfigError, match="write KEY=VALUE"):
        search_with("coverage")


def test_every_64_bit_seed_is_accepted() -> None:
    assert search_with(f"seed={2**63 - 1}").seed == 2**63 - 1
    with pytest.raises(ConfigError, match="seed: input should be less than 9223372036854775808"):
        search_with(f"seed={2**63}")


ALONE = ModelPaths(Path("run"), (), None, None, "cpu", "float32")


@pytest.mark.parametrize(
    ("setting", "enough", "paths"),
    [
        ("temperature=0.5", ["method=sample"], ALONE),
        ("top_p=0.9", ["method=risk"], ALONE),
        ("seed=4", ["method=sample"], ALONE),
        ("samples=4", ["method=risk"], ALONE),
        ("diversity=2.0", ["groups=2"], ALONE),
        ("patience=3.0", ["stopping=patience"], ALONE),
        ("language_weight=3.0", [], ALONE._replace(language=Path("other"))),
        ("prior_weight=3.0", [], ALONE._replace(language=Path("other"), reverse=Path("other"))),
        ("channel_weight=3.0", [], ALONE._replace(reverse=Path("other"))),
        ("ensemble=log-probabilities", [], ALONE._replace(ensemble=(Path("other"),))),
    ],
)
def test_a_setting_without_effect_is_rejected(setting: str, enough: list[str], paths: ModelPaths) -> None:
    for settings in ([setting], [f"search.{setting}"]):
        with pytest.raises(ConfigError, match=f"{setting} has no effect: it is used only with "):
            refuse_idle_settings(settings, search=search_with(*settings), paths=ALONE)
    refuse_idle_settings([setting, *enough], search=search_with(setting, *enough), paths=paths)
    key = setting.split("=")[0]
    default = f"{key}={SearchConfig.model_fields[key].default}"
    refuse_idle_settings([default], search=search_with(default), paths=ALONE)
