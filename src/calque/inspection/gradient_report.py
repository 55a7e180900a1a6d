"""The gradient flow of a trained run, as a JSON document and as a summary for the terminal."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from calque.config import read_toml
from calque.data.lines import LINE_LIMIT, path_lines
from calque.data.prepare import open_prepared
from calque.devices import DeviceName, PrecisionName
from calque.engine import Tagger, TextGenerator, Translator, is_statistical, load, model_kind
from calque.errors import ConfigError, DataError
from calque.inspection.document import model_summary
from calque.inspection.gradient_flow import KIND, VERSION, gradient_flow, skips_own_state, top_states
from calque.inspection.samples import TaskConfig, sample_pairs, sample_store, sample_text
from calque.inspection.state_gradients import InspectedBatch
from calque.tasks.translation import TranslationConfig
from calque.training.journal import read_journal
from calque.training.runs import CONFIG, STORE

SENTENCES = 32
SIDES = {"encoder": "encoder", "decoder": "decoder", "network": "language model"}
SHOWN = (0, 1, 2, 4, 8, 16, 32)  # distances in the terminal
EXPLANATIONS = {
    ("steps", True): (
        "distance: the number of recurrent steps from reading source piece j to predicting target token i, which is 1 "
        "from the piece read last to the first token; attention is a shortcut of one step"
    ),
    ("positions", True): "distance i − j, in words, from the word that was read to the word that is labelled",
    ("positions", False): "distance i − j, in tokens; the state at i is the one after token i − 1 was read",
}
"""What the distances of a side mean, by their unit and whether the side is an encoder."""
SKIPPED = (
    "the gradient at distance 0 is 0: this decoder predicts token i from the previous state, s(i−1), and from "
    "attention (Bahdanau 2015, A.2.2)"
)


def gradient_flow_report(
    run: Path,
    *,
    source: Path | None = None,
    target: Path | None = None,
    sentences: int = SENTENCES,
    device: DeviceName = "auto",
    precision: PrecisionName = "float64",
) -> dict[str, Any]:
    """The gradient-flow document of a run's model (format: see the module `gradient_flow`).

    It is measured on at most `sentences` sentence pairs of two files (for a language model, lines of `target`) or, if
    no files are given, on evenly spaced rows of the run's validation data.
    """
    if is_statistical(run):
        raise ConfigError(f"{run} is a statistical model: it is estimated from counts and has no gradients")
    loaded = load(run, device=device, precision=precision)
    if not isinstance(loaded, Translator | TextGenerator | Tagger):
        raise ConfigError(
            f"{run} is {model_kind(loaded)}; gradient flow can be measured only for neural translation models, "
            "language models and taggers"
        )
    batches = _file_batches(loaded, run, source=source, target=target, sentences=sentences)
    if batches is None:
        batches = sample_store(_task(loaded), open_prepared(_store(run)).valid, sentences=sentences)
    return {
        "kind": KIND,
        "version": VERSION,
        "task": _task(loaded).kind,
        "model": model_summary(loaded, name=str(run)),
        **gradient_flow(loaded.model, batches),
        "clipping": clipped_steps(run),
    }


def clipped_steps(run: Path) -> dict[str, Any] | None:
    """The share of training steps whose gradients were clipped, from a run's metrics.jsonl; None if not recorded."""
    lines = [line for line in read_journal(run / "metrics.jsonl") if line.get("kind") == "train" and "clipped" in line]
    if not lines:
        return None
    steps, shares = [line["step"] for line in lines], [line["clipped"] for line in lines]
    lengths = [after - before for before, after in zip([0, *steps], steps, strict=False)]
    total = sum(share * length for share, length in zip(shares, lengths, strict=True))
    return {"share": total / max(1, sum(lengths)), "steps": steps, "shares": shares}


def gradient_flow_summary(document: Mapping[str, Any]) -> str:
    """A summary of a gradient flow (the JSON described in `gradient_flow`) as text for a terminal."""
    model = document["model"]
    return "\n".join(
        [
            f"{model['name']}: {model['architecture']}, {model['parameters']:,} parameters",
            f"{document['sentences']} sentences, loss {document['loss']:.3f} nats per token",
            *_flow_lines(document["flows"]),
            *_recurrence_lines(document["recurrences"]),
            *_clipping_lines(document["clipping"]),
        ]
    )


def _flow_lines(flows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for side, title in SIDES.items():
        shown = list(top_states([dict(flow) for flow in flows], side=side))
        if not shown:
            continue
        unit = "steps" if shown[0]["distance"] == "steps" else "positions"
        distances = [at for at in SHOWN if any(at in flow["distances"] for flow in shown)]
        yield ""
        yield f"{title}: median ‖∂J(i)/∂h(j)‖ by distance in {unit}, and its factor per step"
        yield f"  {EXPLANATIONS[unit, side == 'encoder']}"
        if skips_own_state(shown):
            yield f"  {SKIPPED}"
        width = max(len(_layer_name(flow)) for flow in shown)
        yield "  ".join(["layer".ljust(width), *(f"{at:>8}" for at in distances), "  factor"])
        for flow in shown:
            medians = dict(zip(flow["distances"], flow["quantiles"]["0.5"], strict=True))
            cells = [f"{medians[at]:8.1e}" if at in medians else " " * 8 for at in distances]
            factor = flow["factor_per_step"]
            yield "  ".join([_layer_name(flow).ljust(width), *cells, " " * 8 if factor is None else f"{factor:8.3f}"])


def _recurrence_lines(recurrences: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not recurrences:
        return
    yield ""
    yield "recurrent layers: spectral radius ρ and norm σ of each recurrent matrix; the Jacobian of a step on this data"
    for item in recurrences:
        matrices = (
            f"{matrix['gate']} ρ {matrix['spectral_radius']:.3f} σ {matrix['spectral_norm']:.3f}"
            for matrix in item["matrices"]
        )
        yield f"{SIDES[item['side']]} {_layer_name(item)} ({item['cell']}): {'; '.join(matrices)}"
        if item["bound"] is not None:
            per_step = item["bound"]["per_step"]
            verdict = "gradients through this layer vanish" if per_step < 1 else "gradients may grow"
            yield f"  {item['bound']['of']} ≤ {per_step:.3f}: {verdict}"
        if item["jacobian"] is not None:
            gains = item["jacobian"]["gains"]
            means = {name: sum(values) / len(values) for name, values in gains.items()}
            listed = ", ".join(
                f"{name} {gain:.3f}" for name, gain in means.items() if len(gains) > 2 or name == "total"
            )
            radius = item["jacobian"]["mean"]["spectral_radius"]
            yield f"  {item['jacobian']['of']}: gain {listed}; ρ of the mean {radius:.3f}"
        if item["gates"]:
            yield "  mean " + ", ".join(f"{name} {gate['mean']:.3f}" for name, gate in item["gates"].items())


def _clipping_lines(clipping: Mapping[str, Any] | None) -> Iterator[str]:
    yield ""
    if clipping is None:
        yield "clipped in training: not recorded, because this is a model folder or training.clip was 0"
    else:
        yield f"clipped in training: {clipping['share']:.1%} of the steps"


def _layer_name(item: Mapping[str, Any]) -> str:
    if item["layer"] == 0:
        return "embeddings"
    state = {"cell": ", cell"}.get(item.get("state", ""), "")
    direction = ", backward" if item["direction"] == "backward" else ""
    return f"layer {item['layer']}{direction}{state}"


def _file_batches(
    loaded: Translator | TextGenerator | Tagger, run: Path, *, source: Path | None, target: Path | None, sentences: int
) -> list[InspectedBatch] | None:
    """Batches of the first `sentences` lines of the files `source` and `target`; None if neither is given."""
    if source is None and target is None:
        return None
    match loaded:
        case Translator() if source is not None and target is not None:
            sources, targets = _lines(source, sentences), _lines(target, sentences)
            if len(sources) != len(targets):
                raise DataError(
                    f"{source} has {len(sources)} lines, but {target} has {len(targets)}; "
                    "line n of one must translate line n of the other"
                )
            return sample_pairs(loaded, sources, targets)
        case TextGenerator() if source is None and target is not None:
            return sample_text(loaded, _lines(target, sentences))
        case Translator():
            given, missing = ("--target", "--source") if source is None else ("--source", "--target")
            raise DataError(
                f"{given} was given without {missing}; gradient flow of a translation model needs both, or neither to "
                "use the validation data"
            )
        case TextGenerator():
            raise DataError(
                f"--source was given, but {run} is a language model and reads no source; pass its text as --target FILE"
            )
        case Tagger():
            raise DataError(
                f"{run} is a tagger; its gradients are always measured on its validation data, so leave out --source "
                "and --target"
            )


def _lines(path: Path, limit: int) -> list[str]:
    """The first `limit` lines of a file."""
    return [line.text for line in islice(path_lines(path, limit=LINE_LIMIT, invalid="fail"), limit)]


def _task(loaded: Translator | TextGenerator | Tagger) -> TaskConfig:
    return TranslationConfig() if isinstance(loaded, Translator) else loaded.task


def _store(run: Path) -> Path:
    """The folder with the prepared data of a run."""
    config = read_toml(run / CONFIG) if (run / CONFIG).is_file() else {}
    data = config.get("data")
    store = Path(data["store"]) if isinstance(data, dict) and "store" in data else run / STORE
    if not store.is_dir():
        raise DataError(
            f"{run} has no prepared data to measure gradients on; give --source and --target (--target alone for a "
            "language model)"
        )
    return store
