/** The panels of a history and of what is recommended after it. */

import {attentionPanel} from "calque/attention";
import {barChart} from "calque/charts";
import {h} from "calque/dom";
import {heatmap} from "calque/heatmap";
import {t} from "calque/i18n";
import {count, fixed, probability} from "calque/numbers";
import {table} from "calque/table";
import {isolated, piece} from "calque/text";
import {flat, largest} from "calque/weights";

/** The one-line summary of a history. */
export function brief(history) {
  const best = recommended(history)[0];
  return {logProb: best?.log_prob, pieces: Math.max(1, history.items.length), text: history.items.join(" "), answer: best?.item ?? ""};
}

/** The items of calque/tabs for a history; `choices` keeps what the reader chose in them. */
export function panels(history, choices) {
  const {items, candidates, attention} = history;
  const source = {text: items.join(" "), pieces: items, read: items};
  const names = {rowsName: t("recommendation.items"), columnsName: t("recommendation.items")};
  return [
    {name: "summary", label: t("tab.summary"), draw: () => summaryPanel(history)},
    items.length && candidates.length ? {name: "contributions", label: t("tab.contributions"), draw: () => contributionsPanel(history)} : null,
    attention ? {name: "attention", label: t("tab.attention"), draw: () => attentionPanel({...history, source, target: source}, choices, names)} : null,
  ].filter(Boolean);
}

const recommended = ({candidates, excludes_seen: excludes}) => candidates.filter(({seen}) => !(seen && excludes));

function summaryPanel(history) {
  const {items, unknown, cold, excludes_seen: excludes, influence} = history;
  const best = recommended(history)[0];
  const notes = [
    cold ? t("recommendation.cold") : null,
    unknown ? t("recommendation.unknown", {count: count(unknown)}) : null,
  ].filter(Boolean);
  return [
    h(
      "dl",
      {class: "texts"},
      h("dt", {}, t("recommendation.history")),
      h("dd", {}, items.map((item, place) => [place ? " " : "", piece(item)])),
      h("dt", {}, t("recommendation.recommended")),
      h("dd", {}, best ? piece(best.item) : ""),
    ),
    notes.map((note) => h("p", {class: "note"}, note)),
    cold || !best
      ? null
      : [
          h("h2", {}, t("recommendation.influence", {item: isolated(best.item)})),
          h("p", {class: "explanation"}, t("recommendation.influence-explained")),
          barChart({label: t("recommendation.influence", {item: isolated(best.item)}), bars: items.map((item, place) => ({label: item, value: influence[place]})), y: {label: t("recommendation.axis")}}),
        ],
    h("div", {class: "block"}, candidateTable(history)),
    h("p", {class: "hint"}, t(excludes ? "recommendation.excluded" : "recommendation.included")),
  ];
}

function candidateTable({candidates}) {
  return table({
    caption: t("recommendation.candidates"),
    columns: [
      {label: t("recommendation.item")},
      {label: t("steps.probability"), numeric: true},
      {label: t("captioning.log-prob"), numeric: true},
      {label: t("recommendation.frequency"), numeric: true},
      {label: t("recommendation.seen")},
    ],
    rows: candidates.map(({item, log_prob: logProb, frequency, seen}) => [
      piece(item),
      {content: probability(Math.exp(logProb)), sort: logProb},
      {content: fixed(logProb), sort: logProb},
      {content: count(frequency), sort: frequency},
      seen ? t("beam.yes") : "",
    ]),
    rowHeads: true,
    sortable: true,
  });
}

/** How much every item of the history raises or lowers every candidate. */
function contributionsPanel({items, candidates, contributions}) {
  const values = flat(contributions);
  return [
    h("p", {class: "explanation"}, t("recommendation.contributions")),
    heatmap({
      rows: candidates.map(({item}) => item),
      columns: items,
      values,
      maximum: largest([values]),
      label: t("tab.contributions"),
      rowsName: t("recommendation.candidates-axis"),
      columnsName: t("recommendation.items"),
    }),
  ];
}
