"""Recommenders: the next item of a user's history, P(x_{t+1} | x₁…xₜ), ranked over the whole catalogue.

Hidasi et al. 2016 (GRU4Rec); Kang and McAuley 2018 (SASRec: causal self-attention over items); Zhou et al. 2018
(ATRank: time buckets and behaviour types). Networks that read items alone are shared with language models.

Letters: B rows, T items of a history, E embedding, V vocabulary.
"""

from typing import Annotated, Any, Literal, NamedTuple, assert_never

import torch
from pydantic import Field
from torch import Tensor, nn

from calque.config import Config
from calque.layers.negatives import NegativesOutput, NegativesOutputConfig
from calque.layers.output import FullOutput, FullOutputConfig, wide
from calque.layers.sampled import SampledOutput, SampledOutputConfig
from calque.models.language_model import (
    RecurrentLanguageConfig,
    RecurrentNetwork,
    TransformerLanguageConfig,
    TransformerNetwork,
    build_network,
)
from calque.models.time_aware import TimeAwareConfig, TimeAwareNetwork
from calque.tensors import at_last, exact

PADDING = 0
"""The id of padding (calque.text.PAD)."""
FIRST_ITEM = 4
"""The smallest id of an item (calque.text.catalogue.FIRST_ITEM); smaller ids are never recommended."""


class PopularityConfig(Config):
    """The most frequent items of the training data, the same for every user: a baseline without a network."""

    kind: Literal["popularity"] = "popularity"


ItemNetworkConfig = Annotated[
    PopularityConfig | RecurrentLanguageConfig | TransformerLanguageConfig | TimeAwareConfig,
    Field(discriminator="kind"),
]
ItemOutputConfig = Annotated[
    FullOutputConfig | SampledOutputConfig | NegativesOutputConfig, Field(discriminator="kind")
]


class RecommenderConfig(Config):
    """A network that reads the items of a history, and an output layer that scores all items of the catalogue."""

    kind: Literal["recommender"] = "recommender"
    tie: bool = True
    """Use the same vectors for items in the history and in the output layer."""
    network: ItemNetworkConfig = TransformerLanguageConfig(
        layers=2, width=64, heads=1, feed_forward=64, positions="learned", maximum_positions=256, dropout=0.5
    )
    output: ItemOutputConfig = FullOutputConfig()
    """How the scores are trained: full (cross-entropy over the catalogue), sampled (cross-entropy over a sample of it)
    or negatives (a few sampled items per target)."""

    @property
    def reads_times(self) -> bool:
        return isinstance(self.network, TimeAwareConfig) and self.network.times

    @property
    def reads_behaviours(self) -> bool:
        return isinstance(self.network, TimeAwareConfig) and self.network.behaviours

    @property
    def is_estimated(self) -> bool:
        """Whether the model is estimated from counts, not trained by gradients."""
        return isinstance(self.network, PopularityConfig)


class ItemHistory(NamedTuple):
    """Padded histories: the input of a recommender."""

    items: Tensor  # [B,T]
    lengths: Tensor  # [B], on the CPU; 0 for a user without history
    times: Tensor | None = None  # [B,T], in seconds
    asked: Tensor | None = None  # [B,T], the time at which the item after each item is predicted
    behaviours: Tensor | None = None  # [B,T]


class RecommenderModel(nn.Module):
    """A recommender: a network over the items of a history, an output layer, and the popularity of all items.

    Users without history are recommended the most popular items, whatever the network.
    """

    def __init__(self, config: RecommenderConfig, *, vocabulary_size: int, behaviours: int = 0) -> None:
        super().__init__()
        self.config = config
        self.counts = nn.Parameter(torch.zeros(vocabulary_size), requires_grad=False)  # of the items in training
        self.network: RecurrentNetwork | TransformerNetwork | TimeAwareNetwork | None = None
        self.output: FullOutput | None = None
        match config.network:
            case PopularityConfig():
                return
            case TimeAwareConfig():
                self.network = TimeAwareNetwork(
                    config.network, vocabulary_size=vocabulary_size, behaviours=max(1, behaviours)
                )
                weight = self.network.weight
            case _:
                network = build_network(config.network, vocabulary_size=vocabulary_size)
                assert isinstance(network, RecurrentNetwork | TransformerNetwork)
                self.network, weight = network, network.embedding.weight
        self.output = build_item_output(config.output, vocabulary_size=vocabulary_size, width=self.network.width)
        if config.tie:
            self.output.weight = weight

    @torch.no_grad()
    def learn_counts(self, counts: Tensor) -> None:
        """Sets how often each item [V] occurs in training, for popularity and for sampling."""
        self.counts.copy_(counts.to(self.counts.dtype))
        if self.output is not None:
            self.output.learn_frequencies(counts)

    def forward(self, history: ItemHistory) -> Tensor:
        """The network's outputs [B,T,E]; the output at position t depends only on the first t items."""
        match self.network:
            case TimeAwareNetwork():
                return self.network(  # type: ignore[no-any-return]
                    history.items, times=history.times, asked=history.asked, behaviours=history.behaviours
                )
            case None:
                raise TypeError("a popularity model has no network to run; call `scores` instead")
            case network:
                state: Any = network.start(len(history.items))
                return network(history.items, state)[0].hidden  # type: ignore[no-any-return]

    def total_loss(self, hidden: Tensor, history: ItemHistory, targets: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """The summed loss of targets [B,T], each the item after that in the history; padding has no loss."""
        assert self.output is not None
        if isinstance(self.output, NegativesOutput) and self.training:
            avoided = torch.cat([history.items[:, :1], targets], dim=1)
            losses = self.output.sampled_losses(hidden, targets, avoided=avoided)
            return losses.masked_fill(targets == PADDING, 0).sum()
        return self.output.total_loss(hidden.flatten(0, 1), targets.flatten(), smoothing=smoothing, ignored=PADDING)

    def scores(self, history: ItemHistory) -> Tensor:
        """[B,V], the log-probability of every item as the next one, in at least float32; −inf for ids without an item.

        For users without history, and for all users if there is no network, it is the logarithm of the item's share of
        the training data, with add-one smoothing.
        """
        popular = self.log_popularity()
        if self.network is None or self.output is None:
            return popular.expand(len(history.items), -1)
        last = at_last(self(history), history.lengths.to(history.items.device))
        logits = wide(self.output.logits(last))
        scores = logits.index_fill(1, torch.arange(FIRST_ITEM, device=logits.device), -torch.inf).log_softmax(dim=1)
        is_empty = (history.lengths == 0).to(scores.device)
        return torch.where(is_empty[:, None], popular.to(scores.dtype), scores)

    def log_popularity(self) -> Tensor:
        """[V], the log of every item's share of the training data, add-one smoothed; −inf for ids without an item."""
        smoothed = exact(self.counts) + 1
        shares = (smoothed / smoothed[FIRST_ITEM:].sum()).log()
        return wide(shares.index_fill(0, torch.arange(FIRST_ITEM, device=shares.device), -torch.inf).to(self._dtype))

    @property
    def _dtype(self) -> torch.dtype:
        return torch.promote_types(self.counts.dtype, torch.float32)


def build_item_output(config: ItemOutputConfig, *, vocabulary_size: int, width: int) -> FullOutput:
    """The output layer that a config describes, for hidden vectors of the given width."""
    match config:
        case FullOutputConfig():
            return FullOutput(vocabulary_size, width=width)
        case SampledOutputConfig():
            return SampledOutput(config, vocabulary_size=vocabulary_size, width=width)
        case NegativesOutputConfig():
            return NegativesOutput(config, vocabulary_size=vocabulary_size, width=width, first=FIRST_ITEM)
        case _:
            assert_never(config)
