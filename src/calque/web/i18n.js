/** The language of the interface. Strings are in calque/strings; a change draws the page again (calque/page). */

import {strings} from "calque/strings";
import {recall, remember} from "calque/storage";

export const LANGUAGES = {en: "English", zh: "中文"};
const TAGS = {en: "en", zh: "zh-CN"};
const COLUMN = {en: 0, zh: 1};
let current = initial();

/** The string of this key in the present language; {name} in it stands for values.name. */
export function t(key, values = {}) {
  const pair = strings[key];
  if (!pair) return key;
  return pair[COLUMN[current]].replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

export function language() {
  return current;
}

export function setLanguage(code) {
  current = code in LANGUAGES ? code : "en";
  remember("language", current);
  applyLanguage();
  document.dispatchEvent(new Event("calque:language"));
}

/** Tells the browser the language, for screen readers, fonts and line breaks. */
export function applyLanguage() {
  document.documentElement.lang = TAGS[current];
}

function initial() {
  const stored = recall("language");
  if (stored in LANGUAGES) return stored;
  return (navigator.languages ?? [navigator.language]).map((tag) => tag.slice(0, 2)).find((code) => code in LANGUAGES) ?? "en";
}
