"""Processes lines of Python: hides strings behind placeholders, and checks whether a completed line parses."""

import ast
import re
import warnings
from collections.abc import Sequence
from typing import NamedTuple

STRING = re.compile(r'(?<!\w)"[^"]*"|(?<!\w)\'[^\']*\'(?!\w)')
WORD = re.compile(r"\w+|[^\w\s]")
_CONTINUATIONS = {
    "elif": "if True:\n pass\n",
    "else": "if True:\n pass\n",
    "except": "try:\n pass\n",
    "finally": "try:\n pass\n",
}


class Hidden(NamedTuple):
    """A description whose strings are replaced by placeholders, and the strings."""

    text: str
    strings: tuple[str, ...]


def hide_strings(description: str) -> Hidden:
    """Replaces the quoted strings of a description by placeholders; equal strings share one.

    >>> hide_strings("raise an exception with 'no key' and 'no key' as arguments")
    Hidden(text='raise an exception with _str0_ and _str0_ as arguments', strings=("'no key'",))
    """
    strings: dict[str, str] = {}

    def placeholder(match: re.Match[str]) -> str:
        return strings.setdefault(match[0], f"_str{len(strings)}_")

    text = STRING.sub(placeholder, description)
    return Hidden(text, tuple(strings))


def hide_in_code(code: str, strings: Sequence[str]) -> str:
    """Replaces the strings of a description in its code by their placeholders, whatever their quotation marks.

    >>> hide_in_code('return "no key" , 1', ["'no key'"])
    'return _str0_ , 1'
    """
    for number, string in enumerate(strings):
        content = string[1:-1]
        for quoted in (string, f"'{content}'", f'"{content}"'):
            code = code.replace(quoted, f"_str{number}_")
    return code


def show_strings(code: str, strings: Sequence[str]) -> str:
    """Replaces the placeholders in code by the strings of the description.

    This is the inverse of `hide_in_code` for strings with the same quotation marks in both.
    """
    for number, string in enumerate(strings):
        code = code.replace(f"_str{number}_", string)
    return code


def words(description: str) -> str:
    """A description split into words and punctuation marks, so that names can be copied.

    >>> words("from django.conf import settings.")
    'from django . conf import settings .'
    """
    return " ".join(WORD.findall(description))


def is_header(code: str) -> bool:
    """Whether a line opens a block, such as `if x :`."""
    return code.rstrip().endswith(":")


def completed(code: str) -> str:
    """A line of Python completed to a module: blocks get a body, `else:` its if, `return` its function.

    >>> print(completed("else :"))
    if True:
     pass
    else :
     pass
    """
    line = code.strip()
    first = re.match(r"\w*", line)
    keyword = first[0] if first else ""
    if line.startswith("@"):
        return f"{line}\ndef f():\n pass"
    body = f"{line}\n pass" if is_header(line) else line
    if keyword in _CONTINUATIONS and is_header(line):
        return f"{_CONTINUATIONS[keyword]}{body}"
    if keyword == "try" and is_header(line):
        return f"{body}\nfinally:\n pass"
    if keyword in ("break", "continue"):
        return f"while True:\n {line}"
    if keyword in ("return", "nonlocal") or re.search(r"\b(yield|await)\b", line):
        indented = "\n ".join(body.split("\n"))
        return f"async def f():\n {indented}" if "await" in line else f"def f():\n {indented}"
    return body


def parses(code: str) -> bool:
    """Whether a line is valid Python once it is completed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as invalid escapes, which are still Python
            ast.parse(completed(code))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return bool(code.strip())
