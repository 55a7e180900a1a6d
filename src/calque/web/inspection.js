/** What `calque inspect` writes: a choice of sentences, one or two side by side, each with the panels of its task. */

import {checkbox, select} from "calque/controls";
import {fill, h} from "calque/dom";
import {factLine} from "calque/fact_line";
import {language, t} from "calque/i18n";
import {panels as textPanels} from "calque/language_model";
import {count, fixed, isNumber} from "calque/numbers";
import {panels as phrasePanels} from "calque/phrases";
import {panels as similarityPanels} from "calque/similarity";
import {lazyDetails, table} from "calque/table";
import {panels as taggingPanels} from "calque/tagging";
import {tabs} from "calque/tabs";
import {sentence as sentenceText} from "calque/text";
import {panels as translationPanels} from "calque/translation";

/** The panels of a sentence by task: panels(sentence, choices, model) gives the items of calque/tabs. */
const TASKS = {translation: translationPanels, "language-modelling": textPanels, tagging: taggingPanels, "statistical translation": phrasePanels, embedding: similarityPanels};

// The reader's choices are kept when the page is drawn again in another language.
const chosen = {sentences: [0, 1], both: null, tab: "summary", sides: [{}, {}]};

/** Draws an inspection document into an element. */
export function show(root, document) {
  const panels = TASKS[document.task];
  if (!panels) {
    fill(root, h("p", {role: "alert"}, t("inspection.unknown-task", {task: document.task})));
    return;
  }
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
    fill(sides, shown.map((side) => drawSide({side, document, panels, groups, choose, redraw: draw})));
  };
  const controls =
    sentences.length > 1
      ? h("div", {class: "controls"}, checkbox({label: t("inspection.both"), checked: chosen.both, onchange: (value) => ((chosen.both = value), draw())}))
      : null;
  const choose = (index) => {
    chosen.sentences[0] = index;
    draw();
  };
  fill(root, modelLine(document.model), sentences.length > 2 ? lazyDetails(t("inspection.all"), () => overview(sentences, choose)) : null, controls, sides);
  draw();
}

/** A line for each sentence, sortable by log-probability; its number shows the sentence. */
function overview(sentences, choose) {
  const briefs = sentences.map(brief);
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
function brief({source, target, text, words, predicted, steps, phrases, score, best, log_prob: logProb}) {
  const total = (phrases ? score : logProb) ?? best?.log_prob ?? steps?.reduce((sum, step) => sum + step.log_prob, 0);
  const pieces = (steps ?? phrases ?? words).length;
  return {logProb: total, pieces, text: source?.text ?? text ?? words.join(" "), answer: target?.text ?? predicted?.join(" ") ?? null};
}

function modelLine(model) {
  const facts = [model.architecture, model.parameters ? t("inspection.parameters", {count: count(model.parameters)}) : null];
  return factLine(model.name, facts);
}

function drawSide({side, document: {sentences, model, models = [model]}, panels, groups, choose, redraw}) {
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
  const options = sentences.map((sentence, number) => ({value: String(number), label: optionLabel(sentence, number)}));
  const name = t("inspection.sentence-number", {number: index + 1, total: sentences.length});
  return h(
    "section",
    {class: "side", "aria-label": name},
    sentences.length > 1 ? select({label: t("inspection.sentence"), options, value: String(index), onchange: move}) : null,
    group,
  );
}

function optionLabel({model, source, text, words}, number) {
  const whole = [...(source?.text ?? text ?? words.join(" "))];
  const start = whole.length > 60 ? `${whole.slice(0, 60).join("")}…` : whole.join("");
  const separator = language() === "zh" ? "：" : ": ";
  return `${number + 1}. ${model ? `${model}${separator}` : ""}${start}`;
}
