/** Small controls: a row of exclusive buttons, a labelled select, a labelled checkbox. */

import {h, uniqueId} from "calque/dom";

/** Exclusive choices side by side: arrow keys move and choose, as in every group of radio buttons. */
export function segmented({label, options, value, onchange}) {
  const buttons = options.map((option) =>
    h(
      "button",
      {
        type: "button",
        role: "radio",
        lang: option.lang,
        "aria-checked": String(option.value === value),
        tabindex: option.value === value ? 0 : -1,
        "data-value": option.value,
        onclick: () => choose(option.value),
      },
      option.label,
    ),
  );
  const choose = (chosen) => {
    for (const button of buttons) {
      const isChosen = button.dataset.value === chosen;
      button.setAttribute("aria-checked", String(isChosen));
      button.tabIndex = isChosen ? 0 : -1;
      if (isChosen) button.focus();
    }
    onchange(chosen);
  };
  const move = (event) => {
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
    if (!step) return;
    event.preventDefault();
    const index = buttons.indexOf(event.target);
    choose(options[(index + step + options.length) % options.length].value);
  };
  return h("div", {class: "segmented", role: "radiogroup", "aria-label": label, onkeydown: move}, buttons);
}

/** A select with its label. Options: [{value, label, group?}]; those of one group stand together. */
export function select({label, options, value, onchange}) {
  const id = uniqueId("select");
  const groups = new Map();
  for (const option of options) {
    if (!groups.has(option.group)) groups.set(option.group, []);
    groups.get(option.group).push(h("option", {value: option.value, selected: option.value === value}, option.label));
  }
  const children = [...groups].map(([group, items]) => (group ? h("optgroup", {label: group}, items) : items));
  const element = h("select", {id, onchange: (event) => onchange(event.target.value)}, children);
  return h("div", {class: "field"}, h("label", {for: id}, label), element);
}

export function checkbox({label, checked, onchange}) {
  const input = h("input", {type: "checkbox", checked, onchange: (event) => onchange(event.target.checked)});
  return h("label", {class: "checkbox"}, input, label);
}
