"""The models that a command translates with, and how they search."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from calque.commands.answering import Channel
from calque.commands.choices import choice
from calque.config import check, override, to_values
from calque.errors import ConfigError, DataError
from calque.search.settings import SearchConfig
from calque.translator import DEVICES, PRECISIONS, DeviceName, PrecisionName, Translator, load
from calque.translator.channel import Direction


class Company(NamedTuple):
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
    ) -> "Company":
        """The company, if there are such a device and such a precision."""
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
        loaded = {path: load(path, device=self.device, precision=self.precision) for path in self.folders}
        prior = loaded[self.language] if self.language else None
        if prior is not None and not prior.is_language_model:
            raise DataError(
                f"{self.language}: reads a source, so it is no language model; train one with --system language"
            )
        for path in (self.model, *self.ensemble, *((self.reverse,) if self.reverse else ())):
            refuse_sourceless(loaded[path], path=path)
        translator, others = loaded[self.model], [loaded[each] for each in self.ensemble]
        if self.reverse is not None:
            back = loaded[self.reverse]
            return translator.beside(others) if others else translator, Channel(back, prior, Direction(back))
        return translator.beside(others, language=prior) if others or prior else translator, None


def refuse_sourceless(translator: Translator, *, path: Path) -> None:
    """Raises a DataError for a language model where there is something to translate."""
    if translator.is_language_model:
        raise DataError(
            f"{path}: is a language model, which translates nothing; `calque score {path} --target FILE` tells how "
            f"likely a text is, and `calque translate RUN --language {path}` lets it help a translator"
        )


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
