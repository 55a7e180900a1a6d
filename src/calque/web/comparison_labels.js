/** Taggers by label: F1, precision and recall, and the confusion of labels. */

import {select} from "calque/controls";
import {fill, h} from "calque/dom";
import {heatmap} from "calque/heatmap";
import {t} from "calque/i18n";
import {count, fixed} from "calque/numbers";
import {table} from "calque/table";

export function labelPanel({systems, labels, spans}) {
  return [
    spans?.length ? labelTable(t("labels.spans"), spans, systems) : null,
    h("div", {class: "block"}, labelTable(t("labels.caption"), labels, systems)),
  ];
}

function labelTable(caption, entries, systems) {
  const share = (value) => ({content: fixed(100 * value, 2), sort: value});
  return table({
    caption,
    columns: [
      {label: t("labels.label")},
      {label: t("labels.number"), numeric: true},
      ...systems.map((system) => ({label: `${system.name}: F1`, numeric: true})),
      ...systems.flatMap((system) => ["precision", "recall"].map((key) => ({label: `${system.name}: ${t(`section.${key}`)}`, numeric: true}))),
    ],
    rows: entries.map((entry) => [
      h("bdi", {}, entry.label),
      {content: count(entry.support), sort: entry.support},
      ...entry.systems.map((score) => share(score.f1)),
      ...entry.systems.flatMap((score) => [share(score.precision), share(score.recall)]),
    ]),
    rowHeads: true,
    sortable: true,
  });
}

export function confusionPanel({systems}, chosen) {
  chosen.system ??= 0;
  const body = h("div", {});
  const draw = () => {
    const {name, confusion} = systems[chosen.system];
    const {labels, counts} = confusion;
    const shares = counts.flatMap((row) => {
      const total = Math.max(1, row.reduce((sum, value) => sum + value, 0));
      return row.map((value) => value / total);
    });
    fill(
      body,
      heatmap({
        rows: labels,
        columns: labels,
        values: Float32Array.from(shares),
        maximum: 1,
        label: t("confusion.label", {name}),
        rowsName: t("confusion.gold"),
        columnsName: t("confusion.predicted"),
      }),
    );
  };
  const options = systems.map((system, index) => ({value: String(index), label: system.name}));
  const choose = (value) => ((chosen.system = Number(value)), draw());
  draw();
  return [h("div", {class: "controls"}, select({label: t("comparison.system"), options, value: String(chosen.system), onchange: choose})), body];
}
