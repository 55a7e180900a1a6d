/** The parts of charts: markers, lines, bands, error bars, labels and the marks of keys. */

import {s} from "calque/dom";
import {isNumber} from "calque/numbers";
import {isUpright, visible} from "calque/text";

const SERIES = 6; // the stylesheet has so many colours and dashes

export function errorBar(x, {low, high}, toY) {
  if (!isNumber(low) || !isNumber(high)) return null;
  const [top, bottom] = [toY(high), toY(low)];
  return s("path", {class: "error-bar", d: `M${x} ${top}V${bottom}M${x - 4} ${top}h8M${x - 4} ${bottom}h8`});
}

/** A line through points, with a gap at missing ones. */
export function joinedPath(points) {
  return points.map(({x, y, at}, index) => `${index && points[index - 1].at === at - 1 ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

/** The area between the low and high values of neighbouring points. */
export function band(points, toY, index) {
  const edges = points.filter(({point}) => isNumber(point.low) && isNumber(point.high));
  const edge = (key) => edges.map(({x, point}) => `${x.toFixed(1)} ${toY(point[key]).toFixed(1)}`);
  return edges.length > 1 ? s("path", {class: `band ${seriesClass(index)}`, d: `M${[...edge("high"), ...edge("low").reverse()].join("L")}Z`}) : null;
}

export function referenceLine(name, y, {left, right}) {
  return [
    s("line", {x1: left, x2: right, y1: y, y2: y, class: "reference"}),
    name ? s("text", {x: right, y: y - 4, "text-anchor": "end"}, name) : null,
  ];
}

/** Labels next to points; a label that would cover an earlier one is left out. */
export function tags(points, {right}) {
  const boxes = [];
  return points.map(({x, y, point}) => {
    if (!point.tag) return null;
    const shown = [...visible(point.tag)].slice(0, 16).join("");
    const width = [...shown].reduce((sum, character) => sum + (isUpright(character) ? 13 : 7), 0);
    const toLeft = x + 7 + width > right;
    const box = {left: toLeft ? x - 7 - width : x + 7, top: y - 14, width};
    if (boxes.some((other) => Math.abs(other.top - box.top) < 13 && box.left < other.left + other.width && other.left < box.left + width)) return null;
    boxes.push(box);
    return s("text", {x: toLeft ? x - 7 : x + 7, y: y - 4, "text-anchor": toLeft ? "end" : "start", class: "tag"}, shown);
  });
}

export const withRange = ({value, low, high}, format) =>
  isNumber(low) && isNumber(high) ? `${format(value)} [${format(low)}, ${format(high)}]` : format(value);

export const seriesClass = (index) => `series-${(index % SERIES) + 1}`;

/** Shapes that differ without colour; beyond six series, pairs of shape and colour do. */
export function marker(x, y, index) {
  const shape = (index + Math.floor(index / SERIES)) % SERIES;
  const paths = ["M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0Z", "M-3-3h6v6h-6Z", "M0-4L3.8 3H-3.8Z", "M0-4.4L4.4 0L0 4.4L-4.4 0Z", "M-4-1h3v-3h2v3h3v2h-3v3h-2v-3h-3Z", "M0 4L3.8-3H-3.8Z"];
  return s("path", {class: `marker ${seriesClass(index)}`, d: paths[shape], transform: `translate(${x} ${y})`});
}

export function keyMark(index, lines) {
  return s(
    "svg",
    {width: 26, height: 12, "aria-hidden": "true", class: "chart"},
    lines ? s("line", {x1: 0, x2: 26, y1: 6, y2: 6, class: `line ${seriesClass(index)}`}) : null,
    marker(13, 6, index),
  );
}

export const dotMark = () => s("svg", {width: 14, height: 12, "aria-hidden": "true", class: "chart"}, s("path", {class: "dots", d: "M3 6h0M10 3h0M9 10h0"}));

/** The label of a bar: vertical, upright in scripts that are written so, left out where bars are too thin. */
export function barLabel(text, x, bottom, {step, flat}) {
  if (step < 8) return null;
  const shown = [...visible(text)].slice(0, 12).join("");
  if (isUpright(text)) {
    return [...shown].slice(0, 6).map((character, index) => s("text", {x, y: bottom + 14 + 12 * index, "text-anchor": "middle", class: "bar-label"}, character));
  }
  if (flat) return s("text", {x, y: bottom + 15, "text-anchor": "middle", class: "bar-label"}, shown);
  return s("text", {transform: `translate(${x + 4} ${bottom + 8}) rotate(-90)`, "text-anchor": "end", class: "bar-label"}, shown);
}

export function labelHeight(bars) {
  const longest = Math.max(1, ...bars.map((bar) => Math.min(12, [...bar.label].length)));
  return 14 + 7.5 * longest;
}
