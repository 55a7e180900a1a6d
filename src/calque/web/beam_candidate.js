/** One candidate of beam search in words: its hypothesis, whether and why it was kept or dropped, and its score by term. */

import {h} from "calque/dom";
import {t} from "calque/i18n";
import {fixed, isNumber, probability} from "calque/numbers";
import {direction, isolated, piece} from "calque/text";

const GLYPHS = {kept: "●", ended: "■", dropped: "×"};
/** The terms of a score, the sum last. */
export const TERMS = ["length", "coverage", "end", "reward", "total"];

/** A sign for what became of a candidate, so that colour is not needed. */
export function fateGlyph({fate}) {
  return GLYPHS[fate] ?? "?";
}

/** What became of a candidate, and why. */
export function fateLabel({fate, reason}) {
  return reason ? t("fate.with-reason", {fate: t(`fate.${fate}`), reason: t(`reason.${reason}`)}) : t(`fate.${fate}`);
}

/** A candidate as a screen reader says it. */
export function spokenCandidate(node, tree) {
  return t(node.answer ? "beam.spoken-answer" : "beam.spoken", {
    piece: isolated(node.piece),
    fate: fateLabel(node),
    logProb: fixed(node.log_prob),
    rank: node.rank + 1,
    size: tree.columns[node.column].length,
    step: node.column,
  });
}

/** Everything that the document has about a candidate. */
export function candidateDetails(node, tree, sentence) {
  if (!node.column) return h("p", {class: "hint"}, t("beam.hint"));
  const hypothesis = [];
  for (let step = node; step?.column; step = tree.byId.get(step.parent)) hypothesis.unshift(piece(step.piece));
  const added = node.log_prob - (tree.byId.get(node.parent)?.log_prob ?? 0);
  const rows = [
    [t("beam.fate"), h("span", {}, `${fateGlyph(node)} `, fateLabel(node))],
    [t("beam.rank"), t("beam.rank-of", {rank: node.rank + 1, size: node.size, step: node.column})],
    ...(node.group ? [[t("beam.group"), String(node.group)]] : []),
    ...(node.penalty ? [[t("beam.penalty"), fixed(-node.penalty)]] : []),
    ...(isNumber(node.matched) ? [[t("beam.matched"), String(node.matched)]] : []),
    [t("score.log_prob"), fixed(node.log_prob)],
    [t("beam.piece-log-prob"), fixed(added)],
    [t("beam.piece-probability"), probability(Math.exp(added))],
    ...(node.score ? TERMS.map((term) => [t(`score.${term}`), fixed(node.score[term])]) : []),
  ];
  return [
    h("h3", {}, piece(node.piece)),
    h("p", {class: "hypothesis", dir: direction(sentence.target.text)}, hypothesis.flatMap((item, index) => (index ? [" ", item] : [item]))),
    h("dl", {class: "pairs"}, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    node.answer ? h("p", {class: "note"}, t("beam.on-answer")) : null,
    node.score || node.fate === "ended" ? null : h("p", {class: "hint"}, t("beam.no-score")),
  ];
}
