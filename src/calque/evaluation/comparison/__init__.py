"""Comparison of several systems on one test set: what differs, where, and whether it is significant.

Each comparison takes outputs of the systems (texts, labels, ranks or losses) and returns one JSON document. The
package imports neither models nor runs.
"""
