"""Named systems follow the text settings: every system can be built with every kind of text of its task."""

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import toy_corpus

from calque.config import check, read_toml
from calque.errors import ConfigError
from calque.experiment import Experiment, experiment_values, train
from calque.experiment.building import refuse_unbuildable
from calque.models.systems import (
    LANGUAGE_MODELS,
    RECOGNISERS,
    RECOMMENDERS,
    SENTENCE_ENCODERS,
    STATISTICAL,
    SYSTEMS,
    TAGGERS,
    TRANSLATORS,
)

KINDS = ("sentencepiece", "tokens", "words", "characters", "bytes")
TEXTS: dict[str, tuple[str, ...]] = {
    **{kind: (f"text.kind={kind}",) for kind in KINDS},
    "joint characters": ("text.kind=characters", "text.joint=true"),
    "separate subwords": ("text.joint=false",),
    "columns": ("text.source.kind=characters", "text.target.kind=tokens"),
}
CORPORA = {
    "translation": {"train": [{"kind": "tsv", "path": "a"}]},
    "language": {"train": [{"kind": "text", "path": "a"}]},
    "tagging": {"train": [{"kind": "conllu", "path": "a"}]},
    "recognition": {"train": [{"kind": "audio", "path": "a"}]},
}
CASES = [
    *((name, text, "translation") for name in TRANSLATORS for text in TEXTS),
    *((name, text, "language") for name in LANGUAGE_MODELS for text in KINDS),
    *((name, "forms", "tagging") for name in TAGGERS),
    *((name, text, "translation") for name in SENTENCE_ENCODERS for text in TEXTS),
    *((name, text, "recognition") for name in RECOGNISERS for text in KINDS),
]


def experiment_of(system: str | None, *assignments: str, corpora: dict[str, Any]) -> Experiment:
    values = experiment_values(config=None, system=system, corpora=corpora, assignments=assignments)
    return check(Experiment, values, origin="command line")


@pytest.mark.parametrize(("name", "text", "task"), CASES)
def test_every_system_can_be_built_with_every_kind_of_text(name: str, text: str, task: str) -> None:
    experiment = experiment_of(name, *TEXTS.get(text, ()), corpora=CORPORA[task])
    refuse_unbuildable(experiment)


def test_every_system_that_reads_text_by_these_settings_is_among_them() -> None:
    assert {name for name, _, _ in CASES} == set(SYSTEMS) - set(RECOMMENDERS) - set(STATISTICAL)


def test_a_system_can_be_built_with_the_text_of_another_run(trained: Path) -> None:
    for system in ("small", "luong2015"):
        text = ("text.kind=given", f"text.path={trained}")
        refuse_unbuildable(experiment_of(system, *text, corpora=CORPORA["translation"]))


def test_a_config_without_a_model_follows_its_text_too() -> None:
    values = {"data": CORPORA["translation"], "text": {"kind": "characters"}}
    refuse_unbuildable(check(Experiment, values, origin="config"))


@pytest.mark.parametrize("tie", ["all", "embeddings"])
def test_what_is_set_explicitly_and_contradicts_the_text_is_rejected(tie: str) -> None:
    experiment = experiment_of("small", "text.kind=characters", f"model.tie={tie}", corpora=CORPORA["translation"])
    with pytest.raises(ConfigError, match=rf"model\.tie = '{tie}' needs one vocabulary"):
        refuse_unbuildable(experiment)
    experiment = experiment_of(
        "small", "text.kind=characters", "text.joint=true", f"model.tie={tie}", corpora=CORPORA["translation"]
    )
    refuse_unbuildable(experiment)


@pytest.mark.usefixtures("unplotted")
@pytest.mark.parametrize(
    ("system", "text"),
    [("small", "characters"), ("small", "columns"), ("fast", "joint characters"), ("bahdanau2015", "bytes")],
)
def test_such_a_run_begins(system: str, text: str, tmp_path: Path) -> None:
    corpus = {side: str(path) for side, path in toy_corpus(tmp_path / "corpus").items()}
    settings = ("training.steps=1", "training.threads=1", "training.device=cpu", "training.batch.tokens=200")
    values = experiment_values(
        config=None,
        system=system,
        scale=0.05,
        corpora={"train": [{"kind": "files", **corpus}]},
        assignments=[*TEXTS[text], *settings],
    )
    run = train(values, run=tmp_path / "run", quiet=True)
    assert run.summary.step == 1
    assert (
        read_toml(run.folder / "config.toml")["text"]["kind"] == TEXTS[text][0].partition("=")[2] or text == "columns"
    )
