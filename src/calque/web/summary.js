/** The first panel of a translation: both sentences, the probability of each piece, and the score term by term. */

import {announce} from "calque/announce";
import {TERMS} from "calque/beam_candidate";
import {lostPlace, outcomeTable} from "calque/beam_outcomes";
import {h} from "calque/dom";
import {t} from "calque/i18n";
import {count, fixed, isNumber, probability} from "calque/numbers";
import {table} from "calque/table";
import {direction, isolated, piece, sentence as sentenceText} from "calque/text";
import {hideTooltip, showTooltip} from "calque/tooltip";

export function summaryPanel(sentence) {
  const notes = [
    ...whatIf(sentence.what_if),
    sentence.target.given ? t("summary.given") : null,
    ...verdict(sentence),
    sentence.cut ? t("summary.cut") : null,
    sentence.source.cut ? t("summary.source-cut", {pieces: sentence.source.pieces.length - 1}) : null,
  ].filter(Boolean);
  return [
    h(
      "dl",
      {class: "texts"},
      h("dt", {}, t("summary.source")),
      h("dd", {dir: direction(sentence.source.text)}, sentenceText(sentence.source.text)),
      h("dt", {}, sentence.target.given ? t("summary.target-given") : t("summary.target")),
      h("dd", {dir: direction(sentence.target.text)}, sentenceText(sentence.target.text)),
      sentence.own ? [h("dt", {}, t("summary.own")), h("dd", {dir: direction(sentence.own.text)}, sentenceText(sentence.own.text))] : null,
    ),
    notes.map((note) => h("p", {class: "note"}, note)),
    h("h2", {}, t("summary.pieces")),
    probabilityLine(sentence),
    h("div", {class: "columns"}, scoreTable(sentence), facts(sentence)),
    ownBeams(sentence),
  ];
}

/** Whether a given target or the model's own translation scores higher, and what that means. */
function verdict({own, score}) {
  if (!own) return [];
  const known = {logProb: fixed(own.log_prob), score: fixed(own.score)};
  if (own.beams.at(-1)?.finds) return [t("summary.own-same", known)];
  if (!score || own.cut) return [t("summary.own-scores", known)];
  const difference = score.total - own.score;
  return [t(difference > 0 ? "summary.own-lower" : "summary.own-higher", {...known, difference: fixed(Math.abs(difference))})];
}

/** Where beams of all sizes lose a given target. */
function ownBeams({own, target}) {
  if (!own?.beams.length) return null;
  const place = (outcome) => h("span", {}, lostPlace(outcome), " ", piece(target.pieces[outcome.lost_at - 1] ?? ""));
  return h("div", {class: "block"}, outcomeTable({caption: t("summary.own-beams"), outcomes: own.beams, place}));
}

/** What was changed on purpose, a line each. */
function whatIf(changes) {
  if (!changes) return [];
  return [
    changes.prefix ? t("what-if.prefix", {prefix: isolated(changes.prefix)}) : null,
    changes.forbidden.length ? t("what-if.forbidden", {words: changes.forbidden.map(isolated).join(", ")}) : null,
    ...changes.attend.map(([target, source]) => t("what-if.attend", {target, source})),
  ];
}

/** The target's pieces, each over a bar as long as its probability; arrow keys move along them. */
export function probabilityLine({target, steps}) {
  const describe = (step) => [
    h("strong", {}, `p ${probability(Math.exp(step.log_prob))}`),
    t("steps.rank-is", {rank: step.rank}),
    step.runners_up.slice(0, 3).map((other) => h("div", {}, piece(other.piece), ` ${probability(Math.exp(other.log_prob))}`)),
  ];
  const chips = steps.map((step, index) =>
    h(
      "span",
      {class: "chip", style: {"--share": String(Math.exp(step.log_prob))}, "data-index": index},
      piece(step.piece),
      h("span", {class: "chip-bar", "aria-hidden": "true"}),
    ),
  );
  let active = 0;
  const activate = (index, spoken) => {
    chips[active]?.classList.remove("active");
    active = index;
    chips[index].classList.add("active");
    const box = chips[index].getBoundingClientRect();
    showTooltip({x: box.left, y: box.bottom}, ...describe(steps[index]));
    const value = probability(Math.exp(steps[index].log_prob));
    if (spoken) announce(t("summary.piece-spoken", {piece: isolated(steps[index].piece), value, rank: steps[index].rank}));
  };
  const leave = () => {
    chips[active]?.classList.remove("active");
    hideTooltip();
  };
  const towards = direction(target.text) === "rtl" ? -1 : 1;
  const onkeydown = (event) => {
    const next = {ArrowRight: active + towards, ArrowLeft: active - towards, Home: 0, End: chips.length - 1}[event.key];
    if (event.key === "Escape") leave();
    if (next === undefined) return;
    event.preventDefault();
    activate(Math.max(0, Math.min(chips.length - 1, next)), true);
  };
  return h(
    "div",
    {
      class: "chips",
      dir: direction(target.text),
      role: "application",
      "aria-roledescription": t("summary.chips-role"),
      "aria-label": t("summary.pieces"),
      tabindex: 0,
      onkeydown,
      onfocus: (event) => event.target.matches(":focus-visible") && activate(active, true),
      onblur: leave,
      onpointerover: (event) => {
        const chip = event.target.closest(".chip");
        if (chip) activate(Number(chip.dataset.index), false);
      },
      onpointerleave: leave,
    },
    chips,
  );
}

function scoreTable({score, beam}) {
  if (!score) return h("p", {class: "note"}, t("summary.no-score"));
  const scoring = beam?.scoring;
  const rows = [
    [t("score.log_prob"), "log P(Y | X)", fixed(score.log_prob)],
    ...TERMS.map((term) => [t(`score.${term}`), formula(term, scoring), fixed(score[term])]),
  ].map((row, index, all) => (index === all.length - 1 ? row.map((content) => ({content, class: "total"})) : row));
  return h(
    "div",
    {},
    table({
      caption: t("summary.score"),
      columns: [{label: t("score.term")}, {label: t("score.formula"), class: "formula"}, {label: t("score.value"), numeric: true}],
      rows,
      rowHeads: true,
    }),
    h("p", {class: "hint formula-key"}, t("score.symbols")),
  );
}

/** The equation of a term with this search's parameters (docs/search.md). */
function formula(term, scoring) {
  const {alpha, beta, gamma, reward, normalisation} = scoring ?? {};
  const value = (number, letter) => (isNumber(number) ? String(number) : letter);
  const base = normalisation === "plain" ? "|Y|" : "((5 + |Y|) / 6)";
  return {
    length: `log P / ${base}^${value(alpha, "α")}`,
    coverage: `${value(beta, "β")} Σ log min(coverage, 1)`,
    end: `${value(gamma, "γ")} |X| / |Y|`,
    reward: `${value(reward, "ρ")} |Y|`,
    total: t("score.sum"),
  }[term];
}

function facts({source, target, steps, confidence, log_prob: logProb}) {
  const logProbs = steps.map((step) => step.log_prob).filter(isNumber);
  const mean = logProbs.reduce((sum, value) => sum + value, 0) / logProbs.length;
  const lowest = steps.reduce((least, step) => (step.log_prob < least.log_prob ? step : least), steps[0]);
  const first = steps.filter((step) => step.rank === 1).length;
  const rows = [
    [t("facts.confidence"), isNumber(confidence) ? fixed(confidence, 2) : t("facts.no-confidence")],
    [t("facts.source-pieces"), count(source.pieces.length)],
    [t("facts.target-pieces"), count(target.pieces.length)],
    [t("facts.log-prob"), fixed(logProb ?? logProbs.reduce((sum, value) => sum + value, 0))],
    [t("facts.mean"), fixed(mean)],
    [t("facts.first"), t("facts.of", {part: first, whole: steps.length})],
    lowest ? [t("facts.lowest"), h("span", {}, piece(lowest.piece), ` ${probability(Math.exp(lowest.log_prob))}`)] : null,
  ].filter(Boolean);
  return table({caption: t("summary.facts"), columns: [{label: t("facts.name")}, {label: t("score.value"), numeric: true}], rows, rowHeads: true});
}
