"""By which metric validations of a run are compared."""

from pathlib import Path
from typing import Any, Literal, TypeVar

from calque.errors import ConfigError

Name = TypeVar("Name", bound=str)


def deciding_metric(asked: Name, *, is_language_model: bool) -> Name | Literal["loss"]:
    """The metric that was asked for; a language model translates nothing, so its loss decides."""
    return "loss" if is_language_model else asked


def deciding_metric_of(config: dict[str, Any], *, origin: Path | str = "config.toml") -> str:
    """The same from the values of a run's config, which may be anything; `origin` is the file that has them."""
    kind = section(config, "model.encoder", origin=origin).get("kind")
    asked = section(config, "training", origin=origin).get("metric", "bleu")
    if not isinstance(asked, str):
        raise ConfigError(f"{origin}: training.metric: expected a name, not {asked!r}")
    return deciding_metric(asked, is_language_model=kind == "none")


def section(config: dict[str, Any], name: str, *, origin: Path | str = "config.toml") -> dict[str, Any]:
    """A section of a config that nobody has checked, such as "model.encoder"; an empty one where there is none."""
    found, so_far = config, ""
    for key in name.split("."):
        found, so_far = found.get(key, {}), f"{so_far}.{key}".lstrip(".")
        if not isinstance(found, dict):
            raise ConfigError(f"{origin}: {so_far}: expected a section, not {found!r}")
    return found
