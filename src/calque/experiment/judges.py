"""The judge that validates translation models on held-out data, and definitions that other judges use."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from calque.data.batching import BatchConfig
from calque.data.store import Store
from calque.engine import Translator
from calque.engine.translation_folder import CONFIDENCE, confidence_bytes
from calque.evaluation.confidence import calibrate
from calque.evaluation.metrics import bleu, chrf, exact_match, ter
from calque.evaluation.perplexity import perplexity
from calque.objectives.cross_entropy import mean_loss
from calque.search.settings import SearchConfig, batch_positions
from calque.tasks.interfaces import Judgement, Metric, StoppedError

LOWER, HIGHER = Metric("lower"), Metric("higher")

TRANSLATION_METRICS: Mapping[str, Metric] = {
    "loss": LOWER,
    "perplexity": LOWER,
    "bleu": Metric("higher", chance=1.0),  # below this BLEU, only a few words match
    "chrf": HIGHER,
    "exact_match": Metric("higher", tie_breaker="chrf"),  # small validation sets have many ties
    "ter": LOWER,
}


class HeldOutPairs(NamedTuple):
    """Held-out pairs, as ids and as text."""

    store: Store
    sources: Sequence[str]
    references: Sequence[str]


class TranslationJudge:
    """Validates a translation model: measures the loss with teacher forcing, and the quality of greedy translations."""

    metrics = TRANSLATION_METRICS
    selects = "bleu"

    def __init__(
        self,
        translator: Translator,
        held_out: HeldOutPairs,
        *,
        batch: BatchConfig,
        metric: str,
        tie_breaker: str = "loss",
    ) -> None:
        self.translator = translator
        self.held_out = held_out
        self.batch = batch
        self.metric = metric  # that selects models
        self.measures_ter = "ter" in (metric, tie_breaker)  # TER is slow, so it is measured only for selection

    @property
    def reports(self) -> tuple[str, ...]:
        names = ("loss", "perplexity", "bleu", "chrf", "exact_match", "length")
        return (*names, "ter") if self.measures_ter else names

    @property
    def positions(self) -> int:
        return max(self.batch.budget, batch_positions(self.translator.search, device=self.translator.device))

    def __call__(self, model: nn.Module, *, parts: int, stop: Callable[[], bool]) -> Judgement:
        assert model is self.translator.model

        def poll() -> None:
            if stop():
                raise StoppedError

        references = self.held_out.references
        greedy = greedy_search(self.translator.search, device=self.translator.device, parts=parts)
        stream = self.translator.stream(self.held_out.sources, search=greedy, poll=poll)
        candidates = [translation.candidates[0] for translation in stream]
        translations = [candidate.text for candidate in candidates]
        per_piece = [candidate.log_prob / max(candidate.pieces, 1) for candidate in candidates]
        confidence = calibrate(per_piece, translations, references)
        batch = self.batch.model_copy(update={"tokens": max(2, self.batch.budget // parts)})
        loss = mean_loss(self.translator.model, self.held_out.store, batch=batch, poll=poll)
        values = {
            "loss": loss,
            "perplexity": perplexity(loss),
            "bleu": bleu(translations, references),
            "chrf": chrf(translations, references),
            "exact_match": exact_match(translations, references).value,
            "length": sum(map(len, translations)) / max(1, sum(map(len, references))),
        }
        if self.measures_ter:
            values["ter"] = ter(translations, references)
        artefacts = {} if confidence is None else {CONFIDENCE: confidence_bytes(confidence)}
        return Judgement(values, self._samples(translations), artefacts, self._summary(values))

    def _samples(self, translations: Sequence[str]) -> list[str]:
        rows = zip(self.held_out.sources, self.held_out.references, translations, strict=True)
        return [
            f"source       {source}\nreference    {reference}\ntranslation  {translation}\n"
            for source, reference, translation in rows
        ]

    def _summary(self, values: Mapping[str, float]) -> str:
        if self.metric == "exact_match":
            scores = f"exact {values['exact_match']:.1f} %, chrF {values['chrf']:.1f}"
            return f"validation loss {values['loss']:.3f}, {scores}"
        names = {"chrf": "chrF", "ter": "TER"}
        also = f", {names[self.metric]} {values[self.metric]:.1f}" if self.metric in names else ""
        scores = f"BLEU {values['bleu']:.1f}{also}, exact {values['exact_match']:.1f} %"
        return f"validation loss {values['loss']:.3f}, {scores}"


def greedy_search(search: SearchConfig, *, device: torch.device, parts: int) -> SearchConfig:
    """The settings of greedy search, with the length limits of `search` and its batch size divided by `parts`."""
    keys = ("maximum_ratio", "maximum_extra", "maximum", "source_limit")
    limits: dict[str, Any] = {key: getattr(search, key) for key in keys}
    positions = max(1, batch_positions(search, device=device) // parts)
    return SearchConfig(beam=1, length_penalty=0.0, batch_tokens=positions, **limits)
