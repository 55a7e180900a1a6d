/** The parts of a comparison of sentence vectors: top-1 by length, and pairs whose partners only some systems find. */

import {name} from "calque/comparison_scores";
import {h} from "calque/dom";
import {t} from "calque/i18n";
import {count, fixed} from "calque/numbers";
import {table} from "calque/table";
import {sentence} from "calque/text";

/** Top-1 by the length of the source. */
export function lengthPanel({systems, lengths}) {
  return table({
    caption: t("retrieval.lengths"),
    columns: [{label: t("retrieval.words")}, {label: t("retrieval.pairs"), numeric: true}, ...systems.map((system) => ({label: name(system), numeric: true}))],
    rows: lengths.map((row) => [row.label, count(row.count), ...row.systems.map((share) => fixed(share, 1))]),
    rowHeads: true,
  });
}

/** The pairs whose partners are the nearest for some systems only. */
export function retrievedSentences({systems, sentences}) {
  if (!sentences.items.length) return h("p", {}, t("retrieval.same"));
  return table({
    caption: t("retrieval.ranks", {shown: count(sentences.items.length), total: count(sentences.total)}),
    columns: [
      {label: t("retrieval.line"), numeric: true},
      ...systems.map((system) => ({label: name(system)})),
      {label: t("retrieval.source"), class: "wide"},
      {label: t("retrieval.target"), class: "wide"},
    ],
    rows: sentences.items.map((item) => [
      String(item.line),
      ...item.systems.map((ranks) => `${count(ranks.to_target)}, ${count(ranks.to_source)}`),
      sentence(item.source),
      sentence(item.target),
    ]),
  });
}
