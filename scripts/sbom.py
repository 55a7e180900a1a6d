"""Prints a software bill of materials: Calque and every installed distribution that it depends on, directly or not.

CycloneDX 1.6 in JSON (https://cyclonedx.org), from the metadata of what is installed, with the standard library only.
The same environment gives the same bytes: there is no time in it, and its serial number is a function of its content.
"""

import json
import re
import sys
import uuid
from importlib import metadata
from typing import Any

ROOT = "calque"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OPTIONAL = re.compile(r"\bextra\s*==")


def normalised(name: str) -> str:
    """A name as package URLs spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def required(distribution: metadata.Distribution, *, extras: bool) -> set[str]:
    """The names that a distribution requires, with those of its extras on request."""
    names = set()
    for text in distribution.requires or []:
        requirement, _, marker = text.partition(";")
        if (match := _NAME.match(requirement)) and (extras or not _OPTIONAL.search(marker)):
            names.add(normalised(match[0]))
    return names


def closure(root: str) -> dict[str, tuple[metadata.Distribution, set[str]]]:
    """The root and all that it depends on, where it is installed, each with the names that it requires."""
    installed = {normalised(each.metadata["Name"]): each for each in metadata.distributions() if each.metadata["Name"]}
    if root not in installed:
        sys.exit(f"{root} is not installed here: pip install -e .")
    found: dict[str, tuple[metadata.Distribution, set[str]]] = {}
    waiting = [root]
    while waiting:
        name = waiting.pop()
        if name not in found and name in installed:
            names = required(installed[name], extras=name == root) & installed.keys()
            found[name] = installed[name], names
            waiting += names
    return dict(sorted(found.items()))


def reference(name: str, version: str) -> str:
    """The package URL of a distribution."""
    return f"pkg:pypi/{name}@{version.replace('+', '%2B')}"


def licences(distribution: metadata.Distribution) -> list[dict[str, Any]]:
    """The licence of a distribution: an expression, else its classifiers, else a short text."""
    values = distribution.metadata
    if expression := values.get("License-Expression"):
        return [{"expression": expression}]
    classifiers = [text.rpartition(" :: ")[2] for text in values.get_all("Classifier") or [] if "License ::" in text]
    text = values.get("License") or ""
    names = classifiers or ([text] if 0 < len(text) <= 100 and "\n" not in text else [])
    return [{"license": {"name": name}} for name in names]


def component(name: str, distribution: metadata.Distribution) -> dict[str, Any]:
    url = reference(name, distribution.version)
    kind = "application" if name == ROOT else "library"
    values = {"type": kind, "bom-ref": url, "name": name, "version": distribution.version, "purl": url}
    summary = distribution.metadata.get("Summary")
    described = {"description": summary} if summary and summary != "UNKNOWN" else {}
    listed = licences(distribution)
    return {**values, **described, **({"licenses": listed} if listed else {})}


def bill() -> dict[str, Any]:
    """The software bill of materials as JSON values."""
    parts = closure(ROOT)
    urls = {name: reference(name, distribution.version) for name, (distribution, _) in parts.items()}
    components = {name: component(name, distribution) for name, (distribution, _) in parts.items()}
    body = {
        "metadata": {"component": components.pop(ROOT)},
        "components": list(components.values()),
        "dependencies": [
            {"ref": urls[name], "dependsOn": sorted(urls[other] for other in names if other != name)}
            for name, (_, names) in parts.items()
        ],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}", "version": 1}
    return {**head, **body}


if __name__ == "__main__":
    print(json.dumps(bill(), indent=1, ensure_ascii=False))
