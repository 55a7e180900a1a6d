"""Calque: sequence-to-sequence models, from the plain encoder-decoder to the Transformer, on one small core."""

__version__ = "0.1.0"
