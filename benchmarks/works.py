"""The work that contenders do: training one of three kinds of model on one corpus, with one batch budget."""

from pathlib import Path
from typing import Literal, NamedTuple

from benchmarks.corpora import Corpus

WorkName = Literal["transformer", "lstm", "language-model"]
LSTM = Path(__file__).resolve().with_name("lstm.toml")
MODELS: dict[WorkName, tuple[str | Path, ...]] = {
    "transformer": ("--system", "small"),
    "lstm": ("--config", LSTM),
    "language-model": ("--system", "language"),
}


class Work(NamedTuple):
    """A model to train, and the corpus and batches that it is trained on."""

    name: WorkName
    corpus: Corpus
    tokens: int  # training.batch.tokens
    vocabulary: int  # pieces, at most
    threads: int
    system: str | None = None  # instead of the usual model
    settings: tuple[str, ...] = ()  # more KEY=VALUE

    @property
    def is_language_model(self) -> bool:
        return self.name == "language-model"

    def model_options(self) -> tuple[str | Path, ...]:
        """The options of `calque train` that choose the model."""
        return ("--system", self.system) if self.system else MODELS[self.name]

    def corpus_options(self) -> tuple[str | Path, ...]:
        """The options of `calque train` that name the training files; a language model reads the target side."""
        if self.is_language_model:
            return ("--text", self.corpus.target)
        return ("--source", self.corpus.source, "--target", self.corpus.target)
