"""Benchmarks: `python -m benchmarks.train` and `python -m benchmarks.decode` compare contenders in one run.

The other scripts measure one thing each: `python -m benchmarks.startup`. All run from the root of the repository.
"""
