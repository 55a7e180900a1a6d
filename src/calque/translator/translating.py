"""The translator: lines of text to translations, in batches, put back in order. Letters: B sentences, S source."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple, overload

import torch
from torch import Tensor

from calque.data.plan import BatchConfig
from calque.data.store import store_of
from calque.errors import ConfigError, TextError
from calque.evaluation.alignment import align, words_of
from calque.evaluation.confidence import Confidence
from calque.evaluation.oddities import oddities
from calque.evaluation.risk import minimum_risk
from calque.models.model import Model, ModelConfig
from calque.search.decode import Rules, decode
from calque.search.forbidden import Forbidden
from calque.search.settings import SearchConfig
from calque.search.step import Hypothesis
from calque.tasks.translation import mean_loss
from calque.text import EOS, UNK, Opened, Tokenizer, Tokenizers, normalise, open_source, open_target
from calque.text.scripts import as_bytes, begins_apart, is_unspaced
from calque.translator.answers import NOTHING, Candidate, Detail, Request, Scored, Translation, Wishes
from calque.translator.company import Company, begin, refuse_strangers
from calque.translator.reading import Answer, Reading, read_back
from calque.translator.steps import MARKS, pad_source

WINDOW = 2048  # sentences that are sorted by length together
NO_ANSWER = Hypothesis((), -math.inf, -math.inf, cut=True)  # where the rules leave nothing to say
SCORED = 64  # given translations that are read together


class Work(NamedTuple):
    """What is to be done with every line."""

    search: SearchConfig
    nbest: int
    wishes: Wishes
    forbidden: Forbidden | None
    first: int  # line of the window


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
        self.company = Company()
        self.confidence: Confidence | None = None

    def beside(self, ensemble: Sequence["Translator"] = (), *, language: "Translator | None" = None) -> "Translator":
        """The same translator with others at its side: their probabilities are averaged, a language model is added.

        All must have the same target pieces, and an ensemble the same source pieces too.
        """
        refuse_strangers(
            self.tokenizers,
            ensemble=[each.tokenizers for each in ensemble],
            language=language.tokenizers if language else None,
        )
        joined = Translator(self.model, self.tokenizers, config=self.config, search=self.search)
        own = language.model if language else None
        joined.confidence = self.confidence if not ensemble else None  # it is of this model's probabilities
        joined.company = Company(tuple(each.model for each in ensemble), own)
        return joined

    @property
    def is_language_model(self) -> bool:
        """Whether it knows no source."""
        return self.config.encoder.kind == "none"

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
        lines = [text] if isinstance(text, str) else list(text)
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
        wishes: Wishes = NOTHING,
        first: int = 0,
    ) -> Iterator[Translation]:
        """One translation for each line, in order; reads ahead one window of lines at the most.

        `wishes` hold for all of them. `first` is the number of the first line, which what is drawn depends on.
        """
        search = search or self.search
        _refuse_search(search, nbest=nbest, attends=self.model.decoder.attends)
        banned = self._forbid(wishes.forbidden) if wishes.forbidden else None
        requests = (Request(line) if isinstance(line, str) else line for line in lines)
        while window := list(islice(requests, WINDOW)):
            yield from self._window(window, Work(search, nbest, wishes, banned, first))
            first += len(window)

    def loss(self, sources: Sequence[str], targets: Sequence[str]) -> float:
        """The cross-entropy of given translations in nats a piece; its exponential is the perplexity."""
        if not sources or len(sources) != len(targets):
            raise TextError(f"{len(sources)} sources and {len(targets)} targets: each source needs its one target")
        target = self.tokenizers.target
        limit = self.search.source_limit
        longest = int(limit * self.search.maximum_ratio)
        opened = [each.shortened(limit, size=len(target.vocabulary)) for each in self._open(sources)]
        theirs = open_target(target, targets, sources=opened) if self.model.copies else target.encode_many(targets)
        ids = zip(opened, theirs, strict=True)
        pairs = [(one.ids, other[:longest]) for one, other in ids]  # no longer than what search would see
        return mean_loss(self.model, store_of(pairs), batch=BatchConfig())

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> Iterator[Scored]:
        """What the model makes of each given translation, in order; it agrees with what search would say of it."""
        target = self.tokenizers.target
        for start in range(0, len(sources), SCORED):
            limit, size = self.search.source_limit, len(target.vocabulary)
            opened = [each.shortened(limit, size=size) for each in self._open(sources[start : start + SCORED])]
            texts = targets[start : start + SCORED]
            ids = open_target(target, texts, sources=opened) if self.model.copies else target.encode_many(texts)
            with self._evaluating():
                found = read_back(self.model, [each.ids for each in opened], [[Answer(row)] for row in ids])
            for source, row, (reading,) in zip(opened, ids, found, strict=True):
                yield Scored(self._pieces(target, row, source.unknown), reading.log_probs)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """The model in evaluation mode, for a while."""
        was_training = self.model.training
        self.model.eval()
        try:
            yield
        finally:
            self.model.train(was_training)

    @torch.inference_mode()
    def _window(self, requests: Sequence[Request], work: Work) -> list[Translation]:
        """Sorted by length, cut into batches, decoded, and put back in order; empty lines stay empty."""
        search, lines = work.search, [request.text for request in requests]
        characters = 16 * search.source_limit  # bounds the work before anything is tokenised
        opened = self._open([line[:characters] for line in lines])
        encoded = [each.ids for each in opened]
        results = [Translation([Candidate("", 0.0, 0.0, cut=False)])] * len(lines)
        filled = [place for place, line in enumerate(lines) if line.strip() and encoded[place]]
        order = sorted(filled, key=lambda place: (-len(encoded[place]), place))
        with self._evaluating():
            for batch in _batches(order, [min(len(ids), search.source_limit) + 1 for ids in encoded], search=search):
                size = len(self.tokenizers.target.vocabulary)
                sources = [opened[place].shortened(search.source_limit, size=size) for place in batch]
                streams = [(search.seed << 32) + work.first + place for place in batch]
                rules = self._rules([requests[place] for place in batch], sources, work.forbidden)
                _refuse_rules(rules, search=search)
                found = self._decode(
                    [each.ids for each in sources], search=search, nbest=work.nbest, streams=streams, rules=rules
                )
                answers = self._answers(sources, found, work)
                for place, candidates in zip(batch, answers, strict=True):
                    cut = len(encoded[place]) > search.source_limit or len(lines[place]) > characters
                    results[place] = Translation(candidates, cut)
        return results

    def _decode(
        self, ids: list[list[int]], *, search: SearchConfig, nbest: int, streams: Sequence[int], rules: Rules
    ) -> list[list[Hypothesis]]:
        source = pad_source(ids).to(self.device)
        begun = begin(self.model, source, company=self.company, search=search, attention=search.coverage > 0)
        return decode(
            *begun,
            source_lengths=source.lengths.to(self.device),
            search=search,
            marks=MARKS,
            rules=rules,
            nbest=nbest,
            streams=torch.tensor(streams, device=self.device),
        )

    def _rules(self, requests: Sequence[Request], sources: Sequence[Opened], forbidden: Forbidden | None) -> Rules:
        """The wishes of a batch, in ids; words outside the vocabulary that a model copies have their numbers there."""
        target = self.tokenizers.target

        def ids(text: str, source: Opened) -> list[int]:
            return open_target(target, [text], sources=[source])[0] if self.model.copies else target.encode(text)

        both = list(zip(requests, sources, strict=True))
        prefixes = [ids(each.prefix, source) if each.prefix else [] for each, source in both]
        required = [[ids(phrase, source) for phrase in each.required if phrase] for each, source in both]
        follows = None
        if any(required):
            follows = torch.tensor([begins_apart(surface) for surface in target.surfaces()])
            follows[EOS] = True
            if any(map(is_unspaced, "".join(phrase for each in requests for phrase in each.required))):
                follows.fill_(True)
        if forbidden is not None and self.model.copies:
            spelled = [[target.surface(word) for word in source.unknown] for source in sources]
            forbidden = forbidden.beside([[as_bytes(each) for each in row] for row in spelled])
        return Rules(prefixes, required, follows, forbidden)

    def _forbid(self, words: Sequence[str]) -> Forbidden:
        return Forbidden([normalise(word) for word in words], surfaces=self.tokenizers.target.surfaces(), end=EOS)

    def _open(self, texts: Sequence[str]) -> list[Opened]:
        """Source ids; where the model can copy, words outside the vocabulary have numbers of their own."""
        source = self.tokenizers.source
        if self.model.copies:
            return open_source(source, texts)
        return [Opened(ids, (), text) for ids, text in zip(source.encode_many(texts), texts, strict=True)]

    def _answers(
        self, sources: Sequence[Opened], found: Sequence[list[Hypothesis]], work: Work
    ) -> list[list[Candidate]]:
        """The candidates of each source, with what was asked for about them."""
        found = [each or [NO_ANSWER] for each in found]
        readings: list[list[Reading]] | None = None
        if work.wishes.detail or work.wishes.replace_unknown is not None:
            answers = [[Answer(each.tokens, each.cut) for each in hypotheses] for hypotheses in found]
            readings = read_back(self.model, [source.ids for source in sources], answers)
        results = []
        for place, (source, hypotheses) in enumerate(zip(sources, found, strict=True)):
            own = readings[place] if readings else [None] * len(hypotheses)
            candidates = [
                self._candidate(each, source, reading=reading, wishes=work.wishes)
                for each, reading in zip(hypotheses, own, strict=True)
            ]
            results.append(_chosen(candidates, search=work.search, nbest=work.nbest))
        return results

    def _candidate(
        self, hypothesis: Hypothesis, source: Opened, *, reading: Reading | None, wishes: Wishes
    ) -> Candidate:
        pieces = self._pieces(self.tokenizers.target, hypothesis.tokens, source.unknown)
        if wishes.replace_unknown is not None and reading is not None and reading.attention is not None:
            pieces = self._replaced(pieces, hypothesis, source, reading.attention, wishes.replace_unknown)
        text = " ".join(self.tokenizers.target.detokenise(pieces).split("\n"))
        detail = self._detail(pieces, source, reading) if wishes.detail and reading is not None else None
        odd = oddities(source.ids, hypothesis.tokens)
        size = len(hypothesis.tokens) + (not hypothesis.cut)
        sure = self.confidence(hypothesis.log_prob / max(size, 1)) if self.confidence else None
        return Candidate(text, hypothesis.score, hypothesis.log_prob, hypothesis.cut, size, sure, odd, detail)

    def _detail(self, pieces: list[str], source: Opened, reading: Reading) -> Detail:
        """Pieces, what each cost, and where the model looked for it."""
        theirs = self._pieces(self.tokenizers.source, source.ids, source.unknown)
        links, looked = None, reading.attention
        if looked is not None:
            source_words = words_of([self.tokenizers.source.starts_word(piece) for piece in theirs])
            target_words = words_of([self.tokenizers.target.starts_word(piece) for piece in pieces])
            links = align(looked, source_words=source_words, target_words=target_words)
        return Detail(theirs, pieces, reading.log_probs, None if looked is None else looked.tolist(), links)

    def _replaced(
        self, pieces: list[str], hypothesis: Hypothesis, source: Opened, looked: Tensor, dictionary: Mapping[str, str]
    ) -> list[str]:
        """The pieces with unknown ones replaced by the source piece looked at most, or by its entry in a dictionary."""
        theirs = self.tokenizers.source.tokenise(source.text) if source.text else []
        replaced = list(pieces)
        for place, token in enumerate(hypothesis.tokens):
            if token == UNK and theirs:
                word = theirs[int(looked[place, : len(theirs)].argmax())]
                replaced[place] = dictionary.get(word, word)
        return replaced

    def _pieces(self, tokenizer: Tokenizer, ids: Sequence[int], unknown: Sequence[str]) -> list[str]:
        """The pieces of ids; numbers behind the vocabulary are the unknown ones."""
        size = len(tokenizer.vocabulary)
        return [tokenizer.vocabulary.piece(id) if id < size else unknown[id - size] for id in ids]


def _batches(order: Sequence[int], lengths: Sequence[int], *, search: SearchConfig) -> Iterator[list[int]]:
    """Places, longest first, cut so that a batch has at most `batch_tokens` padded source positions."""
    start = 0
    while start < len(order):
        count = max(1, search.batch_tokens // lengths[order[start]])
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


def _refuse_rules(rules: Rules, *, search: SearchConfig) -> None:
    """Raises an error for phrases that must appear where search could not see to it."""
    if any(rules.required) and (search.method != "beam" or search.groups > 1):
        way = f"method = {search.method!r}" if search.method != "beam" else f"groups = {search.groups}"
        raise ConfigError(f"phrases that must appear and search.{way} do not go together; use beam search, groups = 1")


def _chosen(candidates: list[Candidate], *, search: SearchConfig, nbest: int) -> list[Candidate]:
    """The candidates to give: by minimum Bayes risk, scored with their utility, where that was asked for."""
    if search.method != "risk":
        return candidates
    ranked = minimum_risk([each.text for each in candidates], utility=search.utility)
    best = {candidates[each.place].text: each for each in reversed(ranked)}  # each text once, by its first place
    order = sorted(best.values(), key=lambda each: (-each.utility, each.place))[:nbest]
    return [candidates[each.place]._replace(score=each.utility) for each in order]
