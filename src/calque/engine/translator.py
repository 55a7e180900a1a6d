"""The translator: translates lines of text in batches sorted by length, and returns them in order."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, overload

import torch
from torch import Tensor

from calque.data.batching import BatchConfig
from calque.data.store import store_of_pairs
from calque.engine.constraints import forbidden_words, refuse_lengths, rules_of
from calque.engine.ensemble import Ensemble, refuse_other_vocabularies, start_decoding
from calque.engine.forced_decoding import TargetTokens, TokenScores, force_decode, force_decode_stepwise
from calque.engine.postprocessing import Postprocessor, pieces_of
from calque.engine.sampling_seeds import NumberedRequest, number_requests, streams
from calque.engine.text_generator import TextGenerator
from calque.engine.truncation import Truncated, truncate
from calque.engine.types import DEFAULT_OPTIONS, OutputOptions, Request, Scored, Translation, empty_translation
from calque.errors import ConfigError, TextError
from calque.evaluation.confidence import Confidence
from calque.models.model import Model, ModelConfig
from calque.objectives.cross_entropy import mean_loss
from calque.objectives.decoding_step import MARKS, pad_source
from calque.search.decode import Rules, decode
from calque.search.forbidden_words import Forbidden
from calque.search.settings import SearchConfig
from calque.search.step import Hypothesis
from calque.text import NumberedText, Tokenizer, Tokenizers, number_source, number_target
from calque.text.splitting import LengthProfile

WINDOW = 2048  # sentences sorted by length together
SCORED = 64  # given translations scored together
FULL_BATCH_BEAM = 5  # hypotheses per sentence up to which a batch has all of its budget


class DecodingOptions(NamedTuple):
    """Search and output options that apply to every line."""

    search: SearchConfig
    nbest: int
    output: OutputOptions
    forbidden: Forbidden | None


class Translator:
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
        """The lengths of its training lines; None for a model that was saved without them."""

    def with_ensemble(
        self, ensemble: Sequence["Translator"] = (), *, language: TextGenerator | None = None
    ) -> "Translator":
        """This translator with further ensemble members, whose probabilities are averaged, or with a language model.

        Existing members stay. All members need the same target vocabulary, and the translators the same source
        vocabulary.
        """
        if any(translator.ensemble != Ensemble() for translator in ensemble):
            raise ConfigError("a translator that is an ensemble already cannot join another; name all members at once")
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
        return joined

    @property
    def attends(self) -> bool:
        """Whether any of the models has attention weights."""
        return any(model.decoder.attends for model in (self.model, *self.ensemble.models))

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @overload
    def translate(self, text: str, *, beam: int | None = None, nbest: None = None) -> str: ...
    @overload
    def translate(self, text: list[str], *, beam: int | None = None, nbest: None = None) -> list[str]: ...
    @overload
    def translate(self, text: str, *, beam: int | None = None, nbest: int) -> list[str]: ...
    @overload
    def translate(self, text: list[str], *, beam: int | None = None, nbest: int) -> list[list[str]]: ...
    def translate(
        self, text: str | list[str], *, beam: int | None = None, nbest: int | None = None
    ) -> str | list[str] | list[list[str]]:
        """The translation of a string, or of each string of a list; with `nbest`, the n best translations of each."""
        lines = list(text) if isinstance(text, Iterable) and not isinstance(text, str) else [text]
        for line in lines:
            if not isinstance(line, str):
                raise TypeError(f"text must be a string or a list of strings; found {line!r:.80}")
        search = self.search if beam is None else self.search.model_copy(update={"beam": beam})
        results: list[Any] = [
            translation.text if nbest is None else [candidate.text for candidate in translation.candidates]
            for translation in self.stream(lines, search=search, nbest=1 if nbest is None else nbest)
        ]
        return results[0] if isinstance(text, str) else results

    def stream(
        self,
        lines: Iterable[str | Request],
        *,
        search: SearchConfig | None = None,
        nbest: int = 1,
        options: OutputOptions = DEFAULT_OPTIONS,
        first: int = 0,
    ) -> Iterator[Translation]:
        """One translation per line, in order; reads ahead by at most one window of lines.

        `options` apply to all lines. `first` is the number of the first line, on which sampling depends; the parts of
        a line share its number.
        """
        search = search or self.search
        _refuse_search(search, nbest=nbest, attends=self.model.decoder.attends)
        forbidden = forbidden_words(options.forbidden, target=self.tokenizers.target)
        requests = number_requests((Request(line) if isinstance(line, str) else line for line in lines), first=first)
        while window := list(islice(requests, WINDOW)):
            yield from self._translate_window(window, DecodingOptions(search, nbest, options, forbidden))

    def loss(self, sources: Sequence[str], targets: Sequence[str]) -> float:
        """The cross-entropy of given translations in nats per piece; its exponential is the perplexity.

        An ensemble scores with the probabilities of all its models, as in `score`.
        """
        if not sources or len(sources) != len(targets):
            raise TextError(f"{len(sources)} sources and {len(targets)} targets: each source needs one target")
        if self.ensemble != Ensemble():
            scored = list(self.score(sources, targets))
            return -sum(pair.log_prob for pair in scored) / sum(len(pair.log_probs) for pair in scored)
        numbered = [source.numbered for source in self._encode_sources(sources, limit=self.search.source_limit)]
        encoded_targets = self._encode_targets(targets, numbered)
        pairs = [(source.ids, target.numbered.ids) for source, target in zip(numbered, encoded_targets, strict=True)]
        return mean_loss(self.model, store_of_pairs(pairs), batch=BatchConfig())

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> Iterator[Scored]:
        """The scores of given translations, in order; they agree with the scores of search.

        A line of white space counts as empty on either side: a translation without pieces, scored by its end alone.
        """
        target_tokenizer = self.tokenizers.target
        for start in range(0, len(sources), SCORED):
            encoded_sources = self._encode_sources(sources[start : start + SCORED], limit=self.search.source_limit)
            numbered = [source.numbered for source in encoded_sources]
            encoded_targets = self._encode_targets(targets[start : start + SCORED], numbered)
            lengths = [len(target.numbered.ids) + 1 for target in encoded_targets]
            order = sorted(range(len(numbered)), key=lambda place: (-lengths[place], place))
            results: dict[int, Scored] = {}
            for batch in _batches(order, lengths, budget=self.search.batch_tokens):
                rows = [encoded_targets[place].numbered.ids for place in batch]
                with self.model.evaluating():
                    scores = self._force_decode(
                        [numbered[place].ids for place in batch],
                        [[TargetTokens(row)] for row in rows],
                        search=self.search,
                    )
                for place, row, (token_scores,) in zip(batch, rows, scores, strict=True):
                    pieces = pieces_of(target_tokenizer, row, numbered[place].unknown)
                    is_cut = encoded_sources[place].cut or encoded_targets[place].cut
                    results[place] = Scored(pieces, token_scores.log_probs, is_cut)
            yield from (results[place] for place in range(len(numbered)))

    @torch.inference_mode()
    def _translate_window(self, window: Sequence[NumberedRequest], options: DecodingOptions) -> list[Translation]:
        """Sorts by length, cuts into batches, decodes, and restores the order; empty lines stay empty."""
        search, requests = options.search, [numbered.request for numbered in window]
        lines = [request.text for request in requests]
        truncated = self._encode_sources(lines, limit=search.source_limit)
        encoded = [source.numbered for source in truncated]
        empty = partial(empty_translation, detail=options.output.detail, attends=self.attends)
        results = [empty(missing_phrase=bool(request.required)) for request in requests]
        nonempty = [place for place, line in enumerate(lines) if line.strip() and encoded[place].ids]
        order = sorted(nonempty, key=lambda place: (-len(encoded[place].ids), place))
        for place in nonempty:
            refuse_lengths(requests[place], encoded[place], search=search)
        postprocessor = self._postprocessor(options)
        budget = budget_of(search, nbest=options.nbest)
        with self.model.evaluating():
            for batch in _batches(order, [len(source.ids) + 1 for source in encoded], budget=budget):
                sources = [encoded[place] for place in batch]
                rules = rules_of(
                    [requests[place] for place in batch],
                    sources,
                    target=self.tokenizers.target,
                    copies=self.model.copies,
                    forbidden=options.forbidden,
                )
                hypotheses = self._decode(
                    [source.ids for source in sources],
                    search=search,
                    nbest=options.nbest,
                    streams=streams([window[place] for place in batch], seed=search.seed),
                    rules=rules,
                )
                candidates = postprocessor.candidates(
                    sources, hypotheses, search=search, nbest=options.nbest, options=options.output
                )
                for place, ranked in zip(batch, candidates, strict=True):
                    results[place] = Translation(ranked, truncated[place].cut)
        return results

    def _postprocessor(self, options: DecodingOptions) -> Postprocessor:
        # confidence is calibrated on beam search, not on samples
        confidence = self.confidence if options.search.method == "beam" else None
        alone = partial(force_decode, self.model) if self.ensemble.language is not None else None
        decoder = partial(self._force_decode, search=options.search)
        return Postprocessor(decoder, self.tokenizers, options.forbidden, confidence, alone)

    def _decode(
        self, ids: list[list[int]], *, search: SearchConfig, nbest: int, streams: Tensor, rules: Rules
    ) -> list[list[Hypothesis]]:
        source = pad_source(ids).to(self.device)
        decoding = start_decoding(
            self.model, source, ensemble=self.ensemble, search=search, attention=search.coverage > 0
        )
        return decode(
            *decoding,
            source_lengths=source.lengths.to(self.device),
            search=search,
            marks=MARKS,
            rules=rules,
            nbest=nbest,
            streams=streams.to(self.device),
        )

    def _force_decode(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[TargetTokens]], *, search: SearchConfig
    ) -> list[list[TokenScores]]:
        """Forced decoding with the model, or with all models of the ensemble."""
        if self.ensemble == Ensemble():
            return force_decode(self.model, sources, targets)
        source = pad_source(sources).to(self.device)
        decoding = start_decoding(self.model, source, ensemble=self.ensemble, search=search, attention=True)
        return force_decode_stepwise(decoding, targets, lengths=source.lengths.to(self.device))

    def _encode_sources(self, texts: Sequence[str], *, limit: int) -> list[Truncated]:
        """The first `limit` source ids; if the model can copy, unknown words have ids beyond the vocabulary."""
        source, size = self.tokenizers.source, len(self.tokenizers.target.vocabulary)
        read = partial(number_source, source) if self.model.copies else partial(_encode, source)
        return truncate(_without_blanks(texts), limit=limit, size=size, read=read)

    def _encode_targets(self, texts: Sequence[str], sources: Sequence[NumberedText]) -> list[Truncated]:
        """The first target ids, up to the maximum length of search; words that can be copied have their copy ids."""
        target, limit = self.tokenizers.target, max(self.search.most, 2 * self.search.source_limit)
        size = len(target.vocabulary)
        truncated = truncate(_without_blanks(texts), limit=limit, size=size, read=partial(_encode, target))
        if not self.model.copies:
            return truncated
        copy_ids = number_target(target, [text.numbered.text for text in truncated], sources=sources)
        return [
            text._replace(numbered=NumberedText(ids[:limit], ())) for text, ids in zip(truncated, copy_ids, strict=True)
        ]


def _without_blanks(texts: Sequence[str]) -> list[str]:
    """The texts, with lines of white space emptied: they do not occur in training."""
    return ["" if text.isspace() else text for text in texts]


def _encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[NumberedText]:
    return [NumberedText(ids, (), text) for ids, text in zip(tokenizer.encode_many(texts), texts, strict=True)]


def budget_of(search: SearchConfig, *, nbest: int) -> int:
    """The number of padded source positions in a batch; memory grows with the hypotheses per sentence."""
    hypotheses = {"beam": search.beam, "sample": nbest, "risk": search.samples}[search.method]
    return search.batch_tokens * FULL_BATCH_BEAM // max(FULL_BATCH_BEAM, hypotheses)


def _batches(order: Sequence[int], lengths: Sequence[int], *, budget: int) -> Iterator[list[int]]:
    """Batches of places, longest first, each with at most `budget` padded positions."""
    start = 0
    while start < len(order):
        count = max(1, budget // lengths[order[start]])
        yield list(order[start : start + count])
        start += count


def _refuse_search(search: SearchConfig, *, nbest: int, attends: bool) -> None:
    """Raises an error for settings that search cannot follow: nbest over the beam, coverage without attention."""
    if search.coverage > 0 and not attends:
        raise ConfigError(
            "search.coverage needs a model with attention, but this one has none; set search.coverage = 0"
        )
    most = {"beam": search.beam, "sample": nbest, "risk": search.samples}[search.method]
    if not 1 <= nbest <= most:
        key = "samples" if search.method == "risk" else "beam"
        raise TextError(f"nbest is {nbest} and {key} is {most}: nbest must be between 1 and {key}")
