"""Statistical translation: word for word, or phrase by phrase (Koehn, Och and Marcu 2003).

The tables are estimated from a parallel corpus, and translation is search over them (`calque.statistics`); nothing here
is trained by gradients.
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator
from torch import Tensor, nn

from calque.config import Config


class PhraseSearchConfig(Config):
    """The limits of stack decoding."""

    stack: int = Field(default=100, ge=1, le=100_000)
    """Hypotheses kept per stack, i.e. per number of translated source words (histogram pruning)."""
    threshold: float = Field(default=10.0, gt=0, le=1e6)
    """Drop hypotheses whose score is this much below that of the best one of their stack."""
    pops: int = Field(default=150, ge=1, le=10_000_000)
    """Hypotheses created per stack (cube pruning); larger values are slower but find better translations."""
    distortion: int = Field(default=6, ge=0, le=1000)
    """The longest jump over source words; 0 translates in the order of the source."""
    options: int = Field(default=20, ge=1, le=10_000)
    """Translations considered per source phrase."""
    source_limit: int = Field(default=200, ge=1, le=2000)
    """A longer source is truncated to this many pieces, with a warning."""


class PhraseTuningConfig(Config):
    """How the weights of the log-linear model are tuned on the validation data (Och 2003)."""

    iterations: int = Field(default=4, ge=0, le=100)
    """Rounds of translating the validation sources and optimising the weights; 0 keeps the initial weights."""
    nbest: int = Field(default=100, ge=1, le=10_000)
    """Translations per sentence that each iteration adds to those of earlier ones."""
    restarts: int = Field(default=2, ge=0, le=1000)
    """Number of random starting points of the optimisation, besides the current weights."""
    sentences: int = Field(default=1000, ge=1)
    """At most this many validation pairs are used."""


class PhraseBasedConfig(Config):
    """A phrase table, a language model and the weights that combine their scores."""

    kind: Literal["phrase-based"] = "phrase-based"
    units: Literal["phrases", "words"] = "phrases"
    """Translate phrases, extracted from a word alignment, or single words, with the alignment model's dictionary."""
    longest: int = Field(default=7, ge=1, le=20)
    """The number of words of the longest phrase."""
    alignment: Literal["ibm1", "ibm2", "hmm"] = "hmm"
    """The word alignment model."""
    symmetrisation: Literal["intersection", "union", "grow-diag", "grow-diag-final-and", "forward", "backward"] = (
        "grow-diag-final-and"
    )
    """How the alignments of the two directions are combined."""
    discount: Literal["none", "kneser-ney"] = "kneser-ney"
    """Smoothing of phrase probabilities."""
    reordering: bool = False
    """Use lexicalised reordering, which models whether a phrase is monotone, swapped or discontinuous."""
    translations: int = Field(default=50, ge=1)
    """Translations kept per source phrase, the most likely ones."""
    language_order: int = Field(default=5, ge=0, le=9)
    """The n-gram order of the target language model; 0 for none."""
    case: Literal["lowercase", "truecase", "keep"] = "truecase"
    """truecase: the first word of a line gets its most frequent casing; lowercase: every word does. Both capitalise the
    first word of a translation if the source begins with a capital. keep: the casing of texts is not changed."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Initial weights by feature; features that are left out have default weights."""
    tuning: PhraseTuningConfig = PhraseTuningConfig()
    search: PhraseSearchConfig = PhraseSearchConfig()

    @model_validator(mode="after")
    def _known_weights(self) -> "PhraseBasedConfig":
        if unknown := sorted(set(self.weights) - set(self.initial_weights())):
            raise ValueError(
                f"weights: unknown features {', '.join(unknown)}; valid features: {', '.join(self.initial_weights())}"
            )
        return self

    def initial_weights(self) -> dict[str, float]:
        """The weights of all features before tuning."""
        if self.units == "words" and not self.language_order:
            usual = {"lexical_target": 1.0}
        elif self.units == "words":
            usual = {"lexical_source": 1.0, "lexical_target": 0.0, "words": 0.0, "language": 1.0}
        else:
            usual = {
                "phrase_source": 0.2,
                "lexical_source": 0.2,
                "phrase_target": 0.2,
                "lexical_target": 0.2,
                "phrases": -0.2,
                "words": 1.0,
                "distortion": 0.3,
                **({"language": 0.5} if self.language_order else {}),
                **(dict.fromkeys(ORIENTATION_FEATURES, 0.1) if self.reordering else {}),
            }
        return {**usual, **{name: value for name, value in self.weights.items() if name in usual}}


ORIENTATION_FEATURES = (
    "monotone_before",
    "swapped_before",
    "discontinuous_before",
    "monotone_after",
    "swapped_after",
    "discontinuous_after",
)


class PhraseTables(nn.Module):
    """Named tables of a statistical translation model: integer and float32 tensors, always on the CPU."""

    def __init__(self, tables: Mapping[str, Tensor], *, weights: Mapping[str, float]) -> None:
        super().__init__()
        self.weights = dict(weights)  # of the log-linear model's features
        self.tables = nn.ParameterDict(
            {name: nn.Parameter(table.contiguous(), requires_grad=False) for name, table in tables.items()}
        )

    def __getitem__(self, name: str) -> Tensor:
        table: Tensor = self.tables[name]
        return table

    def __contains__(self, name: str) -> bool:
        return name in self.tables
