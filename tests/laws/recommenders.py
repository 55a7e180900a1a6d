"""The list of all recommenders, which every law of recommendation is tested on."""

import torch

from calque.layers.negatives import NegativesOutputConfig
from calque.layers.sampled import SampledOutputConfig
from calque.models.language_model import RecurrentLanguageConfig, TransformerLanguageConfig
from calque.models.recommender import (
    FIRST_ITEM,
    ItemHistory,
    PopularityConfig,
    RecommenderConfig,
    RecommenderModel,
)
from calque.models.time_aware import TimeAwareConfig

# Sizes are pairwise coprime, so that a tensor reshaped the wrong way fails.
USERS, ITEMS, VOCABULARY, BEHAVIOURS = 3, 7, 17, 8

_TRANSFORMER = TransformerLanguageConfig(
    layers=2, width=8, heads=2, feed_forward=12, positions="learned", maximum_positions=10
)
_TIMED = TimeAwareConfig(layers=2, width=8, heads=2, feed_forward=12, buckets=9)
RECOMMENDERS: dict[str, RecommenderConfig] = {
    "popularity": RecommenderConfig(network=PopularityConfig()),
    "gru": RecommenderConfig(
        tie=False, network=RecurrentLanguageConfig(cell="gru", layers=1, width=6, embedding=5, dropout=0.1)
    ),
    "gru-pairwise": RecommenderConfig(
        network=RecurrentLanguageConfig(cell="gru", layers=2, width=6, embedding=5),
        output=NegativesOutputConfig(loss="pairwise", negatives=3, sampling="frequency"),
    ),
    "transformer": RecommenderConfig(network=_TRANSFORMER),
    "transformer-untied": RecommenderConfig(tie=False, network=_TRANSFORMER),
    "transformer-binary": RecommenderConfig(network=_TRANSFORMER, output=NegativesOutputConfig()),
    "transformer-sampled": RecommenderConfig(network=_TRANSFORMER, output=SampledOutputConfig(samples=5)),
    "rotary": RecommenderConfig(
        network=TransformerLanguageConfig(layers=1, width=8, heads=2, feed_forward=12, positions="rotary")
    ),
    "time-aware": RecommenderConfig(network=_TIMED),
    "time-aware-without-times": RecommenderConfig(network=_TIMED.model_copy(update={"times": False})),
    "time-aware-without-behaviours": RecommenderConfig(network=_TIMED.model_copy(update={"behaviours": False})),
}
NETWORKS = sorted(set(RECOMMENDERS) - {"popularity"})


def build(name: str, *, seed: int = 0) -> RecommenderModel:
    """A recommender of the list in evaluation mode and float64, with weights large enough that every part matters."""
    torch.manual_seed(seed)
    model = RecommenderModel(RECOMMENDERS[name], vocabulary_size=VOCABULARY, behaviours=BEHAVIOURS).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter) * 0.7)
    counts = torch.randint(0, 50, (VOCABULARY,))
    counts[:FIRST_ITEM] = 0
    model.learn_counts(counts)
    return model


def source(seed: int = 0) -> ItemHistory:
    """Random histories of different length, whose padding is random too."""
    generator = torch.Generator().manual_seed(seed)

    def numbers(low: int, high: int, size: int = ITEMS) -> torch.Tensor:
        return torch.randint(low, high, (USERS, size), generator=generator)

    times = numbers(0, 60, ITEMS + 1).cumsum(dim=1)
    return ItemHistory(
        numbers(FIRST_ITEM, VOCABULARY),
        torch.tensor([ITEMS, 4, 2]),
        times[:, :-1],
        times[:, 1:],
        numbers(FIRST_ITEM, BEHAVIOURS),
    )


def select(history: ItemHistory, rows: list[int], *, size: int | None = None) -> ItemHistory:
    """Some rows of histories, cut to `size` items."""
    width = size or history.items.shape[1]
    parts = (history.items, history.times, history.asked, history.behaviours)
    items, times, asked, behaviours = (None if part is None else part[rows, :width] for part in parts)
    assert items is not None
    return ItemHistory(items, history.lengths[rows], times, asked, behaviours)
