"""Models that decode together with the translation model: ensemble members and a language model."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from calque.errors import ConfigError, FolderError
from calque.layers.shortlist import WordLists
from calque.models.language_model import LanguageModel
from calque.models.model import Model
from calque.objectives.decoding_step import decoding_step, language_step, listed_step
from calque.search.ensemble import ensemble as ensemble_step
from calque.search.ensemble import fused
from calque.search.fixed_beam import Runner
from calque.search.settings import SearchConfig
from calque.search.step import Step
from calque.tensors import Padded
from calque.text import BOS, UNK, Tokenizer, Tokenizers


class Ensemble(NamedTuple):
    """The models that decode together with the translation model: ensemble members and optionally a language model."""

    models: tuple[Model, ...] = ()
    language: LanguageModel | None = None
    language_start: int = BOS  # the token that the language model reads before a text

    def joined(self, added: "Ensemble") -> "Ensemble":
        """An ensemble with the members of this one and of `added`; raises a ConfigError for two language models."""
        if self.language is not None and added.language is not None:
            raise ConfigError(
                "this translator already has a language model; only one can be used, so leave out the second"
            )
        language = self if self.language is not None else added
        return Ensemble(self.models + added.models, language.language, language.language_start)


class Decoding(NamedTuple):
    """The function that performs a decoding step, with its initial state and its context (such as encoded sources)."""

    step: Step
    state: Any
    context: Any


def start_decoding(
    model: Model,
    source: Padded,
    *,
    ensemble: Ensemble,
    search: SearchConfig,
    attention: bool,
    lists: WordLists | None = None,
    indexed: bool = True,
) -> Decoding:
    """Encodes sources and returns the decoding step of the model, or the combined step of all models.

    The sources must be on the model's device. With `lists`, every model considers only the words of these lists.
    If `indexed`, states may be in a special format for fast decoding on a CPU, which interventions cannot read.
    """
    members = (model, *ensemble.models)
    started = [_start(member, source, attention=attention, lists=lists, indexed=indexed) for member in members]
    decoding = started[0]
    if ensemble.models:
        steps, states, contexts = zip(*started, strict=True)
        decoding = Decoding(ensemble_step(steps, mean=search.ensemble), states, contexts)
    if ensemble.language is None or not search.language_weight:
        return decoding
    language = ensemble.language
    fused_steps = [decoding.step, language_step(language, start=ensemble.language_start)]
    step = fused(fused_steps, weights=[1.0, search.language_weight], unknown=UNK)
    return Decoding(step, (decoding.state, language.start(len(source.lengths))), (decoding.context, ()))


def start_with_graphs(model: Model, source: Padded, *, graphs: Runner) -> Decoding:
    """Like `start_decoding`, for a single model whose steps are captured as CUDA graphs. The source may be on the CPU.

    The encoder is captured as a graph too, unless it needs the lengths of the sources on the CPU.
    """

    def start(values: Tensor, lengths: Tensor) -> tuple[Any, Any]:
        context = model.prepare(Padded(values, lengths))
        return model.start(context), context

    device = next(model.parameters()).device
    if model.encoder.needs_host_lengths:
        context = model.prepare(source.to(device))
        state = model.start(context)
    else:
        values, lengths = (part.to(device, non_blocking=True) for part in (source.values, source.lengths))
        state, context = graphs.call(start, "encode", values, lengths)
    return Decoding(decoding_step(model), state, context)


def _start(model: Model, source: Padded, *, attention: bool, lists: WordLists | None, indexed: bool) -> Decoding:
    context = model.prepare(source)
    state = model.start(context)
    if indexed and not attention:
        state = model.decoder.indexed(state)
    if lists is None:
        return Decoding(decoding_step(model, attention=attention), state, context)
    step, listed_context = listed_step(model, context, lists, attention=attention)
    return Decoding(step, state, listed_context)


def refuse_other_vocabularies(own: Tokenizers, *, ensemble: Sequence[Tokenizers], language: Tokenizer | None) -> None:
    """Raises a FolderError if a member's vocabularies differ from those of the translation model.

    A language model has only a target vocabulary.
    """
    targets = [("a model of the ensemble", tokenizers.target) for tokenizers in ensemble]
    targets += [("the language model", language)] if language else []
    sources = [("a model of the ensemble", tokenizers.source) for tokenizers in ensemble]
    for expected, members in ((own.target, targets), (own.source, sources)):
        for name, tokenizer in members:
            if tokenizer.to_bytes() != expected.to_bytes():
                raise FolderError(
                    f"the pieces of {name} differ from those of the translation model; train both with the same "
                    'vocabulary (text.kind = "given", text.path = the other run)'
                )
