"""Associative recall with a key-value memory."""
