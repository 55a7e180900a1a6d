/** What `calque inspect` writes: a choice of sentences, one or two side by side, each with the panels of its task. */

import {panels as captioningPanels} from "calque/captioning";
import {checkbox, select} from "calque/controls";
import {fill, h} from "calque/dom";
import {factLine} from "calque/fact_line";
import {language, t} from "calque/i18n";
import {panels as textPanels} from "calque/language_model";
import {count, fixed, isNumber} from "calque/numbers";
import {panels as phrasePanels} from "calque/phrases";
import * as recognition from "calque/recognition";
import * as recommendation from "calque/recommendation";
import {panels as similarityPanels} from "calque/similarity";
import {lazyDetails, table} from "calque/table";
import {panels as taggingPanels} from "calque/tagging";
import {tabs} from "calque/tabs";
import {sentence as sentenceText} from "calque/text";
import {panels as translationPanels} from "calque/translation";

/** By task: panels(sentence, choices, model) returns the items of calque/tabs, brief(sentence) its one-line summary. */
const TASKS = {
  translation: {panels: translationPanels},
  "language-modelling": {panels: textPanels},
  tagging: {panels: taggingPanels},
  "statistical translation": {panels: phrasePanels},
  embedding: {panels: similarityPanels},
  captioning: {panels: captioningPanels},
  recognition,
  recommendation,
};

// The reader's choices are kept when the page is drawn again in another language.
const chosen = {sentences: [0, 1], both: null, tab: "summary", sides: [{}, {}]};

/** Draws an inspection document into an element. */
export function show(root, document) {
  const task = TASKS[document.task];
  if (!task) {
    fill(root, h("p", {role: "alert"}, t("inspection.unknown-task", {task: document.task})));
    return;
  }
  const {panels, brief = briefOfText} = task;
  const {sentences} = document;
  chosen.both ??= sentences.length === 2;
  chosen.sentences = chosen.sentences.map((index) => Math.min(index, sentences.length - 1));
  const sides = h("div", {class: "sides"});
  const draw = () => {
    const shown = chosen.both && sentences.length > 1 ? [0, 1] : [0];
    sides.classList.toggle("two", shown.length === 2);
    const groups = [];
    const choose = (name) => {
      chosen.tab = name;
      for (const group of groups) group.select(name);
    };
    fill(sides, shown.map((side) => drawSide({side, document, panels, brief, groups, choose, redraw: draw})));
  };
  const controls =
    sentences.length > 1
      ? h("div", {class: "controls"}, checkbox({label: t("inspection.both"), checked: chosen.both, onchange: (value) => ((chosen.both = value), draw())}))
      : null;
  const choose = (index) => {
    chosen.sentences[0] = index;
    draw();
  };
  fill(root, modelLine(document.model), sentences.length > 2 ? lazyDetails(t("inspection.all"), () => overview(sentences.map(brief), sentences, choose)) : null, controls, sides);
  draw();
}

/** A line for each sentence, sortable by log-probability; its number shows the sentence. */
function overview(briefs, sentences, choose) {
  const isNamed = sentences.some(({model}) => model);
  const hasAnswers = briefs.some(({answer}) => answer !== null);
  const number = (value) => ({content: fixed(value), sort: isNumber(value) ? value : -Infinity});
  return table({
    caption: t("inspection.sort"),
    columns: [
      {label: t("inspection.number"), numeric: true},
      {label: t("inspection.log-prob"), numeric: true},
      {label: t("inspection.per-piece"), numeric: true},
      isNamed ? {label: t("inspection.model")} : null,
      {label: t("inspection.text"), class: "wide"},
      hasAnswers ? {label: t("inspection.answer"), class: "wide"} : null,
    ].filter(Boolean),
    rows: briefs.map(({logProb, pieces, text, answer}, index) =>
      [
        {content: h("button", {type: "button", class: "text-button", "aria-label": t("inspection.choose", {number: index + 1}), onclick: () => choose(index)}, String(index + 1)), sort: index},
        number(logProb),
        number(logProb / pieces),
        isNamed ? sentences[index].model : null,
        sentenceText(text),
        hasAnswers ? sentenceText(answer ?? "") : null,
      ].filter((cell) => cell !== null),
    ),
    sortable: true,
    className: "overview",
  });
}

/** The one-line summary of a translation, a text or a tagged sentence. */
function briefOfText({source, target, text, words, rows, predicted, steps, phrases, score, best, log_prob: logProb}) {
  const total = (phrases ? score : logProb) ?? best?.log_prob ?? steps?.reduce((sum, step) => sum + step.log_prob, 0);
  const pieces = (steps ?? phrases ?? words ?? rows).length;
  return {logProb: total, pieces, text: source?.text ?? text ?? (words ?? rows).join(" "), answer: target?.text ?? predicted?.join(" ") ?? null};
}

function modelLine(model) {
  const facts = [model.architecture, model.parameters ? t("inspection.parameters", {count: count(model.parameters)}) : null];
  return factLine(model.name, facts);
}

function drawSide({side, document: {sentences, model, models = [model]}, panels, brief, groups, choose, redraw}) {
  const index = chosen.sentences[side];
  const move = (target) => {
    chosen.sentences[side] = Number(target);
    redraw();
  };
  const itsModel = models.find(({name}) => name === sentences[index].model) ?? model;
  const group = tabs({
    label: t("inspection.views"),
    items: panels(sentences[index], chosen.sides[side], itsModel),
    selected: chosen.tab,
    onchange: choose,
  });
  groups.push(group);
  const options = sentences.map((sentence, number) => ({value: String(number), label: optionLabel(sentence, brief, number)}));
  const name = t("inspection.sentence-number", {number: index + 1, total: sentences.length});
  return h(
    "section",
    {class: "side", "aria-label": name},
    sentences.length > 1 ? select({label: t("inspection.sentence"), options, value: String(index), onchange: move}) : null,
    group,
  );
}

function optionLabel(sentence, brief, number) {
  const {model} = sentence;
  const whole = [...brief(sentence).text];
  const start = whole.length > 60 ? `${whole.slice(0, 60).join("")}…` : whole.join("");
  const separator = language() === "zh" ? "：" : ": ";
  return `${number + 1}. ${model ? `${model}${separator}` : ""}${start}`;
}
