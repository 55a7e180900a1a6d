/** The panels of sentences compared by their vectors: nearest sentences, cosines, and places in two dimensions. */

import {scatterChart} from "calque/charts";
import {h} from "calque/dom";
import {heatmap} from "calque/heatmap";
import {t} from "calque/i18n";
import {count, fixed} from "calque/numbers";
import {table} from "calque/table";
import {isolated, sentence as sentenceText} from "calque/text";
import {largest, matrix} from "calque/weights";

/** The items of calque/tabs for compared sentences. */
export function panels(view) {
  return [
    {name: "summary", label: t("tab.summary"), draw: () => summaryPanel(view)},
    {name: "similarity", label: t("tab.similarity"), draw: () => matrixPanel(view)},
    {name: "projection", label: t("tab.projection"), draw: () => projectionPanel(view)},
  ];
}

function summaryPanel({rows, columns, cosines, nearest, ranks}) {
  const values = matrix(cosines);
  const cosine = (row, column) => fixed(values[row * columns.length + column]);
  return table({
    caption: ranks ? t("similarity.right", {right: count(ranks.filter((rank) => rank === 1).length), total: count(rows.length)}) : t("similarity.others"),
    columns: [
      {label: t("similarity.sentence"), class: "wide"},
      ...(ranks ? [{label: t("similarity.partner"), numeric: true}, {label: t("similarity.rank"), numeric: true}] : []),
      {label: t("similarity.nearest"), numeric: true},
      {label: t("similarity.nearest-sentence"), class: "wide"},
    ],
    rows: rows.map((text, row) => [
      sentenceText(text),
      ...(ranks ? [cosine(row, row), count(ranks[row])] : []),
      cosine(row, nearest[row]),
      sentenceText(columns[nearest[row]]),
    ]),
  });
}

function matrixPanel({rows, columns, cosines, nearest, ranks}) {
  const values = matrix(cosines);
  return [
    h("p", {class: "explanation"}, t("similarity.cosines")),
    heatmap({
      rows,
      columns,
      values,
      maximum: largest([values]),
      label: t("tab.similarity"),
      rowsName: t(ranks ? "similarity.sources" : "similarity.sentences"),
      columnsName: t(ranks ? "similarity.targets" : "similarity.sentences"),
      outlined: (row, column) => column === nearest[row],
      outlinedName: t("similarity.outlined"),
    }),
  ];
}

function projectionPanel({rows, columns, points, explained, ranks}) {
  const group = (name, texts, start) => ({name, points: texts.map((text, index) => ({x: points[start + index][0], y: points[start + index][1], lines: [isolated(text)]}))});
  const share = (value) => `${Math.round(100 * value)} %`;
  return [
    h("p", {class: "explanation"}, t("similarity.projection")),
    scatterChart({
      label: t("tab.projection"),
      groups: [group(t(ranks ? "similarity.sources" : "similarity.sentences"), rows, 0), ...(ranks ? [group(t("similarity.targets"), columns, rows.length)] : [])],
      x: {label: t("similarity.x", {share: share(explained[0])})},
      y: {label: t("similarity.y", {share: share(explained[1])})},
      height: 440,
    }),
  ];
}
