"""Benchmarks: commands that compare contenders in one run, and scripts that measure one thing each.

`python -m benchmarks.train`, `decode` and `prepare` compare Calque with other versions of itself and with other
toolkits (benchmarks/peers); `growth` fits exponents. All run from the root of the repository.
"""
