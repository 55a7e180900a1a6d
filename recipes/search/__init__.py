"""Measurements of search: beam widths, scores, stopping, constraints, and independence of the batch."""
