"""Comparison of several systems on one test set: what differs, where, and whether it is significant.

Text, labels or losses in, one JSON document out (`document`); imports neither models nor runs.
"""
