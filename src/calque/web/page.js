/** The frame of every page: a header with the switches of language and theme, the view, and the live region. */

import {liveRegion} from "calque/announce";
import {fill, h} from "calque/dom";
import {LANGUAGES, applyLanguage, language, setLanguage, t} from "calque/i18n";
import {segmented} from "calque/controls";
import {THEMES, followTheme, setTheme, theme} from "calque/theme";

/** Shows the document that the page carries with the view of this name: a module with show(root, document). */
export async function start(name) {
  followTheme();
  const main = h("main", {id: "main"});
  const header = h("header", {class: "page-header"});
  document.body.append(header, main, liveRegion());
  try {
    const data = JSON.parse(document.getElementById("document").textContent);
    const {show} = await import(name);
    const draw = () => {
      applyLanguage();
      drawHeader(header);
      const root = h("div", {class: "view"});
      fill(main, root);
      show(root, data);
    };
    draw();
    document.addEventListener("calque:language", () => {
      const active = document.activeElement?.dataset?.value;
      draw();
      if (active in LANGUAGES) header.querySelector(`[data-value="${active}"]`)?.focus();
    });
    document.documentElement.dataset.ready = "true";
  } catch (error) {
    fill(main, h("p", {role: "alert", class: "failure"}, t("page.failure", {reason: String(error?.message ?? error)})));
    throw error;
  }
}

function drawHeader(header) {
  const languages = Object.entries(LANGUAGES).map(([value, label]) => ({value, label, lang: value}));
  const themes = THEMES.map((value) => ({value, label: t(`theme.${value}`)}));
  fill(
    header,
    h("h1", {}, h("bdi", {dir: "auto"}, document.title)),
    h(
      "div",
      {class: "switches"},
      segmented({label: t("page.language"), options: languages, value: language(), onchange: setLanguage}),
      segmented({label: t("page.theme"), options: themes, value: theme(), onchange: setTheme}),
    ),
  );
}
