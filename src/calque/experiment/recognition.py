"""Speech-recognition experiments: builds the data preparation, task, model and validation that a config describes."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from calque.data.batching import BatchConfig, Order
from calque.data.prepare import Prepared
from calque.data.recognition_preparation import AUDIO, TEXT, Fit, RecognitionPreparation
from calque.data.speech_batch import speech_widths
from calque.data.store import Store
from calque.engine.recogniser import Recogniser
from calque.engine.recogniser_folder import save_recogniser
from calque.evaluation.error_rates import Errors, all_character_errors, all_word_errors
from calque.experiment.assembly import (
    BaseAssembly,
    ChosenMetric,
    completed_card,
    refuse_uncomputable,
    refuse_warm_start,
)
from calque.experiment.judges import LOWER
from calque.experiment.settings import Experiment
from calque.models.recogniser import RecogniserConfig, RecogniserModel, RecogniserSizes
from calque.models.transformer import TransformerConfig
from calque.tasks.interfaces import Judgement, Metric, StoppedError
from calque.tasks.recognition import Recognition, RecognitionConfig, loss_parts
from calque.tensors import Padded, weightless
from calque.text import load_tokenizer
from calque.training.auto_settings import Corpus, adam_rate
from calque.training.job import SaveModel
from calque.training.update import stream_seed

METRICS: Mapping[str, Metric] = {"loss": LOWER, "wer": LOWER, "cer": LOWER}
LARGEST = 1 << 16  # assumed size of the vocabulary before it is learnt
MEASURED = 1000  # recordings that the statistics of features are computed from


class RecognitionJudge:
    """Measures the word and character error rates of greedy transcripts of held-out recordings, in %."""

    metrics = METRICS
    reports = ("loss", "wer", "cer")
    selects = "wer"

    def __init__(self, recogniser: Recogniser, store: Store, *, references: Sequence[str], batch: BatchConfig) -> None:
        self.recogniser = recogniser
        self.store = store
        self.references = references
        self.batch = batch

    @property
    def positions(self) -> int:
        return self.batch.budget

    def __call__(self, model: nn.Module, *, parts: int, stop: Callable[[], bool]) -> Judgement:
        assert model is self.recogniser.model

        def raise_if_stopped() -> None:
            if stop():
                raise StoppedError

        batch = self.batch.model_copy(update={"tokens": max(2, self.batch.budget // parts)})
        greedy = self.recogniser.search.model_copy(
            update={"beam": 1, "length_penalty": 0.0, "reward": 0.0, "groups": 1}
        )
        found = self.recogniser.transcribe_store(self.store, search=greedy, batch=batch, stop=raise_if_stopped)
        pairs = list(zip(self.references, found.texts, strict=True))
        words = sum(all_word_errors(self.references, found.texts), Errors())
        characters = sum(all_character_errors(self.references, found.texts), Errors())
        values = {"loss": found.loss, "wer": 100 * words.rate, "cer": 100 * characters.rate}
        summary = f"validation loss {values['loss']:.3f}, WER {values['wer']:.2f} %, CER {values['cer']:.2f} %"
        samples = [f"reference   {reference}\nrecognised  {text}\n" for reference, text in pairs]
        return Judgement(values, samples, summary=summary)


class RecognitionAssembly(BaseAssembly):
    """Assembles the data, task, model and judge of a recognition experiment."""

    metrics = METRICS

    def __init__(self, experiment: Experiment) -> None:
        assert isinstance(experiment.task, RecognitionConfig)
        assert isinstance(experiment.model, RecogniserConfig)
        self.experiment = experiment
        self.config, self.model = experiment.task, experiment.model

    @property
    def preparation(self) -> RecognitionPreparation:
        fit = Fit(self.config.hop, self.model.subsampling.factor, max(100, *self.config.speeds), self.model.has_ctc)
        return RecognitionPreparation(
            self.experiment.text,
            rate=self.config.rate,
            fit=fit,
            resampled=self.config.resample,
            longest=self.config.longest,
            maximum_length=self.experiment.data.maximum_length,
        )

    def refuse_unbuildable(self) -> None:
        size = getattr(self.experiment.text, "vocabulary_size", None) or LARGEST
        with weightless():
            model = RecogniserModel(self.model, sizes=RecogniserSizes(size, self.config.rate))
        refuse_uncomputable(model, self.experiment.training)
        refuse_warm_start(self.experiment.training, models="recognisers")

    def build(self, prepared: Prepared) -> RecogniserModel:
        size = len(load_tokenizer(prepared.vocabularies, column=TEXT).vocabulary)
        torch.manual_seed(stream_seed(self.experiment.seed, "weights"))
        model = RecogniserModel(self.model, sizes=RecogniserSizes(size, self.config.rate))
        if self.model.normalise == "global":
            model.inputs.normalise.learn(*feature_statistics(model, prepared.train))
        return model.double() if self.experiment.training.precision == "float64" else model

    def task(self, prepared: Prepared) -> Recognition:
        return Recognition(
            self.config,
            parts=loss_parts(self.model.head),
            seed=self.experiment.seed,
            smoothing=self.experiment.training.label_smoothing,
        )

    def judge(self, model: nn.Module, prepared: Prepared, *, ranks: int) -> RecognitionJudge:
        batch = self.validation_batch(ranks=ranks)
        references = [row[1] for row in prepared.valid_text]
        return RecognitionJudge(self._recogniser(model, prepared), prepared.valid, references=references, batch=batch)

    def save_model(self, prepared: Prepared, *, parameters: int) -> SaveModel:
        card = self._card(prepared, parameters=parameters)

        def save(path: Path, model: nn.Module, judgement: Judgement) -> None:
            recogniser = self._recogniser(model, prepared)
            save_recogniser(path, recogniser, card=completed_card(card, judgement), artefacts=judgement.artefacts)

        return save

    def corpus(self, prepared: Prepared) -> Corpus:
        store, encoder = prepared.train, self.model.encoder
        frames, tokens = speech_widths(store, hop=self.config.hop)
        task = self.task(prepared)

        def order(config: BatchConfig) -> Order:
            return task.order(store, config=config, seed=self.experiment.seed)

        rate = adam_rate(transformer=isinstance(encoder, TransformerConfig), width=encoder.width)
        positions = frames.total() + tokens.total()
        return Corpus(len(store), positions, weight=tokens.total(), order=order, rate=rate, unit=self.preparation.unit)

    def selects(self, prepared: Prepared) -> ChosenMetric:
        return ChosenMetric(RecognitionJudge.selects)

    def describe(self, prepared: Prepared) -> list[str]:
        size = len(load_tokenizer(prepared.vocabularies, column=TEXT).vocabulary)
        store = prepared.train
        seconds = store.widths(AUDIO).total() / self.config.rate
        tokens = store.widths(TEXT).total()
        return [f"audio: {seconds / 60:,.1f} minutes to train on; text: {size:,} pieces, {tokens:,} tokens"]

    def _recogniser(self, model: nn.Module, prepared: Prepared) -> Recogniser:
        assert isinstance(model, RecogniserModel)
        tokenizer = load_tokenizer(prepared.vocabularies, column=TEXT)
        return Recogniser(model, tokenizer, config=self.model, task=self.config, search=self.experiment.search)

    @property
    def _other_rates(self) -> str:
        return "resampled" if self.config.resample else "rejected"

    def _card(self, prepared: Prepared, *, parameters: int) -> str:
        return self.model_card(
            "A speech recogniser",
            f"encoder: {self.model.encoder.kind}, head: {self.model.head}; {parameters:,} parameters",
            f"reads {self.config.rate:,} samples per second; other recordings are {self._other_rates}",
            self.trained_on(prepared, "recordings"),
            prepared=prepared,
            command="transcribe FOLDER FILES",
            method='transcribe("recording.wav")',
        )


@torch.inference_mode()
def feature_statistics(model: RecogniserModel, store: Store) -> tuple[Tensor, Tensor]:
    """The mean and standard deviation [M] of each mel band, over up to 1,000 recordings, evenly spaced in a store."""
    rows = np.unique(np.linspace(0, len(store) - 1, min(MEASURED, len(store))).astype(np.int64))
    bands = model.inputs.log_mel.bands
    total, squares, count = torch.zeros(bands).double(), torch.zeros(bands).double(), 0
    for row in rows.tolist():
        samples = torch.from_numpy(np.array(store[AUDIO].row(row)))
        features = model.inputs.log_mel(Padded(samples[None], torch.tensor([len(samples)]))).values
        features = model.inputs.smoothed(features)[0].double()
        total, squares, count = total + features.sum(0), squares + features.square().sum(0), count + len(features)
    mean = total / count
    return mean.float(), (squares / count - mean.square()).clamp(min=0).sqrt().float()
