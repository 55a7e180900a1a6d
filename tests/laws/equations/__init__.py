"""A second implementation of every family's equations: one sentence, position, head and vector at a time.

It shares nothing with the models but their weights.
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
from tests.laws.equations.shared import DecoderOutput
from tests.laws.equations.transformer import embed as transformer_embed
from tests.laws.equations.transformer import transformer_decoder, transformer_encoder


def read(model: Model, source: list[int], target: list[int]) -> DecoderOutput:
    """The output of a model for `source` and `target` according to the papers."""
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
    raise NotImplementedError(f"implement the equations of {type(decoder).__name__} here")


def encode(encoder, source: list[int]):
    """The memory, one vector per source token, and the final states, one per layer."""
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
    raise NotImplementedError(f"implement the equations of {type(encoder).__name__} here")


def inputs(encoder, source: list[int]):
    """The source embeddings as the encoder reads them, including added positions."""
    match encoder:
        case ConvolutionalEncoder():
            return convolutional_encoder(encoder, source)[1]
        case TransformerEncoder():
            return transformer_embed(encoder.embedding, source)
    return [encoder.embedding.weight[token] for token in source]
