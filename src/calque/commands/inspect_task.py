"""What `calque inspect` needs to know about a task: how to run its models, and how to show the results."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from calque.commands.inspect_questions import Question
from calque.commands.inspect_tables import Brief
from calque.devices import DeviceName, PrecisionName
from calque.engine import Loaded
from calque.inspection.document import Weights, as_lists, model_summary
from calque.inspection.states import SentenceStates
from calque.inspection.what_if import WhatIf

Model = TypeVar("Model", bound=Loaded)
Inspected = TypeVar("Inspected")
"""What a model computed for one input, such as a `SentenceView`."""


class View(NamedTuple):
    """What a model computed for one text, with the model's name and, if requested, its hidden states."""

    name: str  # of the model
    view: Any
    states: SentenceStates | None = None


class ViewOptions(NamedTuple):
    """The command-line options that affect the result of an inspection."""

    settings: list[str]  # of search, each KEY=VALUE
    what_if: WhatIf
    saliency: bool | None  # None: only if the model has no attention
    states: bool
    continuation: int | None
    language: Path | None = None  # a language model
    device: DeviceName = "auto"
    precision: PrecisionName = "auto"


class TaskInspection(ABC, Generic[Model, Inspected]):
    """How to run the models of one task, and how to show what they compute."""

    task: ClassVar[str]
    models: ClassVar[str]  # in messages, such as "captioners"
    pictures: ClassVar[tuple[str, ...]]  # the first one by default
    reads: ClassVar[Literal["text", "--image", "--audio"]] = "text"
    """What the models read: text, or the files that this option names."""
    advice: ClassVar[str] = ""  # for sentences that are given to models that read files
    options: ClassVar[frozenset[str]] = frozenset()
    """The task-specific options that this task accepts."""
    searches: ClassVar[bool] = False  # whether search settings have an effect; if not, KEY=VALUE is text
    is_joint: ClassVar[bool] = False  # whether one view shows all questions together

    @abstractmethod
    def view(self, loaded: Model, name: str, question: Question, options: ViewOptions) -> View:
        """Runs a model on one input and returns what there is to show, such as attention and scores."""

    @abstractmethod
    def lines(self, view: Inspected, *, name: str | None = None) -> Iterator[str]:
        """The tables of a view for the terminal, below the name of the model if it is given."""

    @abstractmethod
    def values(self, view: Inspected, *, weights: Weights = as_lists) -> dict[str, Any]:
        """A view as JSON values; `weights` converts each tensor of weights, such as attention, to JSON."""

    @abstractmethod
    def draw(self, path: Path, view: Inspected, *, picture: str) -> list[str]:
        """Draws the kind of picture that `picture` names to a file; returns warnings."""

    def questions(self, loaded: Model, questions: list[Question], *, source: Path | None, limit: int) -> list[Question]:
        """Converts questions (inputs to inspect) to this task's form; `source` is the file they come from, if any."""
        return questions

    def views(self, models: Mapping[str, Model], questions: Sequence[Question], options: ViewOptions) -> list[View]:
        """One view per question (input to inspect) and model, ordered by question, then by model."""
        return [self.view(loaded, name, question, options) for question in questions for name, loaded in models.items()]

    def brief(self, view: Inspected) -> Brief | None:
        """The one-line summary of a view; None for a view of several sentences."""
        return None

    def summary(self, loaded: Model, *, name: str) -> dict[str, Any]:
        """The description of a model in the JSON output: name, architecture, number of parameters and so on."""
        return model_summary(loaded, name=name)
