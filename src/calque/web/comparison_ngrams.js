/** The n-grams that one system gets right, invents or misses more often than another. */

import {segmented, select} from "calque/controls";
import {fill, h} from "calque/dom";
import {t} from "calque/i18n";
import {count, fixed} from "calque/numbers";
import {table} from "calque/table";
import {direction, visible} from "calque/text";

const KINDS = ["correct", "excess", "missing"];

export function ngramPanel({systems, ngrams}, chosen) {
  Object.assign(chosen, {kind: chosen.kind ?? KINDS[0], pair: chosen.pair ?? 0});
  const body = h("div", {class: "columns"});
  const draw = () => {
    const pair = ngrams[chosen.pair];
    const [first, second] = pair.systems.map((place) => systems[place].name);
    const sides = pair[chosen.kind];
    fill(body, ngramTable(sides.second, second, first), ngramTable(sides.first, first, second));
  };
  const kinds = KINDS.map((value) => ({value, label: t(`ngrams.${value}`)}));
  const pairs = ngrams.map((pair, index) => ({value: String(index), label: systems[pair.systems[1]].name}));
  draw();
  return [
    h(
      "div",
      {class: "controls"},
      segmented({label: t("ngrams.kind"), options: kinds, value: chosen.kind, onchange: (value) => ((chosen.kind = value), draw())}),
      pairs.length > 1
        ? select({label: t("comparison.against"), options: pairs, value: String(chosen.pair), onchange: (value) => ((chosen.pair = Number(value)), draw())})
        : null,
    ),
    h("p", {class: "hint"}, t("ngrams.explanation")),
    body,
  ];
}

function ngramTable(rows, name, other) {
  const caption = t("ngrams.more", {name, other});
  if (!rows.length) return h("p", {}, h("strong", {}, caption), ": ", t("ngrams.none"));
  return table({
    caption,
    columns: [
      {label: t("ngrams.ngram")},
      {label: h("bdi", {}, name), numeric: true},
      {label: h("bdi", {}, other), numeric: true},
      {label: t("ngrams.share"), numeric: true},
    ],
    rows: rows.map(({words, counts, share}) => {
      const text = visible(words.join(" "));
      return [h("bdi", {dir: direction(text)}, text), count(counts[0]), count(counts[1]), fixed(share, 2)];
    }),
    rowHeads: true,
  });
}
