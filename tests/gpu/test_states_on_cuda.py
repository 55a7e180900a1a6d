"""Nearest states of a model on a GPU: the same as on the CPU, up to rounding."""

from pathlib import Path

import numpy as np
import pytest
import torch

from calque.inspection.state_index import SIDES, build_index, open_index
from calque.inspection.states import states_of_view
from calque.inspection.translation import inspect_translation
from tests.unit.inspection.test_states import ARCHITECTURES, corpus, translator_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_an_index_built_on_a_gpu_is_that_of_the_cpu(tmp_path: Path, family: str) -> None:
    data = corpus(tmp_path / "corpus")
    cpu, gpu = translator_of(family), translator_of(family)
    gpu.model.cuda()
    on_cpu = build_index(cpu, tmp_path / "cpu", data=data, seed=1)
    on_gpu = build_index(gpu, tmp_path / "gpu", data=data, seed=1)
    assert open_index(tmp_path / "gpu", cpu).id == on_gpu.id  # where the model is makes no difference
    for side in SIDES:
        np.testing.assert_allclose(on_gpu.states(side), on_cpu.states(side), atol=2e-3)
    sentence = on_gpu.sentence(2)
    view = inspect_translation(gpu, sentence.source, target=sentence.target)
    states = states_of_view(gpu, view, index=on_gpu)
    for side in SIDES:
        assert all(item.neighbours[0].distance < 1e-2 for item in states.side(side).points)
