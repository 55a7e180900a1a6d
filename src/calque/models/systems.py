"""Named systems: a model config under the name of its paper, or under a size of our own."""

from typing import NamedTuple

from calque.layers.attention import AdditiveAttentionConfig
from calque.models.bahdanau import BahdanauConfig
from calque.models.luong import LuongConfig
from calque.models.model import ModelConfig
from calque.models.recurrent import RecurrentEncoderConfig
from calque.models.transformer import TransformerDecoderConfig, TransformerEncoderConfig


class System(NamedTuple):
    """A model to train by name."""

    model: ModelConfig
    summary: str
    paper: str = ""
    departures: str = ""  # where it is not what the paper has


def _transformer(*, layers: int, width: int, feed_forward: int, heads: int) -> ModelConfig:
    return ModelConfig(
        tie="all",
        encoder=TransformerEncoderConfig(layers=layers, width=width, feed_forward=feed_forward, heads=heads),
        decoder=TransformerDecoderConfig(layers=layers, width=width, feed_forward=feed_forward, heads=heads),
    )


SYSTEMS: dict[str, System] = {
    "tiny": System(
        _transformer(layers=2, width=128, feed_forward=512, heads=4),
        "Transformer, 2+2 layers, width 128: minutes on a laptop",
        "Vaswani et al. 2017, §3",
        "pre-norm; our own size",
    ),
    "small": System(
        _transformer(layers=3, width=256, feed_forward=1024, heads=4),
        "Transformer, 3+3 layers, width 256: tens of thousands of pairs",
        "Vaswani et al. 2017, §3",
        "pre-norm; our own size",
    ),
    "base": System(
        _transformer(layers=6, width=512, feed_forward=2048, heads=8),
        "Transformer, 6+6 layers, width 512: millions of pairs, on a GPU",
        "Vaswani et al. 2017, §3",
        "pre-norm where the paper has post-norm",
    ),
    "luong2015": System(
        ModelConfig(
            encoder=RecurrentEncoderConfig(layers=4, width=1000, embedding=1000, bidirectional=False),
            decoder=LuongConfig(layers=4, width=1000, embedding=1000),
        ),
        "LSTM, 4 layers of 1,000, global attention (general), input feeding",
        "Luong et al. 2015, §3.1, §3.3, §4.1",
        "subwords instead of 50,000 words; the source is not reversed",
    ),
    "bahdanau2015": System(
        ModelConfig(
            encoder=RecurrentEncoderConfig(
                cell="gru-original", layers=1, width=2000, embedding=620, bidirectional=True, dropout=0.0
            ),
            decoder=BahdanauConfig(
                width=1000,
                embedding=620,
                readout=500,
                dropout=0.0,
                attention=AdditiveAttentionConfig(alignment=1000),
            ),
        ),
        "GRU of 1,000 in each direction, additive attention, maxout readout of 500",
        "Bahdanau et al. 2015, §3, A.1, A.2",
        "subwords instead of 30,000 words",
    ),
}
