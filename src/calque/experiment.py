"""The root config and the one place where everything meets: from a config to a trained run.

A run folder holds config.toml (resolved), run.json (what it was made with), store/, checkpoints/, model/,
metrics.jsonl, timing.jsonl, samples.txt, plots/, lengths.json and log.txt; history.jsonl where batches had to be split,
tensorboard/ where that was asked for.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from pydantic import Field, model_validator

from calque import __version__
from calque.config import Config, Values, check, given_values, override, read_toml, to_toml, to_values, values_to_toml
from calque.data.batch import Batch
from calque.data.corpora import DataConfig
from calque.data.fingerprint import corpus_files
from calque.data.prepare import Prepared, prepare
from calque.data.store import length_counts, target_counts
from calque.data.subwords import misfits as subword_misfits
from calque.errors import FolderError, UserError
from calque.folders import MANIFEST
from calque.models.model import Model, ModelConfig, Sizes
from calque.models.systems import SYSTEMS, system_model
from calque.search.settings import SearchConfig
from calque.tasks.objectives import Objective
from calque.tasks.objectives import misfits as objective_misfits
from calque.tasks.translation import Loss
from calque.text import UNK, GivenConfig, SentencePieceConfig, TextConfig
from calque.training.fitting import Fit, fit_tokens
from calque.training.following import follow_corpus
from calque.training.job import Job, Summary
from calque.training.lock import LOCK, run_lock
from calque.training.loop import train as run_loop
from calque.training.plots import LENGTHS, draw_curves
from calque.training.ranks import Ranks, joined_ranks
from calque.training.reporting import Reporter
from calque.training.runs import CONFIG, machine, new_run_folder, record, write_atomically
from calque.training.seeds import stream_seed
from calque.training.settings import TrainingConfig
from calque.training.update import computing
from calque.training.validation import ValidationSet
from calque.training.warm import warm_start
from calque.translator import Translator, choose_device


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
        )
        found += subword_misfits(training.subwords, text=self.text, batch=training.batch)
        if found:
            raise ValueError("; ".join(found))
        return self


class Run(NamedTuple):
    """A run that has come to its end."""

    folder: Path
    config: Experiment
    summary: Summary


Preparing = Callable[[], AbstractContextManager[Callable[[str, int, int], None] | None]]
"""Opens a display for the time in which the data is prepared: it is told what is done, how much, and of how much."""


def train(
    config: Experiment | Values | Path | str,
    *,
    run: Path | str | None = None,
    quiet: bool = False,
    preparing: Preparing = nullcontext,
    origin: str = "config",
) -> Run:
    """Trains what a config describes (an Experiment, its values, or a TOML file), in a new run folder.

    Settings the config leaves open (batch, steps, validation, early stopping, rates) follow the corpus. `origin` is
    what messages about values that are in no file say they come from.
    """
    match config:
        case Experiment():
            values = given_values(config)
        case dict():
            values = config
        case _:
            values = read_toml(Path(config))
    with joined_ranks() as ranks:
        folder = ranks.led(lambda: _begin(config, values, run=run, origin=origin))
        try:
            return _go_on(Path(folder), ranks, quiet=quiet, preparing=preparing)
        except UserError:
            if ranks.leads:
                _take_back(Path(folder))
            raise


def resume(run: Path | str, *, quiet: bool = False, preparing: Preparing = nullcontext) -> Run:
    """Goes on with a run, from its newest checkpoint or from wherever it was stopped before the first."""
    with joined_ranks() as ranks:
        return _go_on(Path(run), ranks, quiet=quiet, preparing=preparing)


def _begin(config: object, values: Values, *, run: Path | str | None, origin: str) -> str:
    """A new run folder with its config; refuses what cannot become a run."""
    experiment = check(Experiment, values, origin=str(config) if isinstance(config, Path | str) else origin)
    _refuse_unbuildable(experiment)
    folder = new_run_folder(None if run is None else Path(run))
    write_atomically(folder / CONFIG, values_to_toml(_absolute(values, experiment)))
    return str(folder)


def _go_on(folder: Path, ranks: Ranks, *, quiet: bool, preparing: Preparing) -> Run:
    if not (folder / CONFIG).is_file() or (folder / MANIFEST).exists():
        found = f"it has no {CONFIG}" if not (folder / MANIFEST).exists() else "it is a part of one"
        raise FolderError(f"{folder}: not a run folder: {found}")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS asks once; training.deterministic needs it
    with run_lock(folder) if ranks.leads else nullcontext():
        said = ranks.led(lambda: _prepare_run(folder, ranks, preparing=preparing))
        experiment = check(Experiment, read_toml(folder / CONFIG), origin=str(folder / CONFIG), written=True)
        prepared = prepare(experiment.data, text=experiment.text, folder=_store(experiment, folder))
        steps = experiment.training.steps
        log = folder / "log.txt" if ranks.leads else None
        with Reporter(log, steps=steps, quiet=quiet or not ranks.leads) as reporter, _arithmetic(experiment.training):
            reporter.say(*said.splitlines())
            summary = run_loop(_job(experiment, prepared, folder=folder, reporter=reporter, ranks=ranks))
        if ranks.leads and not draw_curves(folder) and not quiet:
            reporter.say("no plots: matplotlib is not installed (pip install 'calque[plots]')")
    return Run(folder, experiment, summary)


def _prepare_run(folder: Path, ranks: Ranks, *, preparing: Preparing) -> str:
    """Prepares the data and completes the config; what there is to say about it."""
    values = read_toml(folder / CONFIG)
    experiment = check(Experiment, values, origin=str(folder / CONFIG), written=True)
    with preparing() as progress:
        prepared = prepare(experiment.data, text=experiment.text, folder=_store(experiment, folder), progress=progress)
    fitted: list[str] = []
    if experiment.training.batch.tokens == "auto":
        fit = _fit(experiment, prepared, ranks=ranks.count)
        values = override(values, [f"training.batch.tokens={fit.tokens}"])
        fitted = [f"training.batch.tokens = {fit.tokens} fits this device: {fit.reason}"]
    device = choose_device(experiment.training.device).type
    completed, choices = follow_corpus(
        values, prepared.train, model=experiment.model, device=device, seed=experiment.seed
    )
    experiment = check(Experiment, completed, origin=str(folder / CONFIG), written=True)
    write_atomically(folder / CONFIG, to_toml(experiment))
    write_atomically(folder / LENGTHS, json.dumps(length_counts(prepared.train)) + "\n")
    training = experiment.training
    facts = {
        "machine": machine(training.device),
        "data": prepared.fingerprint,
        "ranks": ranks.count,
        "reproducible": training.device == "cpu" or training.deterministic,
    }
    return "\n".join(
        [*_describe(prepared), *fitted, *choices, *record(folder, facts, files=corpus_files(experiment.data))]
    )


def _store(experiment: Experiment, folder: Path) -> Path:
    return experiment.data.store or folder / "store"


def _fit(experiment: Experiment, prepared: Prepared, *, ranks: int) -> Fit:
    """The budget of all ranks together."""
    training = experiment.training
    model = _model(experiment, prepared)
    objective = Objective(
        training.objective, model=model, smoothing=training.label_smoothing, tokenizer=prepared.tokenizers.target
    )

    def loss_of(batch: Batch, step: int) -> Loss:
        with computing(training.precision, next(model.parameters()).device.type):
            return objective(batch, step=step)

    return fit_tokens(model, prepared.train, config=training.batch, loss_of=loss_of, ranks=ranks)


@contextmanager
def _arithmetic(config: TrainingConfig) -> Iterator[None]:
    """Threads, and operations that give the same bits each time, where they are asked for."""
    torch.set_num_threads(config.threads or torch.get_num_threads())
    if not config.deterministic:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def differences(values: Values, *, run: Path) -> list[str]:
    """What a run's config has otherwise than `values`, as far as they go."""
    experiment = check(Experiment, values, origin="config")
    found = dict(_flat(read_toml(run / CONFIG)))
    wanted = dict(_flat(_absolute(values, experiment)))
    return [f"{key} is {found.get(key)!r}, not {value!r}" for key, value in wanted.items() if found.get(key) != value]


def _flat(values: Any, *, name: str = "") -> Iterator[tuple[str, Any]]:
    match values:
        case dict():
            for key, value in values.items():
                yield from _flat(value, name=f"{name}.{key}" if name else key)
        case list():
            for number, value in enumerate(values, start=1):
                yield from _flat(value, name=f"{name}[{number}]")
        case _:
            yield name, values


def build(experiment: Experiment, *, sizes: Sizes) -> Model:
    """The model of an experiment, its weights drawn from the seed."""
    torch.manual_seed(stream_seed(experiment.seed, "weights"))
    return Model(experiment.model, sizes=sizes)


def experiment_values(
    *, config: Path | None, system: str | None, corpora: Values, assignments: Sequence[str], scale: float = 1.0
) -> Values:
    """The values of an experiment from what a command line gives: later ones lie over earlier ones."""
    values = read_toml(config) if config else {}
    if system is not None:
        values = {**values, "model": to_values(system_model(system, scale=scale))}
    values = {**values, "data": {**values.get("data", {}), **corpora}} if corpora else values
    return override(values, assignments)


def _model(experiment: Experiment, prepared: Prepared) -> Model:
    """The model as a run begins with it, on its device."""
    source, target = prepared.tokenizers
    sizes = Sizes(len(source.vocabulary), len(target.vocabulary), prepared.tokenizers.joint, UNK)
    model = build(experiment, sizes=sizes)
    if experiment.training.precision == "float64":
        model = model.double()
    if experiment.model.output.kind != "full":
        model.output.learn_frequencies(torch.from_numpy(target_counts(prepared.train, size=sizes.target)))
    is_cut = experiment.training.sharded  # then it goes to its device in parts
    return model if is_cut else model.to(choose_device(experiment.training.device))


def _job(experiment: Experiment, prepared: Prepared, *, folder: Path, reporter: Reporter, ranks: Ranks) -> Job:
    model = _model(experiment, prepared)
    start = experiment.training.warm_start
    if start is not None and not any((folder / "checkpoints").glob("step-*/")):
        reporter.say(*warm_start(model, prepared.tokenizers, path=start))
    parameters = sum(one.numel() for one in model.parameters() if one.requires_grad)
    among = f", one of {ranks.count} ranks" if ranks.count > 1 else ""
    reporter.say(f"model: {parameters:,} parameters on {next(model.parameters()).device}{among}")
    texts = prepared.valid_text
    return Job(
        experiment.training,
        experiment.seed,
        Translator(model, prepared.tokenizers, config=experiment.model, search=experiment.search),
        prepared.train,
        ValidationSet(prepared.valid, [one for one, _ in texts], [other for _, other in texts]),
        folder,
        reporter,
        _card(experiment, prepared, parameters=parameters),
        ranks,
    )


def _describe(prepared: Prepared) -> list[str]:
    source, target = prepared.tokenizers
    tally = prepared.train_tally
    left = {"empty": tally.empty, "too long": tally.long, "not UTF-8": tally.invalid}
    said = ", ".join(f"{count:,} {what}" for what, count in left.items() if count)
    pieces = f"{len(source.vocabulary):,}"
    if not prepared.tokenizers.joint:
        pieces = f"{pieces} source and {len(target.vocabulary):,} target"
    return [
        f"data: {len(prepared.train):,} pairs to train on, {len(prepared.valid):,} to validate"
        + (f"; left out: {said}" if said else ""),
        f"text: {pieces} pieces",
    ]


def _card(experiment: Experiment, prepared: Prepared, *, parameters: int) -> str:
    encoder, decoder = experiment.model.encoder, experiment.model.decoder
    return "\n".join(
        [
            "# A translation model",
            "",
            f"- encoder: {encoder.kind}, decoder: {decoder.kind}; {parameters:,} parameters",
            f"- trained on {len(prepared.train):,} pairs with Calque {__version__}, seed {experiment.seed}",
            f"- data fingerprint: {prepared.digest}",
            "",
            "Use it: `calque translate FOLDER --input FILE`, or in Python",
            '`calque.load("FOLDER").translate("...")`. `manifest.json` holds the SHA-256 of every file here.',
            "",
        ]
    )


def _absolute(values: Values, experiment: Experiment) -> Values:
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


def _refuse_unbuildable(experiment: Experiment) -> None:
    """Raises a ConfigError for parts that do not fit each other, before a long corpus is read."""
    choose_device(experiment.training.device)
    pieces = 1 << 24  # more than any cutoff of an output layer; on that device they take no room
    with torch.device("meta"):
        Model(experiment.model, sizes=Sizes(pieces, pieces, joint=getattr(experiment.text, "joint", True)))


def _take_back(folder: Path) -> None:
    """Removes a run that a user's mistake ended before its data was prepared, so that the name can be used again."""
    names = {path.name for path in folder.iterdir()}
    if names <= {CONFIG, LOCK}:
        for name in names:
            (folder / name).unlink()
        folder.rmdir()
