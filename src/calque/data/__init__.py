"""From corpora on disk to batches: read and check, store, plan, batch.

May use text, tensors, config and errors.
"""
