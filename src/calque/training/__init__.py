"""The training loop, checkpointing, model selection, records, optimisers, schedules and distributed training.

A run that is killed and resumed ends as if it had not been killed.
"""
