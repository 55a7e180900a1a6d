"""Evaluation: metrics (sacreBLEU's have signatures), significance, confidence, degeneration, minimum Bayes risk.

Text in, scores out; never imports models or training.
"""
