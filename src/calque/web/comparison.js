/** What `calque compare` writes: scores, groups of sentences and words, n-grams, single sentences, curves. */

import "calque/comparison_strings";
import {bucketPanel, lossPanel, wordPanel} from "calque/comparison_buckets";
import {curvesPanel} from "calque/comparison_curves";
import {confusionPanel, labelPanel} from "calque/comparison_labels";
import {ngramPanel} from "calque/comparison_ngrams";
import {rankedUsers, rankingBuckets, rankingScores} from "calque/comparison_recommenders";
import {languageModelScores, taggingScores, translationScores} from "calque/comparison_scores";
import {lossSentences, taggedSentences, translatedSentences} from "calque/comparison_sentences";
import {lengthPanel, retrievedSentences} from "calque/comparison_retrieval";
import {confusedWords, transcriptScores} from "calque/comparison_transcripts";
import {fill, h} from "calque/dom";
import {factLine} from "calque/fact_line";
import {t} from "calque/i18n";
import {count} from "calque/numbers";
import {tabs} from "calque/tabs";

const TASKS = {translation: translationTabs, tagging: taggingTabs, "language-modelling": languageModelTabs, embedding: retrievalTabs, recognition: transcriptTabs, recommendation: rankingTabs};

// The reader's choices are kept when the page is drawn again in another language.
const chosen = {tab: null};

/** Draws a comparison document into an element. */
export function show(root, document) {
  const items = TASKS[document.task];
  if (!items) {
    fill(root, h("p", {role: "alert"}, t("comparison.unknown-task", {task: document.task})));
    return;
  }
  const present = items(document).filter(Boolean);
  fill(
    root,
    testLine(document),
    tabs({
      label: t("comparison.views"),
      items: present,
      selected: chosen.tab ?? present[0].name,
      onchange: (name) => (chosen.tab = name),
    }),
  );
}

function translationTabs(document) {
  return [
    {name: "scores", label: t("tab.scores"), draw: () => translationScores(document)},
    {name: "buckets", label: t("tab.buckets"), draw: () => bucketPanel(document, chosen)},
    {name: "words", label: t("tab.words"), draw: () => wordPanel(document, chosen)},
    {name: "ngrams", label: t("tab.ngrams"), draw: () => ngramPanel(document, chosen)},
    {name: "sentences", label: t("tab.sentences"), draw: () => translatedSentences(document, chosen)},
    curvesTab(document),
  ];
}

function taggingTabs(document) {
  return [
    {name: "scores", label: t("tab.scores"), draw: () => taggingScores(document)},
    {name: "labels", label: t("tab.labels"), draw: () => labelPanel(document)},
    {name: "confusion", label: t("tab.confusion"), draw: () => confusionPanel(document, chosen)},
    {name: "sentences", label: t("tab.sentences"), draw: () => taggedSentences(document, chosen)},
    curvesTab(document),
  ];
}

function languageModelTabs(document) {
  return [
    {name: "scores", label: t("tab.scores"), draw: () => languageModelScores(document)},
    {name: "losses", label: t("tab.losses"), draw: () => lossPanel(document)},
    {name: "sentences", label: t("tab.sentences"), draw: () => lossSentences(document, chosen)},
    curvesTab(document),
  ];
}

function retrievalTabs(document) {
  return [
    {name: "scores", label: t("tab.scores"), draw: () => taggingScores(document)},
    {name: "lengths", label: t("tab.lengths"), draw: () => lengthPanel(document)},
    {name: "sentences", label: t("tab.sentences"), draw: () => retrievedSentences(document)},
    curvesTab(document),
  ];
}

function transcriptTabs(document) {
  return [
    {name: "scores", label: t("tab.scores"), draw: () => transcriptScores(document)},
    {name: "confusion", label: t("tab.confused"), draw: () => confusedWords(document, chosen)},
    {name: "buckets", label: t("tab.lengths"), draw: () => bucketPanel(document, chosen, t("transcripts.recordings"))},
    {name: "sentences", label: t("tab.recordings"), draw: () => translatedSentences(document, chosen, {highlight: "differences", source: t("transcripts.recording")})},
    curvesTab(document),
  ];
}

function rankingTabs(document) {
  return [
    {name: "scores", label: t("tab.scores"), draw: () => rankingScores(document)},
    {name: "buckets", label: t("tab.users-by"), draw: () => rankingBuckets(document)},
    {name: "users", label: t("tab.users"), draw: () => rankedUsers(document)},
    curvesTab(document),
  ];
}

function curvesTab(document) {
  const hasCurves = document.systems.some((system) => system.curves);
  return hasCurves ? {name: "curves", label: t("tab.curves"), draw: () => curvesPanel(document)} : null;
}

function testLine({task, test, systems, training}) {
  const key = {translation: "comparison.test", tagging: "comparison.test-words", embedding: "comparison.test-words", recognition: "comparison.test-recordings", recommendation: "comparison.test-users"}[task] ?? "comparison.test-lines";
  const facts = [
    t(key, {sentences: count(test.sentences ?? test.lines ?? test.users), words: count(test.words)}),
    t("comparison.baseline", {name: systems[0].name}),
    training?.pairs ? t("comparison.training", {count: count(training.pairs)}) : null,
    training?.lines ? t("comparison.training-lines", {count: count(training.lines)}) : null,
  ];
  return factLine(test.reference ?? test.path ?? "", facts);
}
