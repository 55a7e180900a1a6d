"""What a run begins with: its model, drawn from the seed, and the job that the training loop is given."""

from collections.abc import Sequence
from pathlib import Path

import torch

from calque import __version__
from calque.config import flat, to_values
from calque.data.prepare import Prepared
from calque.data.store import target_counts
from calque.data.subwords import refuse_unfit_tokenizers
from calque.errors import ConfigError
from calque.experiment.settings import Experiment
from calque.layers.recurrent import Recurrence
from calque.models.model import Model, Sizes
from calque.tensors import weightless
from calque.text import UNK, GivenConfig, TextConfig, Tokenizers
from calque.text.splitting import Usual, sentences_in
from calque.training.board import refuse_boardless
from calque.training.checkpoints import saved_steps
from calque.training.job import Job
from calque.training.ranks import Ranks
from calque.training.reporting import Reporter
from calque.training.seeds import stream_seed
from calque.training.settings import TrainingConfig
from calque.training.update import computing
from calque.training.validation import ValidationSet
from calque.training.warm import refuse_unfit_start, warm_start
from calque.translator import Translator, choose_device


def build(experiment: Experiment, *, sizes: Sizes) -> Model:
    """The model of an experiment, its weights drawn from the seed."""
    torch.manual_seed(stream_seed(experiment.seed, "weights"))
    return Model(experiment.model, sizes=sizes)


def beginning_model(experiment: Experiment, prepared: Prepared, *, ranks: int) -> Model:
    """The model as a run begins with it, on its device."""
    sizes = _sizes(prepared.tokenizers)
    model = build(experiment, sizes=sizes)
    if experiment.training.precision == "float64":
        model = model.double()
    if experiment.model.output.kind != "full":
        model.output.learn_frequencies(torch.from_numpy(target_counts(prepared.train, size=sizes.target)))
    is_cut = experiment.training.divides(ranks)  # then it goes to its device in parts
    return model if is_cut else model.to(choose_device(experiment.training.device))


def job_of(experiment: Experiment, prepared: Prepared, *, folder: Path, reporter: Reporter, ranks: Ranks) -> Job:
    model = beginning_model(experiment, prepared, ranks=ranks.count)
    _refuse_uncomputable(model, experiment.training)  # a run may have begun on another machine
    start = experiment.training.warm_start
    if start is not None and not saved_steps(folder / "checkpoints"):
        reporter.say(*warm_start(model, prepared.tokenizers, config=experiment.model, path=start))
    parameters = sum(one.numel() for one in model.parameters() if one.requires_grad)
    among = f", one of {ranks.count} ranks" if ranks.count > 1 else ""
    reporter.say(f"model: {parameters:,} parameters on {next(model.parameters()).device}{among}")
    if experiment.training.objective.method.kind == "r-drop" and not _disturbs(experiment):
        reporter.say("r-drop: nothing is dropped, so both readings are the same: twice the work of cross-entropy")
    if experiment.training.schedule.warmup > experiment.training.steps:
        reporter.say("training.schedule.warmup is longer than training.steps: the learning rate never gets to its peak")
    texts = prepared.valid_text
    translator = Translator(model, prepared.tokenizers, config=experiment.model, search=experiment.search)
    translator.usual = _usual(prepared, [source for source, _ in texts])
    return Job(
        experiment.training,
        experiment.seed,
        translator,
        prepared.train,
        ValidationSet(prepared.valid, [one for one, _ in texts], [other for _, other in texts]),
        folder,
        reporter,
        _card(experiment, prepared, parameters=parameters),
        ranks,
    )


def _disturbs(experiment: Experiment) -> bool:
    """Whether a sentence that is read twice is read differently."""
    words = experiment.training.objective.word_dropout
    values = [value for key, value in flat(to_values(experiment.model)) if key.endswith(("dropout", "noise"))]
    return any([words.source, words.target, *values])


def _usual(prepared: Prepared, sources: Sequence[str]) -> Usual:
    """How long sources are; sentences are counted in those held out, as of the others only pieces are kept."""
    return Usual.of(
        pieces=(prepared.valid.source.lengths - 1).tolist(), sentences=[sentences_in(text) for text in sources]
    )


def _card(experiment: Experiment, prepared: Prepared, *, parameters: int) -> str:
    encoder, decoder = experiment.model.encoder, experiment.model.decoder
    is_language_model = encoder.kind == "none"
    use, call = ("score FOLDER --target", "score") if is_language_model else ("translate FOLDER --input", "translate")
    given = '[""], ["..."]' if is_language_model else '"..."'
    return "\n".join(
        [
            f"# A {'language' if is_language_model else 'translation'} model",
            "",
            f"- encoder: {encoder.kind}, decoder: {decoder.kind}; {parameters:,} parameters",
            f"- trained on {len(prepared.train):,} pairs with Calque {__version__}, seed {experiment.seed}",
            f"- data fingerprint: {prepared.digest}",
            "",
            f"Use it: `calque {use} FILE`, or in Python",
            f'`calque.load("FOLDER").{call}({given})`. `manifest.json` holds the SHA-256 of every file here.',
            "",
        ]
    )


def refuse_unbuildable(experiment: Experiment) -> None:
    """Raises an error for parts that are missing or do not fit each other, before a long corpus is read."""
    training = experiment.training
    choose_device(training.device)
    if training.tensorboard:
        refuse_boardless()
    given = experiment.text.load() if isinstance(experiment.text, GivenConfig) else None
    with weightless():
        model = Model(experiment.model, sizes=_sizes(given) if given else _largest_sizes(experiment.text))
    _refuse_uncomputable(model, training)
    if given is not None:
        refuse_unfit_tokenizers(training.subwords, given)
    if training.warm_start is not None:
        refuse_unfit_start(model, given, config=experiment.model, path=training.warm_start)


def _refuse_uncomputable(model: Model, training: TrainingConfig) -> None:
    """Raises an error for float64 where there is none, and for an LSTM in float16 on a CPU without a kernel for it."""
    device = choose_device(training.device).type
    if training.precision == "float64" and device == "mps":
        raise ConfigError('training.precision = "float64": mps has none; use float32, or training.device = "cpu"')
    if training.precision != "float16" or device != "cpu":
        return
    layers = [one for one in model.modules() if isinstance(one, Recurrence)]
    if any(one.cell == "lstm" and one.is_fused(None) for one in layers) and not _has_half_lstm():
        raise ConfigError(
            'training.precision = "float16": the LSTMs of this model cannot be computed in it on this CPU; use float32 '
            "or bfloat16, or a GPU"
        )


def _has_half_lstm() -> bool:
    try:
        with computing("float16", "cpu"):
            torch.nn.LSTM(1, 1)(torch.zeros(1, 1, 1))
    except RuntimeError:
        return False
    return True


def _sizes(tokenizers: Tokenizers) -> Sizes:
    return Sizes(len(tokenizers.source.vocabulary), len(tokenizers.target.vocabulary), tokenizers.joint, UNK)


def _largest_sizes(text: TextConfig) -> Sizes:
    """What a corpus can make of a text section at the most: more pieces than any cutoff where that is not said."""
    pieces = getattr(text, "vocabulary_size", None) or 1 << 24  # weightless, they take no room
    return Sizes(pieces, pieces, joint=getattr(text, "joint", True))
