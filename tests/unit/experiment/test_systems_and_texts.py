"""Named systems follow the text settings: every system can be built with every kind of text of its task."""

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import toy_corpus
from torch.nn.modules.module import register_module_parameter_registration_hook

from calque.config import check, read_toml
from calque.engine import Translator, load
from calque.errors import CalqueError, ConfigError
from calque.experiment import Experiment, experiment_values, train
from calque.experiment.building import refuse_unbuildable
from calque.models.systems import (
    CAPTIONERS,
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
    "captioning": {"train": [{"kind": "images", "path": "a"}]},
}
KINDS_OF = {
    **{kind: {kind} for kind in (*KINDS, "forms")},
    "joint characters": {"characters"},
    "separate subwords": {"sentencepiece"},
    "columns": {"characters", "tokens"},
}
"""What each of the texts asks for."""
COUNTED = {"brants2000"}
"""Its tables are as large as the corpus makes them, so that there is nothing to build before it is read."""
CASES = [
    *((name, text, "translation") for name in TRANSLATORS for text in TEXTS),
    *((name, text, "language") for name in LANGUAGE_MODELS for text in KINDS),
    *((name, "forms", "tagging") for name in TAGGERS),
    *((name, text, "translation") for name in SENTENCE_ENCODERS for text in TEXTS),
    *((name, text, "recognition") for name in RECOGNISERS for text in KINDS),
    *((name, text, "captioning") for name in CAPTIONERS for text in KINDS),
]


def experiment_of(system: str | None, *assignments: str, corpora: dict[str, Any]) -> Experiment:
    values = experiment_values(config=None, system=system, corpora=corpora, assignments=assignments)
    return check(Experiment, values, origin="command line")


def kinds_of(experiment: Experiment) -> set[str]:
    """The kinds of text that an experiment reads and writes."""
    text: Any = experiment.text
    return {side.kind for side in (text.source, text.target)} if text.kind == "columns" else {text.kind}


def parameters_built(experiment: Experiment) -> int:
    """How many tables of weights the check builds; without any, it would have seen nothing."""
    names: list[str] = []
    hook = register_module_parameter_registration_hook(lambda _module, name, _parameter: names.append(name))
    try:
        refuse_unbuildable(experiment)
    finally:
        hook.remove()
    return len(names)


@pytest.mark.parametrize(("name", "text", "task"), CASES)
def test_every_system_can_be_built_with_every_kind_of_text(name: str, text: str, task: str) -> None:
    experiment = experiment_of(name, *TEXTS.get(text, ()), corpora=CORPORA[task])
    assert kinds_of(experiment) == KINDS_OF[text]
    assert bool(parameters_built(experiment)) == (name not in COUNTED)


def test_every_system_that_reads_text_by_these_settings_is_among_them() -> None:
    assert {name for name, _, _ in CASES} == set(SYSTEMS) - set(RECOMMENDERS) - set(STATISTICAL)


def test_a_system_can_be_built_with_the_text_of_another_run(trained: Path) -> None:
    for system in ("small", "luong2015"):
        text = ("text.kind=given", f"text.path={trained}")
        assert parameters_built(experiment_of(system, *text, corpora=CORPORA["translation"]))
    with pytest.raises(CalqueError, match="nowhere"):
        text = ("text.kind=given", f"text.path={trained / 'nowhere'}")
        refuse_unbuildable(experiment_of("small", *text, corpora=CORPORA["translation"]))


def test_a_config_without_a_model_follows_its_text_too() -> None:
    values = {"data": CORPORA["translation"], "text": {"kind": "characters"}}
    experiment = check(Experiment, values, origin="config")
    assert kinds_of(experiment) == {"characters"} and parameters_built(experiment)
    joint = check(Experiment, {**values, "model": {"tie": "all"}}, origin="config")
    with pytest.raises(ConfigError, match="needs one vocabulary"):
        refuse_unbuildable(joint)


@pytest.mark.parametrize("tie", ["all", "embeddings"])
def test_what_is_set_explicitly_and_contradicts_the_text_is_rejected(tie: str) -> None:
    experiment = experiment_of("small", "text.kind=characters", f"model.tie={tie}", corpora=CORPORA["translation"])
    with pytest.raises(ConfigError, match=rf"model\.tie = '{tie}' needs one vocabulary"):
        refuse_unbuildable(experiment)
    experiment = experiment_of(
        "small", "text.kind=characters", "text.joint=true", f"model.tie={tie}", corpora=CORPORA["translation"]
    )
    assert parameters_built(experiment)


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
    kept = check(Experiment, read_toml(run.folder / "config.toml"), origin="config.toml")
    assert kinds_of(kept) == KINDS_OF[text]
    translator = load(run.folder)
    assert isinstance(translator, Translator)
    assert translator.tokenizers.joint == (text in ("joint characters", "bytes"))
