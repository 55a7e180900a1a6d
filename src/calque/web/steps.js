/** The steps of decoding: the probability and rank of each piece, and the five runners-up. */

import {h, uniqueId} from "calque/dom";
import {t} from "calque/i18n";
import {fixed, isNumber, probability} from "calque/numbers";
import {piece} from "calque/text";

export function stepsPanel({steps}, explanation = t("steps.explanation")) {
  const hasGate = steps.some((step) => isNumber(step.copying));
  const heads = [
    ["index", t("steps.number")],
    ["piece-cell", t("steps.piece")],
    ["probability", t("steps.probability")],
    ["rank", t("steps.rank")],
    ["entropy", t("steps.entropy")],
    hasGate ? ["gate", t("steps.gate")] : null,
    ["others", t("steps.runners-up")],
  ].filter(Boolean);
  const cell = (name, label, ...content) => h("td", {role: "cell", class: name, "data-label": label}, content);
  const labels = Object.fromEntries(heads);
  const rows = steps.map((step, index) =>
    h(
      "tr",
      {role: "row"},
      cell("index", labels.index, String(index + 1)),
      h("th", {role: "rowheader", scope: "row", class: "piece-cell"}, piece(step.piece)),
      cell("probability", labels.probability, bar(step.log_prob)),
      cell(step.rank === 1 ? "rank" : "rank other", labels.rank, isNumber(step.rank) ? String(step.rank) : "–"),
      cell("entropy", labels.entropy, fixed(step.entropy, 2)),
      hasGate ? cell("gate", labels.gate, fixed(step.copying, 2)) : null,
      cell("others", labels.others, runnersUp(step)),
    ),
  );
  const id = uniqueId("steps");
  return [
    h("p", {class: "explanation", id}, explanation),
    h(
      "table",
      {class: "steps", role: "table", "aria-describedby": id},
      h("caption", {class: "visually-hidden"}, t("tab.steps")),
      h("thead", {role: "rowgroup"}, h("tr", {role: "row"}, heads.map(([name, label]) => h("th", {role: "columnheader", scope: "col", class: name}, label)))),
      h("tbody", {role: "rowgroup"}, rows),
    ),
  ];
}

function bar(logProb) {
  const share = Math.exp(logProb);
  return h(
    "span",
    {class: "share", style: {"--share": String(share)}},
    h("span", {class: "share-bar", "aria-hidden": "true"}),
    h("span", {class: "share-number"}, probability(share)),
  );
}

function runnersUp({runners_up: others}) {
  return h(
    "ol",
    {class: "runners-up"},
    others.map((other) =>
      h(
        "li",
        {style: {"--share": String(Math.exp(other.log_prob))}},
        piece(other.piece),
        h("span", {class: "share-number"}, probability(Math.exp(other.log_prob))),
      ),
    ),
  );
}
