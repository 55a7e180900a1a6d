/** The names of layers, states, gates and terms of gradient flow in the present language. */

import "calque/gradient_flow_strings";
import {t} from "calque/i18n";

const CELLS = {lstm: "LSTM", gru: "GRU", "gru-original": "GRU (2014)", rnn: "RNN (tanh)", "rnn-relu": "RNN (ReLU)"};

/** The string of a key, or a name of the document that the page does not know, as it is. */
export function known(key, name) {
  const text = t(`${key}.${name}`);
  return text === `${key}.${name}` ? String(name) : text;
}

/** "layer 2, backward"; the embeddings are layer 0. */
export function layerName({layer, direction}) {
  if (layer === 0) return t("flow.embeddings");
  const name = t("flow.layer", {number: layer});
  return direction === "backward" ? t("flow.backward", {layer: name}) : name;
}

/** A layer with its state, where it may have several. */
export function flowName(flow) {
  const name = layerName(flow);
  return ["cell", "hidden"].includes(flow.state) ? t("flow.with-state", {layer: name, state: known("flow.state", flow.state)}) : name;
}

export function sideName(side) {
  return known("flow.side", side);
}

/** "Encoder, layer 1, backward · LSTM". */
export function recurrenceName(item) {
  return `${t("flow.side-layer", {side: sideName(item.side), layer: layerName(item)})} · ${cellName(item.cell)}`;
}

export function cellName(cell) {
  return CELLS[cell] ?? cell;
}

export function gateName(gate) {
  return known("flow.gate", gate);
}

/** A term of a Jacobian. */
export function termName(term) {
  return ["direct", "total", "recurrent"].includes(term) ? known("flow.term", term) : t("flow.through", {gate: gateName(term)});
}
