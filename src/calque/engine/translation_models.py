"""The models that translate together, and the encoding of texts into the ids that they read."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch

from calque.engine.ensemble import Ensemble, start_decoding
from calque.engine.forced_decoding import TargetTokens, TokenScores, force_decode, force_decode_stepwise
from calque.engine.truncation import Truncated, truncate
from calque.evaluation.confidence import Confidence
from calque.models.model import Model
from calque.objectives.decoding_step import pad_source
from calque.search.fixed_beam import Runner
from calque.search.settings import SearchConfig
from calque.statistics.shortlist import Shortlist
from calque.text import NumberedText, Tokenizer, Tokenizers, number_source, number_target
from calque.text.length_profile import LengthProfile


class TranslationModels(NamedTuple):
    """A translation model and the models that decode together with it, with their tokenizers and search settings."""

    model: Model
    tokenizers: Tokenizers
    search: SearchConfig  # the settings of requests that have none
    ensemble: Ensemble = Ensemble()
    confidence: Confidence | None = None
    length_profile: LengthProfile | None = None
    shortlist: Shortlist | None = None
    graphs: Runner | None = None  # on a GPU: search replays its steps

    @property
    def attends(self) -> bool:
        """Whether any of the models has attention weights."""
        return any(model.decoder.attends for model in (self.model, *self.ensemble.models))

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def encode_sources(self, texts: Sequence[str], *, limit: int) -> list[Truncated]:
        """The first `limit` ids of each source; if the model can copy, unknown words have ids beyond the vocabulary."""
        source, size = self.tokenizers.source, len(self.tokenizers.target.vocabulary)
        read = partial(number_source, source) if self.model.copies else partial(_encode, source)
        return truncate(_without_blanks(texts), limit=limit, size=size, read=read)

    def encode_targets(self, texts: Sequence[str], sources: Sequence[NumberedText]) -> list[Truncated]:
        """The ids of each target text. Only a text longer than any translation that search generates is truncated.

        Words that the model can copy from the source have the ids of copies, which may lie beyond the vocabulary.
        """
        target, limit = self.tokenizers.target, max(self.search.most, 2 * self.search.source_limit)
        size = len(target.vocabulary)
        truncated = truncate(_without_blanks(texts), limit=limit, size=size, read=partial(_encode, target))
        if not self.model.copies:
            return truncated
        copy_ids = number_target(target, [text.numbered.text for text in truncated], sources=sources)
        return [
            text._replace(numbered=NumberedText(ids[:limit], ())) for text, ids in zip(truncated, copy_ids, strict=True)
        ]

    def force_decode(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[TargetTokens]], *, search: SearchConfig
    ) -> list[list[TokenScores]]:
        """Forced decoding with the model, or with all models of the ensemble."""
        if self.ensemble == Ensemble():
            return force_decode(self.model, sources, targets)
        source = pad_source(sources).to(self.device)
        decoding = start_decoding(self.model, source, ensemble=self.ensemble, search=search, attention=True)
        return force_decode_stepwise(decoding, targets, lengths=source.lengths.to(self.device))


def _without_blanks(texts: Sequence[str]) -> list[str]:
    """The texts, of which those that contain only white space are replaced by empty texts."""
    return ["" if text.isspace() else text for text in texts]


def _encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[NumberedText]:
    return [NumberedText(ids, (), text) for ids, text in zip(tokenizer.encode_many(texts), texts, strict=True)]
