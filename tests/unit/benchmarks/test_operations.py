"""Counted multiply-adds, against torch's own counter of what a model really computes."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from benchmarks.errors import BenchmarkError
from benchmarks.operations import decoding_operations, training_operations
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from calque.config import read_toml
from calque.layers.arithmetic import use_arithmetic
from calque.models.model import Model, ModelConfig, Sizes
from calque.models.systems import system_model
from calque.tensors import Padded, select_rows

ROWS, SOURCE, TARGET, VOCABULARY = 2, 7, 11, 100
LSTM = Path(__file__).parents[3] / "benchmarks" / "lstm.toml"


def configs() -> dict[str, ModelConfig]:
    lstm = ModelConfig.model_validate(read_toml(LSTM)["model"])
    small = system_model("small")
    assert isinstance(small, ModelConfig)
    uneven = small.model_copy(update={"encoder": small.encoder.model_copy(update={"layers": 1, "feed_forward": 96})})
    return {"small": small, "uneven": uneven, "lstm": lstm}


def build(config: ModelConfig) -> Model:
    return Model(config, sizes=Sizes(VOCABULARY, VOCABULARY, joint=True))


def counted(work: Callable[[], None]) -> int:
    """Operations of `work`; fused kernels, of which the counter knows nothing, are switched off."""
    before = torch.backends.mkldnn.set_flags(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            work()
    finally:
        torch.backends.mkldnn.set_flags(before[0])
    return int(counter.get_total_flops())


@pytest.mark.parametrize("name", configs())
def test_training_operations_are_those_that_torch_counts(name: str) -> None:
    """Within 1 %: the zeros that an LSTM begins with need no gradient."""
    config = configs()[name]
    model = build(config)
    tokens = torch.randint(4, VOCABULARY, (ROWS, SOURCE))
    source = Padded(tokens, torch.full((ROWS,), SOURCE))

    def train() -> None:
        with use_arithmetic(1):  # torch's counter overlooks products in place, which our own LSTM has
            output = model(source, torch.randint(4, VOCABULARY, (ROWS, TARGET)))
            torch.autograd.backward(model.logits(output.hidden).sum())

    values = config.model_dump(mode="json")
    expected = training_operations(values, source=SOURCE, target=TARGET, vocabulary=VOCABULARY)
    assert counted(train) == pytest.approx(ROWS * expected.flops, rel=0.01 if name == "lstm" else 1e-6)


@pytest.mark.parametrize("name", configs())
@pytest.mark.parametrize("beam", [1, 3])
def test_decoding_operations_are_those_of_every_step(name: str, beam: int) -> None:
    config = configs()[name]
    model = build(config).eval()
    source = Padded(torch.randint(4, VOCABULARY, (1, SOURCE)), torch.full((1,), SOURCE))

    def decode() -> None:
        with torch.no_grad():
            context = model.prepare(source)
            state, rows = model.start(context), 1
            for _ in range(TARGET):
                output, state = model.read(torch.full((rows, 1), 5), state, context)
                model.log_probs(output, context)
                if rows < beam:
                    state, rows = select_rows(state, torch.zeros(beam, dtype=torch.long)), beam

    values = config.model_dump(mode="json")
    expected = decoding_operations(values, source=SOURCE, target=TARGET, vocabulary=VOCABULARY, beam=beam)
    assert counted(decode) == pytest.approx(expected.flops, rel=0.01)


@pytest.mark.parametrize(
    ("side", "key", "value"),
    [("encoder", "kind", "convolutional"), ("decoder", "kind", "bahdanau"), ("decoder", "mixer", "ssru")],
)
def test_models_that_are_not_counted_are_named(side: str, key: str, value: str) -> None:
    values = configs()["small"].model_dump(mode="json")
    values[side][key] = value
    with pytest.raises(BenchmarkError, match=value):
        training_operations(values, source=1, target=1, vocabulary=10)
