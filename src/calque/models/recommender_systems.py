"""The named systems that recommend items."""

from calque.layers.negatives import NegativesOutputConfig
from calque.models.language_model import RecurrentLanguageConfig, TransformerLanguageConfig
from calque.models.recommender import PopularityConfig, RecommenderConfig
from calque.models.system import System
from calque.models.time_aware import TimeAwareConfig

RECOMMENDERS: dict[str, System] = {
    "kang2018": System(
        RecommenderConfig(
            network=TransformerLanguageConfig(
                layers=2,
                width=64,
                heads=1,
                feed_forward=64,
                positions="learned",
                maximum_positions=256,
                dropout=0.5,
                attention_dropout=0.5,
            )
        ),
        "a recommender: SASRec, causal self-attention over items, 2 layers of 64; train it with --sequences",
        "Kang and McAuley 2018, §3, §4",
        "cross-entropy over the whole catalogue instead of binary cross-entropy with one negative "
        "(model.output.kind=negatives); width 64 instead of 50; positions are counted from the first item read, not "
        "from the last; the output layer has a bias",
    ),
    "hidasi2016": System(
        RecommenderConfig(
            tie=False,
            network=RecurrentLanguageConfig(cell="gru", layers=1, width=100, embedding=100, dropout=0.2),
            output=NegativesOutputConfig(loss="pairwise", negatives=32, sampling="frequency"),
        ),
        "a recommender: GRU4Rec, GRU of 100, pairwise ranking loss",
        "Hidasi et al. 2016, §3",
        "item vectors instead of one-hot inputs; negatives are sampled by frequency instead of taken from the batch; "
        "dropout",
    ),
    "zhou2018": System(
        RecommenderConfig(network=TimeAwareConfig()),
        "a recommender: after ATRank, self-attention with time buckets and behaviour types; needs records with both",
        "Zhou et al. 2018, §3",
        "causal, trained to predict every item of a history by cross-entropy over the catalogue, not one item by a "
        "binary loss; behaviour types are added as vectors, without a space of their own",
    ),
    "popularity": System(
        RecommenderConfig(network=PopularityConfig()),
        "a recommender: the most frequent items, the same for every user; a baseline without a network",
        "the usual baseline, e.g. Kang and McAuley 2018, §4.2",
    ),
}
