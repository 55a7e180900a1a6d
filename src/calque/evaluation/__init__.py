"""Evaluation: metrics, significance tests, calibration of confidence, degenerate output, minimum Bayes risk.

Everything here takes texts and returns scores, without models or training. Metrics of sacreBLEU carry its signature.
"""
