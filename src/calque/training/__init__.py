"""The loop: optimisers, schedules, checkpoints, events, validation.

A run that is killed goes on as if it had not been.
"""
