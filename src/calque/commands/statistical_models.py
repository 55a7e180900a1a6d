"""What commands need for statistical translation models: their search settings, and the options that do not apply."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calque.commands.inputs import device_and_precision
from calque.config import check, override, to_values
from calque.engine import PhraseTranslator, load
from calque.errors import ConfigError
from calque.models.phrase_based import PhraseSearchConfig


def load_statistical(
    path: Path, settings: Sequence[str], *, beam: int | None, device: str, precision: str
) -> PhraseTranslator:
    """Loads a statistical model, with the search settings KEY=VALUE of a command; `beam` sets the stack size."""
    names = device_and_precision(device, precision)
    translator = load(path, device=names[0], precision=names[1])
    assert isinstance(translator, PhraseTranslator)
    return with_settings(translator, settings, beam=beam)


def with_settings(translator: PhraseTranslator, settings: Sequence[str], *, beam: int | None) -> PhraseTranslator:
    """The translator with search settings KEY=VALUE; `beam` sets the stack size."""
    for text in settings:
        if "=" not in text:
            raise ConfigError(f"{text!r} is not a setting: write KEY=VALUE, e.g. stack=200")
    keys = [text.removeprefix("search.").partition("=")[0].strip() for text in settings]
    if unknown := [key for key in keys if key not in PhraseSearchConfig.model_fields]:
        raise ConfigError(
            f"{', '.join(unknown)}: no effect on a statistical model; its search settings are "
            f"{', '.join(PhraseSearchConfig.model_fields)}"
        )
    if beam and "stack" in keys:
        raise ConfigError("--beam and stack= both set the size of the stacks; leave one of them out")
    values = to_values(translator.config.search) | ({"stack": beam} if beam else {})
    values = override(values, [text.removeprefix("search.") for text in settings])
    return translator.with_search(check(PhraseSearchConfig, values, origin="search settings"))


def refuse_neural_options(options: Mapping[str, Any], *, model: Path) -> None:
    """Raises a ConfigError if options were given that apply only to neural models."""
    if given := [name for name, value in options.items() if value]:
        raise ConfigError(
            f"{', '.join(given)}: supported for neural models only, but {model} is a statistical model; leave it out"
        )
