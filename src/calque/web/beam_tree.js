/** The beam tree: columns are steps, candidates stand best first, lines lead to parents; the answer's path is thick. */

import {endedTable, lostPlace, outcomeTable} from "calque/beam_outcomes";
import {checkbox} from "calque/controls";
import {fill, h, listen, s} from "calque/dom";
import {candidateDetails, fateGlyph, fateLabel, spokenCandidate} from "calque/beam_candidate";
import {t} from "calque/i18n";
import {fixed} from "calque/numbers";
import {direction, piece} from "calque/text";
import {PRINT_WIDTH, isPrinting} from "calque/theme";
import {hideTooltip, showTooltip} from "calque/tooltip";

const NODE = {width: 112, height: 24, across: 34, down: 6, head: 30};

/** The panel of the beam; choices: {kept}: only kept and ended candidates are shown. */
export function beamPanel(sentence, choices) {
  const {beam} = sentence;
  const tree = familyTree(beam);
  const body = h("div", {class: "tree-body"});
  const focusOn = {candidate: null};
  const draw = () => {
    const drawn = drawTree({sentence, tree, onlyKept: Boolean(choices.kept)});
    focusOn.candidate = drawn.focusOn;
    fill(body, drawn.element);
  };
  draw();
  return [
    h("p", {class: "explanation"}, t("beam.explanation", {width: beam.width})),
    h("div", {class: "controls"}, key(), checkbox({label: t("beam.only-kept"), checked: Boolean(choices.kept), onchange: (value) => ((choices.kept = value), draw())})),
    body,
    h("p", {class: "explanation"}, t("beam.stop"), " ", t(`stop.${beam.stop}`)),
    h("div", {class: "block"}, endedTable(beam.ended)),
    narrowerBeams(beam, tree, (id) => focusOn.candidate(id)),
  ];
}

/** Candidates by id, each with its step, its rank there, its parent and its children; the start has id 0. */
function familyTree(beam) {
  const start = {id: 0, column: 0, rank: 0, children: [], log_prob: 0, fate: "kept", parent: null, size: 1};
  const byId = new Map([[0, start]]);
  const columns = [[start]];
  const answer = new Set([0, ...beam.answer]);
  beam.steps.forEach((step, index) => {
    const nodes = step.candidates.map((candidate, rank) => ({...candidate, length: step.length, column: index + 1, rank, children: [], size: step.candidates.length, answer: answer.has(candidate.id)}));
    for (const node of nodes) byId.set(node.id, node);
    columns.push(nodes);
  });
  start.answer = true;
  for (const node of byId.values()) if (node !== start) byId.get(node.parent)?.children.push(node);
  return {byId, columns, start};
}

function drawTree({sentence, tree, onlyKept}) {
  const mirrored = direction(sentence.target.text) === "rtl";
  const columns = tree.columns.map((nodes) => nodes.filter((node) => !onlyKept || node.answer || node.fate !== "dropped"));
  const tallest = Math.max(...columns.map((nodes) => nodes.length));
  const heads = columns.map((_, column) => h("div", {class: "tree-head"}, column ? h("span", {}, String(column)) : null, lostMark(sentence.beam, tree, column)));
  const buttons = new Map();
  const lines = new Map();
  for (const node of columns.flat()) {
    buttons.set(node.id, nodeButton(node, tree));
    if (node.column) lines.set(node.id, s("path", {class: `edge ${node.fate}${node.answer ? " answer" : ""}`}));
  }
  const details = h("aside", {class: "tree-details", "aria-live": "polite", "aria-label": t("beam.details")}, h("p", {class: "hint"}, t("beam.hint")));
  const plane = h("div", {class: "tree-plane", role: "group", "aria-label": t("beam.tree-label")});
  const scroller = h("div", {class: "tree-scroller", dir: mirrored ? "rtl" : "ltr"}, plane);
  const element = h("div", {class: "tree"}, scroller, details);

  // One band of columns on a screen; as many as a page is wide for the printer, each of which stays on one page.
  const layout = () => {
    const step = NODE.width + NODE.across;
    const perBand = isPrinting() ? Math.floor((PRINT_WIDTH + NODE.across) / step) : columns.length;
    const width = Math.min(perBand, columns.length) * step - NODE.across;
    const height = NODE.head + tallest * (NODE.height + NODE.down);
    const left = (column) => (mirrored ? width - NODE.width - (column % perBand) * step : (column % perBand) * step);
    const middle = (node) => NODE.head + Math.max(0, columns[node.column].indexOf(node)) * (NODE.height + NODE.down) + NODE.height / 2;
    const bands = [];
    for (let first = 0; first < columns.length; first += perBand) {
      const nodes = columns.slice(first, first + perBand).flat();
      const ordered = nodes.filter((node) => lines.has(node.id)).sort((a, b) => weight(a) - weight(b));
      bands.push(
        h(
          "div",
          {class: "tree-band", style: {width: `${width}px`, height: `${height}px`}},
          s("svg", {class: "tree-edges", "aria-hidden": "true", width, height}, ordered.map((node) => lines.get(node.id))),
          heads.slice(first, first + perBand),
          nodes.map((node) => buttons.get(node.id)),
        ),
      );
    }
    heads.forEach((head, column) => (head.style.left = `${left(column)}px`));
    for (const node of columns.flat()) {
      Object.assign(buttons.get(node.id).style, {left: `${left(node.column)}px`, top: `${middle(node) - NODE.height / 2}px`});
      const parent = tree.byId.get(node.parent);
      if (!node.column || !parent) continue;
      // A parent in the band above stands at the same height there: the line begins at the margin.
      const gap = (node.column % perBand === 0 ? 10 : NODE.across) * (mirrored ? 1 : -1);
      const near = left(node.column) + (mirrored ? NODE.width : 0);
      const [from, to] = [middle(parent), middle(node)];
      lines.get(node.id).setAttribute("d", `M${near + gap} ${from}C${near + gap / 2} ${from} ${near + gap / 2} ${to} ${near} ${to}`);
    }
    fill(plane, bands);
  };

  let current = tree.start;
  const trace = (node) => {
    for (const line of lines.values()) line.classList.remove("trace");
    for (let step = node; step?.column; step = tree.byId.get(step.parent)) lines.get(step.id)?.classList.add("trace");
  };
  const choose = (node) => {
    buttons.get(current.id)?.setAttribute("tabindex", "-1");
    buttons.get(current.id)?.removeAttribute("aria-current");
    current = node;
    const button = buttons.get(node.id);
    button.setAttribute("tabindex", "0");
    button.setAttribute("aria-current", "true");
    trace(node);
    fill(details, candidateDetails(node, tree, sentence));
  };
  const focusOn = (id) => {
    const button = buttons.get(id);
    if (!button) return;
    button.focus({preventScroll: true});
    button.scrollIntoView({block: "nearest", inline: "nearest"});
  };
  const nodeOf = (event) => tree.byId.get(Number(event.target.closest?.(".candidate")?.dataset.id ?? NaN));
  plane.addEventListener("focusin", (event) => nodeOf(event) && choose(nodeOf(event)));
  plane.addEventListener("click", (event) => nodeOf(event) && focusOn(nodeOf(event).id));
  plane.addEventListener("pointerover", (event) => {
    const node = nodeOf(event);
    if (!node?.column) return hideTooltip();
    const box = buttons.get(node.id).getBoundingClientRect();
    showTooltip({x: box.left, y: box.bottom}, piece(node.piece), h("strong", {}, fixed(node.log_prob)), fateLabel(node));
    trace(node);
  });
  plane.addEventListener("pointerleave", () => (hideTooltip(), trace(current)));
  plane.addEventListener("keydown", (event) => {
    const target = neighbour(event.key, current, {columns, mirrored});
    if (event.key === "Escape") hideTooltip();
    if (!target) return;
    event.preventDefault();
    focusOn(target.id);
  });
  buttons.get(0).setAttribute("tabindex", "0");
  layout();
  listen(element, "calque:print", layout);
  return {element, focusOn};
}

/** Where a key leads: to the parent, to the best child, up and down a column, to the first and last step. */
function neighbour(key, node, {columns, mirrored}) {
  const shown = (candidate) => columns[candidate.column].includes(candidate);
  const column = columns[node.column];
  const row = column.indexOf(node);
  const children = node.children.filter(shown);
  const forward = children.find((child) => child.answer) ?? children.find((child) => child.fate === "kept") ?? children[0];
  const back = node.column ? columns[node.column - 1].find((candidate) => candidate.id === node.parent) : null;
  const last = columns.findLast((nodes) => nodes.some((candidate) => candidate.answer));
  return {
    ArrowUp: column[row - 1],
    ArrowDown: column[row + 1],
    ArrowRight: mirrored ? back : forward,
    ArrowLeft: mirrored ? forward : back,
    Home: columns[0][0],
    End: last.find((candidate) => candidate.answer),
  }[key];
}

const weight = (node) => (node.answer ? 2 : node.fate === "dropped" ? 0 : 1);

function nodeButton(node, tree) {
  return h(
    "button",
    {
      type: "button",
      class: `candidate ${node.column ? node.fate : "start"}${node.answer ? " answer" : ""}`,
      tabindex: -1,
      "data-id": node.id,
      "aria-label": node.column ? spokenCandidate(node, tree) : t("beam.start"),
    },
    node.column ? [h("span", {class: "fate", "aria-hidden": "true"}, fateGlyph(node)), piece(node.piece)] : h("span", {class: "piece"}, t("beam.start")),
  );
}

/** The beams that lose the answer at this step. */
function lostMark(beam, tree, column) {
  const length = tree.columns[column][0]?.length;
  const lost = (beam.narrower ?? []).filter((item) => column && !item.finds && item.lost_at === length).map((item) => item.beam);
  if (!lost.length) return null;
  const widest = Math.max(...lost);
  return h("span", {class: "lost", title: t("beam.lost-title", {beam: widest})}, t("beam.lost", {beam: widest}));
}

function key() {
  const entries = ["kept", "ended", "dropped"].map((fate) => h("li", {class: "key-item"}, h("span", {class: `candidate sample ${fate}`}, h("span", {class: "fate"}, fateGlyph({fate})), t(`fate.${fate}`))));
  const answer = h("li", {class: "key-item"}, h("span", {class: "candidate sample kept answer"}, h("span", {class: "fate"}, fateGlyph({fate: "kept"})), t("beam.answer")));
  return h("ul", {class: "tree-key", "aria-label": t("beam.key")}, entries, answer);
}

function narrowerBeams(beam, tree, focusOn) {
  if (!beam.narrower?.length) return null;
  const place = (outcome) => {
    const lost = tree.columns.flat().find((node) => node.answer && node.column && node.length === outcome.lost_at);
    if (!lost) return lostPlace(outcome);
    return h("button", {type: "button", class: "text-button", onclick: () => focusOn(lost.id)}, lostPlace(outcome), " ", piece(lost.piece));
  };
  return h("div", {class: "block"}, outcomeTable({caption: t("beam.narrower"), outcomes: beam.narrower, place}));
}
