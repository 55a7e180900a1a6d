"""Joins text, model and search: raw text in, raw text out. What `calque.load` gives.

Letters: B sentences, S source.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, overload

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from calque.config import Config, check, read_toml, to_toml
from calque.data.plan import BatchConfig
from calque.data.store import store_of
from calque.errors import ConfigError, FolderError, TextError
from calque.evaluation.risk import minimum_risk
from calque.folders import MANIFEST, verify_folder, write_folder
from calque.models.model import Model, ModelConfig, Sizes
from calque.search.decode import Rules, decode
from calque.search.forbidden import Forbidden, begins_apart, is_unspaced
from calque.search.settings import SearchConfig
from calque.search.step import Hypothesis, Marks, Step, StepOutput
from calque.tasks.translation import mean_loss
from calque.tensors import Padded
from calque.text import (
    BOS,
    EOS,
    PAD,
    UNK,
    Opened,
    Tokenizers,
    load_tokenizers,
    normalise,
    open_source,
    open_target,
    save_tokenizers,
)

MARKS = Marks(start=BOS, end=EOS, never=(PAD, BOS))
WINDOW = 2048  # sentences that are sorted by length together
KIND, FORMAT = "model", 1
WEIGHTS = "weights.safetensors"

DeviceName = Literal["auto", "cpu", "cuda", "mps"]


class ModelFolder(Config):
    """What a model folder says of itself, in its config.toml."""

    source_pieces: int
    target_pieces: int
    joint: bool
    model: ModelConfig
    search: SearchConfig


class Request(NamedTuple):
    """A text to translate, and what its translation must say."""

    text: str
    prefix: str = ""  # what it begins with
    required: tuple[str, ...] = ()  # phrases that appear in it


class Candidate(NamedTuple):
    """One translation of a sentence."""

    text: str
    score: float
    log_prob: float
    cut: bool  # search reached its maximum length


class Translation(NamedTuple):
    """What became of one sentence: its candidates, best first (at least one)."""

    candidates: list[Candidate]
    source_cut: bool = False  # longer than the model reads

    @property
    def text(self) -> str:
        return self.candidates[0].text


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
        forbidden: Sequence[str] = (),
        first: int = 0,
    ) -> Iterator[Translation]:
        """One translation for each line, in order; reads ahead one window of lines at the most.

        No translation has one of the `forbidden` words. `first` is the number of the first line, which what is drawn
        for each depends on.
        """
        search = search or self.search
        _refuse_search(search, nbest=nbest)
        banned = self._forbid(forbidden) if forbidden else None
        requests = (Request(line) if isinstance(line, str) else line for line in lines)
        while window := list(islice(requests, WINDOW)):
            yield from self._window(window, search=search, nbest=nbest, forbidden=banned, first=first)
            first += len(window)

    def loss(self, sources: Sequence[str], targets: Sequence[str]) -> float:
        """The cross-entropy of given translations in nats a piece; its exponential is the perplexity."""
        if not sources or len(sources) != len(targets):
            raise TextError(f"{len(sources)} sources and {len(targets)} targets: each source needs its one target")
        target = self.tokenizers.target
        limit = self.search.source_limit
        longest = int(limit * self.search.maximum_ratio)
        opened = self._open(sources)
        theirs = open_target(target, targets, sources=opened) if self.model.copies else target.encode_many(targets)
        ids = zip(opened, theirs, strict=True)
        pairs = [(one.ids[:limit], other[:longest]) for one, other in ids]  # no longer than what search would see
        return mean_loss(self.model, store_of(pairs), batch=BatchConfig())

    @torch.inference_mode()
    def _window(
        self,
        requests: Sequence[Request],
        *,
        search: SearchConfig,
        nbest: int,
        forbidden: Forbidden | None,
        first: int,
    ) -> list[Translation]:
        """Sorted by length, cut into batches, decoded, and put back in order; empty lines stay empty."""
        lines = [request.text for request in requests]
        characters = 16 * search.source_limit  # bounds the work before anything is tokenised
        opened = self._open([line[:characters] for line in lines])
        encoded = [each.ids for each in opened]
        results = [Translation([Candidate("", 0.0, 0.0, cut=False)])] * len(lines)
        filled = [place for place, line in enumerate(lines) if line.strip() and encoded[place]]
        order = sorted(filled, key=lambda place: (-len(encoded[place]), place))
        was_training = self.model.training
        self.model.eval()
        try:
            for batch in _batches(order, [min(len(ids), search.source_limit) + 1 for ids in encoded], search=search):
                ids = [encoded[place][: search.source_limit] for place in batch]
                streams = [(search.seed << 32) + first + place for place in batch]
                rules = self._rules([requests[place] for place in batch], forbidden)
                found = self._decode(ids, search=search, nbest=nbest, streams=streams, rules=rules)
                for place, hypotheses in zip(batch, found, strict=True):
                    cut = len(encoded[place]) > search.source_limit or len(lines[place]) > characters
                    candidates = [self._candidate(each, opened[place].unknown) for each in hypotheses]
                    results[place] = Translation(_chosen(candidates, search=search, nbest=nbest), cut)
        finally:
            self.model.train(was_training)
        return results

    def _decode(
        self, ids: list[list[int]], *, search: SearchConfig, nbest: int, streams: Sequence[int], rules: Rules
    ) -> list[list[Hypothesis]]:
        source = pad_source(ids)
        context = self.model.prepare(source.to(self.device))
        return decode(
            decoding_step(self.model, attention=search.coverage > 0),
            self.model.start(context),
            context,
            source_lengths=source.lengths.to(self.device),
            search=search,
            marks=MARKS,
            rules=rules,
            nbest=nbest,
            streams=torch.tensor(streams, device=self.device),
        )

    def _rules(self, requests: Sequence[Request], forbidden: Forbidden | None) -> Rules:
        """The wishes of a batch, in ids."""
        target = self.tokenizers.target
        prefixes = [target.encode(each.prefix) if each.prefix else [] for each in requests]
        required = [[target.encode(phrase) for phrase in each.required if phrase] for each in requests]
        follows = None
        if any(required):
            follows = torch.tensor([begins_apart(surface) for surface in target.surfaces()])
            follows[EOS] = True
            if any(map(is_unspaced, "".join(phrase for each in requests for phrase in each.required))):
                follows.fill_(True)
        return Rules(prefixes, required, follows, forbidden)

    def _forbid(self, words: Sequence[str]) -> Forbidden:
        return Forbidden([normalise(word) for word in words], surfaces=self.tokenizers.target.surfaces(), end=EOS)

    def _open(self, texts: Sequence[str]) -> list[Opened]:
        """Source ids; where the model can copy, words outside the vocabulary have numbers of their own."""
        source = self.tokenizers.source
        if self.model.copies:
            return open_source(source, texts)
        return [Opened(ids, ()) for ids in source.encode_many(texts)]

    def _candidate(self, hypothesis: Hypothesis, unknown: Sequence[str]) -> Candidate:
        text = self.tokenizers.target.decode(hypothesis.tokens, unknown=unknown)
        return Candidate(" ".join(text.split("\n")), hypothesis.score, hypothesis.log_prob, hypothesis.cut)


def decoding_step(model: Model, *, attention: bool = False) -> Step:
    """The model as search sees it: one token in, the probabilities of the next out, and where it looked if asked."""

    def step(tokens: Tensor, state: Any, context: Any) -> tuple[StepOutput, Any]:
        output, state = model.read(tokens[:, None], state, context, attention=attention)
        looked = None if output.attention is None else output.attention[:, -1]
        return StepOutput(model.log_probs(output, context)[:, -1], looked), state

    return step


def pad_source(ids: Sequence[Sequence[int]]) -> Padded:
    """Source rows with their end mark, padded to the longest."""
    lengths = torch.tensor([len(row) + 1 for row in ids])
    values = torch.full((len(ids), int(lengths.max())), PAD)
    for row, sentence in enumerate(ids):
        values[row, : len(sentence) + 1] = torch.tensor([*sentence, EOS])
    return Padded(values, lengths)


def _batches(order: Sequence[int], lengths: Sequence[int], *, search: SearchConfig) -> Iterator[list[int]]:
    """Places, longest first, cut so that a batch has at most `batch_tokens` padded source positions."""
    start = 0
    while start < len(order):
        count = max(1, search.batch_tokens // lengths[order[start]])
        yield list(order[start : start + count])
        start += count


def _refuse_search(search: SearchConfig, *, nbest: int) -> None:
    """Raises a TextError for more answers than search will have."""
    most = {"beam": search.beam, "sample": nbest, "risk": search.samples}[search.method]
    if not 1 <= nbest <= most:
        key = "samples" if search.method == "risk" else "beam"
        raise TextError(f"nbest is {nbest} and {key} is {most}: nbest must be 1 or more, and {key} no less")


def _chosen(candidates: list[Candidate], *, search: SearchConfig, nbest: int) -> list[Candidate]:
    """The candidates to give: by minimum Bayes risk, scored with their utility, where that was asked for."""
    if search.method != "risk":
        return candidates
    ranked = minimum_risk([each.text for each in candidates], utility=search.utility)
    best = {candidates[each.place].text: each for each in reversed(ranked)}  # each text once, by its first place
    order = sorted(best.values(), key=lambda each: (-each.utility, each.place))[:nbest]
    return [candidates[each.place]._replace(score=each.utility) for each in order]


def choose_device(name: DeviceName) -> torch.device:
    """The device of that name; auto takes the best there is."""
    if (name == "cuda" and not torch.cuda.is_available()) or (name == "mps" and not torch.backends.mps.is_available()):
        raise ConfigError(f"device: this machine or this build of torch has no {name}; use auto or cpu")
    if name != "auto":
        return torch.device(name)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def save_model(path: Path, translator: Translator, *, card: str) -> None:
    """Writes a model folder, whole or not at all: config, tokenizer, weights, manifest and a card for its readers."""
    source, target = translator.tokenizers
    sizes = Sizes(len(source.vocabulary), len(target.vocabulary), translator.tokenizers.joint)
    described = ModelFolder(
        source_pieces=sizes.source,
        target_pieces=sizes.target,
        joint=sizes.joint,
        model=translator.config,
        search=translator.search,
    )

    def fill(folder: Path) -> None:
        (folder / "config.toml").write_text(to_toml(described), encoding="utf-8")
        (folder / "README.md").write_text(card, encoding="utf-8")
        (folder / "tokenizer").mkdir()
        save_tokenizers(translator.tokenizers, folder / "tokenizer")
        save_file(weights_of(translator.model), folder / WEIGHTS)

    write_folder(path, kind=KIND, format=FORMAT, fill=fill, replace=True)


def load(path: str | Path, *, device: DeviceName = "auto") -> Translator:
    """The translator in a run folder (its `model/`) or a model folder; checked before anything in it is used."""
    folder = Path(path)
    for _ in range(5):
        try:
            before = _identity(folder)
            return _load(folder, device=device)
        except FolderError:
            if _identity(folder) == before:
                raise  # otherwise a training run put a better model in its place while this one was read
    return _load(folder, device=device)


def _identity(folder: Path) -> tuple[int, ...]:
    """Changes when another folder takes the place of a run's model."""
    return tuple(one.stat().st_ino for one in (folder, folder / "model") if one.exists())


def _load(folder: Path, *, device: DeviceName) -> Translator:
    if (folder / "model").is_dir():
        folder = folder / "model"
    if not folder.is_dir():
        raise FolderError(f"{folder}: no such run or model folder")
    if (folder / "config.toml").is_file() and not any((folder / name).exists() for name in (MANIFEST, WEIGHTS)):
        raise FolderError(f"{folder}: no model here yet; `calque train --resume {folder}` goes on until there is one")
    chosen = choose_device(device)
    verify_folder(folder, kind=KIND, formats={FORMAT})
    try:
        described = check(ModelFolder, read_toml(folder / "config.toml"), origin=str(folder / "config.toml"))
        tokenizers = load_tokenizers(folder / "tokenizer")
        model = _fill(described, tokenizers, folder=folder)
    except (ConfigError, TextError) as error:
        raise FolderError(f"{folder} cannot be used:\n{error}") from None
    model.to(chosen).eval()
    return Translator(model, tokenizers, config=described.model, search=described.search)


def _fill(described: ModelFolder, tokenizers: Tokenizers, *, folder: Path) -> Model:
    """The model that a folder describes, with its weights; nothing is allocated before all sizes fit."""
    sizes = Sizes(described.source_pieces, described.target_pieces, described.joint, UNK)
    if (len(tokenizers.source.vocabulary), len(tokenizers.target.vocabulary), tokenizers.joint) != sizes[:3]:
        raise FolderError(f"{folder}: the tokenizer and config.toml disagree on the pieces")
    weights = _read_weights(folder / WEIGHTS)
    origin = str(folder / WEIGHTS)
    with torch.device("meta"):
        refuse_unfit(Model(described.model, sizes=sizes), weights, origin=origin)
    model = Model(described.model, sizes=sizes)
    load_weights_into(model, weights, origin=origin)
    return model


def weights_of(model: Model) -> dict[str, Tensor]:
    """Every parameter once, by its first name, on the CPU."""
    return {name: value.detach().cpu().contiguous() for name, value in model.named_parameters()}


def load_weights_into(model: Model, weights: dict[str, Tensor], *, origin: str) -> None:
    """Puts weights into a model that has exactly these parameters; otherwise says what differs."""
    refuse_unfit(model, weights, origin=origin)
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.copy_(weights[name])
    if fault := model.output.fault():
        raise FolderError(f"{origin}: the weights do not fit the model: output.{fault}")


def refuse_unfit(model: Model, weights: dict[str, Tensor], *, origin: str) -> None:
    """Raises a FolderError that says where a model's parameters and the weights differ."""
    expected = dict(model.named_parameters())
    problems = [f"{name} is missing" for name in expected.keys() - weights.keys()]
    problems += [f"{name} is unknown" for name in weights.keys() - expected.keys()]
    problems += [
        f"{name} has shape {tuple(weights[name].shape)}, expected {tuple(value.shape)}"
        for name, value in expected.items()
        if name in weights and weights[name].shape != value.shape
    ]
    problems += [
        f"{name} is of {weights[name].dtype}, expected {value.dtype}"
        for name, value in expected.items()
        if name in weights and weights[name].is_floating_point() != value.is_floating_point()
    ]
    if problems:
        raise FolderError(f"{origin}: the weights do not fit the model:\n  " + "\n  ".join(sorted(problems)))


def _read_weights(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except SafetensorError as error:
        raise FolderError(f"{path}: not a safetensors file: {error}") from None
