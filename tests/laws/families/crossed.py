"""Combinations of combinations: options of parts, of attention and of Transformers, and matrices that are one.

Of all that can be made of those that cover each group by itself, as few as hold every pair which no other model holds.
"""

from calque.models.model import ModelConfig
from tests.laws.cover import Choice, cover, name, pairs, product
from tests.laws.families import attention, mixed
from tests.laws.readings import across

ATTENDING = attention.OPTIONS["family"]
LOOKS = [{key: value for key, value in each.items() if key != "family"} for each in attention.CHOSEN]
TRANSFORMERS = {
    "encoder": mixed.OPTIONS["encoder"],
    "decoder": ["transformer"],
    "output": mixed.OPTIONS["output"],
    "mixer": ["attention", "ssru", "average"],
    "positions": ["sinusoidal", "learned", "rotary", "relative"],
    "copies": [False, True],
}
TIES = ["none", "target", "embeddings", "all"]


def models(*, beside: dict[str, ModelConfig]) -> dict[str, ModelConfig]:
    """What the models beside it leave uncovered."""
    met = set().union(*(pairs(across(model)) for model in beside.values()))
    return {_name(each): mixed.build(**each) for each in cover(_possible(), met=met)}


def _possible() -> list[Choice]:
    attending = [parts | looks for parts in mixed.CHOSEN if parts["decoder"] in ATTENDING for looks in LOOKS]
    others = [parts for parts in mixed.CHOSEN if parts["decoder"] not in (*ATTENDING, "transformer")]
    untied = [*attending, *others, *product(TRANSFORMERS)]
    tied = (each | {"tie": tie} for each in untied for tie in TIES)
    return [each for each in tied if not _impossible(**each)]


def _impossible(*, output, tie, copies=False, mixer="attention", positions="sinusoidal", **_):
    """Copying needs every word, narrow vectors cannot be tied, and two kinds of positions are part of attention."""
    return (
        (copies and output != "full")
        or (tie in ("target", "all") and output == "adaptive")
        or (mixer != "attention" and positions in ("rotary", "relative"))
    )


def _name(choice: Choice) -> str:
    tie = choice["tie"]
    return f"crossed {name(choice | {'tie': tie != 'none' and f'tied-{tie}'})}"
