/** Light and dark: as the system asks, or as chosen. What is drawn on a canvas listens to "calque:theme". */

import {recall, remember} from "calque/storage";

/** Pixels across a printed page. */
export const PRINT_WIDTH = 660;
export const THEMES = ["auto", "light", "dark"];
let chosen = THEMES.includes(recall("theme")) ? recall("theme") : "auto";
let printing = false;

export function theme() {
  return chosen;
}

export function isPrinting() {
  return printing;
}

export function setTheme(name) {
  chosen = name;
  remember("theme", name);
  apply();
}

/** Follows the system and the printer from now on. */
export function followTheme() {
  apply();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
}

function print(begins) {
  printing = begins;
  document.dispatchEvent(new Event("calque:print"));
  apply();
}

function apply() {
  document.documentElement.dataset.theme = printing ? "light" : chosen;
  document.dispatchEvent(new Event("calque:theme"));
}
