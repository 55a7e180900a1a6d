"""The translator for statistical models of words or phrases; its interface is that of the neural translator."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, overload

import numpy as np
import torch

from calque.data.store import Array
from calque.engine.argument_names import check_argument_names
from calque.engine.splitting import join, split_request
from calque.engine.types import Answer, Candidate, Detail, Request, Translation, empty_translation
from calque.errors import CalqueError, ConfigError, DeadlineError, TextError
from calque.layers.int8 import parameter_count
from calque.models.phrase_based import PhraseBasedConfig, PhraseSearchConfig, PhraseTables
from calque.search.settings import SearchConfig
from calque.statistics.casing import capitalised, is_capitalised
from calque.statistics.phrase_model import Derivation, PhraseModel, Step
from calque.statistics.stack_decoder import StackDecoder, StackSearch
from calque.text import UNK, Tokenizers

TRIED = 50  # derivations examined per distinct translation of an n-best list


class Source(NamedTuple):
    """A source text as the model reads it."""

    pieces: list[str]
    ids: Array  # beyond the vocabulary for unknown words
    capitalised: bool
    cut: bool = False


class PhraseTranslator:
    """A statistical model that translates text.

    >>> translator = calque.load("runs/koehn2003")
    >>> translator.translate("A man sleeps.")
    'Ein Mann schläft.'
    """

    def __init__(
        self, model: PhraseTables, phrases: PhraseModel, tokenizers: Tokenizers, *, config: PhraseBasedConfig
    ) -> None:
        self.model = model
        self.phrases = phrases
        self.tokenizers = tokenizers
        self.config = config
        self.search = SearchConfig(source_limit=config.search.source_limit)
        """Only `source_limit` has an effect; the limits of stack decoding are in the model's config."""
        self.device = torch.device("cpu")
        self._forms = _Forms(model, tokenizers) if config.case != "keep" else None
        self._decoder = StackDecoder(phrases, stack_search(config.search))

    def __repr__(self) -> str:
        return f"PhraseTranslator({self.config.units}, {parameter_count(self.model):,} values)"

    def with_search(self, search: PhraseSearchConfig) -> "PhraseTranslator":
        """A copy of this translator with other search limits."""
        config = self.config.model_copy(update={"search": search})
        return PhraseTranslator(self.model, self.phrases, self.tokenizers, config=config)

    def with_phrases(self, phrases: PhraseModel) -> "PhraseTranslator":
        """A copy of this translator with another log-linear model, such as one with tuned weights."""
        return PhraseTranslator(self.model, phrases, self.tokenizers, config=self.config)

    def engine(self, *, poll: Callable[[], None] | None = None) -> "PhraseEngine":
        """An engine that answers each request with a translation or an error. `poll` is called during search."""
        return PhraseEngine(self, poll=poll)

    @overload
    def translate(self, text: str, *, nbest: None = None) -> str: ...
    @overload
    def translate(self, text: list[str], *, nbest: None = None) -> list[str]: ...
    @overload
    def translate(self, text: str, *, nbest: int) -> list[str]: ...
    @overload
    def translate(self, text: list[str], *, nbest: int) -> list[list[str]]: ...
    @check_argument_names
    def translate(self, text: str | list[str], *, nbest: int | None = None) -> str | list[str] | list[list[str]]:
        """The translation of a string, or of each string in a list; with `nbest`, the n best translations of each.

        >>> translator.translate(["A man sleeps.", "Thanks."])
        ['Ein Mann schläft.', 'Danke.']
        """
        lines = [text] if isinstance(text, str) else list(text)
        for line in lines:
            if not isinstance(line, str):
                raise TypeError(f"text must be a string or a list of strings; found {line!r:.80}")
        results: list[Any] = [
            translation.text if nbest is None else [candidate.text for candidate in translation.candidates]
            for translation in self.stream(lines, nbest=nbest)
        ]
        return results[0] if isinstance(text, str) else results

    @check_argument_names
    def stream(
        self,
        requests: Iterable[str | Request],
        *,
        search: SearchConfig | None = None,
        nbest: int | None = None,
        poll: Callable[[], None] | None = None,
    ) -> Iterator[Translation]:
        """One translation per request, in order; raises the error of the first request that fails.

        `search` must be None or the translator's own `search`, as the settings of neural search do not apply.
        """
        complete = (Request(request) if isinstance(request, str) else request for request in requests)
        completed = (
            request._replace(search=request.search or search, nbest=nbest if request.nbest is None else request.nbest)
            for request in complete
        )
        for answer in self.engine(poll=poll).answers(completed):
            if isinstance(answer, CalqueError):
                raise answer
            yield answer

    def read(self, text: str) -> Source:
        """The pieces and ids of a text."""
        tokenizer = self.tokenizers.source
        pieces = tokenizer.tokenise(text)
        limit = self.config.search.source_limit
        kept = pieces[:limit]
        ids = np.array(tokenizer.vocabulary.ids(kept), dtype=np.int64)
        if self._forms is not None:
            ids = self._forms.read(kept, ids, everywhere=self.config.case == "lowercase")
        ids[ids == UNK] = len(tokenizer.vocabulary)
        return Source(kept, ids, is_capitalised("".join(kept[:1])), len(pieces) > limit)

    def derivations(
        self, source: Source, *, nbest: int = 1, poll: Callable[[], None] | None = None
    ) -> list[tuple[str, Derivation]]:
        """The n best distinct translations of a source, each with its best derivation."""
        found: dict[str, Derivation] = {}
        for derivation in islice(self._decoder.derivations(source.ids, poll=poll), TRIED * nbest):
            found.setdefault(self.text(source, derivation), derivation)
            if len(found) == nbest:
                break
        return list(found.items())

    def text(self, source: Source, derivation: Derivation) -> str:
        """The text of a derivation."""
        text = self.tokenizers.target.detokenise(self.target_pieces(source, derivation.words))
        return capitalised(text) if source.capitalised and self.config.case != "keep" else text

    def target_pieces(self, source: Source, words: Sequence[int]) -> list[str]:
        """The pieces of target words; copied words are pieces of the source."""
        vocabulary = self.tokenizers.target.vocabulary
        return [vocabulary.piece(word) if word >= 0 else source.pieces[-1 - word] for word in words]

    def steps(self, source: Source, derivation: Derivation) -> list[Step]:
        """The features of each phrase of a derivation, and of the end of the sentence."""
        return self.phrases.steps(derivation.options, length=len(source.ids))


class PhraseEngine:
    """Translates requests one by one; one bad request never affects the others."""

    def __init__(self, translator: PhraseTranslator, *, poll: Callable[[], None] | None = None) -> None:
        self.translator, self.poll = translator, poll

    def check(self, request: Request) -> None:
        """Raises an error if a request with these settings cannot be answered, whatever its text is."""
        given = {
            "prefix": request.prefix,
            "required": request.required,
            "forbidden": request.forbidden,
            "replace_unknown": request.replace_unknown is not None,
            "search": request.search is not None and request.search != self.translator.search,
        }
        if idle := [name for name, value in given.items() if value]:
            raise ConfigError(
                f"{', '.join(idle)}: supported for neural models only; a statistical model supports neither "
                "constraints nor the settings of beam search, so leave them out"
            )
        if not isinstance(request.text, str):
            raise TextError(f"text must be a string; found {request.text!r:.80}")
        if request.nbest is not None and (not isinstance(request.nbest, int) or not 1 <= request.nbest <= 100_000):
            raise TextError(f"nbest is {request.nbest!r}: it must be a number between 1 and 100,000")
        if request.long not in ("cut", "split"):
            raise ConfigError(f"`long` must be 'cut' or 'split'; found {request.long!r:.80}")

    def answers(self, requests: Iterable[str | Request]) -> Iterator[Answer]:
        """A translation or an error for every request, in order."""
        for request in requests:
            try:
                yield self.answer(request)
            except CalqueError as error:
                yield error

    def answer(self, request: str | Request) -> Translation:
        """The translation of one request; raises an error if it cannot be answered."""
        request = Request(request) if isinstance(request, str) else request
        self.check(request)
        poll = self._poll(request)
        parts = [request]
        if request.long == "split":
            tokenizer, limit = self.translator.tokenizers.source, self.translator.config.search.source_limit
            parts = split_request(request, tokenizer=tokenizer, limit=limit)
        translations = [self._translate(part, poll=poll) for part in parts]
        return join(translations, tokenizers=self.translator.tokenizers)

    def _translate(self, request: Request, *, poll: Callable[[], None]) -> Translation:
        source = self.translator.read(request.text)
        if not source.pieces:
            return empty_translation(detail=request.detail, attends=False, missing_phrase=False)
        found = self.translator.derivations(source, nbest=request.nbest or 1, poll=poll)
        candidates = []
        for text, derivation in found:
            detail = None
            if request.detail:
                pieces = self.translator.target_pieces(source, derivation.words)
                detail = Detail(source.pieces, pieces, [], None, None)
            count = len(derivation.words) + 1
            score = float(derivation.score)
            candidates.append(Candidate(text, score, score, cut=False, pieces=count, detail=detail))
        return Translation(candidates, source.cut)

    def _poll(self, request: Request) -> Callable[[], None]:
        deadline = None if request.timeout is None else time.monotonic() + request.timeout

        def poll() -> None:
            if self.poll is not None:
                self.poll()
            if deadline is not None and time.monotonic() >= deadline:
                raise DeadlineError(f"the request was not answered within {request.timeout:g} seconds")

        return poll


def stack_search(config: PhraseSearchConfig) -> StackSearch:
    """The limits of stack decoding, taken from a config."""
    return StackSearch(config.stack, config.threshold, config.pops, config.distortion, config.options)


class _Forms:
    """Truecases source words: replaces each by its most frequent casing; see `calque.statistics.casing`."""

    def __init__(self, model: PhraseTables, tokenizers: Tokenizers) -> None:
        self.forms = model["source_forms"].numpy()
        pieces = tokenizers.source.vocabulary.pieces
        self.by_lowercase = {piece.lower(): int(form) for piece, form in zip(pieces, self.forms, strict=True)}

    def read(self, pieces: Sequence[str], ids: Array, *, everywhere: bool) -> Array:
        """The ids with the first word, or with `everywhere` every word, replaced by its most frequent casing.

        An unknown word is replaced by a known word that differs only in case, if there is one.
        """
        changed = ids.copy()
        for place, piece in enumerate(pieces):
            if everywhere or place == 0 or ids[place] == UNK:
                changed[place] = self.by_lowercase.get(piece.lower(), UNK)
        return changed
