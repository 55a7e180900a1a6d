/** Recurrent layers: eigenvalues in the complex plane, the terms of the Jacobian by step, and the gates. */

import {lineChart, scatterChart} from "calque/charts";
import {select} from "calque/controls";
import {fill, h} from "calque/dom";
import {cellName, gateName, known, layerName, recurrenceName, sideName, termName} from "calque/gradient_names";
import {t} from "calque/i18n";
import {count, fixed, isNumber, short} from "calque/numbers";
import {table} from "calque/table";

const CIRCLE = {x: 0, y: 0, radius: 1};
const PLANE = 270; // the height of a plane of eigenvalues

/** The eigenvalues of the chosen layer. */
export function eigenvaluesPanel({recurrences}, chosen) {
  return forLayer(recurrences, chosen, (item) => {
    const matrices = matricesOf(item);
    return [
      h("p", {class: "explanation"}, t("flow.eigenvalues")),
      h("div", {class: "chart-grid"}, matrices.map(plane)),
      h("p", {class: "note block"}, boundText(item.bound)),
      spectraTable(matrices),
    ];
  });
}

/** The Jacobian's terms and the gates of the chosen layer. */
export function jacobiansPanel({recurrences}, chosen) {
  return forLayer(recurrences, chosen, (item) => [
    item.jacobian ? gainsBlock(item) : h("p", {class: "note"}, t("flow.no-jacobian")),
    Object.keys(item.gates).length ? gatesBlock(item) : h("p", {class: "hint block"}, t("flow.no-gates")),
  ]);
}

/** A row for every recurrent layer. */
export function recurrenceTable(recurrences) {
  const keys = ["layer-head", "cell", "radius-mean", "mean-gain", "bound-head", "mean-gates"];
  return table({
    caption: t("flow.recurrences"),
    columns: keys.map((key) => ({label: t(`flow.${key}`), numeric: ["radius-mean", "mean-gain", "bound-head"].includes(key)})),
    rows: recurrences.map((item) => [
      t("flow.side-layer", {side: sideName(item.side), layer: layerName(item)}),
      cellName(item.cell),
      fixed(item.jacobian?.mean.spectral_radius),
      fixed(mean(item.jacobian?.gains.total ?? [])),
      fixed(item.bound?.per_step),
      Object.entries(item.gates).map(([name, gate]) => t("flow.gate-mean", {gate: gateName(name), mean: fixed(gate.mean, 2)})).join(", "),
    ]),
    rowHeads: true,
  });
}

/** The element that `draw` returns for the chosen layer, below the control that chooses it. */
function forLayer(recurrences, chosen, draw) {
  chosen.recurrence = Math.min(chosen.recurrence ?? 0, recurrences.length - 1);
  const body = h("div", {});
  const show = () => {
    const item = recurrences[chosen.recurrence];
    fill(body, h("h2", {class: "print-only"}, recurrenceName(item)), draw(item));
  };
  const options = recurrences.map((item, index) => ({value: String(index), label: recurrenceName(item)}));
  const choose = (value) => ((chosen.recurrence = Number(value)), show());
  show();
  return [h("div", {class: "controls"}, select({label: t("flow.recurrent-layer"), options, value: String(chosen.recurrence), onchange: choose})), body];
}

function matricesOf({matrices, jacobian}) {
  const named = matrices.map((matrix) => ({...matrix, name: t("flow.matrix", {gate: gateName(matrix.gate)})}));
  return jacobian ? [...named, {...jacobian.mean, name: t("flow.mean-jacobian", {of: jacobian.of})}] : named;
}

/** The eigenvalues of a matrix and the unit circle. */
function plane({name, eigenvalues, spectral_radius: radius, spectral_norm: norm}) {
  const points = eigenvalues.map(([x, y]) => ({x, y, lines: [complex(x, y), isNumber(x) ? `|λ| = ${fixed(Math.hypot(x, y))}` : ""]}));
  return h(
    "section",
    {"aria-label": name},
    h("h3", {}, name),
    h("p", {class: "explanation"}, t("flow.spectrum", {radius: fixed(radius), norm: fixed(norm)})),
    scatterChart({
      label: name,
      groups: [{name: t("flow.eigenvalue-name"), points}],
      circles: [CIRCLE],
      x: {label: t("flow.real")},
      y: {label: t("flow.imaginary")},
      height: PLANE,
      equal: true,
      small: true,
    }),
  );
}

function spectraTable(matrices) {
  const outside = ({eigenvalues}) => eigenvalues.filter(([x, y]) => Math.hypot(x, y) > CIRCLE.radius).length;
  return table({
    caption: t("flow.spectra"),
    columns: ["matrix-head", "radius", "norm", "outside"].map((key, index) => ({label: t(`flow.${key}`), numeric: index > 0})),
    rows: matrices.map((matrix) => [
      matrix.name,
      fixed(matrix.spectral_radius),
      fixed(matrix.spectral_norm),
      t("facts.of", {part: count(outside(matrix)), whole: count(matrix.eigenvalues.length)}),
    ]),
    rowHeads: true,
  });
}

function boundText(bound) {
  if (!bound) return t("flow.no-bound");
  if (!isNumber(bound.per_step)) return t("flow.unknown-bound");
  return t(bound.per_step < 1 ? "flow.bound-vanishes" : "flow.bound-open", {of: known("flow.of", bound.of), bound: fixed(bound.per_step)});
}

/** The gain of every term; the total is left out where it is the only one. */
function gainsBlock({jacobian: {of, steps, gains}, bound}) {
  const names = Object.keys(gains).filter((name, _, all) => all.length > 2 || name !== "total");
  const title = t("flow.gains", {of});
  return h(
    "section",
    {"aria-label": title},
    h("h2", {}, title),
    h("p", {class: "explanation"}, t("flow.jacobian", {of})),
    lineChart({
      label: title,
      series: names.map((name) => ({name: termName(name), points: byStep(steps, gains[name])})),
      x: {label: t("flow.step")},
      y: {label: t("flow.gain"), from: 0},
      reference: isNumber(bound?.per_step) ? {value: bound.per_step, name: `${t("flow.bound-line")} ${short(bound.per_step)}`} : null,
      height: 280,
    }),
  );
}

function gatesBlock({jacobian, gates}) {
  const entries = Object.entries(gates);
  return h(
    "section",
    {class: "block", "aria-label": t("flow.gates")},
    h("h2", {}, t("flow.gates")),
    lineChart({
      label: t("flow.gates"),
      series: entries.map(([name, gate]) => ({name: gateName(name), points: byStep(jacobian?.steps ?? [], gate.by_step)})),
      x: {label: t("flow.step")},
      y: {label: t("flow.gates-axis"), from: [0, 1]},
      height: 240,
    }),
    h("div", {class: "block"}, gatesTable(entries)),
  );
}

function gatesTable(entries) {
  const shares = Object.keys(entries[0][1].quantiles);
  return table({
    caption: t("flow.all-steps"),
    columns: [
      {label: t("flow.gate-head")},
      {label: t("flow.mean"), numeric: true},
      ...shares.map((share) => ({label: t("flow.quantile", {share: 100 * share}), numeric: true})),
    ],
    rows: entries.map(([name, gate]) => [gateName(name), fixed(gate.mean), ...shares.map((share) => fixed(gate.quantiles[share]))]),
    rowHeads: true,
  });
}

const byStep = (steps, values) => steps.map((x, index) => ({x, y: values[index]}));

/** The mean of the numbers among some values. */
function mean(values) {
  const numbers = values.filter(isNumber);
  return numbers.length ? numbers.reduce((sum, value) => sum + value, 0) / numbers.length : null;
}

function complex(x, y) {
  const imaginary = isNumber(y) ? `${y < 0 ? "−" : "+"} ${fixed(Math.abs(y))}` : fixed(y);
  return `λ = ${fixed(x)} ${imaginary}i`;
}
