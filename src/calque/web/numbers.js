/** Numbers as text. A missing value is an en dash; negative numbers have a true minus sign. */

export const MISSING = "–";

/** A number with this many decimals. */
export function fixed(value, digits = 3) {
  return isNumber(value) ? value.toFixed(digits).replace("-", "−") : MISSING;
}

/** A number with this many significant digits, as short as possible. */
export function short(value, digits = 3) {
  return isNumber(value) ? String(Number(value.toPrecision(digits))).replaceAll("-", "−") : MISSING;
}

/** A probability with three decimals; tiny ones by their magnitude. */
export function probability(value) {
  if (!isNumber(value)) return MISSING;
  return value > 0 && value < 0.0005 ? value.toExponential(0).replace("-", "−") : value.toFixed(3);
}

/** A whole number with its thousands separated. */
export function count(value) {
  return isNumber(value) ? String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, "\u202f") : MISSING;
}

export function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}
