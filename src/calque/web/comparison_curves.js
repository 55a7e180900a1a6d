/** The training curves of the runs that are compared. */

import {lineChart} from "calque/charts";
import {h} from "calque/dom";
import {t} from "calque/i18n";
import {isNumber, short} from "calque/numbers";

export function curvesPanel({systems}) {
  const runs = systems.filter((system) => system.curves);
  const measures = [...new Set(runs.flatMap(({curves}) => Object.keys(curves.valid)))].filter((key) => key !== "step");
  return [
    curveBlock(t("curves.loss"), runs, ({curves}) => curves.train, "loss"),
    measures.map((measure) => curveBlock(t("curves.valid", {name: measure.replaceAll("_", " ")}), runs, ({curves}) => curves.valid, measure)),
  ];
}

function curveBlock(title, runs, part, measure) {
  const series = runs
    .map((run) => ({
      name: run.name,
      points: (part(run)[measure] ?? []).map((y, index) => ({x: part(run).step[index], y})).filter(({y}) => isNumber(y)),
    }))
    .filter((item) => item.points.length);
  if (!series.length) return null;
  const chart = lineChart({label: title, series, x: {label: t("curves.step")}, y: {label: "", format: short}, height: 230});
  return h("section", {class: "block", "aria-label": title}, h("h2", {}, title), chart);
}
