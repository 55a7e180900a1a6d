/** One tooltip for the whole page. Screen readers get the same through calque/announce, so it is hidden from them. */

import {fill, h} from "calque/dom";

const MARGIN = 12;
const box = h("div", {class: "tooltip", "aria-hidden": "true", hidden: true});

/** Shows lines of text or elements beside a point of the viewport, to its left if asked, always inside the viewport. */
export function showTooltip({x, y, toLeft = false}, ...lines) {
  fill(box, lines.map((line) => h("div", {}, line)));
  if (!box.isConnected) document.body.append(box);
  box.hidden = false;
  const {width, height} = box.getBoundingClientRect();
  const room = document.documentElement.clientWidth;
  const left = toLeft || x + MARGIN + width > room ? x - MARGIN - width : x + MARGIN;
  const top = y + MARGIN + height > innerHeight ? y - MARGIN - height : y + MARGIN;
  box.style.left = `${Math.max(4, Math.min(left, room - width - 4))}px`;
  box.style.top = `${Math.max(4, top)}px`;
}

export function hideTooltip() {
  box.hidden = true;
}

addEventListener("scroll", hideTooltip, {capture: true, passive: true});
