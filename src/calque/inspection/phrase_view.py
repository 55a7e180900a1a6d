"""How a statistical model built a translation: its phrases in target order, each with its scores."""

from typing import Any, NamedTuple

from calque.engine.phrase_translator import PhraseTranslator, Source
from calque.inspection.document import rounded
from calque.layers.int8 import parameter_count
from calque.statistics.phrase_model import Derivation

CANDIDATES = 5  # of the n-best list


class PhraseStep(NamedTuple):
    """One phrase of a translation; the last step, without words, is the end of the sentence."""

    source: str
    target: str
    start: int | None
    """The position of the first source piece; None at the end."""
    stop: int | None
    copied: bool
    features: dict[str, float]
    score: float
    """The weighted sum of the features."""


class PhraseView(NamedTuple):
    """A translation by a statistical model, divided into phrases."""

    source: str
    source_pieces: list[str]
    source_cut: bool
    target: str
    score: float
    weights: dict[str, float]
    features: dict[str, float]
    """Each feature, summed over all phrases.   Law: the weighted sum of the features is the score."""
    steps: list[PhraseStep]
    candidates: list[tuple[str, float]]
    """The best distinct translations and their scores."""


def inspect_phrases(translator: PhraseTranslator, text: str) -> PhraseView:
    """Translates a text and returns the phrases of the translation with their scores."""
    source = translator.read(text)
    found = translator.derivations(source, nbest=CANDIDATES)
    target, derivation = found[0]
    names = translator.phrases.features
    weights = dict(zip(names, translator.phrases.vector().tolist(), strict=True))
    steps = _steps(translator, source, derivation)
    return PhraseView(
        text,
        source.pieces,
        source.cut,
        target,
        float(derivation.score),
        weights,
        {name: sum(step.features[name] for step in steps) for name in names},
        steps,
        [(candidate, float(item.score)) for candidate, item in found],
    )


def _steps(translator: PhraseTranslator, source: Source, derivation: Derivation) -> list[PhraseStep]:
    tokenizers, names, vector = translator.tokenizers, translator.phrases.features, translator.phrases.vector()
    steps = []
    for option, features in translator.steps(source, derivation):
        values, score = dict(zip(names, features.tolist(), strict=True)), float(features @ vector)
        if option is None:
            steps.append(PhraseStep("", "", None, None, False, values, score))
            continue
        words = tokenizers.source.detokenise(source.pieces[option.start : option.stop])
        translation = tokenizers.target.detokenise(translator.target_pieces(source, option.words))
        steps.append(PhraseStep(words, translation, option.start, option.stop, option.entry < 0, values, score))
    return steps


def phrase_values(view: PhraseView, **_: Any) -> dict[str, Any]:
    """An inspected translation as JSON values."""
    return {
        "source": {"text": view.source, "pieces": view.source_pieces, "cut": view.source_cut},
        "target": {"text": view.target},
        "score": rounded(view.score),
        "weights": {name: rounded(value) for name, value in view.weights.items()},
        "features": {name: rounded(value) for name, value in view.features.items()},
        "phrases": [
            {
                "source": step.source,
                "target": step.target,
                "span": None if step.start is None else [step.start, step.stop],
                "copied": step.copied,
                "score": rounded(step.score),
                "features": {name: rounded(value) for name, value in step.features.items()},
            }
            for step in view.steps
        ],
        "candidates": [{"text": text, "score": rounded(score)} for text, score in view.candidates],
    }


def phrase_summary(translator: PhraseTranslator, *, name: str) -> dict[str, Any]:
    """The entry "model" of an inspection's JSON for a statistical model: name, architecture, number of parameters."""
    return {
        "name": name,
        "architecture": "phrase-based" if translator.config.units == "phrases" else "word for word",
        "parameters": parameter_count(translator.model),
        "attends": False,
    }
