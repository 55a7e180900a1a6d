/** Words of a sentence as spans of its pieces. */

/** Its spans [[first, last]…]; null if the document does not say. */
export function spans(side) {
  return side.words ?? null;
}

/** The text of each word: from its pieces, or from the spaces of the text where spans are not given. */
export function wordTexts(side) {
  const given = spans(side);
  if (!given) return side.text.split(/\s+/).filter(Boolean);
  return given.map(([first, last]) => side.pieces.slice(first, last + 1).join("").replaceAll("▁", " ").trim());
}
