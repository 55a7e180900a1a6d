"""Statistical-translation experiments: estimates a model's tables, and tunes its weights on the validation data."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from torch import nn

from calque import __version__
from calque.data.pair_preparation import PairPreparation
from calque.data.prepare import Prepared
from calque.engine.phrase_folder import SPECIAL, phrase_translator, save_phrase_translator, tables_of
from calque.engine.phrase_translator import PhraseTranslator, stack_search
from calque.errors import ConfigError
from calque.evaluation.metrics import bleu, chrf, exact_match, ter
from calque.evaluation.segment_statistics import SegmentMetric
from calque.experiment.assembly import BaseAssembly, ChosenMetric, Estimator, Watch, completed_card
from calque.experiment.judges import HIGHER, LOWER
from calque.experiment.settings import Experiment
from calque.experiment.translation import bleu_or_exact_match
from calque.models.phrase_based import PhraseBasedConfig, PhraseTables
from calque.statistics.casing import frequent_forms, with_forms
from calque.statistics.em import Observer
from calque.statistics.phrase_estimation import PhraseSettings, estimate_phrases
from calque.statistics.phrase_tuning import Tuner, TuningReport, TuningSettings
from calque.tasks.interfaces import Judgement, Metric, StoppedError, Task
from calque.text import GivenConfig, load_tokenizers
from calque.training.auto_settings import Corpus
from calque.training.job import SaveModel

METRICS: Mapping[str, Metric] = {
    "bleu": Metric("higher", chance=1.0, tie_breaker="chrf"),
    "chrf": HIGHER._replace(tie_breaker="bleu"),
    "exact_match": Metric("higher", tie_breaker="chrf"),
    "ter": LOWER._replace(tie_breaker="bleu"),
}


class PhraseTranslationAssembly(BaseAssembly):
    """Assembles the data, estimator and judge of a statistical translation experiment."""

    metrics: Mapping[str, Metric] = METRICS

    def __init__(self, experiment: Experiment) -> None:
        assert isinstance(experiment.model, PhraseBasedConfig)
        self.experiment = experiment
        self.model = experiment.model

    @property
    def preparation(self) -> PairPreparation:
        return PairPreparation.of(self.experiment.data, text=self.experiment.text)

    def refuse_unbuildable(self) -> None:
        if isinstance(self.experiment.text, GivenConfig):
            self.experiment.text.load()

    def estimator(self) -> Estimator:
        return self._estimate

    def _estimate(self, prepared: Prepared, watch: Watch) -> PhraseTables:
        """Estimates the tables of a phrase-based model, and tunes its feature weights unless tuning.iterations is 0."""
        config, tokenizers = self.model, load_tokenizers(prepared.vocabularies)
        source, target = prepared.train["source"], prepared.train["target"]
        source_forms = None
        if config.case != "keep":
            everywhere = config.case == "lowercase"
            source_forms = frequent_forms(source, tokenizers.source.vocabulary.pieces)
            target_forms = frequent_forms(target, tokenizers.target.vocabulary.pieces)
            source = with_forms(source, source_forms, everywhere=everywhere)
            target = with_forms(target, target_forms, everywhere=everywhere)
        estimated = estimate_phrases(
            source,
            target,
            sizes=(len(tokenizers.source.vocabulary), len(tokenizers.target.vocabulary)),
            special=SPECIAL,
            settings=_phrase_settings(config),
            say=watch.say,
            observer=_Stopping(watch.check_stop),
        )
        tables = tables_of(estimated, weights=config.initial_weights(), source_forms=source_forms)
        if config.tuning.iterations:
            tables.weights = self._tuned(phrase_translator(tables, tokenizers, config=config), prepared, watch)
        return tables

    def _tuned(self, translator: PhraseTranslator, prepared: Prepared, watch: Watch) -> dict[str, float]:
        """Tunes the feature weights for the best BLEU on the validation data, and returns them."""
        tuning, texts = self.model.tuning, prepared.valid_text[: self.model.tuning.sentences]
        sources = [translator.read(row[0]) for row in texts]
        watch.say(f"tuning {len(translator.phrases.weights)} weights on {len(sources):,} validation pairs")

        def report(tuned: TuningReport) -> None:
            watch.say(
                f"tuning, iteration {tuned.iteration}: BLEU {tuned.score:.2f}; among {tuned.candidates:,} candidates, "
                f"the new weights select translations with BLEU {tuned.expected:.2f}"
            )

        tuner = Tuner(
            [source.ids for source in sources],
            SegmentMetric("bleu", [row[1] for row in texts]),
            text=lambda number, derivation: translator.text(sources[number], derivation),
            search=stack_search(self.model.search),
            settings=TuningSettings(tuning.iterations, tuning.nbest, tuning.restarts, self.experiment.seed),
            report=report,
            check_stop=watch.check_stop,
        )
        return {name: round(value, 6) for name, value in tuner.tune(translator.phrases).weights.items()}

    def build(self, prepared: Prepared) -> nn.Module:
        raise ConfigError("a statistical translation model has no network to build; it is estimated from counts")

    def task(self, prepared: Prepared) -> Task:
        raise ConfigError("a statistical translation model is estimated from counts, so it has no training task")

    def corpus(self, prepared: Prepared) -> Corpus:
        raise ConfigError("a statistical translation model is estimated from counts, so it needs no training settings")

    def judge(self, model: nn.Module, prepared: Prepared, *, ranks: int) -> "PhraseJudge":
        return PhraseJudge(self._translator(model, prepared), prepared, metric=self.experiment.training.metric)

    def save_model(self, prepared: Prepared, *, parameters: int) -> SaveModel:
        card = self._card(prepared, values=parameters)

        def save(path: Path, model: nn.Module, judgement: Judgement) -> None:
            save_phrase_translator(path, self._translator(model, prepared), card=completed_card(card, judgement))

        return save

    def selects(self, prepared: Prepared) -> ChosenMetric:
        return bleu_or_exact_match([row[1] for row in prepared.valid_text])

    def describe(self, prepared: Prepared) -> list[str]:
        tokenizers = load_tokenizers(prepared.vocabularies)
        sizes = len(tokenizers.source.vocabulary), len(tokenizers.target.vocabulary)
        return [f"text: {sizes[0]:,} source and {sizes[1]:,} target words"]

    def _translator(self, model: nn.Module, prepared: Prepared) -> PhraseTranslator:
        assert isinstance(model, PhraseTables)
        tokenizers = load_tokenizers(prepared.vocabularies)
        return phrase_translator(model, tokenizers, config=self.model)

    def _card(self, prepared: Prepared, *, values: int) -> str:
        return self.model_card(
            "A statistical translation model",
            f"translates {self.model.units}; {values:,} values in its tables",
            f"estimated from {len(prepared.train):,} pairs with Calque {__version__}",
            f"seed of tuning: {self.experiment.seed}",
            prepared=prepared,
            command="translate FOLDER --input FILE",
            method='translate("...")',
        )


class PhraseJudge:
    """Validates a statistical translation model by the quality of its translations; it has no loss."""

    metrics = METRICS
    selects = "bleu"

    def __init__(self, translator: PhraseTranslator, prepared: Prepared, *, metric: str) -> None:
        self.translator = translator
        self.sources, self.references = ([row[side] for row in prepared.valid_text] for side in (0, 1))
        self.metric = metric
        self.positions = 1

    @property
    def reports(self) -> tuple[str, ...]:
        return ("bleu", "chrf", "exact_match", "length", *(["ter"] if self.metric == "ter" else []))

    def __call__(self, model: nn.Module, *, parts: int, stop: Callable[[], bool]) -> Judgement:
        def poll() -> None:
            if stop():
                raise StoppedError

        translations = [translation.text for translation in self.translator.stream(self.sources, poll=poll)]
        values = {
            "bleu": bleu(translations, self.references),
            "chrf": chrf(translations, self.references),
            "exact_match": exact_match(translations, self.references).value,
            "length": sum(map(len, translations)) / max(1, sum(map(len, self.references))),
        }
        if self.metric == "ter":
            values["ter"] = ter(translations, self.references)
        summary = (
            f"validation BLEU {values['bleu']:.1f}, chrF {values['chrf']:.1f}, exact {values['exact_match']:.1f} %"
        )
        return Judgement(values, self._samples(translations), {}, summary)

    def _samples(self, translations: Sequence[str]) -> list[str]:
        rows = zip(self.sources, self.references, translations, strict=True)
        return [
            f"source       {source}\nreference    {reference}\ntranslation  {translation}\n"
            for source, reference, translation in rows
        ]


class _Stopping(Observer):
    """Checks, after each block of sentence pairs in EM training, whether the run is to be stopped."""

    def __init__(self, check_stop: Callable[[], None]) -> None:
        self.check_stop = check_stop

    def progress(self, phase: str, done: int, total: int) -> None:
        self.check_stop()


def _phrase_settings(config: PhraseBasedConfig) -> PhraseSettings:
    return PhraseSettings(
        config.units,
        config.longest,
        config.alignment,
        config.symmetrisation,
        config.discount,
        config.reordering,
        config.translations,
        config.language_order,
    )
