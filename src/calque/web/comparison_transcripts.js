/** The parts of a comparison of transcripts: error rates, the kinds of errors, and the words that are confused. */

import {name, sizeTable, testedScores} from "calque/comparison_scores";
import {select} from "calque/controls";
import {fill, h} from "calque/dom";
import {t} from "calque/i18n";
import {count} from "calque/numbers";
import {table} from "calque/table";
import {piece} from "calque/text";

const KINDS = ["substitutions", "insertions", "deletions"];

/** Error rates with tests, and the kinds of errors. */
export function transcriptScores(document) {
  return [testedScores(document), h("div", {class: "block"}, errorTable(document.systems)), sizeTable(document.systems, {sentences: t("size.recordings")})];
}

function errorTable(systems) {
  const units = [["wer", "transcripts.words"], ["cer", "transcripts.characters"]];
  const row = (system, metric, unit) => {
    const errors = system.errors[metric];
    const edits = KINDS.reduce((sum, kind) => sum + errors[kind], 0);
    return [name(system), t(unit), ...KINDS.map((kind) => count(errors[kind])), count(edits), count(errors.length)];
  };
  return table({
    caption: t("transcripts.errors"),
    columns: [
      {label: t("comparison.system")},
      {label: t("transcripts.unit")},
      ...KINDS.map((kind) => ({label: t(`transcripts.${kind}`), numeric: true})),
      {label: t("transcripts.edits"), numeric: true},
      {label: t("transcripts.length"), numeric: true},
    ],
    rows: systems.flatMap((system) => units.map(([metric, unit]) => row(system, metric, unit))),
    rowHeads: true,
  });
}

/** The words that a system takes for others, leaves out and adds, most frequent first. */
export function confusedWords({systems}, chosen) {
  chosen.system ??= 0;
  const body = h("div", {class: "columns"});
  const list = (caption, columns, rows) => (rows.length ? table({caption, columns: [...columns.map((label) => ({label})), {label: t("transcripts.times"), numeric: true}], rows}) : null);
  const draw = () => {
    const {substituted, deleted, inserted} = systems[chosen.system];
    const words = (items) => items.map(({word, count: times}) => [piece(word), count(times)]);
    const tables = [
      list(t("transcripts.substitutions"), [t("transcripts.said"), t("transcripts.heard")], substituted.map(({reference, hypothesis, count: times}) => [piece(reference), piece(hypothesis), count(times)])),
      list(t("transcripts.deletions"), [t("transcripts.said")], words(deleted)),
      list(t("transcripts.insertions"), [t("transcripts.heard")], words(inserted)),
    ].filter(Boolean);
    fill(body, tables.length ? tables : h("p", {}, t("transcripts.none")));
  };
  const options = systems.map((system, index) => ({value: String(index), label: system.name}));
  const choose = (value) => ((chosen.system = Number(value)), draw());
  draw();
  return [h("div", {class: "controls"}, select({label: t("comparison.system"), options, value: String(chosen.system), onchange: choose})), body];
}
