"""The text generator: a language model that scores text and writes more of it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

import numpy as np
import torch
from torch import Tensor

from calque.data.batching import BatchConfig
from calque.data.store import pack, store_in_memory
from calque.engine.types import Candidate, Scored
from calque.errors import TextError
from calque.models.language_model import LanguageModel, LanguageModelConfig
from calque.objectives.decoding_step import MARKS, language_step
from calque.objectives.language_model import TextLoss, lines_loss, running_loss
from calque.search.decode import Rules, decode
from calque.search.sampling import Sampling, draw, filtered, mixed, uniform
from calque.search.settings import SearchConfig
from calque.tasks.language_modelling import LanguageModellingConfig
from calque.text import BOS, EOS, PAD, Tokenizer

SCORED = 64  # texts that are read together
MAXIMUM = 100  # pieces that are written unless more are asked for


class TextPerplexity(NamedTuple):
    """How well a model predicts a text, ends of lines counted."""

    nats: float
    tokens: int
    words: int
    bytes: int

    @property
    def per_token(self) -> float:
        return _perplexity(self.nats, self.tokens)

    @property
    def per_word(self) -> float:
        """Words are what stands between white space, and each end of a line is one."""
        return _perplexity(self.nats, self.words)

    @property
    def per_byte(self) -> float:
        """Bytes of UTF-8, line feeds counted."""
        return _perplexity(self.nats, self.bytes)


class TextGenerator:
    """A language model with its tokenizer.

    >>> generator = calque.load("runs/english")
    >>> generator.generate("The weather", maximum=5)
    'The weather is good today.'
    """

    def __init__(
        self,
        model: LanguageModel,
        tokenizer: Tokenizer,
        *,
        config: LanguageModelConfig,
        task: LanguageModellingConfig,
        search: SearchConfig,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.config = config
        self.task = task
        self.search = search

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def start(self) -> int:
        """The token that stands before a text: running text follows an end of line."""
        return EOS if self.task.reading == "running" else BOS

    @torch.inference_mode()
    def score(self, texts: Sequence[str]) -> Iterator[Scored]:
        """The log-probability of each text by itself, piece by piece and with its end, in order."""
        for at in range(0, len(texts), SCORED):
            ids = [self.tokenizer.encode(text) for text in texts[at : at + SCORED]]
            width = 1 + max(map(len, ids))
            outputs = torch.tensor([[*row, EOS, *[PAD] * (width - 1 - len(row))] for row in ids], device=self.device)
            inputs = torch.cat([torch.full_like(outputs[:, :1], self.start), outputs[:, :-1]], dim=1)
            read, _ = self.model.read(inputs, self.model.start(len(ids)))
            log_probs = self.model.log_probs(read.hidden).gather(2, outputs[..., None]).squeeze(2).cpu()
            for row, pieces in zip(log_probs, ids, strict=True):
                names = [self.tokenizer.vocabulary.piece(piece) for piece in pieces]
                yield Scored(names, row[: len(pieces) + 1].tolist())

    def perplexity(self, lines: Sequence[str], *, batch_tokens: int = 4096) -> TextPerplexity:
        """Of a text, per token, word and byte; running text carries the state from line to line."""
        if not lines:
            raise TextError("there is no text to predict")
        loss = self._loss(lines, batch_tokens=batch_tokens)
        words = sum(len(line.split()) + 1 for line in lines)
        size = sum(len(line.encode()) + 1 for line in lines)
        return TextPerplexity(loss.nats, loss.tokens, words, size)

    def _loss(self, lines: Sequence[str], *, batch_tokens: int) -> TextLoss:
        ids = self.tokenizer.encode_many(lines)
        if self.task.reading == "lines":
            store = store_in_memory({"text": pack(ids)})
            return lines_loss(self.model, store, batch=BatchConfig(tokens=batch_tokens))
        text = np.array([token for line in ids for token in (*line, EOS)], dtype=np.int64)
        return running_loss(self.model, text, context=self.task.context, stride=self.task.stride)

    @overload
    def generate(self, prompt: str = "", *, maximum: int = MAXIMUM, search: SearchConfig | None = None) -> str: ...
    @overload
    def generate(
        self, prompt: list[str], *, maximum: int = MAXIMUM, search: SearchConfig | None = None
    ) -> list[str]: ...
    def generate(
        self, prompt: str | list[str] = "", *, maximum: int = MAXIMUM, search: SearchConfig | None = None
    ) -> str | list[str]:
        """A prompt, or each prompt of a list, with what the model writes behind it: `maximum` pieces at most."""
        prompts = [prompt] if isinstance(prompt, str) else prompt
        candidates = self.candidates(prompts, maximum=maximum, search=search)
        texts = [found[0].text for found in candidates]
        return texts[0] if isinstance(prompt, str) else texts

    @torch.inference_mode()
    def candidates(
        self,
        prompts: Sequence[str],
        *,
        maximum: int = MAXIMUM,
        search: SearchConfig | None = None,
        nbest: int = 1,
        first: int = 0,
    ) -> list[list[Candidate]]:
        """The texts found or drawn for each prompt, at least one; `first` numbers the prompts, for what is drawn."""
        search = search or self.search
        results = []
        for number, prompt in enumerate(prompts, start=first):  # prompts of different length are read by themselves
            ids = self._prompt(prompt)
            length = len(ids) + maximum
            limited = search.model_copy(update={"maximum": length, "maximum_extra": length, "minimum": len(ids)})
            hypotheses = decode(
                language_step(self.model, start=self.start),
                self.model.start(1),
                (),
                source_lengths=torch.ones(1, dtype=torch.long, device=self.device),
                search=limited,
                marks=MARKS,
                rules=Rules(prefixes=[ids] if ids else ()),
                nbest=nbest,
                streams=_stream_of(search, number).to(self.device),
            )[0]
            results.append(
                [
                    Candidate(self.tokenizer.decode(found.tokens), found.score, found.log_prob, found.cut)
                    for found in hypotheses[:nbest]
                ]
            )
        return results

    @torch.inference_mode()
    def stream(
        self, prompt: str = "", *, maximum: int = MAXIMUM, search: SearchConfig | None = None, number: int = 0
    ) -> Iterator[str]:
        """The text piece by piece as it is written, the prompt first: drawn, or the likeliest piece of each step.

        The pieces joined are the text; a character whose bytes are not all there yet waits for them.
        """
        search = search or self.search
        ids = self._prompt(prompt)
        step, state = language_step(self.model, start=self.start), self.model.start(1)
        tokens = torch.full((1,), BOS, device=self.device)
        for token in ids:
            _, state = step(tokens, state, ())
            tokens = torch.full_like(tokens, token)
        key = mixed(mixed(_stream_of(search, number).to(self.device)))  # as `sample_search` has it
        shown = self.tokenizer.decode(ids)
        yield shown
        for length in range(len(ids) + 1, len(ids) + maximum + 1):
            output, state = step(tokens, state, ())
            tokens = _next_token(output.log_probs, search, key=key, length=length)
            if int(tokens) == EOS:
                break
            ids.append(int(tokens))
            text = self.tokenizer.decode(ids)
            if text.startswith(shown) and not text.endswith("\ufffd"):
                yield text[len(shown) :]
                shown = text
        text = self.tokenizer.decode(ids)
        if text != shown and text.startswith(shown):
            yield text[len(shown) :]

    def _prompt(self, prompt: str) -> list[int]:
        return self.tokenizer.encode(prompt) if prompt.strip() else []


def _next_token(log_probs: Tensor, search: SearchConfig, *, key: Tensor, length: int) -> Tensor:
    """[1], the likeliest token or a drawn one; never a mark that no text has."""
    allowed = log_probs.clone()
    allowed[:, list(MARKS.never)] = -torch.inf
    if search.method == "beam":
        return allowed.argmax(dim=-1)
    sampling = Sampling(search.temperature, search.top_k, search.top_p, search.min_p)
    return draw(filtered(allowed, sampling), uniform(key, length))


def _stream_of(search: SearchConfig, number: int) -> Tensor:
    """[1], the number that draws for a prompt follow from: of the seed and the prompt's place alone."""
    return mixed(mixed(torch.tensor([search.seed])) + number)


def _perplexity(nats: float, count: int) -> float:
    return float(np.exp(min(nats / max(1, count), 700.0)))
