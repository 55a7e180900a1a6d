"""Recommendation experiments: builds the data preparation, task, model and validation that a config describes."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from calque import __version__
from calque.data.batching import BatchConfig, Order
from calque.data.prepare import Prepared
from calque.data.sequence_batch import history_widths
from calque.data.sequence_preparation import SequencePreparation
from calque.data.store import Store
from calque.engine.recommender import Recommender
from calque.engine.recommender_folder import save_recommender
from calque.evaluation.ranking import METRICS as RANKING_METRICS
from calque.evaluation.ranking import ranking_scores
from calque.experiment.assembly import (
    BaseAssembly,
    ChosenMetric,
    Estimator,
    Watch,
    completed_card,
    refuse_uncomputable,
    refuse_warm_start,
)
from calque.experiment.judges import HIGHER, LOWER
from calque.experiment.settings import Experiment
from calque.models.recommender import RecommenderConfig, RecommenderModel
from calque.models.time_aware import TimeAwareConfig
from calque.models.transformer import TransformerConfig
from calque.tasks.interfaces import Judgement, Metric, StoppedError
from calque.tasks.recommendation import Recommendation, RecommendationConfig
from calque.tensors import weightless
from calque.text.catalogue import FIRST_ITEM, Catalogue
from calque.training.auto_settings import Corpus, adam_rate
from calque.training.job import SaveModel
from calque.training.update import stream_seed

METRICS: Mapping[str, Metric] = {"loss": LOWER, **dict.fromkeys(RANKING_METRICS, HIGHER)}
SELECTS = "ndcg@10"
SAMPLES = 8  # users whose recommendations are shown
LARGEST = 1 << 16  # assumed number of items before the catalogue is known


class RecommendationJudge:
    """Ranks the held-out item of every user in the whole catalogue; measures HR, NDCG and MRR, between 0 and 1."""

    metrics = METRICS
    reports = tuple(METRICS)
    selects = SELECTS

    def __init__(
        self, recommender: Recommender, store: Store, *, texts: Sequence[tuple[str, ...]], batch: BatchConfig
    ) -> None:
        self.recommender = recommender
        self.store = store
        self.texts = texts
        self.batch = batch

    @property
    def positions(self) -> int:
        return self.batch.budget

    def __call__(self, model: nn.Module, *, parts: int, stop: Callable[[], bool]) -> Judgement:
        assert model is self.recommender.model

        def raise_if_stopped() -> None:
            if stop():
                raise StoppedError

        ranked = self.recommender.rank_store(self.store, parts=parts, stop=raise_if_stopped)
        values = {"loss": ranked.per_target, **ranking_scores(ranked.ranks)}
        seen = "seen items excluded" if self.recommender.task.exclude_seen else "seen items included"
        scores = f"HR@10 {values['hr@10']:.4f}, NDCG@10 {values['ndcg@10']:.4f} ({seen})"
        summary = f"validation loss {values['loss']:.3f}, {scores}"
        return Judgement(values, self._samples(ranked.ranks), summary=summary)

    def _samples(self, ranks: Sequence[int]) -> list[str]:
        """Lines with the first users, and the rank of each one's held-out item."""
        return [
            f"{texts[0]}: rank {rank or 'none'} of the held-out item\n"
            for texts, rank in list(zip(self.texts, ranks, strict=True))[:SAMPLES]
        ]


class RecommendationAssembly(BaseAssembly):
    """Assembles the data, task, model and judge of a recommendation experiment."""

    metrics = METRICS

    def __init__(self, experiment: Experiment) -> None:
        assert isinstance(experiment.task, RecommendationConfig)
        assert isinstance(experiment.model, RecommenderConfig)
        self.experiment = experiment
        self.config, self.model = experiment.task, experiment.model

    @property
    def preparation(self) -> SequencePreparation:
        return SequencePreparation(
            self.config.minimum_count,
            times=self.model.reads_times,
            behaviours=self.model.reads_behaviours,
            splits_rows=not self.experiment.data.valid,
        )

    def refuse_unbuildable(self) -> None:
        with weightless():
            model = RecommenderModel(self.model, vocabulary_size=LARGEST, behaviours=LARGEST)
        refuse_uncomputable(model, self.experiment.training)
        refuse_warm_start(self.experiment.training, models="recommenders")

    def build(self, prepared: Prepared) -> RecommenderModel:
        catalogue = self._catalogue(prepared)
        sizes = catalogue.sizes()
        torch.manual_seed(stream_seed(self.experiment.seed, "weights"))
        model = RecommenderModel(self.model, vocabulary_size=sizes["items"], behaviours=sizes.get("behaviours", 0))
        if self.experiment.training.precision == "float64":
            model = model.double()
        model.learn_counts(torch.tensor(catalogue.counts))
        return model

    def estimator(self) -> Estimator | None:
        """For a popularity model, the function that takes its counts from the catalogue; otherwise None."""
        return self._counted if self.model.is_estimated else None

    def _counted(self, prepared: Prepared, watch: Watch) -> RecommenderModel:
        watch.check_stop()
        return self.build(prepared)

    def task(self, prepared: Prepared) -> Recommendation:
        return Recommendation(self.config, model=self.model, smoothing=self.experiment.training.label_smoothing)

    def judge(self, model: nn.Module, prepared: Prepared, *, ranks: int) -> RecommendationJudge:
        batch = self.validation_batch(ranks=ranks)
        return RecommendationJudge(
            self._recommender(model, prepared), prepared.valid, texts=prepared.valid_text, batch=batch
        )

    def save_model(self, prepared: Prepared, *, parameters: int) -> SaveModel:
        card = self._card(prepared, parameters=parameters)

        def save(path: Path, model: nn.Module, judgement: Judgement) -> None:
            save_recommender(
                path,
                self._recommender(model, prepared),
                card=completed_card(card, judgement),
                artefacts=judgement.artefacts,
            )

        return save

    def corpus(self, prepared: Prepared) -> Corpus:
        store, network = prepared.train, self.model.network
        total = history_widths(store, history=self.config.history).total()
        task = self.task(prepared)

        def order(config: BatchConfig) -> Order:
            return task.order(store, config=config, seed=self.experiment.seed)

        attends = isinstance(network, TransformerConfig | TimeAwareConfig)
        rate = adam_rate(transformer=attends, width=getattr(network, "width", 64))
        return Corpus(len(store), total, weight=total, order=order, rate=rate, unit=self.preparation.unit)

    def selects(self, prepared: Prepared) -> ChosenMetric:
        return ChosenMetric(SELECTS)

    def describe(self, prepared: Prepared) -> list[str]:
        catalogue = self._catalogue(prepared)
        items, total = len(catalogue.items) - FIRST_ITEM, sum(catalogue.counts)
        split = "leave-one-out" if self.preparation.splits_rows else "validation files"
        lines = [f"items: {items:,} in the catalogue, read {total:,} times in training; split: {split}"]
        if never := sum(count == 0 for count in catalogue.counts[FIRST_ITEM:]):
            lines.append(f"warning: {never:,} items of the catalogue occur only as held-out items, never in training")
        return lines

    def _catalogue(self, prepared: Prepared) -> Catalogue:
        return Catalogue.load(prepared.vocabularies)

    def _recommender(self, model: nn.Module, prepared: Prepared) -> Recommender:
        assert isinstance(model, RecommenderModel)
        return Recommender(model, self._catalogue(prepared), config=self.model, task=self.config)

    def _card(self, prepared: Prepared, *, parameters: int) -> str:
        return self.model_card(
            "A recommender",
            f"network: {self.model.network.kind}, output: {self.model.output.kind}; {parameters:,} parameters",
            f"trained on the histories of {len(prepared.train):,} users with Calque {__version__}, "
            f"seed {self.experiment.seed}",
            prepared=prepared,
            command="recommend FOLDER --input FILE",
            method='recommend(["..."])',
        )
