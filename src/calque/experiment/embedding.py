"""Sentence-embedding experiments: builds the data preparation, task, model and validation that a config describes."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from calque.data.batching import BatchConfig, Order
from calque.data.pair_batch import pair_widths
from calque.data.pair_preparation import PairPreparation
from calque.data.prepare import Prepared
from calque.data.store import Store
from calque.engine import SentenceEncoder, save_sentence_encoder
from calque.evaluation.nearest import nearest
from calque.evaluation.retrieval import equal_texts, partner_ranks
from calque.experiment.assembly import (
    BaseAssembly,
    ChosenMetric,
    completed_card,
    refuse_uncomputable,
    refuse_warm_start,
)
from calque.experiment.judges import HIGHER, LOWER
from calque.experiment.settings import Experiment
from calque.models.model import Sizes
from calque.models.sentence_encoder import SentenceEncoderConfig, SentenceEncoderModel
from calque.models.transformer import TransformerConfig
from calque.objectives.contrastive import contrastive_losses
from calque.tasks.embedding import Embedding, EmbeddingConfig
from calque.tasks.interfaces import Judgement, Metric, StoppedError
from calque.tensors import weightless
from calque.text import GivenConfig, Tokenizers, load_tokenizers
from calque.training.auto_settings import Corpus, adam_rate
from calque.training.job import SaveModel
from calque.training.update import stream_seed

Array = NDArray[Any]

METRICS: Mapping[str, Metric] = {
    "loss": LOWER,
    "top1": HIGHER,
    "top5": HIGHER,
    "mrr": HIGHER,
    "top1_to_target": HIGHER,
    "top1_to_source": HIGHER,
}
TOGETHER = 128  # validation pairs that are compared with each other for the loss
SAMPLES = 100  # pairs with samples


class EmbeddingJudge:
    """Validates a sentence encoder by retrieval: for each held-out sentence, the other of its pair should be nearest.

    top1, top5 and mrr are means over both directions, in %. The loss is computed over groups of 128 consecutive pairs,
    so that it does not depend on the batch size.
    """

    metrics = METRICS
    reports = tuple(METRICS)
    selects = "top1"

    def __init__(
        self, encoder: SentenceEncoder, store: Store, *, texts: Sequence[tuple[str, ...]], batch: BatchConfig
    ) -> None:
        self.encoder = encoder
        self.store = store
        self.sources = [row[0] for row in texts]
        self.targets = [row[1] for row in texts]
        self.batch = batch

    @property
    def positions(self) -> int:
        return self.batch.budget

    def __call__(self, model: nn.Module, *, parts: int, stop: Callable[[], bool]) -> Judgement:
        assert model is self.encoder.model

        def raise_if_stopped() -> None:
            if stop():
                raise StoppedError

        batch = self.batch.model_copy(update={"tokens": max(2, self.batch.budget // parts)})
        source, target = self.encoder.embed_store(self.store, batch=batch, stop=raise_if_stopped)
        ranks = partner_ranks(source, target, sources=self.sources, targets=self.targets, poll=raise_if_stopped)
        scores = ranks.scores
        values = {
            "loss": self._loss(source, target),
            **scores.mean._asdict(),
            "top1_to_target": scores.to_target.top1,
            "top1_to_source": scores.to_source.top1,
        }
        summary = f"validation loss {values['loss']:.3f}, top-1 {values['top1']:.1f} %, top-5 {values['top5']:.1f} %"
        return Judgement(values, self._samples(source, target, ranks.to_target), summary=summary)

    def _loss(self, source: Array, target: Array) -> float:
        """The mean contrastive loss; the negatives of a pair are the pairs in its block of 128 with different texts."""
        task = self.encoder.task
        total = 0.0
        for start in range(0, len(source), TOGETHER):
            group = slice(start, start + TOGETHER)
            vectors = (torch.from_numpy(side[group]).double() for side in (source, target))
            excluded = torch.from_numpy(equal_texts(self.sources[group], self.targets[group]))
            total += float(
                contrastive_losses(*vectors, temperature=task.temperature, margin=task.margin, excluded=excluded).sum()
            )
        return total / max(1, len(source))

    def _samples(self, source: Array, target: Array, ranks: Array) -> list[str]:
        """The first sources, each with the nearest target and, if that is not its own target, its own target's rank."""
        found = nearest(source[:SAMPLES], target, top=1)
        samples = []
        for row, (index,) in enumerate(found.indices.tolist()):
            sample = f"source   {self.sources[row]}\nnearest  {self.targets[index]}\n"
            if ranks[row] > 1:
                sample += f"partner  {self.targets[row]} (rank {ranks[row]:,})\n"
            samples.append(sample)
        return samples


class EmbeddingAssembly(BaseAssembly):
    """Assembles the data, task, model and judge of an experiment with sentence vectors."""

    metrics = METRICS

    def __init__(self, experiment: Experiment) -> None:
        assert isinstance(experiment.task, EmbeddingConfig)
        assert isinstance(experiment.model, SentenceEncoderConfig)
        self.experiment = experiment
        self.config, self.model = experiment.task, experiment.model

    @property
    def preparation(self) -> PairPreparation:
        return PairPreparation.of(self.experiment.data, text=self.experiment.text)

    def refuse_unbuildable(self) -> None:
        text = self.experiment.text
        if isinstance(text, GivenConfig):
            sizes = _sizes(text.load())
        else:
            pieces = getattr(text, "vocabulary_size", None) or 1 << 24  # weightless models take no memory
            sizes = Sizes(pieces, pieces, joint=getattr(text, "joint", True))
        with weightless():
            model = SentenceEncoderModel(self.model, sizes=sizes)
        refuse_uncomputable(model, self.experiment.training)
        refuse_warm_start(self.experiment.training, models="sentence encoders")

    def build(self, prepared: Prepared) -> SentenceEncoderModel:
        torch.manual_seed(stream_seed(self.experiment.seed, "weights"))
        model = SentenceEncoderModel(self.model, sizes=_sizes(load_tokenizers(prepared.vocabularies)))
        return model.double() if self.experiment.training.precision == "float64" else model

    def task(self, prepared: Prepared) -> Embedding:
        return Embedding(self.config)

    def judge(self, model: nn.Module, prepared: Prepared, *, ranks: int) -> EmbeddingJudge:
        batch = self.validation_batch(ranks=ranks)
        return EmbeddingJudge(self._encoder(model, prepared), prepared.valid, texts=prepared.valid_text, batch=batch)

    def save_model(self, prepared: Prepared, *, parameters: int) -> SaveModel:
        card = self._card(prepared, parameters=parameters)

        def save(path: Path, model: nn.Module, judgement: Judgement) -> None:
            save_sentence_encoder(
                path,
                self._encoder(model, prepared),
                card=completed_card(card, judgement),
                artefacts=judgement.artefacts,
            )

        return save

    def corpus(self, prepared: Prepared) -> Corpus:
        store, encoder = prepared.train, self.model.encoder
        total = sum(axis.total() for axis in pair_widths(store))
        task = self.task(prepared)

        def order(config: BatchConfig) -> Order:
            return task.order(store, config=config, seed=self.experiment.seed)

        rate = adam_rate(transformer=isinstance(encoder, TransformerConfig), width=encoder.width)
        return Corpus(len(store), total, weight=len(store), order=order, rate=rate, unit=self.preparation.unit)

    def selects(self, prepared: Prepared) -> ChosenMetric:
        return ChosenMetric(EmbeddingJudge.selects)

    def describe(self, prepared: Prepared) -> list[str]:
        tokenizers = load_tokenizers(prepared.vocabularies)
        pieces = f"{len(tokenizers.source.vocabulary):,}"
        if not tokenizers.joint:
            pieces = f"{pieces} source and {len(tokenizers.target.vocabulary):,} target"
        shared = self.model.is_shared(joint=tokenizers.joint)
        return [f"text: {pieces} pieces; {'one encoder for both sides' if shared else 'an encoder for each side'}"]

    def _encoder(self, model: nn.Module, prepared: Prepared) -> SentenceEncoder:
        assert isinstance(model, SentenceEncoderModel)
        tokenizers = load_tokenizers(prepared.vocabularies)
        return SentenceEncoder(model, tokenizers, config=self.model, task=self.config)

    def _card(self, prepared: Prepared, *, parameters: int) -> str:
        return self.model_card(
            "A sentence encoder",
            f"encoder: {self.model.encoder.kind}, pooling: {self.model.pooling}; {parameters:,} parameters",
            self.trained_on(prepared, "pairs"),
            prepared=prepared,
            command="embed FOLDER --input FILE --output vectors.npy",
            method='embed("...")',
        )


def _sizes(tokenizers: Tokenizers) -> Sizes:
    return Sizes(len(tokenizers.source.vocabulary), len(tokenizers.target.vocabulary), tokenizers.joint)
