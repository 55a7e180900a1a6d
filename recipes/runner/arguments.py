"""Command lines: a parser that shows a module's docstring, and KEY=VALUE settings among the arguments."""

import argparse
import re
from collections.abc import Sequence

ASSIGNMENT = re.compile(r"[a-z_]+(\.[a-z_]+)+=.*", re.DOTALL)


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """A parser whose help shows a module's docstring as it is written."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def split_assignments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits arguments into ordinary ones and KEY=VALUE settings.

    >>> split_assignments(["corpus", "training.steps=5", "--jobs", "2"])
    (['corpus', '--jobs', '2'], ['training.steps=5'])
    """
    settings = [argument for argument in arguments if ASSIGNMENT.fullmatch(argument)]
    return [argument for argument in arguments if not ASSIGNMENT.fullmatch(argument)], settings
