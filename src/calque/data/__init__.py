"""From corpora on disk to batches: reading and checking, storing, planning, collating.

May use text, tensors, config and errors.
"""
