/** The panels of a recording that a speech recogniser transcribed. */

import {h} from "calque/dom";
import {t} from "calque/i18n";
import {MISSING, count, fixed, isNumber, probability} from "calque/numbers";
import {stepsPanel} from "calque/steps";
import {table} from "calque/table";
import {direction, isolated, piece, sentence as sentenceText} from "calque/text";
import {timeMap} from "calque/time_map";
import {largest, matrix} from "calque/weights";

const PARTS = ["ctc", "decoder", "language"];
const ROW = 20; // pixels
const FREQUENCIES = [125, 250, 500, 1000, 2000, 4000, 8000, 16000]; // Hz

/** The one-line summary of a recording. */
export function brief({source, target, log_prob: logProb, tokens}) {
  return {logProb, pieces: tokens.length, text: source.text, answer: target.text};
}

/** The items of calque/tabs for a recording. */
export function panels(recording) {
  return [
    {name: "summary", label: t("tab.summary"), draw: () => summaryPanel(recording)},
    recording.ctc ? {name: "posteriors", label: t("tab.posteriors"), draw: () => posteriorsPanel(recording)} : null,
    recording.attention ? {name: "attention", label: t("tab.attention"), draw: () => attentionPanel(recording)} : null,
    {name: "tokens", label: t("tab.tokens"), draw: () => tokenTable(recording)},
    recording.steps.length ? {name: "steps", label: t("tab.steps"), draw: () => stepsPanel(recording, t("recognition.steps"))} : null,
  ].filter(Boolean);
}

function summaryPanel(recording) {
  const {source, target} = recording;
  return [
    h(
      "dl",
      {class: "texts"},
      h("dt", {}, t("recognition.recording")),
      h("dd", {}, sentenceText(source.text), ` (${t("recognition.length", {seconds: fixed(source.seconds, 2), rate: count(source.rate)})})`),
      h("dt", {}, t(target.given ? "recognition.given" : "recognition.transcript")),
      h("dd", {dir: direction(target.text)}, sentenceText(target.text), target.cut ? ` (${t("recognition.cut")})` : null),
    ),
    h("h2", {}, t("recognition.features")),
    featureMap(recording),
    h("div", {class: "block"}, candidateTable(recording)),
  ];
}

/** The log-mel features, the highest band at the top, with the words above. */
function featureMap({source, words, features}) {
  const bands = features.frequencies.length;
  const {values, frames} = featureValues(features);
  const band = (row) => bands - 1 - row;
  const named = new Set(FREQUENCIES.filter((hertz) => hertz >= features.frequencies[0] && hertz <= features.frequencies.at(-1)).map((hertz) => nearest(features.frequencies, hertz)));
  const {low, high} = features;
  return timeMap({
    label: t("recognition.features"),
    rows: Array.from({length: bands}, (_, row) => t("recognition.hertz", {frequency: count(features.frequencies[band(row)])})),
    columns: frames,
    value: (row, column) => values[column * bands + band(row)],
    step: source.frame,
    seconds: source.seconds,
    maximum: 1,
    height: Math.min(320, Math.max(160, 2 * bands)),
    words: placed(words),
    shown: (row) => named.has(band(row)),
    describe: (value) => fixed(low + value * (high - low), 1),
  });
}

/** The features between 0 and 1, frames × bands: pages have them like that, JSON has their numbers. */
function featureValues({values, low, high, frequencies}) {
  const numbers = matrix(values);
  const scaled = Array.isArray(values) ? numbers.map((value) => (value - low) / (high - low || 1)) : numbers;
  return {values: scaled, frames: numbers.length / frequencies.length};
}

const nearest = (numbers, wanted) => numbers.reduce((best, number, place) => (Math.abs(number - wanted) < Math.abs(numbers[best] - wanted) ? place : best), 0);

const placed = (words) => words.map(({word, start, end}) => ({name: word, start, end}));

/** The probabilities of labels over time, with the best alignment outlined. */
function posteriorsPanel({source, tokens, ctc: {labels, total, posteriors}}) {
  const values = matrix(posteriors);
  return [
    h("p", {class: "explanation"}, t("recognition.posteriors", {shown: count(labels.length), total: count(total)})),
    timeMap({
      label: t("tab.posteriors"),
      rows: labels,
      columns: values.length / labels.length,
      value: (row, column) => values[column * labels.length + row],
      step: source.position,
      seconds: source.seconds,
      maximum: 1,
      height: ROW * labels.length,
      words: tokens.map(({piece: name, start, end}) => ({name, start, end})),
      frames: tokens.map(({piece: name, start, end}) => ({row: labels.indexOf(name), start, end})).filter(({row}) => row >= 0),
      describe: probability,
    }),
  ];
}

/** The attention of every token over time. */
function attentionPanel({source, words, attention: {rows, weights}}) {
  const values = matrix(weights);
  const columns = values.length / rows.length;
  return [
    h("p", {class: "explanation"}, t("recognition.attention")),
    timeMap({
      label: t("tab.attention"),
      rows,
      columns,
      value: (row, column) => values[row * columns + column],
      step: source.position,
      seconds: source.seconds,
      maximum: largest([values]),
      height: ROW * rows.length,
      words: placed(words),
    }),
  ];
}

function tokenTable({tokens, ctc}) {
  return table({
    caption: t("recognition.tokens"),
    columns: [
      {label: t("steps.piece")},
      {label: t("recognition.from"), numeric: true},
      {label: t("recognition.to"), numeric: true},
      ...(ctc ? [{label: t("recognition.peak"), numeric: true}, {label: t("recognition.rivals")}] : []),
    ],
    rows: tokens.map(({piece: name, start, end, peak, rivals}) => [
      piece(name),
      fixed(start, 2),
      fixed(end, 2),
      ...(ctc ? [probability(peak), rivals.map(({piece: other, log_prob: logProb}) => `${isolated(other)} ${probability(Math.exp(logProb))}`).join(", ")] : []),
    ]),
    rowHeads: true,
  });
}

/** The given transcript, if there is one, and those that search found, with the log-probability of each part of the model. */
function candidateTable({target, candidates, weights}) {
  const parts = PARTS.filter((part) => part in weights);
  const terms = parts.map((part) => `${weights[part]} × ${t(`recognition.${part}`)}`).join(" + ");
  return [
    table({
      caption: t(target.given ? "recognition.given-candidates" : "recognition.candidates"),
      columns: [
        {label: t("captioning.score"), numeric: true},
        ...parts.map((part) => ({label: `log P: ${t(`recognition.${part}`)}`, numeric: true})),
        {label: t("recognition.transcript"), class: "wide"},
      ],
      rows: candidates.map((candidate) => [isNumber(candidate.score) ? fixed(candidate.score) : MISSING, ...parts.map((part) => fixed(candidate[part])), h("span", {}, sentenceText(candidate.text), candidate.cut ? ` (${t("recognition.cut")})` : null)]),
    }),
    parts.length > 1 ? h("p", {class: "hint"}, t("recognition.sum", {terms})) : null,
  ];
}
