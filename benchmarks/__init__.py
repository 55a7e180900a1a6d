"""Benchmarks: `python -m benchmarks.train` and `python -m benchmarks.decode` compare contenders in one run.

Scripts that measure one thing each are run by path: `python benchmarks/startup.py`. A module here must not have the
name of one in Python's standard library: to those scripts it would hide the library's.
"""
