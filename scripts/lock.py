"""Writes requirements.lock, a file for `pip install --require-hashes`; with the standard library only.

Every pin of constraints.txt is looked up in a package index (PEP 503), and the SHA-256 of all files of that version is
written, so that the lock serves every platform and version of Python. torch is left out: people install the build for
their device, CPU or CUDA, from an index of its own, and no hash covers all of them.
"""

import argparse
import re
import sys
import urllib.request
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urldefrag

ROOT = Path(__file__).parents[1]
CONSTRAINTS, LOCK = ROOT / "constraints.txt", ROOT / "requirements.lock"
INDEX = "https://pypi.org/simple"
NOT_LOCKED = {"torch"}
HEADER = """\
# Written by scripts/lock from constraints.txt: every file of each version, by its SHA-256. torch is installed first,
# from the index that has the build for the device:
#   pip install torch==VERSION
#   pip install --require-hashes --no-deps -r requirements.lock
#   pip install --no-deps .
"""


class Pin(NamedTuple):
    """A distribution and its version."""

    name: str
    version: str


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.targets += [value for name, value in attrs if tag == "a" and name == "href" and value]


def pins(text: str) -> list[Pin]:
    """The pins of a constraints file, in its order."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [Pin(*line.split("==")) for line in lines if line]


def normalised(name: str) -> str:
    """A name as indexes spell it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def hashes(page: str, pin: Pin) -> list[str]:
    """The SHA-256 of each file of a version, sorted; a page of the index links `FILE#sha256=HASH`."""
    links = _Links()
    links.feed(page)
    found = set()
    for target in links.targets:
        address, fragment = urldefrag(target)
        file = unquote(address.rpartition("/")[2])
        if _is_of(file, pin) and fragment.startswith("sha256="):
            found.add(fragment.removeprefix("sha256="))
    return sorted(found)


def _is_of(file: str, pin: Pin) -> bool:
    """Whether a wheel or a source archive is of this version."""
    stem = re.sub(r"\.(whl|tar\.gz|zip|tar\.bz2)$", "", file)
    if file.endswith(".whl"):
        name, version, *_ = stem.split("-")
    else:
        name, _, version = stem.rpartition("-")
    return stem != file and normalised(name) == normalised(pin.name) and version == pin.version


def lock(constraints: str, *, fetch: Callable[[str], str]) -> str:
    """The text of requirements.lock; `fetch` returns the page of a distribution in the index."""
    lines = [HEADER]
    for pin in pins(constraints):
        if normalised(pin.name) in NOT_LOCKED:
            continue
        found = hashes(fetch(normalised(pin.name)), pin)
        if not found:
            raise SystemExit(f"{pin.name} {pin.version}: the index has no file of this version")
        lines.append(" \\\n    ".join([f"{pin.name}=={pin.version}", *(f"--hash=sha256:{value}" for value in found)]))
        lines.append("\n")
    return "".join(lines)


def problems(constraints: str, locked: str) -> Iterator[str]:
    """The differences between a lock and the constraints; needs no network."""
    expected = {
        normalised(pin.name): pin.version for pin in pins(constraints) if normalised(pin.name) not in NOT_LOCKED
    }
    rows = re.findall(r"^([\w.-]+)==([^\s\\]+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", locked, re.MULTILINE)
    actual = {normalised(name): version for name, version, _ in rows}
    for name in sorted(expected.keys() | actual.keys()):
        if expected.get(name) != actual.get(name):
            yield f"{name}: {expected.get(name, 'not')} in constraints.txt, {actual.get(name, 'not')} in {LOCK.name}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write requirements.lock from constraints.txt and a package index.")
    parser.add_argument("--index", default=INDEX, help=f"the package index (default: {INDEX})")
    parser.add_argument("--check", action="store_true", help="only compare the pins; needs no network")
    options = parser.parse_args()
    constraints = CONSTRAINTS.read_text(encoding="utf-8")
    if options.check:
        found = list(problems(constraints, LOCK.read_text(encoding="utf-8")))
        sys.exit("\n".join([*found, "run scripts/lock"]) if found else 0)

    def fetch(name: str) -> str:
        request = urllib.request.Request(f"{options.index}/{name}/", headers={"Accept": "text/html"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            text: str = answer.read().decode()
        return text

    LOCK.write_text(lock(constraints, fetch=fetch), encoding="utf-8")


if __name__ == "__main__":
    main()
