"""The loop, its learner, checkpointer, judge and records; optimisers, schedules, checkpoints, ranks.

A run that is killed goes on as if it had not been.
"""
