/** Text in any script: its direction, and pieces whose invisible characters can be seen. */

import {h} from "calque/dom";

const RIGHT_TO_LEFT =
  /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/u;
const UPRIGHT = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}\u3000-\u303f\uff00-\uff65]/u;
const CONTROLS = /[\p{Cc}\p{Cs}\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ufeff]/gu;
const INVISIBLE = /^[\s\p{Cf}]+$/u;

/** "rtl" or "ltr": the direction of the first letter; "ltr" without letters. */
export function direction(text) {
  const letter = text.match(/\p{L}/u);
  return letter && RIGHT_TO_LEFT.test(letter[0]) ? "rtl" : "ltr";
}

/** Whether most letters, or the punctuation, are of a script that stands upright in vertical lines. */
export function isUpright(text) {
  const letters = [...text].filter((character) => /[\p{L}\u3000-\u303f\uff00-\uff65]/u.test(character));
  return letters.filter((letter) => UPRIGHT.test(letter)).length * 2 > letters.length;
}

/** The text with control characters as symbols: ␀ or ⟨U+2028⟩. */
export function visible(text) {
  const shown = text.replace(CONTROLS, symbol);
  return INVISIBLE.test(shown) ? [...shown].map(symbol).join("") : shown;
}

/** A sentence as an isolated element: neither its direction nor its controls reach the text around it. */
export function sentence(text, attributes = {}) {
  const shown = text.replace(CONTROLS, symbol);
  return h("bdi", {dir: direction(text), class: "sentence", ...attributes}, shown);
}

/** A piece as an isolated element; the mark that begins a word is muted. */
export function piece(text, attributes = {}) {
  const shown = visible(text);
  const begins = shown.startsWith("▁") && shown.length > 1;
  const special = /^<[^<>]*>$/.test(text);
  return h(
    "bdi",
    {dir: direction(text), class: special ? "piece special" : "piece", ...attributes},
    begins ? [h("span", {class: "word-mark"}, "▁"), shown.slice(1)] : shown,
  );
}

/** A piece inside a sentence of plain text, isolated by the characters for that. */
export function isolated(text) {
  return `\u2068${visible(text)}\u2069`;
}

function symbol(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x20) return "␣";
  if (code === 0x7f) return "␡";
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}
