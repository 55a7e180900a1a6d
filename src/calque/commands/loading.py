"""Loads the models that commands translate with or evaluate, and builds their search settings."""

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import typer

from calque.commands.inputs import device_and_precision
from calque.config import check, override, to_values
from calque.devices import DeviceName, PrecisionName
from calque.engine import (
    Captioner,
    Channel,
    Loaded,
    PhraseTranslator,
    Recogniser,
    Recommender,
    SentenceEncoder,
    Tagger,
    TextGenerator,
    Translator,
    load,
    load_translator,
    model_kind,
)
from calque.engine.constraint_files import read_pairs, read_whole_lines
from calque.engine.folder import AnyLoaded
from calque.errors import ConfigError, DataError, shell_path
from calque.memory import keep_memory
from calque.search.settings import SearchConfig


class ModelPaths(NamedTuple):
    """The folders of the models that translate together, and their device and precision."""

    model: Path
    ensemble: tuple[Path, ...]
    language: Path | None
    reverse: Path | None
    device: DeviceName
    precision: PrecisionName

    @classmethod
    def from_options(
        cls,
        model: Path,
        ensemble: Sequence[Path],
        language: Path | None,
        reverse: Path | None,
        *,
        device: str,
        precision: str,
    ) -> "ModelPaths":
        """The model folders, device and precision that options name; device and precision are checked."""
        return cls(model, tuple(ensemble), language, reverse, *device_and_precision(device, precision))

    @property
    def folders(self) -> list[Path]:
        return [self.model, *self.ensemble, *(path for path in (self.language, self.reverse) if path)]

    def fingerprint_parts(self, translator: Translator) -> list[Any]:
        """What affects the output besides the models' files: precision, device and the role of each model."""
        roles = [len(self.ensemble), bool(self.language), bool(self.reverse)]
        return [self.precision, translator.device.type, *roles]

    def load(self) -> tuple[Translator, Channel | None]:
        """Loads the translator with its ensemble and, if there is a reverse model, the channel model for reranking."""
        keep_memory()
        translator, *members = (self._translator(path) for path in (self.model, *self.ensemble))
        language = None
        if self.language:
            language = load_language_model(self.language, device=self.device, precision=self.precision)
        if self.reverse is not None:
            reverse = self._translator(self.reverse)
            channel = Channel(reverse, language=language, warn=partial(typer.echo, err=True))
            return translator.with_ensemble(members) if members else translator, channel
        if members or language:
            translator = translator.with_ensemble(members, language=language)
        return translator, None

    def _translator(self, path: Path) -> Translator:
        return load_translator(path, device=self.device, precision=self.precision)


def load_language_model(path: Path, *, device: DeviceName, precision: PrecisionName) -> TextGenerator:
    """Loads the language model that the option --language names."""
    loaded = load(path, device=device, precision=precision)
    if not isinstance(loaded, TextGenerator):
        raise DataError(
            f"--language: {path} is {model_kind(loaded)}, not a language model; train a language model with "
            "`calque train --text FILE`"
        )
    return loaded


EVALUATION_OPTIONS: dict[type[Loaded], str] = {
    Translator: "--source FILE --reference FILE",
    TextGenerator: "--text FILE",
    Tagger: "--conll FILE",
    PhraseTranslator: "--source FILE --reference FILE",
    SentenceEncoder: "--source FILE --target FILE",
    Recommender: "--sequences FILE",
    Recogniser: "--audio MANIFEST",
    Captioner: "--images FILE",
}
"""Maps each kind of model to the options with which `calque evaluate` evaluates it."""


def load_to_evaluate(model: Path, kind: type[AnyLoaded], *, device: DeviceName, precision: PrecisionName) -> AnyLoaded:
    """Loads a model of this kind; for any other kind, raises a ConfigError with the command that evaluates it."""
    keep_memory()
    loaded = load(model, device=device, precision=precision)
    if isinstance(loaded, kind):
        return loaded
    raise ConfigError(
        f"{model} is {model_kind(loaded)} and cannot be evaluated with {EVALUATION_OPTIONS[kind]}; "
        f"`calque evaluate {shell_path(model)} {EVALUATION_OPTIONS[type(loaded)]}` evaluates it"
    )


def search_of(
    own: SearchConfig, settings: list[str], *, beam: int | None, nbest: int, batch_tokens: int | None
) -> SearchConfig:
    """A model's own search settings, overridden by those of a command line.

    If the command line does not set the beam size, it is raised to what `nbest` and the number of beam groups require.
    """
    for text in settings:
        if "=" not in text:
            raise ConfigError(
                f"{text!r} is not a setting: write KEY=VALUE, e.g. coverage=0.2; texts come from --input or standard "
                f"input, e.g. echo {shlex.quote(text)} | calque …"
            )
        if text.partition("=")[0].strip() == "nbest":
            raise ConfigError(f"nbest is an option: write --nbest {shlex.quote(text.partition('=')[2])}")
    if beam and any(text.removeprefix("search.").partition("=")[0].strip() == "beam" for text in settings):
        raise ConfigError("the beam size is given twice, as the setting beam= and as --beam; leave one of them out")
    values = {key: value for key, value in to_values(own).items() if key != "beam"}
    values |= {key: value for key, value in (("beam", beam), ("batch_tokens", batch_tokens)) if value}
    values, origin = override(values, [text.removeprefix("search.") for text in settings]), "search settings"
    if "beam" not in values:
        least, groups = max(own.beam, nbest if values["method"] == "beam" else 1), values["groups"]
        is_number = isinstance(groups, int) and groups > 0  # otherwise the check below rejects it
        values["beam"] = -(-least // groups) * groups if is_number else least
        if values["beam"] > own.beam:
            origin = f"search settings (--nbest and groups need a beam of {values['beam']})"
    return check(SearchConfig, values, origin=origin)


_TRANSLATION = ("ensemble", "channel_weight", "prior_weight", "shortlist", "shortlist_threshold")


def refuse_idle_settings(settings: Sequence[str], *, search: SearchConfig, paths: ModelPaths) -> None:
    """Raises a ConfigError for settings that have no effect; the message names the options that each setting needs.

    A setting that has its default value is accepted.
    """
    samples = (search.method != "beam", "method=sample or method=risk")
    minimises_risk = (search.method == "risk", "method=risk")
    language, reverse = paths.language is not None, paths.reverse is not None
    needs = {
        **dict.fromkeys(("temperature", "top_k", "top_p", "min_p", "seed"), samples),
        **dict.fromkeys(("samples", "utility"), minimises_risk),
        "groups": (search.method == "beam", "method=beam"),
        "diversity": (search.method == "beam" and search.groups > 1, "groups=2 or more"),
        "patience": (search.method == "beam" and search.stopping == "patience", "stopping=patience"),
        "ensemble": (bool(paths.ensemble), "--ensemble"),
        "language_weight": (language and not reverse, "--language and without --reverse"),
        "prior_weight": (language and reverse, "--language and --reverse"),
        "channel_weight": (reverse, "--reverse"),
        "shortlist_threshold": (search.shortlist, "--shortlist"),
    }
    idle = {key: f"it is used only with {condition}" for key, (is_used, condition) in needs.items() if not is_used}
    refuse_idle(settings, idle, search=search)


def refuse_idle_beam_settings(
    settings: Sequence[str],
    *,
    search: SearchConfig,
    unused: Mapping[str, str],
) -> None:
    """Raises a ConfigError for settings that have no effect on the beam search of a single model.

    `unused` lists further settings without effect, each with the reason.
    """
    idle = {
        **unused,
        **dict.fromkeys(("temperature", "top_k", "top_p", "min_p", "seed"), "it is used only in sampling"),
        **dict.fromkeys(("samples", "utility", *_TRANSLATION), "it is supported for translation only"),
        **({} if search.groups > 1 else {"diversity": "it is used only with groups=2 or more"}),
        **({} if search.stopping == "patience" else {"patience": "it is used only with stopping=patience"}),
    }
    refuse_idle(settings, idle, search=search)


def refuse_idle(settings: Sequence[str], reasons: Mapping[str, str], *, search: SearchConfig) -> None:
    """Raises a ConfigError for settings that `reasons` lists as having no effect, unless they have default values."""
    keys = dict.fromkeys(text.partition("=")[0].strip().removeprefix("search.") for text in settings)
    problems = [
        f"{key}={getattr(search, key)} has no effect: {reasons[key]}"
        for key in keys
        if key in reasons and getattr(search, key) != SearchConfig.model_fields[key].default
    ]
    if problems:
        raise ConfigError("\n".join(problems))


def read_forbidden_words(path: Path | None) -> tuple[str, ...]:
    """Reads the words of a file that has one word per line."""
    words = [line.text.strip() for line in read_whole_lines(path)] if path else []
    return tuple(word for word in words if word)


def read_replacements(
    replace_unknown: bool, dictionary: Path | None, *, translator: Translator
) -> Mapping[str, str] | None:
    """The replacements of unknown words; None if not requested or, with a warning, if the model cannot apply them."""
    replacements = dict(read_pairs(dictionary)) if dictionary else {} if replace_unknown else None
    if replacements is not None and (reason := _why_nothing_is_replaced(translator)):
        typer.echo(f"--{'dictionary' if dictionary else 'replace-unknown'} has no effect: {reason}", err=True)
        return None
    return replacements


def _why_nothing_is_replaced(translator: Translator) -> str | None:
    """The reason why the translator cannot replace unknown words; None if it can."""
    if translator.tokenizers.target.is_closed:
        return "this model can spell every word, so none is unknown"
    if not translator.attends:
        return "this model has no attention, so the source word of an unknown word cannot be determined"
    return None
