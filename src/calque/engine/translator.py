"""The translator: a translation model with its text settings, for use from Python."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

import torch

from calque.data.batching import BatchConfig
from calque.data.store import store_of_pairs
from calque.engine.argument_names import check_argument_names
from calque.engine.engine import Engine, lock_of
from calque.engine.ensemble import Ensemble, refuse_other_vocabularies
from calque.engine.forced_decoding import TargetTokens
from calque.engine.noisy_channel import Channel
from calque.engine.postprocessing import pieces_of
from calque.engine.sentence_vectors import EmbedsText, SourceReader
from calque.engine.text_generator import TextGenerator
from calque.engine.translation_models import TranslationModels
from calque.engine.types import Request, Scored, Translation
from calque.errors import CalqueError, ConfigError, TextError
from calque.evaluation.confidence import Confidence
from calque.layers.int8 import parameter_count
from calque.models.model import Model, ModelConfig
from calque.objectives.cross_entropy import mean_loss
from calque.search.fixed_beam import Runner
from calque.search.settings import SearchConfig, batch_positions
from calque.statistics.shortlist import Shortlist
from calque.text import Tokenizers
from calque.text.length_profile import LengthProfile

SCORED = 64  # given translations scored together


class Translator(EmbedsText):
    """A model that translates text.

    >>> translator = calque.load("runs/1")
    >>> translator.translate("今天天气很好。")
    'The weather is good today.'
    """

    def __init__(self, model: Model, tokenizers: Tokenizers, *, config: ModelConfig, search: SearchConfig) -> None:
        self.model = model
        self.tokenizers = tokenizers
        self.config = config
        self.search = search
        self.ensemble = Ensemble()
        self.confidence: Confidence | None = None
        self.length_profile: LengthProfile | None = None
        """The lengths of the model's training lines; None if the model was saved without them."""
        self.graphs: Runner | None = None
        """Search steps captured as CUDA graphs; None without an NVIDIA GPU and in float64."""
        self.shortlist: Shortlist | None = None
        """The words that a source is likely to be translated to; None unless `calque shortlist` has added them."""

    def with_ensemble(
        self, ensemble: Sequence["Translator"] = (), *, language: TextGenerator | None = None
    ) -> "Translator":
        """A copy of this translator with more ensemble members, whose probabilities are averaged, or a language model.

        Existing members are kept. All members need the same target vocabulary, and the translators the same source
        vocabulary.
        """
        if any(translator.ensemble != Ensemble() for translator in ensemble):
            raise ConfigError("a translator that is already an ensemble cannot join another; name all members at once")
        refuse_other_vocabularies(
            self.tokenizers,
            ensemble=[translator.tokenizers for translator in ensemble],
            language=language.tokenizer if language else None,
        )
        joined = Translator(self.model, self.tokenizers, config=self.config, search=self.search)
        added = Ensemble(tuple(translator.model for translator in ensemble))
        if language is not None:
            added = added._replace(language=language.model, language_start=language.start)
        joined.ensemble = self.ensemble.joined(added)
        joined.confidence = self.confidence if not ensemble else None  # calibrated on this model's probabilities alone
        joined.length_profile = self.length_profile
        tables = (translator.shortlist for translator in (self, *ensemble))
        joined.shortlist = next((table for table in tables if table is not None), None)  # all have the same pieces
        return joined

    def __repr__(self) -> str:
        parameters = parameter_count(self.model)
        members = len(self.ensemble.models)
        parts = [
            f"{self.config.encoder.kind} to {self.config.decoder.kind}",
            f"{parameters:,} parameters",
            *([f"an ensemble of {members + 1}"] if members else []),
            *(["a language model"] if self.ensemble.language is not None else []),
            str(self.device),
        ]
        return f"Translator({', '.join(parts)})"

    def engine(self, *, channel: Channel | None = None, poll: Callable[[], None] | None = None) -> Engine:
        """An engine that answers requests from any thread; one bad request never affects the others.

        A `channel` reranks the candidates of all requests. `poll` is called between the steps of search; an exception
        that it raises ends the search.
        """
        return Engine(self._models, channel=channel, poll=poll)

    @property
    def _models(self) -> TranslationModels:
        return TranslationModels(
            self.model,
            self.tokenizers,
            self.search,
            self.ensemble,
            self.confidence,
            self.length_profile,
            self.shortlist,
            self.graphs,
        )

    @property
    def attends(self) -> bool:
        """Whether any of the models has attention weights."""
        return self._models.attends

    @property
    def device(self) -> torch.device:
        return self._models.device

    @overload
    def translate(self, text: str, *, beam: int | None = None, nbest: None = None) -> str: ...
    @overload
    def translate(self, text: list[str], *, beam: int | None = None, nbest: None = None) -> list[str]: ...
    @overload
    def translate(self, text: str, *, beam: int | None = None, nbest: int) -> list[str]: ...
    @overload
    def translate(self, text: list[str], *, beam: int | None = None, nbest: int) -> list[list[str]]: ...
    @check_argument_names
    def translate(
        self, text: str | list[str], *, beam: int | None = None, nbest: int | None = None
    ) -> str | list[str] | list[list[str]]:
        """The translation of a string, or of each string in a list; with `nbest`, the n best translations of each.

        >>> translator.translate(["Guten Morgen!", "Danke."], beam=1)
        ['Good morning!', 'Thank you.']
        >>> translator.translate("Danke.", nbest=2)
        ['Thank you.', 'Thanks.']
        """
        lines = list(text) if isinstance(text, Iterable) and not isinstance(text, str) else [text]
        for line in lines:
            if not isinstance(line, str):
                raise TypeError(f"text must be a string or a list of strings; found {line!r:.80}")
        search = self.search if beam is None else self.search.model_copy(update={"beam": beam})
        results: list[Any] = [
            translation.text if nbest is None else [candidate.text for candidate in translation.candidates]
            for translation in self.stream(lines, search=search, nbest=nbest)
        ]
        return results[0] if isinstance(text, str) else results

    @check_argument_names
    def stream(
        self,
        requests: Iterable[str | Request],
        *,
        search: SearchConfig | None = None,
        nbest: int | None = None,
        first: int = 0,
        poll: Callable[[], None] | None = None,
    ) -> Iterator[Translation]:
        """One translation per request, in order; raises the error of the first request that fails.

        At most 2,048 requests are read ahead. `search` and `nbest` apply to requests that do not set their own;
        `first` is the number of the first request, on which sampling depends. `poll` is explained under `engine`, whose
        answers contain errors instead of raising them.

        >>> [translation.text for translation in translator.stream(["Guten Morgen!", Request("Danke.", prefix="Many")])]
        ['Good morning!', 'Many thanks.']
        """
        for answer in self.engine(poll=poll).answers(_complete(requests, search=search, nbest=nbest, first=first)):
            if isinstance(answer, CalqueError):
                raise answer
            yield answer

    def vector_reader(self) -> SourceReader:
        """The reader that `embed` uses: it reads texts with this model's encoder, not with those of an ensemble."""
        return SourceReader(self.model, self.tokenizers.source, limit=self.search.source_limit)

    def loss(self, sources: Sequence[str], targets: Sequence[str]) -> float:
        """The cross-entropy of given translations in nats per piece; its exponential is the perplexity.

        An ensemble scores with the probabilities of all its models, as in `score`.
        """
        if not sources or len(sources) != len(targets):
            raise TextError(
                f"found {len(sources)} sources and {len(targets)} targets; expected at least one source, and as many "
                "targets as sources"
            )
        if self.ensemble != Ensemble():
            scored = list(self.score(sources, targets))
            return -sum(pair.log_prob for pair in scored) / sum(len(pair.log_probs) for pair in scored)
        numbered = [source.numbered for source in self._models.encode_sources(sources, limit=self.search.source_limit)]
        encoded_targets = self._models.encode_targets(targets, numbered)
        pairs = [(source.ids, target.numbered.ids) for source, target in zip(numbered, encoded_targets, strict=True)]
        with lock_of(self.model):
            return mean_loss(self.model, store_of_pairs(pairs), batch=BatchConfig())

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> Iterator[Scored]:
        """The scores of given translations, in order; they agree with the scores of search.

        A line of white space counts as empty on either side; an empty translation is scored by its end alone.
        """
        target_tokenizer = self.tokenizers.target
        for start in range(0, len(sources), SCORED):
            encoded_sources = self._models.encode_sources(
                sources[start : start + SCORED], limit=self.search.source_limit
            )
            numbered = [source.numbered for source in encoded_sources]
            encoded_targets = self._models.encode_targets(targets[start : start + SCORED], numbered)
            lengths = [len(target.numbered.ids) + 1 for target in encoded_targets]
            order = sorted(range(len(numbered)), key=lambda place: (-lengths[place], place))
            results: dict[int, Scored] = {}
            for batch in _batches(order, lengths, budget=batch_positions(self.search, device=self.device)):
                rows = [encoded_targets[place].numbered.ids for place in batch]
                with lock_of(self.model), self.model.evaluating():
                    scores = self._models.force_decode(
                        [numbered[place].ids for place in batch],
                        [[TargetTokens(row)] for row in rows],
                        search=self.search,
                    )
                for place, row, (token_scores,) in zip(batch, rows, scores, strict=True):
                    pieces = pieces_of(target_tokenizer, row, numbered[place].unknown)
                    is_cut = encoded_sources[place].cut or encoded_targets[place].cut
                    results[place] = Scored(pieces, token_scores.log_probs, is_cut)
            yield from (results[place] for place in range(len(numbered)))


def _complete(
    requests: Iterable[str | Request], *, search: SearchConfig | None, nbest: int | None, first: int
) -> Iterator[Request]:
    """Completes requests with line numbers, search settings and `nbest` where they have none of their own."""
    for line, request in enumerate(requests, start=first):
        complete = Request(request) if isinstance(request, str) else request
        yield complete._replace(
            search=search if complete.search is None else complete.search,
            nbest=nbest if complete.nbest is None else complete.nbest,
            line=line if complete.line is None else complete.line,
        )


def _batches(order: Sequence[int], lengths: Sequence[int], *, budget: int) -> Iterator[list[int]]:
    """Batches of the indices in `order` (longest text first), each with at most `budget` padded positions."""
    start = 0
    while start < len(order):
        count = max(1, budget // lengths[order[start]])
        yield list(order[start : start + count])
        start += count
