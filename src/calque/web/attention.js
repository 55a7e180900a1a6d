/** Attention by layer and head: one large heatmap, and small ones of all heads to choose from. Saliency likewise. */

import {announce} from "calque/announce";
import {checkbox, select} from "calque/controls";
import {fill, h} from "calque/dom";
import {heatmap, thumbnail} from "calque/heatmap";
import {t} from "calque/i18n";
import {direction} from "calque/text";
import {decodeWeights, flat, largest} from "calque/weights";
import {spans} from "calque/words";

const decoded = new WeakMap();

/** The panel of attention; choices: {map, head, full}; names: {rowsName, columnsName}, unless rows and columns are pieces of a translation. */
export function attentionPanel(sentence, choices, names = {}) {
  const maps = sentence.attention?.maps ?? [];
  if (!maps.length) return h("p", {class: "note"}, t("attention.none"));
  if (!maps.some((map) => map.name === choices.map)) choices.map = maps[0].name;
  const panel = h("div", {class: "attention"});
  const draw = () => {
    const map = maps.find((item) => item.name === choices.map);
    const alike = maps.filter((item) => item.kind === map.kind);
    if (choices.head === undefined || choices.head >= map.heads) choices.head = "mean";
    const large = h("div", {class: "attention-large"});
    const drawLarge = () => fill(large, largeMap(sentence, map, choices, names));
    const overview = smallMultiples({
      sentence,
      maps: alike,
      choices,
      onchoose: (name, head) => {
        const isNewMap = name !== choices.map;
        Object.assign(choices, {map: name, head});
        if (isNewMap) {
          draw();
          panel.querySelector('.multiples [aria-checked="true"]')?.focus();
        } else drawControls(), drawLarge();
        announce(t("attention.chosen", {map: mapLabel(maps.find((item) => item.name === name)), head: headLabel(head)}));
      },
    });
    const controls = h("div", {class: "controls"});
    const drawControls = () => fill(controls, choosers(maps, map, choices, draw));
    drawControls();
    fill(panel, controls, h("div", {class: "attention-body"}, large, overview));
    drawLarge();
  };
  draw();
  return panel;
}

/**
 * The panel of saliency, which says why it is there if the model has no attention; choices: {method}.
 * names: {rows, columns, rowsName, columnsName, instead, explanation, negative}, if they are no pieces of a translation.
 */
export function saliencyPanel(sentence, choices, names = translationNames(sentence)) {
  const methods = sentence.saliency;
  const panel = h("div", {class: "attention"});
  const draw = () => {
    const chosen = methods.find((item) => item.method === choices.method) ?? methods[0];
    const values = flat(chosen.weights);
    const options = methods.map((item) => ({value: item.method, label: methodLabel(item.method)}));
    fill(
      panel,
      sentence.attention ? null : h("p", {class: "note"}, names.instead),
      methods.length > 1
        ? h("div", {class: "controls"}, select({label: t("saliency.method"), options, value: chosen.method, onchange: (value) => ((choices.method = value), draw())}))
        : h("h2", {}, methodLabel(chosen.method)),
      h("p", {class: "explanation"}, names.explanation, values.some((value) => value < 0) ? ` ${names.negative}` : null),
      methods.length > 1 ? h("p", {class: "explanation"}, t("saliency.disagree")) : null,
      heatmap({
        rows: labels(names.rows, chosen.weights.length),
        columns: labels(names.columns, chosen.weights[0].length),
        values,
        maximum: largest([values]),
        label: `${t("tab.saliency")}, ${methodLabel(chosen.method)}`,
        rowsName: names.rowsName,
        columnsName: names.columnsName,
      }),
    );
  };
  draw();
  return panel;
}

function translationNames({source, target}) {
  return {
    rows: target.pieces,
    columns: source.pieces,
    rowsName: t("attention.target-pieces"),
    columnsName: t("attention.source-pieces"),
    instead: t("saliency.instead"),
    explanation: t("saliency.explanation"),
    negative: t("saliency.negative"),
  };
}

function choosers(maps, map, choices, draw) {
  const heads = map.heads > 1 ? ["mean", ...Array(map.heads).keys()] : [0];
  return [
    maps.length > 1
      ? select({
          label: t("attention.map"),
          options: maps.map((item) => ({value: item.name, label: mapLabel(item), group: t(`attention.kind.${item.kind}`)})),
          value: map.name,
          onchange: (name) => ((choices.map = name), draw()),
        })
      : null,
    heads.length > 1
      ? select({
          label: t("attention.head"),
          options: heads.map((head) => ({value: String(head), label: headLabel(head)})),
          value: String(choices.head),
          onchange: (head) => ((choices.head = head === "mean" ? head : Number(head)), draw()),
        })
      : null,
    checkbox({label: t("attention.full-scale"), checked: Boolean(choices.full), onchange: (value) => ((choices.full = value), draw())}),
  ];
}

function largeMap(sentence, map, choices, names) {
  const weights = weightsOf(map);
  const values = matrix(weights, choices.head);
  const sides = {source: ["target", "source"], encoder: ["source", "source"], decoder: ["target", "target"]}[map.kind];
  return heatmap({
    rows: labels(sentence[sides[0]].pieces, weights.rows),
    columns: labels(map.kind === "decoder" ? readPieces(sentence.target) : sentence[sides[1]].pieces, weights.columns),
    values,
    maximum: choices.full ? 1 : largest([values]),
    label: [t(`attention.kind.${map.kind}`), mapLabel(map), map.heads > 1 ? headLabel(choices.head) : null].filter(Boolean).join(", "),
    rowsName: names.rowsName ?? t(`attention.${sides[0]}-pieces`),
    columnsName: names.columnsName ?? t(`attention.${sides[1]}-pieces`),
    outlined: map.kind === "source" ? alignedCells(sentence) : null,
    outlinedName: t("attention.aligned"),
  });
}

/** Small pictures of every head of every map of a kind, a row for each map; arrow keys move and choose. */
function smallMultiples({sentence, maps, choices, onchoose}) {
  if (maps.length === 1 && maps[0].heads === 1) return null;
  const columnsText = maps[0].kind === "decoder" ? sentence.target.text : sentence.source.text;
  const widest = Math.max(...maps.map((map) => map.heads));
  const rows = maps.map((map) => {
    const heads = map.heads > 1 ? ["mean", ...Array(map.heads).keys()] : ["mean"];
    const weights = weightsOf(map);
    return heads.map((head) => {
      const values = matrix(weights, head);
      const isChosen = map.name === choices.map && (head === choices.head || map.heads === 1);
      return h(
        "button",
        {
          type: "button",
          role: "radio",
          class: "multiple",
          "aria-checked": String(isChosen),
          "aria-label": `${mapLabel(map)}, ${headLabel(head)}`,
          tabindex: isChosen ? 0 : -1,
          style: {"grid-column": String(head === "mean" ? 2 : head + 3)},
          onclick: (event) => choose(event.currentTarget, map.name, head),
        },
        thumbnail({...weights, values, maximum: choices.full ? 1 : largest([values]), mirrored: direction(columnsText) === "rtl"}),
      );
    });
  });
  const choose = (button, name, head) => {
    for (const other of rows.flat()) {
      other.setAttribute("aria-checked", String(other === button));
      other.tabIndex = other === button ? 0 : -1;
    }
    button.focus({preventScroll: true});
    onchoose(name, head);
  };
  const move = (event) => {
    const row = rows.findIndex((buttons) => buttons.includes(event.target));
    if (row < 0) return;
    const column = rows[row].indexOf(event.target);
    const target = {ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], ArrowUp: [row - 1, column], ArrowDown: [row + 1, column]}[event.key];
    if (!target) return;
    event.preventDefault();
    const buttons = rows[target[0]];
    buttons?.[Math.min(target[1], buttons.length - 1)]?.click();
  };
  const heads = widest > 1 ? [t("attention.mean-short"), ...Array.from({length: widest}, (_, head) => String(head + 1))] : [];
  return h(
    "section",
    {class: "multiples-frame"},
    h("h2", {}, t("attention.all-heads")),
    h(
      "div",
      {class: "multiples", role: "radiogroup", "aria-label": t("attention.all-heads"), onkeydown: move, style: {"--heads": String(widest > 1 ? widest + 1 : 1)}},
      heads.length ? [h("span", {class: "multiples-head"}), heads.map((label) => h("span", {class: "multiples-head", "aria-hidden": "true"}, label))] : null,
      rows.map((buttons, index) => [h("span", {class: "multiples-label", "aria-hidden": "true"}, mapShort(maps[index])), buttons]),
    ),
  );
}

/** Whether a cell's source and target words are aligned; null if that is not known. */
function alignedCells({source, target, alignment}) {
  const [columns, rows] = [spans(source), spans(target)];
  if (!alignment?.length || !columns || !rows) return null;
  const cells = new Set();
  for (const [from, to] of alignment) {
    if (!columns[from] || !rows[to]) continue;
    for (let row = rows[to][0]; row <= rows[to][1]; row += 1) {
      for (let column = columns[from][0]; column <= columns[from][1]; column += 1) cells.add(`${row},${column}`);
    }
  }
  return (row, column) => cells.has(`${row},${column}`);
}

function weightsOf(map) {
  if (!decoded.has(map)) decoded.set(map, decodeWeights(map.weights));
  return decoded.get(map);
}

const matrix = (weights, head) => (head === "mean" ? weights.mean() : weights.head(head));

const headLabel = (head) => (head === "mean" ? t("attention.mean") : t("attention.head-number", {number: head + 1}));

function mapLabel(map) {
  if (map.name === "mean") return t("attention.mean-of-layers");
  return typeof map.layer === "number" ? t("attention.layer", {number: map.layer}) : map.name;
}

const mapShort = (map) => (map.name === "mean" || typeof map.layer !== "number" ? t("attention.mean-short") : String(map.layer));

const methodLabel = (method) => ({"gradient × input": t("saliency.gradient-input"), "integrated gradients": t("saliency.integrated")})[method] ?? method;

/** What a decoder reads when it predicts each piece: the start mark, then the piece before, unless it is given. */
const readPieces = ({pieces, read = null, start = "<s>"}) => read ?? [start, ...pieces.slice(0, -1)];

/** `size` labels: the pieces and, if there are more rows than pieces, positions. */
function labels(pieces, size) {
  return Array.from({length: size}, (_, index) => pieces[index] ?? `#${index + 1}`);
}
