"""Peers that decode, with the weights of a Calque model: contenders of `python -m benchmarks.decode --peers`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from benchmarks.corpora import Corpus, read_lines, write_lines
from benchmarks.decoders import Decoder
from benchmarks.errors import BenchmarkError
from benchmarks.options import progress
from benchmarks.peers.environments import SCRIPTS, Environment, PeerName
from benchmarks.peers.texts import decode_file, encode_file, vocabulary_of, write_texts
from benchmarks.peers.trainers import COMMANDS, config_of
from benchmarks.processes import Usage
from benchmarks.works import Work, WorkName

PEERS: dict[WorkName, tuple[PeerName, ...]] = {"transformer": ("ctranslate2",), "lstm": ("opennmt-py",)}

PRECISIONS = ("float32", "int8")  # of CTranslate2
BATCH_TOKENS = 4000  # padded source positions per batch of the peers
MAXIMUM = 256  # pieces of a translation, CTranslate2's default
SAME_LIMITS = (f"maximum={MAXIMUM}", "maximum_ratio=1000", "learnt_maximum=false")
SAME_SCORES = ("stopping=first", "normalisation=plain", "length_penalty=1")
"""Settings of Calque's search under which it searches as CTranslate2 does: translations have one maximum length,
search stops when `beam` hypotheses have ended, and their log-probabilities are divided by their lengths."""


class PeerDecoder(Decoder, Protocol):
    """A peer that decodes with the weights of a Calque model."""

    @property
    def is_exact(self) -> bool:
        """Whether the peer computes in float32, so that the same weights must produce the same text."""


class CTranslate2Decoder(NamedTuple):
    """CTranslate2 in one precision."""

    environment: Environment
    model: Path  # in its own format
    compute_type: str
    threads: int
    shortlist: bool = False  # as its vocabulary map

    @property
    def name(self) -> str:
        return f"{self.environment.title} {self.compute_type}{' shortlist' if self.shortlist else ''}"

    @property
    def precision(self) -> str:
        return self.compute_type

    @property
    def is_exact(self) -> bool:
        return self.compute_type == "float32" and not self.shortlist

    def count_tokens(self, source: Path, *, beam: int, folder: Path) -> list[int]:
        counts = folder / "counts.txt"
        self._run(source, output=folder / "counted.txt", beam=beam, options=("--counts", counts))
        return [int(line) for line in counts.read_text(encoding="utf-8").splitlines()]

    def translate(self, source: Path, *, output: Path, beam: int) -> Usage:
        return self._run(source, output=output, beam=beam)

    def _run(self, source: Path, *, output: Path, beam: int, options: tuple[str | Path, ...] = ()) -> Usage:
        return self.environment.run(
            SCRIPTS / "translate_with_ctranslate2.py",
            *(self.model, "--input", source, "--output", output, "--beam", str(beam)),
            *("--compute-type", self.compute_type, "--threads", str(self.threads)),
            *("--batch-tokens", str(BATCH_TOKENS), "--maximum", str(MAXIMUM)),
            *(("--vocabulary-map",) if self.shortlist else ()),
            *options,
            folder=output.parent,
            threads=1,  # of each worker
            log=output.with_suffix(".log"),
        )


class OpenNMTDecoder(NamedTuple):
    """`onmt_translate`; tokenisation and detokenisation are not measured, which favours it a little.
    It stops when the best of all candidates has ended, and divides log-probabilities by lengths.
    """

    environment: Environment
    checkpoint: Path
    tokenizer: Path
    threads: int
    precision: str = "float32"
    is_exact: bool = True

    @property
    def name(self) -> str:
        return self.environment.title

    def count_tokens(self, source: Path, *, beam: int, folder: Path) -> list[int]:
        pieces = folder / "counted.pieces"
        self._run(source, output=pieces, beam=beam)
        return [len(line.split()) + 1 for line in read_lines(pieces)]

    def translate(self, source: Path, *, output: Path, beam: int) -> Usage:
        pieces = output.with_suffix(".pieces")
        usage = self._run(source, output=pieces, beam=beam)
        decode_file(pieces, tokenizer=self.tokenizer, output=output)
        return usage

    def _run(self, source: Path, *, output: Path, beam: int) -> Usage:
        encoded = encode_file(source, tokenizer=self.tokenizer, output=source.with_suffix(".pieces"))
        return self.environment.run(
            *("-W", "ignore", "-m", "onmt.bin.translate", "-model", self.checkpoint),
            *("-src", encoded, "-output", output, "-beam_size", str(beam), "-gpu", "-1"),
            *("-batch_type", "tokens", "-batch_size", str(BATCH_TOKENS)),
            *("-max_length_ratio", "1000", "-max_length", str(MAXIMUM)),
            folder=output.parent,
            threads=self.threads,
            log=output.with_suffix(".log"),
        )


def prepare_peers(
    environments: Sequence[Environment], model: Path, *, threads: int, folder: Path, shortlist: bool = False
) -> list[PeerDecoder]:
    """The peers in these environments as contenders, each with the weights of `model` converted to its own format.

    With `shortlist`, CTranslate2 also takes part with the model's shortlist.
    """
    peers: list[PeerDecoder] = []
    for environment in environments:
        progress(f"converting the weights for {environment.title}")
        place = folder / environment.peer
        place.mkdir()
        match environment.peer:
            case "ctranslate2":
                converted = convert_to_ctranslate2(environment, model, output=place / "model")
                kinds = [(name, listed) for listed in ((False, True) if shortlist else (False,)) for name in PRECISIONS]
                peers += [CTranslate2Decoder(environment, converted, name, threads, listed) for name, listed in kinds]
            case "opennmt-py":
                tokenizer = tokenizer_of(model)
                checkpoint = convert_to_opennmt(environment, model, tokenizer=tokenizer, folder=place)
                peers.append(OpenNMTDecoder(environment, checkpoint, tokenizer, threads))
            case "eole" | "transformers":
                raise AssertionError(f"{environment.title} is a peer for training only")
    return peers


def convert_to_ctranslate2(environment: Environment, model: Path, *, output: Path) -> Path:
    """Converts a model and returns its folder; the weights are stored in float32 and quantised when they are loaded."""
    script = SCRIPTS / "to_ctranslate2.py"
    environment.run(script, model, output, folder=output.parent, threads=1, log=output.parent / "convert.log")
    return output


def convert_to_opennmt(environment: Environment, model: Path, *, tokenizer: Path, folder: Path) -> Path:
    """Converts a model and returns a checkpoint: OpenNMT-py trains for a step, and its weights are replaced."""
    lines = write_lines(folder / "lines", ["a"] * 100)
    corpus = Corpus("lines", lines, lines, lines, lines, lines)
    texts = write_texts(corpus, tokenizer=tokenizer, folder=folder)
    work = Work("lstm", corpus, 64, vocabulary_of(texts), 1)
    config = folder / "config.yaml"
    values = config_of(environment.peer, work, steps=1, texts=texts, model=folder / "filled")
    config.write_text(json.dumps(values), encoding="utf-8")
    environment.run("-W", "ignore", *COMMANDS[environment.peer], config, folder=folder, threads=1)
    checkpoint, output = folder / "filled_step_1.pt", folder / "model.pt"
    environment.run(SCRIPTS / "to_opennmt.py", model, checkpoint, output, folder=folder, threads=1)
    return output


def tokenizer_of(model: Path) -> Path:
    """The sentencepiece model that both sides of a run or model folder share."""
    folder = (model / "model" if (model / "model").is_dir() else model) / "tokenizer"
    path = folder / "joint.model"
    if not path.exists():
        raise BenchmarkError(f"{folder}: no joint.model; peers need one sentencepiece model for both sides")
    return path
