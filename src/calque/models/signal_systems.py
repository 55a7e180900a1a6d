"""The named systems that read signals: speech recognisers and captioners."""

from typing import Any

from calque.layers.attention import AdditiveAttentionConfig
from calque.models.bahdanau import BahdanauConfig
from calque.models.captioner import CaptionerConfig
from calque.models.images import GridConfig, PatchesConfig
from calque.models.luong import LuongConfig
from calque.models.recogniser import RecogniserConfig
from calque.models.recurrent import RecurrentEncoderConfig
from calque.models.speech_inputs import SubsamplingConfig
from calque.models.system import HALVES, System
from calque.models.transformer import TransformerDecoderConfig, TransformerEncoderConfig

RECOGNISERS: dict[str, System] = {
    "speech": System(
        RecogniserConfig(
            head="ctc", encoder=TransformerEncoderConfig(layers=4, width=144, feed_forward=576, heads=4, dropout=0.1)
        ),
        "a speech recogniser: Transformer, 4 layers, width 144, CTC; train it with --audio",
        "Vaswani et al. 2017, §3; Graves et al. 2006",
        "our own size; pre-norm; the encoder alone",
    ),
    "graves2006": System(
        RecogniserConfig(
            head="ctc",
            subsampling=SubsamplingConfig(layers=0),
            encoder=RecurrentEncoderConfig(layers=1, width=200, embedding=80, dropout=0.0),
        ),
        "a speech recogniser: BiLSTM of 100 in each direction over all frames, CTC",
        "Graves et al. 2006, §4, §5.1",
        "log-mel features instead of cepstral coefficients; SpecAugment; no peephole connections",
    ),
    "chan2016": System(
        RecogniserConfig(
            head="attention",
            subsampling=SubsamplingConfig(layers=3),
            encoder=RecurrentEncoderConfig(layers=3, width=512, embedding=256),
            decoder=LuongConfig(layers=2, width=512, embedding=256, bridge="zero"),
        ),
        "a speech recogniser: BiLSTM, 3 layers of 256 in each direction, attention, LSTM decoder, 2 layers of 512",
        "Chan et al. 2016, §3, §4",
        "convolutions reduce the frames to an eighth, not a pyramid of LSTMs; Luong's attention with input feeding; "
        "SpecAugment",
    ),
    "watanabe2017": System(
        RecogniserConfig(
            head="hybrid",
            ctc_weight=0.2,
            encoder=RecurrentEncoderConfig(layers=4, width=640, embedding=320),
            decoder=LuongConfig(layers=1, width=320, embedding=320, bridge="zero"),
        ),
        "a speech recogniser: BiLSTM, 4 layers of 320 in each direction, CTC and attention decoder together",
        "Watanabe et al. 2017, §III, §IV",
        "our convolutions reduce the frames to a quarter; Luong's attention instead of location-aware attention; "
        "SpecAugment",
    ),
}


def _xu(**attention: Any) -> CaptionerConfig:
    return CaptionerConfig(
        image=GridConfig(stages=3, width=128),
        decoder=BahdanauConfig(
            cell="lstm",
            width=256,
            embedding=128,
            readout=128,
            bridge="tanh",
            attention=AdditiveAttentionConfig(alignment=128, gated=True, **attention),
        ),
        doubly_stochastic=0.0 if attention else 0.1,
    )


_SMALL_IMAGES = (
    "our own size, for small images; a convolutional network of 6 layers that is trained with the rest, in place of a "
    "pretrained VGG; rows and columns are encoded; the readout has maxout units"
)
CAPTIONERS: dict[str, System] = {
    "xu2015": System(
        _xu(),
        "a captioner: convolutions, LSTM of 256 with soft attention, doubly stochastic; train it with --images",
        "Xu et al. 2015, §3, §4.2",
        f"{_SMALL_IMAGES}; the doubly stochastic term has the weight 0.1, not 1",
    ),
    "xu2015-hard": System(
        _xu(choice="hard"),
        "xu2015 with attention to one position of the image, sampled in training",
        "Xu et al. 2015, §3, §4.1",
        f"{_SMALL_IMAGES}; a sample's reward is the log-likelihood of its own word, not of the whole caption",
    ),
    "liu2021": System(
        CaptionerConfig(
            image=PatchesConfig(patch=8, width=128),
            encoder=TransformerEncoderConfig(layers=3, width=128, feed_forward=512, heads=4),
            decoder=TransformerDecoderConfig(layers=2, width=128, feed_forward=512, heads=4),
            tie=True,
        ),
        "a captioner: Transformer, 3+2 layers of 128, over patches of 8 × 8 pixels",
        "Liu et al. 2021, §2",
        f"our own size, for small images; not pretrained; pre-norm; {HALVES}",
    ),
}
