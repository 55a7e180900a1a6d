"""The HMM alignment model: where a target word comes from depends on where the word before it came from.

Letters: B pairs, I source words, J target words. Vogel, Ney and Tillmann (1996), with the empty word of Och and Ney
(2003): the *position* i after a target word is the source word that the last target word came from, not counting
words drawn from the empty word; 0 if there is none. The states i (drawn from source word i) and i + I
(drawn from the empty word in position i) of Och and Ney have the same future, so that forward and backward scores are
kept by position [B,1+I].
"""

from typing import NamedTuple

import numpy as np

from calque.data.store import Array
from calque.statistics.cooccurrence import Cooccurrences, Floats
from calque.statistics.em import SILENT, Iteration, Observer, reestimated
from calque.statistics.ibm1 import TranslationModel
from calque.statistics.jumps import Jumps

NAME = "HMM"
EMPTY = 0.2
"""p₀, the probability that a target word is drawn from the empty word."""
SMOOTHING = 0.2
"""α, the weight of the uniform distribution in the jumps."""

VITERBI_CELLS = 1 << 17  # jumps that are compared at once


class Transitions(NamedTuple):
    """The transition probabilities from each position, for sources of I words."""

    jump: Floats  # [1+I,I]: (1−p₀) · p(i | i', I)
    stay: float  # p₀: the empty word follows


class HiddenMarkovModel(NamedTuple):
    """The parameters of the HMM alignment model."""

    lexical: Floats
    """t(target | source) of each entry of the corpus."""
    jumps: Jumps
    empty: float  # p₀

    def transitions(self, words: int) -> Transitions:
        """The transitions between the positions of a source with this number of words."""
        return Transitions((1 - self.empty) * self.jumps.matrix(words), self.empty)

    def align(self, lexical: Floats) -> Array:
        """The source index [B,J] of each target word in the best alignment (−1: empty word), given t(f|e) [J,B,1+I]."""
        _, pairs, width = lexical.shape
        transitions, step = self.transitions(width - 1), max(1, VITERBI_CELLS // width**2)
        parts = [lexical[:, first : first + step] for first in range(0, pairs, step)]
        return np.concatenate([most_likely_alignments(part, transitions=transitions) for part in parts])


class Expected(NamedTuple):
    """The result of the E-step for a chunk of sentence pairs."""

    log_likelihood: float
    posteriors: Floats  # [J,B,1+I]: P(target word j is drawn from source word i), column 0: from the empty word
    jumps: Floats  # [1+I,I]: the expected number of jumps from position i' to source word i, over all pairs


def expected_alignments(lexical: Floats, *, transitions: Transitions) -> Expected:
    """The E-step for lexical probabilities t(fⱼ | eᵢ) [J,B,1+I], by the forward-backward algorithm.

        forward    αⱼ(i) = p₀ t(fⱼ | e₀) αⱼ₋₁(i) + t(fⱼ | eᵢ) Σᵢ' αⱼ₋₁(i') (1−p₀) p(i | i', I)
        backward   βⱼ₋₁(i') = p₀ t(fⱼ | e₀) βⱼ(i') + Σᵢ (1−p₀) p(i | i', I) t(fⱼ | eᵢ) βⱼ(i)

    with α₀ = 1 in position 0 and β_J = 1. αⱼ is divided by its sum zⱼ, and βⱼ₋₁ by the same zⱼ, so that neither
    underflows and log P(f | e) = Σⱼ log zⱼ (Rabiner 1989, §V.A). All pairs have the same transitions, so that each step
    is a product of two matrices.
    """
    words, pairs, width = lexical.shape
    empty, full = lexical[:, :, :1] * transitions.stay, lexical[:, :, 1:]
    forward = np.zeros((words + 1, pairs, width))
    forward[0, :, 0] = 1
    arriving = np.empty((words, pairs, width - 1))  # Σᵢ' αⱼ₋₁(i') (1−p₀) p(i | i', I)
    scales = np.empty((words, pairs, 1))
    for j in range(words):
        np.matmul(forward[j], transitions.jump, out=arriving[j])
        after = np.multiply(forward[j], empty[j], out=forward[j + 1])
        after[:, 1:] += arriving[j] * full[j]
        scales[j] = after.sum(axis=1, keepdims=True)
        after /= scales[j]
    log_likelihood = float(np.log(scales).sum())
    empty = empty / scales
    emitting = full / scales  # becomes t(fⱼ | eᵢ) βⱼ(i) / zⱼ
    posteriors = np.empty_like(lexical)
    backward = np.ones((pairs, width))
    for j in reversed(range(words)):
        emitting[j] *= backward[:, 1:]
        backward *= empty[j]
        np.einsum("bi,bi->b", forward[j], backward, out=posteriors[j, :, 0])
        backward += emitting[j] @ transitions.jump.T
    np.multiply(arriving, emitting, out=posteriors[:, :, 1:])
    jumps = forward[:-1].reshape(-1, width).T @ emitting.reshape(-1, width - 1)
    return Expected(log_likelihood, posteriors, transitions.jump * jumps)


def train_hmm(
    corpus: Cooccurrences,
    start: TranslationModel,
    *,
    iterations: int,
    empty: float = EMPTY,
    smoothing: float = SMOOTHING,
    observer: Observer = SILENT,
) -> HiddenMarkovModel:
    """The HMM, trained by EM from the lexical probabilities of IBM Model 1 and uniform jumps.

    Law: the log-likelihood never falls. It holds with smoothing too: the uniform distribution is a component of a
    mixture with a fixed weight, and only the share of each jump that the other component explains is counted. p₀ is
    fixed.
    """
    longest = max((chunk.sources for chunk in corpus.chunks), default=1)
    model = HiddenMarkovModel(start.lexical, Jumps.uniform(longest, smoothing=smoothing), empty)
    for number in range(1, iterations + 1):
        model, log_likelihood = _iterate(corpus, model, phase=f"{NAME}, iteration {number}", observer=observer)
        observer.iteration(Iteration(NAME, number, log_likelihood, corpus.words))
    return model


def _iterate(
    corpus: Cooccurrences, model: HiddenMarkovModel, *, phase: str, observer: Observer
) -> tuple[HiddenMarkovModel, float]:
    """The model after one more iteration of EM, and the log-likelihood of the corpus under the given `model`."""
    transitions = {words: model.transitions(words) for words in sorted({chunk.sources for chunk in corpus.chunks})}
    jumps = {words: np.zeros_like(transition.jump) for words, transition in transitions.items()}

    def expect(cells: Floats) -> float:
        words = cells.shape[2] - 1
        expected = expected_alignments(cells, transitions=transitions[words])
        cells[:] = expected.posteriors
        jumps[words] += expected.jumps
        return expected.log_likelihood

    lexical, log_likelihood = reestimated(corpus, model.lexical, expect=expect, phase=phase, observer=observer)
    return HiddenMarkovModel(lexical, model.jumps.reestimated(jumps), model.empty), log_likelihood


def most_likely_alignments(lexical: Floats, *, transitions: Transitions) -> Array:
    """The source words [B,J] of the most likely alignment of each pair, counted from 0; −1 is the empty word.

    The Viterbi algorithm: the forward algorithm with the maximum instead of the sum. Instead of storing backpointers
    for all positions, the backtrace recomputes one per step.
    """
    words, pairs, width = lexical.shape
    scores = np.zeros((words + 1, pairs, width))
    scores[0, :, 0] = 1
    jumped = np.zeros((words, pairs, width), dtype=bool)  # whether the best way to a position is a jump
    for j in range(words):
        before = np.ascontiguousarray(scores[j].T)
        best = (before[:, None, :] * transitions.jump[:, :, None]).max(axis=0)  # [I,B]: long rows of pairs are fast
        arriving = best.T * lexical[j, :, 1:]
        after = np.multiply(scores[j], transitions.stay * lexical[j, :, :1], out=scores[j + 1])
        np.greater(arriving, after[:, 1:], out=jumped[j, :, 1:])
        np.maximum(arriving, after[:, 1:], out=after[:, 1:])
        after /= after.max(axis=1, keepdims=True)  # so that long sentences do not underflow
    alignments = np.empty((pairs, words), dtype=np.int64)
    rows, position = np.arange(pairs), scores[-1].argmax(axis=1)
    for j in reversed(range(words)):
        is_jump = jumped[j, rows, position]
        alignments[:, j] = np.where(is_jump, position - 1, -1)
        origin = (scores[j] * transitions.jump.T[position - 1]).argmax(axis=1)
        position = np.where(is_jump, origin, position)
    return alignments
