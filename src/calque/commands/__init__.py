"""One thin module for each subcommand. The library does the work.

Torch is imported inside a command, so that --help is fast.
"""
