/** The panels of an inspected translation. */

import {alignmentPanel} from "calque/alignment";
import {attentionPanel, saliencyPanel} from "calque/attention";
import {beamPanel} from "calque/beam_tree";
import {t} from "calque/i18n";
import {statesPanel} from "calque/states";
import {stepsPanel} from "calque/steps";
import {summaryPanel} from "calque/summary";

/** The items of calque/tabs for a sentence; `choices` keeps what the reader chose in them. */
export function panels(sentence, choices) {
  const attends = Boolean(sentence.attention?.maps?.length);
  const hasSaliency = Boolean(sentence.saliency?.length);
  const hasAlignment = [sentence.alignment, sentence.coverage].some(Boolean) || sentence.steps.some((step) => typeof step.copying === "number");
  return [
    {name: "summary", label: t("tab.summary"), draw: () => summaryPanel(sentence)},
    attends || !hasSaliency ? {name: "attention", label: t("tab.attention"), draw: () => attentionPanel(sentence, choices)} : null,
    hasSaliency ? {name: "saliency", label: t("tab.saliency"), draw: () => saliencyPanel(sentence, choices)} : null,
    hasAlignment ? {name: "alignment", label: t("tab.alignment"), draw: () => alignmentPanel(sentence)} : null,
    {name: "steps", label: t("tab.steps"), draw: () => stepsPanel(sentence)},
    sentence.beam ? {name: "beam", label: t("tab.beam"), draw: () => beamPanel(sentence, choices)} : null,
    sentence.states ? {name: "states", label: t("tab.states"), draw: () => statesPanel(sentence.states, choices)} : null,
  ].filter(Boolean);
}
