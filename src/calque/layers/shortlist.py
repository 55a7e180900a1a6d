"""An output layer over a list of words for each sentence, instead of the whole vocabulary.

The logits of the words that all sentences share come from one product for all rows. Those of a sentence's own words
come from a separate product of its hypotheses with these words' rows of the weight, so that they do not depend on the
other sentences of the batch.

If probabilities were normalised over the list alone, they would be too high: a model trained with label smoothing gives
a tenth of the probability to words that are never right. So the words outside the list are represented by a sample of r
of them:

    Z = Σ_{w in list} e^{l_w} + (V − M − n) / r · Σ_{w in sample} e^{l_w}

Letters: B sentences, K beams, N hypotheses, C best words, D width, V vocabulary, M shared words, n own words.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.layers.best_words import BestWords
from calque.layers.int8_linear import Int8Linear, input_levels, quantise_rows
from calque.layers.output import FullOutput, wide
from calque.layers.packed import PackedLinear
from calque.native.operations import best_words, is_usable
from calque.tensors import Slots, best_candidates, exact, fold, select_rows, unfold, weightless

COLUMNS = 8  # the number of own words is a multiple of this
ROWS = 256  # whose log-probabilities are held at a time, see `OutputLayer.best`


class WordLists(NamedTuple):
    """The words that the translation of each sentence may contain."""

    shared: Tensor  # [M], increasing; with the end mark
    sample: Tensor  # [r], words that are not shared, which represent those outside the lists; those of a list do not
    own: Tensor  # [B,n], further words of each sentence, increasing; then −1


class OwnWords(NamedTuple):
    """Each sentence's own words, which are not among the shared words, and their weights in the output layer."""

    words: Tensor  # [B,n], −1 for padding
    weight: Tensor  # [B,n,D]; of 8-bit products, their levels
    scales: Tensor | None  # [B,n] of 8-bit products
    bias: Tensor  # [B,n], −∞ for padding
    sample_weight: Tensor  # [B,r], log (V − M − n) / r, or −∞ for a word of the sample that is in the list


class ListedOutput:
    """The log-probabilities of a full output layer for the words of each sentence's list.

    Law: they equal those of `masked_log_probs`, which computes the logits of all words.
    """

    def __init__(self, output: FullOutput, lists: WordLists) -> None:
        self.output, self.shared, self.sample = output, lists.shared, lists.sample
        self._column: tuple[int, int] | None = None
        self._common_logits = _product_of(output, torch.cat([lists.shared, lists.sample]))

    def own(self, words: Tensor) -> OwnWords:
        """The rows of the output layer for the words [B,n] that are only in the shortlist of each sentence.

        n is padded to a multiple of COLUMNS, as rounding in narrower matrix products depends on their width.
        """
        size = words.shape[1]
        words = F.pad(words, (0, max(COLUMNS, size + -size % COLUMNS) - size), value=-1)
        rows, is_padding, product = words.clamp(min=0), words < 0, self.output.product
        bias = wide(self.output.bias.detach())[rows].masked_fill(is_padding, -torch.inf)
        weight = _sample_weight(words, self.shared, self.sample, vocabulary=len(self.output.bias)).to(bias.dtype)
        if isinstance(product, Int8Linear):
            return OwnWords(words, product.weight[rows].float(), product.scales[rows], bias, weight)
        return OwnWords(words, self.output.weight.detach()[rows], None, bias, weight)

    def log_probs(self, hidden: Tensor, own: OwnWords) -> Tensor:
        """Log-probabilities [N,V] given hidden [N,D]; −∞ for words that are not in a sentence's list."""
        rows = _of_rows(own, rows=len(hidden), slots=None)
        listed = self._listed_log_probs(hidden, self._own_logits(hidden, own, rows, slots=None), rows.sample_weight)
        vocabulary = len(self.output.bias)
        full = listed.new_full((len(hidden), vocabulary + 1), -torch.inf)  # the last column takes the padding
        full[:, self.shared] = listed[:, : len(self.shared)]
        words = rows.words.masked_fill(rows.words < 0, vocabulary)
        return full.scatter_(1, words, listed[:, len(self.shared) :])[:, :-1]

    def best(self, hidden: Tensor, own: OwnWords, *, slots: Slots | None, count: int, end: int) -> BestWords:
        """The `count` most likely words of the lists, given hidden [N,D], and the log-probability of the word `end`.

        Of equally likely words, shared ones come first, then the lower id.
        """
        of_rows = _of_rows(own, rows=len(hidden), slots=slots)
        own_logits = self._own_logits(hidden, own, of_rows, slots=slots)
        end_column = self._column_of(end)
        step = ROWS if hidden.device.type == "cpu" else max(1, len(hidden))
        parts = []
        chunks = [torch.split(part, step) for part in (hidden, own_logits, of_rows.sample_weight, of_rows.words)]
        for rows, own_part, weights, words in zip(*chunks, strict=True):
            values, columns, ends = self._best_columns(rows, own_part, weights, count=count, end=end_column)
            parts.append(BestWords(values, self._words_in(columns, words), ends))
        return parts[0] if len(parts) == 1 else BestWords(*(torch.cat(part) for part in zip(*parts, strict=True)))

    def _best_columns(
        self, hidden: Tensor, own_logits: Tensor, sample_weight: Tensor, *, count: int, end: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities and columns [N,C] of the `count` best words, and log-probabilities [N] of column `end`."""
        listed = len(self.shared) + own_logits.shape[1]
        if self.output.product is not None and is_usable(hidden) and count <= listed:
            return best_words(self._logits(hidden, own_logits, sample_weight), count=count, end=end, among=listed)
        log_probs = self._listed_log_probs(hidden, own_logits, sample_weight)
        return *best_candidates(log_probs, count=count), log_probs[:, end]

    def _listed_log_probs(self, hidden: Tensor, own_logits: Tensor, sample_weight: Tensor) -> Tensor:
        """The log-probabilities [N,M+n] of the M words that all sentences share and of n own words per sentence."""
        logits = self._logits(hidden, own_logits, sample_weight)
        return F.log_softmax(logits, dim=-1)[:, : len(self.shared) + own_logits.shape[1]]

    def _logits(self, hidden: Tensor, own_logits: Tensor, sample_weight: Tensor) -> Tensor:
        """The logits [N,M+n+r] of M shared words, n own words per sentence and r sampled words, the last weighted."""
        common, shared = wide(self._common_logits(hidden)), len(self.shared)
        return torch.cat([common[:, :shared], own_logits, common[:, shared:] + sample_weight], dim=1)

    def _words_in(self, columns: Tensor, own: Tensor) -> Tensor:
        """The ids [N,C] of the words in `columns` of the logits, given each row's own words [N,n]; 0 for padding."""
        size = len(self.shared)
        own_words = own.gather(1, (columns - size).clamp(min=0)).clamp(min=0)
        return torch.where(columns < size, self.shared[columns.clamp(max=size - 1)], own_words)

    def _own_logits(self, hidden: Tensor, own: OwnWords, of_rows: "_OwnRows", *, slots: Slots | None) -> Tensor:
        """The logits [N,n] of words only in the shortlist of each sentence; 8-bit products are summed in float32."""
        if of_rows.scales is None:
            return wide(_products(hidden, own.weight, slots=slots)) + of_rows.bias
        levels, scales = quantise_rows(hidden)
        inputs = levels[: len(hidden)].float() - (input_levels() + 1)
        return torch.addcmul(of_rows.bias, _products(inputs, own.weight, slots=slots) * of_rows.scales, scales)

    def _column_of(self, word: int) -> int:
        """The column of the logits for `word`, which must be one of the words that all sentences share."""
        if self._column is None or self._column[0] != word:
            self._column = word, int((self.shared == word).nonzero())
        return self._column[1]


def masked_log_probs(output: FullOutput, hidden: Tensor, lists: WordLists) -> Tensor:
    """The log-probabilities of `ListedOutput`, computed from the logits [N,V] of all words: the readable version."""
    logits, beams = wide(output.logits(hidden)), len(hidden) // len(lists.own)
    rows = []
    for row, row_logits in enumerate(logits):
        own = lists.own[row // beams]
        listed = torch.cat([lists.shared, own[own >= 0]])
        sample = lists.sample[~torch.isin(lists.sample, listed)]
        log_weight = math.log((len(row_logits) - len(listed)) / len(sample)) if len(sample) else 0.0
        total = torch.cat([row_logits[listed], row_logits[sample] + log_weight]).logsumexp(dim=0)
        log_probs = torch.full_like(row_logits, -torch.inf)
        log_probs[listed] = row_logits[listed] - total
        rows.append(log_probs)
    return torch.stack(rows)


def _sample_weight(own: Tensor, shared: Tensor, sample: Tensor, *, vocabulary: int) -> Tensor:
    """The log-weights [B,r] with which r sampled words represent all words outside a sentence's list.

    With V words, M shared and n own: the r' sampled words outside the list weigh (V − M − n) / r', the others 0.
    """
    is_listed = (own[:, :, None] == sample).any(dim=1)
    others = vocabulary - len(shared) - (own >= 0).sum(dim=1)
    used = (~is_listed).sum(dim=1).clamp(min=1)
    return (exact(others) / used).log()[:, None].masked_fill(is_listed, -torch.inf)


def _products(inputs: Tensor, weight: Tensor, *, slots: Slots | None) -> Tensor:
    """The products [N,n] of each input [N,D] with the n vectors of its sentence, given as `weight` [B,n,D].

    If each sentence has a single input, it is computed twice: a product with a single vector is rounded differently if
    the sentence is alone in its batch.
    """
    queries = fold(inputs[:, None], sentences=len(weight), slots=slots)  # [B,K,D]
    width = queries.shape[1]
    columns = torch.cat([queries, queries], dim=1) if width == 1 else queries
    products = torch.bmm(weight, columns.transpose(1, 2)).transpose(1, 2)[:, :width]  # [B,K,n]
    return unfold(products, rows=len(inputs), slots=slots).view(len(inputs), -1)


class _OwnRows(NamedTuple):
    """The tensors of `OwnWords`, except `weight`, with each sentence's row repeated for all its hypotheses."""

    words: Tensor  # [N,n]
    scales: Tensor | None  # [N,n]
    bias: Tensor  # [N,n]
    sample_weight: Tensor  # [N,r]


def _of_rows(own: OwnWords, *, rows: int, slots: Slots | None) -> _OwnRows:
    parts = _OwnRows(own.words, own.scales, own.bias, own.sample_weight)
    sentences = len(own.words)
    if slots is None and rows == sentences:
        return parts
    if slots is not None:
        return select_rows(parts, slots.sentences)
    return select_rows(parts, torch.arange(sentences, device=own.words.device).repeat_interleave(rows // sentences))


def _product_of(output: FullOutput, words: Tensor) -> Callable[[Tensor], Tensor]:
    """A function that computes the logits of `words` alone, by the same product as `output`: 8-bit, packed or plain."""
    product = output.product
    if isinstance(product, Int8Linear):
        with weightless():
            layer = Int8Linear(product.inputs, len(words))
        for name in ("weight", "scales", "bias"):
            setattr(layer, name, nn.Parameter(getattr(product, name)[words], requires_grad=False))
        return layer
    weight, bias = output.weight.detach()[words], output.bias.detach()[words]
    if isinstance(product, PackedLinear):
        return PackedLinear.sharing(nn.Parameter(weight), nn.Parameter(bias))
    return partial(F.linear, weight=weight, bias=bias)
