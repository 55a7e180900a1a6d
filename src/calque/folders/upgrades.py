"""Reading the formats of earlier versions: one function or table per format that changed.

| what | format | changed |
|---|---|---|
| store | 2 → 3 | columns by name; `ids` became `values`; lengths no longer count the end mark |
| model | 1 → 2 | the folder names its task; vocabularies by column |
| model | 2 → 3 | new: `targets` in length_profile.json, `search.learnt_maximum` in config.toml |
| model | 4 | a folder of format 3 with weights in 8 bits: `NAME` is int8, `NAME.scales` has a scale per row |
| run | – | new: `training.arithmetic` in config.toml |

A key that earlier versions would reject or misread needs a new format number, even if it is optional: an earlier
version then names the newer format instead of calling the file damaged. `tests/formats` holds a folder of each
earlier format.
"""

from typing import Any, NamedTuple

from calque.errors import FolderError

Values = dict[str, Any]


class StoreLayout(NamedTuple):
    """How a format of the store names its value files, and whether its row lengths count the end mark."""

    values: str  # the suffix of the file with the values
    counts_end: bool  # whether lengths count an end mark that is not stored


STORE_LAYOUTS = {2: StoreLayout("ids", counts_end=True), 3: StoreLayout("values", counts_end=False)}


EARLIER_METRICS = {
    **dict.fromkeys(("loss", "perplexity", "ter"), ("lower", 0.0)),
    **dict.fromkeys(("chrf", "exact_match"), ("higher", 0.0)),
    "bleu": ("higher", 1.0),
}
"""For each metric, whether higher or lower is better, and the chance level; for runs whose run.json lacks both."""

EARLIER_METRIC = "bleu"
"""The metric that selects models in runs whose config.toml does not name one."""


def upgrade_fingerprint(fingerprint: dict[str, str]) -> dict[str, str]:
    """A store's fingerprint with the current format number; fingerprints of formats 2 and 3 do not differ otherwise."""
    return {**fingerprint, "format": "3"} if fingerprint.get("format") == "2" else fingerprint


def upgrade_training(values: Values) -> Values:
    """The config of a run that has begun, with training.arithmetic = 1 if it does not have that setting yet."""
    training = values.get("training", {})
    return {**values, "training": {"arithmetic": 1, **training}} if isinstance(training, dict) else values


def upgrade_model(values: Values, *, format: int, origin: str) -> Values:
    """The config of a model folder in the current format. Raises a FolderError for language models of format 1."""
    if format > 1:
        return values
    if values.get("model", {}).get("encoder", {}).get("kind") == "none":
        raise FolderError(
            f"{origin}: this is a language model of an earlier version of Calque, which this version cannot read; "
            "train it again: calque train --text FILE"
        )
    sizes = {"source": values.get("source_pieces"), "target": values.get("target_pieces")}
    rest = {key: value for key, value in values.items() if key not in ("source_pieces", "target_pieces")}
    return {"task": {"kind": "translation"}, "vocabularies": sizes, **rest}


def upgrade_length_profile(values: Values, *, format: int) -> Values:
    """A model's length profile in the current format. Earlier formats have no limits on target lengths."""
    return values if format > 2 else {"targets": [], **values}
