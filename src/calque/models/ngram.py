"""n-gram language models: the next word depends on the last n − 1 words alone.

    p(w | h) = t(h w) if the tables hold a probability t for the n-gram h w, else b(h) · p(w | h′)

Here b(h) is the back-off weight of h, and h′ is h without its first word. The tables of each order are estimated from
counts or read from an ARPA file (`calque.statistics`); nothing is trained. The key of an n-gram is `prefix · V + word`:
`word` is its last word, and `prefix` is the row number, in the table one order below, of the n-gram without its last
word. Keys are ascending, so n-grams with the same history are adjacent, and once the row of its prefix is known, an
n-gram is found by one binary search. In the table of order 1, row numbers are word ids.

Letters: N rows, T tokens, H = order − 1 words of history, M positions, V vocabulary, R n-grams of an order.
"""

from collections.abc import Mapping, Sequence
from math import log
from typing import Annotated, Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from calque.config import Config
from calque.layers.embedding import known
from calque.layers.output import OutputLayer
from calque.models.counted import CountedModel, table

NOTHING = -1  # where a history begins before the text
LN10 = log(10)


class NgramLanguageConfig(Config):
    """An n-gram model with modified Kneser-Ney smoothing (Chen and Goodman 1998)."""

    kind: Literal["ngram"] = "ngram"
    order: int = Field(default=5, ge=1, le=20)
    """The length of the longest n-grams: a word depends on the `order` − 1 words before it."""
    prune: list[Annotated[int, Field(ge=0)]] = Field(default=[], max_length=19)
    """Drop n-grams that occur at most this often. There is one threshold per length from 2 on, none lower than the one
    before; the last one also applies to longer n-grams. By default, all n-grams are kept."""

    @field_validator("prune")
    @classmethod
    def _ascending(cls, value: list[int]) -> list[int]:
        if value != sorted(value):
            raise ValueError(
                f"{value} must not decrease: longer n-grams need pruning thresholds at least as high as shorter ones"
            )
        return value


class NgramNetwork(nn.Module):
    """Keeps the history of an n-gram model. Law: reading x and then y equals reading x + y."""

    nothing: Tensor

    def __init__(self, config: NgramLanguageConfig, *, vocabulary_size: int) -> None:
        super().__init__()
        self.width = config.order - 1
        self.vocabulary_size = vocabulary_size
        self.register_buffer("nothing", torch.tensor([[NOTHING]]), persistent=False)

    def start(self, rows: int) -> Tensor:
        """The history [N,H] before any token."""
        return self.nothing.expand(rows, self.width)

    def forward(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """The histories [N,T,H] after each of the tokens [N,T], and the last of them [N,H]."""
        words = torch.cat([state, known(tokens, size=self.vocabulary_size)], dim=1)
        if not self.width:
            return words[:, :, None][:, :, :0], state
        return words.unfold(1, self.width, 1)[:, 1:], words[:, words.shape[1] - self.width :]


class NgramOutput(CountedModel, OutputLayer):
    """The probabilities of the next word, given histories of ids [...,H], looked up in back-off tables.

    The tables hold logarithms to base 10, as in ARPA files, in at least single precision whatever the model's
    precision. A new layer has empty tables; `fill` sets them, and loading a model resizes them to fit its file.
    """

    def __init__(self, *, order: int, vocabulary_size: int) -> None:
        super().__init__()
        self.order, self.vocabulary_size = order, vocabulary_size
        sizes = [vocabulary_size, *[0] * (order - 1)]
        self.keys = _tables({level: torch.zeros(sizes[level - 1], dtype=torch.long) for level in range(2, order + 1)})
        self.log10_probs = _tables({level: torch.zeros(sizes[level - 1]) for level in range(1, order + 1)})
        self.log10_backoffs = _tables({level: torch.zeros(sizes[level - 1]) for level in range(1, order)})

    def fill(self, keys: Sequence[Tensor], log10_probs: Sequence[Tensor], log10_backoffs: Sequence[Tensor]) -> None:
        """Sets the tables: keys from order 2 on, logarithms of probabilities and of back-off weights from order 1."""
        like = self.log10_probs["1"]
        self.keys = _tables({level: values.to(like.device) for level, values in enumerate(keys, start=2)})
        self.log10_probs = _tables({level: values.to(like) for level, values in enumerate(log10_probs, start=1)})
        self.log10_backoffs = _tables({level: values.to(like) for level, values in enumerate(log10_backoffs, start=1)})

    @property
    def sizes(self) -> list[int]:
        """The number of n-grams of each order."""
        return [len(table) for table in self.log10_probs.values()]

    def log_probs(self, hidden: Tensor) -> Tensor:
        histories = hidden.reshape(-1, self.order - 1) if self.order > 1 else hidden.flatten(0, -2)
        scores = self.log10_probs["1"].repeat(len(histories), 1)
        for length, rows in enumerate(self._history_rows(histories), start=1):
            scores += self._backoffs(length, rows)[:, None]
            keys = self.keys[str(length + 1)]
            first = torch.searchsorted(keys, rows * self.vocabulary_size)
            counts = torch.searchsorted(keys, (rows + 1) * self.vocabulary_size) - first
            counts = counts.masked_fill(rows < 0, 0)
            places = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), counts)
            offsets = torch.arange(len(places), device=rows.device) - (counts.cumsum(0) - counts)[places]
            followers = first[places] + offsets
            scores[places, keys[followers] % self.vocabulary_size] = self.log10_probs[str(length + 1)][followers]
        log_probs: Tensor = scores * LN10
        return log_probs.view(*hidden.shape[:-1], self.vocabulary_size)

    def loss(self, hidden: Tensor, targets: Tensor, *, smoothing: float, ignored: int = -100) -> Tensor:
        """[M], −log p of targets [M] after histories [M,H]; 0 where the target is `ignored`. `smoothing` must be 0."""
        assert not smoothing
        words = targets.masked_fill(targets == ignored, 0)
        scores: Tensor = self.log10_probs["1"][words]
        for length, rows in enumerate(self._history_rows(hidden), start=1):
            found = self._find(length + 1, rows, words)
            own = self._values(self.log10_probs[str(length + 1)], found)
            scores = torch.where(found < 0, scores + self._backoffs(length, rows), own)
        return (scores * -LN10).masked_fill(targets == ignored, 0)

    def matched(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """[M], the length of the longest n-gram in the tables that ends in the target, given histories [M,H]."""
        lengths = torch.ones_like(targets)
        for length, rows in enumerate(self._history_rows(hidden), start=1):
            lengths = lengths.masked_fill(self._find(length + 1, rows, targets) >= 0, length + 1)
        return lengths

    def take_sizes(self, sizes: Mapping[str, torch.Size]) -> None:
        """Resizes the tables of orders above 1 to their sizes in a file; those of order 1 have one row per word."""
        for kind in ("keys", "log10_probs", "log10_backoffs"):
            table = getattr(self, kind)
            for level in range(2, self.order + 1):
                size = sizes.get(f"{kind}.{level}")
                if str(level) in table and size is not None and len(size) == 1:
                    table[str(level)] = nn.Parameter(table[str(level)].new_empty(size), requires_grad=False)

    def fault(self) -> str | None:
        for level in range(1, self.order + 1):
            rows = len(self.log10_probs[str(level)])
            if level > 1:
                keys, prefixes = self.keys[str(level)], len(self.log10_probs[str(level - 1)])
                if len(keys) != rows:
                    return f"keys.{level} has {len(keys)} n-grams, but log10_probs.{level} has {rows}"
                if rows and not (keys[0] >= 0 and keys[-1] < prefixes * self.vocabulary_size):
                    return f"keys.{level}: an n-gram continues one that does not exist"
                if not (keys[1:] > keys[:-1]).all():
                    return f"keys.{level}: not in ascending order"
            if level < self.order and len(self.log10_backoffs[str(level)]) != rows:
                return f"log10_backoffs.{level} has {len(self.log10_backoffs[str(level)])} n-grams, expected {rows}"
            if (self.log10_probs[str(level)] > 0).any():
                return f"log10_probs.{level}: a probability above 1"
        return None

    def _history_rows(self, histories: Tensor) -> list[Tensor]:
        """The table rows of the last 1, 2, … H words of `histories` [M,H], [M] per length; negative if not found."""
        width = self.order - 1
        found = []
        for start in range(width - 1, -1, -1):
            rows = histories[:, start]
            for place in range(start + 1, width):
                rows = self._find(place - start + 1, rows, histories[:, place])
            found.append(rows)
        return found

    def _find(self, level: int, prefixes: Tensor, words: Tensor) -> Tensor:
        """The table rows [M] of n-grams of order `level`, given their prefixes' rows and last words; −1 if not found.

        A prefix that was not found, or that begins before the text, has row −1, so that its n-gram is not found either.
        """
        keys = self.keys[str(level)]
        wanted = prefixes * self.vocabulary_size + words
        if not len(keys):
            return torch.full_like(wanted, NOTHING)
        rows = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
        return rows.masked_fill(keys[rows] != wanted, NOTHING)

    def _backoffs(self, length: int, rows: Tensor) -> Tensor:
        """The log₁₀ back-off weights [M] of histories of `length` words, by table row; 0 if a row is negative."""
        return self._values(self.log10_backoffs[str(length)], rows)

    def _values(self, table: Tensor, rows: Tensor) -> Tensor:
        """The values [M] of `table` in these rows; 0 for negative rows, which stand for n-grams not found."""
        if not len(table):
            return table.new_zeros(len(rows))
        return table[rows.clamp(min=0)].masked_fill(rows < 0, 0)


def _tables(tensors: Mapping[int, Tensor]) -> nn.ParameterDict:
    """The tables of each n-gram order, as parameters without gradients, so that they are saved with the weights."""
    return nn.ParameterDict({str(level): table(tensor) for level, tensor in tensors.items()})
