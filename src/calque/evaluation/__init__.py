"""Evaluation of translations: sacreBLEU metrics with signatures, confidence, degeneration, minimum Bayes risk.

Text in, scores out; sees neither models nor training.
"""
