"""The root config: everything a run depends on, and where its values come from."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from calque.config import Config, Values, check, flat, override, read_toml, to_values
from calque.data.corpora import DataConfig
from calque.data.subword_regularisation import misfits as subword_misfits
from calque.models.model import ModelConfig
from calque.models.systems import SYSTEMS, system_model
from calque.objectives.objective import misfits as objective_misfits
from calque.search.settings import SearchConfig
from calque.text import GivenConfig, SentencePieceConfig, TextConfig
from calque.training.runs import CONFIG
from calque.training.settings import TrainingConfig


class Experiment(Config):
    """Everything a run depends on."""

    seed: int = Field(default=1, ge=0)
    """The same seed, data and machine give the same bytes."""
    data: DataConfig
    text: TextConfig = SentencePieceConfig()
    model: ModelConfig = SYSTEMS["tiny"].model
    training: TrainingConfig = TrainingConfig()
    search: SearchConfig = SearchConfig()

    @model_validator(mode="before")
    @classmethod
    def _usual_text(cls, values: Any) -> Any:
        """A text section that does not say its kind is sentencepiece, so that text.vocabulary_size=4000 is enough."""
        text = values.get("text") if isinstance(values, dict) else None
        return {**values, "text": {"kind": "sentencepiece", **text}} if isinstance(text, dict) else values

    @model_validator(mode="after")
    def _coverage_has_attention(self) -> "Experiment":
        coverage, kind = self.search.coverage, self.model.decoder.kind
        if coverage > 0 and kind in ("recurrent", "cho"):
            raise ValueError(
                f"search.coverage = {coverage} and model.decoder.kind = {kind!r} do not go together, as that decoder "
                "does not look at the source; set search.coverage = 0"
            )
        return self

    @model_validator(mode="after")
    def _smoothed_output(self) -> "Experiment":
        smoothing, kind = self.training.label_smoothing, self.model.output.kind
        if smoothing > 0 and kind != "full":
            raise ValueError(
                f"training.label_smoothing = {smoothing} and model.output.kind = {kind!r} do not go together, as "
                "smoothing needs the probabilities of all words; set training.label_smoothing = 0"
            )
        return self

    @model_validator(mode="after")
    def _fitting_objective(self) -> "Experiment":
        training = self.training
        found = objective_misfits(
            training.objective,
            model=self.model,
            data=self.data,
            subwords=training.subwords,
            sharded=training.sharded,
            compiled=training.compile,
        )
        found += subword_misfits(training.subwords, text=self.text, batch=training.batch)
        if found:
            raise ValueError("; ".join(found))
        return self


def experiment_values(
    *, config: Path | None, system: str | None, corpora: Values, assignments: Sequence[str], scale: float = 1.0
) -> Values:
    """The values of an experiment from what a command line gives: later ones lie over earlier ones."""
    values = read_toml(config) if config else {}
    if system is not None:
        values = {**values, "model": to_values(system_model(system, scale=scale))}
    values = {**values, "data": {**values.get("data", {}), **corpora}} if corpora else values
    return override(values, assignments, of=Experiment)


def differences(values: Values, *, run: Path) -> list[str]:
    """What a run's config has otherwise than `values`, as far as they go."""
    experiment = check(Experiment, values, origin="config")
    found = dict(flat(read_toml(run / CONFIG)))
    wanted = dict(flat(absolute(values, experiment)))
    return [f"{key} is {found.get(key)!r}, not {value!r}" for key, value in wanted.items() if found.get(key) != value]


def absolute(values: Values, experiment: Experiment) -> Values:
    """`values` with every path of the data section absolute, so that a run can be resumed from anywhere."""
    data = {key: value for key, value in values["data"].items() if key not in ("train", "valid", "store")}
    for role in ("train", "valid"):
        corpora = getattr(experiment.data, role)
        if corpora:
            data[role] = [_absolute_paths(to_values(corpus)) for corpus in corpora]
    if experiment.data.store is not None:
        data["store"] = experiment.data.store.absolute()
    text = values.get("text", {})
    if isinstance(experiment.text, GivenConfig):
        text = {**text, "path": str(experiment.text.path.absolute())}
    training = values.get("training", {})
    if experiment.training.warm_start is not None:
        training = {**training, "warm_start": str(experiment.training.warm_start.absolute())}
    changed = {"data": data, "text": text, "training": training}
    return {**values, **{key: value for key, value in changed.items() if value}}


def _absolute_paths(corpus: Values) -> Values:
    return {
        key: str(Path(value).absolute()) if key in ("source", "target", "path", "alignments") else value
        for key, value in corpus.items()
    }
