/** Scores of groups of sentences and of words: a chart and a table for every property. */

import {lineChart} from "calque/charts";
import {systemColumns} from "calque/comparison_scores";
import {select} from "calque/controls";
import {fill, h} from "calque/dom";
import {t} from "calque/i18n";
import {count, fixed} from "calque/numbers";
import {lazyDetails, table} from "calque/table";

const COUNT = "count";

/** Scores of sentences by length, overlap with training and so on. */
export function bucketPanel({systems, sections, metrics}, chosen, countLabel = t("section.sentences")) {
  chosen.metric ??= metrics[0].name;
  const body = h("div", {});
  const draw = () =>
    fill(
      body,
      sections.map((section) => {
        const isCount = chosen.metric === COUNT;
        const values = isCount ? section.counts : section.scores[chosen.metric];
        const isShared = section.counts.every((row) => String(row) === String(section.counts[0]));
        return bucketBlock({
          section,
          systems,
          values,
          counts: isShared ? section.counts[0] : null,
          countLabel,
          measure: isCount ? t("section.count") : metrics.find((metric) => metric.name === chosen.metric).title,
          digits: isCount ? 0 : 2,
        });
      }),
    );
  const options = [...metrics.map((metric) => ({value: metric.name, label: metric.title})), {value: COUNT, label: t("section.count")}];
  const choose = (value) => ((chosen.metric = value), draw());
  draw();
  return [h("div", {class: "controls"}, select({label: t("section.measure"), options, value: chosen.metric, onchange: choose})), body];
}

/** Accuracy of words by frequency, case and label. */
export function wordPanel({systems, words, training}, chosen) {
  chosen.measure ??= "f1";
  const body = h("div", {});
  const draw = () =>
    fill(
      body,
      words.map((section) =>
        bucketBlock({
          section,
          systems,
          values: section.systems.map((row) => row.map((score) => (isDefined(score, chosen.measure) ? 100 * score[chosen.measure] : null))),
          counts: section.systems[0].map((score) => score.reference),
          countLabel: t("section.reference-words"),
          measure: t(`section.${chosen.measure}`),
          digits: 2,
        }),
      ),
    );
  const options = ["f1", "precision", "recall"].map((value) => ({value, label: t(`section.${value}`)}));
  const choose = (value) => ((chosen.measure = value), draw());
  draw();
  return [
    h("div", {class: "controls"}, select({label: t("section.measure"), options, value: chosen.measure, onchange: choose})),
    h("p", {class: "hint"}, t("section.counted-in", {origin: training?.origin ?? t("section.references")})),
    body,
  ];
}

/** Whether there are words to measure: precision is of what a system produced, recall of what the references have. */
function isDefined({hypothesis, reference}, measure) {
  return {precision: hypothesis, recall: reference}[measure] ?? hypothesis + reference > 0;
}

/** Losses of words by position and frequency. */
export function lossPanel({systems, sections, training}) {
  return [
    sections.map((section) =>
      bucketBlock({
        section,
        systems,
        values: section.nats,
        counts: section.counts,
        countLabel: t("section.words"),
        measure: t("section.nats"),
        digits: 3,
      }),
    ),
    h("p", {class: "hint"}, t("section.counted-in", {origin: training?.origin ?? t("section.text")})),
  ];
}

/** A line for each system over the buckets, and the numbers as a table. */
function bucketBlock({section, systems, values, counts, countLabel, measure, digits}) {
  const title = t(`section.${section.id}`);
  const format = (place) => section.buckets[place] ?? "";
  const series = systems.map((system, index) => ({
    name: system.name,
    points: values[index].map((y, x) => ({x, y})), // the line is interrupted where a number is missing
  }));
  const numbers = () =>
    table({
      caption: `${title}: ${measure}`,
      columns: [
        {label: t("section.bucket")},
        ...(counts ? [{label: countLabel, numeric: true}] : []),
        ...systemColumns(systems),
      ],
      rows: section.buckets.map((label, place) => [
        label,
        ...(counts ? [count(counts[place])] : []),
        ...systems.map((_, index) => fixed(values[index][place], digits)),
      ]),
      rowHeads: true,
    });
  return h(
    "section",
    {class: "block", "aria-label": title},
    h("h2", {}, title),
    section.buckets.length > 1
      ? lineChart({
          label: `${title}: ${measure}`,
          series,
          x: {label: t("section.bucket"), format, names: section.buckets, from: section.buckets.length - 0.6}, // room for the last label
          y: {label: measure, format: (value) => fixed(value, digits && 1)},
          height: 230,
        })
      : null,
    section.buckets.length > 1 ? lazyDetails(t("heatmap.values"), numbers) : numbers(),
  );
}

