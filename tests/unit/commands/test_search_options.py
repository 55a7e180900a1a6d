"""What search becomes of a model's own settings and of those asked for: a beam nobody set follows the rest."""

from pathlib import Path

import pytest

from calque.commands.loading import ModelPaths, refuse_idle_settings, search_of
from calque.errors import ConfigError
from calque.search.settings import SearchConfig

OWN = SearchConfig(beam=5, length_penalty=0.3)


def found(*settings: str, beam: int | None = None, nbest: int = 1, own: SearchConfig = OWN) -> SearchConfig:
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
def test_a_beam_that_nobody_asked_for_is_as_wide_as_need_be(settings: list[str], nbest: int, beam: int) -> None:
    assert found(*settings, nbest=nbest).beam == beam


def test_a_beam_that_was_asked_for_stays() -> None:
    assert found(beam=3).beam == 3
    assert found("beam=4").beam == 4
    with pytest.raises(ConfigError, match="beam is given twice"):
        found("beam=4", beam=3)
    assert found(beam=3, nbest=7).beam == 3, "the translator says that this is too few"
    with pytest.raises(ConfigError, match="beam 5 must be a multiple of groups 2"):
        found("groups=2", beam=5)


def test_a_beam_that_would_be_too_wide_is_said_to_come_from_nbest() -> None:
    with pytest.raises(ConfigError, match=r"--nbest and groups need a beam of 1200(.|\n)*less than or equal to 1000"):
        found(nbest=1200)


@pytest.mark.parametrize(("setting", "said"), [("groups=x", "groups"), ("groups=0", "groups"), ("method=x", "method")])
def test_what_is_wrong_is_said_of_its_own_key(setting: str, said: str) -> None:
    with pytest.raises(ConfigError, match=rf"{said}: "):
        found(setting)


def test_the_rest_is_the_models_own() -> None:
    assert found("coverage=0.2") == OWN.model_copy(update={"coverage": 0.2})
    assert found("search.coverage=0.2") == found("coverage=0.2"), "as in a config"
    with pytest.raises(ConfigError, match="write KEY=VALUE"):
        found("coverage")


def test_every_seed_that_a_config_can_hold_is_one() -> None:
    assert found(f"seed={2**63 - 1}").seed == 2**63 - 1
    with pytest.raises(ConfigError, match="seed: input should be less than 9223372036854775808"):
        found(f"seed={2**63}")


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
def test_a_setting_that_nothing_reads_is_refused(setting: str, enough: list[str], paths: ModelPaths) -> None:
    for settings in ([setting], [f"search.{setting}"]):
        with pytest.raises(ConfigError, match=f"{setting} has no effect: it is used only with "):
            refuse_idle_settings(settings, search=found(*settings), paths=ALONE)
    refuse_idle_settings([setting, *enough], search=found(setting, *enough), paths=paths)
    key = setting.split("=")[0]
    default = f"{key}={SearchConfig.model_fields[key].default}"
    refuse_idle_settings([default], search=found(default), paths=ALONE)
