"""Converts the weights of a Calque Transformer to CTranslate2's format; run by the Python of CTranslate2's environment.

    .peers/ctranslate2/bin/python benchmarks/peers/to_ctranslate2.py runs/1 OUT
    .peers/ctranslate2/bin/python benchmarks/peers/to_ctranslate2.py runs/1 OUT --quantisation int8

Reads a run or model folder (config.toml, weights.safetensors, tokenizer/). It must hold a Transformer with a
sentencepiece tokenizer, sinusoidal or learned positions, ReLU or GELU, and ordinary attention.

Letters: V vocabulary, D width.
"""

import argparse
import json
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import sentencepiece
from ctranslate2.specs.common_spec import Activation, LayerNormSpec, LinearSpec
from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec, TransformerSpec
from safetensors.numpy import load_file

Weights = Mapping[str, "np.ndarray[Any, Any]"]
SHORTLIST = "shortlist.safetensors"
POSITIONS = 2048  # sinusoids that are stored: more than the longest source and translation
ACTIVATIONS = {"relu": Activation.RELU, "gelu": Activation.GELU}


def main() -> int:
    """Converts a model and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a run or model folder of Calque")
    parser.add_argument("output", type=Path, help="the new model folder of CTranslate2")
    parser.add_argument(
        "--quantisation", choices=["float32", "int8"], default="float32", help="data type of the stored weights"
    )
    options = parser.parse_args()
    model = options.model / "model" if (options.model / "model").is_dir() else options.model
    config = tomllib.loads((model / "config.toml").read_text(encoding="utf-8"))
    problems = unsupported(config["model"]) if "model" in config else ["config.toml describes no model"]
    if problems:
        print(f"{model}: CTranslate2 cannot run this model: {'; '.join(problems)}", file=sys.stderr)
        return 2
    convert(model, config["model"], output=options.output, quantisation=options.quantisation)
    return 0


def unsupported(config: Mapping[str, Any]) -> list[str]:
    """A message for every setting of [model] that cannot be converted."""
    problems = []
    for side in ("encoder", "decoder"):
        part = config.get(side, {})
        supported = {
            "kind": ("transformer",),
            "activation": tuple(ACTIVATIONS),
            "positions": ("sinusoidal", "learned"),
            "normalisation": ("layer",),
            "mixer": ("attention",),
            "copies": (False,),
        }
        for key, values in supported.items():
            found = part.get(key, values[0])
            if found not in values:
                problems.append(f"{side}.{key} is {found!r}, expected {' or '.join(map(repr, values))}")
        if part.get("key_value_heads") not in (None, part.get("heads")):
            problems.append(f"{side}.key_value_heads is {part['key_value_heads']}, expected as many as heads")
    if config.get("output", {}).get("kind", "full") != "full":
        problems.append(f"output.kind is {config['output']['kind']!r}, expected 'full'")
    return problems


def convert(model: Path, config: Mapping[str, Any], *, output: Path, quantisation: str) -> None:
    """Writes the model folder: the weights, and the tokenizers of both sides."""
    weights = load_file(model / "weights.safetensors")
    spec = TransformerSpec(encoder_spec(config["encoder"], weights), decoder_spec(config["decoder"], weights))
    files = tokenizer_files(model / "tokenizer")
    pieces = {side: pieces_of(path) for side, path in files.items()}
    spec.register_source_vocabulary(pieces["source"])
    spec.register_target_vocabulary(pieces["target"])
    spec.config.add_source_eos = True  # Calque's encoders read the end mark
    spec.config.decoder_start_token = "<s>"
    spec.validate()
    spec.optimize(quantization=None if quantisation == "float32" else quantisation)
    output.mkdir(parents=True, exist_ok=True)
    spec.save(str(output))
    for side, path in files.items():
        shutil.copyfile(path, output / f"{side}.spm")
    if (model / SHORTLIST).exists():
        (output / "vmap.txt").write_text("".join(vocabulary_map(model / SHORTLIST, pieces)), encoding="utf-8")


def vocabulary_map(shortlist: Path, pieces: Mapping[str, list[str]]) -> Iterator[str]:
    """Yields the lines of CTranslate2's vocabulary map: a source piece, a tab and its target pieces.

    The first line lists the target pieces of all sentences.
    """
    table = load_file(shortlist)
    target = pieces["target"]
    yield "\t" + " ".join(target[id] for id in table["frequent"]) + "\n"
    for id, piece in enumerate(pieces["source"]):
        own = table["targets"][table["offsets"][id] : table["offsets"][id + 1]]
        if len(own):
            yield f"{piece}\t{' '.join(target[id] for id in own)}\n"


def encoder_spec(config: Mapping[str, Any], weights: Weights) -> TransformerEncoderSpec:
    """CTranslate2's description of the encoder, with its weights."""
    is_pre = config.get("norm", "pre") == "pre"
    activation = ACTIVATIONS[config.get("activation", "relu")]
    spec = TransformerEncoderSpec(config["layers"], config["heads"], pre_norm=is_pre, activation=activation)
    (embeddings,) = spec.embeddings
    embeddings.weight = embedding(weights, side="encoder")
    spec.position_encodings.encodings = positions(config, weights, side="encoder")
    for number, layer in enumerate(spec.layer):
        prefix = f"encoder.blocks.{number}"
        self_attention(layer.self_attention, weights, f"{prefix}.attention", norm=f"{prefix}.around_attention.norm")
        feed_forward(layer.ffn, weights, prefix)
    if is_pre:
        normalise(spec.layer_norm, weights, "encoder.norm")
    return spec


def decoder_spec(config: Mapping[str, Any], weights: Weights) -> TransformerDecoderSpec:
    """CTranslate2's description of the decoder and the output layer, with their weights."""
    is_pre = config.get("norm", "pre") == "pre"
    activation = ACTIVATIONS[config.get("activation", "relu")]
    spec = TransformerDecoderSpec(config["layers"], config["heads"], pre_norm=is_pre, activation=activation)
    spec.embeddings.weight = embedding(weights, side="decoder")
    spec.position_encodings.encodings = positions(config, weights, side="decoder")
    for number, layer in enumerate(spec.layer):
        prefix = f"decoder.blocks.{number}"
        self_attention(layer.self_attention, weights, f"{prefix}.self_attention", norm=f"{prefix}.around_self.norm")
        cross, source = layer.attention, f"{prefix}.cross_attention"
        for spec_part, part in zip(cross.linear, ("query", "key_value", "out"), strict=True):
            dense(spec_part, weights, f"{source}.{part}")
        normalise(cross.layer_norm, weights, f"{prefix}.around_cross.norm")
        feed_forward(layer.ffn, weights, prefix)
    if is_pre:
        normalise(spec.layer_norm, weights, "decoder.norm")
    spec.projection.weight = weights.get("output.weight", spec.embeddings.weight)
    spec.projection.bias = weights["output.bias"]
    return spec


def embedding(weights: Weights, *, side: str) -> "np.ndarray[Any, Any]":
    """The embedding [V,D]; if shared, stored under its first name. CTranslate2 multiplies it by √D, as Calque does."""
    return weights.get(f"{side}.embedding.weight", weights["encoder.embedding.weight"])


def positions(config: Mapping[str, Any], weights: Weights, *, side: str) -> "np.ndarray[Any, Any]":
    """The vectors that are added to embeddings; sines in the first half, cosines in the second."""
    learned = weights.get(f"{side}.embedding.positions.weight")
    if learned is not None:
        return learned
    width = config["width"]
    rates = 10000 ** (-2 * np.arange(width // 2) / width)
    angles = np.arange(POSITIONS)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1).astype(np.float32)


def self_attention(spec: Any, weights: Weights, name: str, *, norm: str) -> None:
    """Sets the weights of self-attention; queries, keys and values are one matrix in CTranslate2."""
    joined, out = spec.linear
    for part in ("weight", "bias"):
        parts = [weights[f"{name}.{layer}.{part}"] for layer in ("query", "key_value")]
        setattr(joined, part, np.concatenate(parts))
    dense(out, weights, f"{name}.out")
    normalise(spec.layer_norm, weights, norm)


def feed_forward(spec: Any, weights: Weights, prefix: str) -> None:
    """Sets both matrices and the normalisation of a feed-forward layer."""
    dense(spec.linear_0, weights, f"{prefix}.feed_forward.enter")
    dense(spec.linear_1, weights, f"{prefix}.feed_forward.leave")
    normalise(spec.layer_norm, weights, f"{prefix}.around_feed_forward.norm")


def dense(spec: LinearSpec, weights: Weights, name: str) -> None:
    """Sets a matrix and its bias."""
    spec.weight, spec.bias = weights[f"{name}.weight"], weights[f"{name}.bias"]


def normalise(spec: LayerNormSpec, weights: Weights, name: str) -> None:
    """Sets the scale and shift of a layer normalisation."""
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def tokenizer_files(folder: Path) -> dict[str, Path]:
    """The sentencepiece model of either side, as tokenizer.json names it."""
    description = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    return {side: folder / description["columns"][side]["file"] for side in ("source", "target")}


def pieces_of(path: Path) -> list[str]:
    """All pieces in the order of their ids."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    pieces: list[str] = processor.id_to_piece(list(range(len(processor))))
    return pieces


if __name__ == "__main__":
    assert ctranslate2.__version__
    sys.exit(main())
