"""The lock fits the constraints and has a hash for everything; the bill of materials is CycloneDX."""

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LOCK, BILL = script("lock"), script("sbom")
PAGE = "\n".join(
    f'<a href="../../files/{file}#sha256={digit * 64}">{file}</a>'
    for file, digit in {
        "some_name-1.0-py3-none-any.whl": "b",
        "some.name-1.0.tar.gz": "a",
        "some_name-1.0.1-py3-none-any.whl": "c",
        "some_name_more-1.0-py3-none-any.whl": "d",
        "some_name-1.0-py3-none-any.whl.metadata": "e",
    }.items()
)


def test_the_lock_fits_the_constraints() -> None:
    """After a change of constraints.txt: scripts/lock."""
    constraints, locked = ((ROOT / name).read_text() for name in ("constraints.txt", "requirements.lock"))
    assert list(LOCK.problems(constraints, locked)) == []
    pins = LOCK.pins(constraints)
    assert "torch" in {pin.name for pin in pins}
    assert len(re.findall(r"^\S+==", locked, re.MULTILINE)) == len(pins) - 1  # all but torch
    changed = constraints.replace("numpy==", "numpy==0.")
    assert [line.partition(":")[0] for line in LOCK.problems(changed, locked)] == ["numpy"]
    unhashed = re.sub(r"(idna==\S+)( \\\n    --hash=\S+)+", r"\1", locked)
    assert [line.partition(":")[0] for line in LOCK.problems(constraints, unhashed)] == ["idna"]


def test_every_direct_requirement_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = [
        *project["dependencies"],
        *(name for extra in project["optional-dependencies"].values() for name in extra),
    ]
    names = {LOCK.normalised(re.split(r"[^\w.-]", text)[0]) for text in required}
    assert names <= {LOCK.normalised(pin.name) for pin in LOCK.pins((ROOT / "constraints.txt").read_text())}


def test_a_lock_has_the_files_of_the_pinned_version_only() -> None:
    text = LOCK.lock("# a comment\nSome.Name==1.0\ntorch==9\n", fetch={"some-name": PAGE}.__getitem__)
    rows = [line for line in text.splitlines() if not line.startswith("#")]
    assert rows == ["Some.Name==1.0 \\", f"    --hash=sha256:{'a' * 64} \\", f"    --hash=sha256:{'b' * 64}"]
    with pytest.raises(SystemExit, match=r"Some.Name 2: the index has no file"):
        LOCK.lock("Some.Name==2\n", fetch={"some-name": PAGE}.__getitem__)


def test_the_bill_of_materials_is_cyclonedx() -> None:
    """The required fields of the specification (1.6), references that lead somewhere, and the same bytes again."""
    outputs = [
        subprocess.run([sys.executable, ROOT / "scripts" / "sbom.py"], capture_output=True, check=True).stdout
        for _ in range(2)
    ]
    assert outputs[0] == outputs[1]
    bill = json.loads(outputs[0])
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bill["serialNumber"])
    components = [bill["metadata"]["component"], *bill["components"]]
    for component in components:
        assert component["type"] in ("application", "library")
        assert component["name"] and component["version"]
        assert component["purl"] == component["bom-ref"]
        assert re.fullmatch(r"pkg:pypi/[a-z0-9-]+@[\w.%!-]+", component["purl"])
        listed = component.get("licenses", [])
        assert all(list(entry) == ["expression"] for entry in listed) or all(
            entry["license"]["name"] for entry in listed
        )
        assert len(listed) == 1 or not any("expression" in entry for entry in listed)
    references = [component["bom-ref"] for component in components]
    assert len(set(references)) == len(references)
    assert {entry["ref"] for entry in bill["dependencies"]} == set(references)
    assert all(set(entry["dependsOn"]) <= set(references) for entry in bill["dependencies"])
    names = {component["name"] for component in components}
    assert {"calque", "torch", "numpy", "sentencepiece", "safetensors", "markupsafe"} <= names


def test_requirements_of_extras_are_the_roots_only() -> None:
    class Stand:
        requires = ("numpy>=1; python_version > '3'", "rich", 'pytest>=8; extra == "test"', "Some_Name[x]>2")

    assert BILL.required(Stand(), extras=False) == {"numpy", "rich", "some-name"}
    assert BILL.required(Stand(), extras=True) == {"numpy", "rich", "some-name", "pytest"}
