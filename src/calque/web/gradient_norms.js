/** Gradient norms by distance: a chart for every side with a curve for every layer, and the numbers. */

import {lineChart} from "calque/charts";
import {checkbox, select} from "calque/controls";
import {fill, h} from "calque/dom";
import {flowName, known, sideName} from "calque/gradient_names";
import {t} from "calque/i18n";
import {MISSING, count, isNumber, short} from "calque/numbers";
import {lazyDetails, table} from "calque/table";

const FEWEST = 5; // pairs of a distance that is drawn
const SHOWN = [0, 1, 2, 4, 8, 16, 32]; // distances in the summary
const NONE = "none";

/** The sides of a document, in order. */
export const sidesOf = (flows) => [...new Set(flows.map((flow) => flow.side))];

/** The panel with the charts; `chosen` keeps what the reader chose. */
export function normsPanel({flows}, chosen) {
  chosen.bands ??= {};
  const hasCells = flows.some((flow) => flow.state === "cell");
  const body = h("div", {});
  const draw = () => fill(body, sidesOf(flows).map((side) => sideBlock(flows, side, chosen, draw)));
  const withHidden = (value) => ((chosen.hidden = value), draw());
  draw();
  return [
    h("p", {class: "explanation"}, t("flow.explanation")),
    hasCells ? h("div", {class: "controls"}, checkbox({label: t("flow.hidden"), checked: Boolean(chosen.hidden), onchange: withHidden})) : null,
    body,
    h("p", {class: "hint block"}, t("flow.fewest", {count: FEWEST})),
  ];
}

/** What the distances of a side mean, and why a decoder may have no gradient at distance 0. */
export function distanceNotes(flows, side) {
  const shown = flows.filter((flow) => flow.side === side);
  const meaning = shown[0].distance === "positions" && side === "encoder" ? "words" : shown[0].distance;
  const skips = shown.some(({direction, distances, mean}) => side === "decoder" && direction && distances[0] === 0 && mean[0] === 0 && mean.some((value) => value > 0));
  return [h("p", {class: "hint"}, known("flow.distance", meaning)), skips ? h("p", {class: "note"}, t("flow.skipped")) : null];
}

function sideBlock(flows, side, chosen, redraw) {
  const shown = chosen.hidden ? flows.filter((flow) => flow.side === side) : topStates(flows, side);
  const curves = shown.map((flow) => ({flow, points: curve(flow)}));
  const drawn = curves.filter(({points}) => points.some(({y}) => isNumber(y) && y > 0));
  const empty = curves.filter((item) => !drawn.includes(item));
  const banded = chosen.bands[side] ?? keyOf(topOf(drawn.map(({flow}) => flow)));
  const unit = shown[0].distance;
  const series = drawn.map(({flow, points}) => ({
    name: `${flowName(flow)}${isNumber(flow.factor_per_step) ? ` (× ${short(flow.factor_per_step)})` : ""}`,
    points,
    spread: keyOf(flow) === banded ? "band" : "none",
  }));
  const title = known("flow.chart", side);
  const options = [{value: NONE, label: t("flow.no-band")}, ...drawn.map(({flow}) => ({value: keyOf(flow), label: flowName(flow)}))];
  const choose = (value) => ((chosen.bands[side] = value), redraw());
  return h(
    "section",
    {class: "block", "aria-label": title},
    h("h2", {}, title),
    distanceNotes(flows, side),
    drawn.length
      ? [
          h("div", {class: "controls"}, select({label: t("flow.band"), options, value: banded, onchange: choose})),
          lineChart({
            label: title,
            series,
            x: {label: t(`flow.axis.${unit}`)},
            y: {label: t("flow.median"), logarithmic: true, format: (value) => short(value, 2)},
            height: 340,
          }),
        ]
      : null,
    empty.length ? h("p", {class: "note"}, t("flow.no-gradient", {layers: empty.map(({flow}) => flowName(flow)).join(", ")})) : null,
    lazyDetails(t("heatmap.values"), () => normTable({flows: shown, side, unit})),
  );
}

/** The median by distance between the quantiles; distances with few pairs have no number. */
function curve({distances, count: pairs, quantiles}) {
  return distances.map((x, index) => ({
    x,
    y: pairs[index] >= FEWEST ? quantiles["0.5"][index] : null,
    low: quantiles["0.1"][index],
    high: quantiles["0.9"][index],
  }));
}

/** All medians of a side, with their numbers of pairs. */
function normTable({flows, side, unit}) {
  const distances = [...new Set(flows.flatMap((flow) => flow.distances))].sort((a, b) => a - b);
  return table({
    caption: t("flow.table", {side: sideName(side), unit: t(`flow.unit.${unit}`)}),
    columns: [{label: t(`flow.axis.${unit}`), numeric: true}, {label: t("flow.pairs"), numeric: true}, ...flows.map((flow) => ({label: flowName(flow), numeric: true}))],
    rows: distances.map((distance) => [
      String(distance),
      count(at(flows.find((flow) => flow.distances.includes(distance)), distance, ({count: pairs}) => pairs)),
      ...flows.map((flow) => short(median(flow, distance))),
    ]),
    rowHeads: true,
    className: "matrix",
  });
}

/** The factor per step and some medians, with a row for every state of a side. */
export function factorTable(flows, side) {
  const shown = flows.filter((flow) => flow.side === side);
  const distances = SHOWN.filter((distance) => shown.some((flow) => flow.distances.includes(distance)));
  const cell = (value, digits) => ({content: short(value, digits), sort: isNumber(value) ? value : -1});
  return table({
    caption: t("flow.table", {side: sideName(side), unit: t(`flow.unit.${shown[0].distance}`)}),
    columns: [
      {label: t("flow.layer-head")},
      {label: t("flow.factor"), numeric: true},
      ...distances.map((distance) => ({label: t("flow.at", {distance}), numeric: true})),
    ],
    rows: shown.map((flow) => [
      {content: flowName(flow), sort: flow.layer},
      cell(flow.factor_per_step, 3),
      ...distances.map((distance) => (flow.distances.includes(distance) ? cell(median(flow, distance), 2) : {content: MISSING, sort: -1})),
    ]),
    rowHeads: true,
    sortable: true,
  });
}

/** What the layers of a side remember: cells of an LSTM, else hidden states or outputs. */
function topStates(flows, side) {
  const cells = new Set(flows.filter((flow) => flow.state === "cell").map((flow) => flow.name));
  return flows.filter((flow) => flow.side === side && (!cells.has(flow.name) || flow.state === "cell"));
}

const keyOf = (flow) => (flow ? `${flow.name} ${flow.state}` : NONE);

const topOf = (flows) => flows.reduce((top, flow) => (!top || flow.layer > top.layer ? flow : top), null);

const at = (flow, distance, values) => values(flow)[flow.distances.indexOf(distance)];

const median = (flow, distance) => at(flow, distance, ({quantiles}) => quantiles["0.5"]);
