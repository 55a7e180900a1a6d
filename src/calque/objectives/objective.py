"""The training objective of translation models: cross-entropy, and published alternatives and additions to it.

All random numbers come from torch's own generator, and no state is kept between steps.
"""

from typing import Annotated, Literal, assert_never

from pydantic import Field
from torch import Tensor

from calque.config import Config
from calque.data.corpora import DataConfig
from calque.data.pair_batch import PairBatch
from calque.data.subword_regularisation import SubwordsConfig
from calque.errors import ConfigError
from calque.models.model import Model, ModelConfig
from calque.objectives.cross_entropy import TokenLoss, loss_of
from calque.objectives.guided_alignment import GuidanceConfig, guidance_loss, guidance_weight
from calque.objectives.minimum_risk import MinimumRiskConfig, minimum_risk_loss, text_risk
from calque.objectives.r_drop import RDropConfig, duplicated, r_drop_loss
from calque.objectives.scheduled_sampling import ScheduledSamplingConfig, draw_gold, gold_probability, read_mixed
from calque.objectives.word_dropout import WordDropoutConfig, drop_words
from calque.text import Tokenizer


class CrossEntropyConfig(Config):
    """The cross-entropy of the reference, which is also what the decoder reads (teacher forcing)."""

    kind: Literal["cross-entropy"] = "cross-entropy"


MethodConfig = Annotated[
    CrossEntropyConfig | ScheduledSamplingConfig | RDropConfig | MinimumRiskConfig, Field(discriminator="kind")
]


class ObjectiveConfig(Config):
    """The objective that training minimises."""

    method: MethodConfig = CrossEntropyConfig()
    """cross-entropy, scheduled-sampling, r-drop or minimum-risk; all of them use training.label_smoothing."""
    word_dropout: WordDropoutConfig = WordDropoutConfig()
    guidance: GuidanceConfig = GuidanceConfig()


def misfits(
    config: ObjectiveConfig,
    *,
    model: ModelConfig,
    data: DataConfig | None = None,
    subwords: SubwordsConfig | None = None,
    sharded: bool = False,
    compiled: bool = False,
) -> list[str]:
    """Error messages, one per conflict of an objective with the model, its data or its training; empty if none."""
    method, kind = config.method.kind, model.decoder.kind
    attention = getattr(model.decoder, "attention", None)
    is_hard = getattr(attention, "choice", "soft") == "hard"
    problems: list[str] = []

    def refuse(setting: str, conflict: str, reason: str) -> None:
        problems.append(f"training.objective.{setting} and {conflict} cannot be combined, as {reason}")

    if method in ("r-drop", "minimum-risk") and is_hard:
        reason = "the probabilities would also depend on the sampled positions"
        refuse(f"method.kind = {method!r}", "model.decoder.attention.choice = 'hard'", reason)
    if method in ("r-drop", "minimum-risk") and model.output.kind == "sampled":
        reason = "this method needs the probabilities of all words"
        refuse(f"method.kind = {method!r}", "model.output.kind = 'sampled'", reason)
    if method in ("scheduled-sampling", "minimum-risk") and sharded:
        reason = "processes that read different numbers of words would wait for each other's weights forever"
        refuse(f"method.kind = {method!r}", "training.sharded", reason)
    if method in ("scheduled-sampling", "minimum-risk") and compiled:
        reason = "this method decodes word by word, which cannot be compiled"
        refuse(f"method.kind = {method!r}", "training.compile", reason)
    if config.word_dropout.source > 0 and model.copies:
        reason = "dropped words cannot be copied"
        refuse(f"word_dropout.source = {config.word_dropout.source}", "model.decoder.copies", reason)
    if config.guidance.weight > 0:
        name = f"guidance.weight = {config.guidance.weight}"
        if kind in ("recurrent", "cho"):
            refuse(name, f"model.decoder.kind = {kind!r}", "that decoder has no attention")
        if is_hard:
            reason = "hard attention reads a single sampled position"
            refuse(name, "model.decoder.attention.choice = 'hard'", reason)
        if data is not None and not data.aligned:
            problems.append(
                f"training.objective.{name} needs word alignments: set --alignments FILE, or alignments in "
                "[[data.train]], to a file in Pharaoh format"
            )
        if subwords is not None and subwords.kind != "fixed":
            refuse(name, f"training.subwords.kind = {subwords.kind!r}", "alignments refer to one fixed segmentation")
    return problems


class Objective:
    """A training objective: computes the loss of a batch at a training step, summed over its target tokens."""

    def __init__(self, config: ObjectiveConfig, *, smoothing: float, tokenizer: Tokenizer | None = None) -> None:
        """`smoothing` is the label smoothing; `tokenizer` is the target's, which only minimum risk needs."""
        self.config = config
        self.smoothing = smoothing
        self.risk = None
        if isinstance(config.method, MinimumRiskConfig):
            if tokenizer is None:
                raise ConfigError(
                    "training.objective.method.kind = 'minimum-risk' compares texts, so Objective needs the tokenizer "
                    "of the target: pass `tokenizer`"
                )
            self.risk = text_risk(config.method, tokenizer=tokenizer)

    @property
    def is_constant(self) -> bool:
        """Whether the objective is the same function at every step, with no work on the host."""
        config = self.config
        is_plain = isinstance(config.method, CrossEntropyConfig | RDropConfig) and config.guidance.weight == 0
        return is_plain and config.word_dropout == WordDropoutConfig()

    def __call__(self, model: Model, batch: PairBatch, *, step: int) -> TokenLoss:
        """The loss of a batch at a training step: the objective to minimise, and the cross-entropy to report."""
        batch = drop_words(batch, self.config.word_dropout)
        weight = guidance_weight(self.config.guidance, step=step) if batch.guide is not None else 0.0
        loss, attention = self._loss(model, batch, step=step, attention=weight > 0)
        if batch.guide is None or attention is None or weight == 0:
            return loss
        guide = batch.guide if len(attention) == len(batch.guide) else duplicated(batch).guide
        assert guide is not None
        guided = guidance_loss(attention, guide) * (len(batch.guide) / len(attention))
        return loss._replace(objective=loss.objective + weight * guided)

    def _loss(self, model: Model, batch: PairBatch, *, step: int, attention: bool) -> tuple[TokenLoss, Tensor | None]:
        """The loss without guided alignment and, if `attention`, the attention [B,T,S] or, with R-Drop, [2B,T,S]."""
        method, smoothing = self.config.method, self.smoothing
        match method:
            case CrossEntropyConfig():
                output = model(batch.source, batch.target_input, attention=attention)
                return loss_of(model, output, batch, smoothing=smoothing), output.attention
            case ScheduledSamplingConfig():
                gold = draw_gold(batch, probability=gold_probability(method, step=step))
                output = read_mixed(model, batch, gold=gold, choice=method.choice, attention=attention)
                return loss_of(model, output, batch, smoothing=smoothing), output.attention
            case RDropConfig():
                doubled = duplicated(batch)
                output = model(doubled.source, doubled.target_input, attention=attention)
                return r_drop_loss(model, output, doubled, smoothing=smoothing, alpha=method.alpha), output.attention
            case MinimumRiskConfig():
                assert self.risk is not None
                return minimum_risk_loss(
                    model, batch, config=method, risk=self.risk, smoothing=smoothing, attention=attention
                )
            case _:
                assert_never(method)
