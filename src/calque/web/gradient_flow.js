/** What `calque inspect --gradients` writes: norms by distance, eigenvalues, Jacobians and gates, and clipping. */

import {lineChart} from "calque/charts";
import {fill, h} from "calque/dom";
import {factLine} from "calque/fact_line";
import "calque/gradient_flow_strings";
import {distanceNotes, factorTable, normsPanel, sidesOf} from "calque/gradient_norms";
import {eigenvaluesPanel, jacobiansPanel, recurrenceTable} from "calque/gradient_recurrences";
import {t} from "calque/i18n";
import {MISSING, count, fixed, isNumber} from "calque/numbers";
import {tabs} from "calque/tabs";

// The reader's choices are kept when the page is drawn again in another language.
const chosen = {tab: "flow-summary"};

/** Draws a document of gradient flow into an element. */
export function show(root, document) {
  const {model, sentences, loss, recurrences, flows, clipping} = document;
  const facts = [
    model.architecture,
    t("inspection.parameters", {count: count(model.parameters)}),
    t("flow.sentences", {count: count(sentences)}),
    t("flow.loss", {loss: fixed(loss)}),
    clipping ? t("flow.clipped-fact", {share: percent(clipping.share)}) : t("flow.not-clipped"),
  ];
  const items = [
    {name: "flow-summary", label: t("tab.flow-summary"), draw: () => summaryPanel(document)},
    flows.length ? {name: "norms", label: t("tab.norms"), draw: () => normsPanel(document, chosen)} : null,
    recurrences.length ? {name: "eigenvalues", label: t("tab.eigenvalues"), draw: () => eigenvaluesPanel(document, chosen)} : null,
    recurrences.length ? {name: "jacobians", label: t("tab.jacobians"), draw: () => jacobiansPanel(document, chosen)} : null,
    clipping ? {name: "clipping", label: t("tab.clipping"), draw: () => clippingPanel(clipping)} : null,
  ];
  fill(
    root,
    factLine(model.name, facts),
    tabs({label: t("flow.views"), items: items.filter(Boolean), selected: chosen.tab, onchange: (name) => (chosen.tab = name)}),
  );
}

function summaryPanel({flows, recurrences}) {
  return [
    h("p", {class: "explanation"}, t("flow.explanation")),
    sidesOf(flows).map((side) => h("div", {class: "block"}, factorTable(flows, side), distanceNotes(flows, side))),
    recurrences.length ? h("div", {class: "block"}, recurrenceTable(recurrences)) : null,
  ];
}

function clippingPanel({share, steps, shares}) {
  return [
    h("p", {class: "explanation"}, t("flow.clipped", {share: percent(share)})),
    lineChart({
      label: t("flow.clipping"),
      series: [{name: t("flow.clipping"), points: steps.map((x, index) => ({x, y: shares[index]}))}],
      x: {label: t("flow.training-step")},
      y: {label: t("flow.clipped-axis"), from: [0, 1], format: percent},
    }),
  ];
}

const percent = (share) => (isNumber(share) ? `${fixed(100 * share, share > 0 && share < 0.01 ? 2 : 0)} %` : MISSING);
