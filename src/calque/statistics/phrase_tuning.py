"""Tuning a phrase-based model: n-best lists of held-out sentences, merged over iterations, and MERT on them."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np

from calque.data.store import Array
from calque.statistics.cooccurrence import Floats
from calque.statistics.mert import Optimum, optimise, pad_candidates
from calque.statistics.phrase_model import UNKNOWN, Derivation, PhraseModel
from calque.statistics.stack_decoder import StackDecoder, StackSearch

TRIED = 5  # derivations looked at for each different translation of an n-best list


class Measure(Protocol):
    """A corpus metric with its references, computed from statistics summed over sentences, as BLEU is."""

    def statistics(self, hypotheses: Sequence[str]) -> Any:
        """The K statistics of each of S hypotheses [S,K]: one hypothesis per reference."""
        ...

    def scores(self, sums: Any) -> Any:
        """The corpus scores [R] for R different sums of statistics [R,K]; higher is better."""
        ...


class TuningSettings(NamedTuple):
    """How weights are tuned."""

    iterations: int = 4
    nbest: int = 100
    """The number of distinct translations per sentence and iteration."""
    restarts: int = 2
    """The number of random starting points of MERT in each iteration, besides the best weights so far."""
    seed: int = 1


class TuningReport(NamedTuple):
    """The result of one iteration of tuning."""

    iteration: int  # from 1
    score: float
    """The score of the translations found with the weights at the start of the iteration."""
    candidates: int
    """The number of all candidates so far."""
    expected: float
    """The score of the candidates that are best with the weights that the iteration found."""


class Tuner:
    """Tunes the weights of a model on held-out sentences; deterministic given its seed.

    Law: of all models that were tried, the one whose translations scored best is returned.
    """

    def __init__(
        self,
        sources: Sequence[Array],
        measure: Measure,
        *,
        text: Callable[[int, Derivation], str],
        search: StackSearch,
        settings: TuningSettings,
        report: Callable[[TuningReport], None] = lambda _: None,
        check_stop: Callable[[], None] = lambda: None,
    ) -> None:
        """Tunes on these sources; `text(index, derivation)` returns the translation that a derivation spells out.

        `index` is the number of the sentence. The translation has the form that `measure` scores.
        """
        self.sources, self.measure, self.text, self.search = sources, measure, text, search
        self.settings, self.report, self.check_stop = settings, report, check_stop
        self._features: list[dict[bytes, Floats]] = [{} for _ in sources]
        self._texts: list[dict[bytes, str]] = [{} for _ in sources]
        self._statistics: list[dict[str, Floats]] = [{} for _ in sources]

    def tune(self, model: PhraseModel) -> PhraseModel:
        """The model with tuned weights."""
        random = np.random.default_rng(self.settings.seed)
        tuned = np.array([name != UNKNOWN for name in model.features])
        scale = float(np.abs(model.vector()[tuned]).sum())
        best: tuple[float, PhraseModel] | None = None
        for iteration in range(1, self.settings.iterations + 1):
            firsts, added = self._collect(model)
            score = self._score(firsts)
            if best is None or score > best[0]:
                best = score, model
            if not added and iteration > 1:
                break
            optimum = self._optimise([model.vector(), best[1].vector()], tuned=tuned, scale=scale, random=random)
            candidates = sum(map(len, self._features))
            self.report(TuningReport(iteration, score, candidates, optimum.score))
            model = model._replace(weights=dict(zip(model.features, optimum.weights.tolist(), strict=True)))
        else:
            firsts, _ = self._collect(model)
            if best is None or self._score(firsts) > best[0]:
                return model
        assert best is not None
        return best[1]

    def _collect(self, model: PhraseModel) -> tuple[list[str], int]:
        """Adds the model's n-best lists to the candidates; returns all best translations and how many were added."""
        decoder = StackDecoder(model, self.search)
        firsts, added = [], 0
        for number, ids in enumerate(self.sources):
            self.check_stop()
            seen: set[tuple[int, ...]] = set()
            for derivation in islice(decoder.derivations(ids), TRIED * self.settings.nbest):
                words = derivation.words
                if words in seen:
                    continue
                text = self.text(number, derivation)
                if not seen:
                    firsts.append(text)
                seen.add(words)
                steps = model.steps(derivation.options, length=len(ids))
                features = np.sum([step.features for step in steps], axis=0)
                key = np.round(features, 6).tobytes() + text.encode()
                if key not in self._features[number]:
                    self._features[number][key], self._texts[number][key] = features, text
                    added += 1
                if len(seen) >= self.settings.nbest:
                    break
        self._measure_new()
        return firsts, added

    def _measure_new(self) -> None:
        """Computes the metric's statistics for new candidates, in rounds of one candidate per sentence."""
        waiting = [
            list(dict.fromkeys(text for text in texts.values() if text not in known))
            for texts, known in zip(self._texts, self._statistics, strict=True)
        ]
        while any(waiting):
            self.check_stop()
            texts = [rest[-1] if rest else "" for rest in waiting]
            rows = np.asarray(self.measure.statistics(texts), dtype=np.float64)
            for rest, known, row in zip(waiting, self._statistics, rows, strict=True):
                if rest:
                    known[rest.pop()] = row

    def _score(self, texts: Sequence[str]) -> float:
        rows = [known[text] for known, text in zip(self._statistics, texts, strict=True)]
        return float(self.measure.scores(np.sum(rows, axis=0, keepdims=True))[0])

    def _optimise(self, starts: list[Floats], *, tuned: Array, scale: float, random: np.random.Generator) -> Optimum:
        """The best weights that MERT finds from `starts` and random points; Σ|w| of the `tuned` ones is `scale`."""
        candidates = pad_candidates(
            [np.array(list(features.values())) for features in self._features],
            [
                np.array([known[text] for text in texts.values()])
                for texts, known in zip(self._texts, self._statistics, strict=True)
            ],
        )
        for _ in range(self.settings.restarts):
            starts.append(np.where(tuned, starts[0] * random.uniform(0, 2, len(tuned)), starts[0]))
        optima = [
            optimise(
                candidates,
                start,
                tuned=tuned,
                scores=self.measure.scores,
                random=random,
                check_stop=self.check_stop,
            )
            for start in starts
        ]
        best = max(optima, key=lambda optimum: optimum.score)
        size = float(np.abs(best.weights[tuned]).sum())
        return Optimum(np.where(tuned, best.weights * (scale / size if size else 1), best.weights), best.score)
