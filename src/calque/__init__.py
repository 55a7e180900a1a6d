"""Calque: sequence-to-sequence models, from the plain encoder-decoder to the Transformer, on one small core.

>>> import calque
>>> translator = calque.load("runs/1")
>>> translator.translate("今天天气很好。")
'The weather is good today.'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from calque.errors import (
    CalqueError,
    ConfigError,
    DataError,
    DeadlineError,
    FolderError,
    Interrupted,
    RequestError,
    TextError,
    TrainingError,
    UserError,
)

if TYPE_CHECKING:
    from calque.engine import Candidate, Engine, Request, TextGenerator, Translation, Translator, load
    from calque.experiment import Experiment, OwnTask, Run, resume, train
    from calque.search.settings import SearchConfig

__version__ = "0.1.0"

__all__ = [
    "CalqueError",
    "Candidate",
    "ConfigError",
    "DataError",
    "DeadlineError",
    "Engine",
    "Experiment",
    "FolderError",
    "Interrupted",
    "OwnTask",
    "Request",
    "RequestError",
    "Run",
    "SearchConfig",
    "TextError",
    "TextGenerator",
    "TrainingError",
    "Translation",
    "Translator",
    "UserError",
    "__version__",
    "load",
    "resume",
    "train",
]

_HOMES = {
    **dict.fromkeys(["Experiment", "OwnTask", "Run", "resume", "train"], "calque.experiment"),
    "SearchConfig": "calque.search.settings",
    **dict.fromkeys(
        ["Candidate", "Engine", "Request", "TextGenerator", "Translation", "Translator", "load"], "calque.engine"
    ),
}


def __getattr__(name: str) -> Any:
    """Imports the names that need torch on first use, so that `import calque` is fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'calque' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
