"""The Penn Treebank recipe: its configs are sound, and its figures are those of the models they describe."""

import json
import re
from pathlib import Path

import pytest

from calque.config import check
from calque.experiment.settings import Experiment, experiment_values
from calque.models.language_model import LanguageModel, LanguageModelConfig
from calque.tensors import weightless

FOLDER = Path(__file__).parents[3] / "recipes" / "language_modelling"
RESULTS = json.loads((FOLDER / "results.json").read_text(encoding="ascii"))
VOCABULARY = 10_002  # 10,000 words, padding and the beginning of a line
LIMIT = 24_000_000


def test_every_config_has_results() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(RESULTS)


@pytest.mark.parametrize("name", RESULTS)
def test_parameters(name: str) -> None:
    corpora = {"train": [{"kind": "text", "path": "train.txt.gz"}]}
    values = experiment_values(config=FOLDER / f"{name}.toml", system=None, corpora=corpora, assignments=[])
    experiment = check(Experiment, values, origin=name)
    assert isinstance(experiment.model, LanguageModelConfig)
    with weightless():
        model = LanguageModel(experiment.model, vocabulary_size=VOCABULARY)
    assert sum(parameter.numel() for parameter in model.parameters()) == RESULTS[name]["parameters"] <= LIMIT


def test_readme_has_the_results() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8").replace("**", "")
    for name, row in RESULTS.items():
        line = re.search(rf"^\| `{re.escape(name)}`.*\|$", page, flags=re.MULTILINE)
        assert line is not None, name
        cells = [cell.strip() for cell in line[0].strip("|").split("|")]
        assert cells[1] == f"{row['parameters'] / 1e6:.1f} M"
        assert cells[2].split()[0] == str(row["epochs"]) and cells[3] == str(row["best_epoch"])
        assert cells[4:] == [f"{row[key]:.{digits}f}" for key, digits in (("minutes", 1), ("valid", 2), ("test", 2))]


def test_readme_has_the_results_of_ngram_models() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8").replace("**", "")
    for name, row in json.loads((FOLDER / "ngrams.json").read_text(encoding="ascii")).items():
        figures = f"{row['valid']:.2f} | {row['test']:.2f}"
        detail = f"{row['ngrams']:,} | {row['megabytes']:.1f} MB | {row['seconds']:.1f}"
        assert f"\n| {name} | {detail} | {figures} |\n" in page
        if name.isdigit():
            line = f"| {row['ngrams'] / 1e6:.1f} M n-grams | | | {row['seconds'] / 60:.1f} | {figures} |\n"
            assert f"\n| {name}-gram, modified Kneser-Ney {line}" in page
