"""By which metric validations of a run are compared."""

from typing import Any, Literal, TypeVar

Name = TypeVar("Name", bound=str)


def deciding_metric(asked: Name, *, is_language_model: bool) -> Name | Literal["loss"]:
    """The metric that was asked for; a language model translates nothing, so its loss decides."""
    return "loss" if is_language_model else asked


def deciding_metric_of(config: dict[str, Any]) -> str:
    """The same from the values of a run's config."""
    is_language_model = config.get("model", {}).get("encoder", {}).get("kind") == "none"
    return deciding_metric(config.get("training", {}).get("metric", "bleu"), is_language_model=is_language_model)
