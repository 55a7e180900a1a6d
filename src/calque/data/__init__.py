"""From corpora on disk to batches: corpora are read, checked and stored as ids, and batches are planned and collated.

It may import text, folders, tensors, config, parsing and errors.
"""
