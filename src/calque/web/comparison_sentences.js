/** Single sentences: source, reference and every hypothesis, sorted by difference, with what matches the reference. */

import {signed} from "calque/comparison_scores";
import {segmented, select} from "calque/controls";
import {fill, h} from "calque/dom";
import {t} from "calque/i18n";
import {count, fixed} from "calque/numbers";
import {lazyDetails, table} from "calque/table";
import {direction, sentence, visible} from "calque/text";

const PAGE = 20;
const NOTABLE = 1; // nats

/** The sentence view of translations; `highlight` is what is marked at first, `source` the name of what is read. */
export function translatedSentences({systems, metrics, sentences}, chosen, {highlight = "matches", source = t("sentences.source")} = {}) {
  Object.assign(chosen, {
    sort: chosen.sort ?? "gain",
    highlight: chosen.highlight ?? highlight,
    other: chosen.other ?? 1,
    sortMetric: chosen.sortMetric ?? metrics[0].name,
  });
  const metric = () => metrics.find((item) => item.name === chosen.sortMetric);
  const score = (item, place) => item.systems[place].scores[chosen.sortMetric];
  const gain = (item) => (score(item, chosen.other) - score(item, 0)) * (metric().better === "higher" ? 1 : -1);
  const worst = (item) => Math.min(...item.systems.map((_, place) => score(item, place) * (metric().better === "higher" ? 1 : -1)));
  const orders = {
    gain: (a, b) => gain(b) - gain(a),
    loss: (a, b) => gain(a) - gain(b),
    worst: (a, b) => worst(a) - worst(b),
    line: (a, b) => a.line - b.line,
  };
  const draw = (item) =>
    article(item, `${metric().title} ${signed(score(item, chosen.other) - score(item, 0), 1)}`, [
      item.source === null ? null : row(source, sentence(item.source), item.source),
      row(t("sentences.reference"), sentence(item.reference.join("")), item.reference.join("")),
      item.systems.map((system, place) => {
        const text = system.words.join("");
        const label = [h("bdi", {}, systems[place].name), h("span", {class: "score"}, scores(system, metrics))];
        return row(label, hypothesis(item, place, chosen), text);
      }),
    ]);
  const list = paged({items: sentences.items, order: () => orders[chosen.sort], draw, chosen});
  const change = (setting) => (value) => {
    chosen[setting] = setting === "other" ? Number(value) : value;
    chosen.page = 0;
    fill(key, keyOf(chosen.highlight));
    list.draw();
  };
  const key = h("p", {class: "hint match-key"}, keyOf(chosen.highlight));
  const others = systems.slice(1).map((system, index) => ({value: String(index + 1), label: system.name}));
  return [
    sentences.items.length < sentences.total
      ? h("p", {class: "hint"}, t("sentences.shown", {shown: count(sentences.items.length), total: count(sentences.total)}))
      : null,
    h(
      "div",
      {class: "controls"},
      select({label: t("sentences.sort"), options: Object.keys(orders).map((value) => ({value, label: t(`sentences.${value}`)})), value: chosen.sort, onchange: change("sort")}),
      select({label: t("comparison.metric"), options: metrics.map(({name, title}) => ({value: name, label: title})), value: chosen.sortMetric, onchange: change("sortMetric")}),
      others.length > 1 ? select({label: t("comparison.against"), options: others, value: String(chosen.other), onchange: change("other")}) : null,
      segmented({
        label: t("sentences.highlight"),
        options: ["matches", "differences", "plain"].map((value) => ({value, label: t(`sentences.${value}`)})),
        value: chosen.highlight,
        onchange: change("highlight"),
      }),
    ),
    key,
    list.element,
  ];
}

/** Sentences that taggers label differently. */
export function taggedSentences({systems, sentences}, chosen) {
  const draw = (item) => {
    const line = (label, labels) => [
      label,
      ...labels.map((value, place) => (value === item.gold[place] ? value : {content: h("strong", {class: "wrong"}, value), class: "wrong"})),
    ];
    const grid = table({
      caption: t("sentences.heading", {line: count(item.line)}),
      columns: [{label: t("comparison.system")}, ...item.words.map((word) => ({label: h("bdi", {}, visible(word))}))],
      rows: [line(t("sentences.gold"), item.gold), ...item.systems.map((labels, place) => line(h("bdi", {}, systems[place].name), labels))],
      rowHeads: true,
    });
    return h("article", {class: "compared"}, grid);
  };
  if (!sentences.items.length) return h("p", {}, t("sentences.none"));
  return paged({items: sentences.items, order: () => () => 0, draw, chosen}).element;
}

/** Lines whose words some language models predict better than others. */
export function lossSentences({systems, sentences}, chosen) {
  Object.assign(chosen, {sort: chosen.sort === "loss" ? "loss" : "gain", other: chosen.other ?? 1});
  const total = (losses) => losses.reduce((sum, value) => sum + value, 0) / losses.length;
  const gain = (item) => total(item.systems[0]) - total(item.systems[chosen.other]);
  const orders = {gain: (a, b) => gain(b) - gain(a), loss: (a, b) => gain(a) - gain(b)};
  const draw = (item) =>
    article(item, `${t("section.nats")} ${signed(-gain(item), 2)}`, null, [
      h("p", {dir: direction(item.words.join(" "))}, lossLine(item, chosen.other)),
      lazyDetails(t("sentences.numbers"), () =>
        table({
          caption: t("sentences.numbers"),
          columns: [{label: t("sentences.word")}, ...systems.map((system) => ({label: h("bdi", {}, system.name), numeric: true}))],
          rows: item.words.map((word, place) => [h("bdi", {}, visible(word)), ...item.systems.map((losses) => fixed(losses[place], 2))]),
          rowHeads: true,
        }),
      ),
    ]);
  const list = paged({items: sentences.items, order: () => orders[chosen.sort], draw, chosen});
  const change = (key) => (value) => {
    chosen[key] = key === "other" ? Number(value) : value;
    chosen.page = 0;
    list.draw();
  };
  const others = systems.slice(1).map((system, index) => ({value: String(index + 1), label: system.name}));
  return [
    h(
      "div",
      {class: "controls"},
      select({label: t("sentences.sort"), options: Object.keys(orders).map((value) => ({value, label: t(`sentences.${value}`)})), value: chosen.sort, onchange: change("sort")}),
      others.length > 1 ? select({label: t("comparison.against"), options: others, value: String(chosen.other), onchange: change("other")}) : null,
    ),
    h("p", {class: "hint match-key"}, h("span", {class: "better"}, t("sentences.key-better")), h("span", {class: "worse"}, t("sentences.key-worse"))),
    list.element,
  ];
}

function lossLine(item, other) {
  const words = item.words.map((word, place) => {
    const difference = item.systems[other][place] - item.systems[0][place];
    const kind = difference > NOTABLE ? "worse" : difference < -NOTABLE ? "better" : null;
    return [place ? " " : "", h("span", {class: kind}, visible(word))];
  });
  return h("bdi", {class: "sentence", dir: direction(item.words.join(" "))}, words);
}

/** A hypothesis with what it has in common with the reference, or how it differs from it. */
function hypothesis(item, place, {highlight, other}) {
  const {words, matches, difference} = item.systems[place];
  const dir = direction(words.join(""));
  if (highlight === "plain") return h("bdi", {class: "sentence", dir}, words.map(shown));
  if (highlight === "differences") {
    return h(
      "bdi",
      {class: "sentence", dir},
      difference.map(([operation, [from, to], [start, end]]) => [
        operation === "-" || operation === "~" ? h("del", {}, item.reference.slice(from, to).map(shown)) : null,
        operation === "=" ? words.slice(start, end).map(shown) : h("ins", {hidden: start === end}, words.slice(start, end).map(shown)),
      ]),
    );
  }
  const rival = new Set(item.systems[place === 0 ? other : 0].words.map((word) => word.trim()));
  return h(
    "bdi",
    {class: "sentence", dir},
    words.map((word, index) => {
      const [space, text] = [word.match(/^\s*/u)[0], word.trimStart()];
      const only = matches[index] > 0 && !rival.has(text) ? " only" : "";
      return [space ? " " : "", h("span", {class: `match match-${matches[index]}${only}`}, shown(text))];
    }),
  );
}

function keyOf(highlight) {
  if (highlight === "differences") return [h("ins", {}, t("sentences.key-added")), " ", h("del", {}, t("sentences.key-missing"))];
  if (highlight === "plain") return [];
  const marks = [1, 2, 3, 4].map((length) => [" ", h("span", {class: `match match-${length}`}, String(length))]);
  return [t("sentences.key"), marks, " ", h("span", {class: "match match-1 only"}, t("sentences.key-only"))];
}

const shown = (word) => (word.trim() === "" ? word : visible(word));

const scores = (system, metrics) => metrics.map((metric) => `${metric.title} ${fixed(system.scores[metric.name], 1)}`).join(" · ");

function article(item, note, rows, others = null) {
  const heading = t("sentences.heading", {line: count(item.line)});
  return h(
    "article",
    {class: "compared", "aria-label": heading},
    h("h3", {}, heading, h("span", {class: "score"}, note)),
    rows ? h("dl", {class: "texts"}, rows) : null,
    others,
  );
}

function row(label, content, text) {
  return [h("dt", {}, label), h("dd", {dir: direction(text)}, content)];
}

/** Items in pages of twenty; everything is printed that is on the page now. */
function paged({items, order, draw, chosen}) {
  const body = h("div", {});
  const status = h("span", {role: "status"});
  const buttons = [-1, 1].map((step) =>
    h("button", {type: "button", class: "text-button", onclick: () => move(step)}, t(step < 0 ? "sentences.previous" : "sentences.next")),
  );
  const last = Math.max(0, Math.ceil(items.length / PAGE) - 1);
  const render = () => {
    chosen.page = Math.max(0, Math.min(chosen.page ?? 0, last));
    const first = chosen.page * PAGE;
    const sorted = [...items].sort(order()).slice(first, first + PAGE);
    fill(body, sorted.map(draw));
    fill(status, t("sentences.page", {first: first + 1, last: first + sorted.length, total: count(items.length)}));
    buttons[0].disabled = chosen.page === 0;
    buttons[1].disabled = chosen.page === last;
  };
  const move = (step) => {
    chosen.page += step;
    render();
    element.scrollIntoView({block: "start"});
  };
  const pager = h("div", {class: "controls pager"}, buttons[0], status, buttons[1]);
  const element = h("div", {class: "compared-list"}, body, items.length > PAGE ? pager : null);
  render();
  return {element, draw: render};
}
