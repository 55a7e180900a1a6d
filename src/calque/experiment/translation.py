"""Translation experiments: builds the data preparation, task, model and validation that a config describes."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import torch
from torch import nn

from calque.config import flat, to_values
from calque.data.batching import BatchConfig, Bucketed
from calque.data.pair_batch import pair_widths
from calque.data.pair_preparation import PairPreparation
from calque.data.prepare import Prepared
from calque.data.store import id_counts
from calque.data.subword_regularisation import refuse_unfit_tokenizers
from calque.engine import Translator, save_model
from calque.engine.shortlist import SHORTLIST, read_shortlist
from calque.errors import FolderError
from calque.evaluation.metrics import LONGEST_NGRAM, is_short_for_bleu, median_words
from calque.experiment.assembly import BaseAssembly, ChosenMetric, completed_card, refuse_uncomputable
from calque.experiment.judges import TRANSLATION_METRICS, HeldOutPairs, TranslationJudge
from calque.experiment.settings import Experiment
from calque.experiment.warm_start import refuse_unfit_start, warm_start
from calque.models.model import Model, ModelConfig, Sizes
from calque.models.transformer import TransformerConfig
from calque.tasks.interfaces import Judgement, Metric
from calque.tasks.translation import Translation
from calque.tensors import weightless
from calque.text import EOS, UNK, GivenConfig, TextConfig, Tokenizers, load_tokenizers
from calque.text.length_profile import LengthProfile, target_limits
from calque.text.splitting import sentences_in
from calque.training.auto_settings import Corpus, adam_rate
from calque.training.job import SaveModel
from calque.training.update import stream_seed


class TranslationAssembly(BaseAssembly):
    """Assembles the data, task, model and judge of a translation experiment."""

    metrics: Mapping[str, Metric] = TRANSLATION_METRICS

    def __init__(self, experiment: Experiment) -> None:
        assert isinstance(experiment.model, ModelConfig)
        self.experiment = experiment
        self.model = experiment.model

    @property
    def preparation(self) -> PairPreparation:
        return PairPreparation.of(self.experiment.data, text=self.experiment.text)

    def refuse_unbuildable(self) -> None:
        experiment, training = self.experiment, self.experiment.training
        tokenizers = experiment.text.load() if isinstance(experiment.text, GivenConfig) else None
        with weightless():
            model = Model(self.model, sizes=_sizes(tokenizers) if tokenizers else _largest_sizes(experiment.text))
        refuse_uncomputable(model, training)
        if tokenizers is not None:
            refuse_unfit_tokenizers(training.subwords, tokenizers)
        if training.warm_start is not None:
            refuse_unfit_start(model, tokenizers, config=self.model, path=training.warm_start)

    def build(self, prepared: Prepared) -> Model:
        sizes = _sizes(load_tokenizers(prepared.vocabularies))
        torch.manual_seed(stream_seed(self.experiment.seed, "weights"))
        model = Model(self.model, sizes=sizes)
        if self.experiment.training.precision == "float64":
            model = model.double()
        if self.model.output.kind != "full":
            counts = id_counts(prepared.train, column="target", size=sizes.target, end=EOS, unknown=UNK)
            model.output.learn_frequencies(torch.from_numpy(counts))
        return model

    def warm_start(self, model: nn.Module, prepared: Prepared, *, path: Path) -> list[str]:
        assert isinstance(model, Model)
        return warm_start(model, load_tokenizers(prepared.vocabularies), config=self.model, path=path)

    def task(self, prepared: Prepared) -> Translation:
        training = self.experiment.training
        return Translation(
            training.objective,
            smoothing=training.label_smoothing,
            tokenizers=load_tokenizers(prepared.vocabularies),
            subwords=training.subwords,
        )

    def judge(self, model: nn.Module, prepared: Prepared, *, ranks: int) -> TranslationJudge:
        training, texts = self.experiment.training, prepared.valid_text
        held_out = HeldOutPairs(prepared.valid, [row[0] for row in texts], [row[1] for row in texts])
        batch = self.validation_batch(ranks=ranks)
        return TranslationJudge(
            self._translator(model, prepared),
            held_out,
            batch=batch,
            metric=training.metric,
            tie_breaker=training.tie_breaker,
        )

    def save_model(self, prepared: Prepared, *, parameters: int) -> SaveModel:
        profile = _length_profile(prepared, [row[0] for row in prepared.valid_text])
        card = self._card(prepared, parameters=parameters)

        def save(path: Path, model: nn.Module, judgement: Judgement) -> None:
            translator = self._translator(model, prepared)
            translator.length_profile = profile
            with suppress(FolderError):  # it follows from the training data, not from the weights
                translator.shortlist = read_shortlist(path / SHORTLIST, translator.tokenizers)
            save_model(path, translator, card=completed_card(card, judgement), artefacts=judgement.artefacts)

        return save

    def corpus(self, prepared: Prepared) -> Corpus:
        store, seed, decoder = prepared.train, self.experiment.seed, self.model.decoder
        widths = pair_widths(store)

        def order(config: BatchConfig) -> Bucketed:
            return Bucketed(widths, spans=store.spans, config=config, seed=seed)

        rate = adam_rate(transformer=isinstance(decoder, TransformerConfig), width=decoder.width)
        positions = sum(axis.total() for axis in widths)
        return Corpus(
            len(store), positions, weight=widths[1].total(), order=order, rate=rate, unit=self.preparation.unit
        )

    def selects(self, prepared: Prepared) -> ChosenMetric:
        """BLEU, or exact match if most validation targets are too short for a 4-gram, which makes BLEU noisy."""
        return bleu_or_exact_match([row[1] for row in prepared.valid_text])

    def describe(self, prepared: Prepared) -> list[str]:
        tokenizers = load_tokenizers(prepared.vocabularies)
        pieces = f"{len(tokenizers.source.vocabulary):,}"
        if not tokenizers.joint:
            pieces = f"{pieces} source and {len(tokenizers.target.vocabulary):,} target"
        return [f"text: {pieces} pieces"]

    def remarks(self) -> list[str]:
        if self.experiment.training.objective.method.kind == "r-drop" and not self._has_dropout():
            return [
                "r-drop has no effect: without dropout, both passes are the same, so it is cross-entropy at twice the "
                "cost"
            ]
        return []

    def _translator(self, model: nn.Module, prepared: Prepared) -> Translator:
        assert isinstance(model, Model)
        tokenizers = load_tokenizers(prepared.vocabularies)
        return Translator(model, tokenizers, config=self.model, search=self.experiment.search)

    def _has_dropout(self) -> bool:
        """Whether dropout or noise makes two training passes over the same sentence differ."""
        words = self.experiment.training.objective.word_dropout
        settings = flat(to_values(self.model))
        return any(
            [words.source, words.target, *(value for key, value in settings if key.endswith(("dropout", "noise")))]
        )

    def _card(self, prepared: Prepared, *, parameters: int) -> str:
        encoder, decoder = self.model.encoder, self.model.decoder
        return self.model_card(
            "A translation model",
            f"encoder: {encoder.kind}, decoder: {decoder.kind}; {parameters:,} parameters",
            self.trained_on(prepared, "pairs"),
            prepared=prepared,
            command="translate FOLDER --input FILE",
            method='translate("...")',
        )


def bleu_or_exact_match(references: Sequence[str]) -> ChosenMetric:
    """Chooses BLEU, or exact match if most references are too short for a 4-gram."""
    words = median_words(references)
    if not is_short_for_bleu(words):
        return ChosenMetric(TranslationJudge.selects)
    unit = "word" if words == 1 else "words"
    return ChosenMetric("exact_match", f"the median target has {words:g} {unit}, and BLEU needs {LONGEST_NGRAM}")


def _length_profile(prepared: Prepared, sources: Sequence[str]) -> LengthProfile:
    """The length profile of a model: usual lengths of source lines, and limits of target lengths.

    Source lines are measured in the held-out data, because training sources are stored only as ids, not as text.
    """
    return LengthProfile.of(
        pieces=prepared.valid["source"].lengths.tolist(),
        sentences=[sentences_in(text) for text in sources],
        targets=target_limits(prepared.train["source"].lengths, prepared.train["target"].lengths),
    )


def _sizes(tokenizers: Tokenizers) -> Sizes:
    return Sizes(len(tokenizers.source.vocabulary), len(tokenizers.target.vocabulary), tokenizers.joint)


def _largest_sizes(text: TextConfig) -> Sizes:
    """The vocabulary sizes that a text section sets; if none, 2²⁴, which is above usual cutoffs of adaptive softmax."""
    pieces = getattr(text, "vocabulary_size", None) or 1 << 24  # weightless models take no memory
    return Sizes(pieces, pieces, joint=getattr(text, "joint", True))
