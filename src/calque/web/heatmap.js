/** A matrix as colours on a canvas, with labels of rows and columns; pointer and arrow keys show the numbers. */

import {announce} from "calque/announce";
import {heatGradient, heatIndex, heatScale} from "calque/colours";
import {h, listen, onWidth, uniqueId} from "calque/dom";
import {t} from "calque/i18n";
import {fixed} from "calque/numbers";
import {lazyDetails, matrixTable} from "calque/table";
import {direction, isUpright, isolated, piece} from "calque/text";
import {PRINT_WIDTH, isPrinting} from "calque/theme";
import {hideTooltip, showTooltip} from "calque/tooltip";

const CELL = {least: 9, most: 30, gapFrom: 13};

/**
 * A heatmap of values (row-major Float32Array) for pieces of text as rows and columns.
 * `maximum` gets the darkest colour. Columns of a right-to-left sentence run from right to left.
 * outlined(row, column) says which cells have a frame, and outlinedName what the frame means. `label` names the heatmap for screen readers.
 */
export function heatmap({rows, columns, values, maximum, label, rowsName, columnsName, outlined = null, outlinedName = "", digits = 3}) {
  const mirrored = direction(columns.join(" ")) === "rtl";
  const state = {cell: 0, width: 0, active: null};
  const canvas = h("canvas", {"aria-hidden": "true"});
  const cursor = h("div", {class: "heatmap-cursor", hidden: true});
  const rowLabels = rows.map((text) => h("div", {class: "heatmap-label"}, piece(text)));
  const columnLabels = columns.map((text) => h("div", {class: isUpright(text) ? "heatmap-label upright" : "heatmap-label"}, piece(text)));
  const hint = uniqueId("hint");
  const plane = h(
    "div",
    {
      class: "heatmap-plane",
      role: "application",
      tabindex: 0,
      "aria-roledescription": t("heatmap.role"),
      "aria-label": label,
      "aria-describedby": hint,
    },
    canvas,
    cursor,
  );
  const top = h("div", {class: "heatmap-columns", "aria-hidden": "true"}, columnLabels);
  const left = h("div", {class: "heatmap-rows", "aria-hidden": "true"}, rowLabels);
  const scroller = h("div", {class: "heatmap-scroller", dir: mirrored ? "rtl" : "ltr"}, h("div", {class: "heatmap-corner"}), top, left, plane);
  const element = h(
    "figure",
    {class: "heatmap"},
    h("div", {class: "heatmap-axes"}, `↓ ${rowsName}`, h("span", {}, `${columnsName} ${mirrored ? "←" : "→"}`)),
    scroller,
    h("figcaption", {}, legend(maximum, values, digits), outlined ? h("span", {}, `▢ ${outlinedName}`) : null, h("span", {class: "hint", id: hint}, t("heatmap.keys"))),
    lazyDetails(t("heatmap.values"), () =>
      matrixTable({
        caption: label,
        rows: rows.map((text) => piece(text)),
        columns: columns.map((text) => piece(text)),
        cell: (row, column) => fixed(values[row * columns.length + column], digits),
      }),
    ),
  );

  const place = (column) => (mirrored ? columns.length - 1 - column : column);

  const layout = (width) => {
    state.width = width;
    const room = (isPrinting() ? PRINT_WIDTH : width) - labelRoom(rows);
    const cell = Math.max(CELL.least, Math.min(CELL.most, Math.floor(room / columns.length)));
    if (cell !== state.cell) {
      state.cell = cell;
      scroller.style.setProperty("--cell", `${cell}px`);
      scroller.style.setProperty("--columns", String(columns.length));
      columnLabels.forEach((item, column) => item.style.setProperty("left", `${place(column) * cell}px`));
    }
    draw();
  };

  const draw = () => {
    if (!state.cell) return;
    const colours = heatScale();
    const ratio = Math.max(1, devicePixelRatio || 1) * (isPrinting() ? 2 : 1);
    const side = Math.round(state.cell * ratio);
    const gap = state.cell >= CELL.gapFrom ? Math.max(1, Math.round(ratio)) : 0;
    canvas.width = side * columns.length;
    canvas.height = side * rows.length;
    canvas.style.width = `${state.cell * columns.length}px`;
    canvas.style.height = `${state.cell * rows.length}px`;
    const context = canvas.getContext("2d");
    for (let row = 0; row < rows.length; row += 1) {
      for (let column = 0; column < columns.length; column += 1) {
        const value = maximum > 0 ? values[row * columns.length + column] / maximum : 0;
        context.fillStyle = colours.css[heatIndex(value)];
        context.fillRect(place(column) * side, row * side, side - gap, side - gap);
      }
    }
    if (!outlined) return;
    context.strokeStyle = getComputedStyle(element).color;
    context.lineWidth = Math.max(1.5, 1.5 * ratio);
    for (let row = 0; row < rows.length; row += 1) {
      for (let column = 0; column < columns.length; column += 1) {
        const inset = context.lineWidth / 2;
        const size = side - gap - context.lineWidth;
        if (outlined(row, column)) context.strokeRect(place(column) * side + inset, row * side + inset, size, size);
      }
    }
  };

  const activate = (row, column, {spoken}) => {
    if (state.active) mark(state.active, false);
    state.active = [row, column];
    mark(state.active, true);
    const value = fixed(values[row * columns.length + column], digits);
    const box = cursor.getBoundingClientRect();
    const line = [piece(rows[row]), mirrored ? " ← " : " → ", piece(columns[column])];
    showTooltip({x: mirrored ? box.left : box.right, y: box.bottom, toLeft: mirrored}, h("strong", {}, value), h("span", {}, line));
    if (spoken) announce(t("heatmap.cell", {row: isolated(rows[row]), column: isolated(columns[column]), value}));
  };

  const mark = ([row, column], isActive) => {
    rowLabels[row].classList.toggle("active", isActive);
    columnLabels[column].classList.toggle("active", isActive);
    cursor.hidden = !isActive;
    if (isActive) {
      cursor.style.left = `${place(column) * state.cell}px`;
      cursor.style.top = `${row * state.cell}px`;
    }
  };

  const leave = () => {
    if (state.active) mark(state.active, false);
    hideTooltip();
  };

  plane.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const across = Math.floor((event.clientX - box.left) / state.cell);
    const row = Math.floor((event.clientY - box.top) / state.cell);
    const column = mirrored ? columns.length - 1 - across : across;
    if (row < 0 || column < 0 || row >= rows.length || column >= columns.length) return leave();
    if (!state.active || cursor.hidden || state.active[0] !== row || state.active[1] !== column) activate(row, column, {spoken: false});
  });
  plane.addEventListener("pointerleave", () => document.activeElement !== plane && leave());
  plane.addEventListener("blur", leave);
  plane.addEventListener("focus", () => plane.matches(":focus-visible") && activate(...(state.active ?? [0, 0]), {spoken: true}));
  plane.addEventListener("keydown", (event) => {
    const [row, column] = state.active ?? [0, 0];
    const right = mirrored ? -1 : 1;
    const target = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - right],
      ArrowRight: [row, column + right],
      Home: [row, 0],
      End: [row, columns.length - 1],
      PageUp: [0, column],
      PageDown: [rows.length - 1, column],
    }[event.key];
    if (event.key === "Escape") return leave();
    if (!target) return;
    event.preventDefault();
    state.active ??= [0, 0];
    const inside = target[0] >= 0 && target[1] >= 0 && target[0] < rows.length && target[1] < columns.length;
    const [nextRow, nextColumn] = inside ? target : [row, column];
    reveal(nextRow, nextColumn);
    activate(nextRow, nextColumn, {spoken: true});
  });

  /** Scrolls the frame sideways and the page up and down, so that a cell can be seen. */
  const reveal = (row, column) => {
    const [box, frame] = [canvas.getBoundingClientRect(), scroller.getBoundingClientRect()];
    const from = box.left + place(column) * state.cell;
    const least = mirrored ? frame.left : frame.left + left.offsetWidth;
    const most = mirrored ? frame.right - left.offsetWidth : frame.right;
    if (from < least) scroller.scrollLeft -= least - from;
    else if (from + state.cell > most) scroller.scrollLeft += from + state.cell - most;
    const top = box.top + row * state.cell;
    if (top < 0) scrollBy(0, top - state.cell);
    else if (top + state.cell > innerHeight) scrollBy(0, top + 2 * state.cell - innerHeight);
  };

  onWidth(element, layout);
  listen(element, "calque:theme", () => layout(state.width || PRINT_WIDTH));
  return element;
}

/** A small picture of a matrix: some whole pixels per cell, scaled by the stylesheet. */
export function thumbnail({rows, columns, values, maximum, mirrored = false}) {
  const size = Math.max(1, Math.floor(120 / columns));
  const canvas = h("canvas", {width: size * columns, height: size * rows, "aria-hidden": "true"});
  const draw = () => {
    const colours = heatScale();
    const context = canvas.getContext("2d");
    const image = context.createImageData(size * columns, size * rows);
    const pixels = new Uint32Array(image.data.buffer);
    for (let index = 0; index < rows * columns; index += 1) {
      const [row, column] = [Math.floor(index / columns), index % columns];
      const corner = size * (row * size * columns + (mirrored ? columns - 1 - column : column));
      const pixel = colours.pixels[heatIndex(maximum > 0 ? values[index] / maximum : 0)];
      for (let line = 0; line < size; line += 1) pixels.fill(pixel, corner + line * size * columns, corner + line * size * columns + size);
    }
    context.putImageData(image, 0, 0);
  };
  draw();
  listen(canvas, "calque:theme", draw);
  return canvas;
}

function legend(maximum, values, digits) {
  const signed = values.some((value) => value < 0);
  const bar = h("span", {class: "legend-bar", "aria-hidden": "true"});
  const draw = () => bar.style.setProperty("background", heatGradient(signed));
  draw();
  listen(bar, "calque:theme", draw);
  return h("span", {class: "legend"}, signed ? fixed(-maximum, digits) : "0", bar, fixed(maximum, digits));
}

/** Pixels for the labels of rows; the stylesheet cuts longer ones off. */
function labelRoom(rows) {
  const longest = Math.max(...rows.map((text) => [...text].reduce((sum, character) => sum + (isUpright(character) ? 13 : 7.5), 0)));
  return Math.min(130, longest + 14);
}
