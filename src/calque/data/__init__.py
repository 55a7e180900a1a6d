"""From corpora on disk to batches: read and check, store, plan, batch; and the built-in phrasebook.

May use text, tensors, config and errors.
"""
