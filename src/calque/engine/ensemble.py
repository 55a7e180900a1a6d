"""Models beside the translation model: an ensemble, a language model, and a reverse model for a noisy channel."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from calque.errors import ConfigError, FolderError
from calque.models.language_model import LanguageModel
from calque.models.model import Model
from calque.objectives.decoding_step import decoding_step, language_step
from calque.search.ensemble import ensemble as ensemble_step
from calque.search.ensemble import fused
from calque.search.settings import SearchConfig
from calque.search.step import Step
from calque.tensors import Padded
from calque.text import UNK, Tokenizer, Tokenizers


class Ensemble(NamedTuple):
    """Who else has a say in a step."""

    models: tuple[Model, ...] = ()
    language: LanguageModel | None = None

    def joined(self, other: "Ensemble") -> "Ensemble":
        """Both; there is one language model at the most."""
        if self.language is not None and other.language is not None:
            raise ConfigError("there is a language model beside this translator already; one can count at each step")
        return Ensemble(self.models + other.models, self.language or other.language)


class Decoding(NamedTuple):
    """A step, and what it begins with."""

    step: Step
    state: Any
    context: Any


def start_decoding(
    model: Model, source: Padded, *, ensemble: Ensemble, search: SearchConfig, attention: bool
) -> Decoding:
    """The model's step, or that of all models together, for sources on the model's device."""
    members = (model, *ensemble.models)
    contexts = tuple(each.prepare(source) for each in members)
    states = tuple(each.start(context) for each, context in zip(members, contexts, strict=True))
    steps = [decoding_step(each, attention=attention) for each in members]
    decoding = Decoding(steps[0], states[0], contexts[0])
    if ensemble.models:
        decoding = Decoding(ensemble_step(steps, mean=search.ensemble), states, contexts)
    if ensemble.language is None or not search.language_weight:
        return decoding
    language = ensemble.language
    step = fused([decoding.step, language_step(language)], weights=[1.0, search.language_weight], unknown=UNK)
    return Decoding(step, (decoding.state, language.start(len(source.lengths))), (decoding.context, ()))


def refuse_other_vocabularies(own: Tokenizers, *, ensemble: Sequence[Tokenizers], language: Tokenizer | None) -> None:
    """Raises a FolderError for a model whose pieces are not the model's own: of the target, or an ensemble's source."""
    targets = [("a model of the ensemble", theirs.target) for theirs in ensemble]
    targets += [("the language model", language)] if language else []
    sources = [("a model of the ensemble", theirs.source) for theirs in ensemble]
    for mine, others in ((own.target, targets), (own.source, sources)):
        for name, theirs in others:
            if theirs.to_bytes() != mine.to_bytes():
                raise FolderError(
                    f"{name}: its pieces are not those of the model beside it; train both with one vocabulary "
                    '(text.kind = "given", text.path = the other run)'
                )
