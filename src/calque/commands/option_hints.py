"""Hints for options of other toolkits: the error message names Calque's equivalent option or setting."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from calque.commands.repeated_options import SingleValueCommand
from calque.commands.usage_errors import UsageError, refuse_usage
from calque.errors import ConfigError


class Hint(NamedTuple):
    """A suggestion for an option of another toolkit: the first of `options` that the command has, or else settings.

    A setting with a value, such as `training.compile=true`, is suggested unchanged. A key without a value is suggested
    with the value that the user gave to the option.
    """

    options: tuple[str, ...] = ()  # in order of preference
    config: tuple[str, ...] = ()  # keys, for commands that take settings of a config
    search: tuple[str, ...] = ()  # keys, for commands that take search settings
    generate: tuple[str, ...] | None = None  # keys for `calque generate`, where they differ from `search`
    note: str = ""  # shown if the value means something else in Calque


_STEPS = Hint(config=("training.steps",))
_EPOCHS = Hint(
    config=("training.steps",), note="counts updates, not epochs; training prints how many steps an epoch has"
)
_RATE = Hint(config=("training.optimiser.learning_rate",))
_BATCH = Hint(("--batch-tokens",), ("training.batch.tokens",), ("batch_tokens",), (), note="counts positions, not rows")
_TOKENS = _BATCH._replace(note="")
_VALIDATE = Hint(config=("training.validate_every",))
_SAVE = Hint(config=("training.checkpoint_every",))
_LOG = Hint(config=("training.log_every",))
_WARMUP = Hint(config=("training.schedule.warmup",))
_CLIP = Hint(config=("training.clip",))
_ACCUMULATE = Hint(config=("training.accumulate",))
_START = Hint(config=("training.warm_start",))
_GPU = Hint(("--device cuda",), ("training.device=cuda",))
_MPS = Hint(("--device mps",), ("training.device=mps",))
_FLOAT16 = Hint(("--precision bfloat16",), ("training.precision=float16",))
_BFLOAT16 = Hint(("--precision bfloat16",), ("training.precision=bfloat16",))
_OUTPUT = Hint(("--output", "--out", "--run"))
_SOURCE = Hint(("--source", "--input"))
_TARGET = Hint(("--target", "--reference"))
_BEAM = Hint(("--beam",), ("search.beam",))
_NBEST = Hint(("--nbest",))
_TEMPERATURE = Hint((), ("search.method=sample", "search.temperature"), ("method=sample", "temperature"))
_SAMPLE = Hint((), ("search.method=sample",), ("method=sample",))
_MAXIMUM = Hint(("--maximum",), ("data.maximum_length",), ("maximum",))

HINTS: dict[str, Hint] = {
    **dict.fromkeys(("--steps", "--max-steps", "--train-steps", "--iterations", "--updates", "--max-updates"), _STEPS),
    **dict.fromkeys(("--epochs", "--max-epochs", "--num-epochs", "--epoch"), _EPOCHS),
    **dict.fromkeys(("--lr", "--learning-rate"), _RATE),
    **dict.fromkeys(("--batch-size", "--batch"), _BATCH),
    **dict.fromkeys(("--batch-tokens", "--tokens-per-batch"), _TOKENS),
    **dict.fromkeys(("--validate-every", "--valid-every", "--eval-every", "--eval-steps", "--valid-steps"), _VALIDATE),
    **dict.fromkeys(("--checkpoint-every", "--save-every", "--save-steps"), _SAVE),
    **dict.fromkeys(("--log-every", "--logging-steps", "--log-interval"), _LOG),
    **dict.fromkeys(("--warmup", "--warmup-steps", "--warm-up"), _WARMUP),
    **dict.fromkeys(("--clip", "--grad-clip", "--clip-norm", "--max-grad-norm"), _CLIP),
    **dict.fromkeys(("--accumulate", "--gradient-accumulation-steps", "--update-freq"), _ACCUMULATE),
    **dict.fromkeys(("--warm-start", "--init-from", "--pretrained", "--finetune", "--finetune-from"), _START),
    "--patience": Hint(
        (), ("training.patience",), ("stopping=patience", "patience"), ("method=beam", "stopping=patience", "patience")
    ),
    "--early-stopping": Hint(config=("training.patience",)),
    **dict.fromkeys(("--optimizer", "--optimiser", "--optim"), Hint(config=("training.optimiser.kind",))),
    **dict.fromkeys(("--schedule", "--scheduler", "--lr-scheduler"), Hint(config=("training.schedule.kind",))),
    "--weight-decay": Hint(config=("training.optimiser.weight_decay",)),
    "--label-smoothing": Hint(config=("training.label_smoothing",)),
    "--ema": Hint(config=("training.ema",)),
    "--average": Hint(config=("training.average",)),
    "--metric": Hint(config=("training.metric",)),
    "--keep": Hint(config=("training.keep",)),
    **dict.fromkeys(("--threads", "--num-threads", "--cpus"), Hint(config=("training.threads",))),
    **dict.fromkeys(("--workers", "--num-workers"), Hint(config=("training.batch.workers",))),
    "--compile": Hint(config=("training.compile=true",)),
    "--deterministic": Hint(config=("training.deterministic=true",)),
    "--tensorboard": Hint(config=("training.tensorboard=true",)),
    "--precision": Hint(config=("training.precision",)),
    **dict.fromkeys(("--bf16", "--bfloat16"), _BFLOAT16),
    **dict.fromkeys(("--fp16", "--half"), _FLOAT16),
    "--device": Hint(config=("training.device",)),
    **dict.fromkeys(("--gpu", "--gpus", "--cuda", "--use-gpu"), _GPU),
    **dict.fromkeys(("--cpu", "--no-cuda"), Hint(("--device cpu",), ("training.device=cpu",))),
    "--seed": Hint((), ("seed",), ("method=sample", "seed"), ("seed",)),
    **dict.fromkeys(("--vocab-size", "--vocabulary-size", "--vocab"), Hint(config=("text.vocabulary_size",))),
    **dict.fromkeys(("--tokenizer", "--tokeniser", "--tokenization"), Hint(config=("text.kind",))),
    "--dropout": Hint(config=("model.encoder.dropout", "model.decoder.dropout")),
    **dict.fromkeys(("--layers", "--num-layers"), Hint(config=("model.encoder.layers", "model.decoder.layers"))),
    **dict.fromkeys(
        ("--width", "--hidden-size", "--hidden", "--dim"), Hint(config=("model.encoder.width", "model.decoder.width"))
    ),
    **dict.fromkeys(("--model", "--arch", "--architecture"), Hint(("--system",))),
    **dict.fromkeys(("--name", "--run-name", "--run-dir", "--experiment"), Hint(("--run",))),
    **dict.fromkeys(("--continue", "--restart", "--checkpoint"), Hint(("--resume",))),
    **dict.fromkeys(("--output", "--out", "--output-dir", "--save-dir", "--save", "-o"), _OUTPUT),
    **dict.fromkeys(("--input", "--src", "--source", "--file", "-i"), _SOURCE),
    **dict.fromkeys(("--target", "--tgt", "--trg", "--ref", "--reference", "--references"), _TARGET),
    **dict.fromkeys(("--valid-src", "--dev-src", "--dev-source"), Hint(("--valid-source",))),
    **dict.fromkeys(("--valid-tgt", "--dev-tgt", "--dev-target"), Hint(("--valid-target",))),
    **dict.fromkeys(("--beam", "--beam-size", "--num-beams", "--beams", "--beam-width"), _BEAM),
    **dict.fromkeys(("--n-best", "--nbest", "--num-return-sequences"), _NBEST),
    **dict.fromkeys(("--temperature", "--temp"), _TEMPERATURE),
    **dict.fromkeys(("--sample", "--sampling", "--do-sample"), _SAMPLE),
    "--method": Hint((), ("search.method",), ("method",)),
    "--mbr": Hint((), ("search.method=risk",), ("method=risk",), ()),
    "--samples": Hint((), ("training.samples",), ("method=risk", "samples"), ()),
    "--top-k": Hint((), ("search.method=sample", "search.top_k"), ("method=sample", "top_k")),
    "--top-p": Hint((), ("search.method=sample", "search.top_p"), ("method=sample", "top_p")),
    "--min-p": Hint((), ("search.method=sample", "search.min_p"), ("method=sample", "min_p")),
    "--length-penalty": Hint((), ("search.length_penalty",), ("length_penalty",), ("method=beam", "length_penalty")),
    **dict.fromkeys(("--coverage", "--coverage-penalty"), Hint((), ("search.coverage",), ("coverage",), ())),
    **dict.fromkeys(("--no-repeat", "--no-repeat-ngram-size"), Hint((), ("search.no_repeat",), ("no_repeat",))),
    **dict.fromkeys(("--max-length", "--max-len"), _MAXIMUM),
    **dict.fromkeys(("--max-tokens", "--max-new-tokens"), _MAXIMUM._replace(config=("training.batch.tokens",))),
    **dict.fromkeys(("--min-length", "--min-len"), Hint((), ("search.minimum",), ("minimum",))),
    **dict.fromkeys(
        ("--glossary", "--terminology", "--require", "--required", "--force-words", "--constraints"),
        Hint(("--terms",), note="a file of source terms and the phrases that they require"),
    ),
    "--forbid-word": Hint(("--forbid",), note="a file with one word per line"),
    **dict.fromkeys(("--lm", "--language-model"), Hint(("--language",))),
    "--prefix": Hint(("--prefixes", "--prompt")),
    **dict.fromkeys(("--json", "--jsonl"), Hint(("--format jsonl",))),
}
"""Maps options that users write to hints; a command that has the option itself gives no hint."""


class HintingCommand(SingleValueCommand):
    """A command that rejects repeated options, and suggests the equivalents of options that other toolkits have."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the command line; a ConfigError states what is wrong with it."""
        given = list(args)
        try:
            return list(super().parse_args(ctx, args))
        except UsageError as error:
            known = {name for parameter in self.params for name in (*parameter.opts, *parameter.secondary_opts)}
            if getattr(error, "option_name", None) not in known | {None}:  # an option that does not exist
                problems = list(self._problems(given, known=known))
                if problems:
                    raise ConfigError("\n".join(problems)) from None
            refuse_usage(error, ctx=ctx)
            raise

    def _problems(self, arguments: Sequence[str], *, known: set[str]) -> Iterator[str]:
        """Yields a line for each given option that the command does not have but for which there is a hint."""
        takes = {str(parameter.name) for parameter in self.params}
        for position, argument in enumerate(arguments):
            name, has_value, value = argument.partition("=")
            if name in known or name not in HINTS:
                continue
            following = arguments[position + 1] if position + 1 < len(arguments) else "-"
            if not has_value and not following.startswith("-") and "=" not in following:
                has_value, value = "=", following
            hint = _possible_here(name, value=value if has_value else None)
            if hint is None:
                yield f"no such option: {name}; this machine has no GPU that torch can use, so leave the option out"
                continue
            suggestion = _suggestion(hint, known=known, takes=takes, value=value if has_value else None)
            if suggestion:
                yield f"no such option: {name}; use {suggestion}"


def _possible_here(name: str, *, value: str | None) -> Hint | None:
    """The hint for the option `name`, adapted to this machine; None if it requests a GPU and there is none."""
    hint = HINTS[name]
    if name == "--device" and (value or "").startswith(("cuda", "gpu")):
        hint = _GPU
    if hint not in (_GPU, _FLOAT16):
        return hint
    import torch  # loaded only here, as it takes seconds

    if torch.cuda.is_available():
        return hint
    if hint is _FLOAT16:
        return _BFLOAT16
    return _MPS if torch.backends.mps.is_available() else None


def _suggestion(hint: Hint, *, known: set[str], takes: set[str], value: str | None) -> str:
    """The option (one of `known`) or setting that replaces an option of another toolkit, ready to paste; "" if none."""
    shown = "VALUE" if value is None or hint.note else shlex.quote(value)
    note = f" ({hint.note})" if hint.note else ""
    for option in hint.options:
        if option.partition(" ")[0] in known:
            return f"{option}{note}" if " " in option else f"{option} {shown}{note}"
    search = hint.search if hint.generate is None or "prompt" not in takes else hint.generate
    keys = hint.config if "overrides" in takes else search if "settings" in takes else ()
    return " ".join(key if "=" in key else f"{key}={shown}" for key in keys) + (note if keys else "")
