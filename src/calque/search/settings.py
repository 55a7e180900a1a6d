"""The user's search settings."""

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from calque.config import Config

if TYPE_CHECKING:  # preparing data needs these settings, but not torch
    import torch

LARGEST = 2**31 - 1  # upper bound of counts and lengths, above which a tensor of positions would overflow


class SearchConfig(Config):
    """How translations are searched for: beam search, sampling or minimum Bayes risk.

    >>> SearchConfig(beam=10, length_penalty=1.0)
    >>> SearchConfig(method="sample", temperature=0.7, top_p=0.9, seed=3)
    """

    method: Literal["beam", "sample", "risk"] = "beam"
    """beam (beam search), sample (random sampling) or risk (minimum Bayes risk over samples)."""
    beam: int = Field(default=5, ge=1, le=1000)
    """Number of hypotheses kept per step; 1 is greedy search if scores are not normalised."""
    length_penalty: float = Field(default=0.6, ge=0)
    """α: log-probabilities are divided by ((5 + |Y|) / 6)^α (Wu 2016) or by |Y|^α; 0 turns normalisation off."""
    normalisation: Literal["gnmt", "plain"] = "gnmt"
    """The form of the length penalty: gnmt is ((5 + |Y|) / 6)^α, plain is |Y|^α."""
    coverage: float = Field(default=0.0, ge=0)
    """β: coverage penalty β Σ log min(attention, 1) for source positions with little attention (Wu 2016)."""
    end_normalisation: float = Field(default=0.0, ge=0)
    """γ: adds γ |X| / |Y| to the score, which penalises overlong translations; combine it with a length penalty, or the
    empty translation wins. |X| and |Y| are the numbers of pieces of source and translation, end marks included."""
    reward: float = Field(default=0.0, ge=0)
    """Reward added to the score per piece."""
    stopping: Literal["exact", "first", "patience"] = "exact"
    """When search stops. exact: when no better hypothesis is possible; first: when `beam` hypotheses have finished;
    patience: when patience × beam have."""
    patience: float = Field(default=2.0, ge=1, le=1e6)
    """Stop after patience × beam finished hypotheses, with stopping = "patience" (Kasai 2024)."""
    groups: int = Field(default=1, ge=1, le=LARGEST)
    """Diverse beam search: number of groups that the beam is split into (Vijayakumar 2018)."""
    diversity: float = Field(default=0.5, ge=0)
    """Strength of the penalty on tokens that other groups have chosen."""
    no_repeat: int = Field(default=0, ge=0, le=LARGEST)
    """No n-gram of this many pieces may occur twice in a translation; 0 allows repetition."""
    ensemble: Literal["probabilities", "log-probabilities"] = "probabilities"
    """Whether an ensemble averages probabilities or log-probabilities."""
    language_weight: float = Field(default=0.2, ge=0)
    """Weight of a language model at each step (shallow fusion)."""
    channel_weight: float = Field(default=0.5, ge=0)
    """λ: weight of the reverse model in P(x|y)^λ P(y)^μ P(y|x), which reranks n-best lists (noisy channel)."""
    prior_weight: float = Field(default=0.2, ge=0)
    """μ: weight of the language model in noisy-channel reranking."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature; values below 1 make the distribution sharper."""
    top_k: int = Field(default=0, ge=0, le=LARGEST)
    """Sample only from the k most likely pieces; 0 samples from all of them."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Sample only from the most likely pieces with this total probability (nucleus sampling: Holtzman 2020)."""
    min_p: float = Field(default=0.0, ge=0, le=1)
    """Sample only from pieces with at least this fraction of the highest probability."""
    samples: int = Field(default=32, ge=1, le=LARGEST)
    """Number of samples for minimum Bayes risk."""
    utility: Literal["chrf", "bleu"] = "chrf"
    """The similarity metric of minimum Bayes risk."""
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    """Random seed for sampling; the samples for a line depend only on the seed and the line number."""
    shortlist: bool = False
    """Consider only the words of each sentence's lexical shortlist, which `calque shortlist` adds to a model."""
    shortlist_threshold: float = Field(default=0.1, ge=0, le=1)
    """With a shortlist: if the geometric mean of a translation's piece probabilities is below this, search is repeated
    with all words."""
    maximum_ratio: float = Field(default=4.0, gt=0, le=1e6)
    """A translation has at most maximum_ratio × source pieces + maximum_extra pieces, or its minimum if larger."""
    maximum_extra: int = Field(default=20, ge=1, le=LARGEST)
    """See maximum_ratio."""
    learnt_maximum: bool = True
    """Also limit the length of a translation by the training data: about 1.25 × the length that 99.9 % of the training
    targets for sources of this length do not exceed. It saves time, as search need not consider longer translations. It
    has no effect on models that were saved without their training lengths, or if a prefix or a phrase is required."""
    maximum: int | None = Field(default=None, ge=1, le=LARGEST)
    """A translation has at most this many pieces whatever the source length; by default, twice source_limit."""
    minimum: int = Field(default=0, ge=0, le=LARGEST)
    """A translation has at least this many pieces; if minimum and maximum are equal, it has exactly this many."""
    minimum_ratio: float = Field(default=0.0, ge=0, le=1e6)
    """A translation has at least minimum_ratio × source pieces."""
    source_limit: int = Field(default=512, ge=1, le=LARGEST)
    """A longer source is truncated to this many pieces, with a warning."""
    batch_tokens: int | None = Field(default=None, ge=1, le=LARGEST)
    """Padded source positions per batch, fewer for beams or samples above 5; by default 2,000 on a CPU, 4,000 on a GPU.
    It affects speed and memory, not translations."""

    @model_validator(mode="after")
    def _groups_share_the_beam(self) -> Self:
        if self.beam % self.groups:
            raise ValueError(f"beam {self.beam} must be a multiple of groups {self.groups}")
        return self

    @model_validator(mode="after")
    def _lengths_fit(self) -> Self:
        if self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(
                f"minimum {self.minimum} is more than maximum {self.maximum}; lower the minimum or raise the maximum"
            )
        if self.minimum_ratio > self.maximum_ratio:
            raise ValueError(
                f"minimum_ratio {self.minimum_ratio} is more than maximum_ratio {self.maximum_ratio}; "
                "lower the minimum or raise the maximum"
            )
        return self

    @property
    def most(self) -> int:
        """Maximum number of pieces in any translation."""
        return 2 * self.source_limit if self.maximum is None else self.maximum

    @property
    def is_greedy(self) -> bool:
        """Whether greedy search gives the same result: one beam, ranked by log-probability alone."""
        terms = (self.length_penalty, self.coverage, self.end_normalisation, self.reward)
        return self.method == "beam" and self.beam == 1 and not any(terms)


def batch_positions(search: SearchConfig, *, device: "torch.device") -> int:
    """The number of padded source positions per batch: `batch_tokens`, or the default for this device."""
    return search.batch_tokens or (2000 if device.type == "cpu" else 4000)
