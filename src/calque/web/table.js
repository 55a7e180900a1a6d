/** Tables: a caption, named columns, rows of text or elements; wide ones scroll inside their own frame. */

import {h, uniqueId} from "calque/dom";
import {t} from "calque/i18n";

/**
 * A table. Columns: [{label, numeric?, class?, sort?}]; rows: [[cell…]], a cell is text, an element or {content, sort, class}.
 * With `sortable`, the heads of columns are buttons. The first cell of a row is its head if `rowHeads` says so.
 */
export function table({caption, columns, rows, rowHeads = false, sortable = false, className = ""}) {
  const body = h("tbody", {}, rows.map((row) => tableRow(row, columns, rowHeads)));
  const heads = columns.map((column, index) =>
    h(
      "th",
      {scope: "col", class: cellClass(column)},
      sortable
        ? h("button", {type: "button", class: "sort", onclick: () => sortBy(index)}, column.label)
        : column.label,
    ),
  );
  const sortBy = (index) => {
    const descending = heads[index].getAttribute("aria-sort") !== "descending";
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[index].setAttribute("aria-sort", descending ? "descending" : "ascending");
    const order = rows.map((row, place) => [sortValue(row[index]), place]);
    order.sort(([a], [b]) => compare(a, b) * (descending ? -1 : 1));
    body.replaceChildren(...order.map(([, place]) => tableRow(rows[place], columns, rowHeads)));
  };
  const id = uniqueId("caption");
  return h(
    "div",
    {class: "table-frame"},
    h("div", {class: "table-caption", id}, caption), // outside the frame that scrolls, so that it is never cut
    scrolling(h("table", {class: className, "aria-labelledby": id}, h("thead", {}, h("tr", {}, heads)), body), {labelledBy: id}),
  );
}

/** A frame that scrolls sideways, and that the keyboard can reach for scrolling. */
export function scrolling(child, {labelledBy = null, label = null} = {}) {
  return h(
    "div",
    {class: "scrolling", role: "region", tabindex: 0, "aria-labelledby": labelledBy, "aria-label": label},
    child,
  );
}

/** A disclosure whose content is drawn when it is first opened. */
export function lazyDetails(label, draw) {
  const element = h("details", {class: "values"}, h("summary", {}, label));
  element.addEventListener("toggle", () => element.children.length === 1 && element.append(draw()));
  return element;
}

/** All values of a matrix as a table, for readers who want numbers. */
export function matrixTable({caption, rows, columns, cell}) {
  return table({
    caption,
    columns: [{label: t("matrix.corner")}, ...columns.map((label) => ({label, numeric: true}))],
    rows: rows.map((label, row) => [label, ...columns.map((_, column) => cell(row, column))]),
    rowHeads: true,
    className: "matrix",
  });
}

function tableRow(row, columns, rowHeads) {
  return h(
    "tr",
    {},
    row.map((cell, index) => {
      const wrapped = isWrapped(cell);
      const attributes = {class: [cellClass(columns[index]), wrapped ? cell.class : null].filter(Boolean).join(" ") || null};
      const content = wrapped ? cell.content : cell;
      return rowHeads && index === 0 ? h("th", {scope: "row", ...attributes}, content) : h("td", attributes, content);
    }),
  );
}

function cellClass(column) {
  return [column.numeric ? "numeric" : null, column.class].filter(Boolean).join(" ") || null;
}

const isWrapped = (cell) => cell !== null && typeof cell === "object" && !(cell instanceof Node) && "content" in cell;

const sortValue = (cell) => (isWrapped(cell) ? (cell.sort ?? cell.content) : cell instanceof Node ? cell.textContent : cell);

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), undefined, {numeric: true});
}
