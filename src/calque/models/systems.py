"""Named systems: model configs named after a paper or after a size of our own, which can be scaled up or down."""

import difflib
from typing import Any

from calque.config import check, to_values
from calque.errors import ConfigError
from calque.models.recommender_systems import RECOMMENDERS as RECOMMENDERS
from calque.models.signal_systems import CAPTIONERS as CAPTIONERS
from calque.models.signal_systems import RECOGNISERS as RECOGNISERS
from calque.models.system import AnyModelConfig as AnyModelConfig
from calque.models.system import System as System
from calque.models.text_systems import LANGUAGE_MODELS as LANGUAGE_MODELS
from calque.models.text_systems import SENTENCE_ENCODERS as SENTENCE_ENCODERS
from calque.models.text_systems import TAGGERS as TAGGERS
from calque.models.translation_systems import STATISTICAL as STATISTICAL
from calque.models.translation_systems import TRANSLATORS as TRANSLATORS

SYSTEMS: dict[str, System] = (
    TRANSLATORS | STATISTICAL | LANGUAGE_MODELS | TAGGERS | SENTENCE_ENCODERS | RECOMMENDERS | RECOGNISERS | CAPTIONERS
)

_WIDTHS = (
    "width",
    "top_width",
    "embedding",
    "feed_forward",
    "alignment",
    "readout",
    "column_width",
    "projection",
    "channels",
)


def system_model(name: str, *, scale: float = 1.0) -> AnyModelConfig:
    """The model config of a named system, with its widths, heads and layers multiplied by `scale`."""
    if name not in SYSTEMS:
        close = difflib.get_close_matches(name, SYSTEMS, n=1)
        meant = f"; did you mean {close[0]!r}?" if close else "."
        raise ConfigError(f"unknown system {name!r}{meant} Available systems: {', '.join(SYSTEMS)}")
    if not 0 < scale <= 4:
        raise ConfigError(f"scale is {scale}: it must be above 0 and at most 4")
    model = scaled(SYSTEMS[name].model, scale=scale)
    if scale != 1 and model == SYSTEMS[name].model:
        raise ConfigError(
            f"scale {scale:g} has no effect on {name}, which has no widths, heads or layers; leave it out"
        )
    return model


def scaled(model: AnyModelConfig, *, scale: float) -> AnyModelConfig:
    """The model config with its widths, heads and layers multiplied by `scale`.

    Widths are rounded to multiples of 8, equal widths stay equal, a stack of two or more layers keeps at least two, and
    the width of a head stays even. The range of initial weights (`spread`) is divided by √scale, so that sums over a
    width keep their magnitude.
    """
    return model if scale == 1 else check(type(model), _scaled(to_values(model), scale=scale), origin="scale")


def changed_sizes(name: str, *, scale: float) -> list[str]:
    """Lines that list the sizes that `scale` changes in a named system, one line per part of the model.

    The original sizes are in parentheses.
    """
    now, full = to_values(system_model(name, scale=scale)), to_values(SYSTEMS[name].model)
    spread = [f"spread {now['spread']} ({full['spread']})"] if now.get("spread") != full.get("spread") else []
    parts = (
        _differences(now[part], full[part], part)
        for part in ("encoder", "decoder", "network", "characters", "image")
        if part in now
    )
    return [", ".join(sizes) for sizes in (*parts, spread) if sizes]


def _differences(now: dict[str, Any], full: dict[str, Any], name: str) -> list[str]:
    found = []
    for key, value in now.items():
        if isinstance(value, dict):
            found += _differences(value, full[key], f"{name}.{key}")
        elif value != full[key]:
            found.append(f"{name}.{key} {value} ({full[key]})")
    return found


def _scaled(values: dict[str, Any], *, scale: float) -> dict[str, Any]:
    changed: dict[str, Any] = {
        key: _scaled(value, scale=scale) if isinstance(value, dict) else value for key, value in values.items()
    }
    for key in _WIDTHS:
        if values.get(key) is not None and (
            key != "alignment" or values.get("score") == "additive"
        ):  # the only score with this setting
            changed[key] = max(8, 8 * round(values[key] * scale / 8))
    if values.get("spread") is not None:
        changed["spread"] = round(values["spread"] / scale**0.5, 4)
    if "layers" in values:
        changed["layers"] = max(min(values["layers"], 2), round(values["layers"] * scale))
    if "heads" in values:
        wanted = max(1, round(values["heads"] * scale))
        changed["heads"] = max(heads for heads in range(1, wanted + 1) if changed["width"] % (2 * heads) == 0)
        if values.get("key_value_heads") is not None:  # the same number of heads share one as before, or all do
            shared = values["heads"] // values["key_value_heads"]
            changed["key_value_heads"] = changed["heads"] // shared if changed["heads"] % shared == 0 else 1
    if values.get("attention_layer") is not None:  # at the same relative depth
        place = round(values["attention_layer"] * changed["layers"] / values["layers"])
        changed["attention_layer"] = max(1, place)
    return changed
