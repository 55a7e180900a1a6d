"""One thin file for each subcommand; the library does the work.

Torch is imported inside a command, so that --help is fast.
"""
