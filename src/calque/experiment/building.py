"""Builds the initial model of a run and the job for the training loop."""

from pathlib import Path
from typing import assert_never

from torch import nn

from calque.data.prepare import Prepared
from calque.devices import choose_device
from calque.experiment.assembly import Assembly, precision_warnings, refuse_uncomputable, refuse_unknown_metrics
from calque.experiment.captioning import CaptioningAssembly
from calque.experiment.embedding import EmbeddingAssembly
from calque.experiment.language_modelling import LanguageModellingAssembly
from calque.experiment.phrase_translation import PhraseTranslationAssembly
from calque.experiment.recognition import RecognitionAssembly
from calque.experiment.recommendation import RecommendationAssembly
from calque.experiment.settings import Experiment
from calque.experiment.tagging import TaggingAssembly
from calque.experiment.translation import TranslationAssembly
from calque.inspection.gradient_watching import watched_gradient_flow
from calque.models.phrase_based import PhraseBasedConfig
from calque.tasks.captioning import CaptioningConfig
from calque.tasks.embedding import EmbeddingConfig
from calque.tasks.language_modelling import LanguageModellingConfig
from calque.tasks.recognition import RecognitionConfig
from calque.tasks.recommendation import RecommendationConfig
from calque.tasks.tagging import TaggingConfig
from calque.tasks.translation import TranslationConfig
from calque.training.checkpoints import saved_steps
from calque.training.distributed import Ranks
from calque.training.job import GradientFlow, Job
from calque.training.reporting import Reporter
from calque.training.tensorboard import refuse_without_tensorboard


def assembly_of(experiment: Experiment) -> Assembly:
    """The assembly for an experiment's task, which prepares its data and builds, validates and saves its model."""
    match experiment.task:
        case TranslationConfig() if isinstance(experiment.model, PhraseBasedConfig):
            return PhraseTranslationAssembly(experiment)
        case TranslationConfig():
            return TranslationAssembly(experiment)
        case LanguageModellingConfig():
            return LanguageModellingAssembly(experiment)
        case TaggingConfig():
            return TaggingAssembly(experiment)
        case EmbeddingConfig():
            return EmbeddingAssembly(experiment)
        case RecommendationConfig():
            return RecommendationAssembly(experiment)
        case RecognitionConfig():
            return RecognitionAssembly(experiment)
        case CaptioningConfig():
            return CaptioningAssembly(experiment)
        case _:
            assert_never(experiment.task)


def initial_model(experiment: Experiment, prepared: Prepared, *, ranks: int) -> nn.Module:
    """The model with its initial weights, on its device; on the CPU if it will be sharded."""
    model = assembly_of(experiment).build(prepared)
    is_sharded = experiment.training.divides(ranks)  # then its shards are moved to the devices later
    return model if is_sharded else model.to(choose_device(experiment.training.device))


def build_job(experiment: Experiment, prepared: Prepared, *, folder: Path, reporter: Reporter, ranks: Ranks) -> Job:
    """Builds the model, the task and the judge of a run, and returns the job for the training loop."""
    assembly, training = assembly_of(experiment), experiment.training
    model = initial_model(experiment, prepared, ranks=ranks.count)
    refuse_uncomputable(model, training)  # the run may have been started on another machine
    if training.warm_start is not None and not saved_steps(folder / "checkpoints"):
        reporter.say(*assembly.warm_start(model, prepared, path=training.warm_start))
    parameters = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    among = f", one of {ranks.count} ranks" if ranks.count > 1 else ""
    reporter.say(f"model: {parameters:,} parameters on {next(model.parameters()).device}{among}")
    reporter.say(*assembly.remarks(), *precision_warnings(training))
    if training.schedule.warmup > training.steps:
        reporter.say(
            "warning: training.schedule.warmup exceeds training.steps, so the learning rate never reaches its peak"
        )
    return Job(
        config=training,
        seed=experiment.seed,
        task=assembly.task(prepared),
        model=model,
        store=prepared.train,
        judge=assembly.judge(model, prepared, ranks=ranks.count),
        save_model=assembly.save_model(prepared, parameters=parameters),
        folder=folder,
        reporter=reporter,
        ranks=ranks,
        gradient_flow=_gradient_flow(experiment, prepared),
    )


def _gradient_flow(experiment: Experiment, prepared: Prepared) -> GradientFlow | None:
    """The function that measures gradient flow at validations; None if training.watch_gradients is 0."""
    if not experiment.training.watch_gradients:
        return None
    assert isinstance(experiment.task, TranslationConfig | LanguageModellingConfig | TaggingConfig)
    return watched_gradient_flow(experiment.task, prepared.valid)


def refuse_unbuildable(experiment: Experiment) -> None:
    """Raises an error if parts of an experiment are missing or do not fit together, before a long corpus is read."""
    choose_device(experiment.training.device)
    if experiment.training.tensorboard:
        refuse_without_tensorboard()
    assembly = assembly_of(experiment)
    refuse_unknown_metrics(experiment.training, metrics=assembly.metrics)
    assembly.refuse_unbuildable()
