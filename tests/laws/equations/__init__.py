"""Every family's equations written out a second time: one sentence, one position, one head, one vector at a time.

Nothing here is shared with the models but their weights.
"""

from calque.models.bag_of_words import BagOfWordsEncoder
from calque.models.bahdanau import BahdanauDecoder
from calque.models.cho import ChoDecoder
from calque.models.convolutional import ConvolutionalDecoder, ConvolutionalEncoder
from calque.models.gnmt import GnmtDecoder
from calque.models.luong import LuongDecoder
from calque.models.model import Model
from calque.models.recurrent import RecurrentDecoder, RecurrentEncoder
from calque.models.transformer import TransformerDecoder, TransformerEncoder
from tests.laws.equations.attention import bahdanau, gnmt, luong
from tests.laws.equations.convolutional import convolutional_decoder, convolutional_encoder, mean_encoder
from tests.laws.equations.recurrent import cho, recurrent_encoder, sutskever
from tests.laws.equations.shared import Read
from tests.laws.equations.transformer import embed as transformer_embed
from tests.laws.equations.transformer import transformer_decoder, transformer_encoder


def read(model: Model, source: list[int], target: list[int]) -> Read:
    """What the papers say a model computes when it reads `target` after `source`."""
    memory, finals = encode(model.encoder, source)
    decoder = model.decoder
    match decoder:
        case RecurrentDecoder():
            return sutskever(decoder, target, finals)
        case ChoDecoder():
            return cho(decoder, target, finals)
        case GnmtDecoder():
            return gnmt(decoder, target, memory, finals)
        case LuongDecoder():
            return luong(decoder, target, memory, finals)
        case BahdanauDecoder():
            return bahdanau(decoder, target, memory, finals)
        case ConvolutionalDecoder():
            return convolutional_decoder(decoder, target, memory, inputs(model.encoder, source))
        case TransformerDecoder():
            return transformer_decoder(decoder, target, memory)
    raise NotImplementedError(f"write the equations of {type(decoder).__name__} down here")


def encode(encoder, source: list[int]):
    """The memory, a vector a source token, and the last states, a layer each."""
    match encoder:
        case RecurrentEncoder():
            return recurrent_encoder(encoder, source)
        case ConvolutionalEncoder():
            memory, _ = convolutional_encoder(encoder, source)
            return memory, [(sum(memory) / len(memory),)]
        case BagOfWordsEncoder():
            return mean_encoder(encoder, source)
        case TransformerEncoder():
            memory = transformer_encoder(encoder, source)
            return memory, [(sum(memory) / len(memory),)]
    raise NotImplementedError(f"write the equations of {type(encoder).__name__} down here")


def inputs(encoder, source: list[int]):
    """The source embeddings as the encoder reads them, with positions where it has any."""
    match encoder:
        case ConvolutionalEncoder():
            return convolutional_encoder(encoder, source)[1]
        case TransformerEncoder():
            return transformer_embed(encoder.embedding, source)
    return [encoder.embedding.weight[token] for token in source]
