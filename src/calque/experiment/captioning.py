"""Captioning experiments: builds the data preparation, task, model and validation that a config describes."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from calque.data.batching import BatchConfig, Order
from calque.data.caption_batch import caption_widths
from calque.data.caption_preparation import CAPTION, CAPTION_LENGTHS, TEXT, CaptionPreparation
from calque.data.image_manifests import SEPARATOR
from calque.data.images import pillow
from calque.data.prepare import Prepared
from calque.data.store import Store
from calque.engine import Captioner, save_captioner
from calque.evaluation.captions import score_captions
from calque.evaluation.metrics import LONGEST_NGRAM, is_short_for_bleu, median_words
from calque.evaluation.perplexity import perplexity
from calque.experiment.assembly import (
    BaseAssembly,
    ChosenMetric,
    completed_card,
    refuse_uncomputable,
    refuse_warm_start,
)
from calque.experiment.judges import HIGHER, LOWER, greedy_search
from calque.experiment.settings import Experiment
from calque.models.captioner import CaptionerConfig, CaptionerModel
from calque.models.transformer import TransformerConfig
from calque.search.settings import batch_positions
from calque.tasks.captioning import Captioning, CaptioningConfig
from calque.tasks.interfaces import Judgement, Metric, StoppedError
from calque.tensors import weightless
from calque.text import Tokenizer, load_tokenizer
from calque.training.auto_settings import Corpus, adam_rate
from calque.training.job import SaveModel
from calque.training.update import stream_seed

METRICS: Mapping[str, Metric] = {
    "loss": LOWER,
    "perplexity": LOWER,
    "bleu": Metric("higher", chance=1.0),
    "chrf": HIGHER,
    "exact_match": Metric("higher", tie_breaker="chrf"),
}
LARGEST = 1 << 16  # assumed vocabulary size before it is learnt


class CaptioningJudge:
    """Validates a captioner: measures the loss with teacher forcing, and the quality of greedy captions."""

    metrics = METRICS
    reports = ("loss", "perplexity", "bleu", "chrf", "exact_match", "length")
    selects = "bleu"

    def __init__(
        self, captioner: Captioner, store: Store, *, texts: Sequence[tuple[str, ...]], batch: BatchConfig
    ) -> None:
        self.captioner = captioner
        self.store = store
        self.images = [row[0] for row in texts]
        self.references = [row[1].split(SEPARATOR) for row in texts]
        self.batch = batch

    @property
    def positions(self) -> int:
        return max(self.batch.budget, batch_positions(self.captioner.search, device=self.captioner.device))

    def __call__(self, model: nn.Module, *, parts: int, stop: Callable[[], bool]) -> Judgement:
        assert model is self.captioner.model

        def poll() -> None:
            if stop():
                raise StoppedError

        greedy = greedy_search(self.captioner.search, device=self.captioner.device, parts=parts)
        captions = [candidate.text for candidate in self.captioner.caption_store(self.store, search=greedy, poll=poll)]
        batch = self.batch.model_copy(update={"tokens": max(2, self.batch.budget // parts)})
        loss = self.captioner.store_loss(self.store, batch=batch, poll=poll)
        scores = score_captions(captions, self.references)
        lengths = sum(map(len, captions)), sum(len(group[0]) for group in self.references)
        values = {
            "loss": loss,
            "perplexity": perplexity(loss),
            "bleu": scores.bleu.value,
            "chrf": scores.chrf.value,
            "exact_match": scores.exact_match.value,
            "length": lengths[0] / max(1, lengths[1]),
        }
        summary = f"validation loss {loss:.3f}, BLEU {values['bleu']:.1f}, exact {values['exact_match']:.1f} %"
        return Judgement(values, self._samples(captions), {}, summary)

    def _samples(self, captions: Sequence[str]) -> list[str]:
        rows = zip(self.images, self.references, captions, strict=True)
        return [
            f"image      {image}\n" + "".join(f"reference  {text}\n" for text in references) + f"caption    {caption}\n"
            for image, references, caption in rows
        ]


class CaptioningAssembly(BaseAssembly):
    """Assembles the data, task, model and judge of a captioning experiment."""

    metrics = METRICS

    def __init__(self, experiment: Experiment) -> None:
        assert isinstance(experiment.task, CaptioningConfig)
        assert isinstance(experiment.model, CaptionerConfig)
        self.experiment = experiment
        self.config, self.model = experiment.task, experiment.model

    @property
    def preparation(self) -> CaptionPreparation:
        return CaptionPreparation(self.experiment.text, self.config.size, self.experiment.data.maximum_length)

    def refuse_unbuildable(self) -> None:
        pillow()
        with weightless():
            model = CaptionerModel(self.model, vocabulary_size=LARGEST)
        refuse_uncomputable(model, self.experiment.training)
        refuse_warm_start(self.experiment.training, models="captioners")

    def build(self, prepared: Prepared) -> CaptionerModel:
        torch.manual_seed(stream_seed(self.experiment.seed, "weights"))
        model = CaptionerModel(self.model, vocabulary_size=len(self._tokenizer(prepared).vocabulary))
        return model.double() if self.experiment.training.precision == "float64" else model

    def task(self, prepared: Prepared) -> Captioning:
        positions = self.model.positions(self.config.size)
        return Captioning(self.config, positions=positions, smoothing=self.experiment.training.label_smoothing)

    def judge(self, model: nn.Module, prepared: Prepared, *, ranks: int) -> CaptioningJudge:
        batch = self.validation_batch(ranks=ranks)
        return CaptioningJudge(self._captioner(model, prepared), prepared.valid, texts=prepared.valid_text, batch=batch)

    def save_model(self, prepared: Prepared, *, parameters: int) -> SaveModel:
        card = self._card(prepared, parameters=parameters)

        def save(path: Path, model: nn.Module, judgement: Judgement) -> None:
            captioner = self._captioner(model, prepared)
            save_captioner(path, captioner, card=completed_card(card, judgement), artefacts=judgement.artefacts)

        return save

    def corpus(self, prepared: Prepared) -> Corpus:
        store, decoder, task = prepared.train, self.model.decoder, self.task(prepared)
        positions = sum(axis.total() for axis in caption_widths(store, positions=task.positions))

        def order(config: BatchConfig) -> Order:
            return task.order(store, config=config, seed=self.experiment.seed)

        rate = adam_rate(transformer=isinstance(decoder, TransformerConfig), width=decoder.width)
        weight = store.widths(CAPTION, marks=1).total()
        return Corpus(len(store), positions, weight=weight, order=order, rate=rate, unit=self.preparation.unit)

    def selects(self, prepared: Prepared) -> ChosenMetric:
        """BLEU, or exact match if most captions are too short for a 4-gram, which makes BLEU noisy."""
        words = median_words([row[1].split(SEPARATOR)[0] for row in prepared.valid_text])
        if not is_short_for_bleu(words):
            return ChosenMetric(CaptioningJudge.selects)
        return ChosenMetric("exact_match", f"the median caption has {words:g} words, and BLEU needs {LONGEST_NGRAM}")

    def describe(self, prepared: Prepared) -> list[str]:
        size, side = self.config.size, self.model.side(self.config.size)
        captions = int(prepared.train[CAPTION_LENGTHS].lengths.sum())
        return [
            f"images: {size} × {size} pixels as {side} × {side} vectors",
            f"text: {captions:,} captions, {len(self._tokenizer(prepared).vocabulary):,} pieces",
        ]

    def _tokenizer(self, prepared: Prepared) -> Tokenizer:
        return load_tokenizer(prepared.vocabularies, column=TEXT)

    def _captioner(self, model: nn.Module, prepared: Prepared) -> Captioner:
        assert isinstance(model, CaptionerModel)
        return Captioner(
            model,
            self._tokenizer(prepared),
            config=self.model,
            task=self.config,
            search=self.experiment.search,
            longest=int(prepared.train[CAPTION_LENGTHS].values.max()),
        )

    def _card(self, prepared: Prepared, *, parameters: int) -> str:
        image, decoder = self.model.image, self.model.decoder
        return self.model_card(
            "A captioner",
            f"images of {self.config.size} × {self.config.size} pixels: {image.kind}, encoder: "
            f"{self.model.encoder.kind}, decoder: {decoder.kind}; {parameters:,} parameters",
            self.trained_on(prepared, "images"),
            prepared=prepared,
            command="caption FOLDER IMAGE",
            method='caption("IMAGE")',
        )
