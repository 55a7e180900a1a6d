"""How good a model is on sentences it has not seen: loss, BLEU and the like, and some translations to read."""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from calque.data.batching import BatchConfig
from calque.data.store import Store
from calque.engine import Translator
from calque.evaluation.confidence import Confidence, calibrate
from calque.evaluation.metrics import bleu, chrf, exact_match, ter
from calque.objectives.cross_entropy import mean_loss
from calque.search.settings import SearchConfig

Metric = Literal["bleu", "chrf", "ter", "exact_match", "loss", "perplexity"]
CHANCE = 1.0  # a BLEU below it is a word here and there


class ValidationSet(NamedTuple):
    """Held-out pairs, as ids and as text."""

    store: Store
    sources: Sequence[str]
    references: Sequence[str]


class Validation(NamedTuple):
    """What one validation found."""

    loss: float  # nats a target token, without label smoothing
    bleu: float
    chrf: float
    exact_match: float  # per cent
    ter: float  # NaN where nobody asked for it: it takes long
    translations: list[str]
    confidence: Confidence | None = None
    length: float = math.nan  # characters of all translations to those of all references

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700.0))

    @property
    def numbers(self) -> dict[str, float]:
        """What is written down of it."""
        asked = [name for name in ("length", "ter") if not math.isnan(getattr(self, name))]
        return {name: getattr(self, name) for name in ("loss", "perplexity", "bleu", "chrf", "exact_match", *asked)}

    def value(self, metric: Metric) -> float:
        """How good it is: more is better."""
        return worth(float(getattr(self, metric)), metric=metric)

    def is_chance(self, metric: Metric) -> bool:
        """Whether the metric says nothing yet, so that the loss decides which model is better."""
        return metric == "bleu" and self.bleu < CHANCE

    def described(self, metric: Metric) -> str:
        """In words, for a person."""
        also = {"chrf": f", chrF {self.chrf:.1f}", "ter": f", TER {self.ter:.1f}"}.get(metric, "")
        return f"validation loss {self.loss:.3f}, BLEU {self.bleu:.1f}{also}, exact {self.exact_match:.1f} %"


def worth(found: float, *, metric: str) -> float:
    """How good a metric's value is: more is better. A BLEU below 1 is chance and counts as 0: then the loss decides."""
    if metric == "bleu":
        return found if found >= CHANCE else min(found, 0.0)
    return -found if metric in ("loss", "perplexity", "ter") else found


NOTHING = Validation(math.nan, math.nan, math.nan, math.nan, math.nan, [])
"""What a rank that has not measured knows."""


def validate(
    translator: Translator,
    held_out: ValidationSet,
    *,
    batch: BatchConfig,
    search: SearchConfig,
    with_ter: bool = False,
) -> Validation:
    """Loss with every token given, then translations with none given, searched greedily.

    A language model has nothing to translate: its translations are empty.
    """
    translations, confidence, length = [""] * len(held_out.sources), None, math.nan
    if not translator.is_language_model:
        greedy = SearchConfig(beam=1, length_penalty=0.0, **_limits(search))
        found = [one.candidates[0] for one in translator.stream(held_out.sources, search=greedy)]
        translations = [each.text for each in found]
        sure = [each.log_prob / max(each.pieces, 1) for each in found]
        confidence = calibrate(sure, translations, held_out.references)
        length = sum(map(len, translations)) / max(1, sum(map(len, held_out.references)))
    return Validation(
        loss=mean_loss(translator.model, held_out.store, batch=batch),
        bleu=bleu(translations, held_out.references),
        chrf=chrf(translations, held_out.references),
        exact_match=exact_match(translations, held_out.references).value,
        ter=ter(translations, held_out.references) if with_ter else math.nan,
        translations=translations,
        confidence=confidence,
        length=length,
    )


def _limits(search: SearchConfig) -> dict[str, Any]:
    """How long translations may be, and how many are made at once."""
    keys = ("maximum_ratio", "maximum_extra", "maximum", "source_limit", "batch_tokens")
    return {key: getattr(search, key) for key in keys}
