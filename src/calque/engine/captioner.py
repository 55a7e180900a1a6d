"""The captioner: images in, texts out. Letters: B images, H height and width in pixels, S grid positions, T tokens."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, overload

import numpy as np
import torch

from calque.data.batching import BatchConfig, Bucketed
from calque.data.caption_batch import caption_widths, collate_captions
from calque.data.caption_preparation import CAPTION_LENGTHS, IMAGE
from calque.data.images import Array, ImageSource, Picture, read_image
from calque.data.store import Store
from calque.devices import is_out_of_memory
from calque.engine.argument_names import check_argument_names
from calque.engine.engine import FULL_BATCH_BEAM, lock_of
from calque.engine.forced_decoding import TargetTokens, TokenScores, force_decode_in
from calque.engine.types import Candidate, Detail
from calque.errors import CalqueError, ConfigError, OutOfMemory, TextError
from calque.evaluation.degeneration import has_loop
from calque.layers.int8 import parameter_count
from calque.models.captioner import CaptionerConfig, CaptionerModel
from calque.models.model import Context
from calque.objectives.cross_entropy import loss_of
from calque.objectives.decoding_step import MARKS, decoding_step
from calque.search.decode import Rules, decode, limits_of_pieces
from calque.search.settings import SearchConfig, batch_positions
from calque.search.step import Hypothesis
from calque.tasks.captioning import CaptioningConfig
from calque.tensors import Padded, exact
from calque.text import Tokenizer

WINDOW = 256  # images decoded before the first of them is captioned
NO_MEMORY = "there is not enough memory to caption this image, even alone; lower beam or nbest"


class CaptionRequest(NamedTuple):
    """An image to caption, and everything that its caption depends on besides the model."""

    image: ImageSource  # a path, the bytes of a file, or an array of uint8 [height,width,3]
    search: SearchConfig | None = None  # None: the model's own settings
    nbest: int | None = None  # the number of candidates; None: one
    detail: bool = False  # return the Detail of every candidate
    name: str | None = None  # the name of the image in messages; None: its path


class Caption(NamedTuple):
    """The candidates for one image (at least one), best first."""

    candidates: list[Candidate]
    picture: Picture  # the image as the model reads it

    @property
    def text(self) -> str:
        """The best caption."""
        return self.candidates[0].text


CaptionAnswer = Caption | CalqueError
"""The result of a request: its caption, or an error that concerns this request alone."""


class _Job(NamedTuple):
    picture: Picture
    search: SearchConfig
    nbest: int
    detail: bool

    @property
    def key(self) -> tuple[SearchConfig, int, bool]:
        return self.search, self.nbest, self.detail


class Captioner:
    """A model that describes images.

    >>> captioner = calque.load("runs/scenes")
    >>> captioner.caption("photo.jpg")
    'a red circle above a small blue square'
    """

    def __init__(
        self,
        model: CaptionerModel,
        tokenizer: Tokenizer,
        *,
        config: CaptionerConfig,
        task: CaptioningConfig,
        search: SearchConfig,
        longest: int,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.config = config
        self.task = task
        self.search = search
        self.longest = longest
        """The number of pieces in the longest training caption."""

    def __repr__(self) -> str:
        parts = f"{self.config.image.kind} to {self.config.decoder.kind}"
        return f"Captioner({parts}, {parameter_count(self.model):,} parameters, {self.device})"

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def attends(self) -> bool:
        """Whether the model has attention weights."""
        return self.model.decoder.attends

    @property
    def side(self) -> int:
        """The number of rows, and of columns, in the square grid that the model attends to."""
        return self.config.side(self.task.size)

    @overload
    def caption(self, image: ImageSource, *, beam: int | None = None, nbest: None = None) -> str: ...
    @overload
    def caption(self, image: list[Any], *, beam: int | None = None, nbest: None = None) -> list[str]: ...
    @overload
    def caption(self, image: ImageSource, *, beam: int | None = None, nbest: int) -> list[str]: ...
    @overload
    def caption(self, image: list[Any], *, beam: int | None = None, nbest: int) -> list[list[str]]: ...
    @check_argument_names
    def caption(
        self, image: ImageSource | list[Any], *, beam: int | None = None, nbest: int | None = None
    ) -> str | list[str] | list[list[str]]:
        """The caption of an image, or of each image in a list; with `nbest`, the n best captions of each.

        An image is the path of a file, the bytes of a file, or an array of uint8 [height,width,3].

        >>> captioner.caption(["one.png", "two.jpg"], beam=1)
        ['a red circle', 'a blue square']
        """
        search = self.search if beam is None else self.search.model_copy(update={"beam": beam})
        images = image if isinstance(image, list) else [image]
        results: list[Any] = []
        for answer in self.answers(CaptionRequest(item, search, nbest) for item in images):
            if isinstance(answer, CalqueError):
                raise answer
            results.append(answer.text if nbest is None else [candidate.text for candidate in answer.candidates])
        return results if isinstance(image, list) else results[0]

    def answers(
        self, requests: Iterable[CaptionRequest], *, poll: Callable[[], None] | None = None
    ) -> Iterator[CaptionAnswer]:
        """A caption or an error for every request, in order. A caption does not depend on the other requests.

        `poll` is called before each batch; an exception that it raises stops the captioning.
        """
        remaining = iter(requests)
        while window := list(islice(remaining, WINDOW)):
            prepared = [self._prepared(request) for request in window]
            yield from self._answered(prepared, poll=poll)

    def caption_store(
        self, store: Store, *, search: SearchConfig, poll: Callable[[], None] | None = None
    ) -> list[Candidate]:
        """The best caption of every image in a store."""
        best: list[Candidate] = []
        for start in range(0, len(store), WINDOW):
            rows = (store[IMAGE].row(index) for index in range(start, min(start + WINDOW, len(store))))
            jobs = [_Job(Picture(np.array(pixels), *pixels.shape[1::-1]), search, 1, detail=False) for pixels in rows]
            for answer in self._answered(jobs, poll=poll):
                if isinstance(answer, CalqueError):
                    raise answer
                best.append(answer.candidates[0])
        return best

    @torch.inference_mode()
    def store_loss(self, store: Store, *, batch: BatchConfig, poll: Callable[[], None] | None = None) -> float:
        """The cross-entropy of all captions in a store, in nats per token; the model must be in evaluation mode."""
        total, tokens = exact(torch.zeros((), device=self.device)), 0
        widths = caption_widths(store, positions=self.config.positions(self.task.size))
        config = batch.model_copy(update={"shapes": "exact"})
        captions = store[CAPTION_LENGTHS].lengths
        for planned in Bucketed(widths, spans=store.spans, config=config, seed=0).batches(0):
            for turn in range(int(captions[planned.indices].max())):
                if poll is not None:
                    poll()
                part = planned._replace(indices=planned.indices[captions[planned.indices] > turn])
                part = part._replace(size=part.size._replace(rows=len(part.indices)))
                rows = collate_captions(store, part, turn=turn)
                placed = rows.to(self.device)
                output = self.model(placed.source, placed.target_input)
                total += exact(loss_of(self.model, output, placed, smoothing=0.0).cross_entropy)
                tokens += rows.weight
        return float(total) / tokens

    @torch.inference_mode()
    def score(self, pictures: Sequence[Picture], texts: Sequence[str]) -> list[TokenScores]:
        """For each given caption, the log-probability and attention [T,S] of every piece and of the end."""
        results: list[TokenScores] = []
        step = max(1, batch_positions(self.search, device=self.device) // self.config.positions(self.task.size))
        with lock_of(self.model), self.model.evaluating():
            for start in range(0, len(pictures), step):
                ids = self.tokenizer.encode_many(texts[start : start + step])
                context = self.encode([picture.pixels for picture in pictures[start : start + step]])
                scores = self._scores(context, [[TargetTokens(row)] for row in ids])
                results += [only for (only,) in scores]
        return results

    def _prepared(self, request: CaptionRequest) -> _Job | CalqueError:
        search = request.search or self.search
        nbest = 1 if request.nbest is None else request.nbest
        try:
            if search.method != "beam":
                raise ConfigError(
                    f"search.method = {search.method!r} is not supported for captioners; set it to 'beam'"
                )
            if search.coverage > 0 and not self.attends:
                raise ConfigError("search.coverage needs a model with attention, but this one has none; set it to 0")
            if not 1 <= nbest <= search.beam:
                raise TextError(f"nbest is {nbest} and beam is {search.beam}: nbest must be between 1 and beam")
            picture = read_image(request.image, size=self.task.size, name=request.name)
            return _Job(picture, search, nbest, request.detail)
        except CalqueError as error:
            return error

    def _answered(
        self, prepared: Sequence[_Job | CalqueError], *, poll: Callable[[], None] | None
    ) -> list[CaptionAnswer]:
        answers: list[CaptionAnswer | None] = [item if isinstance(item, CalqueError) else None for item in prepared]
        groups: dict[object, list[tuple[int, _Job]]] = {}
        for place, job in enumerate(prepared):
            if isinstance(job, _Job):
                groups.setdefault(job.key, []).append((place, job))
        for group in groups.values():
            step = self._batch_size(group[0][1].search)
            for start in range(0, len(group), step):
                if poll is not None:
                    poll()
                batch = group[start : start + step]
                for (place, _), answer in zip(batch, self._isolated([job for _, job in batch]), strict=True):
                    answers[place] = answer
        return [answer for answer in answers if answer is not None]

    def _batch_size(self, search: SearchConfig) -> int:
        tokens = batch_positions(search, device=self.device) * FULL_BATCH_BEAM // max(FULL_BATCH_BEAM, search.beam)
        return max(1, tokens // self.config.positions(self.task.size))

    def _isolated(self, jobs: Sequence[_Job]) -> list[CaptionAnswer]:
        """Captions a batch. If memory runs out, captions its halves; an image that does not fit alone gets an error."""
        try:
            with lock_of(self.model):
                return list(self._captions(jobs))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        if len(jobs) == 1:
            return [OutOfMemory(NO_MEMORY)]
        middle = len(jobs) // 2
        return [*self._isolated(jobs[:middle]), *self._isolated(jobs[middle:])]

    @torch.inference_mode()
    def _captions(self, jobs: Sequence[_Job]) -> list[Caption]:
        """The captions of images whose requests have the same settings."""
        search, nbest, detail = jobs[0].key
        with self.model.evaluating():
            context = self.encode([job.picture.pixels for job in jobs])
            positions = self.config.positions(self.task.size)
            hypotheses = decode(
                decoding_step(self.model, attention=search.coverage > 0),
                self.model.start(context),
                context,
                source_lengths=torch.full((len(jobs),), positions, device=self.device),
                limits=limits_of_pieces([self._limits(search)] * len(jobs), device=self.device),
                search=search,
                marks=MARKS,
                rules=Rules(),
                nbest=nbest,
            )
            scores = None
            if detail:
                targets = [[TargetTokens(item.tokens, item.cut) for item in beam[:nbest]] for beam in hypotheses]
                scores = self._scores(context, targets)
        return [
            Caption(
                [
                    self._candidate(item, scores[row][rank] if scores else None)
                    for rank, item in enumerate(beam[:nbest])
                ],
                job.picture,
            )
            for row, (job, beam) in enumerate(zip(jobs, hypotheses, strict=True))
        ]

    def _limits(self, search: SearchConfig) -> tuple[int, int]:
        """The minimum and the maximum number of pieces in a caption."""
        learnt = 2 * self.longest + 5 if search.learnt_maximum else search.most
        return search.minimum, max(search.minimum, learnt if search.maximum is None else search.maximum)

    def encode(self, pixels: Sequence[Array]) -> Context:
        """Encodes images [H,H,3] of the model's size, as `read_image` returns them, into the decoder's context."""
        values = torch.from_numpy(np.stack(pixels))
        return self.model.prepare(Padded(values, torch.full((len(pixels),), values.shape[1])).to(self.device))

    def _scores(self, context: Context, targets: Sequence[Sequence[TargetTokens]]) -> list[list[TokenScores]]:
        lengths = torch.full((len(targets),), self.config.positions(self.task.size))
        return force_decode_in(self.model, context, targets, lengths=lengths)

    def _candidate(self, hypothesis: Hypothesis, scores: TokenScores | None) -> Candidate:
        detail = None
        if scores is not None:
            pieces = [self.tokenizer.vocabulary.piece(token) for token in hypothesis.tokens]
            attention = None if scores.attention is None else scores.attention.tolist()
            detail = Detail([], pieces, scores.log_probs, attention, None, hypothesis.tokens)
        text = " ".join(self.tokenizer.decode(hypothesis.tokens).split())
        size = len(hypothesis.tokens) + (not hypothesis.cut)
        signs = ("loop",) if has_loop(hypothesis.tokens) else ()
        return Candidate(
            text, hypothesis.score, hypothesis.log_prob, hypothesis.cut, size, oddities=signs, detail=detail
        )
