/** The panels of a text under a language model. */

import {attentionPanel, saliencyPanel} from "calque/attention";
import {beamPanel} from "calque/beam_tree";
import {barChart} from "calque/charts";
import {h} from "calque/dom";
import {t} from "calque/i18n";
import {fixed, probability} from "calque/numbers";
import {stepsPanel} from "calque/steps";
import {probabilityLine} from "calque/summary";
import {table} from "calque/table";
import {direction, sentence as sentenceText} from "calque/text";

/** The items of calque/tabs for a text; `choices` keeps what the reader chose in them. */
export function panels(text, choices) {
  const {continuation} = text;
  const target = {text: text.text, pieces: text.pieces, start: text.inputs[0]};
  const names = {
    rows: text.pieces,
    columns: text.inputs,
    rowsName: t("text.predicted"),
    columnsName: t("text.read"),
    instead: t("text.instead"),
    explanation: t("text.saliency"),
    negative: t("text.negative"),
  };
  return [
    {name: "summary", label: t("tab.summary"), draw: () => summaryPanel({...text, target})},
    {name: "steps", label: t("tab.steps"), draw: () => stepsPanel(text, t("text.steps"))},
    text.attention ? {name: "attention", label: t("tab.attention"), draw: () => attentionPanel({...text, target}, choices, names)} : null,
    text.saliency ? {name: "saliency", label: t("tab.saliency"), draw: () => saliencyPanel(text, choices, names)} : null,
    continuation ? {name: "continuation", label: t("tab.continuation"), draw: () => continuationPanel(continuation)} : null,
    continuation?.beam ? {name: "beam", label: t("tab.beam"), draw: () => beamPanel({...continuation, target}, choices)} : null,
  ].filter(Boolean);
}

function summaryPanel(text) {
  return [
    h("dl", {class: "texts"}, h("dt", {}, t("text.text")), h("dd", {dir: direction(text.text)}, text.text ? sentenceText(text.text) : t("text.empty"))),
    h("h2", {}, t("summary.pieces")),
    probabilityLine(text),
    h("h2", {}, t("text.next")),
    barChart({
      label: t("text.next"),
      bars: text.next.map((item) => ({label: item.piece, value: Math.exp(item.log_prob)})),
      y: {label: t("text.next-axis")},
    }),
    h("div", {class: "block"}, facts(text)),
  ];
}

function facts({log_prob: logProb, perplexity, steps}) {
  const first = steps.filter((step) => step.rank === 1).length;
  const lowest = steps.reduce((least, step) => (step.log_prob < least.log_prob ? step : least), steps[0]);
  const rows = [
    [t("text.log-prob"), fixed(logProb)],
    [t("text.per-token"), fixed(perplexity.per_token, 2)],
    [t("text.per-word"), fixed(perplexity.per_word, 2)],
    [t("text.per-byte"), fixed(perplexity.per_byte)],
    [t("facts.first"), t("facts.of", {part: first, whole: steps.length})],
    [t("facts.lowest"), h("span", {}, sentenceText(lowest.piece), ` ${probability(Math.exp(lowest.log_prob))}`)],
  ];
  return table({caption: t("summary.facts"), columns: [{label: t("facts.name")}, {label: t("score.value"), numeric: true}], rows, rowHeads: true});
}

function continuationPanel(continuation) {
  return [
    h("dl", {class: "texts"}, h("dt", {}, t("text.continued")), h("dd", {dir: direction(continuation.text)}, sentenceText(continuation.text))),
    continuation.cut ? h("p", {class: "note"}, t("text.cut")) : null,
    stepsPanel(continuation, t("text.steps")),
  ];
}
