"""Writes the weights of a Calque LSTM into a checkpoint of OpenNMT-py; run by the Python of OpenNMT-py's environment.

    .peers/opennmt-py/bin/python benchmarks/peers/to_opennmt.py runs/1 checkpoint.pt OUT.pt

`checkpoint.pt` is what OpenNMT-py saves after a step with a model of the same size and the same pieces: a bidirectional
LSTM, general attention and input feeding (Luong 2015), one matrix for both embeddings and the output. Both toolkits
compute the same equations.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from safetensors.torch import load_file

SPECIAL = {"<blank>": "<pad>"}  # OpenNMT-py's name and Calque's; the others are the same
WORDS = ("encoder", "decoder")


def main() -> int:
    """Converts a model and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a run or model folder of Calque")
    parser.add_argument("checkpoint", type=Path, help="a checkpoint of OpenNMT-py to be filled")
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    model = options.model / "model" if (options.model / "model").is_dir() else options.model
    checkpoint = torch.load(options.checkpoint, weights_only=False)  # a pickle, as OpenNMT-py has just written it
    description = json.loads((model / "tokenizer" / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer = model / "tokenizer" / description["columns"]["target"]["file"]
    weights = renamed(load_file(model / "weights.safetensors"), rows=rows_of(checkpoint["vocab"]["tgt"], tokenizer))
    expected = {**checkpoint["model"], **{f"generator.{name}": part for name, part in checkpoint["generator"].items()}}
    problems = [
        f"{name}: Calque has {shape_of(weights.get(name))}, OpenNMT-py {shape_of(expected.get(name))}"
        for name in sorted(weights.keys() | expected.keys())
        if shape_of(weights.get(name)) != shape_of(expected.get(name))
    ]
    if problems:
        print(f"{model}: not the same architecture as OpenNMT-py's LSTM:\n  " + "\n  ".join(problems), file=sys.stderr)
        return 2
    checkpoint["model"] = {name: weights[name] for name in checkpoint["model"]}
    checkpoint["generator"] = {name: weights[f"generator.{name}"] for name in checkpoint["generator"]}
    checkpoint["optim"] = None
    torch.save(checkpoint, options.output)
    return 0


def renamed(weights: Mapping[str, torch.Tensor], *, rows: torch.Tensor) -> dict[str, torch.Tensor]:
    """The weights under OpenNMT-py's names; `rows` [V] are the ids of its pieces in Calque's vocabulary."""
    words = weights["encoder.embedding.weight"][rows]
    found = {f"{side}.embeddings.make_embedding.emb_luts.0.weight": words for side in WORDS}
    found |= {"generator.weight": words, "generator.bias": weights["output.bias"][rows]}
    found["decoder.attn.linear_in.weight"] = weights[
        "decoder.attention.score.key.weight"
    ].T.contiguous()  # h·W s = Wᵀh·s
    found["decoder.attn.linear_out.weight"] = weights["decoder.combine.weight"]
    for name, value in weights.items():
        match name.split("."):
            case ["encoder", "layers", layer, direction, "kernel", part]:
                suffix = "_reverse" if direction == "1" else ""
                found[f"encoder.rnn.{part.removesuffix('_l0')}_l{layer}{suffix}"] = value
            case ["decoder", "stack", "layers", layer, "kernel", part]:
                found[f"decoder.rnn.layers.{layer}.{part.removesuffix('_l0')}"] = value
    return found


def rows_of(pieces: list[str], tokenizer: Path) -> torch.Tensor:
    """The ids of OpenNMT-py's pieces in Calque's vocabulary."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
    ids = {piece: id for id, piece in enumerate(processor.id_to_piece(list(range(len(processor)))))}
    return torch.tensor([ids[SPECIAL.get(piece, piece)] for piece in pieces])


def shape_of(value: Any) -> str:
    return "nothing" if value is None else str(tuple(value.shape))


if __name__ == "__main__":
    sys.exit(main())
