/** Where the states of a sentence lie among those of training, and the training sentences whose states are nearest. */

import {announce} from "calque/announce";
import {scatterChart} from "calque/charts";
import {segmented, select} from "calque/controls";
import {fill, h} from "calque/dom";
import {t} from "calque/i18n";
import {count, fixed, isNumber} from "calque/numbers";
import {table} from "calque/table";
import {isolated, piece, sentence as sentenceText} from "calque/text";

const SIDES = ["encoder", "decoder"];
const CONTEXT = 6; // pieces shown on either side of a neighbour's

/** The panel of the document's part `states`; `choices` keeps the side and the pieces that the reader chose. */
export function statesPanel(states, choices) {
  choices.states ??= {side: "encoder", pieces: {encoder: 0, decoder: 0}};
  const chosen = choices.states;
  const body = h("div", {});
  const draw = () => fill(body, sidePart(states, chosen));
  const options = SIDES.map((side) => ({value: side, label: t(`states.${side}`)}));
  const choose = (side) => ((chosen.side = side), draw());
  draw();
  return [h("div", {class: "controls"}, segmented({label: t("states.side"), options, value: chosen.side, onchange: choose})), body];
}

function sidePart(states, chosen) {
  const {side, pieces} = chosen;
  const {points, width, background, explained} = states[side];
  pieces[side] = Math.max(0, Math.min(pieces[side], points.length - 1));
  const neighbours = h("div", {class: "block"});
  const chart = scatterChart({
    label: t(`states.${side}`),
    groups: [sentenceGroup(points, side), neighbourGroup(points, states)],
    background: {name: t("states.background"), points: background},
    x: {label: t("states.x", {share: percent(explained[0])})},
    y: {label: t("states.y", {share: percent(explained[1])})},
    height: 440,
    links: () => links(points[pieces[side]]),
    onchoose: (point) => choose(point.place),
  });
  const options = points.map((point, place) => ({value: String(place), label: `${place + 1}. ${isolated(point.piece)}`}));
  const field = select({label: t("states.piece"), options, value: String(pieces[side]), onchange: (value) => choose(Number(value))});
  const draw = () => fill(neighbours, neighbourTable(points[pieces[side]], side, states));
  const choose = (place) => {
    pieces[side] = place;
    field.querySelector("select").value = String(place);
    draw();
    chart.redraw();
    announce(spoken(points[place]));
  };
  draw();
  return [
    h("p", {class: "explanation"}, t("states.explanation", {width})),
    chart,
    h("div", {class: "controls block"}, field),
    neighbours,
    h("p", {class: "hint block"}, covered(states.index, side)),
    states.words?.[side]?.length ? h("p", {class: "hint"}, t("states.words", {words: states.words[side].map(({word, occurrences}) => `${isolated(word)} ${count(occurrences)}`).join(", ")})) : null,
  ];
}

/** How much of training the index holds. */
function covered({states, pairs, of, words}, side) {
  const known = {states: count(states[side]), pairs: count(pairs)};
  if (!isNumber(of) || !words) return t("states.index", known);
  const share = percent(pairs / of, pairs < of ? 1 : 0);
  return t("states.index-share", {...known, of: count(of), share, words: count(words[side])});
}

/** The sentence's states; those of a decoder are numbered and joined in order. */
function sentenceGroup(points, side) {
  const isOrdered = side === "decoder";
  return {
    name: t("states.sentence"),
    joined: isOrdered,
    points: points.map((point, place) => ({
      x: point.x,
      y: point.y,
      place,
      tag: isOrdered ? `${place + 1} ${point.piece}` : point.piece,
      lines: [isolated(point.piece), t("states.piece-number", {number: place + 1})],
    })),
  };
}

/** The nearest training states of all pieces. */
function neighbourGroup(points, {sentences}) {
  return {
    name: t("states.neighbours"),
    points: points.flatMap((point, place) =>
      point.neighbours.map((neighbour) => ({
        x: neighbour.x,
        y: neighbour.y,
        place,
        lines: [
          isolated(neighbour.piece),
          t("states.near", {distance: fixed(neighbour.distance), piece: isolated(point.piece)}),
          isolated(sentences[neighbour.sentence].source),
        ],
      })),
    ),
  };
}

const links = (point) => (point?.neighbours ?? []).filter((end) => [point, end].every(({x, y}) => isNumber(x) && isNumber(y))).map((end) => [point, end]);

function neighbourTable(point, side, {metric, sentences}) {
  if (!point?.neighbours.length) return h("p", {class: "note"}, t("states.none"));
  return table({
    caption: t("states.caption", {piece: isolated(point.piece)}),
    columns: [
      {label: t("states.distance", {metric: t(`states.${metric}`)}), numeric: true},
      {label: t("states.context"), class: "context"},
      {label: t("summary.source"), class: "wide"},
      {label: t("summary.target"), class: "wide"},
      {label: t("states.line"), class: "place"},
    ],
    rows: point.neighbours.map((neighbour) => {
      const sentence = sentences[neighbour.sentence];
      return [
        fixed(neighbour.distance),
        context(side === "encoder" ? sentence.source_pieces : sentence.target_pieces, neighbour.position),
        sentenceText(sentence.source),
        sentenceText(sentence.target),
        t("states.corpus-line", {corpus: sentence.corpus + 1, line: count(sentence.line)}),
      ];
    }),
  });
}

/** The pieces around a position, and the one at it marked. */
function context(pieces, position) {
  const first = Math.max(0, position - CONTEXT);
  const shown = pieces.slice(first, position + CONTEXT + 1);
  const marked = shown.flatMap((text, index) => [index ? " " : null, first + index === position ? h("mark", {}, piece(text)) : piece(text)]);
  return h("span", {}, first ? "… " : null, marked, position + CONTEXT + 1 < pieces.length ? " …" : null);
}

function spoken(point) {
  const [nearest] = point.neighbours;
  if (!nearest) return `${isolated(point.piece)}: ${t("states.none")}`;
  return t("states.chosen", {piece: isolated(point.piece), neighbour: isolated(nearest.piece), distance: fixed(nearest.distance)});
}

const percent = (share, digits = 0) => `${fixed(100 * share, digits)} %`;
