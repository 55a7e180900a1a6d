"""Imports only go down (DESIGN §3): read from the source without running it; the reader is tried on a made-up house."""

import ast
import graphlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import calque
import calque_phrasebook
import calque_scenes

STOREYS: list[set[str]] = [
    {"calque", "__main__"},  # the door: calque/__init__.py and calque/__main__.py
    {"commands"},
    {"experiment", "calque_phrasebook", "calque_scenes"},  # two packages of their own, which only commands use
    {"inspection", "serving", "export"},
    {"training", "engine"},
    {"tasks"},
    {"evaluation", "objectives", "statistics"},
    {"models", "search", "data"},
    {"layers", "text"},
    {"native"},
    {"tensors", "config", "folders", "devices", "web"},
    {"errors", "parsing", "memory"},
]
BESIDE = {("data", "text")}
NEVER = {("models", "text")}
ONLY = {
    "calque_phrasebook": {"errors"},
    "calque_scenes": {"errors"},
    "web": {"errors"},
}  # rooms that know far less than their storey would allow
NO_TORCH = {"text", "config", "folders", "errors", "parsing", "memory", "web", "calque_phrasebook", "statistics"}
NO_TORCH |= {"calque_scenes"}
OURS = {"calque", "calque_phrasebook", "calque_scenes"}
BUT_THESE = {"calque.folders.weights"}  # modules of such rooms that may
STARTS_FAST = {"calque", "commands"}
# Slow to import: two parts of torch take half as long as the rest, sacrebleu a tenth of the start of `calque translate`
RARELY_USED = {"torch.distributed.fsdp", "torch.distributed.tensor", "sacrebleu"}
OPTIONAL = {
    "matplotlib",
    "tensorboard",
    "torch.utils.tensorboard",
    "zstandard",
    "compression",
    "rouge_score",
    "soundfile",
}
OPTIONAL |= {"PIL"}

Sources = dict[str, str]  # module → its text; a package stands under its own name


class Import(NamedTuple):
    """One imported module, and where."""

    module: str
    imported: str
    line: int
    inside: bool  # a function


def imports(sources: Sources, *, packages: set[str]) -> Iterator[Import]:
    """Every import of every module; `from calque import tensors` is of the module it names."""
    for module, text in sources.items():
        tree = ast.parse(text)
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        inside = {id(node) for function in functions for node in ast.walk(function)}
        for node in ast.walk(tree):
            for imported in imported_modules(node, module=module, sources=sources, packages=packages):
                yield Import(module, imported, node.lineno, id(node) in inside)  # type: ignore[attr-defined]


def imported_modules(node: ast.AST, *, module: str, sources: Sources, packages: set[str]) -> list[str]:
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom():
            start = node.module or ""
            if node.level:
                parts = module.split(".") if module in packages else module.split(".")[:-1]
                start = ".".join([*parts[: len(parts) - node.level + 1], *start.split(".")]).rstrip(".")
            if start == "calque" and all(alias.name.startswith("__") for alias in node.names):
                return []  # the version
            names = [f"{start}.{alias.name}" for alias in node.names]
            return sorted({name if name in sources else start for name in names})
        case _:
            return []


def room(module: str) -> str:
    """The room a module of ours is in: calque.text.words is in `text`; another package is a room of its own."""
    package, *inner = module.split(".")
    return inner[0] if inner and package == "calque" else package


def storey(name: str) -> int | None:
    return next((number for number, rooms in enumerate(STOREYS) if name in rooms), None)


def violations(sources: Sources, *, packages: set[str]) -> list[str]:
    """Every import that the layering forbids, one per line."""
    all_imports = list(imports(sources, packages=packages))
    ours = [item for item in all_imports if item.imported.split(".")[0] in OURS]
    wrong = [f"{module}: no storey has a room {room(module)!r}" for module in sources if storey(room(module)) is None]
    wrong += [_line(item, reason) for item in ours if (reason := _direction(item))]
    wrong += [_line(item, "inside a function") for item in all_imports if item.inside and not _may_hide(item)]
    torchless = [item for item in _torch(all_imports) if room(item.module) in NO_TORCH and item.module not in BUT_THESE]
    wrong += [_line(item, "this room knows no torch") for item in torchless]
    return wrong + _cycles(ours)


def _line(place: Import, reason: str) -> str:
    return f"{place.module}:{place.line} imports {place.imported}: {reason}"


def _direction(item: Import) -> str | None:
    importer_room, imported_room = room(item.module), room(item.imported)
    above, below = storey(importer_room), storey(imported_room)
    if importer_room == imported_room or above is None:
        return None
    if below is None:
        return "there is no such room"
    if (importer_room, imported_room) in NEVER or imported_room not in ONLY.get(importer_room, {imported_room}):
        return "forbidden"
    if (importer_room, imported_room) in BESIDE:
        return None
    return None if above < below else "upwards" if above > below else "beside"


def _may_hide(item: Import) -> bool:
    """May stand inside a function: optional packages and rarely used parts of torch, which would delay every start.

    Where a command must start fast, also torch and what needs it.
    """
    names = OPTIONAL | RARELY_USED
    optional = any(item.imported == name or item.imported.startswith(f"{name}.") for name in names)
    optional = optional or item.imported.endswith("_kernel")  # needs Triton, which comes with torch for GPUs alone
    return optional or (room(item.module) in STARTS_FAST and item.imported.split(".")[0] in (*OURS, "torch"))


def _torch(all_imports: list[Import]) -> list[Import]:
    """The imports that bring torch with them, directly or through other modules of ours."""
    heavy: set[str] = set()
    while True:
        bring = [item for item in all_imports if item.imported in heavy or item.imported.split(".")[0] == "torch"]
        modules = {item.module for item in bring if not item.inside}
        if modules <= heavy:
            return bring
        heavy |= modules


def _cycles(ours: list[Import]) -> list[str]:
    needs: dict[str, set[str]] = {}
    for item in ours:
        if item.module != item.imported:
            needs.setdefault(item.module, set()).add(item.imported)
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as error:
        return [f"cycle: {' → '.join(reversed(error.args[1]))}"]
    return []


def house() -> tuple[Sources, set[str]]:
    """The text of every module of Calque and of the phrasebook, and which of them are packages."""
    sources, packages = {}, set()
    for package in (calque, calque_phrasebook, calque_scenes):
        top = Path(str(package.__file__)).parent
        for path in sorted(top.rglob("*.py")):
            module = ".".join(path.relative_to(top.parent).with_suffix("").parts).removesuffix(".__init__")
            sources[module] = path.read_text(encoding="utf-8")
            if path.name == "__init__.py":
                packages.add(module)
    return sources, packages


def test_imports_of_calque_only_go_down() -> None:
    sources, packages = house()
    assert len(sources) > 10
    assert violations(sources, packages=packages) == []


def test_every_extra_is_of_packages_that_something_imports() -> None:
    """Who installs calque[plots] gets plots; an extra of packages that nothing uses would promise what is not there."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sources, packages = house()
    imported = {part for item in imports(sources, packages=packages) for part in item.imported.split(".")}
    imported |= {"pillow"} if "PIL" in imported else set()
    extras = {name: needs for name, needs in project["optional-dependencies"].items() if name != "test"}
    idle = [
        f"{name}: {need}"
        for name, needs in extras.items()
        for need in needs
        if re.split(r"[<>=!~ \[]", need)[0].replace("-", "_") not in imported
    ]
    assert extras
    assert idle == []


# The reader itself

SOUND = {
    "calque": "from calque.errors import UserError\ndef __getattr__(name):\n    from calque.engine import load\n",
    "calque.__main__": "from calque.commands.main import run",
    "calque.commands": "",
    "calque.commands.main": "from calque import __version__\ndef run():\n    import torch, calque.experiment\n",
    "calque.commands.data": "def phrasebook():\n    import calque_phrasebook\n",
    "calque.experiment": "from calque.training.loop import train",
    "calque.training": "",
    "calque.training.loop": (
        "from calque.models.model import Model\ndef plot():\n    import matplotlib.pyplot\n"
        "def shard():\n    from torch.distributed.fsdp import fully_shard\n"
    ),
    "calque.engine": "from calque.models.model import Model\nfrom calque.text import Words\nimport calque.tasks",
    "calque.tasks": "import calque.objectives, calque.statistics",
    "calque.objectives": "from calque.models.model import Model",
    "calque.statistics": "import calque.data.store",
    "calque.models": "",
    "calque.models.model": (
        "from calque.models import interfaces\nfrom . import bridge\nfrom ..layers.attention import Score"
    ),
    "calque.models.interfaces": "from calque.tensors import Padded",
    "calque.models.bridge": "from .interfaces import Memory",
    "calque.search": "",
    "calque.search.beam": "from calque.tensors import Padded",
    "calque.data": "import torch\nfrom calque.text.words import Words",
    "calque.data.store": "",
    "calque.layers": "",
    "calque.layers.attention": "import torch",
    "calque.text": "from calque.text.words import Words",
    "calque.text.words": "from calque.errors import TextError",
    "calque.config": "from calque.errors import ConfigError",
    "calque.folders": "from calque import errors",
    "calque.folders.weights": "import torch\nfrom calque.errors import FolderError",
    "calque.tensors": "import torch",
    "calque.errors": "",
    "calque_phrasebook": "from calque_phrasebook.words import Word",
    "calque_phrasebook.words": "from calque.errors import DataError",
}
PACKAGES = {
    "calque",
    "calque_phrasebook",
    *(f"calque.{name}" for name in ("commands", "training", "models", "search", "data", "layers", "text", "folders")),
}


def test_a_sound_house_has_no_violations() -> None:
    assert violations(SOUND, packages=PACKAGES) == []


PLANTED = {
    "upwards": ("calque.layers.attention", "from calque.models.interfaces import Memory", "upwards"),
    "upwards by a package": ("calque.tensors", "from calque import layers", "upwards"),
    "upwards, relative": ("calque.layers.attention", "from ..models import seam", "upwards"),
    "upwards, for types only": ("calque.text.words", "if TYPE_CHECKING:\n    from calque.data import Batch", "upwards"),
    "upwards, hidden": ("calque.text.words", "def f():\n    from calque.data import Batch", "upwards"),
    "through the door": ("calque.search.beam", "from calque import load", "upwards"),
    "search to models": ("calque.search.beam", "import calque.models.model", "beside"),
    "models to search": ("calque.models.interfaces", "from calque.search.beam import beam_search", "beside"),
    "models to text": ("calque.models.interfaces", "from calque.text import Words", "forbidden"),
    "errors to config": ("calque.errors", "import calque.config", "upwards"),
    "config to folders": ("calque.config", "import calque.folders", "beside"),
    "training to engine": ("calque.training.loop", "from calque.engine import load", "beside"),
    "engine to training": ("calque.engine", "from calque.training import loop", "beside"),
    "tasks to training": ("calque.tasks", "from calque.training import loop", "upwards"),
    "objectives to tasks": ("calque.objectives", "import calque.tasks", "upwards"),
    "torch in folders": ("calque.folders", "import torch", "knows no torch"),
    "torch through weights": ("calque.config", "from calque.folders.weights import read", "knows no torch"),
    "torch in statistics": ("calque.statistics", "import calque.data", "knows no torch"),
    "torch in text": ("calque.text.words", "from torch import Tensor", "knows no torch"),
    "torch through tensors": ("calque.text.words", "from calque.tensors import Padded", "knows no torch"),
    "hidden": ("calque.models.interfaces", "def f():\n    from calque.tensors import Padded", "inside a function"),
    "hidden in a method": ("calque.data", "class A:\n    async def f(self):\n        import json", "inside a function"),
    "hidden torch": ("calque.data", "def f():\n    import torch", "inside a function"),
    "hidden in a command": ("calque.commands.main", "def f():\n    import json", "inside a function"),
    "cycle": ("calque.models.interfaces", "from calque.models.model import Model", "cycle: "),
    "cycle by a package": ("calque.text.words", "from calque.text import Words", "cycle: "),
    "data to the phrasebook": ("calque.data", "from calque_phrasebook.words import Word", "upwards"),
    "experiment to the phrasebook": ("calque.experiment", "import calque_phrasebook", "beside"),
    "the phrasebook to text": ("calque_phrasebook.words", "from calque.text.words import Words", "forbidden"),
    "the phrasebook to calque": ("calque_phrasebook.words", "from calque import load", "forbidden"),
    "torch in the phrasebook": ("calque_phrasebook.words", "import torch", "knows no torch"),
    "a cycle in the phrasebook": ("calque_phrasebook.words", "import calque_phrasebook", "cycle: "),
    "no such room": ("calque.models.interfaces", "import calque.cellar", "there is no such room"),
    "a room in no storey": ("calque.cellar", "", "no storey has a room 'cellar'"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_found(name: str) -> None:
    module, text, reason = PLANTED[name]
    found = violations({**SOUND, module: f"{SOUND.get(module, '')}\n{text}\n"}, packages=PACKAGES)
    assert any(reason in line and module in line for line in found), found
