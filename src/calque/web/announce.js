/** What screen readers say when a value changes that has no element of its own, as in a heatmap. */

import {h} from "calque/dom";

let region = null;

/** The live region; the page has one. */
export function liveRegion() {
  region = h("div", {class: "visually-hidden", "aria-live": "polite", "aria-atomic": "true", id: "live"});
  return region;
}

export function announce(text) {
  if (region) region.textContent = text;
}
