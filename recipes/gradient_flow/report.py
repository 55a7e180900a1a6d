"""The table and the pictures of gradient flow from a folder of runs.

    python -m recipes.gradient_flow.report OUT CORPUS --keep recipes/gradient_flow/results.json
    python -m recipes.gradient_flow.report recipes/gradient_flow/results.json --write recipes/gradient_flow/README.md

The first command measures the gradient flow of every run on 64 pairs of val (OUT/flows/VARIANT.json) and saves what the
table and the pictures need; the second writes the table into a page, and the pictures next to it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calque.inspection.gradient_flow import top_states
from calque.inspection.gradient_report import clipped_steps, gradient_flow_report
from calque.inspection.pictures_gradients import (
    compared_clipping_picture,
    compared_norms_picture,
    depth_picture,
    eigenvalues_picture,
    save,
    terms_picture,
)
from calque.training.journal import read_journal
from recipes.runner.files import read_json, write_json
from recipes.runner.pages import publish, report_parser, table
from recipes.runner.results import read_tested
from recipes.runner.variants import read_lists

HERE = Path(__file__).resolve().parent
LISTS = (HERE / "gradient_flow.toml",)
SENTENCES, SEED = 64, 1
MEMORY, ATTENTION = ("rnn", "gru", "lstm"), ("rnn", "rnn-attention", "lstm", "lstm-attention", "transformer")
CLIPPING = ("exploding", "clipped")
DEEP = ("deep", "deep-residual", "deep-highway", "deep-dense")
FAR = 16  # a distance in the table

Results = Mapping[str, Mapping[str, Any]]


def collect(out: Path, corpus: Path) -> dict[str, Any]:
    """The gradient flow, loss and scores of every trained run."""
    results = {}
    for name, row in read_lists(LISTS).rows.items():
        run = out / f"{name}-{SEED}"
        if not (run / "trained").exists():
            continue
        tested = read_tested(out, name)
        lines = read_journal(run / "metrics.jsonl")
        results[name] = {
            "label": row.label,
            "flow": _flow(run, corpus, out / "flows" / f"{name}.json", label=row.label, cells=name in MEMORY),
            "valid": [{"step": line["step"], "loss": line["loss"]} for line in lines if line["kind"] == "valid"],
            "train": [
                {key: line.get(key) for key in ("step", "loss", "gradient_norm", "clipped", "skipped")}
                for line in lines
                if line["kind"] == "train" and name in CLIPPING
            ],
            "clipped": (clipped_steps(run) or {}).get("share"),
            "bleu": [test.bleu for test in tested],
        }
    return results


def _flow(run: Path, corpus: Path, path: Path, *, label: str, cells: bool) -> dict[str, Any]:
    """The part of a run's gradient flow that the page needs, measured once; with `cells`, it has eigenvalues too."""
    if not path.exists():
        source, target = (corpus / f"val.{language}.gz" for language in ("en", "de"))
        document = gradient_flow_report(run, source=source, target=target, sentences=SENTENCES, device="cpu")
        write_json(path, document)
    document = dict(read_json(path))
    document["model"]["name"] = label
    document["flows"] = [
        _median_only(flow) for side in ("encoder", "decoder") for flow in top_states(document["flows"], side=side)
    ]
    kept = {key: value for key, value in document.items() if key != "clipping" and (cells or key != "recurrences")}
    return _rounded(kept)  # type: ignore[no-any-return]


def _rounded(value: Any) -> Any:
    """Rounds all numbers in a value to four digits."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return {key: _rounded(part) for key, part in value.items()} if isinstance(value, dict) else value


def _median_only(flow: dict[str, Any]) -> dict[str, Any]:
    """The part of a flow that the table and the pictures need: medians, without means."""
    return {key: value for key, value in flow.items() if key != "mean"} | {
        "quantiles": {"0.5": flow["quantiles"]["0.5"]}
    }


def page(results: Results) -> str:
    """The table of the page: one row per model."""
    header = (
        *("model", "encoder: factor per step", "decoder: factor per step", f"decoder: norm at {FAR} / at 1"),
        *("clipped steps", "validation loss", "test BLEU, greedy"),
    )
    return table(header, [_row(result) for result in results.values()])


def _row(result: Mapping[str, Any]) -> tuple[str, ...]:
    encoder, decoder = (_top(result["flow"], side) for side in ("encoder", "decoder"))
    losses = [line["loss"] for line in result["valid"]]
    return (
        result["label"],
        _number(encoder["factor_per_step"]),
        _number(decoder["factor_per_step"]),
        _ratio(decoder),
        "" if result["clipped"] is None else f"{result['clipped']:.0%}",
        f"{min(losses):.3f}",
        ", ".join(f"{bleu:.1f}" for bleu in result["bleu"]),
    )


def _top(flow: Mapping[str, Any], side: str) -> Mapping[str, Any]:
    """The gradient flow of the top layer; for an LSTM, that of its cell."""
    return max(top_states(flow["flows"], side=side), key=lambda item: int(item["layer"]))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _ratio(flow: Mapping[str, Any]) -> str:
    medians = dict(zip(flow["distances"], flow["quantiles"]["0.5"], strict=True))
    return f"{medians[FAR] / medians[1]:.1e}" if FAR in medians and medians.get(1) else ""


def draw(folder: Path, results: Results) -> None:
    """Draws all pictures of the page."""

    def flows(names: tuple[str, ...]) -> dict[str, Any]:
        return {results[name]["label"]: results[name]["flow"] for name in names if name in results}

    pictures = {
        "memory": compared_norms_picture(
            flows(MEMORY), side="decoder", title="loss of target token i, decoder state (cell of the LSTM) at j"
        ),
        "source": compared_norms_picture(
            flows(ATTENTION), side="encoder", title="loss of target token i, encoder state of source token j"
        ),
        "depth": depth_picture(
            flows(DEEP), side="decoder", distance=0, title="loss of target token i, decoder layers at i"
        ),
        "depth-encoder": depth_picture(
            flows(DEEP),
            side="encoder",
            distance=FAR,
            title=f"loss of a target token, encoder layers {FAR} steps before",
        ),
        "clipping": compared_clipping_picture(
            {results[name]["label"]: results[name]["train"] for name in CLIPPING if name in results}
        ),
    }
    for name, picture in pictures.items():
        save(picture, folder / name, suffixes=("png",))
    for name in MEMORY:
        if name in results:
            for kind, picture in (("eigenvalues", eigenvalues_picture), ("terms", terms_picture)):
                save(picture(results[name]["flow"]), folder / f"{kind}-{name}", suffixes=("png",))


def _main() -> None:
    parser = report_parser(__doc__)
    parser.add_argument(
        "corpus", type=Path, nargs="?", help="the folder that holds val; required if PATH is a folder of runs"
    )
    options = parser.parse_args()
    if options.path.is_dir() and not options.corpus:
        parser.error("to measure a folder of runs, name the corpus too: OUT CORPUS")
    results = publish(options, collect=lambda out: collect(out, options.corpus), page=page)
    if options.write:
        draw(options.write.parent, results)


if __name__ == "__main__":
    _main()
