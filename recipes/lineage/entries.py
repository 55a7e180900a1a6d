"""The entries of the table: system, scale, changed settings, and the claim of a paper that an entry tests.

    python -m recipes.lineage.entries

prints them with their sizes. Scales are chosen for about 8 million parameters each with 8,000 joint pieces.
"""

from typing import Literal, NamedTuple

import torch

from calque.config import check, override, to_values
from calque.models.model import Model, ModelConfig, Sizes
from calque.models.systems import system_model

TARGET_PARAMETERS, TOLERANCE = 8_000_000, 0.15
PIECES = 8000

Family = Literal["recurrent", "convolutional", "transformer"]

RATE = 0.008  # default of recurrent entries; README.md explains how rates were chosen
DROPOUT = 0.3


class Entry(NamedTuple):
    """One row of the table: a named system, scaled down."""

    name: str
    system: str
    scale: float
    family: Family
    cost: int  # approximate duration relative to the others: the slowest can start first
    claim: str  # what is tested with it
    changes: tuple[str, ...] = ()  # of the system's settings
    rate: float = RATE  # peak learning rate

    def at(self, rate: float) -> "Entry":
        """The same entry with another learning rate, which is added to its name."""
        return self._replace(name=f"{self.name}-{rate:g}", rate=rate)

    @property
    def assignments(self) -> list[str]:
        """The entry's settings on the command line of `calque train`, besides the system and its scale."""
        dropouts = [f"model.{side}.dropout={DROPOUT}" for side in ("encoder", "decoder")]
        return [*self.changes, *dropouts, f"training.optimiser.learning_rate={self.rate}"]


_EIGHT = ("model.encoder.layers=8", "model.decoder.layers=8", "model.decoder.input_feeding=false")


def _connected(name: str) -> tuple[str, ...]:
    return (*_EIGHT, *(f"model.{side}.connection={name}" for side in ("encoder", "decoder")))


ENTRIES: tuple[Entry, ...] = (
    Entry("cho2014", "cho2014", 0.59, "recurrent", 239, "b: one vector for the source, read at every step", rate=0.016),
    Entry("sutskever2014", "sutskever2014", 0.25, "recurrent", 97, "a, b: one vector for the source, read reversed"),
    Entry(
        "sutskever2014-forward",
        "sutskever2014",
        0.25,
        "recurrent",
        73,
        "a: the same, the source read forwards",
        ("model.encoder.reverse=false",),
    ),
    Entry("bahdanau2015", "bahdanau2015", 0.34, "recurrent", 393, "b: attention, for long sentences"),
    Entry("luong2015", "luong2015", 0.24, "recurrent", 314, "b, c: global attention, input feeding"),
    Entry(
        "luong2015-unfed",
        "luong2015",
        0.24,
        "recurrent",
        72,
        "c: the same without input feeding",
        ("model.decoder.input_feeding=false",),
    ),
    Entry("luong2015-local-m", "luong2015-local-m", 0.24, "recurrent", 319, "c: a window that moves with the target"),
    Entry("luong2015-local-p", "luong2015-local-p", 0.24, "recurrent", 358, "c: a window at a predicted place"),
    Entry("luong2015-hard", "luong2015-hard", 0.24, "recurrent", 379, "attention to one sampled position"),
    Entry("gnmt2016", "gnmt2016", 0.25, "recurrent", 252, "the bottom decoder layer attends for all"),
    Entry(
        "lstm8-residual",
        "luong2015",
        0.17,
        "recurrent",
        245,
        "d: 8+8 layers of luong2015-unfed, with residual connections",
        _connected("residual"),
        rate=0.016,
    ),
    Entry(
        "lstm8-plain",
        "luong2015",
        0.17,
        "recurrent",
        246,
        "d: the same without residual connections",
        _connected("none"),
        rate=0.002,
    ),
    Entry("gehring2017", "gehring2017", 0.35, "convolutional", 170, "convolutions instead of recurrence", rate=0.008),
    Entry(
        "vaswani2017-base",
        "vaswani2017-base",
        0.5,
        "transformer",
        105,
        "attention instead of recurrence, post-norm",
        rate=0.001,
    ),
    Entry(
        "vaswani2017-big",
        "vaswani2017-big",
        0.3,
        "transformer",
        84,
        "the wider one, post-norm",
        rate=0.001,
    ),
    Entry("base", "base", 0.5, "transformer", 102, "pre-norm", rate=0.004),
    Entry("fast", "fast", 0.92, "transformer", 166, "a deep encoder, a shallow decoder of SSRU", rate=0.002),
    Entry(
        "mean",
        "luong2015",
        0.28,
        "recurrent",
        201,
        "an encoder without word order: single words and their mean",
        (
            'model.encoder={kind = "mean", width = 280, embedding = 280}',
            "model.decoder.layers=1",
            "model.decoder.bridge=tanh",
        ),
        rate=0.016,
    ),
)


def entry_model(entry: Entry, *, factor: float = 1.0) -> ModelConfig:
    """The model of an entry, its scale multiplied by `factor`."""
    values = {"model": to_values(system_model(entry.system, scale=entry.scale * factor))}
    return check(ModelConfig, override(values, entry.assignments)["model"], origin=entry.name)


def parameters(model: ModelConfig, *, pieces: int = PIECES) -> int:
    """The number of trained parameters of a model with a joint vocabulary of that size; nothing is allocated."""
    with torch.device("meta"):
        built = Model(model, sizes=Sizes(pieces, pieces, joint=True))
    return sum(parameter.numel() for parameter in built.parameters() if parameter.requires_grad)


def _main() -> None:
    for entry in ENTRIES:
        count = parameters(entry_model(entry))
        print(f"{entry.name:22} {entry.scale:5} {count:10,} {count / TARGET_PARAMETERS - 1:+6.1%}  {entry.claim}")


if __name__ == "__main__":
    _main()
