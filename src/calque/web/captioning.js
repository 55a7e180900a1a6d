/** The panels of a captioned image. */

import {h} from "calque/dom";
import {t} from "calque/i18n";
import {fixed} from "calque/numbers";
import {stepsPanel} from "calque/steps";
import {table} from "calque/table";
import {isolated, sentence as sentenceText} from "calque/text";

/** The items of calque/tabs for an image. */
export function panels(image) {
  return [
    {name: "summary", label: t("tab.summary"), draw: () => summaryPanel(image)},
    image.attention ? {name: "attention", label: t("tab.attention"), draw: () => attentionPanel(image)} : null,
    {name: "steps", label: t("tab.steps"), draw: () => stepsPanel(image, t("captioning.steps"))},
  ].filter(Boolean);
}

function summaryPanel({source, target, candidates}) {
  return [
    h("div", {class: "pictures"}, picture(source.picture, {name: t("captioning.image", {path: isolated(source.text)}), text: target.text})),
    table({
      caption: t("captioning.candidates"),
      columns: [{label: t("captioning.score"), numeric: true}, {label: t("captioning.log-prob"), numeric: true}, {label: t("captioning.caption"), class: "wide"}],
      rows: candidates.map(({text, score, log_prob: logProb}) => [fixed(score), fixed(logProb), sentenceText(text)]),
    }),
  ];
}

function attentionPanel({source, attention}) {
  const words = attention.words.map(({word, picture: url}) => picture(url, {name: t("captioning.attends", {word: isolated(word)}), text: word}));
  const whole = picture(source.picture, {name: t("captioning.image", {path: isolated(source.text)}), text: ""});
  return [h("p", {class: "explanation"}, t("captioning.attention")), h("div", {class: "pictures"}, whole, words)];
}

function picture(url, {name, text}) {
  return h("figure", {class: "picture"}, h("img", {src: url, alt: name}), h("figcaption", {}, sentenceText(text)));
}
