/** A matrix over time as colours on a canvas, with words placed where they are heard; pointer and arrow keys show the numbers. */

import {announce} from "calque/announce";
import {heatIndex, heatScale} from "calque/colours";
import {fill, h, listen, onWidth, s, uniqueId} from "calque/dom";
import {t} from "calque/i18n";
import {fixed} from "calque/numbers";
import {horizontalAxis, scale, ticks} from "calque/svg";
import {isolated, visible} from "calque/text";
import {PRINT_WIDTH, isPrinting} from "calque/theme";
import {hideTooltip, showTooltip} from "calque/tooltip";

const LEFT = 84; // pixels for the names of rows
const SECOND = 70; // pixels of a second, at least
const LANE = 17; // pixels of a line of words
const LANES = 3;
const CHARACTER = 8; // pixels

/**
 * Rows of values over time. value(row, column) is between 0 and `maximum`; a column lasts `step` seconds, the whole `seconds`.
 * rows: names, the first at the top; `shown(row)` says which are written. `words`: [{name, start, end}] above the map.
 * `frames`: [{row, start, end}] are outlined. `describe(value)` is the text of a value.
 */
export function timeMap({label, rows, columns, value, step, seconds, maximum, height, words = [], frames = [], shown = () => true, describe = (number) => fixed(number)}) {
  const canvas = h("canvas", {"aria-hidden": "true"});
  const overlay = h("div", {class: "time-overlay", "aria-hidden": "true"});
  const hint = uniqueId("hint");
  const plane = h("div", {class: "time-plane", role: "application", tabindex: 0, "aria-roledescription": t("heatmap.role"), "aria-label": label, "aria-describedby": hint}, canvas, overlay);
  const element = h("figure", {class: "time-map"}, h("div", {class: "time-scroller"}, plane), h("figcaption", {}, h("span", {class: "hint", id: hint}, t("heatmap.keys"))));
  const cursor = s("rect", {class: "time-cursor", display: "none"});
  const state = {frame: null, active: null, width: 0};

  const layout = (width) => {
    state.width = width;
    const room = isPrinting() ? PRINT_WIDTH : width;
    const right = Math.max(room - 12, LEFT + SECOND * seconds);
    const toX = scale({low: 0, high: seconds, from: LEFT, to: right});
    const placed = lanes(words.map((word) => ({...word, end: Math.min(word.end, seconds)})), toX, right);
    const top = LANE * (1 + Math.max(-1, ...placed.map(({lane}) => lane))) + 6;
    state.frame = {left: LEFT, right, top, bottom: top + height, toX};
    plane.style.width = `${right + 12}px`;
    plane.style.height = `${top + height + 40}px`;
    paint();
    fill(overlay, drawing(placed));
  };

  const paint = () => {
    const {left, right, top} = state.frame;
    const small = new OffscreenCanvas(columns, rows.length);
    const context = small.getContext("2d");
    const image = context.createImageData(columns, rows.length);
    const pixels = new Uint32Array(image.data.buffer);
    const colours = heatScale().pixels;
    for (let row = 0; row < rows.length; row += 1)
      for (let column = 0; column < columns; column += 1) pixels[row * columns + column] = colours[heatIndex(value(row, column) / (maximum || 1))];
    context.putImageData(image, 0, 0);
    const ratio = Math.max(1, devicePixelRatio || 1);
    canvas.width = Math.round((right - left) * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${right - left}px`;
    canvas.style.height = `${height}px`;
    canvas.style.left = `${left}px`;
    canvas.style.top = `${top}px`;
    const large = canvas.getContext("2d");
    large.imageSmoothingEnabled = false;
    large.drawImage(small, 0, 0, (canvas.width * columns * step) / seconds, canvas.height); // the last column may be longer
  };

  const drawing = (placed) => {
    const {left, right, top, bottom, toX} = state.frame;
    const cell = height / rows.length;
    const names = rows.map((name, row) => (shown(row) ? s("text", {x: left - 6, y: top + (row + 0.5) * cell, dy: "0.32em", "text-anchor": "end", class: "time-row"}, cut(visible(name))) : null));
    const marks = placed.map(({name, start, end, lane, middle}) => [
      s("line", {x1: toX(start), x2: toX(start), y1: top - 4, y2: bottom, class: "time-bound"}),
      s("line", {x1: toX(end), x2: toX(end), y1: top - 4, y2: bottom, class: "time-bound"}),
      s("line", {x1: toX(start), x2: toX(end), y1: top - 3, y2: top - 3, class: "time-word"}),
      s("text", {x: middle, y: top - 8 - lane * LANE, "text-anchor": "middle", class: "time-name"}, visible(name)),
    ]);
    const outlines = frames.map(({row, start, end}) => s("rect", {x: toX(start), width: Math.max(2, toX(Math.min(end, seconds)) - toX(start)), y: top + row * cell, height: cell, class: "time-frame"}));
    const axis = horizontalAxis({ticks: ticks(0, seconds, Math.max(2, Math.floor((right - left) / 90))), x: toX, top: bottom, left, right, label: t("recognition.seconds")});
    return s("svg", {width: right + 12, height: bottom + 40, class: "chart"}, names, marks, outlines, axis, cursor);
  };

  const activate = (row, column, spoken) => {
    const {toX, top} = state.frame;
    state.active = [row, column];
    const cell = height / rows.length;
    const [x, y] = [toX(column * step), top + row * cell];
    for (const [key, number] of Object.entries({x, y, width: Math.max(2, toX(step) - toX(0)), height: cell})) cursor.setAttribute(key, number);
    cursor.removeAttribute("display");
    const time = t("recognition.at", {time: fixed(column * step, 2)});
    const text = describe(value(row, column));
    const box = plane.getBoundingClientRect();
    showTooltip({x: box.left + x, y: box.top + y + cell}, h("strong", {}, text), visible(rows[row]), time);
    if (spoken) announce(`${isolated(rows[row])}, ${time}: ${text}`);
  };
  const leave = () => {
    cursor.setAttribute("display", "none");
    hideTooltip();
  };
  plane.addEventListener("pointermove", (event) => {
    const {left, top, toX} = state.frame;
    const box = plane.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top - top) / height) * rows.length);
    const column = Math.floor((event.clientX - box.left - left) / (toX(step) - toX(0)));
    if (row < 0 || column < 0 || row >= rows.length || column >= columns) leave();
    else activate(row, column, false);
  });
  plane.addEventListener("pointerleave", leave);
  plane.addEventListener("blur", leave);
  plane.addEventListener("focus", () => plane.matches(":focus-visible") && activate(...(state.active ?? [0, 0]), true));
  plane.addEventListener("keydown", (event) => {
    const [row, column] = state.active ?? [0, 0];
    const target = {ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], Home: [row, 0], End: [row, columns - 1]}[event.key];
    if (event.key === "Escape") return leave();
    if (!target) return;
    event.preventDefault();
    activate(Math.max(0, Math.min(rows.length - 1, target[0])), Math.max(0, Math.min(columns - 1, target[1])), true);
  });
  onWidth(element, layout);
  listen(element, "calque:theme", () => layout(state.width || PRINT_WIDTH));
  return element;
}

/** The words with the line that each is written in, so that names do not overlap as far as there are lines. */
function lanes(words, toX, right) {
  const ends = Array.from({length: LANES}, () => -Infinity);
  return words.map((word) => {
    const half = (CHARACTER * [...word.name].length) / 2;
    const middle = Math.min(toX((word.start + word.end) / 2), right + 12 - half);
    const free = ends.findIndex((end) => end < middle - half);
    const lane = free < 0 ? ends.indexOf(Math.min(...ends)) : free;
    ends[lane] = middle + half;
    return {...word, lane, middle};
  });
}

const cut = (text) => ([...text].length > 10 ? `${[...text].slice(0, 9).join("")}…` : text);
