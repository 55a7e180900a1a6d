/** The first panel of a comparison: scores, significance, groups of seeds, errors, size and speed. */

import {h} from "calque/dom";
import {t} from "calque/i18n";
import {MISSING, count, fixed, isNumber} from "calque/numbers";
import {table} from "calque/table";

const LEVEL = 0.05;

/** Scores with intervals, every test made, and groups of seeds. */
export function testedScores(document) {
  const {metrics, significance, groups} = document;
  return [
    scoreTable(document),
    hasStars(document) ? h("p", {class: "hint"}, t("scores.significant")) : null,
    significance.map((test) => h("div", {class: "block"}, testTable(test, document))),
    (groups ? metrics : []).map((metric) => h("div", {class: "block"}, groupTable(groups, metric))),
  ];
}

export function translationScores(document) {
  const {systems, metrics} = document;
  return [
    testedScores(document),
    h("div", {class: "block"}, detailTable(systems)),
    sizeTable(systems),
    h("div", {class: "block"}, signatureTable(metrics)),
  ];
}

export function taggingScores({systems, metrics, randomisation}) {
  const tested = randomisation.samples ? metrics : [];
  const columns = [
    {label: t("comparison.system")},
    ...metrics.map((metric) => ({label: metric.title, numeric: true})),
    ...tested.map((metric) => ({label: t("labels.p", {metric: metric.title}), numeric: true})),
    {label: t("labels.different"), numeric: true},
  ];
  const rows = systems.map((system) => [
    name(system),
    ...metrics.map((metric) => fixed(system.scores[metric.name], 2)),
    ...tested.map((metric) => pValue(system.p_values?.[metric.name])),
    isNumber(system.different) ? count(system.different) : "",
  ]);
  return [
    table({caption: t("scores.plain"), columns, rows, rowHeads: true}),
    testHint(randomisation),
    sizeTable(systems),
  ];
}

export function languageModelScores({systems, randomisation}) {
  const columns = [
    {label: t("comparison.system")},
    ...["per_word", "per_byte", "per_piece", "pieces"].map((key) => ({label: t(`losses.${key}`), numeric: true})),
    ...(randomisation.samples ? [{label: t("groups.p"), numeric: true}] : []),
  ];
  const rows = systems.map((system) => [
    name(system),
    fixed(system.scores.per_word, 3),
    fixed(system.scores.per_byte, 3),
    fixed(system.per_piece, 3),
    count(system.pieces),
    ...(randomisation.samples ? [pValue(system.p_value)] : []),
  ]);
  return [
    table({caption: t("scores.plain"), columns, rows, rowHeads: true}),
    testHint(randomisation),
    sizeTable(systems),
  ];
}

/** The test that gives the p-values; null if none was made. */
function testHint({samples, seed}) {
  return samples ? h("p", {class: "hint"}, t("significance.randomisation", {samples: count(samples), seed})) : null;
}

/** The name of a system in a cell. */
export function name(system) {
  return h("bdi", {}, system.name);
}

function scoreTable({systems, metrics, significance}) {
  const bootstrap = significance.find((test) => test.method === "bootstrap");
  const columns = [
    {label: t("comparison.system")},
    ...metrics.map((metric) => ({label: `${metric.title} (${t(`scores.${metric.better}`)})`, numeric: true})),
    {label: t("scores.exact"), numeric: true},
  ];
  const rows = systems.map((system, place) => [
    name(system),
    ...metrics.map((metric) => {
      const half = bootstrap?.systems[metric.name][place].interval;
      const isSignificant = significance.length && significance.every((test) => isBelowLevel(test.systems[metric.name], place));
      const star = isSignificant ? "\u00a0*" : "";
      return `${fixed(system.scores[metric.name], 2)}${isNumber(half) ? ` ±\u00a0${fixed(half, 2)}` : ""}${star}`;
    }),
    fixed(system.exact_match, 2),
  ]);
  return table({caption: bootstrap ? t("scores.caption") : t("scores.plain"), columns, rows, rowHeads: true});
}

/** Whether the p-value of a system has a star: below the level, with a score that differs from the baseline's. */
function isBelowLevel(results, place) {
  return place > 0 && results[place].p_value < LEVEL && results[place].score !== results[0].score;
}

function hasStars({systems, metrics, significance, groups}) {
  const ofTest = (test) => metrics.some(({name: key}) => systems.some((_, place) => isBelowLevel(test.systems[key], place)));
  const ofGroup = (group) => metrics.some(({name: key}) => isNumber(group.scores[key].p_value) && group.scores[key].p_value < LEVEL);
  return significance.some(ofTest) || (groups ?? []).some(ofGroup);
}

function testTable(test, {systems, metrics}) {
  const total = ({better, worse, equal}) => better + worse + equal;
  const columns = [
    {label: t("comparison.system")},
    ...metrics.map((metric) => ({label: metric.title, numeric: true})),
    {label: t("significance.different"), numeric: true},
    {label: `${metrics[0].title}: ${t("significance.wins")}`, numeric: true},
  ];
  const rows = systems.slice(1).map((system, index) => {
    const wins = system.wins[metrics[0].name];
    return [
      name(system),
      ...metrics.map(({name: key}) => {
        const [baseline, result] = [test.systems[key][0], test.systems[key][index + 1]];
        return baseline.score === result.score ? t("significance.equal") : pValue(result.p_value);
      }),
      t("significance.of", {part: count(system.different), whole: count(total(wins))}),
      `${count(wins.better)} / ${count(wins.worse)} / ${count(wins.equal)}`,
    ];
  });
  const caption = t(`significance.${test.method}`, {samples: count(test.samples), seed: test.seed ?? MISSING});
  return table({caption, columns, rows, rowHeads: true});
}

function groupTable(groups, metric) {
  const keys = ["group", "seeds", "mean", "deviation", "interval", "difference", "interval", "p"];
  const rows = groups.map((group) => {
    const score = group.scores[metric.name];
    return [
      h("bdi", {}, group.name),
      count(group.systems.length),
      fixed(score.mean, 2),
      isNumber(score.deviation) ? fixed(score.deviation, 2) : "",
      interval(score.interval),
      isNumber(score.difference) ? signed(score.difference) : "",
      interval(score.difference_interval),
      pValue(score.p_value),
    ];
  });
  const columns = keys.map((key, index) => ({label: t(`groups.${key}`), numeric: index > 0}));
  return table({caption: t("groups.caption", {metric: metric.title}), columns, rows, rowHeads: true});
}

function detailTable(systems) {
  const row = (label, cell) => [label, ...systems.map(cell)];
  const errors = (key) =>
    systems[0].errors[key] === null
      ? null
      : row(t(`details.${key}`), ({errors: all}) => `${count(all[key])} (${count(all[`sentences_with_${key}`])})`);
  const rows = [
    ...[0, 1, 2, 3].map((order) => row(t("details.precision", {order: order + 1}), (system) => fixed(system.precisions[order], 1))),
    row(t("details.penalty"), (system) => fixed(system.brevity_penalty, 3)),
    row(t("details.ratio"), (system) => fixed(system.length_ratio, 3)),
    errors("repetitions"),
    errors("copies"),
  ].filter(Boolean);
  return table({caption: t("details.caption"), columns: [{label: t("details.property")}, ...systemColumns(systems)], rows, rowHeads: true});
}

/** Size, speed and training of the systems that are models; `names` replaces the names of some rows, or leaves them out with null. */
export function sizeTable(systems, names = {}) {
  if (!systems.some((system) => system.model)) return null;
  const properties = {
    path: (system) => system.path ?? "",
    architecture: ({model}) => model?.architecture ?? "",
    settings: ({settings}) => (settings ?? []).join(", "),
    parameters: ({model}) => (model ? count(model.parameters) : ""),
    weights: ({model}) => (model ? fixed(model.bytes / 1e6, 1) : ""),
    sentences: ({speed}) => (speed ? fixed(speed.sentences_per_second, 1) : ""),
    words: ({speed}) => (speed ? fixed(speed.words_per_second, 0) : ""),
    device: ({speed}) => speed?.device ?? "",
    steps: ({run}) => (run ? count(run.steps) : ""),
    minutes: ({run}) => (run ? fixed(run.seconds / 60, 1) : ""),
    tokens: ({run}) => (run ? count(run.tokens_per_second) : ""),
  };
  const rows = Object.entries(properties)
    .filter(([key]) => names[key] !== null)
    .map(([key, cell]) => [names[key] ?? t(`size.${key}`), ...systems.map(cell)])
    .filter((row) => row.slice(1).some(Boolean));
  return h(
    "div",
    {class: "block"},
    table({caption: t("size.caption"), columns: [{label: t("details.property")}, ...systemColumns(systems)], rows, rowHeads: true}),
  );
}

function signatureTable(metrics) {
  const columns = [{label: t("comparison.metric")}, {label: t("scores.signature"), class: "signature"}];
  return table({caption: t("scores.signatures"), columns, rows: metrics.map((metric) => [metric.title, metric.signature]), rowHeads: true});
}

/** A numeric column for each system. */
export function systemColumns(systems) {
  return systems.map((system) => ({label: name(system), numeric: true}));
}

/** A p-value; those below 0.05 have a star, as colour is not for everyone. */
export function pValue(value) {
  if (!isNumber(value)) return "";
  return value < LEVEL ? {content: `${fixed(value, 4)}\u00a0*`, class: "significant"} : `${fixed(value, 4)}\u00a0\u00a0`;
}

/** A number with its sign. */
export function signed(value, digits = 2) {
  return value > 0 ? `+${fixed(value, digits)}` : fixed(value, digits);
}

function interval(pair) {
  return pair ? `${fixed(pair[0], 2)}\u00a0… ${fixed(pair[1], 2)}` : "";
}
