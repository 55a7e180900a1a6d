"""Peers that decode, with the weights of a Calque model: contenders of `python -m benchmarks.decode --peers`."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from benchmarks.decoders import Decoder
from benchmarks.peers.environments import SCRIPTS, Environment, PeerName
from benchmarks.processes import Usage
from benchmarks.works import WorkName

PEERS: dict[WorkName, tuple[PeerName, ...]] = {"transformer": ("ctranslate2",), "lstm": ("opennmt-py",)}

SAME_RULE = ("stopping=first", "normalisation=plain", "length_penalty=1")
"""Settings of Calque's search under which it searches as CTranslate2 does: it stops when `beam` hypotheses have ended
and divides their log-probabilities by their length."""


class PeerDecoder(Decoder, Protocol):
    """A peer that holds the weights of a Calque model."""

    @property
    def is_exact(self) -> bool:
        """Whether it computes in float32, so that the same weights must give the same text."""


class CTranslate2Decoder(NamedTuple):
    """CTranslate2 with one type of arithmetic."""

    environment: Environment
    model: Path  # in its own format
    compute_type: str
    threads: int

    @property
    def name(self) -> str:
        return f"{self.environment.title} {self.compute_type}"

    @property
    def is_exact(self) -> bool:
        return self.compute_type == "float32"

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
            *options,
            folder=output.parent,
            threads=1,  # of each worker
            log=output.with_suffix(".log"),
        )


def prepare_peers(environments: Sequence[Environment], model: Path, *, threads: int, folder: Path) -> list[PeerDecoder]:
    """The contenders of these environments, each with the weights of `model` in its own format."""
    peers: list[PeerDecoder] = []
    for environment in environments:
        converted = convert_to_ctranslate2(environment, model, output=folder / environment.peer)
        peers += [CTranslate2Decoder(environment, converted, name, threads) for name in ("float32", "int8")]
    return peers


def convert_to_ctranslate2(environment: Environment, model: Path, *, output: Path) -> Path:
    """The folder of the converted model; its weights are stored in float32 and quantised when they are loaded."""
    script = SCRIPTS / "to_ctranslate2.py"
    environment.run(script, model, output, folder=output.parent, threads=1, log=output.parent / "convert.log")
    return output
