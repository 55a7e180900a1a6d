"""The settings that prepared pairs depend on, read without the rest of an experiment's config.

The other settings need torch, and importing torch alone takes longer than preparing a small corpus.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from calque.config import Config, override
from calque.data.character_level import chosen_text
from calque.data.corpora import DataConfig, PairCorpus
from calque.data.pair_preparation import PairPreparation
from calque.text import FormsConfig, SentencePieceConfig, TextConfig
from calque.text.training import with_kind


class PairSettings(Config):
    """The sections of an experiment's config that its prepared pairs depend on."""

    data: DataConfig
    text: TextConfig = SentencePieceConfig()


class PairPlan(NamedTuple):
    """The data section of a config, how its pairs are prepared, and a message if text settings were chosen for them."""

    data: DataConfig
    preparation: PairPreparation
    message: str


def plan_pairs(corpora: Mapping[str, Any], assignments: Sequence[str]) -> PairPlan | None:
    """How the pairs of an experiment with these corpora and settings are prepared.

    Returns None if an assignment sets something outside of `PairSettings`, if the corpora are not pairs, or if anything
    is invalid. The caller then reads the config of the whole experiment, which reports any error.
    """
    values = override({"data": dict(corpora)}, assignments, of=PairSettings)
    if values.keys() - PairSettings.model_fields.keys():
        return None
    message = ""
    try:
        if isinstance(values.get("text"), dict):
            values["text"] = with_kind(values["text"])
        settings = PairSettings.model_validate(values, context={"written": False})
        if not all(isinstance(corpus, PairCorpus) for corpus in (*settings.data.train, *settings.data.valid)):
            return None
        if not values.get("text") and (chosen := chosen_text(settings.data, joint=False)):
            settings, message = PairSettings.model_validate({**values, "text": chosen.section}), chosen.message
    except ValidationError:
        return None
    if isinstance(settings.text, FormsConfig):
        return None
    return PairPlan(settings.data, PairPreparation.of(settings.data, text=settings.text), message)
