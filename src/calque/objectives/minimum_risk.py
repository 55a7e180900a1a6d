"""Minimum risk training (Shen et al. 2016): minimises the expected risk of whole translations.

Letters: B sentences, K candidates per sentence, N = B·K, T target.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from pydantic import Field
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
    """The expected risk of translations sampled from the model, interpolated with cross-entropy."""

    kind: Literal["minimum-risk"] = "minimum-risk"
    weight: float = Field(default=0.7, gt=0, le=1)
    """λ: the weight of the risk; the weight of cross-entropy is 1 − λ."""
    samples: int = Field(default=20, ge=1)
    """Translations sampled per sentence; duplicates count once. The paper samples 100."""
    reference: bool = True
    """Include the reference among the candidates, as in the paper."""
    sharpness: float = Field(default=0.5, gt=0)
    """α: candidates are weighted by their probability to this power; the paper, which uses the risk alone, sets
    5e-3."""
    metric: Literal["bleu", "chrf"] = "bleu"
    """The risk of a candidate is 1 − its smoothed sentence BLEU, or 1 − its chrF, against the reference."""
    splitting: Literal["13a", "intl", "zh", "char", "none"] = "13a"
    """How BLEU splits text into words: zh or char for languages without spaces between words."""
    longest: float = Field(default=1.5, ge=1)
    """A candidate has at most this many times as many pieces as the reference, plus five."""


class Candidates(NamedTuple):
    """Distinct candidates for each source sentence, padded."""

    inputs: Tensor  # [B,K,T]
    outputs: Tensor  # [B,K,T], PAD after the end mark, and everywhere if there is no candidate
    risks: Tensor  # [B,K], between 0 and 1
    mask: Tensor  # [B,K], whether there is a candidate


Risk = Callable[[Sentence, Sentence], float]
"""A function (candidate, reference) → risk, both given as token ids."""


def minimum_risk_loss(
    model: Model, batch: PairBatch, *, config: MinimumRiskConfig, risk: Risk, smoothing: float, attention: bool = False
) -> tuple[TokenLoss, Tensor | None]:
    """The loss of minimum risk training, and the attention over the references if requested.

    It is (1 − λ)·cross-entropy + λ·Σ T·R over the sentences, where R is the expected risk of a sentence's candidates
    and T the length of its reference. The paper weights all sentences equally; here they are weighted by
    their tokens, as in cross-entropy, so that λ means the same for every length.
    """
    candidates = draw_candidates(model, batch, config=config, risk=risk)
    context = model.prepare(batch.source)
    output, _ = model.read(batch.target_input, model.start(context), context, attention=attention)
    loss = loss_of(model, output, batch, smoothing=smoothing)
    log_probs = sequence_log_probs(model, context, batch.source.values, candidates)
    risks = expected_risk(log_probs, candidates.risks, candidates.mask, sharpness=config.sharpness)
    lengths = batch.target_lengths.to(risks.device, non_blocking=True)
    objective = (1 - config.weight) * loss.objective + config.weight * (lengths * risks).sum()
    return TokenLoss(objective, loss.cross_entropy), output.attention


def expected_risk(log_probs: Tensor, risks: Tensor, mask: Tensor, *, sharpness: float) -> Tensor:
    """The expected risk [B] of each sentence, Σ Q(y)·risk(y) over its K candidates, Q(y) = P(y)^α / Σ P(y′)^α (§3)."""
    weights = (sharpness * log_probs).masked_fill(~mask, -torch.inf).softmax(dim=1)
    return (weights * risks).sum(dim=1)


def sequence_log_probs(model: Model, context: Context, source: Tensor, candidates: Candidates) -> Tensor:
    """[B,K], log P(y|x) of every candidate with its end mark; candidates share the encoding of their sentence."""
    sentences, count, _ = candidates.inputs.shape
    rows = torch.arange(sentences, device=source.device).repeat_interleave(count)
    state = select_rows(model.start(context), rows)
    output, _ = model.read(candidates.inputs.flatten(0, 1), state, context)
    losses = model.losses(output, source, candidates.outputs.flatten(0, 1), smoothing=0.0, ignored=PAD)
    return -losses.sum(dim=1).view(sentences, count)


@torch.no_grad()
def draw_candidates(model: Model, batch: PairBatch, *, config: MinimumRiskConfig, risk: Risk) -> Candidates:
    """The reference, if `config.reference`, and distinct translations sampled without dropout (Algorithm 1)."""
    device = batch.target_input.device
    references = [
        tuple(row[: max(0, length - 1)])
        for row, length in zip(batch.target_output.tolist(), batch.target_lengths.tolist(), strict=True)
    ]
    lengths = batch.target_lengths.to(device)
    maximum = (config.longest * lengths).ceil().long() + 5
    with model.evaluating():
        context = model.prepare(batch.source)
        samples = sample_search(
            decoding_step(model),
            model.start(context),
            context,
            sampling=Sampling(),
            draws=config.samples,
            streams=torch.randint(1 << 62, (len(references),)).to(device),
            limits=Limits(maximum + 1, torch.zeros_like(maximum)),  # including the end mark
            marks=MARKS,
        )
    candidates = [
        list(dict.fromkeys([*([reference] if config.reference else []), *(hypothesis.tokens for hypothesis in drawn)]))
        for reference, drawn in zip(references, samples, strict=True)
    ]
    risks = [
        [risk(candidate, reference) for candidate in row] for row, reference in zip(candidates, references, strict=True)
    ]
    return pad_candidates(candidates, risks, like=next(model.parameters()))


def pad_candidates(
    candidates: Sequence[Sequence[Sentence]], risks: Sequence[Sequence[float]], *, like: Tensor
) -> Candidates:
    """Candidates and their risks as tensors on the device of `like`, with risks of its dtype."""
    count = max(map(len, candidates))
    size = 1 + max(len(tokens) for row in candidates for tokens in row)
    inputs = torch.full((len(candidates), count, size), PAD)
    outputs = inputs.clone()
    values = torch.zeros(len(candidates), count, dtype=like.dtype)
    inputs[..., 0] = BOS
    for row, (sentences, costs) in enumerate(zip(candidates, risks, strict=True)):
        values[row, : len(costs)] = torch.tensor(costs, dtype=like.dtype)
        for column, tokens in enumerate(sentences):
            inputs[row, column, 1 : len(tokens) + 1] = torch.tensor(tokens, dtype=torch.long)
            outputs[row, column, : len(tokens) + 1] = torch.tensor([*tokens, EOS])
    mask = outputs[..., 0] != PAD
    return Candidates(*(part.to(like.device) for part in (inputs, outputs, values, mask)))


def text_risk(config: MinimumRiskConfig, *, tokenizer: Tokenizer) -> Risk:
    """The risk function 1 − metric; it decodes candidate and reference from ids to text and compares the texts."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF() if config.metric == "chrf" else BLEU(effective_order=True, force=True, tokenize=config.splitting)
    size = len(tokenizer.vocabulary)

    def decode(ids: Sentence) -> str:
        # Out-of-vocabulary words are not stored: a placeholder with its number represents each of them.
        unknown = max((id - size + 1 for id in ids), default=0)
        return tokenizer.decode(ids, unknown=[f"<{number}>" for number in range(unknown)])

    def risk(candidate: Sentence, reference: Sentence) -> float:
        if candidate == reference:
            return 0.0
        return 1 - metric.sentence_score(decode(candidate), [decode(reference)]).score / 100

    return risk
