"""Pictures of gradient flow, if matplotlib is installed: norms by distance, eigenvalues, Jacobians, gates, training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calque.inspection.gradient_flow import top_states
from calque.training.journal import read_journal
from calque.training.records import GRADIENTS

Document = Mapping[str, Any]
ACCENT, SECOND, GREY = "#0072b2", "#d55e00", "#888888"
TERM_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "black")
SIDE_TITLES = {
    "encoder": "loss of target token i, encoder state of source token j",
    "decoder": "loss of target token i, decoder state at j",
    "network": "loss of token i, state at j",
}
DISTANCES = {"steps": "steps from j to i without attention", "positions": "distance i − j"}
FEWEST = 5  # pairs of a distance that is drawn
DECADES = 12  # norms that many orders of magnitude below the largest are not drawn
GAIN = "Frobenius norm / √D"
WATCHED_DISTANCES = (1, 2, 4, 8, 16)


def draw_gradient_flow(document: Document, *, folder: Path) -> list[Path]:
    """Writes pictures of a gradient-flow report (the JSON object of `gradient_flow`) as SVG and PNG files.

    Returns the paths of the files. A picture for which the report has no data is left out. Without matplotlib, no file
    is written.
    """
    figures = {
        "gradient-norms": norms_picture(document),
        "eigenvalues": eigenvalues_picture(document),
        "jacobian-terms": terms_picture(document),
    }
    return [path for name, figure in figures.items() if figure is not None for path in save(figure, folder / name)]


def save(figure: Any, path: Path, *, suffixes: Sequence[str] = ("svg", "png")) -> list[Path]:
    """Writes a figure as PATH.svg and PATH.png, or with other `suffixes`; returns the paths of the files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    paths = [path.with_name(f"{path.name}.{suffix}") for suffix in suffixes]
    for file in paths:
        figure.savefig(file, dpi=120)
    return paths


def norms_picture(document: Document) -> Any:
    """A picture of the gradient norms ‖∂J(i)/∂h(j)‖ of the loss at i with respect to the state at j, by distance.

    It shows the median of each layer and, for the top layer, the range from the 10th to the 90th percentile.
    """
    flows = list(document["flows"])
    sides = list(dict.fromkeys(flow["side"] for flow in flows))
    figure = _figure(width=6.4 * len(sides), height=4.4)
    if figure is None:
        return None
    for axes, side in zip(figure.subplots(1, len(sides), squeeze=False)[0], sides, strict=True):
        shown = list(top_states(flows, side=side))
        layers = max(flow["layer"] for flow in shown)
        for flow in shown:
            _flow_curve(axes, flow, layers=layers)
        _norm_axes(axes, title=SIDE_TITLES[side], distance=shown[0]["distance"])
    figure.suptitle(_title(document), x=0.01, ha="left", fontsize=10)
    return figure


def compared_norms_picture(
    documents: Mapping[str, Document], *, side: str, layer: int | None = None, title: str = ""
) -> Any:
    """A picture that compares the gradient norms of several models in one layer, by default the top one.

    It shows the median norm of the loss's gradient with respect to a state, by the state's distance from the loss in
    time steps.
    """
    figure = _figure(width=7.0, height=4.4)
    if figure is None:
        return None
    axes, distance = figure.subplots(), "positions"
    for colour, (label, document) in zip(_colours(len(documents)), documents.items(), strict=True):
        shown = [flow for flow in top_states(list(document["flows"]), side=side) if flow["direction"] != "backward"]
        chosen = max(flow["layer"] for flow in shown) if layer is None else layer
        for flow in shown:
            if flow["layer"] == chosen:
                distance = flow["distance"]
                _median(axes, flow, label=f"{label}{_factor(flow)}", color=colour)
    _norm_axes(axes, title=title, distance=distance)
    return figure


def depth_picture(documents: Mapping[str, Document], *, side: str, distance: int, title: str = "") -> Any:
    """A picture of the median gradient norms of several models by layer, at one `distance` between state and loss."""
    figure = _figure(width=7.0, height=4.4)
    if figure is None:
        return None
    axes = figure.subplots()
    for colour, (label, document) in zip(_colours(len(documents)), documents.items(), strict=True):
        points = [
            (flow["layer"], median)
            for flow in top_states(list(document["flows"]), side=side)
            for at, median in zip(flow["distances"], flow["quantiles"]["0.5"], strict=True)
            if at == distance and median > 0 and flow["direction"] != "backward"
        ]
        axes.plot(*zip(*sorted(points), strict=True), "o-", label=label, color=colour, markersize=4)
    axes.set_yscale("log")
    _label(axes, title=title, x="layer; 0: the embeddings", y="median ‖∂J(i)/∂h(j)‖")
    return figure


def compared_clipping_picture(runs: Mapping[str, Sequence[Document]]) -> Any:
    """A picture of loss and gradient norm of several runs over training, from the lines of their metrics.jsonl."""
    figure = _figure(width=11, height=3.8)
    if figure is None:
        return None
    loss, norm = figure.subplots(1, 2)
    for colour, (label, all_lines) in zip((SECOND, ACCENT, *_colours(len(runs))), runs.items(), strict=False):
        lines = [line for line in all_lines if line["gradient_norm"] > 0]  # of updates that were not skipped
        for axes, key in ((loss, "loss"), (norm, "gradient_norm")):
            axes.plot([line["step"] for line in lines], [line[key] for line in lines], label=label, color=colour)
    loss.set_yscale("log")
    norm.set_yscale("log")
    _label(loss, title="training loss, nats per token", x="step", y="")
    _label(norm, title="gradient norm before clipping", x="step", y="")
    return figure


def eigenvalues_picture(document: Document) -> Any:
    """A picture of the eigenvalues of each recurrent layer's matrices and of its mean Jacobian, with the unit circle.

    None for a model without recurrent layers.
    """
    recurrences = document["recurrences"]
    if not recurrences:
        return None
    columns = max(len(item["matrices"]) + (item["jacobian"] is not None) for item in recurrences)
    figure = _figure(width=2.7 * columns, height=2.9 * len(recurrences) + 0.3)
    if figure is None:
        return None
    rows = figure.subplots(len(recurrences), columns, squeeze=False)
    for row, item in zip(rows, recurrences, strict=True):
        panels = [(f"U, {matrix['gate']}", matrix, ACCENT) for matrix in item["matrices"]]
        if item["jacobian"] is not None:
            panels.append((f"mean {item['jacobian']['of']}", item["jacobian"]["mean"], SECOND))
        for axes in row[len(panels) :]:
            axes.set_visible(False)
        for axes, (title, matrix, colour) in zip(row, panels, strict=False):
            _plane(axes, matrix["eigenvalues"], colour=colour)
            axes.set_title(f"{title}\nρ = {matrix['spectral_radius']:.2f}", fontsize=8, loc="left")
        row[0].set_ylabel(_layer_label(item), fontsize=8)
    figure.suptitle(_title(document), x=0.01, ha="left", fontsize=10)
    return figure


def terms_picture(document: Document) -> Any:
    """A picture of the terms of each recurrent layer's Jacobian and of the layer's gates, by time step.

    None for a model without recurrent layers.
    """
    recurrences = [item for item in document["recurrences"] if item["jacobian"] is not None]
    if not recurrences:
        return None
    columns = 2 if any(item["gates"] for item in recurrences) else 1
    figure = _figure(width=1.0 + 5.0 * columns, height=2.7 * len(recurrences) + 0.3)
    if figure is None:
        return None
    for row, item in zip(figure.subplots(len(recurrences), columns, squeeze=False), recurrences, strict=True):
        terms = row[0]
        steps = item["jacobian"]["steps"]
        gains = item["jacobian"]["gains"]
        single = len(gains) == 2  # the only term is the total
        for colour, (name, values) in zip(TERM_COLOURS, gains.items(), strict=False):
            if not (single and name == "total"):
                label = f"through {name}" if name.endswith(("gate", "candidate")) else name
                terms.plot(steps, values, label=label, color="black" if name == "total" else colour)
        if item["bound"] is not None:
            terms.axhline(item["bound"]["per_step"], color=GREY, linestyle="--", label="bound")
        _label(terms, title=f"{_layer_label(item)}: gain of {item['jacobian']['of']}", x="step t", y=GAIN)
        terms.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
        terms.set_ylim(bottom=0)
        if columns == 1:
            continue
        gates = row[1]
        for colour, (name, gate) in zip(TERM_COLOURS, item["gates"].items(), strict=False):
            gates.plot(steps, gate["by_step"], label=f"{name}, mean {gate['mean']:.2f}", color=colour)
        gates.set_ylim(0, 1)
        _label(gates, title="gates", x="step t", y="mean over units")
        gates.set_visible(bool(item["gates"]))
    figure.suptitle(_title(document), x=0.01, ha="left", fontsize=10)
    return figure


def draw_recorded_gradients(run: Path) -> bool:
    """Draws RUN/plots/gradients.svg and .png from gradients.jsonl; False if there is no matplotlib or no record."""
    lines = read_journal(run / GRADIENTS)
    if not lines:
        return False
    figure = _figure(width=14, height=7.2)
    if figure is None:
        return False
    (first, factors, clipped), (radius, gates, gains) = figure.subplots(2, 3)
    names = list(dict.fromkeys(flow["name"] for flow in lines[-1]["flows"] if flow["state"] != "embedding"))
    colours = dict(zip(names, _colours(len(names)), strict=True))
    for name in names:
        _watched_curve(factors, lines, name, colours[name])
    deepest = next(filter(_goes_back, reversed(lines[-1]["flows"])), None)
    if deepest is not None:
        for colour, distance in zip(_colours(len(WATCHED_DISTANCES)), WATCHED_DISTANCES, strict=True):
            _watched_distance(first, lines, deepest, distance, colour)
        first.set_yscale("log")
    for name in names:
        _watched_recurrence(radius, lines, name, "spectral_radius", colours[name])
        _watched_recurrence(gates, lines, name, "gates", colours[name])
        _watched_recurrence(gains, lines, name, "gains", colours[name])
    metrics = [line for line in read_journal(run / "metrics.jsonl") if line.get("kind") == "train"]
    known = [line for line in metrics if "clipped" in line]
    clipped.plot([line["step"] for line in known], [line["clipped"] for line in known], color=ACCENT, label="clipped")
    titles = {
        first: f"median norm by distance, {deepest['name'] if deepest else ''}",
        factors: "factor per step of distance",
        clipped: "share of clipped steps",
        radius: "spectral radius: recurrent, forget or update gate",
        gates: "mean forget or update gate",
        gains: "gain of the Jacobian of a step",
    }
    for axes, title in titles.items():
        _label(axes, title=title, x="step", y="")
        axes.set_visible(bool(axes.lines))
    save(figure, run / "plots" / "gradients")
    return True


def _goes_back(flow: Document) -> bool:
    """Whether a layer's states affect losses at later positions; those of a Transformer's top layer do not."""
    medians = dict(zip(flow["distances"], flow["median"], strict=True))
    return flow["distance"] == "positions" and any(medians.get(distance, 0) > 0 for distance in WATCHED_DISTANCES)


def _watched_curve(axes: Any, lines: Sequence[Document], name: str, colour: Any) -> None:
    """Plots over training how fast the gradient norm of the layer `name` grows or shrinks with distance.

    A point is the factor by which the median norm changes per position between loss and state; of an LSTM, at its cell.
    """
    points = []
    for line in lines:
        factors = [flow["factor_per_step"] for flow in line["flows"] if flow["name"] == name]
        if factors and factors[-1] is not None:
            points.append((line["step"], factors[-1]))
    if points:
        axes.plot(*zip(*points, strict=True), color=colour, label=name, marker="o", markersize=3)


def _watched_distance(axes: Any, lines: Sequence[Document], of: Document, distance: int, colour: Any) -> None:
    points = []
    for line in lines:
        for flow in line["flows"]:
            medians = dict(zip(flow["distances"], flow["median"], strict=True))
            if (flow["name"], flow["state"]) == (of["name"], of["state"]) and medians.get(distance, 0) > 0:
                points.append((line["step"], medians[distance]))
    if points:
        axes.plot(*zip(*points, strict=True), color=colour, label=f"distance {distance}", marker="o", markersize=3)


RECORDED = {"spectral_radius": ("recurrent", "forget gate", "update gate"), "gates": ("forget gate", "update gate")}


def _watched_recurrence(axes: Any, lines: Sequence[Document], name: str, key: str, colour: Any) -> None:
    """Plots the recorded statistic `key` of the recurrent layer `name` over training.

    Of a statistic that is recorded for each gate, the value of the forget gate (LSTM) or update gate (GRU) is plotted.
    """
    points = []
    for line in lines:
        for item in line["recurrences"]:
            values = item[key] or {}
            chosen = [gate for gate in RECORDED.get(key, ("total",)) if gate in values]
            if item["name"] == name and chosen:
                points.append((line["step"], values[chosen[0]]))
    if points:
        axes.plot(*zip(*points, strict=True), color=colour, label=name, marker="o", markersize=3)


def _flow_curve(axes: Any, flow: Document, *, layers: int) -> None:
    colour = GREY if flow["layer"] == 0 else _colours(layers)[flow["layer"] - 1]
    style = "--" if flow["direction"] == "backward" else "-"
    _median(axes, flow, label=f"{_layer_label(flow)}{_factor(flow)}", color=colour, linestyle=style)
    if flow["layer"] == layers and style == "-":
        lowest = flow["quantiles"]["0.1"]
        known = [index for index, count in enumerate(flow["count"]) if count >= FEWEST and lowest[index] > 0]
        low, high = ([flow["quantiles"][share][index] for index in known] for share in ("0.1", "0.9"))
        axes.fill_between([flow["distances"][index] for index in known], low, high, color=colour, alpha=0.15, lw=0)


def _median(axes: Any, flow: Document, **style: Any) -> None:
    points = [
        (distance, median)
        for distance, median, count in zip(flow["distances"], flow["quantiles"]["0.5"], flow["count"], strict=True)
        if count >= FEWEST and median > 0
    ]
    if points:
        axes.plot(*zip(*points, strict=True), **style)


def _norm_axes(axes: Any, *, title: str, distance: str) -> None:
    axes.set_yscale("log")
    smallest, largest = axes.dataLim.intervaly
    if smallest < largest * 10.0**-DECADES:
        axes.set_ylim(largest * 10.0**-DECADES, largest * 10)
    _label(axes, title=title, x=DISTANCES[distance], y="median ‖∂J(i)/∂h(j)‖")


def _plane(axes: Any, eigenvalues: Sequence[Sequence[float]], *, colour: str) -> None:
    """Draws eigenvalues in the complex plane, with the unit circle."""
    real, imaginary = zip(*eigenvalues, strict=True)
    reach = 1.1 * max(1.0, *(abs(value) for value in (*real, *imaginary)))
    axes.add_patch(_circle())
    axes.plot(real, imaginary, ".", color=colour, markersize=3)
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-reach, reach)
    axes.set_aspect("equal")
    axes.axhline(0, color=GREY, linewidth=0.4)
    axes.axvline(0, color=GREY, linewidth=0.4)
    axes.tick_params(labelsize=7)


def _circle() -> Any:
    from matplotlib.patches import Circle

    return Circle((0, 0), 1, fill=False, color=GREY, linewidth=0.8)


def _label(axes: Any, *, title: str, x: str, y: str) -> None:
    axes.set_title(title, loc="left", fontsize=9)
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)
    axes.tick_params(which="both", labelsize=8)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.lines:
        axes.legend(frameon=False, fontsize=7)


def _layer_label(item: Document) -> str:
    if item["layer"] == 0:
        return "embeddings"
    state = ", cell" if item.get("state") == "cell" else ""
    side = "" if "state" in item else f"{item['side']} "
    return f"{side}layer {item['layer']}{', backward' if item['direction'] == 'backward' else ''}{state}"


def _factor(flow: Document) -> str:
    factor = flow["factor_per_step"]
    return "" if factor is None else f" (× {factor:.2f})"


def _title(document: Document) -> str:
    model = document["model"]
    return f"{model['name']}: {model['architecture']}, {document['sentences']} sentences"


def _colours(count: int) -> list[Any]:
    """`count` colours, from dark to light."""
    from matplotlib import colormaps

    return [colormaps["viridis"](0.85 * index / max(1, count - 1)) for index in range(count)]


def _figure(*, width: float, height: float) -> Any:
    """A new figure; None if matplotlib is missing."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure
