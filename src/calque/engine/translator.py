"""The translator: lines of text to translations, in batches, put back in order."""

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
from calque.engine.forced_decoding import Answer, Reading, read_along, read_back
from calque.engine.postprocessing import Postprocessor, pieces_of
from calque.engine.sampling_seeds import NumberedRequest, placed, streams
from calque.engine.text_generator import TextGenerator
from calque.engine.truncation import Truncated, truncate
from calque.engine.types import NOTHING, OutputOptions, Request, Scored, Translation, answer_to_nothing
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

WINDOW = 2048  # sentences that are sorted by length together
SCORED = 64  # given translations that are read together
USUAL = 5  # hypotheses a sentence for which a batch has all of its budget


class Work(NamedTuple):
    """What is to be done with every line."""

    search: SearchConfig
    nbest: int
    options: OutputOptions
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
        """How long the lines are that it has learnt from; not known of a model that was kept without it."""

    def with_ensemble(
        self, ensemble: Sequence["Translator"] = (), *, language: TextGenerator | None = None
    ) -> "Translator":
        """The same translator in an ensemble: the models' probabilities are averaged, a language model's are added.

        Members that it has already stay. All must have the same target pieces, and the translators the same source
        pieces too.
        """
        if any(translator.ensemble != Ensemble() for translator in ensemble):
            raise ConfigError("a model that is an ensemble already cannot join another; name all members at once")
        refuse_other_vocabularies(
            self.tokenizers,
            ensemble=[translator.tokenizers for translator in ensemble],
            language=language.tokenizer if language else None,
        )
        joined = Translator(self.model, self.tokenizers, config=self.config, search=self.search)
        more = Ensemble(tuple(translator.model for translator in ensemble), language.model if language else None)
        joined.ensemble = self.ensemble.joined(more)
        joined.confidence = self.confidence if not ensemble else None  # it is of this model's probabilities
        joined.length_profile = self.length_profile
        return joined

    @property
    def attends(self) -> bool:
        """Whether it can say where it looked."""
        return any(each.decoder.attends for each in (self.model, *self.ensemble.models))

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
        """The translation of a string, or of each string of a list; with `nbest` a list of the best for each."""
        lines = list(text) if isinstance(text, Iterable) and not isinstance(text, str) else [text]
        for line in lines:
            if not isinstance(line, str):
                raise TypeError(f"text must be a string or a list of strings; {line!r:.80} is none")
        search = self.search if beam is None else self.search.model_copy(update={"beam": beam})
        found = list(self.stream(lines, search=search, nbest=1 if nbest is None else nbest))
        results: list[Any] = [one.text if nbest is None else [each.text for each in one.candidates] for one in found]
        return results[0] if isinstance(text, str) else results

    def stream(
        self,
        lines: Iterable[str | Request],
        *,
        search: SearchConfig | None = None,
        nbest: int = 1,
        options: OutputOptions = NOTHING,
        first: int = 0,
    ) -> Iterator[Translation]:
        """One translation for each line, in order; reads ahead one window of lines at the most.

        `options` hold for all of them. `first` is the number of the first line, which random draws depend on;
        parts of one line share its number.
        """
        search = search or self.search
        _refuse_search(search, nbest=nbest, attends=self.model.decoder.attends)
        banned = forbidden_words(options.forbidden, target=self.tokenizers.target)
        requests = placed((Request(line) if isinstance(line, str) else line for line in lines), first=first)
        while window := list(islice(requests, WINDOW)):
            yield from self._window(window, Work(search, nbest, options, banned))

    def loss(self, sources: Sequence[str], targets: Sequence[str]) -> float:
        """The cross-entropy of given translations in nats a piece; its exponential is the perplexity.

        With others at its side it is what all say together, as in `score`.
        """
        if not sources or len(sources) != len(targets):
            raise TextError(f"{len(sources)} sources and {len(targets)} targets: each source needs its one target")
        if self.ensemble != Ensemble():
            scored = list(self.score(sources, targets))
            return -sum(each.log_prob for each in scored) / sum(len(each.log_probs) for each in scored)
        opened = [each.opened for each in self._begin(sources, limit=self.search.source_limit)]
        theirs = [each.opened for each in self._begin_targets(targets, opened)]
        pairs = [(one.ids, other.ids) for one, other in zip(opened, theirs, strict=True)]
        return mean_loss(self.model, store_of_pairs(pairs), batch=BatchConfig())

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> Iterator[Scored]:
        """What the model makes of each given translation, in order; it agrees with what search would say of it.

        White space alone is nothing, on either side: a translation of no pieces, of which the end alone costs.
        """
        target = self.tokenizers.target
        for start in range(0, len(sources), SCORED):
            decoding = self._begin(sources[start : start + SCORED], limit=self.search.source_limit)
            opened = [each.opened for each in decoding]
            theirs = self._begin_targets(targets[start : start + SCORED], opened)
            lengths = [len(each.opened.ids) + 1 for each in theirs]
            order = sorted(range(len(decoding)), key=lambda place: (-lengths[place], place))
            results: dict[int, Scored] = {}
            for batch in _batches(order, lengths, budget=self.search.batch_tokens):
                rows = [theirs[place].opened.ids for place in batch]
                with self.model.evaluating():
                    answers = [[Answer(row)] for row in rows]
                    found = self._read([opened[place].ids for place in batch], answers, search=self.search)
                for place, row, (reading,) in zip(batch, rows, found, strict=True):
                    pieces = pieces_of(target, row, opened[place].unknown)
                    results[place] = Scored(pieces, reading.log_probs, decoding[place].cut or theirs[place].cut)
            yield from (results[place] for place in range(len(decoding)))

    @torch.inference_mode()
    def _window(self, window: Sequence[NumberedRequest], work: Work) -> list[Translation]:
        """Sorted by length, cut into batches, decoded, and put back in order; empty lines stay empty."""
        search, requests = work.search, [each.request for each in window]
        lines = [request.text for request in requests]
        decoding = self._begin(lines, limit=search.source_limit)
        opened = [each.opened for each in decoding]
        encoded = [each.ids for each in opened]
        nothing = partial(answer_to_nothing, detail=work.options.detail, attends=self.attends)
        results = [nothing(missing_phrase=bool(request.required)) for request in requests]
        filled = [place for place, line in enumerate(lines) if line.strip() and encoded[place]]
        order = sorted(filled, key=lambda place: (-len(encoded[place]), place))
        for place in filled:
            refuse_lengths(requests[place], opened[place], search=search)
        sure = self.confidence if search.method == "beam" else None  # what is drawn is not what it was measured on
        own = partial(read_back, self.model) if self.ensemble.language is not None else None
        postprocessor = Postprocessor(partial(self._read, search=search), self.tokenizers, work.forbidden, sure, own)
        budget = budget_of(search, nbest=work.nbest)
        with self.model.evaluating():
            for batch in _batches(order, [len(ids) + 1 for ids in encoded], budget=budget):
                sources = [opened[place] for place in batch]
                numbers = streams([window[place] for place in batch], seed=search.seed)
                rules = rules_of(
                    [requests[place] for place in batch],
                    sources,
                    target=self.tokenizers.target,
                    copies=self.model.copies,
                    forbidden=work.forbidden,
                )
                found = self._decode(
                    [each.ids for each in sources], search=search, nbest=work.nbest, streams=numbers, rules=rules
                )
                answers = postprocessor.candidates(
                    sources, found, search=search, nbest=work.nbest, options=work.options
                )
                for place, candidates in zip(batch, answers, strict=True):
                    results[place] = Translation(candidates, decoding[place].cut)
        return results

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

    def _read(
        self, sources: Sequence[Sequence[int]], answers: Sequence[Sequence[Answer]], *, search: SearchConfig
    ) -> list[list[Reading]]:
        """What the model, or all models together, make of answers to each source."""
        if self.ensemble == Ensemble():
            return read_back(self.model, sources, answers)
        source = pad_source(sources).to(self.device)
        decoding = start_decoding(self.model, source, ensemble=self.ensemble, search=search, attention=True)
        return read_along(decoding, answers, lengths=source.lengths.to(self.device))

    def _begin(self, texts: Sequence[str], *, limit: int) -> list[Truncated]:
        """The first source ids; where the model can copy, words outside the vocabulary have numbers of their own."""
        source, size = self.tokenizers.source, len(self.tokenizers.target.vocabulary)
        read = partial(number_source, source) if self.model.copies else partial(_opened, source)
        return truncate(_emptied(texts), limit=limit, size=size, read=read)

    def _begin_targets(self, texts: Sequence[str], sources: Sequence[NumberedText]) -> list[Truncated]:
        """The first target ids, as many as search gives at the most; words that its source has can have numbers."""
        target, limit = self.tokenizers.target, max(self.search.most, 2 * self.search.source_limit)
        decoding = truncate(_emptied(texts), limit=limit, size=len(target.vocabulary), read=partial(_opened, target))
        if not self.model.copies:
            return decoding
        read = number_target(target, [each.opened.text for each in decoding], sources=sources)
        return [each._replace(opened=NumberedText(ids[:limit], ())) for each, ids in zip(decoding, read, strict=True)]


def _emptied(texts: Sequence[str]) -> list[str]:
    """The texts, those of white space alone as empty ones: training never learns from such, and nobody sees them."""
    return ["" if text.isspace() else text for text in texts]


def _opened(tokenizer: Tokenizer, texts: Sequence[str]) -> list[NumberedText]:
    return [NumberedText(ids, (), text) for ids, text in zip(tokenizer.encode_many(texts), texts, strict=True)]


def budget_of(search: SearchConfig, *, nbest: int) -> int:
    """How many padded source positions fit in a batch: memory grows with the hypotheses that a sentence has."""
    hypotheses = {"beam": search.beam, "sample": nbest, "risk": search.samples}[search.method]
    return search.batch_tokens * USUAL // max(USUAL, hypotheses)


def _batches(order: Sequence[int], lengths: Sequence[int], *, budget: int) -> Iterator[list[int]]:
    """Places, longest first, cut so that a batch has at most so many padded positions."""
    start = 0
    while start < len(order):
        count = max(1, budget // lengths[order[start]])
        yield list(order[start : start + count])
        start += count


def _refuse_search(search: SearchConfig, *, nbest: int, attends: bool) -> None:
    """Raises an error for what search cannot do: more answers than it will have, coverage where nothing looks."""
    if search.coverage > 0 and not attends:
        raise ConfigError(
            "search.coverage needs a model with attention, and this one has none; set search.coverage = 0"
        )
    most = {"beam": search.beam, "sample": nbest, "risk": search.samples}[search.method]
    if not 1 <= nbest <= most:
        key = "samples" if search.method == "risk" else "beam"
        raise TextError(f"nbest is {nbest} and {key} is {most}: nbest must be 1 or more, and {key} no less")
