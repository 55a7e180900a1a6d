/** Which source word goes with which target word, how much attention each source piece received, and the copy gate. */

import {announce} from "calque/announce";
import {barChart} from "calque/charts";
import {fill, h, listen, s} from "calque/dom";
import {t} from "calque/i18n";
import {isNumber} from "calque/numbers";
import {lazyDetails, table} from "calque/table";
import {direction, isolated, sentence as sentenceText, visible} from "calque/text";
import {isPrinting} from "calque/theme";
import {wordTexts} from "calque/words";

const GAP = 18;
const HEIGHT = 132;
const PRINT_WIDTH = 1000; // wider ones would be too small on paper
const LINES = {source: 18, target: 114};

export function alignmentPanel(sentence) {
  const {source, target, steps, alignment, coverage} = sentence;
  const gates = steps.map((step) => ({label: step.piece, value: step.copying}));
  const hasGate = gates.some((gate) => isNumber(gate.value));
  return [
    alignment ? [h("h2", {}, t("alignment.title")), h("p", {class: "explanation"}, t("alignment.explanation")), graph(source, target, alignment)] : null,
    coverage
      ? [
          h("h2", {}, t("coverage.title")),
          h("p", {class: "explanation"}, t("coverage.explanation")),
          barChart({
            label: t("coverage.title"),
            bars: coverage.map((value, index) => ({label: source.pieces[index] ?? `#${index + 1}`, value})),
            reference: 1,
            y: {label: t("coverage.axis")},
            mirrored: direction(source.text) === "rtl",
          }),
        ]
      : null,
    hasGate
      ? [
          h("h2", {}, t("gate.title")),
          h("p", {class: "explanation"}, t("gate.explanation")),
          barChart({label: t("gate.title"), bars: gates.map((gate) => ({...gate, value: gate.value ?? 0})), y: {label: t("gate.axis")}, reference: 1, mirrored: direction(target.text) === "rtl"}),
        ]
      : null,
  ];
}

/** Two lines of words with links; arrow keys move along a line and to the other. */
function graph(source, target, alignment) {
  const words = {source: placed(source), target: placed(target)};
  const width = Math.max(words.source.width, words.target.width);
  for (const [side, text] of [["source", source.text], ["target", target.text]]) {
    const shift = direction(text) === "rtl" ? width - words[side].width : 0;
    for (const word of words[side].items) word.x += shift;
  }
  const links = alignment
    .filter(([from, to]) => words.source.items[from] && words.target.items[to])
    .map(([from, to]) => ({
      from,
      to,
      element: s("path", {class: "link", d: curve(words.source.items[from].x, words.target.items[to].x)}),
    }));
  const texts = {};
  for (const side of ["source", "target"]) {
    texts[side] = words[side].items.map((word, index) =>
      s("text", {x: word.x, y: LINES[side], class: "link-word", "text-anchor": "middle", direction: direction(word.text), "data-side": side, "data-index": index}, visible(word.text)),
    );
  }
  const state = {side: "source", index: 0};
  const partners = (side, index) => links.filter((link) => (side === "source" ? link.from : link.to) === index).map((link) => (side === "source" ? link.to : link.from));
  const activate = (side, index, spoken) => {
    leave();
    Object.assign(state, {side, index});
    const other = side === "source" ? "target" : "source";
    texts[side][index].classList.add("active");
    for (const partner of partners(side, index)) texts[other][partner].classList.add("active");
    for (const link of links) link.element.classList.toggle("active", (side === "source" ? link.from : link.to) === index);
    if (!spoken) return;
    const names = partners(side, index).map((partner) => isolated(words[other].items[partner].text));
    const word = isolated(words[side].items[index].text);
    announce(names.length ? t("alignment.spoken", {word, partners: names.join(", ")}) : t("alignment.none-spoken", {word}));
    reveal(texts[side][index]);
  };
  const leave = () => {
    for (const element of [...texts.source, ...texts.target, ...links.map((link) => link.element)]) element.classList.remove("active");
  };
  const reveal = (text) => {
    const [box, frame] = [text.getBoundingClientRect(), plane.getBoundingClientRect()];
    if (box.left < frame.left) plane.scrollLeft -= frame.left - box.left + GAP;
    else if (box.right > frame.right) plane.scrollLeft += box.right - frame.right + GAP;
  };
  const onkeydown = (event) => {
    const {side, index} = state;
    const towards = direction((side === "source" ? source : target).text) === "rtl" ? -1 : 1;
    const step = {ArrowRight: towards, ArrowLeft: -towards}[event.key];
    const other = {ArrowDown: "target", ArrowUp: "source"}[event.key];
    if (event.key === "Escape") return leave();
    if (!step && !other) return;
    event.preventDefault();
    if (step) activate(side, Math.max(0, Math.min(texts[side].length - 1, index + step)), true);
    else if (other !== side) activate(other, partners(side, index)[0] ?? Math.min(index, texts[other].length - 1), true);
  };
  const plane = h(
    "div",
    {
      class: "links",
      role: "application",
      tabindex: 0,
      "aria-roledescription": t("alignment.role"),
      "aria-label": t("alignment.title"),
      onkeydown,
      onfocus: () => plane.matches(":focus-visible") && activate(state.side, state.index, true),
      onblur: leave,
      onpointerover: (event) => {
        const {side, index} = event.target.dataset ?? {};
        if (side) activate(side, Number(index), false);
      },
      onpointerleave: leave,
    },
    s("svg", {width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, "aria-hidden": "true"}, links.map((link) => link.element), texts.source, texts.target),
  );
  const rows = words.source.items.map((word, index) => [
    sentenceText(word.text),
    partners("source", index).flatMap((partner, place) => [place ? ", " : "", sentenceText(words.target.items[partner].text)]),
  ]);
  const listed = () =>
    table({caption: t("alignment.title"), columns: [{label: t("summary.source")}, {label: t("summary.target")}], rows: rows.map(([word, others]) => [word, h("span", {}, others)]), rowHeads: true});
  const forPrint = h("div", {class: "print-only"});
  if (width > PRINT_WIDTH) listen(forPrint, "calque:print", () => fill(forPrint, isPrinting() ? pairs() : null));
  const pairs = () =>
    h("ul", {class: "pairs-of-words"}, rows.map(([word, others]) => h("li", {}, word.cloneNode(true), " – ", others.map((other) => (other instanceof Node ? other.cloneNode(true) : other)))));
  if (width > PRINT_WIDTH) plane.classList.add("too-wide");
  return h("figure", {}, plane, forPrint, h("figcaption", {class: "hint"}, t("alignment.keys")), lazyDetails(t("alignment.values"), listed));
}

/** Words side by side in their direction: the middle of each, and the width of all. */
function placed(side) {
  const context = document.createElement("canvas").getContext("2d");
  context.font = `15px ${getComputedStyle(document.body).fontFamily}`;
  let x = 4;
  const items = wordTexts(side).map((text) => {
    const width = context.measureText(visible(text)).width + 2;
    x += width + GAP;
    return {text, x: x - GAP - width / 2};
  });
  const width = Math.ceil(x - GAP + 4);
  if (direction(side.text) === "rtl") for (const item of items) item.x = width - item.x;
  return {items, width};
}

function curve(from, to) {
  const [top, bottom] = [LINES.source + 8, LINES.target - 16];
  const middle = (top + bottom) / 2;
  return `M${from} ${top}C${from} ${middle} ${to} ${middle} ${to} ${bottom}`;
}
