"""Decoding, from token probabilities to hypotheses: greedy search, beam search, sampling, scoring, ensembles.

Depends on a `Step`, never on a model.
"""
