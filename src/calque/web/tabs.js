/** Tabs as the ARIA practices describe them. A panel is drawn when it is first shown, and all of them for the printer. */

import {fill, h, listen, uniqueId} from "calque/dom";
import {isPrinting} from "calque/theme";

/** Tabs: [{name, label, draw: () => element}]; `selected` is a name; onchange(name) after the reader's choice. */
export function tabs({label, items, selected, onchange = () => {}}) {
  const prefix = uniqueId("tab");
  const drawn = new Set();
  const buttons = items.map((item) =>
    h(
      "button",
      {
        type: "button",
        role: "tab",
        id: `${prefix}-${item.name}`,
        "aria-controls": `${prefix}-${item.name}-panel`,
        "data-name": item.name,
        onclick: () => choose(item.name),
      },
      item.label,
    ),
  );
  const panels = items.map((item) =>
    h("div", {
      role: "tabpanel",
      id: `${prefix}-${item.name}-panel`,
      class: `panel panel-${item.name}`,
      "aria-labelledby": `${prefix}-${item.name}`,
      "data-title": item.label,
    }),
  );
  const drawPanel = (index) => {
    if (drawn.has(index)) return;
    drawn.add(index);
    fill(panels[index], items[index].draw());
  };
  const show = (name) => {
    items.forEach((item, index) => {
      const isShown = item.name === name;
      buttons[index].setAttribute("aria-selected", String(isShown));
      buttons[index].tabIndex = isShown ? 0 : -1;
      panels[index].hidden = !isShown;
      if (isShown) drawPanel(index);
    });
  };
  const choose = (name) => {
    show(name);
    buttons[items.findIndex((item) => item.name === name)].focus();
    onchange(name);
  };
  const move = (event) => {
    const index = buttons.indexOf(event.target);
    const target = {
      ArrowRight: (index + 1) % items.length,
      ArrowLeft: (index - 1 + items.length) % items.length,
      Home: 0,
      End: items.length - 1,
    }[event.key];
    if (target === undefined || index < 0) return;
    event.preventDefault();
    choose(items[target].name);
  };
  const list = h("div", {role: "tablist", "aria-label": label, class: "tablist", onkeydown: move}, buttons);
  const element = h("div", {class: "tabs"}, list, panels);
  listen(element, "calque:print", () => isPrinting() && items.forEach((_, index) => drawPanel(index)));
  show(items.some((item) => item.name === selected) ? selected : items[0].name);
  return Object.assign(element, {select: (name) => items.some((item) => item.name === name) && show(name)});
}
