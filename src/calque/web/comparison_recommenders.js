/** The parts of a comparison of recommenders: ranking metrics, buckets of users, and the users that are ranked differently. */

import {lineChart} from "calque/charts";
import {name, pValue, sizeTable, systemColumns} from "calque/comparison_scores";
import {h} from "calque/dom";
import {t} from "calque/i18n";
import {count, fixed, isNumber} from "calque/numbers";
import {lazyDetails, table} from "calque/table";
import {piece} from "calque/text";

/** Scores with confidence intervals, and p-values against the baseline. */
export function rankingScores({systems, metrics, randomisation}) {
  const interval = ({scores, intervals}, key) => `${fixed(scores[key], 4)} (${intervals[key].map((end) => fixed(end, 4)).join(" … ")})`;
  const scores = table({
    caption: t("rankings.scores"),
    columns: [{label: t("comparison.metric")}, ...systemColumns(systems)],
    rows: metrics.map((metric) => [metric.title, ...systems.map((system) => interval(system, metric.name))]),
    rowHeads: true,
  });
  const {samples, seed} = randomisation;
  const tested = samples ? metrics : [];
  const tests = table({
    caption: samples ? t("significance.randomisation", {samples: count(samples), seed}) : t("rankings.users"),
    columns: [{label: t("comparison.system")}, ...tested.map((metric) => ({label: metric.title, numeric: true})), ...["better", "worse"].map((key) => ({label: t(`rankings.${key}`), numeric: true}))],
    rows: systems.slice(1).map((system) => [name(system), ...tested.map(({name: key}) => pValue(system.p_values?.[key])), count(system.better), count(system.worse)]),
    rowHeads: true,
  });
  return [scores, h("div", {class: "block"}, tests), sizeTable(systems, {sentences: t("rankings.users-per-second"), words: null})];
}

/** NDCG@10 by length of the history and frequency of the target: a chart and a table for each. */
export function rankingBuckets({systems, sections}) {
  return sections.map(({id, buckets, counts, scores}) => {
    const title = t(`rankings.${id}`);
    const numbers = () =>
      table({
        caption: `${title}: NDCG@10`,
        columns: [{label: t("section.bucket")}, {label: t("rankings.users"), numeric: true}, ...systemColumns(systems)],
        rows: buckets.map((bucket, place) => [bucket, count(counts[place]), ...scores.map((row) => fixed(row[place], 4))]),
        rowHeads: true,
      });
    const series = systems.map((system, index) => ({name: system.name, points: scores[index].map((y, x) => ({x, y}))}));
    return h(
      "section",
      {class: "block", "aria-label": title},
      h("h2", {}, title),
      buckets.length > 1
        ? lineChart({label: title, series, x: {label: t("section.bucket"), names: buckets, format: (place) => buckets[place] ?? "", from: buckets.length - 0.6}, y: {label: "NDCG@10", from: 0}, height: 230})
        : null,
      buckets.length > 1 ? lazyDetails(t("heatmap.values"), numbers) : numbers(),
    );
  });
}

/** The users whose targets the systems rank most differently. */
export function rankedUsers({systems, users}) {
  if (!users.items.length) return h("p", {}, t("rankings.same"));
  return table({
    caption: t("rankings.differ", {shown: count(users.items.length), total: count(users.total)}),
    columns: [{label: t("rankings.user")}, {label: t("rankings.target")}, {label: t("rankings.history"), numeric: true}, ...systemColumns(systems)],
    rows: users.items.map(({user, target, history, ranks}) => [
      piece(user),
      piece(target),
      {content: count(history), sort: history},
      ...ranks.map((rank) => ({content: isNumber(rank) && rank > 0 ? count(rank) : t("rankings.none"), sort: rank || Infinity})),
    ]),
    rowHeads: true,
    sortable: true,
  });
}
