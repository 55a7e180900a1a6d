"""What makes training on a GPU fast, each against its clear version, forward and backward, in float32 and bfloat16."""

import copy
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from calque.data.batching import BatchConfig
from calque.data.caption_batch import CaptionBatch
from calque.data.pair_batch import PairBatch
from calque.data.speech_batch import SpeechBatch
from calque.data.subword_regularisation import FixedConfig
from calque.layers.arithmetic import use_arithmetic
from calque.layers.feed_forward import FeedForward
from calque.layers.fused_linear import trained_linear_relu
from calque.layers.multihead import MultiHead
from calque.layers.output import FullOutput
from calque.layers.padded_lstm import padded_lstm
from calque.layers.padded_output import graph_cross_entropy
from calque.layers.perturbation import PerturbationConfig
from calque.layers.recurrent import Recurrence
from calque.layers.short_attention import fits, load_kernel
from calque.layers.spec_augment import SpecAugmentConfig
from calque.models.captioner import CaptionerConfig, CaptionerModel
from calque.models.model import Model, ModelConfig, Sizes
from calque.models.recogniser import RecogniserModel
from calque.tasks.captioning import Captioning, CaptioningConfig
from calque.tasks.recognition import Recognition, RecognitionConfig, loss_parts
from calque.tasks.translation import Translation
from calque.tensors import Padded
from calque.training.capturing import waits_refused
from calque.training.compiling import compile_model
from calque.training.distributed import Ranks
from calque.training.settings import TrainingConfig
from calque.training.update import MemorySplits, Updater
from tests.laws.recognisers import RECOGNISERS, SIZES

if not torch.cuda.is_available():
    pytest.skip("there is no GPU on this machine", allow_module_level=True)

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":16:8")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

CUDA = torch.device("cuda", 0)
VOCABULARY, ROWS = 77, 12
PRECISIONS = {"float32": 1e-4, "bfloat16": 0.04}  # relative to the largest value
_SIDE = {"kind": "transformer", "layers": 2, "width": 64, "heads": 4, "feed_forward": 128, "dropout": 0.1}
_ENCODER = {"kind": "recurrent", "layers": 2, "width": 64, "embedding": 32, "dropout": 0.2}
_LUONG = {**_ENCODER, "kind": "luong", "attention": {"score": "general"}}
FAMILIES: dict[str, dict[str, Any]] = {
    "luong": {"encoder": _ENCODER, "decoder": _LUONG},
    "luong without feeding": {"encoder": _ENCODER, "decoder": {**_LUONG, "input_feeding": False}},
    "gru": {"encoder": {**_ENCODER, "cell": "gru"}, "decoder": {**_LUONG, "cell": "gru"}},
    "transformer": {"tie": "all", "encoder": _SIDE, "decoder": _SIDE},
    "pointer-generator": {
        "encoder": _ENCODER,
        "decoder": {**_LUONG, "copies": True, "attention": {"score": "additive", "coverage": True}},
    },
}


CAPTIONERS: dict[str, dict[str, Any]] = {
    "soft attention": {
        "image": {"kind": "grid"},
        "decoder": {"kind": "bahdanau", "cell": "lstm", "bridge": "tanh", "width": 32, "dropout": 0.1},
        "doubly_stochastic": 0.1,
    },
    "Transformer": {"image": {"kind": "patches", "width": 64}, "encoder": _SIDE, "decoder": _SIDE},
}


@pytest.fixture(autouse=True)
def precise() -> Iterator[None]:
    """cuDNN computes in TF32 otherwise, even in float32."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(1)
    yield
    torch.backends.cudnn.allow_tf32 = before


def casting(precision: str) -> AbstractContextManager[Any]:
    return torch.autocast("cuda", torch.bfloat16) if precision == "bfloat16" else nullcontext()


def assert_near(results: list[Tensor], expected: list[Tensor], precision: str) -> None:
    for value, clear in zip(results, expected, strict=True):
        near = PRECISIONS[precision] * clear.abs().max().item()
        torch.testing.assert_close(value.double(), clear.double(), rtol=0, atol=near)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_compiled_loss(smoothing: float, precision: str) -> None:
    layer = FullOutput(VOCABULARY, width=64).to(CUDA)
    hidden = torch.randn(50, 64, device=CUDA, requires_grad=True)
    targets = torch.randint(VOCABULARY, (50,), device=CUDA)
    compiled = torch.compile(graph_cross_entropy, dynamic=False)
    with casting(precision):
        total = compiled(hidden, layer.weight, layer.bias, targets, smoothing=smoothing, ignored=0)
        clear = layer.loss(hidden, targets, smoothing=smoothing, ignored=0).sum()
    inputs = [hidden, layer.weight, layer.bias]
    gradients, expected = (list(torch.autograd.grad(loss / 7, inputs)) for loss in (total, clear))
    assert_near([total, *gradients], [clear, *expected], precision)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("directions", [1, 2])
def test_the_lstm_that_reads_padding(directions: int, precision: str) -> None:
    layers = nn.ModuleList(Recurrence("lstm", input_width=16, width=32) for _ in range(directions)).to(CUDA)
    inputs = torch.randn(5, 9, 16, device=CUDA, requires_grad=True)
    lengths = torch.tensor([9, 1, 4, 9, 3])

    def outcome(outputs: list[Tensor]) -> list[Tensor]:
        torch.manual_seed(2)
        total = sum((output.float() * torch.randn(output.shape, device=CUDA)).sum() for output in outputs)
        assert isinstance(total, Tensor)
        return [*outputs, *torch.autograd.grad(total, [inputs, *layers.parameters()])]

    with casting(precision):
        states = padded_lstm(inputs, lengths.to(CUDA), [layer.direction(None) for layer in layers])  # type: ignore[operator]
        padded = outcome([states.hidden, *(part for final in states.final for part in final)])
        results = [layer.packed(inputs, lengths, backward=number == 1) for number, layer in enumerate(layers)]  # type: ignore[operator]
        hidden = torch.cat([outputs for outputs, _ in results], dim=-1)
        packed = outcome([hidden, *(part for _, final in results for part in final)])
    assert_near(padded, packed, precision)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_fused_cell(precision: str) -> None:
    layer = Recurrence("lstm", input_width=16, width=32).to(CUDA)
    inputs = torch.randn(5, 6, 16, device=CUDA, requires_grad=True)
    results = []
    for version in (3, 2):
        with use_arithmetic(version), casting(precision):  # type: ignore[arg-type]
            outputs, state = layer.unrolled(inputs, layer.zero_state(5, like=inputs))
            total = sum(part.float().square().sum() for part in (outputs, *state))
        assert isinstance(total, Tensor)
        results.append([outputs, *state, *torch.autograd.grad(total, [inputs, *layer.parameters()])])
    assert_near(results[0], results[1], precision)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("queries", "keys", "width"), [(32, 32, 64), (7, 33, 64), (64, 64, 16), (1, 1, 16)])
def test_the_kernel_for_short_sentences(queries: int, keys: int, width: int, precision: str) -> None:
    assert load_kernel()
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    inputs = [torch.randn(5, size, 3, width, device=CUDA) for size in (queries, keys, keys)]
    inputs = [values.to(dtype).transpose(1, 2).requires_grad_() for values in inputs]
    mask = (torch.arange(keys, device=CUDA) < torch.randint(1, keys + 1, (5, 1), device=CUDA))[:, None, None]
    slopes = torch.randn(5, 3, queries, width, device=CUDA).to(dtype)
    for causal in (True, False) if queries == keys else (False,):
        assert fits(inputs[0], inputs[1], None if causal else mask)
        output = torch.ops.calque.short_attention(*inputs, None if causal else mask, causal)
        wide = [values.detach().double().requires_grad_() for values in inputs]
        allowed = torch.ones(queries, keys, device=CUDA, dtype=torch.bool).tril() if causal else mask
        scores = wide[0] @ wide[1].transpose(2, 3) * width**-0.5
        clear = scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1) @ wide[2]
        results = [output, *torch.autograd.grad(output, inputs, slopes)]
        expected = [clear, *torch.autograd.grad(clear, wide, slopes.double())]
        assert_near(results, expected, precision)
        if queries == keys:
            joined = torch.cat(
                [values.detach().transpose(1, 2).flatten(2) for values in inputs], dim=2
            ).requires_grad_()
            own = torch.ops.calque.short_self_attention(joined, 3, None if causal else mask, causal)
            (gradient,) = torch.autograd.grad(own, joined, slopes.transpose(1, 2).flatten(2))
            assert torch.equal(own, output.transpose(1, 2).flatten(2))
            assert torch.equal(gradient, torch.cat([part.transpose(1, 2).flatten(2) for part in results[1:]], dim=2))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_product_with_relu(precision: str) -> None:
    inputs, weight, bias = (
        torch.randn(shape, device=CUDA, requires_grad=True) for shape in ((3, 7, 64), (96, 64), (96,))
    )
    results = []
    for function in (trained_linear_relu, lambda inputs, **layer: F.linear(inputs, **layer).relu()):
        with casting(precision):
            outputs = function(inputs, weight=weight, bias=bias)
        slopes = torch.linspace(-1, 1, outputs.numel(), device=CUDA).view(outputs.shape).to(outputs.dtype)
        results.append([outputs, *torch.autograd.grad(outputs, (inputs, weight, bias), slopes)])
    assert_near(results[0], results[1], precision)


def test_nan_passes_the_product_with_relu() -> None:
    """As with torch's ReLU, so that an update with a bad loss is recognised."""
    weight = torch.full((16, 8), torch.nan, device=CUDA)
    outputs = trained_linear_relu(torch.ones(8, 8, device=CUDA), weight=weight, bias=torch.zeros(16, device=CUDA))
    assert outputs.isnan().all()


@pytest.mark.parametrize(
    ("version", "with_kernel", "precision"),
    [(4, True, "float32"), (4, True, "bfloat16"), (4, False, "float32"), (3, True, "float32")],
)
def test_a_compiled_transformer(version: int, with_kernel: bool, precision: str) -> None:
    """Its products, kernels and graphs; in bfloat16 it is as near to float32 as the uncompiled model is."""
    torch.manual_seed(1)
    config = copy.deepcopy(FAMILIES["transformer"])
    for side in ("encoder", "decoder"):
        config[side]["dropout"] = 0.0
    clear = Model(ModelConfig.model_validate(config), sizes=Sizes(VOCABULARY, VOCABULARY, joint=True)).to(CUDA).train()
    fast = copy.deepcopy(clear)
    compile_model(fast, version=version)
    assert all(layer.fuses_relu == (version == 4) for layer in fast.modules() if isinstance(layer, FeedForward))
    for layer in fast.modules():
        if isinstance(layer, MultiHead):
            assert layer.is_compiled and layer.has_kernel and layer.joins_gradients == (version == 4)
            layer.has_kernel = with_kernel
    batch = batch_of(9, 11).to(CUDA)
    results = [hidden_and_gradients(model, batch, precision) for model in (fast, clear)]
    if precision == "float32":
        assert_near(results[0], results[1], precision)
        return
    exact = hidden_and_gradients(clear, batch, "float32")
    fast_errors, clear_errors = ([distance(*pair) for pair in zip(values, exact, strict=True)] for values in results)
    assert sum(fast_errors) <= 1.5 * sum(clear_errors)
    names = ["hidden", *(name for name, parameter in clear.named_parameters() if parameter.grad is not None)]
    worse = {
        name: (fast_error, clear_error, values.norm().item())
        for name, fast_error, clear_error, values in zip(names, fast_errors, clear_errors, exact, strict=True)
        if fast_error > 2 * clear_error + 0.002
    }
    assert not worse


def hidden_and_gradients(model: Model, batch: PairBatch, precision: str) -> list[Tensor]:
    model.zero_grad()
    with casting(precision):
        hidden = model(batch.source, batch.target_input).hidden
    hidden = hidden * (batch.target_output != 0)[..., None]
    (hidden * torch.linspace(-1, 1, hidden.numel(), device=CUDA).view_as(hidden)).sum().backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    return [hidden.detach(), *gradients]


def distance(value: Tensor, exact: Tensor) -> float:
    """‖value − exact‖ / ‖exact‖."""
    return ((value.double() - exact.double()).norm() / exact.double().norm()).item()


# --- Captured passes ---


def batch_of(source: int, target: int, *, seed: int = 1) -> PairBatch:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, source + 1, (ROWS,), generator=generator)
    targets = torch.randint(1, target + 1, (ROWS,), generator=generator)
    ids = torch.randint(4, VOCABULARY, (ROWS, source), generator=generator)
    outputs = torch.randint(4, VOCABULARY, (ROWS, target), generator=generator)
    outputs[torch.arange(target) >= targets[:, None]] = 0
    inputs = torch.cat([torch.full((ROWS, 1), 1), outputs[:, :-1]], dim=1)
    weight = int(targets.sum())
    return PairBatch(Padded(ids, lengths), inputs, outputs, targets, weight, weight).pin()


def updater_of(
    family: str, folder: Path, *settings: tuple[str, Any], captured: bool = True, backend: str | None = "aot_eager"
) -> Updater:
    """An updater of a run that is captured and, unless `backend` is None, compiled.

    Most tests leave out the compiler's own kernels, which take long to compile.
    """
    torch.manual_seed(1)
    model = Model(ModelConfig.model_validate(FAMILIES[family]), sizes=Sizes(VOCABULARY, VOCABULARY, joint=True))
    model = model.to(CUDA).train()
    values = {"capture" if backend is None else "compile": True, "batch": {"shapes": "static"}, **dict(settings)}
    tokenizers: Any = SimpleNamespace(source=None, target=None)
    config = TrainingConfig.model_validate(values)
    task = Translation(config.objective, smoothing=0.1, tokenizers=tokenizers, subwords=FixedConfig())
    splits = MemorySplits(folder / "history.jsonl")
    updater = Updater(model, task=task, config=config, seed=1, ranks=Ranks(), splits=splits)
    assert updater.captured is not None
    if backend is not None:
        compile_model(model, version=config.arithmetic, captured=True, backend=backend)
    if not captured:
        updater.captured = None
    return updater


UPDATES = ([(9, 11)], [(5, 7)], [(9, 11)], [(9, 11), (5, 7)], [(5, 7), (9, 11)])


def perform(updater: Updater) -> list[Tensor]:
    """Some updates over two shapes, single and accumulated."""
    for step, shapes in enumerate(UPDATES, start=1):
        batches = [batch_of(*shape, seed=step + number) for number, shape in enumerate(shapes)]
        updater.update(batches, step=step, rate=0.01)
    return [*(parameter.detach().clone() for parameter in updater.model.parameters()), updater.sums.objective]


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


BACKENDS = ("aot_eager", None)  # None: not compiled
CASES = [
    *((family, precision, backend) for family in FAMILIES for precision in PRECISIONS for backend in BACKENDS),
    ("transformer", "bfloat16", "inductor"),
]
METHODS = ("cross-entropy", "r-drop")


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("family", "precision", "backend"), CASES)
def test_captured_passes_have_the_bits_of_others(
    family: str, precision: str, backend: str | None, method: str, tmp_path: Path
) -> None:
    """With dropout; so a resumed run, which captures at other steps, ends with the same bytes."""
    settings = [("precision", precision), ("objective", {"method": {"kind": method}})]
    captured = updater_of(family, tmp_path, *settings, backend=backend)
    results = perform(captured)
    assert captured.captured is not None
    assert captured.captured.failure is None
    assert len(captured.captured) == 2
    plain = updater_of(family, tmp_path, *settings, captured=False, backend=backend)
    for value, expected in zip(results, perform(plain), strict=True):
        assert torch.equal(value, expected)


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("backend", BACKENDS)
def test_captured_passes_read_the_weights_where_they_are(backend: str | None, tmp_path: Path) -> None:
    """`nn.LSTM.to` moves its weights in memory, even if the device stays the same."""
    moved, plain = (updater_of("luong", tmp_path, captured=captured, backend=backend) for captured in (True, False))
    results = []
    for updater in (moved, plain):
        perform(updater)
        if updater is moved:
            before = [parameter.data_ptr() for parameter in updater.model.parameters()]
            updater.model.to(CUDA)
            assert [parameter.data_ptr() for parameter in updater.model.parameters()] != before
        results.append(perform(updater))
    assert moved.captured is not None and moved.captured.failure is None and len(moved.captured) == 2
    for value, expected in zip(*results, strict=True):
        assert torch.equal(value, expected)


def captioner_updater(folder: Path, *, family: str, captured: bool) -> Updater:
    torch.manual_seed(1)
    model = CaptionerModel(CaptionerConfig.model_validate(CAPTIONERS[family]), vocabulary_size=VOCABULARY)
    config = TrainingConfig(capture=True, batch=BatchConfig(shapes="static"))
    task = Captioning(CaptioningConfig(size=32), positions=16, smoothing=0.1)
    splits = MemorySplits(folder / "history.jsonl")
    updater = Updater(model.to(CUDA).train(), task=task, config=config, seed=1, ranks=Ranks(), splits=splits)
    assert updater.captured is not None
    if not captured:
        updater.captured = None
    return updater


def captions(target: int, *, seed: int) -> CaptionBatch:
    generator = torch.Generator().manual_seed(seed)
    pairs = batch_of(5, target, seed=seed)
    pixels = torch.randint(256, (ROWS, 32, 32, 3), generator=generator, dtype=torch.uint8)
    images = Padded(pixels, torch.full((ROWS,), 16))
    return CaptionBatch(images, *pairs[1:])


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("family", CAPTIONERS)
def test_captioners_are_captured(family: str, tmp_path: Path) -> None:
    results = []
    for is_captured in (True, False):
        updater = captioner_updater(tmp_path, family=family, captured=is_captured)
        for step, target in enumerate((7, 9, 7, 9), start=1):
            updater.update([captions(target, seed=step).pin()], step=step, rate=0.01)
        if updater.captured is not None:
            assert updater.captured.failure is None and len(updater.captured) == 2
        results.append([*(parameter.detach() for parameter in updater.model.parameters()), updater.sums.objective])
    for value, expected in zip(*results, strict=True):
        assert torch.equal(value, expected)


def recordings(samples: int, *, seed: int) -> SpeechBatch:
    """A batch of recordings whose last row is padding."""
    generator = torch.Generator().manual_seed(seed)
    pairs = batch_of(5, 4, seed=seed)
    lengths = torch.randint(samples // 2, samples + 1, (ROWS,), generator=generator)
    audio = torch.randint(-3000, 3000, (ROWS, samples), generator=generator, dtype=torch.int16)
    inputs, outputs = (torch.where(ids > 3, 4 + ids % (SIZES.vocabulary - 4), ids) for ids in pairs[1:3])
    targets = pairs.target_lengths.clone()
    lengths[-1], outputs[-1], targets[-1] = 0, 0, 0
    weight = int(targets.sum())
    return SpeechBatch(Padded(audio, lengths), inputs, outputs, targets, weight, weight, hop=80).pin()


def recogniser_updater(name: str, folder: Path, *, captured: bool) -> Updater:
    """An updater of a recogniser with perturbations, masks and smoothed spectra."""
    torch.manual_seed(1)
    changes = {
        "cepstrum": 5,
        "augmentation": SpecAugmentConfig(),
        "perturbation": PerturbationConfig(vocal_tract=0.1, equaliser=3.0, noise=(5, 50)),
    }
    config = RECOGNISERS[name]
    model = RecogniserModel(config.model_copy(update=changes), sizes=SIZES).to(CUDA).train()
    task = Recognition(RecognitionConfig(rate=8000), parts=loss_parts(config.head), seed=1)
    training = TrainingConfig.model_validate({"capture": True, "optimiser": {"kind": "sgd"}})
    splits = MemorySplits(folder / "history.jsonl")
    updater = Updater(model, task=task, config=training, seed=1, ranks=Ranks(), splits=splits)
    assert updater.captured is not None
    if not captured:
        updater.captured = None
    return updater


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("name", sorted(RECOGNISERS))
def test_recognisers_are_captured(name: str, tmp_path: Path) -> None:
    results = []
    for is_captured in (True, False):
        updater = recogniser_updater(name, tmp_path, captured=is_captured)
        for step, samples in enumerate((4000, 5600, 4000), start=1):
            updater.update([recordings(samples, seed=step)], step=step, rate=0.01)
        if updater.captured is not None:
            assert updater.captured.failure is None and len(updater.captured) == 2
        results.append([*(each.detach() for each in updater.model.parameters()), updater.sums.objective])
    assert all(value.isfinite().all() for value in results[0])
    assert_near(*results, "float32")


@pytest.mark.parametrize("is_captured", [True, False])
@pytest.mark.parametrize("family", ["transformer", "luong"])
def test_the_host_never_waits_in_a_step(family: str, is_captured: bool, tmp_path: Path) -> None:
    updater = updater_of(family, tmp_path, ("precision", "bfloat16"), captured=is_captured)
    batch = batch_of(9, 11)
    for step in (1, 2):
        updater.update([batch], step=step, rate=0.01)
    with waits_refused():
        updater.update([batch], step=3, rate=0.01)


def asks_the_device(loss: Callable[..., Any]) -> Callable[..., Any]:
    def asking(*arguments: Any, **options: Any) -> Any:
        result = loss(*arguments, **options)
        result.objective.item()
        return result

    return asking


def waits_for_the_device(loss: Callable[..., Any]) -> Callable[..., Any]:
    """This is only found out in the middle of a capture."""

    def waiting(*arguments: Any, **options: Any) -> Any:
        torch.cuda.synchronize()
        return loss(*arguments, **options)

    return waiting


def reads_lengths(loss: Callable[..., Any]) -> Callable[..., Any]:
    def reading(model: Any, batch: PairBatch, **options: Any) -> Any:
        assert int(batch.source.lengths.sum()) > 0
        return loss(model, batch, **options)

    return reading


def draws_on_the_host(loss: Callable[..., Any]) -> Callable[..., Any]:
    def drawing(*arguments: Any, **options: Any) -> Any:
        torch.rand(1)
        return loss(*arguments, **options)

    return drawing


@pytest.mark.parametrize("change", [asks_the_device, reads_lengths, draws_on_the_host, waits_for_the_device])
def test_a_pass_that_depends_on_the_host_is_not_captured(change: Callable[..., Any], tmp_path: Path) -> None:
    changed = updater_of("luong", tmp_path)
    changed.task.loss = change(changed.task.loss)  # type: ignore[method-assign]
    results = perform(changed)
    assert changed.captured is not None and changed.captured.failure
    plain = updater_of("luong", tmp_path, captured=False)
    assert_near(results, perform(plain), "float32")
