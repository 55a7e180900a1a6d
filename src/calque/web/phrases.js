/** The panels of a translation by a statistical model: its phrases, their features, and the best translations. */

import {h} from "calque/dom";
import {t} from "calque/i18n";
import {MISSING, fixed} from "calque/numbers";
import {table} from "calque/table";
import {piece, sentence as sentenceText} from "calque/text";

/** The items of calque/tabs for a sentence. */
export function panels(sentence) {
  return [
    {name: "summary", label: t("tab.summary"), draw: () => summaryPanel(sentence)},
    {name: "features", label: t("tab.features"), draw: () => featuresPanel(sentence)},
  ];
}

/** The phrases in the order of the target, and the best translations. */
function summaryPanel({source, target, score, phrases, candidates}) {
  const translated = phrases.filter(({span}) => span);
  return [
    h("p", {}, sentenceText(source.text)),
    h("p", {}, h("strong", {}, sentenceText(target.text))),
    h("p", {class: "note"}, t("phrases.score", {score: fixed(score)})),
    table({
      caption: t("phrases.caption"),
      columns: [{label: t("phrases.source")}, {label: t("phrases.words"), numeric: true}, {label: t("phrases.target")}, {label: t("phrases.weighted"), numeric: true}],
      rows: translated.map((phrase) => [
        piece(phrase.source),
        `${phrase.span[0] + 1}–${phrase.span[1]}`,
        phrase.copied ? h("span", {}, piece(phrase.target), t("phrases.copied")) : piece(phrase.target),
        fixed(phrase.score),
      ]),
    }),
    table({
      caption: t("phrases.candidates"),
      columns: [{label: t("phrases.weighted"), numeric: true}, {label: t("phrases.target"), class: "wide"}],
      rows: candidates.map((candidate) => [fixed(candidate.score), sentenceText(candidate.text)]),
    }),
  ];
}

/** The features of each phrase, their sums and weights. */
function featuresPanel({phrases, features, weights, score}) {
  const names = Object.keys(weights).filter((name) => phrases.some((phrase) => phrase.features[name]));
  const cells = (values) => names.map((name) => fixed(values[name], 2));
  return [
    h("p", {class: "explanation"}, t("phrases.explanation")),
    table({
      caption: t("tab.features"),
      columns: [{label: t("phrases.target")}, {label: t("phrases.weighted"), numeric: true}, ...names.map((name) => ({label: name, numeric: true}))],
      rows: [
        ...phrases.map((phrase) => [phrase.span ? piece(phrase.target) : t("phrases.end"), fixed(phrase.score, 2), ...cells(phrase.features)]),
        [t("phrases.sum"), fixed(score, 2), ...cells(features)],
        [t("phrases.weight"), MISSING, ...cells(weights)],
      ],
      rowHeads: true,
    }),
  ];
}
