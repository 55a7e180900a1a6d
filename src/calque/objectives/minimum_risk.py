"""Minimum risk training (Shen et al. 2016): what the model says is made better as a whole, not word by word.

Letters: B sentences, K candidates a sentence, N = B·K, T target.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from pydantic import Field
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from torch import Tensor

from calque.config import Config
from calque.data.pair_batch import PairBatch
from calque.models.model import Context, Model
from calque.objectives.cross_entropy import TokenLoss, loss_of
from calque.objectives.decoding_step import MARKS, decoding_step
from calque.search.sampling import Sampling, sample_search
from calque.search.step import Limits
from calque.tensors import select_rows
from calque.text import BOS, EOS, PAD, Tokenizer

Sentence = tuple[int, ...]


class MinimumRiskConfig(Config):
    """The expected risk of translations drawn from the model, mixed with cross-entropy."""

    kind: Literal["minimum-risk"] = "minimum-risk"
    weight: float = Field(default=0.7, gt=0, le=1)
    """λ: how much the risk counts; cross-entropy counts 1 − λ."""
    samples: int = Field(default=20, ge=1)
    """Translations drawn for a sentence; the same one counts once. The paper draws 100."""
    reference: bool = True
    """Whether the reference is one of the candidates too, as in the paper."""
    sharpness: float = Field(default=0.5, gt=0)
    """α: candidates count by their probability to this power; 5e-3 in the paper, where the risk stands alone."""
    metric: Literal["bleu", "chrf"] = "bleu"
    """The risk is 1 − the sentence BLEU (smoothed) or 1 − the chrF of a candidate against the reference."""
    splitting: Literal["13a", "intl", "zh", "char", "none"] = "13a"
    """How BLEU splits text into words: zh or char where words have no spaces between them."""
    longest: float = Field(default=1.5, ge=1)
    """Candidates are cut at so many times the reference's pieces, and five more."""


class Candidates(NamedTuple):
    """Different sentences for each source, padded."""

    inputs: Tensor  # [B,K,T]
    outputs: Tensor  # [B,K,T], PAD where there is nothing to say; all of it where there is no candidate
    risks: Tensor  # [B,K], between 0 and 1
    there: Tensor  # [B,K], whether there is a candidate


Risk = Callable[[Sentence, Sentence], float]
"""(candidate, reference) → its risk."""


def minimum_risk_loss(
    model: Model, batch: PairBatch, *, config: MinimumRiskConfig, risk: Risk, smoothing: float, attention: bool = False
) -> tuple[TokenLoss, Tensor | None]:
    """(1 − λ)·cross-entropy + λ·Σ T·R, T the reference's length and R its sentence's expected risk, and attention.

    The paper counts every sentence once; here each counts by its tokens, as it does in cross-entropy, so that λ means
    the same for every length.
    """
    candidates = draw_candidates(model, batch, config=config, risk=risk)
    context = model.prepare(batch.source)
    output, _ = model.read(batch.target_input, model.start(context), context, attention=attention)
    usual = loss_of(model, output, batch, smoothing=smoothing)
    said = sequence_log_probs(model, context, batch.source.values, candidates)
    risks = expected_risk(said, candidates.risks, candidates.there, sharpness=config.sharpness)
    lengths = batch.target_lengths.to(risks.device, non_blocking=True)
    objective = (1 - config.weight) * usual.objective + config.weight * (lengths * risks).sum()
    return TokenLoss(objective, usual.cross_entropy), output.attention


def expected_risk(log_probs: Tensor, risks: Tensor, there: Tensor, *, sharpness: float) -> Tensor:
    """[B], Σ Q(y)·risk(y) over candidates [B,K] with Q(y) = P(y)^α / Σ P(y′)^α (§3)."""
    shares = (sharpness * log_probs).masked_fill(~there, -torch.inf).softmax(dim=1)
    return (shares * risks).sum(dim=1)


def sequence_log_probs(model: Model, context: Context, source: Tensor, candidates: Candidates) -> Tensor:
    """[B,K], log P(y|x) of every candidate with its end mark; the memory of a sentence is shared by its candidates."""
    sentences, count, _ = candidates.inputs.shape
    rows = torch.arange(sentences, device=source.device).repeat_interleave(count)
    state = select_rows(model.start(context), rows)
    output, _ = model.read(candidates.inputs.flatten(0, 1), state, context)
    losses = model.losses(output, source, candidates.outputs.flatten(0, 1), smoothing=0.0, ignored=PAD)
    return -losses.sum(dim=1).view(sentences, count)


@torch.no_grad()
def draw_candidates(model: Model, batch: PairBatch, *, config: MinimumRiskConfig, risk: Risk) -> Candidates:
    """Translations drawn without dropout, each once, with the reference before them if asked (Algorithm 1)."""
    device = batch.target_input.device
    references = [
        tuple(row[: max(0, length - 1)])
        for row, length in zip(batch.target_output.tolist(), batch.target_lengths.tolist(), strict=True)
    ]
    lengths = batch.target_lengths.to(device)
    maximum = (config.longest * lengths).ceil().long() + 5
    with model.evaluating():
        context = model.prepare(batch.source)
        found = sample_search(
            decoding_step(model),
            model.start(context),
            context,
            sampling=Sampling(),
            draws=config.samples,
            streams=torch.randint(1 << 62, (len(references),)).to(device),
            limits=Limits(maximum + 1, torch.zeros_like(maximum)),  # with the end
            marks=MARKS,
        )
    first = [[reference] if config.reference else [] for reference in references]
    different = [
        list(dict.fromkeys([*before, *(each.tokens for each in drawn)]))
        for before, drawn in zip(first, found, strict=True)
    ]
    risks = [
        [risk(each, reference) for each in sentences]
        for sentences, reference in zip(different, references, strict=True)
    ]
    return collect(different, risks, like=next(model.parameters()))


def collect(sentences: Sequence[Sequence[Sentence]], risks: Sequence[Sequence[float]], *, like: Tensor) -> Candidates:
    """Candidates and their risks in tensors; these are numbers like those of a model."""
    most = max(map(len, sentences))
    size = 1 + max(len(each) for row in sentences for each in row)
    inputs = torch.full((len(sentences), most, size), PAD)
    outputs = inputs.clone()
    values = torch.zeros(len(sentences), most, dtype=like.dtype)
    inputs[..., 0] = BOS
    for row, (each, costs) in enumerate(zip(sentences, risks, strict=True)):
        values[row, : len(costs)] = torch.tensor(costs, dtype=like.dtype)
        for place, tokens in enumerate(each):
            inputs[row, place, 1 : len(tokens) + 1] = torch.tensor(tokens, dtype=torch.long)
            outputs[row, place, : len(tokens) + 1] = torch.tensor([*tokens, EOS])
    there = outputs[..., 0] != PAD
    return Candidates(*(part.to(like.device) for part in (inputs, outputs, values, there)))


def text_risk(config: MinimumRiskConfig, *, tokenizer: Tokenizer) -> Risk:
    """1 − the metric of the texts that ids spell."""
    metric = CHRF() if config.metric == "chrf" else BLEU(effective_order=True, force=True, tokenize=config.splitting)
    size = len(tokenizer.vocabulary)

    def spelled(ids: Sentence) -> str:
        # The words that numbers behind the vocabulary stand for are not kept; a sentence's numbers tell them apart.
        beyond = max((id - size + 1 for id in ids), default=0)
        return tokenizer.decode(ids, unknown=[f"<{number}>" for number in range(beyond)])

    def risk(candidate: Sentence, reference: Sentence) -> float:
        if candidate == reference:
            return 0.0
        return 1 - metric.sentence_score(spelled(candidate), [spelled(reference)]).score / 100

    return risk
