"""Combinations across groups: options of parts, of attention and of Transformers, and tied matrices.

Of all combinations of the covers of each group, as few as cover every pair that no other model covers.
"""

from calque.models.model import ModelConfig
from tests.laws.cover import Choice, cover, name, pairs, product
from tests.laws.families import attention, mixed
from tests.laws.readings import across

ATTENDING = attention.OPTIONS["family"]
LOOKS = [{key: value for key, value in choice.items() if key != "family"} for choice in attention.CHOSEN]
TRANSFORMERS = {
    "encoder": mixed.OPTIONS["encoder"],
    "decoder": ["transformer"],
    "output": mixed.OPTIONS["output"],
    "mixer": ["attention", "ssru", "average"],
    "positions": ["sinusoidal", "learned", "rotary", "relative"],
    "copies": [False, True],
}
TIES = ["none", "target", "embeddings", "all"]


def models(*, others: dict[str, ModelConfig]) -> dict[str, ModelConfig]:
    """Models for the pairs that the others leave uncovered."""
    met = set().union(*(pairs(across(model)) for model in others.values()))
    return {_name(choice): mixed.build(**choice) for choice in cover(_possible(), met=met)}


def _possible() -> list[Choice]:
    attending = [parts | looks for parts in mixed.CHOSEN if parts["decoder"] in ATTENDING for looks in LOOKS]
    others = [parts for parts in mixed.CHOSEN if parts["decoder"] not in (*ATTENDING, "transformer")]
    untied = [*attending, *others, *product(TRANSFORMERS)]
    tied = (choice | {"tie": tie} for choice in untied for tie in TIES)
    return [choice for choice in tied if not _impossible(**choice)]


def _impossible(*, output, tie, copies=False, mixer="attention", positions="sinusoidal", **_):
    """Copying needs the full softmax, narrow vectors cannot be tied, and two position types need self-attention."""
    return (
        (copies and output != "full")
        or (tie in ("target", "all") and output == "adaptive")
        or (mixer != "attention" and positions in ("rotary", "relative"))
    )


def _name(choice: Choice) -> str:
    tie = choice["tie"]
    return f"crossed {name(choice | {'tie': tie != 'none' and f'tied-{tie}'})}"
