/** What `calque inspect` writes: a choice of sentences, one or two side by side, each with the panels of its task. */

import {checkbox, select} from "calque/controls";
import {fill, h} from "calque/dom";
import {factLine} from "calque/fact_line";
import {language, t} from "calque/i18n";
import {panels as textPanels} from "calque/language_model";
import {count} from "calque/numbers";
import {panels as taggingPanels} from "calque/tagging";
import {tabs} from "calque/tabs";
import {panels as translationPanels} from "calque/translation";

/** The panels of a sentence by task: panels(sentence, choices, model) gives the items of calque/tabs. */
const TASKS = {translation: translationPanels, "language-modelling": textPanels, tagging: taggingPanels};

// What the reader chose outlives drawing the page again in another language.
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
  fill(root, modelLine(document.model), controls, sides);
  draw();
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
