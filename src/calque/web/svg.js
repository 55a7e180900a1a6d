/** What charts share: scales, ticks and axes in SVG. */

import {s} from "calque/dom";
import {short} from "calque/numbers";

/** A function from numbers between low and high to pixels between from and to; logarithmic on request. */
export function scale({low, high, from, to, logarithmic = false}) {
  const value = logarithmic ? Math.log10 : (number) => number;
  const [start, end] = [value(low), value(high)];
  const span = end - start || 1;
  return (number) => from + ((value(number) - start) / span) * (to - from);
}

/** About `count` round numbers between low and high. */
export function ticks(low, high, count = 5) {
  if (!(high > low)) return [low];
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => raw <= factor * power * 1.0001);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({length: last - first + 1}, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

/** Powers of ten between low and high, thinned to about `count`; where there are few, also 2 and 5 times them. */
export function logTicks(low, high, count = 6) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  if (last - first < 2) {
    const round = [first - 1, first, first + 1].flatMap((power) => [1, 2, 5].map((factor) => Number(`${factor}e${power}`)));
    const within = round.filter((number) => number >= low * (1 - 1e-9) && number <= high * (1 + 1e-9));
    return within.length > 1 ? within : [low, high];
  }
  const every = Math.max(1, Math.ceil((last - first + 1) / count));
  const powers = Array.from({length: last - first + 1}, (_, index) => 10 ** (first + index));
  return powers.filter((_, index) => index % every === 0);
}

/** The smallest and largest of some numbers, widened to be different. */
export function extent(numbers) {
  let [low, high] = [Infinity, -Infinity];
  for (const number of numbers) {
    if (!Number.isFinite(number)) continue;
    low = Math.min(low, number);
    high = Math.max(high, number);
  }
  if (low > high) return [0, 1];
  return low === high ? [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2] : [low, high];
}

/** A vertical axis with lines across the plot. */
export function verticalAxis({ticks: marks, y, left, right, label, format = short}) {
  return s(
    "g",
    {class: "axis"},
    marks.map((mark) => [
      s("line", {x1: left, x2: right, y1: y(mark), y2: y(mark), class: "grid"}),
      s("text", {x: left - 6, y: y(mark), dy: "0.32em", "text-anchor": "end"}, format(mark)),
    ]),
    label ? s("text", {x: 0, y: 11, class: "axis-label"}, label) : null,
  );
}

/** A horizontal axis below the plot. */
export function horizontalAxis({ticks: marks, x, top, left, right, label, format = short}) {
  return s(
    "g",
    {class: "axis"},
    s("line", {x1: left, x2: right, y1: top, y2: top}),
    marks.map((mark) => [
      s("line", {x1: x(mark), x2: x(mark), y1: top, y2: top + 4}),
      s("text", {x: x(mark), y: top + 16, "text-anchor": "middle"}, format(mark)),
    ]),
    label ? s("text", {x: right, y: top + 32, "text-anchor": "end", class: "axis-label"}, label) : null,
  );
}
