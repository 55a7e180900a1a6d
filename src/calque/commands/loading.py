"""The models that a command translates with, and how they search."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from calque.commands.inputs import choice
from calque.config import check, override, to_values
from calque.devices import DEVICES, PRECISIONS, DeviceName, PrecisionName
from calque.engine import OutputOptions, TextGenerator, Translator, load, load_translator
from calque.engine.constraint_files import read_pairs, read_whole_lines
from calque.engine.noisy_channel import DirectionCheck
from calque.engine.pipeline import Channel
from calque.errors import ConfigError, DataError
from calque.search.settings import SearchConfig


class ModelPaths(NamedTuple):
    """The folders of models that translate together."""

    model: Path
    ensemble: tuple[Path, ...]
    language: Path | None
    reverse: Path | None
    device: DeviceName
    precision: PrecisionName

    @classmethod
    def chosen(
        cls,
        model: Path,
        ensemble: Sequence[Path],
        language: Path | None,
        reverse: Path | None,
        *,
        device: str,
        precision: str,
    ) -> "ModelPaths":
        """The paths, if there are such a device and such a precision."""
        where = choice(device, DEVICES, option="--device")
        fine = choice(precision, PRECISIONS, option="--precision")
        return cls(model, tuple(ensemble), language, reverse, where, fine)

    @property
    def folders(self) -> list[Path]:
        return [self.model, *self.ensemble, *(each for each in (self.language, self.reverse) if each)]

    def ways(self, translator: Translator) -> list[Any]:
        """Which of the folders is what, and how the translator computes."""
        shape = [len(self.ensemble), bool(self.language), bool(self.reverse)]
        return [self.precision, translator.device.type, *shape]

    def load(self) -> tuple[Translator, Channel | None]:
        """One translator of all, and what ranks its beam again where that was asked for."""
        translator, *others = (self._translator(path) for path in (self.model, *self.ensemble))
        prior = self._language_model(self.language) if self.language else None
        if self.reverse is not None:
            back = self._translator(self.reverse)
            return translator.with_ensemble(others) if others else translator, Channel(
                back, prior, DirectionCheck(back)
            )
        return translator.with_ensemble(others, language=prior) if others or prior else translator, None

    def _translator(self, path: Path) -> Translator:
        return load_translator(path, device=self.device, precision=self.precision)

    def _language_model(self, path: Path) -> TextGenerator:
        loaded = load(path, device=self.device, precision=self.precision)
        if not isinstance(loaded, TextGenerator):
            raise DataError(f"{path}: reads a source, so it is no language model; train one with --text FILE")
        return loaded


def search_of(
    own: SearchConfig, settings: list[str], *, beam: int | None, nbest: int, batch_tokens: int | None
) -> SearchConfig:
    """A model's own search with what was asked for laid over it.

    A beam that nobody asked for grows to what `nbest` and groups need, where there is a beam.
    """
    for text in settings:
        if "=" not in text:
            raise ConfigError(f"{text!r} is not a setting: write KEY=VALUE, e.g. coverage=0.2")
    if beam and any(text.removeprefix("search.").partition("=")[0].strip() == "beam" for text in settings):
        raise ConfigError("beam is given twice: as a setting and as --beam; leave one of them out")
    values = {key: value for key, value in to_values(own).items() if key != "beam"}
    values |= {key: value for key, value in (("beam", beam), ("batch_tokens", batch_tokens)) if value}
    values, origin = override(values, [text.removeprefix("search.") for text in settings]), "search settings"
    if "beam" not in values:
        least, groups = max(own.beam, nbest if values["method"] == "beam" else 1), values["groups"]
        is_number = isinstance(groups, int) and groups > 0  # else it is refused below
        values["beam"] = -(-least // groups) * groups if is_number else least
        if values["beam"] > own.beam:
            origin = f"search settings (beam {values['beam']} is what --nbest and groups need)"
    return check(SearchConfig, values, origin=origin)


def refuse_idle_settings(settings: Sequence[str], *, search: SearchConfig, paths: ModelPaths) -> None:
    """Raises a ConfigError that names every such setting of a command line with what it is read with.

    What is at its default passes, as it asks for nothing.
    """
    draws = (search.method != "beam", "method=sample or method=risk")
    risks = (search.method == "risk", "method=risk")
    language, reverse = paths.language is not None, paths.reverse is not None
    uses = {
        **dict.fromkeys(("temperature", "top_k", "top_p", "min_p", "seed"), draws),
        **dict.fromkeys(("samples", "utility"), risks),
        "groups": (search.method == "beam", "method=beam"),
        "diversity": (search.method == "beam" and search.groups > 1, "groups=2 or more"),
        "patience": (search.method == "beam" and search.stopping == "patience", "stopping=patience"),
        "ensemble": (bool(paths.ensemble), "--ensemble"),
        "language_weight": (language and not reverse, "--language, and without --reverse"),
        "prior_weight": (language and reverse, "--language and --reverse"),
        "channel_weight": (reverse, "--reverse"),
    }
    given = dict.fromkeys(text.partition("=")[0].strip().removeprefix("search.") for text in settings)
    idle = [
        f"{key}={getattr(search, key)} changes nothing: it is read only with {uses[key][1]}"
        for key in given
        if key in uses and not uses[key][0] and getattr(search, key) != SearchConfig.model_fields[key].default
    ]
    if idle:
        raise ConfigError("\n".join(idle))


def output_options(
    forbid: Path | None, replace_unknown: bool, dictionary: Path | None, *, detail: bool, translator: Translator
) -> OutputOptions:
    """What holds for all lines; where it can change nothing with this translator, standard error says so."""
    words = [line.text.strip() for line in read_whole_lines(forbid)] if forbid else []
    replacing = dict(read_pairs(dictionary)) if dictionary else {} if replace_unknown else None
    if replacing is not None and (why := _no_replacing(translator)):
        typer.echo(f"--{'dictionary' if dictionary else 'replace-unknown'}: changes nothing here: {why}", err=True)
        replacing = None
    return OutputOptions(tuple(word for word in words if word), replacing, detail)


def _no_replacing(translator: Translator) -> str | None:
    """Why unknown words cannot be replaced, where they cannot."""
    if translator.tokenizers.target.is_closed:
        return "this model can spell every word, so none is unknown"
    if not translator.attends:
        return "this model has no attention, so nobody knows which source word an unknown one comes from"
    return None
