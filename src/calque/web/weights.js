/** Weights of a document, [heads][rows][columns], as nested lists or as 16-bit integers in base64. */

/** {heads, rows, columns, head(index), mean(), maximum}: every head is a Float32Array of rows × columns. */
export function decodeWeights(weights) {
  const matrices = Array.isArray(weights) ? fromLists(weights) : fromIntegers(weights);
  let mean = null;
  return {
    ...matrices,
    head: (index) => matrices.values[index],
    mean: () => (mean ??= average(matrices.values)),
    maximum: largest(matrices.values),
  };
}

/** The largest magnitude in some matrices. */
export function largest(matrices) {
  let maximum = 0;
  for (const matrix of matrices) for (const value of matrix) maximum = Math.max(maximum, Math.abs(value));
  return maximum;
}

/** One matrix of nested lists as a Float32Array. */
export function flat(lists) {
  const [rows, columns] = [lists.length, lists[0]?.length ?? 0];
  const values = new Float32Array(rows * columns);
  lists.forEach((list, row) => values.set(list, row * columns));
  return values;
}

/** One matrix, as nested lists or as integers, as a Float32Array. */
export function matrix(weights) {
  return Array.isArray(weights) ? flat(weights) : fromIntegers({...weights, shape: [1, ...weights.shape]}).values[0];
}

function fromLists(lists) {
  return {heads: lists.length, rows: lists[0].length, columns: lists[0][0]?.length ?? 0, values: lists.map(flat)};
}

function fromIntegers({shape: [heads, rows, columns], uint16}) {
  const bytes = Uint8Array.from(atob(uint16), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const size = rows * columns;
  const values = Array.from({length: heads}, (_, head) => {
    const matrix = new Float32Array(size);
    for (let index = 0; index < size; index += 1) matrix[index] = view.getUint16(2 * (head * size + index), true) / 65535;
    return matrix;
  });
  return {heads, rows, columns, values};
}

function average(matrices) {
  const mean = new Float32Array(matrices[0].length);
  for (const matrix of matrices) for (let index = 0; index < mean.length; index += 1) mean[index] += matrix[index];
  return mean.map((value) => value / matrices.length);
}
