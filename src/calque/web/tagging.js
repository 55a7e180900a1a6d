/** The panels of a tagged sentence. */

import {attentionPanel, saliencyPanel} from "calque/attention";
import {h} from "calque/dom";
import {heatmap} from "calque/heatmap";
import {t} from "calque/i18n";
import {MISSING, fixed, probability} from "calque/numbers";
import {table} from "calque/table";
import {isolated, piece} from "calque/text";
import {flat, largest, matrix} from "calque/weights";

const LIKELIEST = 4;

/** The items of calque/tabs for a sentence; `choices` keeps what the reader chose in them. */
export function panels(sentence, choices, model) {
  const source = {text: sentence.words.join(" "), pieces: sentence.words};
  const names = {
    rows: sentence.words.map((word, index) => `${word} / ${sentence.predicted[index]}`),
    columns: sentence.words,
    rowsName: t("tagging.words-axis"),
    columnsName: t("tagging.words-axis"),
    instead: t("tagging.instead"),
    explanation: t("tagging.saliency"),
    negative: t("tagging.negative"),
  };
  return [
    {name: "summary", label: t("tab.summary"), draw: () => summaryPanel(sentence)},
    {name: "marginals", label: t("tab.marginals"), draw: () => labelMap(sentence, {values: matrix(sentence.marginals), maximum: 1, name: "marginals"})},
    model.transitions ? {name: "transitions", label: t("tab.transitions"), draw: () => transitionsPanel(model)} : null,
    {name: "emissions", label: t("tab.emissions"), draw: () => emissionsPanel(sentence)},
    sentence.attention ? {name: "attention", label: t("tab.attention"), draw: () => attentionPanel({...sentence, source}, choices, names)} : null,
    sentence.saliency ? {name: "saliency", label: t("tab.saliency"), draw: () => saliencyPanel(sentence, choices, names)} : null,
  ].filter(Boolean);
}

function summaryPanel(sentence) {
  const {words, labels, predicted, unknown, best} = sentence;
  const values = matrix(sentence.marginals);
  const rows = words.map((word, index) => {
    const shares = labels.map((label, place) => ({label, share: values[index * labels.length + place]}));
    const likeliest = [...shares].sort((one, other) => other.share - one.share).slice(0, LIKELIEST);
    return [
      String(index + 1),
      unknown.includes(index) ? t("tagging.is-unknown", {word: isolated(word)}) : piece(word),
      h("strong", {}, predicted[index]),
      probability(shares[labels.indexOf(best.labels[index])].share),
      likeliest.map(({label, share}) => `${label} ${probability(share)}`).join(", "),
    ];
  });
  return [
    table({
      caption: t("tagging.words"),
      columns: [{label: "#", numeric: true}, {label: t("tagging.word")}, {label: t("tagging.label")}, {label: t("steps.probability"), numeric: true}, {label: t("tagging.likeliest")}],
      rows,
    }),
    h("div", {class: "block"}, sequences(sentence)),
  ];
}

/** The best label sequence and the second. */
function sequences({words, best, runner_up: second, changes}) {
  const differences = changes.map((index) => t("tagging.change", {word: isolated(words[index]), number: index + 1, label: second.labels[index]}));
  const row = (name, path, others) => [name, fixed(path.score), fixed(path.log_prob), others, path.labels.join(" ")];
  return [
    table({
      caption: t("tagging.sequences"),
      columns: [
        {label: t("tagging.sequence")},
        {label: t("tagging.score"), numeric: true},
        {label: t("tagging.log-prob"), numeric: true},
        {label: t("tagging.changes")},
        {label: t("tagging.labels")},
      ],
      rows: [row(t("tagging.best"), best, MISSING), ...(second ? [row(t("tagging.second"), second, differences.join(", "))] : [])],
      rowHeads: true,
    }),
    second ? null : h("p", {class: "note"}, t("tagging.no-second")),
  ];
}

function emissionsPanel(sentence) {
  const values = flat(sentence.emissions);
  return labelMap(sentence, {values, maximum: largest([values]), name: "emissions"});
}

/** A heatmap of words and labels, the best sequence framed. */
function labelMap(sentence, {values, maximum, name}) {
  return [
    h("p", {class: "explanation"}, t(`tagging.${name}`)),
    heatmap({
      rows: sentence.words,
      columns: sentence.labels,
      values,
      maximum,
      label: t(`tab.${name}`),
      rowsName: t("tagging.words-axis"),
      columnsName: t("tagging.labels-axis"),
      outlined: (row, column) => sentence.labels[column] === sentence.best.labels[row],
      outlinedName: t("tagging.chosen"),
    }),
  ];
}

/** The scores of neighbouring labels; the start is the first row, the end the last column. */
function transitionsPanel({labels, transitions: {weights, start, end, allowed}}) {
  const values = flat([[...start, 0], ...weights.map((row, index) => [...row, end[index]])]);
  const possible = [[...allowed.start, true], ...allowed.transitions.map((row, index) => [...row, allowed.end[index]])];
  return [
    h("p", {class: "explanation"}, t("tagging.transitions")),
    heatmap({
      rows: [t("tagging.start"), ...labels],
      columns: [...labels, t("tagging.end")],
      values,
      maximum: largest([values]),
      label: t("tab.transitions"),
      rowsName: t("tagging.from"),
      columnsName: t("tagging.to"),
      outlined: possible.flat().every(Boolean) ? null : (row, column) => !possible[row][column],
      outlinedName: t("tagging.forbidden"),
    }),
  ];
}
