"""The root config and the one place where everything meets: from a config to a trained run.

A run folder holds config.toml (resolved), run.json (what it was made with), store/, checkpoints/, model/,
metrics.jsonl, timing.jsonl, samples.txt, plots/ and log.txt.
"""

import json
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from pydantic import Field, model_validator

from calque import __version__
from calque.config import Config, Values, check, given_values, override, read_toml, to_toml, to_values, values_to_toml
from calque.data.corpora import DataConfig
from calque.data.plan import BatchConfig, Plan
from calque.data.prepare import Prepared, prepare
from calque.data.store import target_counts
from calque.errors import FolderError, UserError
from calque.folders import MANIFEST, sync
from calque.models.model import Model, ModelConfig, Sizes
from calque.models.systems import SYSTEMS, system_model
from calque.models.transformer import TransformerConfig
from calque.search.settings import SearchConfig
from calque.text import UNK, GivenConfig, SentencePieceConfig, TextConfig
from calque.training.lock import LOCK, run_lock
from calque.training.loop import Job, Summary, TrainingConfig, stream_seed
from calque.training.loop import train as run_loop
from calque.training.plots import draw_curves
from calque.training.reporting import Reporter
from calque.training.validation import ValidationSet
from calque.translator import Translator, choose_device

CONFIG, RECORD = "config.toml", "run.json"
RUN_FORMAT = 1


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
    experiment = check(Experiment, values, origin=str(config) if isinstance(config, Path | str) else origin)
    _refuse_unbuildable(experiment)
    folder = new_run_folder(None if run is None else Path(run))
    _write_atomically(folder / CONFIG, values_to_toml(_absolute(values, experiment)))
    try:
        return resume(folder, quiet=quiet, preparing=preparing)
    except UserError:
        _take_back(folder)
        raise


def resume(run: Path | str, *, quiet: bool = False, preparing: Preparing = nullcontext) -> Run:
    """Goes on with a run, from its newest checkpoint or from wherever it was stopped before the first."""
    folder = Path(run)
    if not (folder / CONFIG).is_file() or (folder / MANIFEST).exists():
        found = f"it has no {CONFIG}" if not (folder / MANIFEST).exists() else "it is a part of one"
        raise FolderError(f"{folder}: not a run folder: {found}")
    with run_lock(folder):
        values = read_toml(folder / CONFIG)
        experiment = check(Experiment, values, origin=str(folder / CONFIG), written=True)
        store = experiment.data.store or folder / "store"
        with preparing() as progress:
            prepared = prepare(experiment.data, text=experiment.text, folder=store, progress=progress)
        completed, choices = follow_corpus(values, experiment, prepared)
        experiment = check(Experiment, completed, origin=str(folder / CONFIG), written=True)
        _write_atomically(folder / CONFIG, to_toml(experiment))
        steps = experiment.training.steps
        with Reporter(folder / "log.txt", steps=steps, quiet=quiet) as reporter:
            reporter.say(*_describe(prepared), *choices, *_record(folder, experiment, prepared))
            summary = run_loop(_job(experiment, prepared, folder=folder, reporter=reporter))
        drawn = draw_curves(folder)
        if not drawn and not quiet:
            reporter.say("no plots: matplotlib is not installed (pip install 'calque[plots]')")
    return Run(folder, experiment, summary)


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


def new_run_folder(folder: Path | None) -> Path:
    """A fresh folder for a run: the given one, or the next number in runs/."""
    if folder is None:
        return _next_run(Path("runs"))
    if (folder / CONFIG).exists():
        raise FolderError(f"{folder}: there is a run already; go on with --resume {folder}, or choose another folder")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FolderError(f"{folder}: not an empty folder; a run needs one of its own")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _next_run(runs: Path) -> Path:
    """A new folder with the next number; of two who ask at once each gets its own."""
    runs.mkdir(exist_ok=True)
    number = max((int(path.name) for path in runs.iterdir() if path.name.isdecimal()), default=0) + 1
    while True:
        folder = runs / str(number)
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            return folder


FOLLOWING = (
    *("steps", "validate_every", "checkpoint_every", "log_every", "patience", "threads"),
    *("batch.tokens", "optimiser.learning_rate", "schedule.warmup"),
)
"""Keys of the training section that `follow_corpus` chooses where they are left open."""


def follow_corpus(values: Values, experiment: Experiment, prepared: Prepared) -> tuple[Values, list[str]]:
    """`values` with every training setting that was left open chosen by the corpus; and what was chosen, to be read."""
    given = values.get("training", {})
    store, pairs = prepared.train, len(prepared.train)
    positions = int(store.source_lengths.sum()) + int(store.target_lengths.sum())
    device = choose_device(experiment.training.device).type
    largest = 4096 if device == "cpu" else 16_384  # a device idles on small batches
    batch = _or(given, "batch", "tokens", default=max(256, min(largest, positions // 100)))
    accumulate = given.get("accumulate", 1)
    config = BatchConfig(**{**given.get("batch", {}), "tokens": batch})
    epoch = max(1, sum(1 for _ in Plan(store, config=config, seed=experiment.seed).batches(0)) // accumulate)
    epochs = min(100, max(3, round(30 * (30_000 / pairs) ** 0.5)))
    steps = given.get("steps", max(200, epoch * epochs))
    validate = given.get("validate_every", max(1, min(steps, max(50, min(1000, epoch)))))
    decoder = experiment.model.decoder
    rate = min(2e-3, 0.02 * decoder.width**-0.5) if isinstance(decoder, TransformerConfig) else 1e-3
    chosen: Values = {
        "steps": steps,
        "validate_every": validate,
        "checkpoint_every": validate,
        "log_every": max(1, min(50, steps // 200)),
        "patience": 8,
        "threads": torch.get_num_threads(),
        "batch.tokens": batch,
        "optimiser.learning_rate": round(rate, 5),
        "schedule.warmup": max(20, min(4000, steps // 12)),
        "device": device,
    }
    missing = {key: value for key, value in chosen.items() if _or(given, *key.split("."), default=None) is None}
    if given.get("device", "auto") == "auto":
        missing["device"] = chosen["device"]
    lines = [f"training.{key} = {value}" for key, value in missing.items()]
    completed = override(values, lines)
    if lines:
        lines = [f"chosen for {pairs:,} pairs (an epoch: {epoch:,} steps)", *(f"  {line}" for line in lines)]
    return completed, lines


def _or(values: Values, *keys: str, default: Any) -> Any:
    for key in keys:
        values = values.get(key, {}) if isinstance(values, dict) else {}
    return default if values == {} else values


def _job(experiment: Experiment, prepared: Prepared, *, folder: Path, reporter: Reporter) -> Job:
    torch.set_num_threads(experiment.training.threads or torch.get_num_threads())
    source, target = prepared.tokenizers
    sizes = Sizes(len(source.vocabulary), len(target.vocabulary), prepared.tokenizers.joint, UNK)
    model = build(experiment, sizes=sizes).to(choose_device(experiment.training.device))
    if experiment.model.output.kind != "full":
        model.output.learn_frequencies(torch.from_numpy(target_counts(prepared.train, size=sizes.target)))
    parameters = sum(one.numel() for one in model.parameters() if one.requires_grad)
    reporter.say(f"model: {parameters:,} parameters on {next(model.parameters()).device}")
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


def _record(folder: Path, experiment: Experiment, prepared: Prepared) -> list[str]:
    """Writes what the run is made with when it begins; when it goes on, says what differs since then."""
    now = {
        "format": RUN_FORMAT,
        "calque": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": _machine(experiment.training.device),
        "data": prepared.digest,
        "reproducible": experiment.training.device == "cpu",
    }
    path = folder / RECORD
    if not path.exists():
        _write_atomically(path, json.dumps(now, indent=1) + "\n")
        return []
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise FolderError(f"{path}: not valid JSON; it records what the run was begun with") from None
    return [
        f"note: {key} was {before.get(key)!r} when the run began and is {value!r} now; results may differ"
        for key, value in now.items()
        if before.get(key) != value
    ]


def _machine(device: str) -> str:
    """The kind of machine: what its arithmetic depends on."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    return f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"


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
    return {**values, "data": data, **({"text": text} if text else {})}


def _absolute_paths(corpus: Values) -> Values:
    return {
        key: str(Path(value).absolute()) if key in ("source", "target", "path") else value
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


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    sync(temporary)
    temporary.replace(path)
    sync(path.parent)
