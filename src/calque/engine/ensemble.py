"""Models beside the translation model: an ensemble, a language model, and a reverse model for a noisy channel."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from calque.errors import ConfigError, FolderError
from calque.models.model import Model
from calque.search.combine import ensemble, fused
from calque.search.settings import SearchConfig
from calque.search.step import Step
from calque.tasks.decoding import decoding_step, pad_source
from calque.tensors import Padded
from calque.text import UNK, Tokenizers


class Company(NamedTuple):
    """Who else has a say in a step."""

    ensemble: tuple[Model, ...] = ()
    language: Model | None = None

    def joined(self, other: "Company") -> "Company":
        """Both; there is one language model at the most."""
        if self.language is not None and other.language is not None:
            raise ConfigError("there is a language model beside this translator already; one can count at each step")
        return Company(self.ensemble + other.ensemble, self.language or other.language)


class Begun(NamedTuple):
    """A step, and what it begins with."""

    step: Step
    state: Any
    context: Any


def begin(model: Model, source: Padded, *, company: Company, search: SearchConfig, attention: bool) -> Begun:
    """The model's step, or that of all models together, for sources on the model's device."""
    members = (model, *company.ensemble)
    contexts = tuple(each.prepare(source) for each in members)
    states = tuple(each.start(context) for each, context in zip(members, contexts, strict=True))
    steps = [decoding_step(each, attention=attention) for each in members]
    begun = Begun(steps[0], states[0], contexts[0])
    if company.ensemble:
        begun = Begun(ensemble(steps, mean=search.ensemble), states, contexts)
    if company.language is None or not search.language_weight:
        return begun
    language = company.language
    nothing = language.prepare(pad_source([[]] * len(source.lengths)).to(source.values.device))
    step = fused([begun.step, decoding_step(language)], weights=[1.0, search.language_weight], unknown=UNK)
    return Begun(step, (begun.state, language.start(nothing)), (begun.context, nothing))


def refuse_strangers(own: Tokenizers, *, ensemble: Sequence[Tokenizers], language: Tokenizers | None) -> None:
    """Raises a FolderError for a model whose pieces are not the model's own: of the target, or an ensemble's source."""
    targets = [("a model of the ensemble", theirs.target) for theirs in ensemble]
    targets += [("the language model", language.target)] if language else []
    sources = [("a model of the ensemble", theirs.source) for theirs in ensemble]
    for mine, others in ((own.target, targets), (own.source, sources)):
        for name, theirs in others:
            if theirs.to_bytes() != mine.to_bytes():
                raise FolderError(
                    f"{name}: its pieces are not those of the model beside it; train both with one vocabulary "
                    '(text.kind = "given", text.path = the other run)'
                )
