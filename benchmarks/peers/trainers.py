"""Peers that train models of the same size: contenders of `python -m benchmarks.train --peers`.

They are driven by their own command lines and read text that is already cut into pieces by Calque's tokenizer, sources
with an end mark, so that all contenders read the same positions. Loading happens in the training process, so that all
of it is counted.
"""

import json
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.errors import ContenderError
from benchmarks.peers.environments import Environment, PeerName
from benchmarks.peers.texts import PieceTexts, write_texts
from benchmarks.trainers import TrainingRun
from benchmarks.works import Work, WorkName

PEERS: tuple[PeerName, ...] = ("opennmt-py", "eole")
NEVER = 1_000_000_000  # steps
ALIKE: dict[WorkName, tuple[str, ...]] = {
    "transformer": ("model.encoder.activation_dropout=0.1", "model.decoder.activation_dropout=0.1"),
    "lstm": (),
}
"""Settings under which Calque has dropout where the peers have it: also inside feed-forward layers."""
COMMANDS: dict[PeerName, tuple[str, ...]] = {
    "opennmt-py": ("-m", "onmt.bin.train", "-config"),
    "eole": ("-m", "eole.bin.main", "train", "-config"),
}
REPORT = re.compile(r"Step\s+(\d+)/.*bsz:\s*\d+/\s*(\d+)/")


class PeerTrainer(NamedTuple):
    """A peer that trains: OpenNMT-py or Eole."""

    environment: Environment
    tokenizer: Path  # a sentencepiece model, which is there before `prepare`

    @property
    def name(self) -> str:
        return self.environment.title

    def prepare(self, work: Work, *, folder: Path) -> None:
        """Writes the training text and trains for one step."""
        write_texts(work.corpus, tokenizer=self.tokenizer, folder=folder)
        self.train(work, steps=1, folder=folder)

    def train(self, work: Work, *, steps: int, folder: Path) -> TrainingRun:
        """Trains and saves once, at the end."""
        texts = PieceTexts(folder / "train.source", folder / "train.target", folder / "vocabulary.txt")
        config, log, model = folder / "config.yaml", folder / "train.log", folder / "model"
        values = config_of(self.environment.peer, work, steps=steps, texts=texts, model=model)
        config.write_text(json.dumps(values, indent=2), encoding="utf-8")  # JSON is YAML
        usage = self.environment.run(
            "-W", "ignore", *COMMANDS[self.environment.peer], config, folder=folder, threads=work.threads, log=log
        )
        tokens = read_report(log.read_text(encoding="utf-8"), steps=steps)
        for path in folder.glob("model*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return TrainingRun(steps, tokens, None, texts.bytes(), usage)


def read_report(log: str, *, steps: int) -> int:
    """The target tokens of all steps, from the line that a peer reports after the last step."""
    reports = [(int(step), int(tokens)) for step, tokens in REPORT.findall(log)]
    if [step for step, _ in reports] != [steps]:
        raise ContenderError(f"expected one report after step {steps}, found {reports or 'none'}:\n{log[-2000:]}")
    return reports[0][1] * steps


def config_of(peer: PeerName, work: Work, *, steps: int, texts: PieceTexts, model: Path) -> dict[str, Any]:
    """The config file of one run. A batch has `tokens` / 2 positions on its larger side: Calque counts both sides."""
    data = {
        "data": {"corpus": {"path_src": str(texts.source), "path_tgt": str(texts.target)}},
        "src_vocab": str(texts.vocabulary),
        "tgt_vocab": str(texts.vocabulary),
        "share_vocab": True,
        "src_vocab_size": 2 * work.vocabulary,  # all pieces
        "tgt_vocab_size": 2 * work.vocabulary,
        "vocab_size_multiple": 1,  # no pieces that do not exist
        "seed": 1,
        "report_every": steps,
    }
    training = {
        "train_steps": steps,
        "save_checkpoint_steps": steps,
        "valid_steps": NEVER,
        "batch_type": "tokens",
        "batch_size": work.tokens // 2,
        "bucket_size": 16384,  # sentences sorted by length together
        "num_workers": 0,
        "accum_count": [1],
        "normalization": "tokens",
        "optim": "adam",
        "adam_beta2": 0.98,
        "learning_rate": 0.001,
        "max_grad_norm": 1,
        "label_smoothing": 0.1,
        "dropout": [0.1],
        "dropout_steps": [0],
        "attention_dropout": [0.0],
    }
    if peer == "opennmt-py":
        return {**data, **training, "save_model": str(model), **OPENNMT_MODELS[work.name]}
    eole = {**training, "model_path": str(model), "compute_dtype": "fp32", "log_attention_entropy": False}
    return {**data, "overwrite": True, "training": eole, "model": EOLE_MODELS[work.name]}


TIED = {"share_embeddings": True, "share_decoder_embeddings": True}
BIASED = {"add_qkvbias": True, "add_ffnbias": True}  # as Calque's layers are
OPENNMT_MODELS: dict[WorkName, dict[str, Any]] = {
    "transformer": {
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "enc_layers": 3,
        "dec_layers": 3,
        "heads": 4,
        "hidden_size": 256,
        "word_vec_size": 256,
        "transformer_ff": 1024,
        "position_encoding": True,
        **BIASED,
        **TIED,
    },
    "lstm": {
        "encoder_type": "brnn",
        "decoder_type": "rnn",
        "rnn_type": "LSTM",
        "enc_layers": 2,
        "dec_layers": 2,
        "hidden_size": 256,
        "word_vec_size": 256,
        "global_attention": "general",
        "input_feed": 1,
        **TIED,
    },
}
EOLE_MODELS: dict[WorkName, dict[str, Any]] = {
    "transformer": {
        "architecture": "transformer",
        "layers": 3,
        "heads": 4,
        "hidden_size": 256,
        "transformer_ff": 1024,
        "embeddings": {
            "word_vec_size": 256,
            "position_encoding": True,
            "position_encoding_type": "SinusoidalInterleaved",
        },
        **BIASED,
        **TIED,
    },
    "lstm": {
        "architecture": "custom",
        "hidden_size": 256,
        "encoder": {"encoder_type": "brnn", "layers": 2, "rnn_type": "LSTM"},
        "decoder": {"decoder_type": "rnn", "layers": 2, "rnn_type": "LSTM", "global_attention": "general"},
        "input_feed": 1,
        "embeddings": {"word_vec_size": 256},
        **TIED,
    },
}
