"""Language-modelling experiments: builds the data preparation, task, model and validation that a config describes."""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import nn

from calque.data.batching import BatchConfig, Order
from calque.data.prepare import Prepared
from calque.data.store import Store, id_counts
from calque.data.text_batch import COLUMN
from calque.data.text_preparation import TextPreparation
from calque.engine import TextGenerator, save_language_model
from calque.engine.ngram_models import ngram_model
from calque.evaluation.perplexity import perplexity
from calque.experiment.assembly import (
    BaseAssembly,
    ChosenMetric,
    Estimator,
    Watch,
    completed_card,
    refuse_uncomputable,
    refuse_warm_start,
)
from calque.experiment.judges import LOWER
from calque.experiment.settings import Experiment
from calque.models.language_model import LanguageModel, LanguageModelConfig, TransformerLanguageConfig
from calque.models.ngram import NgramLanguageConfig
from calque.objectives.language_model import lines_loss, running_loss
from calque.search.settings import SearchConfig
from calque.statistics.kneser_ney import kneser_ney
from calque.statistics.ngram_counts import count_ngrams, lines_of, running_text
from calque.tasks.interfaces import Judgement, Metric, StoppedError
from calque.tasks.language_modelling import LanguageModelling, LanguageModellingConfig
from calque.tensors import weightless
from calque.text import BOS, EOS, PAD, UNK, load_tokenizer
from calque.training.auto_settings import Corpus, adam_rate
from calque.training.job import SaveModel
from calque.training.update import stream_seed

STREAMS = 10  # parts of running text that are validated in parallel
STEPS = 512  # tokens of each part that a recurrent network reads at a time
SAMPLE = 40  # pieces per sample

METRICS: Mapping[str, Metric] = {"loss": LOWER, "perplexity": LOWER, "word_perplexity": LOWER}


class LanguageModelJudge:
    """Measures the loss of held-out text, per token and per word, and generates samples."""

    metrics = METRICS
    reports = ("loss", "perplexity", "word_perplexity")
    selects = "perplexity"

    def __init__(self, generator: TextGenerator, store: Store, *, words: int, batch: BatchConfig) -> None:
        self.generator = generator
        self.store = store
        self.words = words  # of the text, including ends of lines
        self.batch = batch

    @property
    def positions(self) -> int:
        return self.batch.budget

    def __call__(self, model: nn.Module, *, parts: int, stop: Callable[[], bool]) -> Judgement:
        assert model is self.generator.model

        def check_stop() -> None:
            if stop():
                raise StoppedError

        task = self.generator.task
        tokens = max(2, self.batch.budget // parts)
        if task.reading == "lines":
            batch = self.batch.model_copy(update={"tokens": tokens})
            loss = lines_loss(self.generator.model, self.store, batch=batch, stop=check_stop)
        else:
            carries = self.generator.model.carries  # the loss then depends on where the text is cut: keep all rows
            loss = running_loss(
                self.generator.model,
                self.store[COLUMN].values,
                rows=STREAMS if carries else max(1, STREAMS // parts),
                steps=max(1, STEPS // parts),
                context=task.context,
                stride=task.stride,
                stop=check_stop,
            )
        values = {
            "loss": loss.per_token,
            "perplexity": perplexity(loss.per_token),
            "word_perplexity": perplexity(loss.nats, count=self.words),
        }
        summary = f"validation loss {values['loss']:.3f}, perplexity {values['perplexity']:.2f}"
        if values["word_perplexity"] != values["perplexity"]:
            summary += f" (per word {values['word_perplexity']:.2f})"
        return Judgement(values, self._samples(), summary=summary)

    def _samples(self) -> list[str]:
        search = SearchConfig(method="sample")
        candidates = self.generator.candidates([""], maximum=SAMPLE, search=search, nbest=4)[0]
        return [f"{candidate.text}\n" for candidate in candidates]


class LanguageModellingAssembly(BaseAssembly):
    """Assembles the data, task, model and judge of a language-modelling experiment."""

    metrics = METRICS

    def __init__(self, experiment: Experiment) -> None:
        assert isinstance(experiment.task, LanguageModellingConfig)
        assert isinstance(experiment.model, LanguageModelConfig)
        self.experiment = experiment
        self.config, self.model = experiment.task, experiment.model

    @property
    def preparation(self) -> TextPreparation:
        running = self.config.reading == "running"
        return TextPreparation(self.experiment.text, self.experiment.data.maximum_length, running)

    def refuse_unbuildable(self) -> None:
        size = getattr(self.experiment.text, "vocabulary_size", None) or 1 << 24
        with weightless():
            model = LanguageModel(self.model, vocabulary_size=size)
        refuse_uncomputable(model, self.experiment.training)
        refuse_warm_start(self.experiment.training, models="language models")

    def build(self, prepared: Prepared) -> LanguageModel:
        size = len(load_tokenizer(prepared.vocabularies, column=COLUMN).vocabulary)
        torch.manual_seed(stream_seed(self.experiment.seed, "weights"))
        model = LanguageModel(self.model, vocabulary_size=size)
        if self.experiment.training.precision == "float64":
            model = model.double()
        if self.model.output.kind != "full":
            end = None if self.config.reading == "running" else EOS
            counts = id_counts(prepared.train, column=COLUMN, size=size, end=end, unknown=UNK)
            model.output.learn_frequencies(torch.from_numpy(counts))
        return model

    def estimator(self) -> Estimator | None:
        return self._estimate if isinstance(self.model.network, NgramLanguageConfig) else None

    def _estimate(self, prepared: Prepared, watch: Watch) -> LanguageModel:
        """Estimates an n-gram model with modified Kneser-Ney smoothing."""
        network = self.model.network
        assert isinstance(network, NgramLanguageConfig)
        column = prepared.train[COLUMN]
        size = len(load_tokenizer(prepared.vocabularies, column=COLUMN).vocabulary)
        is_running = self.config.reading == "running"
        text = running_text(column.values, end=EOS) if is_running else lines_of(column, begin=BOS, end=EOS)

        def progress(label: str) -> None:
            watch.check_stop()
            watch.say(label)

        counts = count_ngrams(text, order=network.order, vocabulary_size=size, progress=progress)
        estimate = kneser_ney(counts, never=(PAD, BOS), prune=network.prune)
        for length, (number, discounts) in enumerate(
            zip(estimate.tables.sizes, estimate.discounts, strict=True), start=1
        ):
            listed = ", ".join(f"{discount:.3f}" for discount in discounts)
            watch.say(f"{number:,} {length}-grams; discounts {listed}")
        for remark in estimate.remarks:
            watch.say(f"warning: {remark}")
        model = ngram_model(estimate.tables, config=self.model)
        return model.double() if self.experiment.training.precision == "float64" else model

    def task(self, prepared: Prepared) -> LanguageModelling:
        return LanguageModelling(self.config, smoothing=self.experiment.training.label_smoothing)

    def judge(self, model: nn.Module, prepared: Prepared, *, ranks: int) -> LanguageModelJudge:
        batch = self.validation_batch(ranks=ranks)
        words = sum(len(text.split()) + 1 for (text,) in prepared.valid_text)
        return LanguageModelJudge(self._generator(model, prepared), prepared.valid, words=words, batch=batch)

    def save_model(self, prepared: Prepared, *, parameters: int) -> SaveModel:
        card = self._card(prepared, parameters=parameters)

        def save(path: Path, model: nn.Module, judgement: Judgement) -> None:
            save_language_model(
                path,
                self._generator(model, prepared),
                card=completed_card(card, judgement),
                artefacts=judgement.artefacts,
            )

        return save

    def corpus(self, prepared: Prepared) -> Corpus:
        store, network = prepared.train, self.model.network
        assert not isinstance(network, NgramLanguageConfig)
        running = self.config.reading == "running"
        total = store.widths(COLUMN, marks=0 if running else 1).total()
        task = self.task(prepared)

        def order(config: BatchConfig) -> Order:
            return task.order(store, config=config, seed=self.experiment.seed)

        rate = adam_rate(transformer=isinstance(network, TransformerLanguageConfig), width=network.width)
        return Corpus(len(store), total, weight=total, order=order, rate=rate, unit=self.preparation.unit)

    def selects(self, prepared: Prepared) -> ChosenMetric:
        return ChosenMetric(LanguageModelJudge.selects)

    def describe(self, prepared: Prepared) -> list[str]:
        size = len(load_tokenizer(prepared.vocabularies, column=COLUMN).vocabulary)
        tokens = prepared.train.widths(COLUMN).total()
        return [f"text: {size:,} pieces, {tokens:,} tokens to train on"]

    def _generator(self, model: nn.Module, prepared: Prepared) -> TextGenerator:
        assert isinstance(model, LanguageModel)
        tokenizer = load_tokenizer(prepared.vocabularies, column=COLUMN)
        return TextGenerator(model, tokenizer, config=self.model, task=self.config, search=self.experiment.search)

    def _card(self, prepared: Prepared, *, parameters: int) -> str:
        return self.model_card(
            "A language model",
            f"network: {self.model.network.kind}; {parameters:,} parameters",
            self.trained_on(prepared, "lines"),
            prepared=prepared,
            command="score FOLDER --target FILE`, `calque generate FOLDER",
            method='score(["..."])',
        )
