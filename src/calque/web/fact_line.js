/** The line above every view: what it is about, and facts in a row. */

import {h} from "calque/dom";

/** Facts that are null are left out. */
export function factLine(name, facts) {
  return h(
    "p",
    {class: "model"},
    h("strong", {}, h("bdi", {}, name)),
    facts.filter(Boolean).map((fact) => [h("span", {class: "separator", "aria-hidden": "true"}, "·"), h("span", {}, fact)]),
  );
}
