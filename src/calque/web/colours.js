/** Colours of the stylesheet as numbers, and scales between two of them (in OKLab, where equal steps look equal). */

const DARK_POWER = 0.6; // weak values on a dark page: the eye sees less difference there than OKLab says
const STOPS = 16; // of a gradient

/** The red, green and blue (0 to 255) that a custom property such as "--accent" has in the present theme. */
export function colour(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  probe.hidden = true;
  document.body.append(probe);
  const text = getComputedStyle(probe).color;
  probe.remove();
  return text.match(/[\d.]+/g).slice(0, 3).map(Number);
}

/** Steps + 1 colours from one to the other, each [red, green, blue]; from dark ones, the first steps are larger. */
export function ramp(from, to, steps = 255) {
  const [start, end] = [toLab(from), toLab(to)];
  const power = start[0] < 0.5 ? DARK_POWER : 1;
  return Array.from({length: steps + 1}, (_, step) =>
    fromLab(start.map((value, index) => value + (end[index] - value) * (step / steps) ** power)),
  );
}

let cached = null;
document.addEventListener("calque:theme", () => (cached = null));

/** The colours of a heatmap in the present theme, as CSS and as pixels, at the index that heatIndex gives. */
export function heatScale() {
  if (cached) return cached;
  const zero = colour("--heat-low");
  const negative = ramp(zero, colour("--heat-negative")).slice(1).reverse();
  const colours = [...negative, ...ramp(zero, colour("--heat-high"))];
  cached = {
    css: colours.map(([red, green, blue]) => `rgb(${red} ${green} ${blue})`),
    pixels: Uint32Array.from(colours, ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0),
  };
  return cached;
}

/** A CSS gradient of the heat scale from 0 to 1, or from −1 to 1 if it is signed. */
export function heatGradient(isSigned) {
  const {css} = heatScale();
  const first = heatIndex(isSigned ? -1 : 0);
  const stops = Array.from({length: STOPS + 1}, (_, stop) => css[Math.round(first + ((heatIndex(1) - first) * stop) / STOPS)]);
  return `linear-gradient(to right, ${stops.join(", ")})`;
}

/** The place of a value from −1 to 1 in a heat scale. */
export function heatIndex(value) {
  return Math.round(Math.max(-1, Math.min(1, value || 0)) * 255) + 255;
}

function toLab(colour) {
  const [red, green, blue] = colour.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const long = Math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue);
  const medium = Math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue);
  const small = Math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue);
  return [
    0.2104542553 * long + 0.793617785 * medium - 0.0040720468 * small,
    1.9779984951 * long - 2.428592205 * medium + 0.4505937099 * small,
    0.0259040371 * long + 0.7827717662 * medium - 0.808675766 * small,
  ];
}

function fromLab([lightness, a, b]) {
  const long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const small = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * small,
    -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * small,
    -0.0041960863 * long - 0.7034186147 * medium + 1.707614701 * small,
  ].map((value) => {
    const share = value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055;
    return Math.round(Math.min(1, Math.max(0, share)) * 255);
  });
}
