"""On a GPU everything is as on a CPU: what models say, what a run learns and survives, what a search finds.

scripts/test tests/gpu                            # on a machine with one
CALQUE_TEST_DEVICE=cpu scripts/test tests/gpu     # whether the tests themselves are sound
"""

import copy
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import calque
from calque.config import read_toml
from calque.experiment import Run, resume, train
from calque.layers.recurrent import Recurrence
from calque.training.journal import read_journal
from tests.conftest import FAMILIES, learning, still_and, toy_corpus, toy_values
from tests.laws.models import MODELS, build, loud, source, target
from tests.unit.training.objects import digests, train_until_killed
from tests.unit.training.test_update import poison

DEVICE = os.environ.get("CALQUE_TEST_DEVICE", "cuda")
if DEVICE == "cuda" and not torch.cuda.is_available():
    pytest.skip("there is no GPU on this machine", allow_module_level=True)

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":16:8")  # read when the device is first used
pytestmark = [
    pytest.mark.usefixtures("unplotted"),
    pytest.mark.filterwarnings("ignore:Requested unified CUBLASLT workspace"),  # the setting above limits it
]

METHODS = {
    "scheduled-sampling": ("training.objective.method.decay.kind=linear", "training.objective.method.decay.c=0.05"),
    "r-drop": ("training.objective.method.alpha=2",),
    "minimum-risk": ("training.objective.method.samples=3",),
}
PRECISIONS = ("float32", "tf32", "bfloat16", *(() if DEVICE == "cpu" else ("float16",)))  # few CPUs have LSTMs in it


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return toy_corpus(tmp_path_factory.mktemp("corpus"))


def on_device(corpus: dict[str, Path], family: str, *overrides: str) -> dict[str, object]:
    return toy_values(corpus, family, f"training.device={DEVICE}", *overrides)


# --- What models say, and what they learn from it ---


@pytest.mark.parametrize("name", MODELS)
def test_models_say_and_learn_the_same_as_on_a_cpu(name: str) -> None:
    """Losses and gradients in float64; the weights are loud, so that a part that is wrong shows."""
    model = build(name)
    results = {}
    for device in ("cpu", DEVICE):
        device_model = copy.deepcopy(model).to(device)
        for layer in device_model.modules():
            layer.train(isinstance(layer, nn.RNNBase))  # cuDNN goes back through no other; it draws nothing here
        sentences, tokens = source(), target()
        sentences, tokens = sentences._replace(values=sentences.values.to(device)), tokens.to(device)
        output = device_model(sentences, tokens)
        losses = device_model.losses(
            output, sentences.values, tokens, smoothing=0.1 if takes_smoothing(name) else 0.0, ignored=-1
        )
        losses.sum().backward()
        gradients = [
            torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            for parameter in device_model.parameters()
        ]
        results[device] = [tensor.detach().cpu() for tensor in (output.hidden, losses, *gradients)]
    for cpu_value, device_value in zip(results["cpu"], results[DEVICE], strict=True):
        torch.testing.assert_close(device_value, cpu_value, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("precision", ["float64", *(() if DEVICE == "cpu" else ("bfloat16",))])
@pytest.mark.parametrize("cell", ["rnn", "rnn-relu", "lstm", "gru", "gru-original"])
def test_recurrent_weights_are_dropped_as_on_a_cpu(cell: str, precision: str) -> None:
    """At once and packed, with gradients; cuDNN has nothing to warn of, as warnings are errors."""
    layer = loud(Recurrence(cell, input_width=7, width=6)).train()
    with torch.no_grad():
        for parameter in layer.parameters():  # a plain RNN with ReLU must not explode
            parameter *= 0.4
    torch.manual_seed(1)
    inputs, lengths, mask = 0.1 * torch.randn(3, 5, 7).double(), torch.tensor([5, 1, 3]), layer.weight_mask(dropout=0.4)
    results = []
    for device, half in (("cpu", False), (DEVICE, precision == "bfloat16")):
        device_layer, device_mask, device_inputs = (
            tensor.to(device) for tensor in (copy.deepcopy(layer), mask, inputs)
        )
        device_layer, device_mask, device_inputs = (
            tensor.float() if half else tensor for tensor in (device_layer, device_mask, device_inputs)
        )
        with torch.autocast(device, torch.bfloat16, enabled=half):
            weight = device_layer.dropped(device_mask)
            outputs = [device_layer(device_inputs, device_layer.zero_state(3, like=device_inputs), weight=weight)[0]]
            if cell == "lstm":
                outputs += device_layer.packed(device_inputs, lengths, weight=weight)[1]
        gradients = torch.autograd.grad(
            sum(tensor.double().square().sum() for tensor in outputs), list(device_layer.parameters())
        )
        results.append([tensor.detach().cpu().double() for tensor in (*outputs, *gradients)])
    tolerance = 1e-8 if precision == "float64" else 0.05
    for cpu_value, device_value in zip(*results, strict=True):
        torch.testing.assert_close(device_value, cpu_value, rtol=0, atol=tolerance * cpu_value.abs().max().item())


def takes_smoothing(name: str) -> bool:
    return MODELS[name].output.kind == "full"


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_precision_learns(family: str, precision: str, corpus: dict[str, Path], tmp_path: Path) -> None:
    values = on_device(corpus, family, *learning(steps=60, rate=0.01), f"training.precision={precision}")
    run = train(values, run=tmp_path / "run", quiet=True)
    losses = [line["loss"] for line in read_journal(run.folder / "metrics.jsonl") if line["kind"] == "train"]
    assert losses[-1] < 0.9 * losses[0]


# --- What a run survives ---


@pytest.fixture
def exact(corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`exact(family, *overrides)`: a run of them that is killed and resumed ends with the bytes of one that is not."""

    def check(family: str, *overrides: str) -> None:
        values = on_device(corpus, family, "training.deterministic=true", *overrides)
        whole = train(values, run=tmp_path / "whole", quiet=True)
        train_until_killed(values, run=tmp_path / "stopped", step=6, monkeypatch=monkeypatch)
        assert digests(resume(tmp_path / "stopped", quiet=True).folder) == digests(whole.folder)

    return check


@pytest.mark.parametrize("family", FAMILIES)
def test_a_deterministic_run_that_was_killed_ends_with_the_same_bytes(family: str, exact: Callable[..., None]) -> None:
    exact(family)


@pytest.mark.parametrize("precision", PRECISIONS[1:])
def test_so_it_does_in_every_precision(precision: str, exact: Callable[..., None]) -> None:
    exact("transformer", f"training.precision={precision}")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", FAMILIES)
def test_and_with_every_objective(family: str, method: str, exact: Callable[..., None]) -> None:
    exact(family, f"training.objective.method.kind={method}", *METHODS[method])


@pytest.mark.skipif(DEVICE == "cpu", reason="tests/unit/training/test_compiling.py has the CPU's")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # torch's compiler has many
@pytest.mark.parametrize("family", ["luong", "transformer"])
def test_and_compiled(family: str, exact: Callable[..., None]) -> None:
    exact(family, "training.compile=true", "training.batch.shapes=static", "training.precision=bfloat16")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("kind", ["adam", "adamw", "adadelta", "sgd"])
def test_an_update_that_is_no_number_is_left_out(
    kind: str, bad: float, corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device decides it by itself: the poisoned fourth step leaves weights and optimiser as they were."""
    settings = (
        "training.accumulate=1",
        "training.average=0",
        "training.deterministic=true",
        "training.validate_every=4",
    )
    rest = ("training.checkpoint_every=1", "training.keep=5", f"training.optimiser.kind={kind}", "training.log_every=1")
    values = on_device(corpus, "luong", *settings, *rest, "training.steps=4")
    with monkeypatch.context() as patch:
        poison(patch, 4, bad=bad, where="gradient")
        run = train(values, run=tmp_path / "run", quiet=True)
    third, fourth = (run.folder / "checkpoints" / f"step-{step}" for step in (3, 4))
    for group in ("weights", "optimiser"):
        assert (third / f"{group}.safetensors").read_bytes() == (fourth / f"{group}.safetensors").read_bytes()
    lines = [line for line in read_journal(run.folder / "metrics.jsonl") if line["kind"] == "train"]
    assert [line["skipped"] for line in lines] == [0, 0, 0, 1]


@pytest.fixture
def little_memory() -> Iterator[None]:
    """A GPU of one gigabyte."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction((1 << 30) / total)
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.skipif(DEVICE == "cpu", reason="a CPU's memory is not for a test to fill")
@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("family", ["luong", "convolutional", "transformer"])
def test_a_batch_that_does_not_fit_is_taken_in_parts(family: str, tmp_path: Path) -> None:
    many = toy_corpus(tmp_path / "many", pairs=40_000, longest=20)
    once = ("training.steps=2", "training.validate_every=2", "training.checkpoint_every=2", "training.accumulate=1")
    rest = ("training.average=0", "training.batch.tokens=600000", *still_and(width=256), "text.joint=true")
    values = on_device(many, family, *once, *rest)
    run = train(values, run=tmp_path / "run", quiet=True)
    assert any("parts" in line for path in run.folder.glob("*.jsonl") for line in read_journal(path))


@pytest.mark.skipif(DEVICE == "cpu", reason="tests/unit/training/test_batch_size.py has the CPU's")
@pytest.mark.usefixtures("little_memory")
def test_the_largest_batch_that_fits_is_found_and_kept(tmp_path: Path) -> None:
    many = toy_corpus(tmp_path / "many", pairs=40_000, longest=20)
    once = ("training.steps=2", "training.validate_every=2", "training.checkpoint_every=2", "training.average=0")
    values = on_device(many, "transformer", *once, "training.batch.tokens=auto", *still_and(width=1024))
    run = train(values, run=tmp_path / "run", quiet=True)
    tokens = read_toml(run.folder / "config.toml")["training"]["batch"]["tokens"]
    assert 256 < tokens < 40_000  # an epoch of 20 batches has 48,000 positions in each
    assert not (run.folder / "history.jsonl").exists()  # no step had to be taken in parts


# --- What a search finds ---

SEARCHES: tuple[dict[str, object], ...] = (
    {"beam": 1},
    {"beam": 4},
    {"beam": 4, "length_penalty": 1.0, "end_normalisation": 0.5, "no_repeat": 2},
    {"beam": 4, "groups": 2},
    {"method": "sample", "top_p": 0.9},
    {"method": "risk", "samples": 8},
)


@pytest.fixture(scope="module")
def learnt(corpus: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    def make(family: str) -> Run:
        values = toy_values(corpus, family, *learning(steps=60, rate=0.01))
        return train(values, run=tmp_path_factory.mktemp("learnt") / "run", quiet=True)

    return make


@pytest.mark.parametrize("family", FAMILIES)
def test_searches_find_the_same_as_on_a_cpu(family: str, learnt: Callable[[str], Run]) -> None:
    folder = learnt(family).folder
    lines = [" ".join(word) for word in ("abc", "hgfe", "a", "bbbb", "cadeh")]
    for options in SEARCHES:
        by_device = []
        for device in ("cpu", DEVICE):
            translator = calque.load(folder, device=device, precision="float64")
            search = translator.search.model_copy(update=options)
            candidates = [translation.candidates[0] for translation in translator.stream(lines, search=search)]
            by_device.append([(translation.text, round(translation.score, 6)) for translation in candidates])
        assert by_device[0] == by_device[1], json.dumps(options)
