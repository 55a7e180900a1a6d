"""`calque quantise`, and what the other commands make of its folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Answer
from tests.unit.engine.test_quantisation import save

LINES = b"a station\nGr\xc3\xb6\xc3\x9fe!\n\nthe trains are late today, all of them\n"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(tmp_path / "model", "lstm")


def test_a_folder_is_written_and_translates_as_with_8_bit_products(
    model: Path, tmp_path: Path, command: Callable[..., Answer]
) -> None:
    small = tmp_path / "small"
    answer = command("quantise", model, small)
    assert (answer.code, answer.out) == (0, f"{small}\n")
    before, after = ((folder / "weights.safetensors").stat().st_size for folder in (model, small))
    sizes = f"weights: {before / 1e6:,.1f} MB before, {after / 1e6:,.1f} MB with 8 bits ({after / before:.0%})\n"
    assert answer.err == sizes
    for options in ([], ["--nbest", 3, "--format", "jsonl"], ["--ensemble", model]):
        others = ["--ensemble", small] if options[:1] == ["--ensemble"] else options
        expected = command("translate", model, *options, "--precision", "int8", stdin=LINES)
        stored = command("translate", small, *others, stdin=LINES)
        assert stored.code == expected.code == 0
        assert stored.out == expected.out
    mixed = command("translate", small, "--ensemble", model, stdin=LINES)
    assert (mixed.code, len(mixed.out.splitlines())) == (0, 4)

    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(LINES)
    target.write_bytes(LINES)
    scores = [
        command("score", folder, "--source", source, "--target", target, *options)
        for folder, options in ((model, ["--precision", "int8"]), (small, []))
    ]
    assert scores[0].code == 0 and scores[0].out == scores[1].out


def test_inspection_uses_the_rounded_weights_in_float(
    model: Path, tmp_path: Path, command: Callable[..., Answer]
) -> None:
    small = tmp_path / "small"
    assert command("quantise", model, small).code == 0
    answer = command("inspect", small, "a station", "--format", "json")
    assert answer.code == 0 and '"saliency"' in answer.out
    refused = command("inspect", small, "a station", "--precision", "int8")
    assert refused.code == 2 and "inspection needs gradients, which int8 does not support; use float32" in refused.err


def test_mistakes_have_one_message_and_exit_code_2(model: Path, tmp_path: Path, command: Callable[..., Answer]) -> None:
    small = tmp_path / "small"
    assert command("quantise", model, small).code == 0
    pairs = ["--source", tmp_path / "pairs", "--target", tmp_path / "pairs", "--run", tmp_path / "run"]
    (tmp_path / "pairs").write_text("a b c\nd e f\n" * 60)
    for arguments, message in (
        (["quantise", model, small], "already exists; choose another folder"),
        (["quantise", small, tmp_path / "new"], "its weights are already 8-bit; use it as it is"),
        (["quantise", tmp_path / "missing", tmp_path / "new"], "no such run or model folder"),
        (["quantise", model], "see calque quantise --help"),
        (["train", "--resume", small], "a model with 8-bit weights, which cannot be trained further; resume the run"),
        (
            ["train", *pairs, f"training.warm_start={small}"],
            "which can only be used for decoding; use the model from which",
        ),
        (["average", small], "not a run folder"),
        (["translate", small, "--device", "cpu", "--precision", "int4"], "not one of auto, float32"),
    ):
        answer = command(*arguments)
        assert answer.code == 2 and message in answer.err, arguments
        assert "Traceback" not in answer.err
    weights = small / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    answer = command("translate", small, stdin=b"a\n")
    assert answer.code == 2 and "weights.safetensors: changed since it was written" in answer.err
