/** Line, bar and scatter charts in SVG, drawn for the width there is; pointer and arrow keys show the numbers. */

import {announce} from "calque/announce";
import {band, barLabel, dotMark, errorBar, joinedPath, keyMark, labelHeight, marker, referenceLine, seriesClass, tags, withRange} from "calque/chart_marks";
import {fill, h, listen, onWidth, s, uniqueId} from "calque/dom";
import {t} from "calque/i18n";
import {fixed, isNumber, short} from "calque/numbers";
import {extent, horizontalAxis, logTicks, scale, ticks, verticalAxis} from "calque/svg";
import {isUpright, piece, visible} from "calque/text";
import {PRINT_WIDTH, isPrinting} from "calque/theme";
import {hideTooltip, showTooltip} from "calque/tooltip";

const SMALL_PRINT_WIDTH = 210; // three beside each other

/**
 * Lines with markers. Series: [{name, points: [{x, y, low?, high?}], spread?}]; low and high are the ends of an error bar,
 * or the edges of a band if `spread` is "band"; "none" draws neither. A line is interrupted where a number is missing.
 * x, y: {label, logarithmic?, format?, from?}; `from` is a number, or several, that the axis includes. x may have
 * `names`, of the places 0, 1, 2 and so on.
 * `reference` {value, name} draws a horizontal line.
 */
export function lineChart({label, series, x = {}, y = {}, height = 260, reference = null}) {
  return pointChart({label, series: series.map((item) => ({...item, joined: true})), x, y, height, reference});
}

/**
 * Points in a plane. Groups: [{name, points: [{x, y, label?, lines?, tag?}], joined?}]; `lines` are what the tooltip says,
 * `tag` is written beside the point, and `joined` connects the points in order. `equal` gives both axes the same scale.
 * `background` {name, points: [[x, y]…]} are dots without values, `circles` [{x, y, radius}] lie in the plane, `links()` gives
 * pairs of points to connect, and onchoose(point) is called on a click or Enter. `small` is for several charts side by side.
 * The element has a method redraw().
 */
export function scatterChart({label, groups, x = {}, y = {}, height = 320, ...options}) {
  return pointChart({label, series: groups, x, y, height, ...options});
}

/** Vertical bars from zero. Bars: [{label, value, low?, high?, series?}]; `reference` draws a line at a value. */
export function barChart({label, bars, y = {}, height = 220, reference = null, digits = 3, mirrored = false}) {
  const draw = (room) => {
    const width = Math.min(room, 60 + 72 * bars.length);
    const values = bars.flatMap((bar) => [bar.value, bar.low ?? bar.value, bar.high ?? bar.value]);
    const [low, high] = extent([0, ...values, ...(reference === null ? [] : [reference])]);
    const step = (width - 50) / bars.length;
    const flat = bars.every((bar) => isUpright(bar.label) ? [...bar.label].length === 1 : step > 8 * [...bar.label].length);
    const frame = {left: 44, right: width - 6, top: 20, bottom: height - (flat ? 22 : labelHeight(bars))};
    const marks = ticks(low, high, 4);
    const toY = scale({low: Math.min(low, marks[0]), high: Math.max(high, marks.at(-1)), from: frame.bottom, to: frame.top});
    const place = (index) => frame.left + ((mirrored ? bars.length - 1 - index : index) + 0.5) * step;
    const thick = Math.max(2, Math.min(28, step * 0.7));
    const points = bars.map((bar, index) => ({
      x: place(index),
      y: toY(bar.value),
      text: () => [h("strong", {}, withRange(bar, (value) => fixed(value, digits))), piece(bar.label)],
      spoken: `${visible(bar.label)}: ${withRange(bar, (value) => fixed(value, digits))}`,
    }));
    const picture = s(
      "svg",
      {width, height, "aria-hidden": "true", class: "chart"},
      verticalAxis({ticks: marks, y: toY, ...frame, label: y.label, format: y.format}),
      bars.map((bar, index) => [
        s("rect", {
          x: place(index) - thick / 2,
          width: thick,
          y: Math.min(toY(bar.value), toY(0)),
          height: Math.abs(toY(bar.value) - toY(0)),
          class: `bar ${seriesClass(bar.series ?? 0)}`,
        }),
        errorBar(place(index), bar, toY),
        barLabel(bar.label, place(index), frame.bottom, {step, flat}),
      ]),
      s("line", {x1: frame.left, x2: frame.right, y1: toY(0), y2: toY(0), class: "zero"}),
      reference === null ? null : s("line", {x1: frame.left, x2: frame.right, y1: toY(reference), y2: toY(reference), class: "reference"}),
    );
    return {picture, rows: [points], mirrored};
  };
  return interactive({label, draw});
}

function pointChart({label, series, x, y, height, ...options}) {
  const {equal = false, reference = null, background = null, circles = [], links = () => [], onchoose = null, small = false} = options;
  const isDrawn = (point) => isPlaced(point.x, x) && isPlaced(point.y, y);
  const dots = background?.points.map(([left, up]) => ({x: left, y: up})).filter(isDrawn) ?? [];
  const extents = ({x: left, y: up, low, high}, {spread}) => (spread === "none" ? {x: left, y: up} : {x: left, y: up, low, high});
  const all = [...series.flatMap((item) => item.points.filter(isDrawn).map((point) => extents(point, item))), ...dots, ...circles.flatMap(corners)];
  const draw = (width) => {
    const frame = {left: 52, right: width - 10, top: 20, bottom: height - 40};
    let [xLow, xHigh] = limits(all.map((point) => point.x), x);
    let [yLow, yHigh] = limits([...all.flatMap((point) => [point.y, point.low, point.high]), reference?.value], y);
    if (equal) {
      const unit = Math.max((xHigh - xLow) / (frame.right - frame.left), (yHigh - yLow) / (frame.bottom - frame.top));
      [xLow, xHigh] = centred(xLow, xHigh, unit * (frame.right - frame.left));
      [yLow, yHigh] = centred(yLow, yHigh, unit * (frame.bottom - frame.top));
    }
    const toX = scale({low: xLow, high: xHigh, from: frame.left, to: frame.right, logarithmic: x.logarithmic});
    const toY = scale({low: yLow, high: yHigh, from: frame.bottom, to: frame.top, logarithmic: y.logarithmic});
    const inside = (value) => toY(Math.max(value, yLow)); // a logarithmic axis has no place for zero
    const place = (point) => [toX(point.x), toY(point.y)];
    const marks = (low, high, axis, count) => (axis.logarithmic ? logTicks(low, high, count) : ticks(low, high, count));
    const rows = series.map((item) =>
      item.points.flatMap((point, at) => {
        if (!isDrawn(point)) return [];
        const value = withRange({...point, value: point.y}, y.format ?? short);
        const where = point.label ?? `${x.label ?? "x"} ${(x.format ?? short)(point.x)}`;
        const [first, ...others] = point.lines ?? [value, where];
        const spoken = `${item.name}, ${point.lines ? point.lines.join(", ") : `${where}: ${value}`}`;
        return [{x: toX(point.x), y: toY(point.y), at, point, text: () => [h("strong", {}, first), ...others, item.name], spoken}];
      }),
    );
    const picture = s(
      "svg",
      {width, height, "aria-hidden": "true", class: "chart"},
      verticalAxis({ticks: marks(yLow, yHigh, y, small ? 4 : 5), y: toY, ...frame, label: y.label, format: y.format}),
      horizontalAxis({ticks: x.names ? namedTicks(x.names, width) : marks(xLow, xHigh, x, Math.max(2, Math.floor(width / 90))), x: toX, ...frame, top: frame.bottom, label: x.label, format: x.format}),
      circles.map((circle) => s("ellipse", {cx: toX(circle.x), cy: toY(circle.y), rx: toX(circle.radius) - toX(0), ry: toY(0) - toY(circle.radius), class: "circle"})),
      dots.length ? s("path", {class: "dots", d: dots.map((dot) => `M${place(dot).map((value) => value.toFixed(1)).join(" ")}h0`).join("")}) : null,
      rows.map((points, index) => (series[index].spread === "band" ? band(points, inside, index) : null)),
      links().map(([from, to]) => s("line", {x1: toX(from.x), y1: toY(from.y), x2: toX(to.x), y2: toY(to.y), class: "link"})),
      rows.map((points, index) => [
        series[index].joined ? s("path", {d: joinedPath(points), class: `line ${seriesClass(index)}`}) : null,
        series[index].spread ? null : points.map((point) => errorBar(point.x, point.point, inside)),
        points.length > 80 && series[index].joined ? null : points.map((point) => marker(point.x, point.y, index)),
      ]),
      reference && isPlaced(reference.value, y) ? referenceLine(reference.name, toY(reference.value), frame) : null,
      tags(rows.flat(), frame),
    );
    return {picture, rows};
  };
  const names = [...series.map((item, index) => [item.name, keyMark(index, item.joined)]), ...(dots.length ? [[background.name, dotMark()]] : [])];
  const key = names.length > 1 ? h("ul", {class: "chart-key"}, names.map(([name, mark]) => h("li", {}, mark, name))) : null;
  return interactive({label, draw, key, small, onchoose});
}

/** The frame around a picture: hovering and arrow keys find points; rows are series, their points in order. */
function interactive({label, draw, key = null, small = false, onchoose = null}) {
  const cursor = s("circle", {r: 6, class: "chart-cursor"});
  const hint = uniqueId("hint");
  const plane = h("div", {class: "chart-plane", role: "application", tabindex: 0, "aria-roledescription": t("chart.role"), "aria-label": label, "aria-describedby": hint});
  const element = h("figure", {class: "chart-figure"}, plane, h("figcaption", {}, key, h("span", {class: small ? "visually-hidden" : "hint", id: hint}, t(onchoose ? "chart.keys-choose" : "chart.keys"))));
  const state = {rows: [], active: null, mirrored: false, width: 0};

  const render = (width) => {
    state.width = width;
    const {picture, rows, mirrored = false} = draw(isPrinting() ? (small ? SMALL_PRINT_WIDTH : PRINT_WIDTH) : width);
    picture.append(cursor);
    Object.assign(state, {rows: rows.filter((row) => row.length), mirrored});
    cursor.style.display = "none";
    fill(plane, picture);
  };
  const activate = (row, index, spoken) => {
    const point = state.rows[row][index];
    state.active = [row, index];
    cursor.setAttribute("cx", point.x);
    cursor.setAttribute("cy", point.y);
    cursor.style.display = "";
    const box = plane.getBoundingClientRect();
    showTooltip({x: box.left + point.x - plane.scrollLeft, y: box.top + point.y}, ...point.text());
    if (spoken) announce(point.spoken);
  };
  const leave = () => {
    cursor.style.display = "none";
    hideTooltip();
  };
  const activateNearest = (event) => {
    const box = plane.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = null;
    state.rows.forEach((row, number) =>
      row.forEach((point, index) => {
        const distance = (point.x - x) ** 2 * 4 + (point.y - y) ** 2;
        if (!best || distance < best[0]) best = [distance, number, index];
      }),
    );
    if (best) activate(best[1], best[2], false);
  };
  plane.addEventListener("pointermove", activateNearest);
  plane.addEventListener("pointerdown", activateNearest); // a finger does not hover
  const choose = () => {
    if (!onchoose || !state.active) return;
    const [row, index] = state.active;
    onchoose(state.rows[row][index].point);
    if (plane.matches(":focus-visible")) activate(row, index, false); // it was drawn again
  };
  plane.addEventListener("click", choose);
  plane.addEventListener("pointerleave", leave);
  plane.addEventListener("blur", leave);
  plane.addEventListener("focus", () => plane.matches(":focus-visible") && state.rows.length && activate(...(state.active ?? [0, 0]), true));
  plane.addEventListener("keydown", (event) => {
    const [row, index] = state.active ?? [0, 0];
    const right = state.mirrored ? -1 : 1;
    const target = {
      ArrowLeft: [row, index - right],
      ArrowRight: [row, index + right],
      ArrowUp: [row - 1, index],
      ArrowDown: [row + 1, index],
      Home: [row, 0],
      End: [row, (state.rows[row]?.length ?? 1) - 1],
    }[event.key];
    if (event.key === "Escape") return leave();
    if (event.key === "Enter") return choose();
    if (!target || !state.rows.length) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(state.rows.length - 1, target[0]));
    activate(next, Math.max(0, Math.min(state.rows[next].length - 1, target[1])), true);
  });
  onWidth(element, render);
  const redraw = () => render(state.width || PRINT_WIDTH);
  listen(element, "calque:theme", redraw);
  return Object.assign(element, {redraw});
}

/** Whether an axis has a place for a number. */
const isPlaced = (number, axis) => isNumber(number) && (!axis.logarithmic || number > 0);

function limits(numbers, axis) {
  const usable = [axis.from ?? [], numbers].flat().filter((number) => isPlaced(number, axis));
  return axis.logarithmic && !usable.length ? [0.1, 1] : extent(usable);
}

/** The places 0, 1, … of names, as many as there is room for their names. */
function namedTicks(names, width) {
  const longest = Math.max(...names.map((name) => [...name].length));
  const room = Math.max(2, Math.floor((width - 60) / (7.5 * longest + 14)));
  const every = Math.ceil(names.length / room);
  return names.map((_, place) => place).filter((place) => place % every === 0);
}

/** The corners around a circle, with a little room. */
const corners = ({x, y, radius}) => [-1.1, 1.1].map((share) => ({x: x + share * radius, y: y + share * radius}));

function centred(low, high, span) {
  const middle = (low + high) / 2;
  return [middle - span / 2, middle + span / 2];
}
