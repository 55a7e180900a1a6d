"""How translations are searched for, as a user says it."""

from typing import Literal, Self

from pydantic import Field, model_validator

from calque.config import Config


class SearchConfig(Config):
    """How translations are searched for."""

    method: Literal["beam", "sample", "risk"] = "beam"
    """beam search; sample: drawn at random; risk: of drawn ones, the one most like the others (minimum Bayes risk)."""
    beam: int = Field(default=5, ge=1, le=1000)
    """How many hypotheses are kept a step; 1 is greedy search when nothing is normalised."""
    length_penalty: float = Field(default=0.6, ge=0)
    """α: log-probabilities are divided by ((5 + |Y|) / 6)^α (Wu 2016), or by |Y|^α; 0 leaves them."""
    normalisation: Literal["gnmt", "plain"] = "gnmt"
    """Which of the two."""
    coverage: float = Field(default=0.0, ge=0)
    """β: a translation loses β Σ log min(attention, 1) for source positions it did not look at (Wu 2016)."""
    end_normalisation: float = Field(default=0.0, ge=0)
    """γ: a translation gains γ |X| / |Y| and does not run on; beside a length penalty, as alone the empty is best."""
    reward: float = Field(default=0.0, ge=0)
    """What a translation gains for each piece."""
    stopping: Literal["exact", "first", "patience"] = "exact"
    """exact: until nothing better can come; first: until the beam's number has finished; patience: some times that."""
    patience: float = Field(default=2.0, ge=1)
    """How many times as many, with stopping = "patience" (Kasai 2024)."""
    groups: int = Field(default=1, ge=1)
    """Diverse beam search: the beam is split into so many groups that keep apart (Vijayakumar 2018)."""
    diversity: float = Field(default=0.5, ge=0)
    """How strongly groups are pushed apart."""
    no_repeat: int = Field(default=0, ge=0)
    """No so many pieces in a row stand twice in a translation; 0 lets them."""
    ensemble: Literal["probabilities", "log-probabilities"] = "probabilities"
    """What the mean of several models is taken of."""
    language_weight: float = Field(default=0.2, ge=0)
    """How much a language model beside the translation model counts at each step (shallow fusion)."""
    channel_weight: float = Field(default=0.5, ge=0)
    """λ: how much a reverse model counts in P(x|y)^λ P(y)^μ P(y|x), by which n-best lists are ranked again."""
    prior_weight: float = Field(default=0.2, ge=0)
    """μ: how much a language model counts there."""
    temperature: float = Field(default=1.0, gt=0)
    """Of sampling: below 1 the likely get likelier."""
    top_k: int = Field(default=0, ge=0)
    """Of sampling: only the so many most likely pieces; 0 is all."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Of sampling: only the most likely pieces that together have this share (Holtzman 2020)."""
    min_p: float = Field(default=0.0, ge=0, le=1)
    """Of sampling: only pieces with this share of the most likely one's probability."""
    samples: int = Field(default=32, ge=1)
    """How many translations are drawn for minimum Bayes risk."""
    utility: Literal["chrf", "bleu"] = "chrf"
    """What likeness minimum Bayes risk goes by."""
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    """Of sampling; what is drawn for a line depends on it and on the line's number alone."""
    maximum_ratio: float = Field(default=4.0, gt=0)
    """A translation has at most maximum_ratio × source pieces + maximum_extra pieces, or its minimum if more."""
    maximum_extra: int = Field(default=20, ge=1)
    """See maximum_ratio."""
    maximum: int | None = Field(default=None, ge=1)
    """A translation has at most this many pieces, whatever the source has; else twice as many as source_limit."""
    minimum: int = Field(default=0, ge=0)
    """A translation has at least this many pieces; where this is the maximum too, it has just so many."""
    minimum_ratio: float = Field(default=0.0, ge=0)
    """A translation has at least minimum_ratio × source pieces."""
    source_limit: int = Field(default=512, ge=1)
    """A source with more pieces is cut there, and said to be."""
    batch_tokens: int = Field(default=4000, ge=1)
    """Padded source positions decoded together, fewer for beams and samples over 5; changes the speed, not the text."""

    @model_validator(mode="after")
    def _groups_share_the_beam(self) -> Self:
        if self.beam % self.groups:
            raise ValueError(f"beam {self.beam} must be a multiple of groups {self.groups}")
        return self

    @model_validator(mode="after")
    def _lengths_fit(self) -> Self:
        if self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} is more than maximum {self.maximum}")
        if self.minimum_ratio > self.maximum_ratio:
            raise ValueError(f"minimum_ratio {self.minimum_ratio} is more than maximum_ratio {self.maximum_ratio}")
        return self

    @property
    def most(self) -> int:
        """Pieces that a translation of the longest source has at the most."""
        return 2 * self.source_limit if self.maximum is None else self.maximum

    @property
    def is_greedy(self) -> bool:
        """Whether the best token of every step is the answer: one beam, nothing that ranks otherwise."""
        terms = (self.length_penalty, self.coverage, self.end_normalisation, self.reward)
        return self.method == "beam" and self.beam == 1 and not any(terms)
