"""The errors that a benchmark command reports as one message with an exit code."""


class BenchmarkError(Exception):
    """A mistake in the options of a benchmark."""

    code = 2


class ContenderError(BenchmarkError):
    """A contender's process failed, or its output cannot be read."""

    code = 1
