"""Evaluation of translations: sacreBLEU metrics with signatures, confidence, degeneration, minimum Bayes risk.

Text in, scores out; never imports models or training.
"""
