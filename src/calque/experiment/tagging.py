"""Tagging experiments: builds the data preparation, task, model and validation that a config describes."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from calque import __version__
from calque.data.batching import BatchConfig, Order
from calque.data.corpora import ColumnFileConfig
from calque.data.prepare import Prepared
from calque.data.store import Store
from calque.data.tagging_preparation import WORD_LENGTHS, TaggingPreparation
from calque.engine import Tagger, save_tagger
from calque.engine.hidden_markov_models import estimate_tagger
from calque.engine.tagger import tagger_sizes
from calque.engine.tagger_folder import CONFUSION
from calque.errors import ConfigError
from calque.evaluation.confusion import count_confusions, draw_confusion, token_accuracy
from calque.evaluation.spans import score_spans
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
from calque.models.hidden_markov import HiddenMarkovConfig, HiddenMarkovTagger
from calque.models.tagger import TaggerConfig, TaggerModel, TaggerSizes
from calque.models.transformer import TransformerConfig
from calque.parsing import parse_json
from calque.statistics.tag_tables import TaggedWords
from calque.tasks.interfaces import Judgement, Metric, StoppedError
from calque.tasks.tagging import Tagging, TaggingConfig
from calque.tensors import weightless
from calque.text import FormsConfig, TaggerVocabularies
from calque.text.forms import CHARACTERS, LABELS, WORDS
from calque.text.span_labels import has_spans
from calque.training.auto_settings import Corpus, adam_rate
from calque.training.job import SaveModel
from calque.training.update import stream_seed

METRICS: Mapping[str, Metric] = {
    "loss": LOWER,
    "accuracy": HIGHER,
    "precision": HIGHER,
    "recall": HIGHER,
    "f1": HIGHER,
}
SPANS = ("precision", "recall", "f1")
LARGEST = 1 << 16  # assumed number of ids of a column before its vocabulary is learnt


class TaggingJudge:
    """Evaluates the labels of held-out sentences: accuracy per word, and precision, recall and F1 of spans, in %."""

    def __init__(
        self, tagger: Tagger, store: Store, *, texts: Sequence[tuple[str, ...]], batch: BatchConfig, spans: bool
    ) -> None:
        self.tagger = tagger
        self.store = store
        self.words = [row[0].split("\t") for row in texts]
        self.gold = [row[1].split("\t") for row in texts]
        self.batch = batch
        self.spans = spans  # whether the labels describe spans

    @property
    def metrics(self) -> Mapping[str, Metric]:
        return {name: METRICS[name] for name in self.reports}

    @property
    def reports(self) -> tuple[str, ...]:
        return ("loss", "accuracy", *(SPANS if self.spans else ()))

    @property
    def selects(self) -> str:
        return "f1" if self.spans else "accuracy"

    @property
    def positions(self) -> int:
        return self.batch.budget

    def __call__(self, model: nn.Module, *, parts: int, stop: Callable[[], bool]) -> Judgement:
        assert model is self.tagger.model

        def raise_if_stopped() -> None:
            if stop():
                raise StoppedError

        batch = self.batch.model_copy(update={"tokens": max(2, self.batch.budget // parts)})
        predicted = self.tagger.label_store(self.store, batch=batch, stop=raise_if_stopped)
        confusions = count_confusions(predicted.labels, gold=self.gold)
        values = {"loss": predicted.per_word, "accuracy": 100 * token_accuracy(confusions)}
        summary = f"validation loss {values['loss']:.3f}, accuracy {values['accuracy']:.2f} %"
        if self.spans:
            micro = score_spans(predicted.labels, gold=self.gold).micro
            values |= {name: 100 * getattr(micro, name) for name in SPANS}
            summary += f", F1 {values['f1']:.2f}"
        counts = [[gold, label, count] for (gold, label), count in sorted(confusions.items())]
        artefacts = {CONFUSION: json.dumps(counts).encode()}
        return Judgement(values, self._samples(predicted.labels), artefacts, summary)

    def _samples(self, predicted: Sequence[Sequence[str]]) -> list[str]:
        """Sentences with their predicted labels; a wrong label is followed by the gold label in brackets."""
        samples = []
        for words, gold, labels in zip(self.words, self.gold, predicted, strict=True):
            tagged_words = (
                f"{word}/{label}" + ("" if label == gold_label else f"[{gold_label}]")
                for word, gold_label, label in zip(words, gold, labels, strict=True)
            )
            samples.append(" ".join(tagged_words) + "\n")
        return samples


class TaggingAssembly(BaseAssembly):
    """Assembles the data, task, model and judge of a tagging experiment."""

    metrics = METRICS

    def __init__(self, experiment: Experiment) -> None:
        assert isinstance(experiment.task, TaggingConfig)
        assert isinstance(experiment.model, TaggerConfig | HiddenMarkovConfig)
        assert isinstance(experiment.text, FormsConfig)
        self.experiment = experiment
        self.config, self.model, self.text = experiment.task, experiment.model, experiment.text

    @property
    def reads_characters(self) -> bool:
        return isinstance(self.model, HiddenMarkovConfig) or self.model.characters.kind != "none"

    @property
    def preparation(self) -> TaggingPreparation:
        return TaggingPreparation(
            self.text,
            words=self.config.words,
            labels=self.config.labels,
            inputs=self.config.inputs,
            characters=self.reads_characters,
            maximum_length=self.experiment.data.maximum_length,
        )

    def refuse_unbuildable(self) -> None:
        refuse_warm_start(self.experiment.training, models="taggers")
        if isinstance(self.model, HiddenMarkovConfig):
            return  # its size is known when its tables are counted
        sizes = TaggerSizes(LARGEST, LARGEST, LARGEST, dict.fromkeys(self.config.inputs, LARGEST))
        with weightless():
            model = TaggerModel(self.model, sizes=sizes)
        refuse_uncomputable(model, self.experiment.training)

    def build(self, prepared: Prepared) -> TaggerModel:
        assert isinstance(self.model, TaggerConfig)
        torch.manual_seed(stream_seed(self.experiment.seed, "weights"))
        model = TaggerModel(self.model, sizes=tagger_sizes(self._vocabularies(prepared), inputs=self.config.inputs))
        return model.double() if self.experiment.training.precision == "float64" else model

    def estimator(self) -> Estimator | None:
        return self._estimate if isinstance(self.model, HiddenMarkovConfig) else None

    def _estimate(self, prepared: Prepared, watch: Watch) -> HiddenMarkovTagger:
        """Estimates a hidden Markov tagger from the counts of the training data."""
        assert isinstance(self.model, HiddenMarkovConfig)
        vocabularies, store = self._vocabularies(prepared), prepared.train
        assert vocabularies.characters is not None
        corpus = TaggedWords.of(
            store[WORDS], store[LABELS], characters=store[CHARACTERS], word_lengths=store[WORD_LENGTHS]
        )
        watch.check_stop()
        sizes = tagger_sizes(vocabularies, inputs=())
        model, tables = estimate_tagger(corpus, config=self.model, sizes=sizes, characters=vocabularies.characters)
        names = ("unigrams", "bigrams", "trigrams")
        weights = ", ".join(f"{weight:.3f} for {name}" for weight, name in zip(tables.weights, names, strict=False))
        watch.say(f"interpolation weights of label n-grams: {weights}")
        watch.say(
            f"unknown words are tagged by suffix: {len(tables.suffixes.keys):,} suffixes, of words that occur at most "
            f"{self.model.rare} times"
        )
        return model.double() if self.experiment.training.precision == "float64" else model

    def task(self, prepared: Prepared) -> Tagging:
        smoothing = self.experiment.training.label_smoothing
        return Tagging(self.config, characters=self.reads_characters, smoothing=smoothing)

    def judge(self, model: nn.Module, prepared: Prepared, *, ranks: int) -> TaggingJudge:
        self._refuse_missing_spans(prepared)
        batch = self.validation_batch(ranks=ranks)
        return TaggingJudge(
            self._tagger(model, prepared),
            prepared.valid,
            texts=prepared.valid_text,
            batch=batch,
            spans=self._scores_spans(prepared),
        )

    def save_model(self, prepared: Prepared, *, parameters: int) -> SaveModel:
        card = self._card(prepared, parameters=parameters)

        def save(path: Path, model: nn.Module, judgement: Judgement) -> None:
            save_tagger(
                path, self._tagger(model, prepared), card=completed_card(card, judgement), artefacts=judgement.artefacts
            )

        return save

    def corpus(self, prepared: Prepared) -> Corpus:
        assert isinstance(self.model, TaggerConfig)
        store, encoder = prepared.train, self.model.encoder
        total = store.widths(WORDS).total()
        task = self.task(prepared)

        def order(config: BatchConfig) -> Order:
            return task.order(store, config=config, seed=self.experiment.seed)

        rate = adam_rate(transformer=isinstance(encoder, TransformerConfig), width=encoder.width)
        return Corpus(len(store), total, weight=total, order=order, rate=rate, unit=self.preparation.unit)

    def selects(self, prepared: Prepared) -> ChosenMetric:
        return ChosenMetric("f1" if self._scores_spans(prepared) else "accuracy")

    def describe(self, prepared: Prepared) -> list[str]:
        vocabularies = self._vocabularies(prepared)
        names = {"words": "distinct words"}
        sizes = ", ".join(f"{size:,} {names.get(name, name)}" for name, size in vocabularies.sizes().items())
        read = " and ".join((self.config.words, *self.config.inputs))
        lines = [
            f"text: {prepared.train.widths(WORDS).total():,} words to train on; {sizes}",
            f"labels: predicts {self.config.labels} from {read}",
        ]
        unseen = Counter(label for row in prepared.valid_text for label in row[1].split("\t"))
        for label in vocabularies.predicted_labels:
            del unseen[label]
        if unseen:
            listed = ", ".join(f"{label} ({count:,})" for label, count in unseen.most_common(10))
            lines.append(f"warning: these labels of the validation data do not occur in training: {listed}")
        return lines

    def draw(self, run: Path) -> None:
        """Draws RUN/plots/confusion.png for the run's model."""
        path = run / "model" / CONFUSION
        if path.is_file():
            counts = {(gold, label): count for gold, label, count in parse_json(path.read_bytes())}
            (run / "plots").mkdir(exist_ok=True)
            draw_confusion(run / "plots" / "confusion.png", counts)

    def _scores_spans(self, prepared: Prepared) -> bool:
        match self.config.score:
            case "auto":
                return has_spans(self._vocabularies(prepared).labels)
            case "spans":
                return True
            case "accuracy":
                return False

    def _refuse_missing_spans(self, prepared: Prepared) -> None:
        """Raises a ConfigError if a setting needs spans but the labels do not describe any."""
        key = "task.score" if self.config.score == "spans" else "training.metric"
        needs_spans = self.config.score == "spans" or self.experiment.training.metric in SPANS
        labels = self._vocabularies(prepared).predicted_labels
        if needs_spans and not has_spans(labels):
            raise ConfigError(
                f"{key} needs labels that describe spans, such as B-NP, I-NP and O, but the column "
                f"{self.config.labels!r} contains {', '.join(labels[:8])}"
            )

    def _vocabularies(self, prepared: Prepared) -> TaggerVocabularies:
        return TaggerVocabularies.load(prepared.vocabularies, config=self.text)

    def _tagger(self, model: nn.Module, prepared: Prepared) -> Tagger:
        assert isinstance(model, TaggerModel | HiddenMarkovTagger)
        corpora = self.experiment.data.train
        columns = next((corpus.columns for corpus in corpora if isinstance(corpus, ColumnFileConfig)), ())
        return Tagger(model, self._vocabularies(prepared), config=self.model, task=self.config, columns=columns)

    def _card(self, prepared: Prepared, *, parameters: int) -> str:
        match self.model:
            case HiddenMarkovConfig(order=order):
                made = (
                    f"hidden Markov model of {('labels by themselves', 'label bigrams', 'label trigrams')[order - 1]}"
                )
                parts, verb = f"{made}; {parameters:,} values in its tables", "estimated"
            case TaggerConfig(encoder=encoder, characters=characters, head=head):
                spelled = f", characters: {characters.kind}" if self.reads_characters else ""
                parts, verb = f"encoder: {encoder.kind}{spelled}, head: {head}; {parameters:,} parameters", "trained"
        return self.model_card(
            "A tagger",
            f"predicts {self.config.labels}; {parts}",
            f"{verb} on {len(prepared.train):,} sentences with Calque {__version__}, seed {self.experiment.seed}",
            prepared=prepared,
            command="tag FOLDER --input FILE",
            method='tag("...")',
        )
