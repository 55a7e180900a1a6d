"""Objectives as a run uses them: configured, random by one generator, rejected in combinations that make no sense."""

import pytest
import torch
from tests.conftest import FAMILIES
from tests.unit.objectives.objects import SHAPES, gradients, make_batch, make_model, translation_loss

from calque.config import Values, check, override
from calque.errors import ConfigError
from calque.models.model import ModelConfig
from calque.objectives.guided_alignment import guidance_loss
from calque.objectives.objective import Objective, ObjectiveConfig, misfits
from calque.text import WordsConfig, WordsTokenizer

TOKENIZER = WordsTokenizer.train(WordsConfig(), lines=["a b c d"])
KINDS: dict[str, Values] = {
    "cross-entropy": {},
    "dropped": {"word_dropout": {"source": 0.3, "target": 0.3}},
    "scheduled": {"method": {"kind": "scheduled-sampling", "minimum": 0.0, "decay": {"kind": "linear", "c": 0.1}}},
    "r-drop": {"method": {"kind": "r-drop"}},
    "risk": {"method": {"kind": "minimum-risk", "samples": 4}},
    "guided": {"guidance": {"weight": 0.5}, "word_dropout": {"source": 0.2}},
    "guided r-drop": {"guidance": {"weight": 0.5}, "method": {"kind": "r-drop"}},
}


def make(values: Values, *, smoothing: float = 0.1) -> Objective:
    config = check(ObjectiveConfig, values, origin="test")
    return Objective(config, smoothing=smoothing, tokenizer=TOKENIZER)


def guided(batch, *, seed: int = 0):
    """The batch with alignments of some of its words."""
    torch.manual_seed(seed)
    links = (torch.rand(*batch.target_input.shape, batch.source.values.shape[1]) < 0.4) * 1.0
    links *= (batch.target_output > 3)[..., None] * (batch.source.values > 3)[:, None]
    return batch._replace(guide=links / links.sum(dim=-1, keepdim=True).clamp(min=1))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_default_objective_is_cross_entropy(family: str) -> None:
    model, batch = make_model(family), make_batch()
    for batch in (make_batch(), guided(make_batch())):  # alignments without guidance change nothing
        loss = make({})(model, batch, step=9)
        expected = translation_loss(model, batch, smoothing=0.1)
        assert loss.objective.item() == expected.objective.item()
        assert loss.cross_entropy.item() == expected.cross_entropy.item()


@pytest.mark.parametrize(
    ("family", "kind"),
    [(family, kind) for family in FAMILIES for kind in KINDS if family != "plain" or "guided" not in kind],
)
def test_every_objective_is_a_function_of_the_batch_the_step_and_the_generator(family: str, kind: str) -> None:
    model, batch = make_model(family).train(), guided(make_batch(SHAPES[1]))
    computed = []
    for objective in (make(KINDS[kind]), make(KINDS[kind])):
        objective(model, make_batch(), step=1)  # earlier calls leave no trace
        torch.manual_seed(11)
        loss = objective(model, batch, step=4)
        computed.append((loss, gradients(model, loss.objective)))
    (first, slopes), (second, again) = computed
    assert first.objective.item() == second.objective.item()
    assert first.cross_entropy.item() == second.cross_entropy.item()
    assert first.objective.isfinite()
    assert slopes.keys() == again.keys()
    assert all(torch.equal(slopes[name], again[name]) for name in slopes)
    assert all(slope.isfinite().all() for slope in slopes.values())


@pytest.mark.parametrize("kind", ["cross-entropy", "r-drop", "guided", "guided r-drop"])
@pytest.mark.parametrize("family", ["luong", "bahdanau", "convolutional", "transformer"])
def test_losses_are_sums_that_can_be_split(family: str, kind: str) -> None:
    """Without random numbers, the rows of a batch may come in several batches, and padding costs nothing."""
    model = make_model(family)
    values = {**KINDS[kind], "word_dropout": {}}
    objective = make(values)
    batch = guided(make_batch())
    whole = objective(model, batch, step=1)
    parts = [objective(model, part, step=1) for part in batch.split(3)]
    for name in ("objective", "cross_entropy"):
        total = sum(getattr(part, name).item() for part in parts)
        assert getattr(whole, name).item() == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("method", ["cross-entropy", "r-drop", "minimum-risk"])
@pytest.mark.parametrize("family", ["luong", "transformer"])
def test_guidance_is_added_to_every_objective_with_the_weight_of_the_step(family: str, method: str) -> None:
    """Without dropout, two passes have the same attention, whose mean costs as much as one."""
    model, batch = make_model(family), guided(make_batch())
    values = {"method": {"kind": method, **({"samples": 3} if method == "minimum-risk" else {})}}
    weights = {"weight": 0.5, "half_life": 4}
    expected = guidance_loss(model(batch.source, batch.target_input, attention=True).attention, batch.guide).item()
    assert expected > 1
    for step, share in ((0, 1.0), (8, 0.25)):
        objectives = []
        for guidance in (weights, {}):
            torch.manual_seed(3)
            objectives.append(make({**values, "guidance": guidance})(model, batch, step=step).objective.item())
        assert objectives[0] - objectives[1] == pytest.approx(0.5 * share * expected, abs=1e-6)


def test_scheduled_sampling_follows_the_step() -> None:
    model, batch = make_model("luong"), make_batch()
    objective = make(KINDS["scheduled"])
    expected = translation_loss(model, batch, smoothing=0.1).objective.item()
    torch.manual_seed(0)
    assert objective(model, batch, step=0).objective.item() == pytest.approx(expected, abs=1e-9)
    torch.manual_seed(0)
    assert objective(model, batch, step=10).objective.item() != pytest.approx(expected, abs=1e-3)


MISFITS = [
    ("luong", ["decoder.attention.choice=hard"], {"method": {"kind": "r-drop"}}, "hard"),
    ("luong", ["decoder.attention.choice=hard"], {"method": {"kind": "minimum-risk"}}, "hard"),
    ("luong", ["decoder.attention.choice=hard"], {"guidance": {"weight": 0.1}}, "hard"),
    ("luong", ["output.kind=sampled"], {"method": {"kind": "r-drop"}}, "all words"),
    ("luong", ["output.kind=sampled"], {"method": {"kind": "minimum-risk"}}, "all words"),
    ("luong", ["decoder.copies=true"], {"word_dropout": {"source": 0.1}}, "cannot be copied"),
    ("plain", [], {"guidance": {"weight": 0.1}}, "has no attention"),
]


@pytest.mark.parametrize(("family", "overrides", "values", "reason"), MISFITS)
def test_combinations_that_make_no_sense_are_rejected(
    family: str, overrides: list[str], values: Values, reason: str
) -> None:
    config = check(ObjectiveConfig, values, origin="test")
    model = ModelConfig.model_validate(override(FAMILIES[family], overrides))
    (problem,) = misfits(config, model=model)
    assert reason in problem
    assert problem.startswith("training.objective.")
    assert misfits(ObjectiveConfig(), model=model) == []


@pytest.mark.parametrize("kind", ["scheduled-sampling", "minimum-risk"])
def test_objectives_that_read_word_by_word_cannot_be_sharded(kind: str) -> None:
    config = check(ObjectiveConfig, {"method": {"kind": kind}}, origin="test")
    (problem,) = misfits(config, model=ModelConfig.model_validate(FAMILIES["luong"]), sharded=True)
    assert "training.sharded" in problem


@pytest.mark.parametrize("kind", ["scheduled-sampling", "minimum-risk"])
def test_objectives_that_read_word_by_word_cannot_be_compiled(kind: str) -> None:
    config = check(ObjectiveConfig, {"method": {"kind": kind}}, origin="test")
    (problem,) = misfits(config, model=ModelConfig.model_validate(FAMILIES["luong"]), compiled=True)
    assert "training.compile" in problem


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "guided" not in kind])
def test_other_combinations_are_accepted(family: str, kind: str) -> None:
    config = check(ObjectiveConfig, KINDS[kind], origin="test")
    assert misfits(config, model=ModelConfig.model_validate(FAMILIES[family])) == []


def test_a_misspelt_objective_is_explained() -> None:
    with pytest.raises(ConfigError, match="r-drop"):
        check(ObjectiveConfig, {"method": {"kind": "rdrop"}}, origin="test")
    with pytest.raises(ConfigError, match="alpha"):
        check(ObjectiveConfig, {"method": {"kind": "r-drop", "alpah": 1}}, origin="test")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["luong", "transformer"])
def test_objectives_hold_in_bfloat16(family: str, kind: str) -> None:
    """The forward pass in bfloat16, as with training.precision: near that in float32, and finite."""
    model, batch = make_model(family).float(), guided(make_batch())
    objectives = []
    for enabled in (False, True):
        torch.manual_seed(2)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            loss = make({**KINDS[kind], "word_dropout": {}})(model, batch, step=0)
        objectives.append(loss.objective.item())
        assert all(slope.isfinite().all() for slope in gradients(model, loss.objective).values())
    if kind != "risk":  # samples may differ
        assert objectives[1] == pytest.approx(objectives[0], rel=0.1)


@pytest.mark.parametrize("kind", ["cross-entropy", "scheduled", "r-drop", "risk"])
def test_an_adaptive_output_layer_supports_every_objective(kind: str) -> None:
    overrides = ["output.kind=adaptive", "output.cutoffs=[4]", "output.shrink=2.0"]
    model, batch = make_model("luong", *overrides), make_batch()
    expected = translation_loss(model, batch, smoothing=0.0)
    torch.manual_seed(2)
    loss = make(KINDS[kind], smoothing=0.0)(model, batch, step=0)
    assert loss.cross_entropy.item() == pytest.approx(expected.cross_entropy.item(), abs=1e-9)
    assert any(slope.abs().sum() > 0 for slope in gradients(model, loss.objective).values())


def test_a_sampled_output_layer_supports_scheduled_sampling() -> None:
    model, batch = make_model("luong", "output.kind=sampled", "output.samples=5").train(), make_batch()
    assert make(KINDS["scheduled"], smoothing=0.0)(model, batch, step=10).objective.isfinite()
