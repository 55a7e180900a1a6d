/** Tables about beam search: whether beams of several sizes find an answer, and the hypotheses that ended. */

import {t} from "calque/i18n";
import {fixed} from "calque/numbers";
import {table} from "calque/table";
import {sentence as sentenceText} from "calque/text";

/** A row for each size of the beam; place(outcome) names the piece at which a search lost the answer. */
export function outcomeTable({caption, outcomes, place}) {
  return table({
    caption,
    columns: [
      {label: t("beam.width"), numeric: true},
      {label: t("beam.finds")},
      {label: t("beam.lost-at")},
      {label: t("beam.translation"), class: "wide"},
    ],
    rows: outcomes.map((outcome) => [
      String(outcome.beam),
      outcome.finds ? `✓ ${t("beam.yes")}` : `✗ ${t("beam.no")}`,
      outcome.finds ? "–" : outcome.lost_at ? place(outcome) : t("beam.outscored"),
      sentenceText(outcome.text),
    ]),
    className: "narrower",
  });
}

/** Where a search lost an answer, in words: it dropped a piece, or it had stopped before. */
export function lostPlace({lost_at: number, is_stopped: isStopped}) {
  return t(isStopped ? "beam.stopped-before" : "beam.at-piece", {number});
}

/** The hypotheses that ended, highest score first. */
export function endedTable(ended) {
  if (!ended?.length) return null;
  return table({
    caption: t("beam.ended", {count: ended.length}),
    columns: [
      {label: t("beam.place"), numeric: true},
      {label: t("score.total"), numeric: true},
      {label: t("score.log_prob"), numeric: true},
      {label: t("beam.hypothesis"), class: "wide"},
    ],
    rows: ended.map(({text, score, log_prob: logProb}, index) => [String(index + 1), fixed(score.total), fixed(logProb), sentenceText(text)]),
    className: "ended",
  });
}
