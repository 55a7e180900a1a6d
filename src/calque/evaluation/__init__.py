"""Evaluation: metrics, significance tests, calibration of confidence, degenerate output, minimum Bayes risk.

Functions take the outputs of models, such as texts, labels, ranks or vectors, but never a model. Metrics of sacreBLEU
carry its signature.
"""
