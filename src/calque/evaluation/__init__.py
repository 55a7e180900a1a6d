"""Metrics with their signatures, on sacreBLEU.

Text in, figures out; no torch needed.
"""
